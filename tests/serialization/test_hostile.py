"""Files that mean harm: no code of theirs runs, no module changes, no tensor looks outside its storage, memory is bounded."""

from __future__ import annotations

import collections
import io
import os
import pickle
import resource
import zipfile
from types import SimpleNamespace

import numpy as np
import pytest

import tdt
from tdt.serialization import _names, _restricted
from tests.fuzz.checkpoints import campaign
from tests.fuzz.exploits import EXPLOITS, exploit, legacy, pickled
from tests.fuzz.pickles import EXPECTED_ERRORS, archive, call, name, outcome, storage, tensor, value, watched
from tests.helpers import require_torch


@pytest.fixture(autouse=True)
def small_allowance(monkeypatch):
    """So that bombs can be small."""
    monkeypatch.setattr(_restricted, "ALLOWANCE", 1 << 20)


def test_none_of_the_attempts_written_by_hand_loads():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    outcomes = {what: outcome(exploit(what)) for what in EXPLOITS}
    assert [what for what, message in outcomes.items() if message == "loaded"] == []
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 300 << 10  # kilobytes


@pytest.mark.parametrize(
    "what, message",
    [
        ("the chain that reached exec", "is not a layout: expected one of torch.strided"),
        ("eval, protocol 4", "Unsupported global: GLOBAL builtins.eval was not an allowed global"),
        ("os.system, protocol 2", "whose module os is blocked"),
        ("a storage that unfolds", "decompress to far more than its .* bytes.*zip -0"),
        ("3 GB of storage, stored", "claims 3221225472 bytes in a file of"),
        ("an old file's storage of 3 GB", "claims 3221225472 bytes, more than are left"),
        ("bytes of 2**62", "claims 4611686018427387904 bytes, but only 1 are left"),
        ("sets without end", "far more memory than a file of its size needs"),
        ("copies of column indices", "far more memory than a file of its size needs"),
        ("storage key '../x'", "is not a valid storage key"),
        ("two pickles of one name", "two entries have the same name"),
        ("sparse indices too large", r"out of bounds for size \[3\]"),
        ("columns outside", "out of bounds for 2 columns"),
        ("a key that doubles", "too large or nested too deeply"),
        ("a quantised tensor", "quantized tensor.*dequantize"),
        ("keys of one hash in a dictionary", "more than 64 keys .* same hash"),
        ("control characters", r"\\x1b\[31mred"),
    ],
)
def test_a_refusal_names_what_is_wrong(what, message):
    with pytest.raises(EXPECTED_ERRORS, match=message):
        tdt.load(io.BytesIO(exploit(what)))


def test_no_attempt_is_called_safe_by_the_list_of_unsafe_names():
    values = {
        what for what in EXPLOITS if what.startswith(("sparse indices", "columns", "rows", "an entry outside"))
    }  # no storage is read
    for what in {what for what, data in EXPLOITS.items() if isinstance(data, bytes)} - values:
        try:
            names = tdt.serialization.get_unsafe_globals_in_checkpoint(io.BytesIO(exploit(what)))
        except EXPECTED_ERRORS:
            continue
        assert names or what.startswith("a storage at"), what  # former addresses of storages are not tested here


def test_all_unsafe_names_are_listed_whichever_way_a_pickle_spells_them():
    parts = [
        name("os", "system"),
        value("posix") + b"q\1" + value("popen") + b"\x93",
        b"h\1" + value("fork") + b"\x93",
        b"(S'x'\nibuiltins\neval\n",
        name("__builtin__", "exec"),
        name("torch", "float32"),
    ]
    found = tdt.serialization.get_unsafe_globals_in_checkpoint(io.BytesIO(archive(pickled(b"".join(parts)))))
    assert found == ["builtins.eval", "builtins.exec", "os.system", "posix.fork", "posix.popen"]
    with pytest.raises(ValueError, match="a checkpoint returned by torch.save"):
        tdt.serialization.get_unsafe_globals_in_checkpoint(io.BytesIO(legacy(b"N.")))
    assert tdt.serialization.get_unsafe_globals_in_checkpoint(io.BytesIO(archive(pickled(tensor())))) == []


