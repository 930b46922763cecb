"""`save` and `load`: PyTorch's files both ways, and files that mean harm."""

from __future__ import annotations

import collections
import io
import os
import pickle
import zipfile
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import tdt
from tdt.serialization import _write
from tests.helpers import require_torch


def everything(lib):
    w = lib.arange(12.0).reshape(3, 4)
    return {
        "shared": w, "transposed": w.t(), "strided": w[1:, ::2], "expanded": lib.ones(1).expand(3), "0-d": lib.tensor(3.0),
        "empty": lib.zeros(0, 3), "leaf": lib.ones(2, requires_grad=True), "parameter": lib.nn.Parameter(lib.ones(2)),
        "frozen": lib.nn.Parameter(lib.ones(2), requires_grad=False),
        **{kind.name: lib.tensor([1, 0, 1]).to(getattr(lib, kind.name)) for kind in tdt._core.dtype.ALL_DTYPES},
        "ordered": collections.OrderedDict(a=1, b=[2]), "size": lib.Size([2, 3]), "dtype": lib.float16, "layout": lib.strided,
        "device": lib.device("cpu"), "counter": collections.Counter("aab"), "large": 2**70,
        "plain": [1, 2.5, None, "x", b"\xff", {1, 2}, 1j, bytearray(b"q"), True, (), (1,), {"deep": [lib.zeros(1)]}],
    }  # fmt: skip


def through(writer, reader, obj, **how):
    file = io.BytesIO()
    writer.save(obj, file)
    file.seek(0)
    return reader.load(file, **how)


def described(value):
    return repr(value).replace("torch.", "tdt.")


@pytest.mark.parametrize("direction", ["PyTorch's here", "ours in PyTorch", "ours here"])
def test_every_kind_of_value_round_trips(direction):
    torch = require_torch()
    writer = torch if direction == "PyTorch's here" else tdt
    reader = torch if direction == "ours in PyTorch" else tdt
    back = through(writer, reader, everything(writer))
    assert described(back) == described(everything(writer))
    assert back["transposed"].stride() == (1, 4) and back["strided"].storage_offset() == 4
    back["shared"][1, 2] = 50
    assert back["transposed"][2, 1] == 50 and back["strided"][0, 1] == 50
    assert type(back["parameter"]) is reader.nn.Parameter and not back["frozen"].requires_grad


def test_a_model_and_its_optimizer_continue_in_the_other_library():
    torch = require_torch()
    for ours, theirs in ((tdt, torch), (torch, tdt)):
        models = [lib.nn.Sequential(lib.nn.Linear(3, 4), lib.nn.Tanh(), lib.nn.Linear(4, 1)) for lib in (ours, theirs)]
        optimizers = [lib.optim.Adam(m.parameters()) for lib, m in zip((ours, theirs), models, strict=True)]

        def step(lib, model, optimizer):
            optimizer.zero_grad()
            (model(lib.arange(6.0).reshape(2, 3) / 5) ** 3).sum().backward()
            optimizer.step()

        step(ours, models[0], optimizers[0])
        saved = through(ours, theirs, [models[0].state_dict(), optimizers[0].state_dict()])
        models[1].load_state_dict(saved[0])
        optimizers[1].load_state_dict(saved[1])
        step(ours, models[0], optimizers[0])
        step(theirs, models[1], optimizers[1])
        for a, b in zip(models[0].parameters(), models[1].parameters(), strict=True):
            np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-5, atol=1e-6)


def test_what_pytorch_wrote_before_1_6_can_be_read():
    torch = require_torch()
    file = io.BytesIO()
    torch.save(everything(torch), file, _use_new_zipfile_serialization=False)
    for only in (True, False):
        file.seek(0)
        assert described(tdt.load(file, weights_only=only)) == described(everything(torch))


@pytest.mark.parametrize("elements", [0, 3])
def test_a_file_from_before_1_6_that_ends_too_early_is_refused(elements):
    torch = require_torch()
    file = io.BytesIO()
    torch.save(torch.ones(elements), file, _use_new_zipfile_serialization=False)
    for missing in range(1, 8 + 4 * elements + 1):
        with pytest.raises(RuntimeError, match="truncated"):
            tdt.load(io.BytesIO(file.getvalue()[:-missing]))


