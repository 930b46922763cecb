"""In which order results lie in memory: PyTorch's, whatever the order of the operands."""

import itertools

import numpy as np
import pytest

import tdt
from tests.helpers import require_torch

torch = require_torch()

from tests.parity.compare import strides_of  # noqa: E402

LAYOUTS = ("{}", "{}.transpose(0, -1).contiguous().transpose(0, -1)", "{}.transpose(0, 1).contiguous().transpose(0, 1)",
           "{}[:1].expand(*s)", "{}[..., :1].expand(*s)", "{}.transpose(-1, -2).repeat(2, *[1] * (n - 1))[::2].transpose(-1, -2)",
           "{}[..., :1].expand(*s).transpose(0, -1)", "{}[:, :1].expand(*s).transpose(0, 1)", "{}[:1]", "{}[0]",
           "{}[..., :1]", "{}[:, :1].transpose(0, 1)")  # fmt: skip
SHAPES = ((2, 3), (2, 3, 4), (3, 3, 3), (1, 3, 4), (2, 3, 1, 4), (2, 3, 4, 5), (2, 1))
TWO = ("{x} + {y}", "torch.maximum({x}, {y})", "{x} > {y}", "{x} - {y} * 2", "torch.addcmul({x}, {y}, {x}, value=0.5)",
       "torch.where({y} > 0.5, {x}, {y})", "torch.lerp({x}, {y}, 0.25)", "torch.clamp({x}, {y}, {x})",
       "{x}.masked_fill({y} > 0.5, 0)", "torch.atan2({x}, {y})", "{x}.pow({y})")  # fmt: skip
ONE = ("{x} * 2", "torch.exp({x})", "-{x}", "{x}.clone()", "torch.relu({x})", "torch.cat([{x}, {x}], 1)",
       "torch.stack([{x}, {x}], 1)", "torch.stack([{x}, {x}], -1)",
       "torch.where({x} > 0.5, {x}, 1.0)", "{x}.double()", "{x}.sum(0)", "{x}.mean(-1, keepdim=True)", "{x}.amax(1)",
       "{x}.var(0)", "{x}.logsumexp(-1)", "{x}.cumsum(0)", "{x}.roll(1, 0)", "{x}.flip(0)", "{x}[torch.tensor([0, 0, 0])]",
       "{x}.sort(0)[0]", "{x}.sort(-1, descending=True)[1]", "{x}.argsort(0)",
       "{x}[..., torch.tensor([0, 0])]", "{x}[torch.tensor([0, 0]), ..., torch.tensor([0, 0])]")  # fmt: skip


def run(library, code, shape):
    """The strides of a result, or the class of the error."""
    env = {"torch": library, "s": shape, "n": len(shape)}
    env["a"] = library.arange(float(torch.Size(shape).numel())).reshape(shape)
    try:
        return strides_of(eval(code, env))
    except Exception as error:  # noqa: BLE001 (a layout that the shape does not have)
        return isinstance(error, Exception)


def check(form, shape, layouts):
    code = form.format(**{name: layout.format("a") for name, layout in zip("xy", layouts, strict=False)})
    expected = run(torch, code, shape)
    assert run(tdt, code, shape) == expected, f"{code} for shape {shape}"
    return expected is not True


