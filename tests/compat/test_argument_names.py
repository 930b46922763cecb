"""Functions and methods take PyTorch's names of arguments, in every form that its signatures list."""

from __future__ import annotations

import ast
import contextlib
import importlib
import inspect
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest

import tdt
from tdt._core.calls import OTHER_NAMES
from tests.helpers import require_torch

torch = require_torch()

from tests.parity.attempts import attempt  # noqa: E402
from tests.parity.compare import difference  # noqa: E402

# The stubs of PyTorch's built-in functions, which its build generates from their signatures: (file, class, what has them).
STUBS = [
    ("_VariableFunctions.pyi", "", "tdt"),
    ("_nn.pyi", "", "nn.functional"),
    ("__init__.pyi", "TensorBase", "Tensor"),
]
NAMESPACES = ("linalg", "fft", "special")  # whose signatures are those of the operators
ABSENT = {
    "names": "names of dimensions",
    "out_dtype": "products of GPUs alone",
    "dispatch_strides": "PyTorch's dispatch",
    "self": "a number before a tensor, documented as `input`",
    "from_": "a keyword of Python: by position alone",
}
OTHERWISE = {
    "deprecated: numbers before tensors, by position alone": """
        add addbmm addcdiv addcmul addmm addmv addmv_ addr baddbmm sspaddmm sub""",
    "an out= of a sparse matrix": "hspmm sspaddmm",
    "PyTorch itself takes it by position alone": "set_num_threads numel",
    "legacy": "new",
    "the kinds of the operands change their names": "result_type",
    "counts alone are `input`": "repeat_interleave",
    "a decorator, whose function comes by position": "enable_grad",
    "PyTorch's stub has the documented name, its parser another": "hsmm one_hot requires_grad_",
}
LEFT_OUT = {name for names in OTHERWISE.values() for name in names.split()}


class Value:
    """An argument of no kind that a function takes."""


def home_of(lib: Any, where: str) -> Any:
    """What has the functions: the library, a namespace, or its Tensor."""
    parts = [] if where == "tdt" else where.split(".")
    if parts[:1] not in ([], ["Tensor"]):
        return importlib.import_module(f"{lib.__name__}.{where}")
    return lib.Tensor if parts else lib


def of_stubs() -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """(where, name, names of the parameters but a method's tensor) of each form of PyTorch's built-in functions."""
    for file, owner, where in STUBS:
        body = ast.parse((Path(torch.__file__).parent / "_C" / file).read_text()).body
        if owner:
            body = next(node for node in body if isinstance(node, ast.ClassDef) and node.name == owner).body
        for node in body:
            theirs = getattr(home_of(torch, where), node.name, None) if isinstance(node, ast.FunctionDef) else None
            # Several forms of Python's functions, such as `torch.split`, are another function than this.
            if theirs is None or isinstance(theirs, FunctionType) or node.name.startswith("_") or node.args.vararg:
                continue
            names = [p.arg for p in (*node.args.posonlyargs, *node.args.args)][bool(owner) :]
            yield where, node.name, (*names, *[p.arg for p in node.args.kwonlyargs])


def of_operators() -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """The same of the operators of namespaces."""
    for schema in torch._C._jit_get_all_schemas():
        where, _, name = schema.name.removeprefix("aten::").partition("_")
        if where in NAMESPACES and hasattr(getattr(torch, where), name) and not any(a.is_out for a in schema.arguments):
            yield where, name, tuple("input" if a.name == "self" else a.name for a in schema.arguments)


FORMS = sorted({
    (where, name, names)
    for where, name, names in (*of_stubs(), *of_operators())
    if callable(getattr(home_of(tdt, where), name, None)) and not ABSENT.keys() & {*names} and name not in LEFT_OUT
})  # fmt: skip


def refused_form(where: str, name: str, names: tuple[str, ...]) -> str | None:
    """Python's error for a call with these names; None where the call is bound, whatever it then finds of its values."""
    tensor = (tdt.ones(2, 2),) if where == "Tensor" else ()
    with contextlib.suppress(Exception):  # of the values
        try:
            getattr(home_of(tdt, where), name)(*tensor, **{n: Value() for n in names})
        except TypeError as error:
            if any(words in str(error) for words in ("unexpected keyword", "required positional", "required keyword")):
                return f"{where}.{name}({', '.join(names)}): {error}"
    return None


