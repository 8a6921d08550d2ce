#!/usr/bin/env python3
"""Writes unicode_tables.inc: the code points above ASCII that pre-tokenizers tell apart.

    pip install unicodedata2==16.0.0
    python3 make_unicode_tables.py > unicode_tables.inc

The tables are those of Unicode 16.0: the version of the regular expression library that the
reference tokenizers use. With another version the classes of code points that were assigned since
then, and with them token ids, differ from the reference; so the script refuses.
"""

import sys

import unicodedata2 as unicodedata

WANTED = "16.0.0"


def ranges(matches):
    found, start = [], None
    for code_point in range(0x80, 0x110001):
        inside = code_point < 0x110000 and matches(
            unicodedata.category(chr(code_point)), code_point
        )
        if inside and start is None:
            start = code_point
        elif not inside and start is not None:
            found.append((start, code_point - 1))
            start = None
    return found


def write(name, comment, found):
    print(f"// {comment}")
    print(f"constexpr CodePointRange {name}[] = {{")
    for row in range(0, len(found), 4):
        print("    " + " ".join(f"{{0x{a:04X}, 0x{b:04X}}}," for a, b in found[row : row + 4]))
    print("};")


def main():
    if unicodedata.unidata_version != WANTED:
        sys.exit(f"Unicode {unicodedata.unidata_version}, but the tables need {WANTED}")
    print(f"// Made by make_unicode_tables.py from Unicode {WANTED}; do not edit.")
    write("letter_ranges", "General category L*.", ranges(lambda c, _: c[0] == "L"))
    write("number_ranges", "General category N*.", ranges(lambda c, _: c[0] == "N"))
    write(
        "space_ranges",
        "White_Space: Z* and the next-line control.",
        ranges(lambda c, p: c[0] == "Z" or p == 0x85),
    )


if __name__ == "__main__":
    main()
