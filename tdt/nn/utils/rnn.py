"""Batches of sequences of different lengths: padded to one length, or packed without padding."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, Self

import numpy as np

from tdt._core.creation import full, tensor
from tdt._core.dtype import double, float32, half, int8, int16, int32, int64, long, uint8
from tdt._core.tensor import Tensor, wrap
from tdt._ops.nn.pad import pad
from tdt._ops.shape.join import cat, stack, unrecorded_arrays
from tdt.nn._types import Device


class _Packed(NamedTuple):
    data: Tensor
    batch_sizes: Tensor
    sorted_indices: Tensor | None = None
    unsorted_indices: Tensor | None = None


class PackedSequence(_Packed):
    """Sequences without padding: all first elements, then all second ones, …; made by `pack_padded_sequence`.

    data: (elements of all sequences, *). batch_sizes: how many sequences have an element at each step; on the CPU.
    sorted_indices: the sequences' places before they were sorted by length; unsorted_indices: the way back. Either is None
    where they were not. ValueError for batch_sizes elsewhere than on the CPU.

    >>> import tdt
    >>> tdt.nn.utils.rnn.pack_sequence([tdt.tensor([1, 2, 3]), tdt.tensor([4])]).data
    tensor([1, 4, 2, 3])
    """

    __slots__ = ()

    def __new__(cls, data: Any, batch_sizes: Tensor | None = None, sorted_indices: Tensor | None = None,
                unsorted_indices: Tensor | None = None) -> Self:  # fmt: skip
        if batch_sizes is None:
            if not (isinstance(data, list | tuple) and len(data) == 2):
                raise AssertionError("Expected data to be a list or tuple of length 2")
            data, batch_sizes = data
        elif batch_sizes.device.type != "cpu":
            raise ValueError("batch_sizes should always be on CPU. Use pack_sequence or pack_padded_sequence.")
        if unsorted_indices is None:
            unsorted_indices = invert_permutation(sorted_indices)
        return super().__new__(cls, data, batch_sizes, sorted_indices, unsorted_indices)

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """The same with `data` converted as by `Tensor.to`, the indices beside it; itself where nothing changes."""
        data = self.data.to(*args, **kwargs)
        if data is self.data:
            return self
        indices = [None if t is None else t.to(data.device) for t in self[2:]]
        return type(self)(data, self.batch_sizes, *indices)

    def cpu(self) -> Self:
        """The same on the CPU."""
        return self.to(device="cpu")

    def cuda(self, device: Device = "cuda") -> Self:
        """The same on a GPU."""
        return self.to(device=device)

    @property
    def is_cuda(self) -> bool:
        """Whether `data` is on a GPU."""
        return self.data.is_cuda

    def double(self) -> Self:
        """The same with float64 data."""
        return self.to(dtype=double)

    def float(self) -> Self:
        """The same with float32 data."""
        return self.to(dtype=float32)

    def half(self) -> Self:
        """The same with float16 data."""
        return self.to(dtype=half)

    def long(self) -> Self:
        """The same with int64 data."""
        return self.to(dtype=long)

    def int(self) -> Self:
        """The same with int32 data."""
        return self.to(dtype=int32)

    def short(self) -> Self:
        """The same with int16 data."""
        return self.to(dtype=int16)

    def char(self) -> Self:
        """The same with int8 data."""
        return self.to(dtype=int8)

    def byte(self) -> Self:
        """The same with uint8 data."""
        return self.to(dtype=uint8)


def invert_permutation(permutation: Tensor | None) -> Tensor | None:
    """Inverse of a permutation; None for None.

    Shape: permutation (N,); result (N,).

    >>> import tdt
    >>> tdt.nn.utils.rnn.invert_permutation(tdt.tensor([2, 0, 1]))
    tensor([1, 2, 0])
    """
    return None if permutation is None else permutation.argsort()


def pack_padded_sequence(input: Tensor, lengths: Tensor | Sequence[int], batch_first: bool = False,
                         enforce_sorted: bool = True) -> PackedSequence:  # fmt: skip
    """Sequences without their padding: element n of the batch ends after lengths[n] steps.

    Args:
        enforce_sorted: whether lengths must not increase; else sequences are sorted and the result keeps the order.
    Shape: input (T, N, *), or (N, T, *) if batch_first; lengths (N,); result's data (sum of lengths, *).
    Raises:
        RuntimeError: when lengths are unsorted, not positive, longer than T, or not one for each sequence.

    >>> import tdt
    >>> tdt.nn.utils.rnn.pack_padded_sequence(tdt.tensor([[1, 2, 0], [3, 0, 0]]), [2, 1], batch_first=True).data
    tensor([1, 3, 2])
    """
    counted: Tensor = lengths.to(dtype=int64) if isinstance(lengths, Tensor) else tensor(lengths, dtype=int64)
    indices, back, order = None, None, None
    if not enforce_sorted:
        _check_vector(counted)
        found = np.argsort(-counted.numpy(), kind="stable")
        counted, indices = wrap(counted.numpy()[found]), wrap(found).to(input.device)
        back = wrap(np.argsort(found)).to(input.device)
        if len(found) == input.shape[0 if batch_first else 1]:
            order = found
        else:
            input = input.index_select(0 if batch_first else 1, indices)
    counts = _checked_lengths(input.transpose(0, 1) if batch_first else input, counted)
    there = counts > np.arange(counts[0])[:, None]
    step, sample = np.nonzero(there)
    if order is not None:
        sample = order[sample]
    # One look-up puts the sequences in order, turns them and leaves the padding out.
    place = sample * input.shape[1] + step if batch_first else step * input.shape[1] + sample
    data = input.reshape(-1, *input.shape[2:]).index_select(0, wrap(place).to(input.device))
    return PackedSequence(data, wrap(there.sum(1)), indices, back)


def _check_vector(lengths: Tensor) -> None:
    if lengths.ndim != 1 or lengths.device.type != "cpu":
        raise RuntimeError(f"'lengths' argument should be a 1D CPU int64 tensor, but got {lengths.ndim}D "
                           f"{lengths.device} Long tensor")  # fmt: skip


def _checked_lengths(padded: Tensor, lengths: Tensor) -> np.ndarray:
    """The lengths of the sequences of `padded` (T, N, *), which must fit."""
    if padded.numel() == 0:
        raise RuntimeError("Cannot pack empty tensors.")
    steps, batch = padded.shape[:2]
    _check_vector(lengths)
    if len(lengths) != batch:
        raise RuntimeError(
            f"Expected `len(lengths)` to be equal to batch_size, but got {len(lengths)} (batch_size={batch})"
        )
    counts = lengths.numpy()
    if (np.diff(counts) > 0).any():
        raise RuntimeError(
            "`lengths` array must be sorted in decreasing order when `enforce_sorted` is True. You can pass "
            f"`enforce_sorted=False` to pack_padded_sequence and/or pack_sequence. Got {counts.tolist()}"
        )
    if counts[-1] <= 0:
        raise RuntimeError(
            "Length of all samples has to be greater than 0, but found an element in 'lengths' that is <= 0"
        )
    if counts[0] > steps:
        raise RuntimeError(
            f"Expected every length to be at most {steps}, the length of the input, got {int(counts[0])}"
        )
    return counts


def pad_packed_sequence(sequence: PackedSequence, batch_first: bool = False, padding_value: float = 0.0,
                        total_length: int | None = None) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Padded sequences, in their original order, and their lengths.

    Args:
        padding_value: value of the added elements.
        total_length: T of the result; None stands for the longest length.
    Shape: result a pair: (T, N, *), or (N, T, *) if batch_first, and lengths (N,).
    Raises:
        ValueError: when `total_length` is less than the longest length.

    >>> import tdt
    >>> packed = tdt.nn.utils.rnn.pack_sequence([tdt.tensor([1, 2, 3]), tdt.tensor([4])])
    >>> tdt.nn.utils.rnn.pad_packed_sequence(packed, batch_first=True, padding_value=-1)
    (tensor([[ 1,  2,  3],
            [ 4, -1, -1]]), tensor([3, 1]))
    """
    data, batch_sizes, _, unsorted = sequence
    sizes = batch_sizes.numpy()
    steps = len(sizes)
    if total_length is not None:
        if total_length < steps:
            raise ValueError("Expected total_length to be at least the length of the longest sequence in input, but got "
                             f"total_length={total_length} and max sequence length being {steps}")  # fmt: skip
        steps = total_length
    batch = int(sizes[0])
    there = np.zeros((steps, batch), bool)
    there[: len(sizes)] = np.arange(batch) < sizes[:, None]
    places = np.full(there.size, len(data))
    places[there.reshape(-1)] = np.arange(len(data))
    filler = full((1, *data.shape[1:]), padding_value, dtype=data.dtype, device=data.device)
    padded = cat([data, filler]).index_select(0, tensor(places, device=data.device))
    padded = padded.reshape(steps, batch, *data.shape[1:])
    padded = padded.transpose(0, 1) if batch_first else padded
    lengths = tensor(there.sum(0))
    if unsorted is None:
        return padded, lengths
    return padded.index_select(0 if batch_first else 1, unsorted), lengths[unsorted.cpu()]


