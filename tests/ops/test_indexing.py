"""Square brackets in every mix, reading and writing, with gradients, against PyTorch: other random keys on each run."""

import os
import random

import numpy as np
import pytest

import tdt
from tests.helpers import require_torch

torch = require_torch()

from tests.parity.attempts import attempt  # noqa: E402
from tests.parity.compare import describe, difference, error_difference, strides_of  # noqa: E402

CASES = 150
SEED = int(os.environ.get("TDT_SEED", random.randrange(10**6)))


class Tensor:
    """An index tensor that each library makes for itself, with gaps between its elements or not."""

    def __init__(self, values, dtype="int64", gaps=False):
        self.values, self.dtype = np.array(values, "bool" if dtype == "bool" else "int64").tolist(), dtype
        self.gaps = gaps

    def __repr__(self):
        return f"tensor({self.values}, dtype={self.dtype}, gaps={self.gaps})"


def with_gaps(lib, x):
    return lib.stack([x, x], -1)[..., 0]


def as_index(key, lib):
    """The key, with tensors of `lib`."""
    if isinstance(key, Tensor):
        found = lib.tensor(key.values, dtype=getattr(lib, key.dtype))
        return with_gaps(lib, found) if key.gaps else found
    return tuple([as_index(k, lib) for k in key]) if isinstance(key, tuple) else key


def some_slice(rng, n):
    ends = [rng.choice([None, rng.randint(-n - 1, n + 1)]) for _ in range(2)]
    return slice(*ends, rng.choice([None, 1, 2, 3]))


def some_part(rng, shape, bad):
    """One part of a key for the dimensions `shape` that are left, and how many of them it takes."""
    n = shape[0]
    kind = rng.choice(
        ["int", "slice", "slice", "tensor", "tensor", "list", "array", "mask", "mask2", "range", "numbers", "0-d"]
    )
    limit = n + (rng.random() < bad)

    def places(*sizes):
        count = int(np.prod(sizes, dtype=int)) if n else 0
        return np.array([rng.randint(-limit, limit - 1) for _ in range(count)]).reshape(sizes if n else (0,))

    def mask(*sizes):
        return np.array([rng.random() < 0.5 for _ in range(int(np.prod(sizes, dtype=int)))], bool).reshape(sizes)

    if kind == "int" and n:
        return rng.choice([int, np.int64])(rng.randint(-limit, limit - 1)), 1
    if kind == "tensor":
        return Tensor(
            places(*rng.choice([(3,), (1,), (2, 3), (3, 1), (0,)])),
            rng.choice(["int64", "int64", "int32"]),
            rng.random() < 0.3,
        ), 1
    if kind == "list" and n:
        return places(3).tolist(), 1
    if kind == "array" and n:
        return places(*rng.choice([(3,), (2, 3)])), 1
    if kind == "mask":
        found = mask(n + (rng.random() < bad))
        return rng.choice([Tensor(found, "bool", rng.random() < 0.3), found, found.tolist() or found]), 1
    if kind == "mask2" and len(shape) > 1:
        return Tensor(mask(*shape[:2]), "bool"), 2
    if kind == "range" and n > 2:
        return range(3), 1
    if kind == "0-d" and n:
        return Tensor(rng.randint(-n, n - 1), rng.choice(["int64", "int32"])), 1
    return some_slice(rng, n), 1


def some_key(rng, shape, bad=0.03):
    parts, left = [], list(shape)
    while left and rng.random() < 0.8:
        part, consumed = some_part(rng, left, bad)
        parts.append(part)
        left = left[consumed:]
    if rng.random() < bad:
        parts.append(0)
    for extra in (None, ..., rng.choice([True, False, Tensor(True, "bool")])):
        if rng.random() < 0.15:
            parts.insert(rng.randint(0, len(parts)) if extra is not ... else rng.choice([0, len(parts)]), extra)
    return parts[0] if len(parts) == 1 and rng.random() < 0.7 else tuple(parts)