@pytest.mark.parametrize("form", TWO)
def test_results_of_two_operands_follow_the_first_that_determines_an_order(form):
    ran = [check(form, s, pair) for s in SHAPES for pair in itertools.product(LAYOUTS, repeat=2)]
    assert sum(ran) > 300


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("shape", [(3, 130, 130), (130, 130, 3), (2, 64, 8, 48), (200, 170)])
def test_large_operands_that_lie_across_have_the_bits_and_strides_of_pytorch(shape, threads):
    """They are turned by a kernel first."""
    draw, before = np.random.default_rng(0), tdt.get_num_threads()
    orders = [order for order in itertools.permutations(range(len(shape))) if order != tuple(range(len(shape)))]
    tdt.set_num_threads(threads)
    try:
        for order, dtype in itertools.product(
            [orders[0], orders[-1], orders[len(orders) // 2]], (np.float32, np.float64)
        ):
            x = draw.standard_normal(shape).astype(dtype)
            y = draw.standard_normal([shape[d] for d in order]).astype(dtype).transpose(np.argsort(order))
            for function in (
                lambda a, b: a + b,
                lambda a, b: b - a,
                lambda a, b: b * a,
                lambda a, b: a.clone().div_(b),
            ):
                expected = function(torch.from_numpy(x), torch.from_numpy(y))
                found = function(tdt.from_numpy(x), tdt.from_numpy(y))
                assert found.stride() == expected.stride()
                assert np.array_equal(found.numpy(), expected.numpy())
    finally:
        tdt.set_num_threads(before)


@pytest.mark.parametrize("form", ONE)
def test_results_of_one_operand_follow_it(form):
    ran = [check(form, s, (layout,)) for s in SHAPES for layout in LAYOUTS]
    assert sum(ran) > 30


@pytest.mark.parametrize(
    "form", ["{x}[torch.tensor([[0, 0, 0], [0, 0, 0]]).t()]", "{x}[:, torch.tensor([[0, 0], [1, 1]]).t()]"]
)
def test_results_follow_the_index_where_the_indexed_tensor_determines_no_order(form):
    shapes = [
        s for s in SHAPES if 1 not in s and len(s) > 2
    ]  # of what no step is taken in, NumPy and PyTorch note others
    assert all(check(form, shape, (layout,)) for shape in shapes for layout in LAYOUTS[:5])


VIEWS = {
    "columns": lambda x: x[..., :3], "steps": lambda x: x[..., 1::2], "rows": lambda x: x[:, ::2], "one": lambda x: x[:, :1],
    "turned": lambda x: x.transpose(1, 2), "last to front": lambda x: x.permute(0, 2, 3, 1), "none": lambda x: x[:0],
}  # fmt: skip


@pytest.mark.parametrize("name", ["cat", "stack"])
def test_joined_views_lie_as_pytorchs(name):
    values = np.arange(4 * 6 * 8 * 5, dtype=np.float32).reshape(4, 6, 8, 5)
    for first, second, dim in itertools.product(VIEWS.values(), VIEWS.values(), range(4)):
        found = []
        for t in (torch, tdt):
            x = t.from_numpy(values)
            try:
                out = getattr(t, name)([first(x), second(x)], dim)
                found.append((tuple(out.shape), out.stride(), out.numpy().tobytes()))
            except RuntimeError:
                found.append(None)
        assert found[0] == found[1]


@pytest.mark.parametrize("name", ["cat", "stack"])
@pytest.mark.parametrize("dim", [0, 1, -1, 2, 5])
def test_tensors_of_several_dtypes_are_promoted_when_joined(name, dim):
    dtypes = "float32", "float64", "int64", "bool", "bfloat16", "complex64"
    for first, second in itertools.product(dtypes, repeat=2):
        found = []
        for t in (torch, tdt):
            parts = [t.ones(2, 3, dtype=getattr(t, each)) for each in (first, second, first)]
            try:
                out = getattr(t, name)(parts, dim)
                found.append((str(out.dtype).partition(".")[2], out.tolist(), out.stride()))
            except Exception as error:  # noqa: BLE001 (what it is gets compared)
                found.append((type(error), str(error).partition(" (")[0]))
        assert found[0] == found[1]


LOSSES = ("(w * 2).sum()", "w.sum()", "(w.contiguous() * w.contiguous()).sum()", "w.transpose(0, -1).square().sum()",
          "(w @ torch.ones(w.shape[-1], 3)).sum()", "(w[..., :1] * w).sum()")  # fmt: skip


def gradients(library, layout, loss, shape):
    """The strides of a leaf's gradient after one and two backward passes, or whether the layout fits the shape."""
    env = {"torch": library, "s": shape, "n": len(shape)}
    env["a"] = library.arange(float(torch.Size(shape).numel())).reshape(shape)
    try:
        env["w"] = eval(layout.format("a"), env).detach().requires_grad_()
    except Exception:  # noqa: BLE001 (a layout that the shape does not have)
        return None
    found = []
    for _ in range(2):
        eval(loss, env).backward()
        found.append(strides_of(env["w"].grad))
    return found


@pytest.mark.parametrize("loss", LOSSES)
def test_gradients_lie_as_their_leaves(loss):
    """If these have no gaps; else they are contiguous."""
    ran = 0
    for layout, shape in itertools.product(LAYOUTS, SHAPES):
        expected = gradients(torch, layout, loss, shape)
        assert gradients(tdt, layout, loss, shape) == expected, f"{layout} for shape {shape}"
        ran += expected is not None
    assert ran > 50


@pytest.mark.parametrize("image_last", [False, True])
@pytest.mark.parametrize("name, sizes", [("Conv2d", (3, 4, 3)), ("Conv2d", (16, 32, 3)), ("Conv2d", (16, 8, 1)),
                                         ("ConvTranspose2d", (4, 8, 3)), ("Conv3d", (3, 4, 2))])  # fmt: skip
def test_gradients_of_channels_last_weights_are_channels_last(name, sizes, image_last):
    found = []
    for library in (torch, tdt):
        last = library.channels_last_3d if name.endswith("3d") else library.channels_last
        layer = getattr(library.nn, name)(*sizes).to(memory_format=last)
        x = library.ones(2, sizes[0], *(6,) * (3 if name.endswith("3d") else 2))
        layer(x.to(memory_format=last) if image_last else x).square().sum().backward()
        found.append([strides_of(p.grad) for p in layer.parameters()])
    assert found[0] == found[1]


@pytest.mark.parametrize("code", [
    "x = torch.ones(3, 4, requires_grad=True); y = (x * 1).t() * 1; y.retain_grad(); y.contiguous().mul(2).sum().backward()",
    "x = torch.ones(3, 4, requires_grad=True); y = (x * 1).t() * 1; y.retain_grad(); y.sum().backward()",
    "y = torch.ones(2, 3, 4, 5).to(memory_format=torch.channels_last).requires_grad_(); "
    "(y.contiguous() * 2).sum().backward(create_graph=True)",
    "y = torch.ones(3, 4).t().detach().requires_grad_(); (y.contiguous() ** 2).sum().backward(create_graph=True)",
    "y = torch.ones(3, 4, requires_grad=True); (y.t().contiguous() ** 2).sum().backward(create_graph=True)",
])  # fmt: skip
def test_gradients_of_other_tensors_and_with_a_graph_lie_as_pytorchs(code):
    found = []
    for library in (torch, tdt):
        env = {"torch": library}
        exec(code, env)
        found.append(strides_of(env["y"].grad))
    assert found[0] == found[1]


@pytest.mark.parametrize("equation", [
    "ncij,bnj->bnci", "nij,nbj->nbi", "nij,nbj->nib", "ilj,abj->labi", "ilj,abj->bali", "nilj,nabj->ailbn", "bihd,bjhd->bhij",
    "bhij,bjhd->bihd", "ij,kj->ki", "abcd->ca", "abc,dc->dab", "ab,cd->cabd", "abc,bcd,de->ae", "abc->", "ai,bi->",
])  # fmt: skip
def test_einsum_lies_as_pytorchs(equation):
    sizes = dict(zip("abcdehijkln", (2, 3, 4, 5, 6, 3, 4, 5, 2, 6, 3), strict=True))
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal([sizes[c] for c in names]) for names in equation.split("->")[0].split(",")]
    ours, theirs = (lib.einsum(equation, *map(lib.from_numpy, arrays)) for lib in (tdt, torch))
    np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=1e-12)
    assert ours.stride() == theirs.stride()


@pytest.mark.parametrize("shape", [(1,), (2, 1), (1, 1)])
def test_places_of_one_element_have_no_negative_strides(shape):
    x = np.arange(float(np.prod(shape))).reshape(shape)
    for ours, theirs in zip(
        *([t.topk(1).indices, t.argsort(-1, True)] for t in (tdt.from_numpy(x), torch.from_numpy(x))), strict=True
    ):
        assert ours.stride() == theirs.stride()