HEAD = {"/archive/version": b"3\n", "/archive/byteorder": b"little"}  # what PyTorch requires of an archive
# What is called with any arguments, and by which of a hundred odd calls none may allocate, run or look up anything.
ARGUMENTS = [
    (),
    (10**11,),
    ("os.system",),
    ("{0.__class__}",),
    (b"\xff" * 10,),
    (None, None),
    ([1] * 3,),
    ({},),
    (1, "latin1"),
    ("x", "hex"),
    ((), (), (), ()),
    (True,),
    (-1,),
    (float("nan"),),
    ((10**11,),),
    (10**11, 0, (10**11,), (1,)),
]


@pytest.mark.parametrize("full", _names.ALLOWED_GLOBALS)
def test_every_allowed_global_states_why_it_is_safe_and_takes_any_arguments(full):
    offered = _names.allowed_global(full)
    assert len(offered.why) > 20 and (offered.call is None or offered.call.__module__.startswith("tdt.serialization."))
    assert offered.call is None or not isinstance(offered.call, type)  # a class as it is may allocate, or look names up
    module, _, word = full.rpartition(".")
    for args in ARGUMENTS:
        message = outcome(archive(pickled(call(name(module, word), *args)), {}))
        assert offered.call is not None or "unrecognized function" in message


def test_random_and_mutated_pickles_are_loaded_or_refused_and_nothing_else():
    seed = int.from_bytes(os.urandom(4), "little")
    messages = campaign(400, seed, 512)
    assert sum(messages.values()) == 400 and 5 < messages["loaded"] < 300, messages


def test_only_what_this_load_created_is_filled():
    shared = {"kept": 1}
    with tdt.serialization.safe_globals([(shared, "users.table"), (SimpleNamespace, "users.Space")]):
        with pytest.raises(pickle.UnpicklingError, match="Can only modify objects that this load created"):
            tdt.load(io.BytesIO(archive(pickled(name("users", "table") + value("kept") + value(2) + b"s"))))
        text = name("users", "Space") + b")\x81" + value({"a": 1}) + b"b"
        assert tdt.load(io.BytesIO(archive(pickled(text)))) == SimpleNamespace(a=1)
    assert shared == {"kept": 1}


def test_the_users_names_follow_pytorchs_rules():
    torch = require_torch()
    for lib in (torch, tdt):
        s, before = lib.serialization, lib.serialization.get_safe_globals()
        with s.safe_globals([SimpleNamespace]):
            s.add_safe_globals([collections.defaultdict, (len, "users.length")])
            added = {SimpleNamespace, collections.defaultdict, (len, "users.length")}
            assert set(s.get_safe_globals()) == {*before, *added}
        assert set(s.get_safe_globals()) == {*before, *added} - {SimpleNamespace}  # the block takes its own away
        assert (
            lib.load(io.BytesIO(archive(pickled(call(name("users", "length"), (1, 2, 3))), HEAD)), weights_only=True)
            == 3
        )
        s.clear_safe_globals()
        assert s.get_safe_globals() == []
        with s.safe_globals([os.system]), pytest.raises(pickle.UnpicklingError, match="whose module posix is blocked"):
            lib.load(io.BytesIO(archive(pickled(call(name("posix", "system"), "false")), HEAD)), weights_only=True)
        s.add_safe_globals(before)
    with pytest.raises(ValueError, match="tuple of length 2"):
        tdt.serialization.add_safe_globals([(len, "a", "b")])
    with pytest.raises(TypeError, match="to be str of callable full path"):
        tdt.serialization.add_safe_globals([(len, 3)])


def test_a_trusted_file_still_calls_what_it_names():
    text = pickled(
        value([call(name("builtins", "bytearray"), 3), call(name("functools", "partial"), name("builtins", "len"))])
    )
    loaded = tdt.load(io.BytesIO(archive(text)), weights_only=False)
    assert loaded[0] == bytearray(3) and loaded[1]([1, 2]) == 2


def test_large_plain_data_and_compressed_archives_of_usual_kind_still_load(monkeypatch):
    monkeypatch.undo()
    history = {
        "losses": [[i, i / 7] for i in range(4_000)],
        "names": [{"n": f"a{i}"} for i in range(1_000)],
        "w": tdt.zeros(10**5),
    }
    file = io.BytesIO()
    tdt.save(history, file)
    with zipfile.ZipFile(file) as old, zipfile.ZipFile(folded := io.BytesIO(), "w", zipfile.ZIP_DEFLATED) as new:
        for entry in old.namelist():
            new.writestr(entry, old.read(entry))
    for data in (file, folded):
        data.seek(0)
        assert tdt.load(data)["names"] == history["names"]
    assert len(folded.getvalue()) < len(file.getvalue()) / 10