def tensor_of(lib, shape, grad=True):
    x = lib.arange(float(np.prod(shape)), dtype=lib.float64).reshape(shape)
    return x.requires_grad_(grad)


def read(lib, shape, key):
    """What x[key] is: values, also of a permuted tensor, strides, whether it shares memory, gradient and second gradient."""
    x = tensor_of(lib, shape)
    part = (x * x)[as_index(key, lib)]
    flat = tensor_of(lib, shape, False)
    view = flat[as_index(key, lib)]
    turned = tensor_of(lib, shape[::-1], False).permute(tuple(range(len(shape)))[::-1])[as_index(key, lib)]
    strides = strides_of(view), [s for s, n in zip(strides_of(turned), turned.shape, strict=True) if n > 1]
    flat.fill_(-7)
    shares = bool(view.numel()) and bool((view == -7).all())
    weights = tensor_of(lib, part.shape, False) + 1
    first = lib.autograd.grad((part * part * weights).sum(), x, create_graph=True)[0]
    return part.detach(), turned, strides, shares, first.detach(), lib.autograd.grad((first * first).sum(), x)[0]


def value_of(rng, shape):
    """A function that makes a value to write into a part of `shape`, and its text."""
    shape = [1 if rng.random() < 0.2 else n for n in shape[rng.randint(0, len(shape)) if rng.random() < 0.3 else 0 :]]
    shape = [1] * (rng.random() < 0.15) + shape
    kind = rng.choice(["number", "bool", "tensor", "tensor", "int64", "float32", "0-d", "misfit"])
    if kind in ("number", "bool"):
        return lambda lib: 2.5 if kind == "number" else True
    if kind == "0-d":
        return lambda lib: lib.tensor(3.5, dtype=lib.float64, requires_grad=True)
    if kind == "misfit":
        shape = [*shape, 5]
    if kind == "int64":
        return lambda lib: lib.arange(int(np.prod(shape))).reshape(shape) + 50
    dtype = "float32" if kind == "float32" else "float64"
    return lambda lib: (
        lib.arange(float(np.prod(shape)), dtype=getattr(lib, dtype)).reshape(shape) + 50
    ).requires_grad_()


def write(lib, shape, key, value):
    """x after x[key] = value, recorded and not, and the gradients of both."""
    x, plain = tensor_of(lib, shape), tensor_of(lib, shape, False)
    y, v = x * x, value(lib)
    y[as_index(key, lib)] = v
    plain[as_index(key, lib)] = with_gaps(lib, v.detach()) if isinstance(v, lib.Tensor) else v
    inputs = [x] + [v] * (isinstance(v, lib.Tensor) and v.requires_grad)
    weights = tensor_of(lib, shape, False) + 1
    grads = lib.autograd.grad((y * y * weights).sum(), inputs, create_graph=True, allow_unused=True)
    left = [g for g in grads if g is not None and g.requires_grad]
    again = lib.autograd.grad(sum((g * g).sum() for g in left), inputs, allow_unused=True) if left else ()
    return y.detach(), plain, [None if g is None else g.detach() for g in grads], [g for g in again if g is not None]


def target_shape(shape, key):
    part, error = attempt(lambda: torch.zeros(shape)[as_index(key, torch)])
    return [] if error is not None else list(part.shape)


def problem_of(function, shape, key, *args):
    (ours, our_error), (theirs, their_error) = (attempt(function, lib, shape, key, *args) for lib in (tdt, torch))
    if "out of bounds" in str(our_error) and 0 in target_shape(shape, key):
        return None  # an index outside is refused even where, for another reason, nothing is picked
    problem = error_difference(our_error, their_error)
    return problem if problem or their_error else difference(ours, theirs)


def test_values_that_do_not_fit_are_refused_before_indices_out_of_bounds():
    def assign(lib):
        lib.zeros(2, 3)[lib.tensor([0, -3])] = lib.zeros(5)

    for lib in (tdt, torch):
        with pytest.raises(RuntimeError, match="shape mismatch: value tensor"):
            assign(lib)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("what", ["read", "write"])