def test_sparse_conjugated_and_meta_tensors_of_pytorchs_are_read():
    torch = require_torch()
    with torch.sparse.check_sparse_tensor_invariants(enable=False):
        sparse = torch.sparse_coo_tensor([[0, 2]], [1.0, 2.0], (3,))
    back = through(torch, tdt, [sparse, torch.tensor([1 + 2j]).conj(), torch.zeros(3, device="meta")])
    assert back[0].to_dense().tolist() == [1, 0, 2] and back[0].layout is tdt.sparse_coo
    assert back[1].tolist() == [1 - 2j] and back[2].shape == (3,)
    assert through(tdt, torch, back[0]).to_dense().tolist() == [1, 0, 2]


class Net(tdt.nn.Module):
    """A module of the user's own."""

    def __init__(self):
        super().__init__()
        self.linear = tdt.nn.Linear(2, 2)
        self.scale = tdt.nn.Buffer(tdt.ones(2))


def test_whole_modules_are_loaded_where_the_file_is_trusted():
    net = Net()
    back = through(tdt, tdt, net, weights_only=False)
    assert (
        type(back) is Net and type(back.scale) is tdt.nn.Buffer and back.state_dict().keys() == net.state_dict().keys()
    )
    assert back.linear.weight.tolist() == net.linear.weight.tolist()
    with pytest.raises(pickle.UnpicklingError, match=r"tests\.test_serialization\.Net was not an allowed global"):
        through(tdt, tdt, net)


def test_attributes_and_classes_of_tensors_are_preserved():
    torch = require_torch()
    for lib, other in ((tdt, torch), (torch, tdt)):
        t, p = lib.ones(2), lib.nn.Parameter(lib.ones(2))
        t.note, p.note = "t", ["p"]
        back = through(lib, other, [t, p])
        assert back[0].note == "t" and back[1].note == ["p"] and type(back[1]) is other.nn.Parameter


class Harm:
    """Runs code where it is unpickled."""

    def __init__(self, function, *args):
        self.called = function, args

    def __reduce__(self):
        return self.called


@pytest.mark.parametrize("thing, name", [
    (Harm(os.system, "false"), "posix.system"), (Harm(eval, "1"), "builtins.eval"),
    (Harm(getattr, "", "join"), "builtins.getattr"),
    (SimpleNamespace(a=1), "types.SimpleNamespace"), (np.float64(1), "numpy"), (Path("x"), "pathlib"), (print, "builtins.print"),
    (type, "builtins.type"),
], ids=lambda value: value if isinstance(value, str) else "")  # fmt: skip
@pytest.mark.parametrize("protocol", [2, 4])
def test_a_file_that_names_code_is_refused_by_name(thing, name, protocol):
    file = io.BytesIO()
    tdt.save({"weight": tdt.ones(2), "thing": thing}, file, pickle_protocol=protocol)
    file.seek(0)
    with pytest.raises(pickle.UnpicklingError, match=f"Weights only load failed.*GLOBAL {name}"):
        tdt.load(file)


@pytest.mark.parametrize("text", [
    b"ctorch._utils\n_rebuild_tensor_v2\n}X\x01\x00\x00\x00xK\x01sb.",  # writes an attribute on a function
    b"ctorch\nTensor\n}X\x01\x00\x00\x00xK\x01sb.",  # … on a class
    b"ctorch\nTensor\n)\x81.",
    b"]K\x01K\x02s.", b"K\x01)R.", b"(K\x01K\x02o.", b"\x82\x01.", b"R.", b"K\x01", b"h\x05.", b"e.", b"}a.",
    b"U\x05evil.Q.", b"ctorch\nfloat32\n)R.", b"c_codecs\nencode\nU\x01aU\x04zlib\x86R.",
])  # fmt: skip
def test_a_pickle_can_only_fill_plain_containers_and_call_what_is_safe(text):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("archive/data.pkl", b"\x80\x02" + text)
    file.seek(0)
    with pytest.raises(pickle.UnpicklingError, match="Weights only load failed"):
        tdt.load(file)