def test_bytes_of_storages_do_not_count_against_the_limit_of_the_pickle(monkeypatch):
    monkeypatch.setattr("tdt.serialization._restricted.ALLOWANCE", 1 << 14)
    file = io.BytesIO()
    tdt.save([tdt.ones(1 << 20), tdt.ones(1 << 19)], file)
    file.seek(0)
    assert [t.sum().item() for t in tdt.load(file)] == [1 << 20, 1 << 19]


@pytest.mark.parametrize(
    "keys",
    [
        range(20_000),
        [f"layers.{i}.weight" for i in range(5_000)],
        range(-2_000, 0),
        [i / 8 for i in range(2_000)],
        [(i, j, str(k)) for i in range(-10, 10) for j in range(-10, 10) for k in range(5)],
        [b"%d" % i for i in range(500)],
        [None, True, -1, -2, 0.5, 2 + 1j],
    ],
    ids=["integers", "text", "negative", "floats", "tuples", "bytes", "mixed"],
)
def test_usual_keys_of_any_kind_and_number_load(keys, monkeypatch):
    monkeypatch.undo()
    file = io.BytesIO()
    tdt.save({"d": dict.fromkeys(keys, 1), "s": set(keys)}, file)
    file.seek(0)
    assert tdt.load(file) == {"d": dict.fromkeys(keys, 1), "s": set(keys)}


def test_views_that_are_conjugated_or_negated_share_one_copy_in_old_files_too():
    torch = require_torch()
    x = torch.tensor([1 + 2j, 3 - 1j])
    for new in (True, False):
        file, imaginary = io.BytesIO(), io.BytesIO()
        torch.save([x.conj(), x.conj()[1:], x], file, _use_new_zipfile_serialization=new)
        torch.save(x.conj().imag, imaginary, _use_new_zipfile_serialization=new)
        file.seek(0), imaginary.seek(0)
        whole, part, plain = tdt.load(file)
        assert whole.tolist() == [1 - 2j, 3 + 1j] and plain.tolist() == x.tolist()
        part[0] = 5
        assert whole[1] == 5 and plain[1] == 3 - 1j
        assert tdt.load(imaginary).tolist() == [-2.0, 1.0]


def test_compressed_rows_of_old_files_have_their_values():
    torch = require_torch()
    dense = torch.tensor([[0.0, 2.0, 0.0], [0.0, 0.0, 0.0], [3.0, 0.0, 4.0]])
    for new in (True, False):
        file = io.BytesIO()
        torch.save([dense.to_sparse_csr(), dense.to_sparse()], file, _use_new_zipfile_serialization=new)
        file.seek(0)
        with watched():
            rows, coordinates = tdt.load(file)
        for sparse in (rows, coordinates):
            np.testing.assert_array_equal(sparse.to_dense().numpy(), dense.numpy())


def test_quantised_tensors_are_refused_by_name_with_what_to_do():
    torch = require_torch()
    with pytest.warns(UserWarning, match="deprecated"):
        quantised = torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.quint8)
    for new in (True, False):
        for only in (True, False):
            file = io.BytesIO()
            torch.save({"w": quantised}, file, _use_new_zipfile_serialization=new)
            file.seek(0)
            with pytest.raises(
                pickle.UnpicklingError,
                match=r"_rebuild_qtensor: it contains a quantized tensor.*tensor\.dequantize\(\)",
            ):
                tdt.load(file, weights_only=only)


def test_storages_of_no_bytes_and_of_two_types_load():
    text = value(
        [
            tensor(storage(key="1", count=0), 0, (0, 3), (3, 1)),
            tensor(),
            tensor(storage("LongStorage", count=2), 0, (2,), (1,)),
        ]
    )
    empty, floats, longs = tdt.load(io.BytesIO(archive(pickled(text), {"0": bytes(16), "1": b""})))
    assert empty.shape == (0, 3) and floats.untyped_storage() == longs.untyped_storage()
