"""Padded and packed batches of sequences are PyTorch's."""

import numpy as np
import pytest

import tdt
from tests.helpers import require_torch
from tests.nn._compare import agree, agree_error, numbers

torch = require_torch()


def rnn(lib):
    return lib.nn.utils.rnn


@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("lengths", [[5, 2, 2], [2, 5, 3], [1, 1, 1], [4, 4, 4]], ids=str)
def test_packing_and_padding_again_are_pytorchs(lengths, batch_first):
    def run(lib, x):
        packed = rnn(lib).pack_padded_sequence(x, lib.tensor(lengths), batch_first, enforce_sorted=False)
        padded = rnn(lib).pad_packed_sequence(packed, batch_first, -1.5, 6)
        plain = rnn(lib).pad_packed_sequence(packed)
        return (*packed, *padded, *plain, *rnn(lib).unpack_sequence(packed))

    agree(run, numbers(3, 5, 2, 2) if batch_first else numbers(5, 3, 2, 2))


def test_sorted_sequences_need_no_order():
    def run(lib, *each):
        packed = rnn(lib).pack_sequence(list(each))
        assert packed.sorted_indices is None
        assert packed.unsorted_indices is None
        return packed.data, packed.batch_sizes, *rnn(lib).unpack_sequence(packed)

    agree(run, numbers(4, 2), numbers(2, 2), numbers(1, 2))


@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize("batch_first", [False, True])
def test_padding_sequences_is_pytorchs(side, batch_first):
    agree(
        lambda lib, *each: rnn(lib).pad_sequence(each, batch_first, 2.5, side),
        numbers(4, 2),
        numbers(2, 2),
        numbers(0, 2),
    )
    agree(lambda lib, *each: rnn(lib).pad_sequence(each, batch_first, 3, side), np.arange(3), np.arange(5))


def test_unpadding_takes_each_sequences_length():
    def run(lib, x):
        return (
            *rnn(lib).unpad_sequence(x, lib.tensor([2, 4]), True),
            *rnn(lib).unpad_sequence(x * 1, lib.tensor([1, 2, 0, 1])),
        )

    agree(run, numbers(2, 4))


@pytest.mark.parametrize(("shape", "lengths"), [
    ((3, 2, 1), [1, 0]), ((3, 2, 1), [1, 2, 3]), ((3, 0, 1), []), ((3, 2), [[2, 1]]),
], ids=str)  # fmt: skip
def test_lengths_that_do_not_fit_are_refused_as_by_pytorch(shape, lengths):
    agree_error(lambda lib: rnn(lib).pack_padded_sequence(lib.zeros(shape), lib.tensor(lengths)))


def test_more_refusals():
    agree_error(
        lambda lib: rnn(lib).pack_padded_sequence(lib.zeros(3, 2), [1, 2]), "must be sorted in decreasing order"
    )
    with pytest.raises(RuntimeError, match="at most 3, the length of the input, got 4"):
        rnn(tdt).pack_padded_sequence(tdt.zeros(3, 2), [4, 1])
    agree_error(lambda lib: rnn(lib).pad_sequence([]))
    agree_error(lambda lib: rnn(lib).pad_sequence(3))
    agree_error(lambda lib: rnn(lib).pad_sequence([lib.zeros(2)], padding_side="up"))
    packed = [rnn(lib).pack_sequence([lib.zeros(3)]) for lib in (tdt, torch)]
    agree_error(lambda lib: rnn(lib).pad_packed_sequence(packed[lib is torch], total_length=2))
    agree_error(lambda lib: rnn(lib).PackedSequence(lib.zeros(3)))


def test_a_packed_sequence_converts_its_data_alone():
    packed = rnn(tdt).pack_sequence([tdt.arange(2), tdt.arange(3)], enforce_sorted=False)
    kinds = {"double": tdt.float64, "float": tdt.float32, "half": tdt.float16, "long": tdt.int64, "int": tdt.int32,
             "short": tdt.int16, "char": tdt.int8, "byte": tdt.uint8}  # fmt: skip
    for name, dtype in kinds.items():
        converted = getattr(packed, name)()
        assert converted.data.dtype is dtype
        assert converted.batch_sizes.tolist() == [2, 2, 1]
        assert converted.sorted_indices.tolist() == [1, 0]
    assert packed.to(tdt.int64) is packed is packed.cpu()
    assert not packed.is_cuda
    theirs = torch.nn.utils.rnn.pack_sequence([torch.arange(2), torch.arange(3)], enforce_sorted=False)
    assert repr(packed) == repr(theirs)
    again = rnn(tdt).PackedSequence((packed.data, packed.batch_sizes), sorted_indices=packed.sorted_indices)
    assert again.unsorted_indices.tolist() == [1, 0]