def test_random_keys_mean_what_they_mean_in_pytorch(what):
    for number in range(CASES):
        rng = random.Random(SEED + number)
        shape = tuple(rng.choice([(4,), (3, 4), (2, 3, 4), (2, 3, 2, 3), (3, 1, 3), (3, 0, 2), ()]))
        key = some_key(rng, shape)
        extra = () if what == "read" else (value_of(rng, target_shape(shape, key)),)
        problem = problem_of(read if what == "read" else write, shape, key, *extra)
        assert problem is None, f"TDT_SEED={SEED + number}: {what} of shape {shape} [{key}]: {problem}"


@pytest.mark.parametrize(
    ("shape", "key", "value"),
    [
        ((3, 0, 2), (slice(None), [0, 1, 2]), (3, 3, 2)),
        ((3, 0, 2), (slice(None), [0, 1, 2]), (5, 7)),
        ((3, 4), ([0, 1], [0, 1, 2]), (5, 7)),
        ((3, 4), ([0, 1],), (5, 7)),
        ((3, 4), ([0, 9],), (2, 4)),
    ],
)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_of_several_errors_of_a_write_the_one_that_pytorch_finds_first_is_raised(shape, key, value, dtype):
    raised = []
    for lib in (tdt, torch):
        with pytest.raises((IndexError, RuntimeError)) as error:
            lib.zeros(shape)[key] = lib.zeros(value, dtype=getattr(lib, dtype))
        raised.append((error.type, str(error.value)[:25]))
    assert raised[0] == raised[1]


CONVERTING = {
    "copy_": lambda x, v: x.copy_(v),
    "fill_": lambda x, v: x.fill_(v),
    "masked_fill": lambda x, v: x.masked_fill(x > 0, v),
    "index_fill": lambda x, v: x.index_fill(0, x.argmax().reshape(1), v),
    "a slice": lambda x, v: x.__setitem__(slice(2), v),
    "an element": lambda x, v: x.__setitem__(0, v),
    "a mask": lambda x, v: x.__setitem__(x > 0, v),
}


@pytest.mark.parametrize("write", CONVERTING.values(), ids=CONVERTING)
def test_a_value_that_is_converted_gets_a_gradient_of_its_own_dtype(write):
    for create_graph in (False, True):
        v = tdt.tensor(2.0, requires_grad=True)
        x = tdt.ones(3, dtype=tdt.float64) * 1
        y = write(x, v)
        y = x if y is None else y
        assert tdt.autograd.grad((y * y).sum(), v, create_graph=create_graph)[0].dtype is tdt.float32


@pytest.mark.parametrize("value", [1e6, -1e39, 1e300, 70_000, 3.3, float("nan"), -float("inf"), True])
@pytest.mark.parametrize("key", [0, slice(1), [0], ...], ids=str)
@pytest.mark.parametrize("kind", ["float16", "bfloat16", "float64"])
def test_a_number_too_large_for_half_precision_becomes_infinite(kind, key, value):
    x, y = (lib.zeros(2, dtype=getattr(lib, kind)) for lib in (tdt, torch))
    x[key] = y[key] = value
    np.testing.assert_array_equal(x.float().numpy(), y.float().numpy())


