"""Every op in the op table keeps the op record's promises, on the samples in tests/samples/.

An op without samples fails here: add some in tests/samples/<family>.py.
"""

import gc
import importlib
import inspect
import pkgutil
import weakref

import numpy as np
import pytest

import tdt
import tdt._ops
from tdt._core.tensor import wrap
from tdt.autograd import gradcheck, gradgradcheck
from tdt.autograd._op_table import OPS
from tests.samples import TABLE

for module in pkgutil.walk_packages(tdt._ops.__path__, "tdt._ops."):
    importlib.import_module(module.name)
DIFFERENTIABLE = [
    name for name in OPS if {rule.function.__name__ for rule in OPS[name].rules.values()} - {"absent"}
]  # `no_derivative` makes rules called so, which only raise
every_op = pytest.mark.parametrize("name", [n for n in OPS if n in TABLE])
every_differentiable_op = pytest.mark.parametrize("name", [n for n in DIFFERENTIABLE if n in TABLE])


def operands_of(call, grad=False, change=lambda a: a):
    """The operands of a call as tensors; floating-point ones want gradients where `grad`."""
    built = []
    for place, a in enumerate(call.operands):
        if isinstance(a, np.ndarray):
            t = wrap(change(a.copy(order="K")))
            a = t.requires_grad_(grad and t.dtype.category >= 2 and place not in call.constant)
        built.append(a)
    return built


def allows(op, dtype):
    return dtype.category in op.dtypes or dtype in op.dtypes


def run(name, call, operands):
    tdt.manual_seed(3)
    return OPS[name](*operands, **call.attributes)


def outputs(result):
    return result if isinstance(result, tuple) else (result,)


def leaves(operands):
    return [t for t in operands if isinstance(t, tdt.Tensor) and t.requires_grad]


def differentiable(result):
    return tuple(t for t in outputs(result) if t.requires_grad)


def gradient_calls(name):
    return [
        c
        for c in TABLE[name].calls
        if c.grad and leaves(operands_of(c, True)) and differentiable(run(name, c, operands_of(c, True)))
    ]


def as_function(name, call, operands):
    """The op as a function of the tensors that want gradients alone, giving the outputs that may have them."""
    marked = {id(t) for t in leaves(operands)}

    def function(*tensors):
        left = iter(tensors)
        now = [next(left) if id(t) in marked else t for t in operands]
        if TABLE[name].constrain is not None:
            now[0] = TABLE[name].constrain(now[0])
        results = outputs(run(name, call, now))
        if TABLE[name].unique is not None and any(t.is_complex() for t in results):
            return TABLE[name].unique(*results)
        names = OPS[name].outputs if len(OPS[name].outputs) == len(results) else [None] * len(results)
        return tuple(t for t, n in zip(results, names, strict=True) if n not in OPS[name].nondiff)

    return function


def gradients(name, call, create_graph=False, change=lambda a: a):
    """Gradients of all outputs, each weighted differently, for all floating-point operands; as NumPy arrays."""
    operands = operands_of(call, True, change)
    outs = differentiable(run(name, call, operands))
    weights = [wrap(change(weight_for(t))) for t in outs]
    found = tdt.autograd.grad(outs, leaves(operands), weights, create_graph=create_graph, allow_unused=True)
    return [None if g is None else g.detach().numpy() for g in found]


def weight_for(t):
    rng = np.random.default_rng(len(t.shape))
    w = np.asarray(rng.uniform(0.5, 1.5, t.shape))
    return np.asarray(w + 0.3j * w if t.is_complex() else w, t.dtype.np)


def assert_same(a, b, rtol=1e-10):
    assert (a is None) == (b is None)
    if a is not None:
        np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol)


def test_every_op_has_samples():
    dense = {
        name for name, op in OPS.items() if op.forward.__module__.startswith(("tdt._ops", "tdt.autograd"))
    }  # others: tests/sparse
    assert not dense - set(TABLE), "add samples in tests/samples/"
    assert not set(TABLE) - set(OPS), "samples of ops that do not exist"


@every_differentiable_op
def test_an_op_of_complex_numbers_has_samples_of_them(name):
    op = OPS[name]
    if op.computes and not op.view and allows(op, tdt.complex128):
        operands = [a for c in gradient_calls(name) for a in c.operands if isinstance(a, np.ndarray)]
        assert any(map(np.iscomplexobj, operands)), f"{name}: add a complex sample to tests/samples"


@every_op
def test_values_dtypes_and_shapes_are_the_oracles(name):
    oracle = TABLE[name].oracle
    if oracle is None:
        assert TABLE[name].why_no_oracle
        return
    for call in TABLE[name].calls:
        expected = outputs(oracle(*call.operands, **call.attributes))
        found = outputs(run(name, call, operands_of(call)))
        assert len(found) == len(expected)
        for t, e in zip(found, expected, strict=True):
            e = np.asarray(e)
            assert tuple(t.shape) == e.shape
            kind = "f" if OPS[name].to_float and e.dtype.kind in "iub" else e.dtype.kind
            assert t.numpy().dtype.kind == kind, f"{name}{call}: {t.dtype}, the oracle {e.dtype}"
            np.testing.assert_allclose(t.numpy(), e, rtol=1e-9, atol=1e-12)


