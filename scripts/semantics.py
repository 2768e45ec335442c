"""Checks docs/SEMANTICS.md: every promise names at least one test, and every named test exists.

A promise is a list item (`- …`) under a heading, up to the next item; tests are named in it as
`file::test_name` in backticks after `Proof:`. The section "Not there yet" promises nothing.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent


def tests():
    """All tests as `module::name`, with the name of the file or of its directory as module."""
    known = set()
    for base in ("src", "tests", "mount-tests/tests", "mount-tests/src"):
        for file in (ROOT / base).rglob("*.rs"):
            text = file.read_text()
            module = file.stem if file.stem not in ("mod", "tests", "main") else file.parent.name
            for name in re.findall(r"#\[test\](?:\s*#\[[^\]]*\])*\s*fn (\w+)", text):
                known.add(f"{module}::{name}")
            # proptest! { #[test] fn name(args) } is covered by the same pattern.
    return known


def main():
    page = ROOT / "docs" / "SEMANTICS.md"
    known = tests()
    section, item, start = "", None, 0
    items = []
    for number, line in enumerate(page.read_text().split("\n"), 1):
        heading = re.match(r"#+ (.*)", line)
        if heading or line.startswith("- "):
            if item is not None:
                items.append((section, start, item))
            item = None
        if heading:
            section = heading.group(1)
        elif line.startswith("- "):
            item, start = line, number
        elif item is not None:
            if line.startswith("  ") or not line.strip():
                item += "\n" + line
            else:
                items.append((section, start, item))
                item = None
    if item is not None:
        items.append((section, start, item))
    bad = count = 0
    for section, number, text in items:
        if section == "Not there yet":
            continue
        count += 1
        proof = text.split("Proof:", 1)
        named = re.findall(r"`(\w+::\w+)`", proof[1]) if len(proof) == 2 else []
        if not named:
            print(f"docs/SEMANTICS.md:{number}: names no test: {text.splitlines()[0]}")
            bad += 1
        for name in named:
            if name not in known:
                print(f"docs/SEMANTICS.md:{number}: there is no test {name}")
                bad += 1
    if count < 30:
        print(f"docs/SEMANTICS.md: only {count} promises found: is the page in its usual form?")
        bad += 1
    return 1 if bad else 0


sys.exit(main())