REFUSED = {
    "a float": lambda x, t: x[1.0],
    "a float tensor": lambda x, t: x[t.tensor([1.0])],
    "a string": lambda x, t: x["a"],
    "a negative step": lambda x, t: x[::-1],
    "a float in a slice": lambda x, t: x[0.5:],
    "too many": lambda x, t: x[0, 0, 0],
    "two ellipses and too many": lambda x, t: x[..., 0, ..., 0, 0],
    "a complex number": lambda x, t: x[1j],
    "a dict": lambda x, t: x[{}],
    "a 0-d tensor indexed": lambda x, t: t.tensor(1.0)[0],
    "a slice of a 0-d tensor": lambda x, t: t.tensor(1.0)[:],
    "a mask of another size": lambda x, t: x[t.tensor([True])],
    "an index too large": lambda x, t: x[7],
    "an index too large in a tensor": lambda x, t: x[:, t.tensor([0, 9])],
    "shapes of indices": lambda x, t: x[t.tensor([0, 1]), t.tensor([0, 1, 2])],
    "a write of another shape": lambda x, t: x.__setitem__(0, t.ones(3)),
    "a write of another shape by a tensor": lambda x, t: x.__setitem__(t.tensor([0, 1]), t.ones(3)),
    "an empty mask of another size": lambda x, t: t.zeros(3, 0, 2)[..., np.array([], dtype=bool)],
    "a write of a string": lambda x, t: x.__setitem__(0, "a"),
    "a write of a list": lambda x, t: x.__setitem__(0, [1.0, 2.0, 3.0, 4.0]),
    "a write of a list by a tensor": lambda x, t: x.__setitem__(t.tensor([0]), [1.0]),
    "a write of an array": lambda x, t: x.__setitem__(0, np.ones(4)),
    "a write of another dtype by a tensor": lambda x, t: x.__setitem__(t.tensor([0]), t.tensor(1)),
    "a write of None": lambda x, t: x.__setitem__(0, None),
    "a write into a leaf": lambda x, t: t.ones(2, requires_grad=True).__setitem__(0, 1.0),
    "deleting": lambda x, t: x.__delitem__(0),
}


@pytest.mark.parametrize("call", REFUSED.values(), ids=REFUSED)
def test_an_invalid_index_is_refused_as_in_pytorch(call):
    (_, ours), (_, theirs) = (attempt(lambda lib=lib: call(lib.zeros(2, 4), lib)) for lib in (tdt, torch))
    assert error_difference(ours, theirs) is None, describe(ours)
    assert (ours is None) == (theirs is None)


AS_TUPLES = [
    "[slice(0, 2), slice(1, 3)]", "[slice(0, 2)]", "[None, 0]", "[..., 0]", "[t.tensor([0, 1]), t.tensor([1, 2])]",
    "[[0, 1], [1, 2]]", "[[0, 1], 1]", "[0, slice(0, 2)]", "[t.tensor(0), 1]", "[[True, False, True]]", "[range(2)]",
    "[(0, 1), (1, 2)]", "[0, None, [1, 2]]", "[t.tensor([0, 1])]", "[[]]", "[np.array([0, 1]), 1]",
]  # fmt: skip
AS_INDICES = ["[0, 1]", "[True, False, True]", "[]", "[[0]] * 33", "np.array([[0, 1], [1, 2]])", "range(2)"]


@pytest.mark.parametrize("key", AS_TUPLES + AS_INDICES)
def test_a_list_with_more_than_numbers_in_it_is_a_tuple_with_a_warning_as_in_pytorch(key, recwarn):
    def outcome(lib):
        index = eval(key, {"t": lib, "np": np})
        x = lib.arange(24).reshape(3, 4, 2)
        y = lib.zeros(3, 4, 2)
        y[index] = 1
        return x[index].tolist(), y.tolist()

    assert outcome(tdt) == outcome(torch)
    messages = [w.message for w in recwarn if "non-tuple sequence" in str(w.message)]
    assert len(messages) == (4 if key in AS_TUPLES else 0)


