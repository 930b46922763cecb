"""Random, structure-aware and mutated checkpoints, and what must hold of each."""

from __future__ import annotations

import io
import random
import resource
import signal
import zipfile
from collections import Counter
from collections.abc import Iterator
from typing import Any

import tdt
from tdt.serialization._names import ALLOWED_GLOBALS
from tests.fuzz.exploits import EXPLOITS, legacy, pickled
from tests.fuzz.pickles import Raw, archive, call, name, outcome, storage, tensor, value

SECONDS = 20  # that one file may take
OPCODES = b"(.0123FIJKLMNPQRSTUVXabcdeghijlopqrstu}]){" + bytes(range(0x80, 0x99)) + b"BCG"
NUMBERS = (
    0,
    1,
    -1,
    2,
    3,
    4,
    7,
    8,
    16,
    255,
    256,
    2**15,
    2**31 - 1,
    2**31,
    2**32,
    2**62,
    2**63 - 1,
    2**63,
    2**70,
    -(2**63),
)
WORDS = (
    "",
    "0",
    "1",
    "storage",
    "cpu",
    "cuda:0",
    "meta",
    "latin1",
    "torch.strided",
    "torch.sparse_coo",
    "torch.sparse_csr",
    "conj",
    "neg",
    "_is_buffer",
    "__class__",
    "__dict__",
    "_a",
    "data",
    "../0",
    "\x1b[0m",
    "\uff45",
)
MODULES = (
    "torch",
    "torch._utils",
    "builtins",
    "__builtin__",
    "os",
    "posix",
    "collections",
    "_codecs",
    "torch.serialization",
    "tdt.serialization",
    "functools",
    "operator",
    "copyreg",
    "numpy",
    "sys",
)
ATTRIBUTES = (
    "eval",
    "exec",
    "getattr",
    "system",
    "partial",
    "attrgetter",
    "__builtins__",
    "__import__",
    "_rebuild_tensor_v2",
    "Tensor",
    "modules",
    "dict",
    "list",
    "type",
    "object",
    "__class__.__base__",
    "load",
    "Size.__new__",
)
KINDS = (
    "FloatStorage",
    "LongStorage",
    "BoolStorage",
    "ByteStorage",
    "ComplexFloatStorage",
    "HalfStorage",
    "UntypedStorage",
)