def test_a_tensor_outside_its_storage_is_refused():
    file = io.BytesIO()
    tdt.save(tdt.ones(3), file)
    with zipfile.ZipFile(file) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    at = entries["archive/data.pkl"].index(b"K\x00K\x03\x85")  # offset 0, size (3,)
    for offset, size in ((1, 3), (0, 4), (100, 1)):
        text = bytearray(entries["archive/data.pkl"])
        text[at + 1], text[at + 3] = offset, size
        changed = io.BytesIO()
        with zipfile.ZipFile(changed, "w") as archive:
            for name, data in (entries | {"archive/data.pkl": bytes(text)}).items():
                archive.writestr(name, data)
        changed.seek(0)
        with pytest.raises(RuntimeError, match="out of bounds for storage of size 12"):
            tdt.load(changed)


def test_damaged_files_are_distinguished_from_empty_and_missing_ones(tmp_path):
    file = io.BytesIO()
    tdt.save(tdt.arange(1000), file)
    whole = file.getvalue()
    flipped = bytearray(whole)
    flipped[1000] ^= 1
    for damaged in (whole[:2000], whole[:-30], bytes(flipped)):
        with pytest.raises(RuntimeError, match="PytorchStreamReader failed"):
            tdt.load(io.BytesIO(damaged))
    with pytest.raises(EOFError, match="Ran out of input"):
        tdt.load(io.BytesIO())
    with pytest.raises((pickle.UnpicklingError, RuntimeError)):
        tdt.load(io.BytesIO(b"not a file of this kind"))
    with pytest.raises(FileNotFoundError):
        tdt.load(tmp_path / "none.pt")
    with pytest.raises(RuntimeError, match="does not exist"):
        tdt.save(1, tmp_path / "none" / "a.pt")


def test_no_damage_raises_another_error_than_pytorchs():
    torch, rng = require_torch(), np.random.default_rng(seed := int.from_bytes(os.urandom(4), "little"))
    print(f"seed {seed}")
    new, old, messages = io.BytesIO(), io.BytesIO(), []
    tdt.save(everything(tdt), new)
    torch.save([torch.ones(3), {"a": torch.arange(4)}], old, _use_new_zipfile_serialization=False)
    with zipfile.ZipFile(new) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    for round_ in range(300):
        data = bytearray([entries["archive/data.pkl"], old.getvalue(), new.getvalue()][round_ % 3])
        for place in rng.integers(0, len(data), rng.integers(1, 4)):
            data[place] = rng.integers(256)
        file = io.BytesIO(data)
        if round_ % 3 == 0:
            with zipfile.ZipFile(file := io.BytesIO(), "w") as archive:
                for name, entry in (entries | {"archive/data.pkl": bytes(data)}).items():
                    archive.writestr(name, entry)
        file.seek(0)
        try:
            repr(tdt.load(file))
        except (EOFError, RuntimeError, ValueError, pickle.UnpicklingError) as error:
            messages.append(str(error))
    assert len(messages) > 100 and all(messages)


def test_the_user_may_vouch_for_classes():
    value = [SimpleNamespace(a=tdt.ones(1)), collections.defaultdict(list, a=[1])]
    with tdt.serialization.safe_globals([SimpleNamespace, collections.defaultdict, list]):
        back = through(tdt, tdt, value)
    assert back[0].a.tolist() == [1] and back[1] == value[1]
    file = io.BytesIO()
    tdt.save(value, file)
    assert tdt.serialization.get_unsafe_globals_in_checkpoint(file) == [
        "builtins.list", "collections.defaultdict", "types.SimpleNamespace"]  # fmt: skip
    assert tdt.serialization.get_safe_globals() == []


def test_a_failed_save_leaves_the_old_file(tmp_path):
    path = tmp_path / "a.pt"
    tdt.save(1, path)
    with pytest.raises((AttributeError, pickle.PicklingError)):
        tdt.save([tdt.ones(3), lambda: 0], path)
    assert tdt.load(path) == 1 and os.listdir(tmp_path) == ["a.pt"]