PUTS = {  # shape of the tensor, index of each dimension as (shape, dtype) or None, shape of the values
    "rows": ((9, 4), [((30,), "int64")], (30, 4)),
    "elements": ((50,), [((70,), "int64")], (70,)),
    "rows by a matrix of int32": ((9, 4), [((5, 8), "int32")], (5, 8, 4)),
    "one value": ((20, 3), [((40,), "int64")], (1,)),
    "places of two dimensions": ((7, 9, 2), [((60,), "int64"), ((60,), "int32")], (60, 2)),
    "places that broadcast": ((7, 9), [((6, 1), "int64"), ((8,), "int64")], (6, 8)),
    "the last two dimensions": ((2, 7, 9), [None, ((60,), "int64"), ((60,), "int64")], (2, 60)),
    "dimensions apart": ((7, 3, 9), [((60,), "int64"), None, ((60,), "int64")], (60, 3)),
    "three dimensions": ((4, 5, 6), [((80,), "int64"), ((80,), "int64"), ((80,), "int64")], (80,)),
    "no places": ((7, 9), [((0,), "int64")], (0, 9)),
}


@pytest.mark.parametrize("accumulate", [True, False])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "float16", "bool", "complex64"])
@pytest.mark.parametrize("name", PUTS)
def test_index_put_gives_pytorchs_values_and_gradients_at_first_and_later(name, dtype, accumulate):
    shape, index, of_values = PUTS[name]
    rng = np.random.default_rng(3)
    taken = [d for d, each in enumerate(index) if each is not None]
    for _ in range(3):
        # Without accumulation PyTorch does not say which of several values a place gets: places differ then.
        x, v = (rng.integers(-8, 8, s).astype(dtype) for s in (shape, of_values))
        places = [rng.integers(-shape[d], shape[d], index[d][0]).astype(index[d][1]) for d in taken]
        if not accumulate:
            v = np.full_like(v, 3)
        found = []
        for t in (tdt, torch):
            tensor, values = t.from_numpy(x.copy()), t.from_numpy(v.copy())
            present = iter([t.from_numpy(p.copy()) for p in places])
            indices = tuple(None if each is None else next(present) for each in index)
            put = t.index_put if t is tdt else torch.ops.aten.index_put  # which takes None, too
            results = [put(tensor, indices, values, accumulate)]
            if dtype in ("float32", "float64"):
                tensor.requires_grad_()
                values.requires_grad_()
                recorded = put(tensor, indices, values, accumulate=accumulate)
                weight = t.arange(recorded.numel(), dtype=recorded.dtype).reshape(shape)
                results += [recorded.detach(), *t.autograd.grad((recorded * weight).sum(), [tensor, values])]
            found.append([r.numpy() for r in results])
        for ours, theirs in zip(*found, strict=True):
            np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("accumulate", [True, False])
def test_an_index_out_of_range_is_named_by_later_calls_of_index_put_too(accumulate):
    x, values = tdt.zeros(6, 40), tdt.ones(50)
    rows, columns = tdt.zeros(50, dtype=tdt.int64), tdt.zeros(50, dtype=tdt.int64)
    for _ in range(2):
        x.index_put((rows, columns), values, accumulate)
        x.index_put((rows,), tdt.ones(50, 40), accumulate)
    rows[7] = 6
    for place, new in (((rows, columns), values), ((rows,), tdt.ones(50, 40))):
        with pytest.raises(IndexError, match="index 6 is out of bounds for dimension 0 with size 6"):
            x.index_put(place, new, accumulate)
        with pytest.raises(IndexError, match="index 6 is out of bounds"):
            x.index_put_(place, new, accumulate)
        assert not x.any()


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "int32", "bool", "float16"])
def test_index_select_of_vectors_takes_elements(dtype):
    x, places = np.arange(300).astype(dtype), np.arange(200)[::-1] % 77
    for _ in range(2):
        found = tdt.index_select(tdt.from_numpy(x), 0, tdt.from_numpy(places.copy()))
        np.testing.assert_array_equal(found.numpy(), x[places])
    with pytest.raises(IndexError, match="300"):
        tdt.index_select(tdt.from_numpy(x), 0, tdt.full((200,), 300))