@pytest.mark.filterwarnings("ignore:range is deprecated")
def test_all_forms_of_pytorchs_functions_are_accepted_by_name():
    assert len(FORMS) > 1200
    assert not [problem for form in FORMS if (problem := refused_form(*form))]


BY_NAME = {
    "view": lambda t, x: x.view(size=(4,)),
    "view of a dtype": lambda t, x: x.view(dtype=t.int32),
    "reshape": lambda t, x: x.reshape(shape=(4, -1)),
    "expand": lambda t, x: x.expand(size=(3, 2, 2)),
    "permute": lambda t, x: x.permute(dims=(1, 0)),
    "repeat": lambda t, x: x.repeat(repeats=(2, 1)),
    "tile": lambda t, x: x.tile(dims=(2, 1)),
    "flip": lambda t, x: x.flip(dims=(0,)),
    "sum_to_size": lambda t, x: x.sum_to_size(size=(1, 2)),
    "view_copy": lambda t, x: t.view_copy(x, size=(4,)),
    "zeros": lambda t, x: t.zeros(size=(2, 3)),
    "new_zeros": lambda t, x: x.new_zeros(size=(2, 3)),
    "both": lambda t, x: x.expand(2, size=(2, 2)),
    "both, permute": lambda t, x: x.permute(1, dims=(0, 1)),
    "size and dtype": lambda t, x: x.view(size=(4,), dtype=t.int32),
    "no sizes": lambda t, x: x.view(size="a"),
    "mul_": lambda t, x: x.clone().mul_(other=3),
    "pow_": lambda t, x: x.clone().pow_(exponent=2),
    "lt_": lambda t, x: x.clone().lt_(other=x),
    "copy_": lambda t, x: x.clone().copy_(other=x * 2),
    "map_": lambda t, x: x.clone().map_(other=x, callable=lambda a, b: a * b),
    "random_": lambda t, x: x.clone().random_(to=1),
    "tensor_split": lambda t, x: t.tensor_split(x, sections=2),
    "tensor_split at indices": lambda t, x: x.tensor_split(indices=[1], dim=1),
    "hsplit": lambda t, x: x.hsplit(sections=2),
    "split": lambda t, x: x.split(split_size=1),
    "isin": lambda t, x: t.isin(element=1, test_elements=x),
    "argsort": lambda t, x: t.argsort(x, stable=True, dim=0, out=t.zeros(2, 2, dtype=t.int64)),
    "nonzero_static": lambda t, x: t.nonzero_static(x, size=1, out=t.zeros(1, 2, dtype=t.int64)),
    "threshold": lambda t, x: t.threshold(x, 1.5, 9.0, out=t.zeros(2, 2)),
    "rrelu": lambda t, x: t.rrelu(-x, 0.1, 0.3, True, generator=t.Generator().manual_seed(3)),
    "ones_like": lambda t, x: t.ones_like(x, pin_memory=False),
    "scalar_tensor": lambda t, x: t.scalar_tensor(2, layout=t.strided, pin_memory=False),
    "one_hot": lambda t, x: t.nn.functional.one_hot(input=t.tensor([1, 0])),
    "vector_norm": lambda t, x: (t.linalg.vector_norm(input=x), t.linalg.vector_norm(x=x)),
    "chebyshev_polynomial_t": lambda t, x: t.special.chebyshev_polynomial_t(x=x, n=2),
    "embedding_renorm_": lambda t, x: t.embedding_renorm_(
        input=x.clone(), indices=t.tensor([1]), max_norm=1.0, norm_type=2.0
    ),
}


@pytest.mark.parametrize("call", BY_NAME.values(), ids=BY_NAME)
def test_a_call_by_name_does_what_it_does_in_pytorch(call):
    (a, ours), (b, theirs) = (attempt(call, lib, lib.tensor([[1.0, 2.0], [3.0, 4.0]])) for lib in (tdt, torch))
    assert type(ours) is type(theirs)
    assert theirs or difference(a, b) is None


def literal(node: ast.expr) -> Any:
    """A default of a stub; Ellipsis where it is hidden or is a name of PyTorch's."""
    try:
        return ast.literal_eval(node)
    except ValueError:
        return ...


