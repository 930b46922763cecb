"""Names of `torch` that libraries call: named tuples, sizes, casts, old sparse types, swapped tensors."""

from __future__ import annotations

import copy
import pickle
import weakref

import pytest

import tdt
from tests.helpers import require_torch


def test_return_types_are_those_of_pytorch_and_of_the_operations():
    torch = require_torch()
    for name in torch.return_types.__all__:
        theirs = getattr(torch.return_types, name)
        if isinstance(theirs, type):
            assert getattr(tdt.return_types, name)._fields == theirs.__match_args__, name
    x = tdt.tensor([[3.0, 1.0], [2.0, 5.0]])
    for name, value in {
        "topk": x.topk(1), "max": x.max(0), "cummin": x.cummin(0), "sort": x.sort(), "frexp": tdt.frexp(x),
        "aminmax": x.aminmax(), "linalg_svd": tdt.linalg.svd(x), "linalg_slogdet": tdt.linalg.slogdet(x), "mode": x.mode(0),
    }.items():  # fmt: skip
        assert type(value) is getattr(tdt.return_types, name)
        assert type(pickle.loads(pickle.dumps(value))) is type(value)


def test_a_return_type_takes_one_sequence():
    torch = require_torch()
    for library in (tdt, torch):
        kind = library.return_types.topk
        assert kind([1, 2]).indices == 2
        assert tuple(kind((1, 2))) == (1, 2)
        with pytest.raises(TypeError, match="topk.* takes a 2-sequence"):
            kind((1,))
    assert tdt.return_types.topk(1, 2)._replace(values=5) == (5, 2)


@pytest.mark.parametrize("expression", [
    "sym_int(3.7)", "sym_int(-3.7)", "sym_int(4)", "sym_float(3)", "sym_max(3, 4.0)", "sym_max(4, 3.0)", "sym_min(3, 4.0)",
    "sym_min(2, 5)", "sym_not(True)", "sym_not(0)", "sym_ite(True, 1, 2)", "sym_ite(False, 1.0, 2.0)", "sym_sum([1, 2, 3])",
    "sym_sum([])", "sym_sqrt(4)", "sym_ite(1, 1, 2)", "sym_ite(True, 1, 2.0)", "sym_max(tensor(1), 2)",
])  # fmt: skip
def test_arithmetic_of_sizes_is_pytorchs(expression: str):
    def value(library):
        try:
            result = eval(expression, vars(library) | {name: getattr(library, name) for name in NAMES})
        except AssertionError:
            return AssertionError
        return result, type(result)

    NAMES = ["sym_int", "sym_float", "sym_max", "sym_min", "sym_not", "sym_ite", "sym_sum", "sym_sqrt", "tensor"]
    assert value(tdt) == value(require_torch())


@pytest.mark.parametrize("kind", ["Byte", "Char", "Short", "Int", "Long", "Half", "Float", "Double"])
def test_casts_are_pytorchs(kind: str):
    torch = require_torch()
    values = [[1.5, -0.5, 100.0]] if kind != "Byte" else [[1.5, 0.5, 100.0]]
    ours, theirs = (getattr(library, f"_cast_{kind}")(library.tensor(values)) for library in (tdt, torch))
    assert str(ours.dtype).partition(".")[2] == str(theirs.dtype).partition(".")[2]
    assert ours.tolist() == theirs.tolist()


def test_gradients_of_softmax_are_pytorchs():
    torch = require_torch()
    values = torch.randn(2, 4, 5, generator=torch.Generator().manual_seed(0))
    grad = torch.randn(4, 5, generator=torch.Generator().manual_seed(1))
    for name, function in (("_softmax_backward_data", "softmax"), ("_log_softmax_backward_data", "log_softmax")):
        for dim in (0, -1):
            out = getattr(torch, function)(values[0], dim)
            theirs = getattr(torch, name)(grad, out, dim, torch.float32)
            ours = getattr(tdt, name)(tdt.tensor(grad.numpy()), tdt.tensor(out.numpy()), dim, tdt.float32)
            torch.testing.assert_close(torch.from_numpy(ours.numpy()), theirs)


def test_sizes_are_a_tensor():
    assert tdt._shape_as_tensor(tdt.ones(2, 3)).tolist() == [2, 3]
    assert tdt._shape_as_tensor(tdt.ones(())).shape == (0,)


def test_old_sparse_types_create_and_tell_sparse_tensors():
    torch = require_torch()
    for library in (tdt, torch):
        kind = library.sparse.FloatTensor
        result = kind(library.tensor([[0, 1], [2, 0]]), library.tensor([1.0, 2.0]), library.Size([2, 3]))
        assert result.to_dense().tolist() == [[0, 0, 1], [2, 0, 0]]
        assert isinstance(result, kind)
        assert not isinstance(result.double(), kind)
        assert not isinstance(library.ones(2), kind)
        assert isinstance(library.sparse.DoubleTensor(2, 3), library.sparse.DoubleTensor)
        assert kind(2, 3).shape == (2, 3)
        assert kind(library.tensor([[0, 1]]), library.tensor([1.0, 2.0])).shape == (2,)
        assert repr(kind) == "<class 'torch.sparse.FloatTensor'>"