class Maker:
    """Makes files from a seed."""

    def __init__(self, seed: int):
        self.random = random.Random(seed)
        self.seeds = [*_saved(), *_pickles_of_exploits()]

    def files(self) -> Iterator[bytes]:
        """Files without end."""
        makers = (self.structured, self.structured, self.mutated, self.mutated, self.opcodes, self.spliced)
        while True:
            text = self.random.choice(makers)()
            where = self.random.random()
            if where < 0.8:
                yield archive(text, self.entries(), self.random.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)))
            elif where < 0.9:
                rest = b"".join((16 // size).to_bytes(8, "little") + bytes(range(16)) for size in (1, 4))
                yield legacy(text, pickled(value([self.word()])), rest=rest)
            else:
                yield self.changed(archive(text, self.entries()), self.random.randint(1, 4))

    def entries(self) -> dict[str, bytes]:
        """Storages of random bytes."""
        return {str(key): self.random.randbytes(self.random.choice((0, 8, 16, 64))) for key in range(3)}

    def mutated(self) -> bytes:
        """A known pickle with changes."""
        return self.changed(self.random.choice(self.seeds), self.random.choice((1, 1, 2, 3, 8)))

    def changed(self, data: bytes, times: int) -> bytes:
        """`data` with bytes, opcodes or stretches flipped, put in, taken out, doubled or moved."""
        mutated, pick = bytearray(data), self.random
        for _ in range(times):
            at, size = pick.randrange(len(mutated) + 1), pick.choice((1, 1, 2, 4, 16))
            what = pick.randrange(6)
            if what == 0:
                mutated[at : at + 1] = bytes([pick.randrange(256)])
            elif what == 1:
                mutated[at:at] = bytes([pick.choice(OPCODES)])
            elif what == 2:
                del mutated[at : at + size]
            elif what == 3:
                mutated[at:at] = mutated[at : at + size]
            elif what == 4:
                mutated[at:at] = self.any(1)
            else:
                there = pick.randrange(len(mutated) + 1)
                mutated[at : at + size] = mutated[there : there + size]
        return bytes(mutated)

    def spliced(self) -> bytes:
        """The head of one pickle with the tail of another."""
        one, two = self.random.choice(self.seeds), self.random.choice(self.seeds)
        return one[: self.random.randrange(len(one) + 1)] + two[self.random.randrange(len(two) + 1) :]

    def opcodes(self) -> bytes:
        """Opcodes and values in any order."""
        parts = (bytes([self.random.choice(OPCODES)]) if self.random.random() < 0.6 else self.any(1) for _ in range(30))
        return b"\x80\x02" + b"".join(parts) + b"."

    def structured(self) -> bytes:
        """A well-formed pickle of values, calls, storages and tensors, some of them wrong."""
        return pickled(
            self.any(4)
            + (
                self.any(2) + self.random.choice((b"b", b"a", b"R", b"\x81", b"\x86", b""))
                if self.random.random() < 0.5
                else b""
            )
        )

    def word(self) -> str:
        """A text that means something somewhere."""
        return self.random.choice(WORDS)

    def any(self, depth: int) -> bytes:
        """The opcodes of a random value."""
        pick = self.random
        kind = pick.randrange(10 if depth > 0 else 4)
        if kind == 0:
            return value(pick.choice(NUMBERS))
        if kind == 1:
            return value(self.word())
        if kind == 2:
            return value(pick.choice((None, True, False, 0.5, b"ab", float("nan"))))
        if kind == 3:
            return self.named()
        if kind in (4, 5):
            items = [Raw(self.any(depth - 1)) for _ in range(pick.randrange(4))]
            return value(tuple(items) if kind == 4 else items)
        if kind == 6:
            return value({self.word(): Raw(self.any(depth - 1)) for _ in range(pick.randrange(3))})
        if kind == 7:
            return call(self.named(), *(Raw(self.any(depth - 1)) for _ in range(pick.choice((0, 1, 1, 2, 4)))))
        return self.part(depth) if kind == 8 else self.tensor(depth)

    def named(self) -> bytes:
        """A name: one that is offered, or one that must not be."""
        full = self.random.choice(list(ALLOWED_GLOBALS))
        module, _, word = full.rpartition(".")
        if self.random.random() < 0.2:
            module, word = self.random.choice(MODULES), self.random.choice(ATTRIBUTES)
        return name(module, word) if self.random.random() < 0.7 else value(module) + value(word) + b"\x93"

    def part(self, depth: int) -> bytes:
        """A storage."""
        pick = self.random
        return storage(
            pick.choice(KINDS),
            pick.choice(("0", "1", "2", self.word())),
            pick.choice((1, 2, 4, pick.choice(NUMBERS))),
            pick.choice(("cpu", "cpu", self.word())),
        )

    def tensor(self, depth: int) -> bytes:
        """A tensor, sparse at times, with sizes that fit or do not."""
        pick = self.random
        dims = pick.randrange(4)
        size, stride = (
            tuple(pick.choice((0, 1, 1, 2, 4, pick.choice(NUMBERS))) for _ in range(dims)) for _ in range(2)
        )
        built = tensor(
            Raw(self.part(depth)), pick.choice((0, 0, 1, pick.choice(NUMBERS))), size, stride, pick.random() < 0.2, None
        )
        what = pick.randrange(6)
        if what == 0:
            layout = call(
                name("torch.serialization", "_get_layout"),
                pick.choice(("torch.sparse_coo", "torch.sparse_csr", self.word())),
            )
            parts = [Raw(self.tensor(depth - 1) if depth > 0 else built) for _ in range(pick.choice((2, 3)))]
            return call(name("torch._utils", "_rebuild_sparse_tensor"), layout, (*parts, size, pick.random() < 0.5))
        if what == 1:
            return call(
                name("torch._utils", "_rebuild_parameter_with_state"),
                built,
                False,
                None,
                {self.word(): Raw(self.any(depth - 1))},
            )
        return built


def _saved() -> Iterator[bytes]:
    """Pickles that tdt writes."""
    x = tdt.arange(4.0)
    x.note = [1]
    things: list[Any] = [
        {
            "w": x,
            "t": x.view(2, 2).t(),
            "p": tdt.nn.Parameter(x.clone()),
            "i": tdt.arange(4),
            "size": x.shape,
            "half": x.half(),
        },
        [tdt.eye(2).to_sparse(), tdt.eye(2).to_sparse_csr(), x.to("meta"), tdt.strided, tdt.float16, tdt.device("cpu")],
        {
            "set": {1, 2},
            "bytes": b"\xff",
            "array": bytearray(b"q"),
            "complex": 1j,
            "counter": Counter("aab"),
            "deep": [[[()]]],
        },
        tdt.nn.Linear(2, 2).state_dict(),
    ]
    for thing in things:
        for protocol in (2, 4):
            file = io.BytesIO()
            tdt.save(thing, file, pickle_protocol=protocol)
            with zipfile.ZipFile(file) as zipped:
                yield zipped.read("archive/data.pkl")


def _pickles_of_exploits() -> Iterator[bytes]:
    """The small pickles of the attempts written by hand."""
    for data in EXPLOITS.values():
        if isinstance(data, bytes) and len(data) < 3000:
            try:
                with zipfile.ZipFile(io.BytesIO(data)) as zipped:
                    yield zipped.read("archive/data.pkl")
            except (zipfile.BadZipFile, KeyError, RuntimeError, NotImplementedError, EOFError, OSError, ValueError):
                continue


def campaign(count: int, seed: int, mebibytes: int = 1024) -> Counter[str]:
    """Load `count` files; how many loaded, and how many were refused by which beginning of a message.

    Raises:
        AssertionError: a file ran code, changed a module, took over 20 seconds or more memory than `mebibytes` over today's,
            gave a tensor outside its storage, or was refused by another class of exception than `load` documents.
    """
    messages: Counter[str] = Counter()
    files = Maker(seed).files()

    def late(number: int, frame: Any) -> None:
        raise AssertionError(f"it took over {SECONDS} seconds")

    old, limits = signal.signal(signal.SIGALRM, late), resource.getrlimit(resource.RLIMIT_AS)
    with open("/proc/self/statm") as file:
        now = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (now + (mebibytes << 20), limits[1]))
    try:
        for number in range(count):
            data = next(files)
            signal.alarm(SECONDS)
            try:
                message = outcome(data)
            except BaseException as error:
                raise AssertionError(
                    f"seed {seed}, file {number}: {type(error).__name__}: {error}\n{data!r}"
                ) from error
            finally:
                signal.alarm(0)
            messages[" ".join(message.split()[:7])] += 1
    finally:
        signal.signal(signal.SIGALRM, old)
        resource.setrlimit(resource.RLIMIT_AS, limits)
    return messages
