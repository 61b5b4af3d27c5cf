#!/usr/bin/env python3
"""Writes tessera/frontend/tokenizer/normal_table.cc: canonical decompositions, classes of marks, and small letters.

usage: tools/normal_table.py
"""
import pathlib
import unicodedata

OUTPUT = pathlib.Path(__file__).resolve().parent.parent / "tessera/frontend/tokenizer/normal_table.cc"
CODES = [code for code in range(0x110000) if not 0xD800 <= code < 0xE000]


def runs(values):
    """[first, last, step, value] of equal values at every code point or every second one."""
    out = []
    for code, value in values:
        if out and out[-1][3] == value:
            first, last, step, _ = out[-1]
            gap = code - last
            if gap == step or (first == last and gap == 2):
                out[-1][1:3] = [code, gap]
                continue
        out.append([code, code, 1, value])
    return out


def wrapped(items):
    lines, line = [], "   "
    for item in items:
        if len(line) + 1 + len(item) > 100:
            lines.append(line)
            line = "   "
        line += " " + item
    return "\n".join(lines + [line])


def main():
    taken_apart, kept_apart = [], []
    for code in CODES:
        parts = unicodedata.decomposition(chr(code))
        if not parts or parts.startswith("<"):
            continue
        first, second = (parts.split() + ["0"])[:2]
        taken_apart.append(f"{{0x{code:x},0x{int(first, 16):x},0x{int(second, 16):x}}},")
        if second != "0" and unicodedata.normalize("NFC", chr(code)) != chr(code):
            kept_apart.append(f"0x{code:x},")
    small = [(c, ord(chr(c).lower()) - c) for c in CODES if len(chr(c).lower()) == 1 and chr(c).lower() != chr(c)]
    marks = [(c, unicodedata.combining(chr(c))) for c in CODES if unicodedata.combining(chr(c))]

    def text(values):
        return wrapped(f"{{0x{a:x},0x{b:x},{step},{value}}}," for a, b, step, value in runs(values))

    OUTPUT.write_text(
        f"// Written by tools/normal_table.py from Unicode {unicodedata.unidata_version}.\n"
        '#include <algorithm>\n\n#include "tessera/frontend/tokenizer/normal.h"\n\n'
        "namespace tessera::tokenizer {\n\n// clang-format off\nnamespace {\n"
        "constexpr Decomposition kDecompositions[] = {\n" + wrapped(taken_apart) + "\n};\n\n"
        "constexpr char32_t kKeptApart[] = {\n" + wrapped(kept_apart) + "\n};\n\n"
        "constexpr ShiftRun kSmall[] = {\n" + text(small) + "\n};\n\n"
        "constexpr ShiftRun kClasses[] = {\n" + text(marks) + "\n};\n"
        "}  // namespace\n// clang-format on\n\n"
        "std::span<const Decomposition> decompositions() { return kDecompositions; }\n"
        "std::span<const ShiftRun> lower_case_shifts() { return kSmall; }\n"
        "std::span<const ShiftRun> combining_classes() { return kClasses; }\n"
        "bool is_composed_again(char32_t code) { return !std::ranges::binary_search(kKeptApart, code); }\n\n"
        "}  // namespace tessera::tokenizer\n")


if __name__ == "__main__":
    main()