def test_tensors_are_swapped_with_all_that_they_have():
    torch = require_torch()
    for library in (tdt, torch):
        a, b = library.zeros(2), library.nn.Parameter(library.ones(3))
        a.tag, b.grad = "a", library.ones(3)
        module = library.nn.Linear(1, 1)
        module.weight = b
        library.utils.swap_tensors(a, b)
        assert isinstance(a, library.nn.Parameter)
        assert a.requires_grad
        assert a.grad.tolist() == [1, 1, 1]
        assert type(b) is library.Tensor
        assert b.tag == "a"
        assert not hasattr(a, "tag")
        (a * 2).sum().backward()
        assert a.grad.tolist() == [3, 3, 3]
        held = weakref.ref(a)
        with pytest.raises(RuntimeError, match="weakref"):
            library.utils.swap_tensors(a, b)
        assert held() is a
        with pytest.raises(AttributeError):
            library.utils.swap_tensors(b, 3)


def test_a_parameters_subclass_may_take_other_arguments():
    torch = require_torch()
    for library in (tdt, torch):

        class Tagged(library.nn.Parameter):
            def __new__(cls, data, tag, requires_grad=True):
                result = library.Tensor._make_subclass(cls, data, requires_grad)
                result.tag = tag
                return result

        class Counted(library.nn.Parameter):
            def __init__(self, data=None, requires_grad=True):
                super().__init__()
                self.count = 1

        result, counted = Tagged(library.ones(2), tag="t"), Counted(library.ones(2), False)
        assert isinstance(result, library.nn.Parameter)
        assert (result.tag, result.requires_grad, result.tolist()) == ("t", True, [1, 1])
        assert (counted.count, counted.requires_grad, counted.tolist()) == (1, False, [1, 1])
        layer = library.nn.Linear(1, 1)
        layer.extra = result
        assert "extra" in dict(layer.named_parameters())
        assert copy.deepcopy(library.nn.Parameter(library.ones(2), requires_grad=False)).requires_grad is False


def test_numpy_takes_a_tensor_that_requires_grad_under_no_grad():
    torch = require_torch()
    for library in (tdt, torch):
        x = library.ones(2, requires_grad=True)
        with pytest.raises(RuntimeError, match="requires grad"):
            x.numpy()
        with library.no_grad():
            assert x.numpy().tolist() == [1, 1]


def test_states_of_gpus_without_one():
    torch = require_torch()
    for library in (tdt, torch):
        assert library.utils.checkpoint.get_device_states(library.ones(2), 3) == ([], [])
        library.utils.checkpoint.set_device_states([], [])


def test_initialisers_by_pytorchs_internal_names():
    x = tdt.empty(3, requires_grad=True)
    assert tdt.nn.init._no_grad_fill_(x, 2.0).tolist() == [2, 2, 2]
    assert tdt.nn.init._no_grad_zero_(x).tolist() == [0, 0, 0]
    assert 0 <= tdt.nn.init._no_grad_uniform_(x, 0.0, 1.0).min().item() <= 1
    assert x.is_leaf


def test_options_of_the_older_exporter_have_pytorchs_numbers():
    torch = require_torch()
    for name in ("OperatorExportTypes", "TrainingMode"):
        theirs = {key: int(value) for key, value in getattr(torch.onnx, name).__members__.items()}
        assert {option.name: option.value for option in getattr(tdt.onnx, name)} == theirs


def test_questions_about_tracing_have_answers():
    from tdt.compat._subclasses.fake_tensor import is_fake
    from tdt.compat.fx.experimental import proxy_tensor, symbolic_shapes
    from tdt.compat.jit import _get_trace_graph

    assert proxy_tensor.get_proxy_mode() is None
    assert not is_fake(tdt.ones(1))
    assert symbolic_shapes.guard_or_false(tdt.ones(2).shape[0] > 1)
    assert symbolic_shapes.free_symbols(tdt.ones(2).shape) == set()
    with pytest.raises(NotImplementedError):
        _get_trace_graph(tdt.nn.ReLU(), ())


def test_a_dtype_that_tdt_lacks_can_be_compared_and_not_used():
    assert tdt.ones(1).dtype != tdt.complex32
    assert str(tdt.complex32).endswith("complex32")
    with pytest.raises(TypeError):
        tdt.ones(1, dtype=tdt.complex32)


def test_code_can_ask_whether_it_is_mapped():
    from tdt.compat._C import _are_functorch_transforms_active

    found = []
    tdt.vmap(lambda x: found.append(_are_functorch_transforms_active()) or x)(tdt.ones(2))
    assert True in found
    assert not _are_functorch_transforms_active()
