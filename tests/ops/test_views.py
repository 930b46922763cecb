"""Views by strides, and copies of views and of parts: what PyTorch's op database does not ask."""

import pytest

import tdt
from tests.helpers import require_torch


@pytest.mark.parametrize("view", [
    lambda x: x.as_strided((2,), (2,), 2), lambda x: x.unfold(0, 3, 2)[1], lambda x: x.unfold(0, 2, 1)[2:, 1],
    lambda x: x[1:].as_strided((2, 2), (1, 1))[1],
])  # fmt: skip
def test_strides_of_strided_views_count_from_the_start_of_the_memory(view):
    torch = require_torch()
    found, expected = (view(lib.arange(6)) for lib in (tdt, torch))
    assert found.storage_offset() == expected.storage_offset()
    assert found.as_strided((3,), (2,), 0).tolist() == expected.as_strided((3,), (2,), 0).tolist() == [0, 2, 4]


@pytest.mark.parametrize("cut", [
    lambda x: x.chunk(2, 1), lambda x: x.split([1, 3], 1), lambda x: x[:, 1:].chunk(2, 1), lambda x: x.unbind(),
    lambda x: x.t().unbind(1),
])  # fmt: skip
def test_chunks_under_no_grad_are_views_as_others(cut):
    torch = require_torch()
    found = []
    for lib in (tdt, torch):
        x = lib.arange(8.0).reshape(2, 4).clone().requires_grad_()
        with lib.no_grad():
            parts = cut(x)
            parts[1].mul_(10)
        with pytest.raises(RuntimeError, match="created in no_grad mode"):
            parts[0].add_(1)
        shared = [part._base is x and part._version == x._version == 1 for part in parts]
        found.append([shared, x.tolist(), [part.tolist() for part in parts], [part.requires_grad for part in parts]])
    assert found[0] == found[1]
    assert all(found[0][0])


@pytest.mark.parametrize("name", ["alias", "detach", "narrow", "select", "slice", "split", "view_as_complex"])
def test_a_copied_view_has_pytorchs_values_and_its_own_memory(name):
    torch = require_torch()
    args = {"narrow": (0, 1, 1), "select": (0, 1), "slice": (0, 0, 2, 2), "split": (2,)}.get(name, ())
    results = []
    for lib in (tdt, torch):
        x = lib.ones(3, 2)
        copied = getattr(lib, f"{name}_copy")(x, *args)
        x.zero_()
        results.append([part.tolist() for part in (copied if isinstance(copied, tuple) else [copied])])
    assert results[0] == results[1]


def test_a_part_of_another_shape_is_not_scattered():
    for scattered in (
        lambda: tdt.select_scatter(tdt.zeros(2, 3), tdt.ones(2), 0, 0),
        lambda: tdt.slice_scatter(tdt.zeros(4), tdt.ones(1), 0, 0, 2),
        lambda: tdt.diagonal_scatter(tdt.zeros(2, 2), tdt.ones(3)),
    ):
        with pytest.raises(RuntimeError, match="expected src to have a size equal to the slice of self"):
            scattered()


EMPTY = {
    "zeros": lambda t, s: t.zeros(s),
    "a computed one": lambda t, s: t.rand(s) * 2,
    "permute": lambda t, s: t.zeros(s).permute(*range(1, len(s)), 0),
    "transpose": lambda t, s: t.zeros(s).transpose(0, -1),
    "select": lambda t, s: t.zeros(2, *s)[1],
    "slice": lambda t, s: t.zeros([n + 2 for n in s])[tuple(slice(n) for n in s)],
    "narrow": lambda t, s: t.zeros([n + 2 for n in s]).narrow(0, 1, 0),
    "unsqueeze": lambda t, s: t.zeros(s).unsqueeze(0),
    "squeeze": lambda t, s: t.zeros(s).squeeze(),
    "expand": lambda t, s: t.zeros(1, *s).expand(2, *s),
    "view": lambda t, s: t.zeros(s).view(*s[::-1]),
    "flatten": lambda t, s: t.zeros(s).flatten(),
    "chunk": lambda t, s: t.zeros(s).chunk(2, -1)[0],
    "cat": lambda t, s: t.cat([t.zeros(s), t.zeros(s)]),
    "matmul": lambda t, s: t.zeros(*s, 2) @ t.zeros(2, 3),
    "sum": lambda t, s: t.zeros(s).sum(0),
    "a mask": lambda t, s: t.zeros(3, 2)[t.zeros(3, dtype=t.bool)],
}


