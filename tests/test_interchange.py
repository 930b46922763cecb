"""Tensors to NumPy, Python, other libraries and back, beside PyTorch."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import tdt
from tests.helpers import repr_or_error, require_torch

EXPRESSIONS = r"""
np.sin(t.ones(2))
np.sin(t.ones(2,requires_grad=True))
np.add(t.ones(2),np.ones(2))
np.ones(2)+t.ones(2)
t.ones(2)+np.ones(2)
np.ones(2)*t.ones(2,dtype=t.float64)
t.ones(2)*np.float64(2)
np.float64(2)*t.ones(2)
np.float32(2)*t.ones(2,requires_grad=True)
np.int64(2)+t.ones(2)
np.asarray(t.ones(2)).dtype
np.array(t.ones(2),dtype=int)
np.asarray(t.ones(2,requires_grad=True))
np.concatenate([t.ones(1),t.ones(1)])
np.array([t.tensor(1.),t.tensor(2.)])
np.multiply(np.ones(2),t.ones(2))
np.matmul(np.ones((2,2)),t.ones(2,2))
np.ones((2,2))@t.ones(2,2,dtype=t.float64)
np.isnan(t.ones(2))
np.maximum(t.ones(2),2)
np.ones(2)==t.ones(2)
t.ones(2)==np.ones(2)
np.ones(2)<t.ones(2)
np.from_dlpack(t.ones(2))
t.from_dlpack(np.ones(2))
t.utils.dlpack.from_dlpack(t.utils.dlpack.to_dlpack(t.ones(2)))
t.from_dlpack(t.ones(2)).dtype
t.ones(2,requires_grad=True).__dlpack__()
t.from_dlpack(3)
memoryview(t.ones(2))
bytes(t.ones(2,dtype=t.uint8))
copy.deepcopy(t.ones(2,requires_grad=True)*2)
(lambda x: copy.copy(x).data_ptr() == x.data_ptr())(t.ones(2))
(lambda x: (lambda c: c[0].data_ptr() == c[1].data_ptr())(copy.deepcopy([x,x[:]])))(t.ones(2))
(lambda x: (lambda c: c.stride())(copy.deepcopy(x)))(t.ones(2,3).t())
(lambda x: (lambda c: c[0].data_ptr() == c[1].data_ptr())(again([x,x[:]])))(t.ones(2))
again(t.ones(2,3).t()).stride()
copy.deepcopy(t.ones(2).expand(3,2)).stride()
again(t.nn.Parameter(t.ones(2)))
copy.copy(t.nn.Parameter(t.ones(2)))
int(t.tensor(2.7)),float(t.tensor(2)),bool(t.tensor(0)),complex(t.tensor(1.))
int(t.tensor([2.7]))
float(t.tensor([[2]]))
int(t.ones(2))
float(t.tensor(1j))
int(t.tensor(float('inf')))
int(t.tensor(float('nan')))
[1,2,3][t.tensor(1)]
[1,2,3][t.tensor([1])]
[1,2,3][t.tensor(1.)]
[1,2,3][t.tensor(True)]
range(t.tensor(3))
t.ones(2).item()
t.ones(0).item()
t.tensor(True).item(), t.tensor(1,dtype=t.uint8).item(), t.tensor(1.5,dtype=t.bfloat16).item(), t.tensor(1+2j).item()
t.tensor([[True]]).tolist(), t.tensor(1.5,dtype=t.half).tolist(), t.tensor([1.5],dtype=t.bfloat16).tolist()
bool(t.ones(2))
bool(t.ones(0))
bool(t.tensor([[0.]]))
len(t.tensor(1))
iter(t.tensor(1))
list(t.tensor([[1,2],[3,4]]))
f"{t.tensor(1.5):.3f} {t.tensor(3):>5} {t.tensor([1.5])}"
f"{t.tensor([1.5]):>5}"
1.0 in t.ones(2)
"a" in t.ones(2)
t.ones(2).__array_priority__
t.ones(2).numpy(force=True)
t.ones(2,requires_grad=True).numpy()
t.asarray(np.ones(2))
t.asarray(bytearray(8))
t.asarray(3.5)
t.asarray(np.float64(3))
t.asarray([t.tensor(1),2])
t.asarray(t.ones(2),dtype=t.float64,copy=False)
t.asarray(t.ones(2,requires_grad=True)).requires_grad
t.asarray(t.ones(2,requires_grad=True),requires_grad=True).requires_grad
t.asarray((t.ones(2,requires_grad=True)*2),requires_grad=False)
t.as_tensor(np.float32(2))
t.tensor(np.float64(2)), t.tensor([np.float32(1)]), t.tensor(np.array(2))
t.tensor(t.ones(2))
t.asarray([1,2]),t.asarray("a")
t.frombuffer(bytearray(8),dtype=t.int32,count=1,offset=4)
t.frombuffer(bytearray(7),dtype=t.int32)
t.frombuffer(bytearray(0),dtype=t.int32)
t.frombuffer(bytearray(8),dtype=t.int32,offset=9)
t.frombuffer(bytearray(8),dtype=t.int32,count=5)
t.frombuffer(bytearray(8),dtype=t.int32,requires_grad=True)
t.frombuffer(3,dtype=t.int32)
t.asarray([1,2],copy=False)
t.asarray(np.ones(2),dtype=t.float32,copy=False)
t.ones(2).module_load(t.ones(2))
t.ones(2).as_subclass(t.nn.Parameter)
t.ones(2).as_subclass(int)
"""
CREATION = """
t.range(1,4)
t.range(1,4,0.5)
t.range(0,1,dtype=t.int64)
t.range(3,1)
t.range(3,1,-1)
t.vander(t.tensor([1,2,3]))
t.vander(t.tensor([1,2,3]),N=2,increasing=True)
t.vander(t.tensor([1,2,3]),N=0)
t.vander(t.ones(2,2))
t.vander(t.tensor([1,2,3]),N=-1)
t.combinations(t.tensor([1,2,3]))
t.combinations(t.tensor([1,2,3]),r=0)
t.combinations(t.tensor([1,2,3]),r=4)
t.combinations(t.tensor([1,2,3]),r=-1)
t.combinations(t.tensor([1,2,3]),r=3,with_replacement=True).shape
t.combinations(t.ones(2,2))
t.cartesian_prod(t.tensor([1,2]),t.tensor([3,4]))
t.cartesian_prod(t.tensor([1,2]))
t.cartesian_prod()
t.cartesian_prod(t.ones(2,2))
t.polar(t.tensor([1.,2]),t.tensor([0.,1.]))
t.polar(t.tensor([1.]),t.tensor([1],dtype=t.float64))
t.polar(t.tensor([1]),t.tensor([1]))
t.empty_permuted((2,3),(1,0)).stride()
t.empty_permuted((2,3,4),(1,0,2),dtype=t.int32).stride()
t.empty_permuted((2,3),(1,1))
t.empty_permuted((2,3),(1,))
t.empty_permuted((2,3),(2,0))
"""


def test_numpys_reductions_call_the_tensors():
    """PyTorch refuses them over the `out=None` that NumPy hands on; methods take it here."""
    x = tdt.tensor([[1.0, 2.0], [3.0, 5.0]])
    assert np.sum(x).item() == 11
    assert np.mean(x, axis=0).tolist() == [2.0, 3.5]


@pytest.mark.parametrize("expression", (EXPRESSIONS + CREATION).split("\n"))
def test_both_libraries_report_the_same(expression):
    assert not expression or repr_or_error(tdt, expression) == repr_or_error(require_torch(), expression)


@pytest.mark.parametrize("name", "float32 float64 float16 int64 uint8 bool complex64".split())
def test_dlpack_shares_memory_with_pytorch_both_ways(name):
    torch = require_torch()
    for ours, theirs in ((tdt, torch), (torch, tdt)):
        x = ours.arange(6).reshape(2, 3).to(getattr(ours, name))
        for view in (x, x.t(), x[:, 1], x[0, 0], x[:, ::2]):
            for exported in (view, ours.utils.dlpack.to_dlpack(view)):
                imported = theirs.from_dlpack(exported)
                assert imported.tolist() == view.tolist() and imported.stride() == view.stride()
                assert imported.data_ptr() == view.data_ptr()
        theirs.from_dlpack(x).fill_(1)
        assert x.tolist() == (x * 0 + 1).to(x.dtype).tolist()


def test_imported_memory_outlives_its_exporter():
    torch = require_torch()
    imported = [tdt.from_dlpack(torch.full((1000,), float(i))) for i in range(20)]
    imported += [tdt.from_dlpack(torch.utils.dlpack.to_dlpack(torch.full((1000,), float(i)))) for i in range(20)]
    assert [int(x.sum()) for x in imported] == [1000 * i for i in range(20)] * 2


def test_a_buffer_and_a_file_are_shared(tmp_path):
    memory = bytearray(8)
    x = tdt.frombuffer(memory, dtype=tdt.int32)
    x[1] = 7
    assert memory[4] == 7 and tdt.asarray(memoryview(memory).cast("B"), dtype=tdt.int32).tolist() == [0, 7]
    with pytest.warns(UserWarning, match="not writable"):
        assert tdt.frombuffer(bytes(memory), dtype=tdt.int32).tolist() == [0, 7]
    path = tmp_path / "numbers.bin"
    shared = tdt.from_file(path, shared=True, size=3, dtype=tdt.int16)
    shared.copy_(tdt.tensor([1, 2, 3]))
    private = tdt.from_file(str(path), size=2, dtype=tdt.int16)
    private[0] = 9
    assert np.fromfile(path, np.int16).tolist() == [1, 2, 3] and private.tolist() == [9, 2]
    with pytest.raises(RuntimeError, match="size <6> is smaller than the required mapping size <8>"):
        tdt.from_file(path, size=4, dtype=tdt.int16)
    with pytest.raises(RuntimeError, match="unable to open file"):
        tdt.from_file(tmp_path / "none", size=4)


def test_bfloat16_leaves_as_ml_dtypes_array_and_not_by_dlpack():
    assert tdt.ones(2, dtype=tdt.bfloat16).numpy().dtype.name == "bfloat16"
    with pytest.raises(BufferError, match="bfloat16"):
        tdt.ones(2, dtype=tdt.bfloat16).__dlpack__()


class Named(tdt.Tensor):
    """A class of the user's own."""

    def first(self):
        return self[0].item()


