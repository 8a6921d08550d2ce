"""Runs ctest and prints what its own closing lines leave out: why each skipped test was skipped.

ctest counts skips among the passed and shows their reasons only with -V. Its closing lines, which
say how many tests passed, are held back and come last.

usage: run_ctest.py BUILD_FOLDER [CTEST_ARGUMENT]...
"""

import re
import subprocess
import sys
import xml.etree.ElementTree as xml
from pathlib import Path

CLOSING = re.compile(r"^\d+% tests passed|^No tests were found")
GTEST_REASON = re.compile(r": Skipped\n(.*)")
PYTEST_REASON = re.compile(r"^SKIPPED \[\d+\] (.*)$", re.MULTILINE)


def skip_reasons(report: str) -> list[tuple[str, str]]:
    """(test, reason) for everything that a JUnit report of ctest says was skipped."""
    reasons = []
    for case in xml.fromstring(report).iter("testcase"):
        output = case.findtext("system-out") or ""
        found = PYTEST_REASON.findall(output)
        if case.find("skipped") is not None and not found:
            found = [text.strip() for text in GTEST_REASON.findall(output) if text.strip()]
            found = found or ["no reason given"]
        reasons += [(case.get("name", "?"), reason) for reason in found]
    return reasons


def print_reasons(reasons: list[tuple[str, str]]) -> None:
    if not reasons:
        print("\nNo test was skipped.")
        return
    by_reason: dict[str, list[str]] = {}
    for test, reason in reasons:
        by_reason.setdefault(reason, []).append(test)
    print(f"\nSkipped ({len(reasons)}), by reason:")
    for reason, tests in by_reason.items():
        print(f"  {reason}")
        for test in tests[:5]:
            print(f"    {test}")
        if len(tests) > 5:
            print(f"    and {len(tests) - 5} more")


def main() -> int:
    build, arguments = Path(sys.argv[1]).resolve(), sys.argv[2:]
    report = build / "ctest.xml"
    report.unlink(missing_ok=True)
    command = ["ctest", "--test-dir", str(build), "--output-on-failure", "--no-tests=error",
               "--output-junit", str(report), "--test-output-size-passed", "200000", *arguments]
    held: list[str] = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, errors="replace") as ctest:
        for line in ctest.stdout:
            if held or CLOSING.match(line):
                held.append(line)
            else:
                print(line, end="", flush=True)
    if report.exists():
        print_reasons(skip_reasons(report.read_text(errors="replace")))
    print("".join(held), end="", flush=True)
    return ctest.returncode


if __name__ == "__main__":
    sys.exit(main())
