"""One file adds an op: its function, methods, gradients, node name, autocast, kernels and sparse forms follow."""

from __future__ import annotations

import importlib.util
import inspect
import sys
from collections.abc import Iterator
from types import ModuleType

import numpy as np
import pytest

import tdt
from tdt._core.methods import IN_PLACE_FUNCTIONS
from tdt._kernels import KERNELS
from tdt.autograd import gradcheck, gradgradcheck
from tdt.autograd._op_table import OPS

SOURCE = '''
from __future__ import annotations

from tdt._core.dtype import FLOATING
from tdt._core.methods import method
from tdt._core.tensor import Tensor
from tdt._kernels import kernel
from tdt._ops.elementwise._front import unary_op
from tdt.autograd._in_place_methods import by_op
from tdt.autograd._op import finish, op


@method(aliases=("third_power",), in_place=by_op, in_place_function=True)
@unary_op(lambda xp, x: x * x * x, lambda g, x: g * (3 * x * x), dtypes=FLOATING, node="CubeBackward7", autocast="lower",
          sparse_values="coalesced")
def cube(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Each element to the third power.

    >>> import tdt
    """


@op(
    dtypes=FLOATING,
    autocast="float32",
    kernels=(kernel("blend_cpu:blend", lambda arrays, attributes: arrays[0].size >= 1000),),
)
def _blend(xp, x, y, *, share):
    return x * share + y * (1 - share)


_blend.vjp("x")(lambda g, share: g * share)
_blend.vjp("y")(lambda g, share: g * (1 - share))


@_blend.sparse_form
def _blend_sparse(x: Tensor, y: Tensor, share: float) -> Tensor:
    return x * share + y * (1 - share)


@method()
def blend(input: Tensor, other: Tensor, share: float = 0.5) -> Tensor:
    """A weighted mean of two tensors."""
    return _blend(input, other, share=share)
'''


@pytest.fixture(scope="module")
def added(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    """The module of the two new ops, which are taken out of Tensor and the table again."""
    path = tmp_path_factory.mktemp("ops") / "third_powers.py"
    path.write_text(SOURCE)
    spec = importlib.util.spec_from_file_location("third_powers", path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules["third_powers"] = importlib.util.module_from_spec(spec)
    before, names = dict(vars(tdt.Tensor)), OPS.keys() | set()
    spec.loader.exec_module(module)
    yield module
    for name in vars(tdt.Tensor).keys() - before.keys():
        delattr(tdt.Tensor, name)
    for name in OPS.keys() - names:
        del OPS[name]
    for name in ("cube_", "third_power_"):
        del IN_PLACE_FUNCTIONS[name]
    del KERNELS["blend_cpu:blend"]
    del sys.modules["third_powers"]


def test_function_methods_and_in_place_forms_agree(added: ModuleType):
    x = tdt.tensor([1.0, -2.0])
    assert added.cube(x).tolist() == x.cube().tolist() == x.third_power().tolist() == [1, -8]
    assert added.cube(x, out=tdt.empty(2)).tolist() == [1, -8]
    assert x.cube_() is x
    assert IN_PLACE_FUNCTIONS["cube_"](x).tolist() == [1, -512]
    assert added.blend(x, tdt.zeros(1), share=0.5).tolist() == x.blend(tdt.zeros(1)).tolist() == [0.5, -256]


def test_gradients_dtypes_and_shapes_follow(added: ModuleType):
    x = tdt.tensor([0.5, 2.0], dtype=tdt.float64, requires_grad=True)
    y = tdt.tensor([[1.0], [3.0]], dtype=tdt.float64, requires_grad=True)
    assert gradcheck(added.cube, (x,))
    assert gradgradcheck(added.cube, (x,))
    assert gradcheck(added.blend, (x, y))  # broadcast
    assert added.cube(tdt.tensor([2])).dtype is tdt.float32  # integers compute in the default dtype
    assert added.blend(tdt.empty(3, 1, device="meta"), tdt.empty(4, device="meta")).shape == (3, 4)
    with pytest.raises(NotImplementedError, match="cube"):
        added.cube(tdt.tensor([1j]))


def test_graph_and_autocast_read_the_record(added: ModuleType):
    x = tdt.ones(2, requires_grad=True)
    assert added.cube(x).grad_fn.name() == "CubeBackward7"
    assert added.blend(x, x).grad_fn.name() == "BlendBackward0"
    with tdt.autocast("cpu", dtype=tdt.bfloat16):
        assert added.cube(x).dtype is tdt.bfloat16
        assert added.blend(x.bfloat16(), x.bfloat16()).dtype is tdt.float32


def test_large_arrays_take_the_kernel(added: ModuleType, monkeypatch: pytest.MonkeyPatch):
    calls = []
    kernels = ModuleType("tdt._kernels.blend_cpu")
    kernels.blend = lambda x, y, *, share: calls.append(share) or x  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "tdt._kernels.blend_cpu", kernels)
    x = tdt.rand(1000)
    assert added.blend(x, tdt.zeros(1000), share=0.25).equal(x)
    assert added.blend(x[:9], tdt.zeros(9), share=0.25).equal(x[:9] * 0.25)
    assert calls == [0.25]


def test_sparse_tensors_take_the_form_that_the_record_names(added: ModuleType):
    x = tdt.sparse_coo_tensor([[1, 1]], [1.0, 2.0], (3,))
    assert added.cube(x).is_sparse
    assert added.cube(x).to_dense().tolist() == [0, 27, 0]
    assert added.blend(x, x, share=0.25).to_dense().tolist() == [0, 3, 0]


def test_help_and_tracebacks_name_the_function(added: ModuleType):
    assert str(inspect.signature(tdt.Tensor.cube)) == "(input: 'Tensor', *, out: 'Tensor | None' = None) -> 'Tensor'"
    assert (added.cube.__name__, added.cube.__code__.co_name, tdt.Tensor.cube_.__name__) == ("cube", "cube", "cube_")
    assert "third power" in (inspect.getdoc(added.cube) or "")
    with pytest.raises(TypeError, match=r"cube\(\): argument 'input' \(position 1\) must be Tensor, not list"):
        added.cube([1.0])
    np.testing.assert_array_equal(added.cube(tdt.ones(2)).numpy(), [1, 1])