@pytest.mark.parametrize("written", ["no", "whole", "a view"])
@pytest.mark.parametrize(("how", "mask_dtype"), [
    ("read", "bool"), ("read rows", "bool"), ("read with a slice", "bool"), ("write", "bool"), ("write rows", "bool"),
    ("read", "uint8"), ("read with a slice", "uint8"),
])  # fmt: skip
@pytest.mark.parametrize("turn", [
    lambda x: x, lambda x: x.t(), lambda x: x[:, ::2], lambda x: x[1:],
])  # fmt: skip
@pytest.mark.filterwarnings("ignore")  # of masks of uint8
def test_backward_is_refused_after_a_write_to_the_mask_of_an_index(turn, how, mask_dtype, written):
    found = []
    for lib in (torch, tdt):
        x = lib.arange(12.0).reshape(3, 4).requires_grad_()
        view = turn(x)
        mask = (view.detach() * 7 % 3 > 0).to(getattr(lib, mask_dtype))
        if "rows" in how or "slice" in how:
            mask = mask[:, 0]
        if "read" in how:
            out = view[mask, 1:] if "slice" in how else view[mask]
        else:
            out = view.clone()
            out[(mask, 0) if "rows" in how else mask] = x.sum()
        if written != "no":
            (mask if written == "whole" else mask[:1]).fill_(0)
        try:
            out.sum().backward()
        except RuntimeError as error:
            found.append("modified by an inplace operation" in str(error))
        else:
            found.append(x.grad.tolist())
    assert found[0] == found[1]


BASIC_KEYS = ["0", "-1", "slice(1, 3)", "slice(None, None, 2)", "(slice(None), 1)", "(1, 2, 0)", "(..., 1)", "(None, 1)",
              "(slice(None), slice(1, 3))", "(..., None)", "(slice(None), None, 2)", "(0, ...)"]  # fmt: skip


@pytest.mark.parametrize("key", BASIC_KEYS)
@pytest.mark.parametrize("recorded", [False, True])
def test_what_integers_and_slices_name_is_a_view_of_the_same_memory(key, recorded):
    def outcome(lib):
        x = lib.arange(24.0).reshape(3, 4, 2).clone()
        with lib.set_grad_enabled(recorded):
            view = x[eval(key)]
            again = view[..., None]
        view.add_(100)
        view.copy_(with_gaps(lib, view * 2))
        view.copy_(lib.arange(view.numel()).reshape(view.shape) * 3)
        with pytest.raises(IndexError):
            x[:, 7]
        bases = view._base is x, again._base is x
        return x.tolist(), again.tolist(), strides_of(view), view.storage_offset(), again._version, bases

    assert outcome(tdt) == outcome(torch)


PLACES = [
    "(i, j)", "(i, i)", "(i[:, None], j)", "(i[None], j[:, None])", "(i, j, i)", "(i, i.flip(0), j, i)", "(i + 3, j)",
    "(i[:0], j[:0])", "(i[:2], j)", "(i[::2], j[::2])", "(i.reshape(1, 3).T, j.reshape(1, 3).T)", "(i, i[0])", "(j - 4, i)",
    "(slice(None), i)", "(slice(None), i, i)", "(slice(None), slice(None), i)", "(slice(None), i[:, None], i[None])",
    "(slice(None), i, i - 1, i)", "(slice(None), j + 9)", "(slice(1, None), i)", "(slice(None), i[:0])", "(i, slice(None), i)",
    "(slice(None), i[:, None], i[:, None])", "(slice(None), i[None].T, i[None].T)", "(slice(None), i[None, :2], i[None, :2])",
]  # fmt: skip


@pytest.mark.parametrize("key", PLACES)
@pytest.mark.parametrize("turned", [False, True])
def test_elements_at_several_index_tensors_are_pytorchs(key, turned):
    def outcome(lib):
        x = lib.arange(24.0).reshape(3, 4, 2)
        x = x.transpose(0, 1) if turned else x
        places = {"i": lib.tensor([0, 1, 1]), "j": lib.tensor([3, 0, 1])}
        try:
            picked = x[eval(key, places)]
        except IndexError:
            return IndexError
        return picked.tolist(), strides_of(picked), picked._base is None

    assert outcome(tdt) == outcome(torch)