@pytest.mark.parametrize("name", EMPTY)
def test_tensors_without_elements_have_pytorchs_strides(name):
    torch = require_torch()
    for shape in [(0, 3), (3, 0), (0, 0), (2, 0, 3), (0, 2, 3), (2, 3, 0), (0, 4, 0, 2)]:
        ours, theirs = EMPTY[name](tdt, shape), EMPTY[name](torch, shape)
        assert (tuple(ours.shape), ours.stride()) == (tuple(theirs.shape), theirs.stride()), shape
        assert ours.is_contiguous() == theirs.is_contiguous()


def test_new_dimensions_of_size_1_have_pytorchs_strides():
    for library in (tdt, require_torch()):
        x = library.zeros(2, 3)
        assert [x.unsqueeze(d).stride() for d in range(3)] == [(6, 3, 1), (3, 3, 1), (3, 1, 1)]
        assert x[:, None, :, None].expand(2, 4, 3, 1).stride() == (3, 0, 1, 1)


@pytest.mark.parametrize("spec", [(0,), (1, 1, 6, 2), (0, -3, None), (1, 5, 2)], ids=str)
def test_slice_scatter_of_contiguous_tensors_has_pytorchs_values_gradients_and_node(spec):
    results = []
    for lib in (tdt, require_torch()):
        x = (lib.arange(40.0).reshape(5, 8) / 8).requires_grad_()
        part = (slice(None),) * spec[0] + (slice(*spec[1:]) if len(spec) > 1 else slice(None),)
        src = x.detach()[part].clone().requires_grad_()
        out = lib.slice_scatter(x, src, *spec)
        (out * lib.arange(40.0).reshape(5, 8)).sum().backward()
        results.append((out.tolist(), x.grad.tolist(), src.grad.tolist(), out.grad_fn.name()))
    assert results[0] == results[1]


def test_gradients_of_slice_scatter_have_gradients():
    x, src = (tdt.rand(4, n, dtype=tdt.float64, requires_grad=True) for n in (5, 2))
    assert tdt.autograd.gradgradcheck(lambda x, src: tdt.slice_scatter(x, src, 1, 1, 5, 2), (x, src))


@pytest.mark.parametrize("sections", [1, 2, 3, 7])
@pytest.mark.parametrize("name", ["tensor_split", "hsplit"])
def test_a_part_of_equal_size_may_be_written_to_as_pytorchs(name, sections):
    if name == "hsplit" and 6 % sections:
        sections = 6

    def outcome(lib):
        x = lib.arange(6.0).requires_grad_()
        parts = getattr(x * 1, name)(sections)
        parts[0].mul_(3)
        (g,) = lib.autograd.grad(sum(((k + 1) * part).sum() for k, part in enumerate(parts)), [x])
        return [part.tolist() for part in parts], g.tolist()

    assert outcome(tdt) == outcome(require_torch())


@pytest.mark.parametrize("sizes", [(-2,), (-2, 3), (6, -3)])
@pytest.mark.parametrize("name", ["view", "reshape"])
def test_a_size_below_minus_one_is_no_shape(name, sizes):
    messages = []
    for lib in (tdt, require_torch()):
        with pytest.raises(RuntimeError) as caught:
            getattr(lib.arange(6).reshape(2, 3), name)(*sizes)
        messages.append(str(caught.value))
    assert messages[0] == messages[1]
