"""Which build is under test, and how patient tests are with it."""

import os
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("BATON_BUILD_DIR", ROOT / "build/release"))


def sanitizer_of(build: Path) -> str:
    """"", "address" or "thread": what the programs of a build folder are instrumented with."""
    cache = build / "CMakeCache.txt"
    found = re.search(r"^BATON_SANITIZER:\w+=(\w*)$", cache.read_text() if cache.exists() else "",
                      re.MULTILINE)
    return found[1] if found else ""


SANITIZER = sanitizer_of(BUILD)
# UCX's hook on madvise crashes when a thread ends under the thread sanitizer.
SANITIZER_OPTIONS = {"ASAN_OPTIONS": "detect_leaks=1", "UBSAN_OPTIONS": "print_stacktrace=1",
                     "TSAN_OPTIONS": "halt_on_error=1", "UCX_MEM_MMAP_HOOK_MODE": "none"}
# How long a test waits for what has to come. Only a failing test waits that long: a deadline that
# a promise states is measured by a test of its own (fault/test_deadlines.py, fault/test_cancel.py).
PATIENCE_S = 300 if SANITIZER else 60
