"""Checks the rooms of src/: imports point down only, files stay short, rules of the house.

Prints one line per finding, exit code 1 if there is any. `layers.py --self-test` checks that
each rule finds what it should.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
# From the top down; a room may use itself and what follows it.
ROOMS = [
    "cli", "daemon", "fuse", "vfs", "fs", "documents", "foreign", "store", "process", "merge", "text", "model",
]
LONGEST = 500
SERVING = set(ROOMS) - {"cli"}


def room_of(path):
    """The room of a file of src/, None for lib.rs and main.rs."""
    first = path.parts[1] if len(path.parts) > 1 else ""
    name = first.removesuffix(".rs")
    return name if name in ROOMS else None


def is_test_file(path):
    name = path.name
    return name in ("tests.rs", "properties.rs") or name.endswith("_tests.rs") or "tests" in path.parts[:-1]


def production(text):
    """The lines before a file's own test module."""
    lines = text.split("\n")
    for number, line in enumerate(lines):
        following = lines[number + 1] if number + 1 < len(lines) else ""
        if line.strip() == "#[cfg(test)]" and re.match(r"\s*mod \w+ \{", following):
            return lines[:number]
    return lines


def findings(path, text):
    room = room_of(path)
    tests = is_test_file(path)
    lines = text.split("\n") if tests else production(text)
    if not tests and len(lines) > LONGEST:
        yield f"{path}: {len(lines)} lines of production code, at most {LONGEST}"
    for number, line in enumerate(lines, 1):
        code = line.split("//", 1)[0]
        at = f"{path}:{number}"
        if room:
            used = set(re.findall(r"\bcrate::(\w+)", code))
            used.update(*(
                re.findall(r"(?:^|[{,]\s*)(\w+)", group)
                for group in re.findall(r"\bcrate::\{(.*)", code)
            ))
            for other in sorted(used & set(ROOMS)):
                if ROOMS.index(other) < ROOMS.index(room):
                    yield f"{at}: {room} uses {other}, which is above it"
            # `fuser=` is the name of its log target.
            if re.search(r"\bfuser\b(?!=)", code) and room != "fuse":
                yield f"{at}: fuser outside src/fuse"
        if tests:
            continue
        if room in SERVING:
            if re.search(r"\.unwrap\(\)|\.expect\(|\bpanic!\(|\bunreachable!\(", code):
                yield f"{at}: may panic on a serving path"
            if re.search(r"\be?print(ln)?!\(", code):
                yield f"{at}: prints outside cli"
            if re.search(r"\bstd::sync::(\{[^}]*\b)?(Mutex|RwLock)\b", code):
                yield f"{at}: parking_lot locks only"
        if re.search(r"\b(todo|unimplemented)!\(", code):
            yield f"{at}: unfinished"


def self_test():
    cases = [
        ("src/model/x.rs", "use crate::store::A;", 1),
        ("src/model/x.rs", "use crate::{store, model};", 1),
        ("src/store/x.rs", "use crate::model::A;", 0),
        ("src/vfs/x.rs", "use fuser::A;", 1),
        ("src/fuse/x.rs", "use fuser::A;", 0),
        ("src/fuse/x.rs", "x.unwrap();", 1),
        ("src/fuse/tests.rs", "x.unwrap();", 0),
        ("src/fuse/x.rs", "#[cfg(test)]\nmod tests {\n x.unwrap();\n}", 0),
        ("src/vfs/x.rs", "println!(\"\");", 1),
        ("src/cli/x.rs", "println!(\"\");", 0),
        ("src/cli/x.rs", "todo!()", 1),
        ("src/cli/x.rs", "\n" * 501, 1),
        ("src/vfs/x.rs", "use std::sync::Mutex;", 1),
        ("src/vfs/x.rs", "// crate::cli is above", 0),
    ]
    for path, text, want in cases:
        got = list(findings(pathlib.PurePosixPath(path), text))
        assert len(got) == want, (path, text, got)


def main():
    self_test()
    if "--self-test" in sys.argv:
        return 0
    bad = 0
    for file in sorted((ROOT / "src").rglob("*.rs")):
        path = file.relative_to(ROOT)
        for finding in findings(pathlib.PurePosixPath(path), file.read_text()):
            print(finding)
            bad += 1
    for file in sorted((ROOT / "mount-tests" / "src").rglob("*.rs")):
        lines = production(file.read_text())
        if len(lines) > LONGEST:
            print(f"{file.relative_to(ROOT)}: {len(lines)} lines, at most {LONGEST}")
            bad += 1
    return 1 if bad else 0


sys.exit(main())
