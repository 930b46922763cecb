"""Properties of tensors, dtypes and memory, read in both libraries."""

from __future__ import annotations

import ast
import pickle
import re
import runpy
import typing
from pathlib import Path

import pytest

import tdt
from tests.helpers import repr_or_error, require_torch

OLD_TYPES = """
t.Tensor(t.tensor([1]))
t.Tensor([1.5, 2])
t.FloatTensor(t.tensor([1]))
t.FloatTensor([[2, 3]])
t.FloatTensor((2, 3))
t.FloatTensor(t.Size([2, 2])).shape
t.FloatTensor(2, 3).shape
t.FloatTensor().shape
t.LongTensor([1.5, 2])
t.LongTensor(np.array([1.5, 2]))
t.Tensor(np.array([[1, 2]]))
t.Tensor(np.int64(3)).shape
t.Tensor(range(3))
t.Tensor(5.0)
t.Tensor('a')
t.Tensor(True)
t.Tensor(-1)
t.Tensor(2, 2.5)
t.Tensor([[1, 2], [3]])
t.BoolTensor([1, 0])
t.HalfTensor([1])
t.FloatTensor(t.FloatStorage([1, 2]))
t.FloatTensor(t.ones(2).untyped_storage())
t.FloatTensor
str(t.FloatTensor)
t.FloatTensor.dtype, t.FloatTensor.is_cuda, t.FloatTensor.layout
isinstance(t.ones(1), t.FloatTensor), isinstance(t.ones(1).long(), t.FloatTensor)
t.ones(1).type(t.LongTensor)
t.ones(1).type('torch.DoubleTensor').dtype
t.ones(1).type('Foo')
t.ones(1).long().type()
t.typename(t.ones(1)), t.typename(3), t.typename(t.FloatTensor)
t.typename(t.nn.Linear(1, 1))
t.ones(1).new(2, 3).shape
t.ones(1).long().new([1, 2])
t.ones(1).new().shape
t.ones(1).new(t.ones(2))
(t.set_default_tensor_type(t.DoubleTensor), t.tensor(1.0).dtype, t.set_default_tensor_type('torch.FloatTensor'))
t.set_default_tensor_type(t.LongTensor)
t.cuda.FloatTensor, t.cuda.FloatTensor.is_cuda, isinstance(t.ones(1), t.cuda.FloatTensor)
t.cuda.FloatTensor(2) if not t.cuda.is_available() else {}['a GPU is there']
t.set_default_tensor_type('torch.cuda.FloatTensor')
t.set_default_tensor_type(t.float32)
"""

