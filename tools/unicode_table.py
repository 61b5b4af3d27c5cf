#!/usr/bin/env python3
"""Writes tessera/frontend/tokenizer/unicode_table.cc: the general category of every code point.

usage: tools/unicode_table.py

Takes the tables of the package unicodedata2 where it is installed, otherwise those of Python.
"""
import pathlib

try:
    import unicodedata2 as unicodedata
except ImportError:
    import unicodedata

ROOT = pathlib.Path(__file__).resolve().parent.parent
OUTPUT = ROOT / "tessera/frontend/tokenizer/unicode_table.cc"
# In the order of `enum class Category`.
CATEGORIES = ("Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf Cs Co Cn").split()


def ranges():
    """The first code point of each run of one category, with the category."""
    before = None
    for code in range(0x110000):
        category = unicodedata.category(chr(code))
        if category != before:
            yield code << 5 | CATEGORIES.index(category)
        before = category


def main():
    words = [f"0x{word:x}," for word in ranges()]
    lines, line = [], "   "
    for word in words:
        if len(line) + 1 + len(word) > 100:
            lines.append(line)
            line = "   "
        line += " " + word
    lines.append(line)
    OUTPUT.write_text(
        f"// Written by tools/unicode_table.py from Unicode {unicodedata.unidata_version}.\n"
        '#include "tessera/frontend/tokenizer/unicode.h"\n\n'
        "namespace tessera::tokenizer {\n\n// clang-format off\n"
        "namespace {\nconstexpr std::uint32_t kRanges[] = {\n" + "\n".join(lines) + "\n};\n}  // namespace\n// clang-format on\n\n"
        "std::span<const std::uint32_t> category_ranges() { return kRanges; }\n\n"
        "}  // namespace tessera::tokenizer\n")


if __name__ == "__main__":
    main()
