"""What a cubin, the ELF file that NVRTC compiles, says of its kernels: parameters, registers, shared memory, threads."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field

SECTION, SYMBOL = struct.Struct("<IIQQQQIIQQ"), struct.Struct("<IBBHQQ")
FUNCTION = 2  # of symbols: their type
PARAMETER, THREADS, REGISTERS, FRAME = 0x17, 0x05, 0x2F, 0x11  # attributes of a section .nv.info
# From compute capability 9.0 on, a section of shared memory begins with what CUDA itself takes, beyond what a block may have.
RESERVED, BY_CUDA = ".nv.shared.reserved.0", 1024
LONG = 4  # attributes whose value follows, with its length ahead of it


@dataclass
class Kernel:
    """Limits and parameters of a compiled kernel.

    Attributes:
        parameters: (offset, bytes) of each, in order.
        frame: bytes of memory that each thread has for what its registers do not hold.
        shared: bytes of shared memory that its own variables take.
        threads: the most in a block, where `__launch_bounds__` says so; else 1,024.
    """

    name: str
    parameters: list[tuple[int, int]] = field(default_factory=list)
    registers: int = 0
    frame: int = 0
    shared: int = 0
    threads: int = 1024


def kernels(cubin: bytes) -> dict[str, Kernel]:
    """All kernels by name."""
    sections = dict(_sections(cubin))
    symbols = list(_symbols(cubin, sections))
    found = {name[6:]: Kernel(name[6:]) for name in sections if name.startswith(".text.")}
    for name, kernel in found.items():
        places: dict[int, tuple[int, int]] = {}
        for attribute, value in _attributes(cubin, sections.get(f".nv.info.{name}")):
            if attribute == PARAMETER:
                _, ordinal, offset, flags = struct.unpack("<IHHI", value)
                places[ordinal] = offset, flags >> 18
            elif attribute == THREADS:
                kernel.threads = struct.unpack_from("<I", value)[0]
        kernel.parameters = [places[k] for k in sorted(places)]
        if (shared := sections.get(f".nv.shared.{name}")) is not None:
            kernel.shared = shared[5] - (BY_CUDA if RESERVED in sections else 0)
    for attribute, value in _attributes(cubin, sections.get(".nv.info")):
        if attribute in (REGISTERS, FRAME):
            symbol, number = struct.unpack("<II", value)
            if symbols[symbol] in found:
                setattr(found[symbols[symbol]], "registers" if attribute == REGISTERS else "frame", number)
    return found


def _sections(elf: bytes) -> Iterator[tuple[str, tuple]]:
    """(name, header) of each section; of the header 4 is the offset, 5 the size, 6 the section that it refers to."""
    start, size, count, names = struct.unpack_from("<Q", elf, 40) + struct.unpack_from("<HHH", elf, 58)
    headers = [SECTION.unpack_from(elf, start + k * size) for k in range(count)]
    for header in headers:
        yield _text(elf, headers[names][4] + header[0]), header


def _symbols(elf: bytes, sections: dict[str, tuple]) -> Iterator[str]:
    start, size = sections[".symtab"][4:6]
    for at in range(start, start + size, SYMBOL.size):
        yield _text(elf, sections[".strtab"][4] + SYMBOL.unpack_from(elf, at)[0])


def _attributes(elf: bytes, section: tuple | None) -> Iterator[tuple[int, bytes]]:
    """(attribute, value) of those of a section .nv.info whose values are longer than two bytes."""
    at, end = (section[4], section[4] + section[5]) if section else (0, 0)
    while at < end:
        form, attribute, length = struct.unpack_from("<BBH", elf, at)
        at += 4
        if form == LONG:
            yield attribute, elf[at : at + length]
            at += length


def _text(elf: bytes, at: int) -> str:
    return elf[at : elf.index(b"\0", at)].decode()


def symbols_of(library: bytes, table: str) -> Iterator[tuple[str, int, int]]:
    """(name, address, section) of the functions in a symbol table of a shared library, .symtab or .dynsym."""
    sections = dict(_sections(library))
    start, size = sections[table][4:6]
    names = sections[".strtab" if table == ".symtab" else ".dynstr"][4]
    for at in range(start, start + size, SYMBOL.size):
        name, info, _, section, address, _ = SYMBOL.unpack_from(library, at)
        if info & 15 in (0, FUNCTION):
            yield _text(library, names + name), address, section


def size_of(header: bytes) -> int:
    """How many bytes an ELF file has, by its first 64: its table of sections stands at the end."""
    start, size, count = struct.unpack_from("<Q", header, 40) + struct.unpack_from("<HH", header, 58)
    return start + size * count