def pad_sequence(sequences: Tensor | Iterable[Tensor], batch_first: bool = False, padding_value: float = 0.0,
                 padding_side: str = "right") -> Tensor:  # fmt: skip
    """Sequences of different lengths as one padded tensor.

    Args:
        padding_value: value of the added elements.
        padding_side: "right" or "left", where padding is added.
    Shape: sequences (L, *), L one's length; result (T, N, *), or (N, T, *) if batch_first, T the longest length.
    Raises:
        RuntimeError: when `sequences` is empty or not iterable, or `padding_side` is another name.

    >>> import tdt
    >>> tdt.nn.utils.rnn.pad_sequence([tdt.tensor([1, 2, 3]), tdt.tensor([4])], batch_first=True)
    tensor([[1, 2, 3],
            [4, 0, 0]])
    """
    if not isinstance(sequences, Iterable):
        raise RuntimeError(
            f"pad_sequence: Expected iterable for input sequences, but got arg of type: {type(sequences)}"
        )
    each = list(sequences)
    if not each:
        raise RuntimeError("received an empty list of sequences")
    if padding_side not in ("right", "left"):
        raise RuntimeError(f"Expected padding_side to be one of left or right, but got {padding_side}.")
    longest = max(len(s) for s in each)
    if (arrays := unrecorded_arrays(each)) and (arrays[0].dtype.kind == "f" or not padding_value):
        first = arrays[0]
        if all(a.dtype == first.dtype and a.shape[1:] == first.shape[1:] for a in arrays):
            return wrap(_padded(arrays, longest, batch_first, padding_value, padding_side == "right"))
    padded = []
    for s in each:
        missing = longest - len(s)
        ends = (0, missing) if padding_side == "right" else (missing, 0)
        padded.append(pad(s, (0, 0) * (s.ndim - 1) + ends, value=padding_value) if missing else s)
    return stack(padded, 0 if batch_first else 1)


