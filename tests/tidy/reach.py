"""Nothing in the tree lies dead: every source is in a list of sources, every header is included,
every script and every Python file is named by something that runs or explains it."""

import re

from includes import includes_of
from tree import Tree, is_data


def build_lists(tree: Tree, path: str) -> str:
    """The CMake lists that could name a file: those of its folder and of each folder above."""
    folders = path.split("/")[:-1]
    texts = []
    for depth in range(len(folders), -1, -1):
        folder = "/".join(folders[:depth] + [""]) if depth else ""
        texts += [text for name, text in tree.files.items()
                  if name.startswith(folder) and "/" not in name[len(folder):]
                  and name.endswith(("CMakeLists.txt", ".cmake"))]
    return "\n".join(texts)


def check_sources(tree: Tree) -> list[str]:
    findings = []
    for path in tree.files:
        name = path.rsplit("/", 1)[-1]
        if path.endswith((".cc", ".cu")) and name not in build_lists(tree, path):
            findings.append(f"{path}:1: no CMakeLists.txt names this source")
        if re.fullmatch(r"test_.*\.py", name) and name not in build_lists(tree, path):
            findings.append(f"{path}:1: no CMakeLists.txt registers these tests (baton_pytest)")
    return findings


def check_headers(tree: Tree) -> list[str]:
    included = [include for text in tree.cpp().values() for _, include, _ in includes_of(text)]
    lists = "\n".join(text for path, text in tree.files.items() if path.endswith("CMakeLists.txt"))
    findings = []
    for path in tree.files:
        if not path.endswith((".h", ".inc", ".cuh")):
            continue
        name = path.rsplit("/", 1)[-1]
        if not any(path.endswith("/" + include) for include in included) and name not in lists:
            findings.append(f"{path}:1: nothing includes this header")
    return findings


def check_scripts(tree: Tree) -> list[str]:
    """A Python file or a script is imported, run by another, in a CMake list or in a document."""
    findings = []
    for path, text in tree.files.items():
        name = path.rsplit("/", 1)[-1]
        is_script = path.endswith((".py", ".sh")) or text.startswith("#!")
        if not is_script or is_data(path) or name in ("conftest.py", "__init__.py"):
            continue
        if path == ".ci/run":  # run by the machine that builds
            continue
        stem = name.removesuffix(".py")
        mention = re.compile(rf"(?:\b(?:import|from)\s+(?:[\w.]+\.)?{re.escape(stem)}\b"
                             rf"|import\s+[\w, ]*\b{re.escape(stem)}\b"
                             rf"|[/\s\"'(`]{re.escape(name)}(?:[\s\"')`,:;.]|$))", re.MULTILINE)
        if not any(mention.search(other) for at, other in tree.files.items()
                   if at != path and not is_data(at)):
            findings.append(f"{path}:1: nothing runs, imports or explains this file")
    return findings