SAME_DEFAULTS = {
    "(): all dimensions, or the size of the window": [(), None],
    "None: 0 decimals, or the number of nan": [None, 0.0],
    "None: contiguous": [None, tdt.contiguous_format],
    "None: int64": [None, tdt.int64],
    "None: a distance of 1": [None, 1],
    "None: as `correction`, 1": [True, None],
}


def test_defaults_are_those_of_pytorchs_functions():
    different = []
    for file, owner, where in STUBS:
        body = ast.parse((Path(torch.__file__).parent / "_C" / file).read_text()).body
        if owner:
            body = next(node for node in body if isinstance(node, ast.ClassDef) and node.name == owner).body
        for node in body:
            ours = getattr(home_of(tdt, where), node.name, None) if isinstance(node, ast.FunctionDef) else None
            if not inspect.isfunction(ours) or node.name.startswith("conv"):  # their padding may be a text
                continue
            parameters = inspect.signature(ours).parameters
            names = [*node.args.posonlyargs, *node.args.args]
            defaults = dict(zip([p.arg for p in names][-len(node.args.defaults) or len(names) :], node.args.defaults))
            defaults |= {p.arg: d for p, d in zip(node.args.kwonlyargs, node.args.kw_defaults) if d is not None}
            for name, default in defaults.items():
                ours, theirs = parameters[name].default if name in parameters else ..., literal(default)
                if name == "reduction" and ours == 0:  # the stub has 1, but the parser of defaults takes "Mean" as 0
                    continue
                if theirs is ... or ours in (..., inspect.Parameter.empty) or ours == theirs:
                    continue
                if [theirs, ours] not in SAME_DEFAULTS.values():
                    different.append(f"{where}.{node.name}: {name}={ours!r}, in PyTorch {theirs!r}")
    assert not different


SIGNATURES = """
    tdt Tensor nn nn.functional nn.init nn.utils nn.utils.rnn nn.utils.prune nn.utils.parametrize nn.utils.parametrizations optim
    optim.lr_scheduler optim.swa_utils distributions utils.data utils.checkpoint func autograd autograd.functional
    amp signal.windows
    """.split()


def python_functions(where: str) -> Iterator[tuple[str, Any, Any]]:
    """(name, ours, theirs) of the functions and classes that PyTorch writes in Python, and both libraries have."""
    ours, theirs = home_of(tdt, where), home_of(torch, where)
    for name in dir(theirs):
        if name[0] == "_" or name in LEFT_OUT or isinstance(inspect.getattr_static(ours, name, None), property):
            continue
        a, b = getattr(ours, name, None), getattr(theirs, name)
        if callable(a) and (inspect.isfunction(b) or (inspect.isclass(b) and b.__module__.startswith("torch."))):
            yield name, a, b


def signature_difference(ours: Any, theirs: Any, method: bool) -> str | None:
    """The parameters that `ours` lacks, in which place and with which default."""
    try:
        a, b = inspect.signature(ours).parameters, inspect.signature(theirs).parameters
    except ValueError:
        return None
    kinds = {p.kind for p in a.values()}
    if [*b][:1] == ["args"] or inspect.Parameter.VAR_KEYWORD in kinds:
        return None
    for name, parameter in [*b.items()][method:]:
        if name[0] == "_" or parameter.kind.name.startswith("VAR") or name in OTHER_NAMES:
            continue
        if name not in a:
            return f"lacks {name}"
        found, expected = a[name].default, parameter.default
        same = found == expected or str(found) == str(expected).replace("torch.", "tdt.")
        if not same and not callable(expected) and "object at" not in str(expected):
            return f"{name}={found}, in PyTorch {expected}"
    places = [[n for n, p in s.items() if p.kind is p.POSITIONAL_OR_KEYWORD][method:] for s in (a, b)]
    if inspect.Parameter.VAR_POSITIONAL not in kinds and places[0][: len(places[1])] != places[1] and method is False:
        return f"order {places[0]}, in PyTorch {places[1]}"
    return None


@pytest.mark.parametrize("where", SIGNATURES)
def test_functions_have_the_parameters_of_pytorchs_and_their_defaults(where):
    pairs = [*python_functions(where)]
    assert pairs
    found = {name: signature_difference(ours, theirs, where == "Tensor") for name, ours, theirs in pairs}
    assert not {name: problem for name, problem in found.items() if problem}