TYPES = """
[t.finfo(d) for d in (t.float16, t.bfloat16, t.float32, t.float64, t.complex64, float)], t.finfo()
[t.iinfo(d) for d in (t.uint8, t.int8, t.int16, t.int32, t.int64, t.uint16, t.uint32, t.uint64, int)]
t.finfo(t.float32).dtype, t.iinfo(t.int8).bits, t.finfo(t.bfloat16).tiny, t.finfo(t.float64).resolution
t.iinfo(t.uint8) == t.iinfo(t.uint8), t.iinfo(t.uint8) == t.iinfo(t.int8)
t.iinfo(t.float32)
t.finfo(t.int32)
t.iinfo(t.bool)
t.result_type(t.tensor([1]), 1.5)
t.result_type(t.tensor(1.), t.tensor([1]))
t.result_type(t.tensor(1.), t.tensor([1], dtype=t.float16))
t.result_type(1, 2), t.result_type(1, 2.5), t.result_type(True, 1), t.result_type(True, False)
t.result_type(1j, t.ones(1, dtype=t.float64)), t.result_type(3, t.tensor(1., dtype=t.float16))
t.result_type(t.tensor([1], dtype=t.uint8), 300), t.result_type(t.tensor([True]), 1), t.result_type(t.tensor(1), t.tensor([True]))
t.promote_types(t.float32, 3)
t.can_cast(t.float, t.int), t.can_cast(t.int, t.uint8)
t.Size((2,)) * 2, (1,) + t.Size([2]), t.Size([1]) + (2,), t.Size([1, 2])[1:], 2 * t.Size([3])
(t.set_default_dtype(t.float64), t.Tensor().dtype, t.Tensor(1).dtype, t.tensor(1j).dtype, t.set_default_dtype(t.float32))
t.arange(1e20)
t.is_nonzero(t.tensor([0.])), t.is_nonzero(t.tensor(2))
t.is_nonzero(t.ones(2))
t.ones(0).is_nonzero()
t.numel(t.ones(2, 3)), t.is_tensor(3), t.is_floating_point(t.ones(1)), t.is_signed(t.ones(1)), t.is_complex(t.ones(1))
t.numel(3)
t.is_floating_point(3)
t.is_conj(t.ones(1)), t.is_neg(t.ones(1)), t.is_distributed(t.ones(1)), t.is_inference(t.ones(1))
t.get_device(t.ones(1)), t.ones(1).get_device()
t.ones(1).layout, t.strided, t.sparse_coo, t.sparse_csr
[getattr(t.ones(1), n) for n in 'is_cpu is_cuda is_meta is_quantized is_sparse is_sparse_csr is_mkldnn is_nested is_xpu'.split()]
t.ones(2, 3).dim_order(), t.ones(2, 3).t().dim_order(), t.ones(1, 2, 3, 4).to(memory_format=t.channels_last).dim_order()
t.ones(2).is_same_size(t.ones(2)), t.is_same_size(t.ones(2), t.ones(1, 2))
t.ones(2).is_set_to(t.ones(2))
t.ones(2).name, t.ones(2).dense_dim(), t.ones(2).sparse_dim()
t.ones(1).pin_memory() if not t.ones(1).is_pinned() else 0
t.ones(1).is_shared(), t.ones(1).share_memory_().is_shared(), t.ones(1).share_memory_()
t.ones(2).apply_(lambda x: x + 1)
t.tensor([[1, 2], [3, 4]]).t().apply_(lambda x: 2 * x)
t.ones(2).map_(t.arange(2.), lambda x, y: x + y), t.ones(2).map2_(t.ones(2), t.ones(1), lambda x, y, z: x + y + z)
t.ones(2, requires_grad=True).apply_(abs)
t.ones(2).map_(t.ones(2).long(), lambda x, y: x)
t.ones(2).resize(1, 2), t.ones(2).resize_as(t.ones(1, 2))
t.get_default_device()
t.detach(t.ones(2, requires_grad=True)), t.legacy_contiguous_format, t.ones(2).grad_dtype
t.ones(2).const_data_ptr() > 0, t.__config__.show()[3:15] != '', 'get_num_threads' in t.__config__.parallel_info()
t.arange(4).resize_(2, 2), t.arange(6)[2:].resize_(3), t.arange(4).resize_((2, 1)), t.arange(4).resize_(3, 3).shape
t.arange(4.).resize_(3, 3)[0]
t.ones(2, requires_grad=True).resize_(1)
t.ones(2).resize_(-1)
t.ones(2).resize_as_(t.ones(2, 2)).shape
t.ones(24).resize_(1, 2, 3, 4, memory_format=t.channels_last).stride()
t.zeros(3).set_()
t.zeros(3).set_(t.ones(2))
t.zeros(3).set_(t.arange(4.).untyped_storage(), 1, (3,), (1,))
t.zeros(3).set_(t.arange(4.).untyped_storage())
t.zeros(9).untyped_storage().__sizeof__() - t.UntypedStorage(0).__sizeof__()
t.zeros(3).set_(t.ones(4).long())
t.zeros(3).set_(t.arange(4.), 1, (2, 2), (1, 1))
t.zeros(3).set_(t.ones(4).untyped_storage(), 2, (3,))
"""