# Outputs that the public functions do not return, and `native_batch_norm` rounds to PyTorch's dtype.
FLOAT32_STATISTICS = {(name, output) for name in ("batch_norm", "group_norm") for output in ("mean", "rstd", "var")}


@every_op
def test_lower_precision_computes_the_same_in_its_own_dtype(name):
    op = OPS[name]
    for call in TABLE[name].calls:
        for dtype in ("float32", "bfloat16"):
            if "dtype" in call.attributes or not any(getattr(a, "dtype", None) == np.float64 for a in call.operands):
                continue
            low = operands_of(
                call, change=lambda a, d=dtype: a.astype(getattr(tdt, d).np) if a.dtype == np.float64 else a
            )
            rounded = [t.to(tdt.float64) if isinstance(t, tdt.Tensor) and t.is_floating_point() else t for t in low]
            mixed = any(isinstance(t, tdt.Tensor) and t.is_complex() for t in low) or name in (
                "complex",
                "view_as_complex",
            )
            if dtype == "bfloat16" and (mixed or not allows(op, tdt.bfloat16)):  # no complex type has that precision
                continue
            found, exact = outputs(run(name, call, low)), outputs(run(name, call, rounded))
            several = op.outputs if len(op.outputs) == len(found) else ("out",) * len(found)
            for output, t, e in zip(several, found, exact, strict=True):
                if not t.is_floating_point() and not t.is_complex():
                    continue
                own = tdt.float32 if (name, output) in FLOAT32_STATISTICS else getattr(tdt, dtype)
                assert t.dtype in (own, own.to_complex()), f"{op.name} made {t.dtype}"
                rtol = 2e-5 if dtype == "float32" else 4e-2
                scale = np.abs(e.numpy()).max(initial=0, where=np.isfinite(e.numpy()))
                np.testing.assert_allclose(t.to(e.dtype).numpy(), e.numpy(), rtol=rtol, atol=rtol * scale)


@every_differentiable_op
def test_gradients_are_right(name):
    calls = gradient_calls(name)
    assert calls, f"{name} has a rule but no sample with a gradient"
    for call in calls:
        operands = operands_of(call, True)
        outs = outputs(run(name, call, operands))
        if len(outs) == len(OPS[name].outputs):
            assert not any(
                t.requires_grad for t, n in zip(outs, OPS[name].outputs, strict=True) if n in OPS[name].nondiff
            )
        gradcheck(as_function(name, call, operands), tuple(leaves(operands)))


@every_differentiable_op
def test_second_gradients_are_right(name):
    for call in gradient_calls(name):
        operands = operands_of(call, True)
        gradgradcheck(as_function(name, call, operands), tuple(leaves(operands)), fast_mode=True)


@every_differentiable_op
def test_the_fast_rule_equals_the_rule(name):
    for call in gradient_calls(name):
        for fast, general in zip(gradients(name, call), gradients(name, call, create_graph=True), strict=True):
            assert_same(fast, general)


def strided(a):
    """The same values, every other element of a larger array whose axes lie in reverse order."""
    big = np.full(tuple(2 * n for n in a.shape[::-1]), 99, a.dtype)
    view = big.transpose(range(a.ndim)[::-1])[(*(slice(None, None, 2) for _ in a.shape), ...)]
    view[...] = a
    return view


@every_op
def test_strides_of_the_operands_do_not_matter(name):
    if name in ("view", "view_dtype", "view_as_complex", "as_strided"):
        return  # these are about strides; PyTorch's op database tests them
    for call in TABLE[name].calls:
        plain, other = run(name, call, operands_of(call)), run(name, call, operands_of(call, change=strided))
        for a, b in zip(outputs(plain), outputs(other), strict=True):
            if not OPS[name].random:
                assert_same(a.numpy(), b.numpy(), 1e-12)
    for call in gradient_calls(name) if not OPS[name].random else ():
        for a, b in zip(gradients(name, call), gradients(name, call, change=strided), strict=True):
            assert_same(a, b, 1e-12)


@every_op
def test_operands_and_saved_values_are_left_as_they_were(name):
    for call in TABLE[name].calls:
        operands = operands_of(call, True)
        tensors = [t for t in operands if isinstance(t, tdt.Tensor)]
        before = [t.detach().numpy().copy() for t in tensors]
        outs = outputs(run(name, call, operands))
        tensors += outs
        before += [t.detach().numpy().copy() for t in outs]
        graded = [t for t in outs if t.requires_grad] if OPS[name].rules else []
        if graded and call.grad:
            weights = [wrap(weight_for(t)) for t in graded]
            copies = [w.numpy().copy() for w in weights]
            for create_graph in (False, True):
                tdt.autograd.grad(
                    graded, leaves(operands), weights, retain_graph=True, create_graph=create_graph, allow_unused=True
                )
            for w, k in zip(weights, copies, strict=True):
                np.testing.assert_array_equal(w.numpy(), k)
        for t, b in zip(tensors, before, strict=True):
            np.testing.assert_array_equal(t.detach().numpy(), b)
            assert t._version == 0


