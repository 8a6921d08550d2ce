"""Words that do not belong into the tree."""

import re

from tree import Tree, is_data, line_of

# Written so that this file does not find itself.
UNFINISHED = re.compile(r"\b(?:TO" r"DO|FIX" r"ME|X" r"XX|HA" r"CK)\b")
# Places that exist on one machine only: what names them works nowhere else.
PRIVATE_PLACES = re.compile(r"(?<![\w.])/wo" r"rk/|\.libr" r"ary\b|/tm" r"p/wt|/ho" r"me/\w+/")


def check_words(tree: Tree) -> list[str]:
    findings = []
    for path, text in tree.files.items():
        for pattern, what in ((UNFINISHED, "unfinished work is an issue, not a comment"),
                              (PRIVATE_PLACES, "names a place of one machine")):
            if pattern is UNFINISHED and is_data(path):
                continue
            for match in pattern.finditer(text):
                findings.append(f"{path}:{line_of(text, match.start())}: {match.group(0)}: {what}")
    return findings