def test_a_class_of_the_users_is_a_tensor_with_methods_of_its_own():
    x = tdt.arange(3.0, requires_grad=True)
    named = (x * 2).as_subclass(Named)
    assert named.first() == 0 and type(named) is Named and type(named + 1) is Named
    named.sum().backward()
    assert x.grad.tolist() == [2, 2, 2]
    again = copy.deepcopy(x.detach().as_subclass(Named))
    assert type(again) is Named and again.tolist() == [0, 1, 2]
    assert type(tdt.Tensor._make_subclass(Named, x, True)) is Named and Named([1, 2]).first() == 1


class Scaled(tdt.Tensor):
    """One that is made with more than its values."""

    def __new__(cls, values, scale):
        return tdt.Tensor._make_subclass(cls, tdt.as_tensor(values))

    def __init__(self, values, scale):
        self.scale = scale


class Labelled(tdt.Tensor):
    """One whose values the old constructor takes."""

    def __init__(self, *values):
        self.label = "x"


def test_classes_of_the_users_take_arguments_of_their_own():
    assert Scaled([1.0, 2.0], scale=3).scale == 3 and Scaled([1.0, 2.0], 3).tolist() == [1, 2]
    assert Labelled([1, 2]).tolist() == [1, 2] and Labelled(2, 3).shape == (2, 3) and Labelled().label == "x"