@pytest.mark.parametrize("places", ["i", "i, i"])
def test_an_index_by_tensors_is_recorded(places):
    def gradient(lib):
        x = lib.arange(6.0).reshape(2, 3).requires_grad_()
        (x * 1)[eval(f"({places},)", {"i": lib.tensor([0, 1, 1])})].sum().backward()
        return x.grad.tolist()

    assert gradient(tdt) == gradient(torch)


REDUCED = {  # shapes of the tensor, of the index and of the values, and the dimension
    "columns": ((5, 6), (9, 6), (9, 6), 0),
    "rows": ((4, 5), (4, 30), (4, 30), 1),
    "a vector": ((7,), (30,), (30,), 0),
    "the middle": ((3, 4, 5), (3, 9, 5), (3, 9, 5), 1),
    "more values": ((5, 6), (9, 6), (11, 6), 0),
    "an expanded index": ((5, 6), (9, 1), (9, 6), 0),
}


@pytest.mark.parametrize("name", REDUCED)
@pytest.mark.parametrize("reduce", ["sum", "prod", "amax", "amin", "mean"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "int32", "float16"])
def test_scatter_reduce_gives_pytorchs_values_at_first_and_later(name, reduce, dtype):
    shape, places, values, dim = REDUCED[name]
    rng = np.random.default_rng(0)
    for _ in range(3):
        arrays = [rng.integers(-3, 4, s).astype(dtype) for s in (shape, values)]
        if "float" in dtype and reduce != "prod":
            arrays[1].reshape(-1)[[1, 3]] = np.nan, -0.0
        index = rng.integers(0, shape[dim], places)
        found = []
        for lib in (tdt, torch):
            x, source, at = (lib.from_numpy(a.copy()) for a in (*arrays, index))
            at = at if name != "an expanded index" else at.expand(values)
            out = x.scatter_reduce(dim, at, source, reduce)
            assert x.numpy().tobytes() == arrays[0].tobytes()
            for bad in (-1, shape[dim]):
                with pytest.raises(RuntimeError, match="out of bounds"):
                    x.scatter_reduce(dim, lib.full_like(at, bad), source, reduce)
            found.append(out.numpy())
        np.testing.assert_array_equal(*found)
        if reduce in ("sum", "prod"):
            np.testing.assert_array_equal(*map(np.signbit, found))


@pytest.mark.parametrize("reduce", ["sum", "prod", "amax", "amin"])
def test_scatter_reduce_has_pytorchs_gradients_at_first_and_later(reduce):
    rng = np.random.default_rng(1)
    for _ in range(3):
        arrays = rng.standard_normal((5, 6)), rng.standard_normal((9, 6))
        index, found = rng.integers(0, 5, (9, 6)), []
        for lib in (tdt, torch):
            x, source = (lib.tensor(a, requires_grad=True) for a in arrays)
            x.scatter_reduce(0, lib.from_numpy(index), source, reduce).square().sum().backward()
            found += [x.grad.numpy(), source.grad.numpy()]
        np.testing.assert_allclose(found[0], found[2], rtol=1e-12)
        np.testing.assert_allclose(found[1], found[3], rtol=1e-12)


@pytest.mark.parametrize("rows", [3, 5000])
@pytest.mark.parametrize("shape", [(7,), (2, 5), (2, 3, 4), (1, 1), (3, 0)])
def test_repeated_lookups_take_the_rows_that_numpy_takes(rows, shape):
    rng = np.random.default_rng(rows)
    for width in ((8,), (2, 5), (1,)):
        table, index = rng.standard_normal((rows, *width)).astype("f"), rng.integers(0, rows, shape)
        x, i = tdt.from_numpy(table), tdt.from_numpy(index)
        for _ in range(3):
            np.testing.assert_array_equal(x[i].numpy(), table[index], strict=True)
            if len(width) == 1:
                np.testing.assert_array_equal(tdt.nn.functional.embedding(i, x).numpy(), table[index], strict=True)
        if index.size and len(width) == 1:
            index.flat[-1] = rows
            for _ in range(3):
                with pytest.raises(IndexError):
                    tdt.nn.functional.embedding(tdt.from_numpy(index), x)


