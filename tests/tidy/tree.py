"""The files of the repository as the rules see them: path -> text, with C++ comments cut out on
demand. A rule is a function from a Tree to findings ("path:line: what is wrong")."""

import re
from functools import lru_cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SKIPPED_FOLDERS = {"build", ".git", ".venv", "__pycache__", ".pytest_cache", "shared"}
CPP_SUFFIXES = (".h", ".cc", ".cu", ".cuh", ".inc")


class Tree:
    """Texts by path, relative to the root, with forward slashes. Binary files have the text ''."""

    def __init__(self, files: dict[str, str]):
        self.files = files

    @staticmethod
    def of_disk(root: Path = ROOT) -> "Tree":
        files = {}
        for path in sorted(root.rglob("*")):
            parts = path.relative_to(root).parts
            if path.is_file() and not SKIPPED_FOLDERS.intersection(parts):
                try:
                    files["/".join(parts)] = path.read_text(encoding="utf-8")
                except UnicodeDecodeError:
                    files["/".join(parts)] = ""
        return Tree(files)

    def cpp(self) -> dict[str, str]:
        return {path: text for path, text in self.files.items() if path.endswith(CPP_SUFFIXES)}


def is_data(path: str) -> bool:
    """Fixtures and locked lists: made by programs, read by programs."""
    if path.endswith((*CPP_SUFFIXES, ".py", ".sh", ".md", "CMakeLists.txt")):
        return False
    return (path.startswith(("tests/golden/", "tests/fuzz/corpus/")) or "/data/" in path
            or path.endswith(("requirements.txt", ".json", ".svg", ".jsonl", ".tsv", ".gguf")))


def is_generated(text: str) -> bool:
    """A source that a committed script has made says so in its first line, and which script."""
    first_line = text.split("\n", 1)[0]
    return "Made by " in first_line and ".py" in first_line


@lru_cache(maxsize=None)
def without_comments(text: str, keep_strings: bool = True) -> str:
    """C++ text with comments (and strings, if asked) blanked; line numbers stay."""
    token = re.compile(
        r'//[^\n]*|/\*.*?\*/|R"(?P<tag>[^\s()\\]{0,16})\(.*?\)(?P=tag)"'
        r'|"(?:\\.|[^"\\\n])*"|(?<![0-9a-fA-F])\'(?:\\.|[^\'\\\n])+\'', re.DOTALL)

    def blank(match: re.Match) -> str:
        found = match.group(0)
        if not found.startswith("/"):
            if keep_strings:
                return found
            return '""' + "\n" * found.count("\n")
        return " " + "\n" * found.count("\n")

    return token.sub(blank, text)


def line_of(text: str, offset: int) -> int:
    return text.count("\n", 0, offset) + 1
