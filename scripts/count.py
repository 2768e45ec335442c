"""Prints `N passed, N failed, N skipped` from a JUnit report, and names what was flaky.

usage: count.py REPORT
"""
import sys
import xml.etree.ElementTree as tree


def main():
    try:
        root = tree.parse(sys.argv[1]).getroot()
    except (OSError, tree.ParseError) as error:
        print(f"no report of the tests: {error}", file=sys.stderr)
        print("0 passed, 1 failed, 0 skipped")
        return 1
    passed = failed = skipped = 0
    for case in root.iter("testcase"):
        if case.find("failure") is not None or case.find("error") is not None:
            failed += 1
        elif case.find("skipped") is not None:
            skipped += 1
        else:
            passed += 1
            retries = len(case.findall("flakyFailure")) + len(case.findall("flakyError"))
            if retries:
                name = f"{case.get('classname')} {case.get('name')}"
                print(f"flaky: {name} passed at attempt {retries + 1}", file=sys.stderr)
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed or not passed else 0


sys.exit(main())