def test_copies_in_one_container_share_what_the_originals_shared():
    base = tdt.arange(6.0)
    copied = copy.deepcopy({"whole": base, "part": base[2:4], "matrix": base.view(2, 3).t()})
    copied["whole"].zero_()
    assert copied["part"].tolist() == [0, 0] and not copied["matrix"].any() and base.tolist() == [0, 1, 2, 3, 4, 5]
    assert copied["part"]._version == copied["whole"]._version and copied["matrix"].stride() == (1, 3)


def test_named_results_are_pickled_and_copied():
    found = tdt.max(tdt.tensor([[1.0, 3.0], [2.0, 0.0]]), 1)
    for copied in (pickle.loads(pickle.dumps(found)), copy.deepcopy(found)):
        assert type(copied) is type(found)
        assert copied.values.tolist() == [3, 2]
        assert repr(copied) == repr(found)


def test_an_index_out_of_bounds_is_reported_with_the_size_of_its_dimension():
    x = tdt.ones(2, 3)
    for error, call in (  # as PyTorch's
        (IndexError, lambda: x.index_select(1, tdt.tensor([0, 9]))),
        (RuntimeError, lambda: x.index_add(1, tdt.tensor([0, 9]), tdt.ones(2, 2))),
    ):
        with pytest.raises(error, match=r"indices lie in \[0, 9\], but the dimension has size 3"):
            call()


def test_a_tensor_of_a_memory_map_or_matrix_shares_memory_and_has_a_tensors_operators(tmp_path):
    np.arange(4, dtype=np.float32).tofile(tmp_path / "numbers")
    for source in (
        np.memmap(tmp_path / "numbers", np.float32, "r+", shape=(2, 2)),
        np.matrix([[0.0, 1.0], [2.0, 3.0]]),
    ):
        for lib in (tdt, require_torch()):
            x = lib.from_numpy(source)
            assert type(x.numpy()) is np.ndarray and np.shares_memory(x.numpy(), source)
            assert (x * x)[1].tolist() == [4.0, 9.0]
    mapped = np.memmap(tmp_path / "numbers", np.float32, "r+", shape=4)
    tdt.from_numpy(mapped).mul_(2)
    mapped.flush()
    assert np.fromfile(tmp_path / "numbers", np.float32).tolist() == [0, 2, 4, 6]