@every_op
def test_results_have_memory_of_their_own_where_the_op_is_no_view(name):
    for call in TABLE[name].calls:
        operands = operands_of(call)
        outs = outputs(run(name, call, operands))
        shared = [np.shares_memory(t.numpy(), a.numpy()) for t in outs for a in operands if isinstance(a, tdt.Tensor)]
        if OPS[name].view is True:
            assert any(shared) or not all(t.numel() for t in outs)
        elif not OPS[name].view and name not in ("unaware", "linked"):  # which only add a place in the graph
            assert not any(shared)


@every_op
def test_a_call_and_its_backward_leave_no_reference_cycle(name):
    gc.disable()
    try:
        for call in TABLE[name].calls:
            operands = operands_of(call, True)
            result = run(name, call, operands)
            graded = differentiable(result) if call.grad and OPS[name].rules else ()
            if graded:
                grads = tdt.autograd.grad(
                    graded, leaves(operands), [t.detach() for t in graded], create_graph=True, allow_unused=True
                )
                del grads
            watched = [weakref.ref(t) for t in (*operands, *outputs(result)) if isinstance(t, tdt.Tensor)]
            watched += [weakref.ref(t.grad_fn) for t in graded if type(t.grad_fn).__weakrefoffset__]
            del operands, result, graded
            assert [w() for w in watched if w() is not None] == []
    finally:
        gc.enable()


@every_op
def test_in_place_and_out_store_the_ops_result(name):
    op = OPS[name]
    if op.view:
        return
    for call in TABLE[name].calls:
        expected = outputs(run(name, call, operands_of(call)))
        targets = tuple(wrap(np.full(e.shape, 7, e.dtype.np)) for e in expected)
        tdt.manual_seed(3)
        op.into(targets if len(targets) > 1 else targets[0], *operands_of(call), **call.attributes)
        for t, e in zip(targets, expected, strict=True):
            np.testing.assert_array_equal(t.numpy(), e.numpy())
        operands = operands_of(call)
        x = operands[0]
        first = expected[0]
        if (
            len(expected) == 1
            and isinstance(x, tdt.Tensor)
            and not op.variadic
            and (x.shape, x.dtype) == (first.shape, first.dtype)
        ):
            tdt.manual_seed(3)
            assert op.inplace(*operands, **call.attributes) is x
            np.testing.assert_array_equal(x.numpy(), first.numpy())
            assert x._version == 1


@every_op
def test_shape_functions_return_the_shapes_of_the_results(name):
    op = OPS[name]
    if op.shape is None:
        return
    for call in TABLE[name].calls:
        found = outputs(run(name, call, operands_of(call)))
        shapes = [a.shape if isinstance(a, np.ndarray) else None for a in call.operands]
        shapes_out = op.shape(*shapes, **call.attributes)
        shapes_out = shapes_out if len(found) > 1 else (shapes_out,)
        assert [tuple(s) for s in shapes_out] == [tuple(t.shape) for t in found]
        if op.flops is not None:
            assert op.flops(*shapes, **call.attributes) >= 0


@every_op
def test_forwards_are_written_for_numpy_and_cupy_alike(name):
    source = inspect.getsource(OPS[name].forward)
    assert "cupy" not in source


@every_op
def test_a_dtype_that_the_record_does_not_allow_is_refused(name):
    op = OPS[name]
    refused = [d for d in (tdt.bool, tdt.int64, tdt.float64, tdt.complex128) if not allows(op, d)]
    call = TABLE[name].calls[0]
    if op.promote != "all" or op.to_float:
        return
    for d in refused:
        operands = [t.to(d) if isinstance(t, tdt.Tensor) else t for t in operands_of(call)]
        with pytest.raises((RuntimeError, TypeError)):
            run(name, call, operands)


@pytest.mark.parametrize("name", [n for n in OPS if OPS[n].broadcasts and n in TABLE and len(OPS[n].operands) > 1])
def test_shapes_that_do_not_broadcast_are_refused_by_dimension(name):
    call = TABLE[name].calls[0]
    shaped = [i for i, a in enumerate(call.operands) if isinstance(a, np.ndarray)]
    if (
        len(shaped) < 2 or OPS[name].shape is not None or name == "solve"
    ):  # solve refuses by what is not a square matrix
        return
    operands = operands_of(call)
    operands[shaped[0]] = operands[shaped[0]].reshape(-1)[:2].reshape(2)
    operands[shaped[1]] = operands[shaped[1]].reshape(-1)[:3].reshape(3)
    with pytest.raises(RuntimeError, match=r"must match|doesn't match|shape mismatch"):
        run(name, call, operands)
