#!/usr/bin/env python3
"""The comparison notices what it must: other code, other constants, other calls; and not other names."""
import struct
import sys
import unittest

import same_kernels


def elf(sections, symbols, relocations):
    """A minimal object: sections [(name, bytes)], symbols [(name, kind, section, value)], relocations of section 1."""
    names = b"\0"
    offsets = {}
    for name in [s[0] for s in sections] + [".symtab", ".strtab", ".rela"]:
        offsets[name] = len(names)
        names += name.encode() + b"\0"
    strings = b"\0"
    table = b"\0" * 24
    for name, kind, section, value in symbols:
        table += struct.pack("<IBBHQQ", len(strings), kind, 0, section, value, 8)
        strings += name.encode() + b"\0"
    rela = b"".join(struct.pack("<QQq", at, (symbol << 32) | kind, addend) for at, symbol, kind, addend in relocations)
    count = len(sections)
    parts = [(n, 1, d, 0, 0) for n, d in sections]
    parts += [(".symtab", 2, table, count + 2, 0), (".strtab", 3, strings + names, 0, 0), (".rela", 4, rela, count + 1, 1)]
    body, headers = b"", struct.pack("<IIQQQQIIQQ", 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
    for name, kind, data, link, info in parts:
        headers += struct.pack("<IIQQQQIIQQ", len(strings) + offsets[name], kind, 0, 0, 64 + len(body), len(data), link, info, 1, 0)
        body += data
    head = b"\x7fELF\x02\x01" + b"\0" * 34 + struct.pack("<Q", 64 + len(body)) + b"\0" * 10
    head += struct.pack("<HHH", 64, len(parts) + 1, count + 2)
    return same_kernels.Elf(head.ljust(64, b"\0") + body + headers)


def kernel(code=b"\x90" * 8, constant=b"1234", callee="expf", prefix="model"):
    symbols = [(f"{prefix}_kernel0", 2, 1, 0), (".rodata", 3, 2, 0), (callee, 0, 0, 0)]
    found = same_kernels.cpu_kernels(
        elf([(".text", code), (".rodata", constant)], symbols, [(0, 2, 1, 0), (4, 3, 4, -4)])
    )
    assert len(found) == 1
    return found[0]


class SameKernels(unittest.TestCase):
    def test_names_of_models_do_not_count(self):
        self.assertEqual(kernel(), kernel(prefix="other_net"))

    def test_code_constants_and_calls_count(self):
        for other in (kernel(code=b"\x90" * 7 + b"\xc3"), kernel(constant=b"1235"), kernel(callee="logf")):
            self.assertNotEqual(kernel(), other)


if __name__ == "__main__":
    sys.exit(unittest.main())