def _padded(arrays: list[Any], longest: int, batch_first: bool, value: float, right: bool) -> Any:
    """Arrays of one dtype, whose shapes differ in the first size alone, in one padded array."""
    first = arrays[0]
    shape = (*((len(arrays), longest) if batch_first else (longest, len(arrays))), *first.shape[1:])
    out = np.full(shape, value, first.dtype) if value else np.zeros(shape, first.dtype)
    rows = out if batch_first else out.swapaxes(0, 1)
    for row, a in zip(rows, arrays, strict=True):
        if right:
            row[: len(a)] = a
        else:
            row[longest - len(a) :] = a
    return out


def unpad_sequence(padded_sequences: Tensor, lengths: Tensor, batch_first: bool = False) -> list[Tensor]:
    """Sequences of a padded tensor, without the padding.

    Shape: padded_sequences (T, N, *), or (N, T, *) if batch_first; lengths (N,); result a list of (L, *).

    >>> import tdt
    >>> tdt.nn.utils.rnn.unpad_sequence(tdt.tensor([[1, 2, 3], [4, 0, 0]]), tdt.tensor([3, 1]), batch_first=True)
    [tensor([1, 2, 3]), tensor([4])]
    """
    each = padded_sequences.unbind(0 if batch_first else 1)
    return [s[:length].clone() for s, length in zip(each, lengths.tolist(), strict=True)]


def pack_sequence(sequences: list[Tensor], enforce_sorted: bool = True) -> PackedSequence:
    """Packed sequences of different lengths.

    Args:
        enforce_sorted: whether lengths must not increase; else sequences are sorted and the result keeps the order.
    Shape: sequences (L, *), L one's length; result's data (sum of lengths, *).

    >>> import tdt
    >>> tdt.nn.utils.rnn.pack_sequence([tdt.tensor([1, 2, 3]), tdt.tensor([4])]).batch_sizes
    tensor([2, 1, 1])
    """
    return pack_padded_sequence(pad_sequence(sequences), [len(s) for s in sequences], enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences: PackedSequence) -> list[Tensor]:
    """Sequences that were packed, in their original order.

    Shape: result a list of (L, *), L one's length.

    >>> import tdt
    >>> tdt.nn.utils.rnn.unpack_sequence(tdt.nn.utils.rnn.pack_sequence([tdt.tensor([1, 2, 3]), tdt.tensor([4])]))
    [tensor([1, 2, 3]), tensor([4])]
    """
    return unpad_sequence(*pad_packed_sequence(packed_sequences, batch_first=True), batch_first=True)


__all__ = [
    "PackedSequence",
    "invert_permutation",
    "pack_padded_sequence",
    "pack_sequence",
    "pad_packed_sequence",
    "pad_sequence",
    "unpack_sequence",
    "unpad_sequence",
]
