"""`t_` and its like, mixed with views and writes: values, gradients and refusals are PyTorch's."""

import itertools

import pytest

import tdt
from tests.helpers import require_torch

torch = require_torch()

from tests.parity.programs import Program, disagreement  # noqa: E402

TURNS = ("t_()", "transpose_(0, 1)", "swapaxes_(0, 1)", "swapdims_(-1, 0)", "squeeze_()", "squeeze_(0)", "unsqueeze_(0)",
         "unsqueeze_(-1)")  # fmt: skip
VIEWS = ("y[1:]", "y[0]", "y.view(-1)", "y.t()", "y.unsqueeze(1)", "y.split(1)[0]", "y.diagonal()", "y.detach()")
WRITES = ("v.mul_(3)", "w.mul_(3)", "y.mul_(3)", "v[..., 0] = x.sum()", "w.add_(v)", "w.copy_(x[0, 0])", "v.t_()")
SHAPES = ("2, 3", "1, 3", "3, 3")


def check(*lines):
    found = disagreement(Program(list(lines)), torch, tdt)
    assert found is None, "\n".join((found, *lines))


def start(shape):
    return f"x = torch.arange(9.)[: {shape.replace(',', ' *')}].double().view({shape}).requires_grad_()", "y = x * 2"


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("turn", TURNS)
def test_a_view_created_before_its_base_was_transposed_is_followed(turn, write):
    for shape, view, part in itertools.product(SHAPES, VIEWS, ("v[..., 1:]", "v", "v.view_as(v)")):
        check(*start(shape), f"v = {view}", f"w = {part}", f"y.{turn}", write, "(y * y).sum().backward()")


@pytest.mark.parametrize("turn", TURNS)
def test_turns_before_and_after_other_turns(turn):
    for shape, other, view in itertools.product(SHAPES, TURNS, VIEWS[:5]):
        turned = (f"y.{turn}", f"v = {view}", f"y.{other}", "w = y[..., 0]", f"y.{turn}")
        check(*start(shape), *turned, "v.mul_(3)", "w.mul_(5)", "(y * y).sum().backward()")


@pytest.mark.parametrize("turn", TURNS)
def test_a_view_is_turned(turn):
    for shape, view, late in itertools.product(SHAPES, VIEWS, ("v", "w", "y")):
        end = "(y.sum() + (v * v).sum()).backward()"
        check(*start(shape), f"v = {view}", "w = v[..., 0]", f"v.{turn}", f"{late}.mul_(3)", end)


@pytest.mark.parametrize("turn", TURNS)
def test_turned_under_no_grad(turn):
    for shape, which in itertools.product(SHAPES, "yv"):
        end = "((y * y).sum() + (v * v).sum() + (x * x).sum()).backward()"
        check(*start(shape), "v = y[:1]", f"with torch.no_grad(): {which}.{turn}", end)
        check(*start(shape)[:1], f"with torch.no_grad(): x.{turn}", "(x * x).sum().backward()")


@pytest.mark.parametrize("turn", TURNS)
def test_leaves_several_views_and_saved_values_refuse(turn):
    check(*start("2, 3"), f"x.{turn}")
    check(*start("2, 3"), f"x[:1].{turn}")
    check(*start("2, 3"), "v, w = y.split(1)", f"v.{turn}")
    check(*start("2, 3"), "z = y * y", f"y.{turn}", "z.sum().backward()")


def test_a_leaf_transposed_after_use_gets_no_gradient_of_its_former_shape():
    x = tdt.ones(1, 3, requires_grad=True)
    y = x * 2
    with tdt.no_grad():
        x.t_()
    with pytest.raises(RuntimeError, match="invalid gradient at index 0 - got .1, 3. but expected shape compatible"):
        y.sum().backward()


def test_a_write_through_as_strided_of_a_part_reaches_the_right_elements():
    check(
        *start("3, 3"),
        "y = y[1:].detach()",
        "v = y.as_strided((2, 2), (2, 1), 4)",
        "v.mul_(x[:2, :2])",
        "(y * y).sum().backward()",
    )


def test_a_view_cannot_follow_as_strided():
    y = tdt.ones(2, 3, requires_grad=True) * 1
    v = y[1]
    y.as_strided_((3,), (1,))
    with pytest.raises(RuntimeError, match="cannot follow its base"):
        v.mul_(2)
