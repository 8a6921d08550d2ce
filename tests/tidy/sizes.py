"""Limits on lines, files, headers and functions. ratchet.txt lists what is still over a limit and
by how much; an entry that is a tenth looser than needed is a finding: the list only shrinks."""

import re

from tree import Tree, is_data, is_generated, without_comments

COLUMNS = 100
FILE_LINES, HARD_FILE_LINES = 500, 800
HEADER_LINES = 200
FUNCTION_LINES = 70
LONG_LINE_OK = re.compile(r"https?://|^\s*#include |^#+ |^\|")
CONTAINER = re.compile(
    r"(?:inline\s+)?namespace\b|extern\s+\"|(?:template\s*<.*>\s*)?(?:class|struct|union|enum)\b",
    re.DOTALL)
LABELS = re.compile(r"\s*(?:(?:public|private|protected)\s*:\s*)*")


def read_ratchet(text: str) -> dict[tuple[str, str], int]:
    """Lines "kind limit path" -> {(kind, path): limit}; kind is columns, file, header or
    function."""
    entries = {}
    for line in text.splitlines():
        if line.strip() and not line.startswith("#"):
            kind, limit, path = line.split(maxsplit=2)
            entries[kind, path] = int(limit)
    return entries


def functions_of(text: str):
    """(first line, number of lines) of every function body at namespace or class level; a heuristic
    on braces: what has parentheses before its brace and is no initialiser is a function."""
    code = re.sub(r"^[ \t]*#.*(?:\\\n.*)*$", lambda m: "\n" * m.group(0).count("\n"),
                  without_comments(text, keep_strings=False), flags=re.MULTILINE)
    stack: list[tuple[str, int]] = []
    head_start = 0
    for match in re.finditer(r"[{};]", code):
        symbol, at = match.group(0), match.start()
        if symbol == "{":
            begin = LABELS.match(code, head_start, at).end()
            head = code[begin:at].strip()
            outside = all(kind == "container" for kind, _ in stack)
            if outside and CONTAINER.match(head):
                kind = "container"
            elif outside and "(" in head and not head.endswith("="):
                kind = "function"
            else:
                kind = "other"
            stack.append((kind, code.count("\n", 0, begin) + 1))
        elif symbol == "}" and stack:
            kind, first = stack.pop()
            if kind == "function":
                yield first, code.count("\n", 0, at) + 2 - first
        head_start = at + 1


def is_measured(path: str, text: str) -> bool:
    return bool(text) and not is_data(path) and not is_generated(text)


def columns_of(path: str, text: str) -> tuple[int, int]:
    """(columns of the longest line that counts, its number)"""
    if path.endswith((".yml", ".yaml")):
        return 0, 1
    lengths = [(len(line), number) for number, line in enumerate(text.splitlines(), 1)
               if len(line) > COLUMNS and not LONG_LINE_OK.search(line)]
    return max(lengths, default=(0, 1))


def measures_of(path: str, text: str):
    """(kind, measured, limit, hard limit, line) of everything in a file that has a limit."""
    lines = text.count("\n")
    longest_line, at = columns_of(path, text)
    yield "columns", longest_line, COLUMNS, 2 * COLUMNS, at
    yield "file", lines, FILE_LINES, HARD_FILE_LINES, 1
    if path.endswith(".h"):
        yield "header", lines, HEADER_LINES, FILE_LINES, 1
    if path.endswith((".h", ".cc", ".cu")):
        longest = max(functions_of(text), key=lambda f: f[1], default=None)
        if longest:
            yield "function", longest[1], FUNCTION_LINES, 10 * FUNCTION_LINES, longest[0]


def check_sizes(tree: Tree) -> list[str]:
    ratchet = read_ratchet(tree.files.get("tests/tidy/ratchet.txt", ""))
    findings, used = [], set()
    for path, text in tree.files.items():
        if not is_measured(path, text) or path.endswith((".md", "LICENSE")):
            continue
        for kind, measured, limit, hard, line in measures_of(path, text):
            if measured <= limit:
                continue
            used.add((kind, path))
            granted = min(ratchet.get((kind, path), limit), hard)
            if measured > granted:
                findings.append(f"{path}:{line}: {kind}: {measured}, {granted} are allowed")
            elif measured < 0.9 * granted:
                findings.append(f"{path}:{line}: {kind}: has shrunk to {measured}: lower its "
                                f"entry ({granted}) in tests/tidy/ratchet.txt")
    findings += [f"tests/tidy/ratchet.txt: {kind} {path} needs no entry"
                 for kind, path in ratchet.keys() - used]
    return findings