STORAGES = """
t.arange(3.)[1:].untyped_storage().nbytes(), len(t.arange(3.)[1:].untyped_storage()), t.arange(3).untyped_storage().tolist()[:9]
t.arange(3.).t().storage().tolist(), t.arange(3.).storage().size(), t.arange(3.).storage()[1]
t.ones(2, dtype=t.bfloat16).storage()[0], t.ones(2, dtype=t.bool).storage().tolist()
t.arange(3.).storage()[0:1]
t.UntypedStorage(3).nbytes(), t.UntypedStorage([1, 2]).tolist(), t.UntypedStorage([1, 2])[1]
t.UntypedStorage([1, 2, 3])[1:].tolist()
t.FloatStorage(3).size(), t.LongStorage([1, 2]).tolist(), t.FloatStorage([1, 2]).nbytes(), t.FloatStorage([1, 2]).dtype
t.FloatStorage([1, 2]).copy_(t.FloatStorage([3, 4])).tolist(), t.FloatStorage([1, 2]).fill_(5).tolist()
t.UntypedStorage([1, 2]).copy_(t.UntypedStorage([3, 4])).tolist(), t.UntypedStorage([1, 2]).fill_(5).tolist()
t.UntypedStorage([1, 2]).resize_(1).nbytes(), t.FloatStorage([1, 2]).clone().tolist(), t.UntypedStorage([1]).clone().tolist()
t.is_storage(t.ones(1).untyped_storage()), t.is_storage(t.ones(1)), t.is_storage(t.FloatStorage(1))
t.ones(1).storage_type().__name__, t.ones(1).storage().pickle_storage_type(), t.ones(1).storage().element_size()
t.ones(1).untyped_storage().device, t.ones(1).untyped_storage().is_shared(), t.ones(1).untyped_storage().is_cuda
t.FloatStorage([1, 2])
(lambda x: x.storage().data_ptr() == x.untyped_storage().data_ptr() == x[1:].untyped_storage().data_ptr())(t.ones(3))
"""


@pytest.mark.parametrize("expression", (OLD_TYPES + TYPES + STORAGES).strip().splitlines())
def test_both_libraries_report_the_same(expression):
    if not expression:
        return
    assert repr_or_error(tdt, expression) == repr_or_error(require_torch(), expression)


def test_factories_create_tensors_on_the_default_device():
    assert tdt.get_default_device() == tdt.device("cpu")
    with tdt.device("cuda:3"):
        assert tdt.get_default_device() == tdt.device("cuda:3")
        with tdt.device("cpu"):
            assert tdt.zeros(2).device.type == "cpu"
        if tdt._backend.cuda_device_count() < 4:
            with pytest.raises((AssertionError, RuntimeError)):
                tdt.zeros(2)
        assert tdt.zeros(2, device="cpu").device.type == "cpu"
    tdt.set_default_device("cpu")
    assert tdt.zeros(2).device == tdt.device("cpu")


def test_a_write_to_a_storage_is_one_to_its_tensors():
    x = tdt.arange(3.0)
    version = x._version
    x.untyped_storage().fill_(0)
    assert x.tolist() == [0, 0, 0] and x._version == version + 1
    y = tdt.zeros(1).set_(x.untyped_storage())
    y[0] = 5
    assert x[0] == 5 and x._version == y._version


def test_memory_that_tensors_look_into_is_not_resized_behind_them():
    with pytest.raises(RuntimeError, match="tensors look into this storage"):
        tdt.ones(2).untyped_storage().resize_(0)


def test_old_types_pickle_under_their_names():
    assert pickle.loads(pickle.dumps(tdt.FloatTensor)) is tdt.FloatTensor


def test_old_tensor_types_are_classes_that_annotations_may_combine():
    for t in (tdt, require_torch()):
        ids = t.LongTensor | None
        assert str(ids) == "torch.LongTensor | None"
        assert typing.get_args(ids | t.Tensor | int) == (t.LongTensor, type(None), t.Tensor, int)
        assert isinstance(t.arange(2), ids)
        assert not isinstance(t.zeros(1), ids)
        assert isinstance(t.LongTensor, type)
        assert not issubclass(t.LongTensor, t.Tensor)
        assert pickle.loads(pickle.dumps(t.LongTensor)) is t.LongTensor


