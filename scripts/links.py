"""Checks the links between our own pages: files that are linked exist, headings too.

Also finds paths in backticks that look like files of the repository and are not there.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent


def anchors(text):
    found = set()
    for heading in re.findall(r"^#+ (.*)$", text, re.M):
        plain = re.sub(r"[`*_]", "", heading).lower()
        found.add(re.sub(r"[^\w\- ]", "", plain).strip().replace(" ", "-"))
    return found


def main():
    bad = 0
    pages = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]
    for page in pages:
        name = page.relative_to(ROOT)
        if not page.exists():
            print(f"{name} is missing")
            bad += 1
            continue
        text = page.read_text()
        prose = re.sub(r"```.*?```", "", text, flags=re.S)
        for target in re.findall(r"\]\(([^)\s]+)\)", prose):
            if re.match(r"[a-z]+:", target):
                continue
            path, _, anchor = target.partition("#")
            file = (page.parent / path).resolve() if path else page
            if not file.exists():
                print(f"{name}: {target} does not exist")
                bad += 1
            elif anchor and file.suffix == ".md" and anchor not in anchors(file.read_text()):
                print(f"{name}: no heading for {target}")
                bad += 1
        for target in re.findall(r"`((?:src|docs|scripts|mount-tests)/[\w./-]+)`", prose):
            if not (ROOT / target).exists():
                print(f"{name}: `{target}` does not exist")
                bad += 1
    return 1 if bad else 0


sys.exit(main())