def test_paths_maps_and_places(tmp_path):
    torch = require_torch()
    path = tmp_path / "a.pt"
    tdt.save({"w": tdt.arange(5.0)}, str(path))
    mapped = tdt.load(path, mmap=True)
    mapped["w"][0] = 7
    assert mapped["w"].tolist() == [7, 1, 2, 3, 4] and tdt.load(path)["w"][0] == 0
    assert torch.load(path, mmap=True)["w"].tolist() == [0, 1, 2, 3, 4]
    calls = []
    tdt.load(path, map_location=lambda storage, place: calls.append((place, storage.nbytes())))
    assert calls == [("cpu", 20)]
    for where in ("cpu", tdt.device("cpu"), {"cpu": "cpu"}, {"cuda:0": "cpu"}):
        assert tdt.load(path, map_location=where)["w"].device.type == "cpu"
    if not tdt._backend.cuda_device_count():
        with pytest.raises(RuntimeError, match="Attempting to deserialize object on a CUDA device"):
            tdt.load(path, map_location="cuda")
    with pytest.raises(ValueError, match="file path"):
        tdt.load(io.BytesIO(path.read_bytes()), mmap=True)


def test_every_storage_lies_on_a_boundary(tmp_path):
    tdt.save([tdt.ones(3), tdt.ones(5)], tmp_path / "a.pt")
    text = (tmp_path / "a.pt").read_bytes()
    with zipfile.ZipFile(tmp_path / "a.pt") as archive:
        for info in archive.infolist():
            begin = info.header_offset + 30 + int.from_bytes(text[info.header_offset + 26 :][:2], "little")
            begin += int.from_bytes(text[info.header_offset + 28 :][:2], "little")
            assert begin % 64 == 0 and text[begin : begin + info.file_size] == archive.read(info)


def test_a_part_of_an_array_is_saved_without_the_rest():
    part = tdt.from_numpy(np.arange(100_000.0)[10:20])
    file = io.BytesIO()
    tdt.save([part, part[2:], part.detach().view(2, 5)], file)
    assert len(file.getvalue()) < 5000
    file.seek(0)
    back = tdt.load(file)
    assert back[1].tolist() == part[2:].tolist() and back[2].untyped_storage() == back[0].untyped_storage()


def test_one_memory_as_two_types_is_refused():
    x = tdt.ones(4)
    with pytest.raises(RuntimeError, match="view the same data as different types"):
        tdt.save([x, x.view(tdt.int32)], io.BytesIO())


def test_an_archive_is_valid_and_a_flipped_byte_is_noticed_by_any_file_object():
    file = io.BytesIO()
    tdt.save({"w": tdt.arange(1000.0), "empty": tdt.ones(0)}, file)
    with zipfile.ZipFile(file) as archive:
        assert archive.testzip() is None
        assert [archive.getinfo(name).file_size for name in ("archive/data/0", "archive/data/1")] == [4000, 0]
    data = bytearray(file.getvalue())
    only_read = SimpleNamespace(read=file.read, seek=file.seek, tell=file.tell)
    file.seek(0)
    assert tdt.load(only_read)["w"].sum() == 499_500
    data[data.index(np.float32(500).tobytes())] ^= 1
    with pytest.raises(RuntimeError, match="data/0: Bad CRC-32"):
        tdt.load(io.BytesIO(data))


class _Stepwise(_write.Pickler):
    """Tensors are written object by object, by pickle's own methods."""

    def save(self, obj, save_persistent_id=True):
        base = _write._Pickler if type(obj) is tdt.Tensor else _write.Pickler
        base.save(self, obj, save_persistent_id)


@pytest.mark.parametrize("protocol", [2, 4])
def test_tensors_are_written_in_one_piece_as_object_by_object(protocol):
    rng = np.random.default_rng(0)
    shapes = [tuple(rng.integers(0, 5, rng.integers(0, 7)).tolist()) for _ in range(120)]
    base = tdt.arange(70_000.0)
    x = tdt.ones(3, requires_grad=True)
    for obj in (
        {f"{n}": tdt.ones(shape) for n, shape in enumerate(shapes)},
        [x, x, {"1": x, "storage": base, "cpu": [x]}, x.clone().detach()],
        [
            base[300:],
            base[69_000:].view(2, -1),
            base[::2],
            base.view(10, -1).t(),
            tdt.tensor(3),
            tdt.ones(2).to_sparse(),
        ],
        [tdt.ones(2, dtype=kind) for kind in (tdt.bfloat16, tdt.uint16, tdt.complex64, tdt.bool)],
        tdt.nn.BatchNorm1d(2),
        tdt.nn.BatchNorm1d(2).state_dict(),
    ):
        written = []
        for kind in (_write.Pickler, _Stepwise):
            file = io.BytesIO()
            kind(file, protocol).dump(obj)
            written.append(file.getvalue())
        assert written[0] == written[1]
