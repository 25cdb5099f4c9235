# SPDX-License-Identifier: Apache-2.0
"""Makes the hidden symbols of a relocatable x86-64 object visible, in place. Tests link the stages as one shared
library of these, where the public library hides all that carries no TENON_API.   usage: open_symbols.py OBJECT"""
import struct
import sys

SYMTAB, HIDDEN = 2, 2
SECTION = struct.Struct('<IIQQQQIIQQ')  # Elf64_Shdr
SYMBOL = struct.Struct('<IBBHQQ')       # Elf64_Sym


def main(path):
    with open(path, 'r+b') as file:
        head = file.read(64)
        if head[:6] != b'\x7fELF\x02\x01':
            sys.exit('open_symbols: %s is no object of 64 bits' % path)
        sections_at, = struct.unpack_from('<Q', head, 40)
        size, count = struct.unpack_from('<HH', head, 58)
        file.seek(sections_at)
        table = file.read(size * count if count else size)
        if count == 0:  # so many that the number stands in the first section
            count = SECTION.unpack_from(table)[5]
            file.seek(sections_at)
            table = file.read(size * count)
        for index in range(count):
            section = SECTION.unpack_from(table, index * size)
            if section[1] != SYMTAB:
                continue
            file.seek(section[4])
            symbols = bytearray(file.read(section[5]))
            for at in range(0, len(symbols), SYMBOL.size):
                if symbols[at + 5] & 3 == HIDDEN:
                    symbols[at + 5] |= 3
            file.seek(section[4])
            file.write(symbols)


main(sys.argv[1])