@pytest.mark.parametrize("value", [True, False, 0, 1, 127, 128, -1, 70_000, 3 << 40, 2.5, float("nan")])
@pytest.mark.parametrize("dtype", ["bool", "uint8", "int8", "int32", "int64", "float16", "float64", "complex64"])
def test_numbers_written_by_an_index_become_what_they_become_in_pytorch(dtype, value):
    def written(lib):
        x = lib.zeros(3, 4, dtype=getattr(lib, dtype))
        at = lib.tensor([2, 0])
        for key in (0, lib.tensor(1), at, x[:, 1] == 0, (at, 1), (slice(1, None), at), (..., x[0] == 0)):
            x[key] = value
        return x

    (ours, our_error), (theirs, their_error) = (attempt(written, lib) for lib in (tdt, torch))
    assert error_difference(our_error, their_error) is None
    assert their_error is not None or difference(ours, theirs) is None


def test_values_behind_further_dimensions_of_one_are_written_where_a_mask_names():
    mask, x = tdt.tensor([True, False, True]), tdt.zeros(3, 2)
    x[mask, 1] = tdt.tensor([[1.0, 2.0]])
    assert x.tolist() == [[0, 1], [0, 0], [0, 2]]


def test_tensors_of_no_dimensions_are_numbers_in_keys():
    def call(lib):
        x, k, places = lib.arange(24.0).reshape(4, 6), lib.tensor(2), lib.tensor([0, 3])
        parts = [x[:, k], x[k, -k], x[places, k], x[k, places], x[..., k, None], x[k, 1:], x[None, k]]
        x[:, k] = 5.0
        x[k, k] = lib.tensor(7.0)
        x[places, k] = lib.tensor([1.0, 2.0])
        part = x[1:, k]
        part += 1
        y = lib.ones(3, 3, requires_grad=True)
        y[:, k].sum().backward()
        return [*parts, x, y.grad, lib.tensor(part._is_view()), lib.tensor(x._version)]

    for ours, theirs in zip(call(tdt), call(torch), strict=True):
        assert ours.shape == theirs.shape
        assert ours.tolist() == theirs.tolist()
    for lib in (tdt, torch):
        with pytest.raises(IndexError):
            lib.ones(2, 3)[:, lib.tensor(3)]


KEYS_OF_NOTHING = {
    "Ellipsis and an integer": (..., 0), "an integer": 0, "a slice": slice(None), "two integers": (0, 0),
    "an integer and Ellipsis": (0, ...), "Ellipsis and a slice": (..., slice(None)), "None and an integer": (None, 0),
    "a list": [0],
}  # fmt: skip


@pytest.mark.parametrize("key", KEYS_OF_NOTHING.values(), ids=KEYS_OF_NOTHING)
def test_keys_with_too_many_indices_are_refused_with_pytorchs_message(key):
    for shape in ((), (2,)):
        found = []
        for lib in (tdt, torch):
            x = lib.ones(shape)
            keys = [key] if shape == () else [(*key, 0) if isinstance(key, tuple) else (key, 0, 0)]
            keys += (
                [lib.tensor(0), lib.tensor([0]), (..., lib.tensor(0))] if shape == () else [(..., 0, lib.tensor([0]))]
            )
            for k in keys:
                for call in (
                    lambda x, k: x[k],
                    lambda x, k: x.__setitem__(k, 2),
                    lambda x, k: x.__setitem__(k, x.sum()),
                ):
                    try:
                        found.append(str(call(x, k)).replace("torch.", "tdt."))
                    except IndexError as error:
                        found.append(str(error).partition(" (got")[0])
        half = len(found) // 2
        assert found[:half] == found[half:]