ROOT = Path(__file__).parents[1]
# Functions and methods whose stubs say Any, by reason. Nothing else may.
ANYTHING = {
    "data of any kind: numbers, nested lists, arrays, objects of other libraries": """
        tensor as_tensor asarray frombuffer from_dlpack to_dlpack new_tensor copy_ tolist __array__ __array_wrap__ __dlpack__
        alias wrap wrap_new is_storage is_tensor typename sparse_coo_tensor sparse_csr_tensor sparse_resize_
        sparse_resize_and_clear_ __contains__ __delitem__""",
    "objects of the user's": "load save apply_ map_ map2_ lobpcg as_subclass _make_subclass compile",
    "arguments in several orders, as in PyTorch": "to new type einsum __new__ set_default_tensor_type to_sparse",
    "refuse every call": "to_sparse_bsc to_sparse_bsr to_sparse_csc",
    "a stream of tdt.cuda, which the core does not import": "record_stream",
    "autograd's own objects": "grad_fn register_hook register_post_accumulate_grad_hook __init__ _cdata",
}


def test_the_stubs_have_any_only_where_the_list_gives_a_reason():
    found = set()
    for path in (ROOT / "tdt" / "__init__.pyi", ROOT / "tdt" / "_core" / "tensor.pyi"):
        for line in path.read_text().splitlines():
            text = re.sub(r"np\.\w+\[[^\]]*\]|Callable\[\.\.\., Any\]|dict\[str, Any\]", "", line)
            if (name := re.match(r" *def (\w+)", line)) and re.search(r"\b(Any|object)\b", text):
                found.add(name[1])
    listed = {name for names in ANYTHING.values() for name in names.split()}
    assert found - listed == set()
    assert listed - found == set()


STUBS = [ROOT / "tdt" / "__init__.pyi", ROOT / "tdt" / "_core" / "tensor.pyi"]
# Defaults that are objects of tdt or modules, which a stub does not import.
OBJECTS = {"dtype", "memory_format", "pickle_module"}


@pytest.mark.parametrize("path", STUBS, ids=lambda path: path.name)
def test_the_stubs_show_defaults_and_the_first_paragraph_of_docstrings(path):
    hidden, bare = set(), set()
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.FunctionDef):
            continue
        named = [*node.args.posonlyargs, *node.args.args]
        values = [*zip(named[::-1], node.args.defaults[::-1]), *zip(node.args.kwonlyargs, node.args.kw_defaults)]
        hidden |= {f"{node.name}: {name.arg}" for name, value in values
                   if isinstance(value, ast.Constant) and value.value is ... and name.arg not in OBJECTS}  # fmt: skip
        if (
            node.name[0] != "_"
            and ast.get_docstring(node) is None
            and "setter" not in ast.dump(ast.Module(node.decorator_list, []))
        ):
            bare.add(node.name)
    assert hidden == set()
    assert bare == set()


def test_a_wrong_revealed_type_fails_the_count(monkeypatch):
    count = runpy.run_path(str(ROOT / "tests" / "typing" / "count.py"))
    marked, reveals = (
        (ROOT / "tests" / "typing" / name).read_text().splitlines() for name in ("planted_mistakes.py", "reveals.py")
    )
    caught = [(n, "error", "wrong") for n, line in enumerate(marked, 1) if count["MARKED"].search(line)]
    shown = [(n, "information", f'Type of "x" is "{line.partition("  # ")[2].partition(" or ")[0]}"')
             for n, line in enumerate(reveals, 1) if line.startswith("    reveal_type(")]  # fmt: skip

    def counted(types):
        reports = {"planted_mistakes.py": caught, "reveals.py": types}
        monkeypatch.setitem(count["count"].__globals__, "messages", lambda checker, path: reports[path.name])
        return count["within"](30, *count["count"]("pyright", False))

    assert counted(shown)
    assert not counted([*shown[1:], (shown[0][0], "information", 'Type of "x" is "Any"')])
