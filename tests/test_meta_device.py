"""Tensors on the device "meta": shapes and types without values, beside PyTorch's."""

from __future__ import annotations

import pytest

import tdt
from tests.helpers import repr_or_error, require_torch

EXPRESSIONS = """
t.zeros(2, 3, device='meta'), t.zeros(2, device='meta').device, t.ones(2).to('meta'), t.zeros(2, device='meta').is_meta
(t.zeros(2, 3, device='meta') + 1).sum(0), t.zeros(2, 3, device='meta') @ t.ones(3, 5, device='meta')
t.arange(5, device='meta'), t.eye(2, device='meta'), t.tensor([1, 2], device='meta'), t.rand(3, device='meta')
t.linspace(0, 1, 3, device='meta'), t.logspace(0, 1, 3, device='meta'), t.full((2,), 3, device='meta'), t.zeros(0, device='meta')
t.zeros(2, device='meta').fill_(3).add_(1).normal_(), t.zeros(2, device='meta').copy_(t.zeros(2)), t.zeros(3, device='meta')[1:]
t.zeros(2, 3, device='meta').t()[1:].reshape(-1).to(t.float64), t.zeros(2, 3, dtype=t.int32, device='meta') * 1.5
t.zeros_like(t.zeros(2, device='meta')), t.empty_like(t.zeros(2, device='meta'), device='cpu').shape
t.cat([t.zeros(2, device='meta'), t.zeros(3, device='meta')]), t.zeros(2, 3, device='meta').max(1).values
t.nn.functional.cross_entropy(t.zeros(4, 3, device='meta'), t.zeros(4, dtype=t.long, device='meta'))
t.nn.Linear(10**6, 10**6, device='meta').weight.shape
t.zeros(2, device='meta') + t.zeros(2)
t.zeros(2) * t.zeros(2, device='meta')
t.zeros(2) + t.zeros((), device='meta')
t.zeros(2, device='meta') + t.tensor(1.0), t.tensor(1.0) * t.zeros(2, device='meta')
t.cat([t.zeros(2), t.zeros(2, device='meta')])
t.where(t.ones(2) > 0, t.zeros(2, device='meta'), t.zeros(2, device='meta'))
t.nn.functional.layer_norm(t.zeros(2), (2,), t.ones(2, device='meta'))
t.zeros(2, device='meta')[t.tensor([0])], t.nn.functional.embedding(t.tensor([0]), t.zeros(2, 3, device='meta'))
t.zeros(2, device='meta').add_(t.zeros(2)), t.zeros(2).add_(1)
t.randint(5, (2,), device='meta'), t.zeros(3, dtype=t.int32, device='meta').random_(), t.zeros(2, 3, dtype=t.uint8).to('meta').t()
t.zeros(2, 3, dtype=t.int64, device='meta') @ t.zeros(3, 2, dtype=t.int64, device='meta')
t.zeros(1, device='meta').item()
t.zeros(2, device='meta').item()
t.zeros(1, device='meta').numpy()
t.zeros(2).copy_(t.zeros(2, device='meta'))
again(t.zeros(2)).to('meta').nbytes, t.zeros(2, device='meta').numel(), t.zeros(2, device='meta').element_size()
"""


@pytest.mark.parametrize("expression", EXPRESSIONS.strip().splitlines())
def test_shapes_are_pytorchs(expression):
    assert repr_or_error(tdt, expression) == repr_or_error(require_torch(), expression)


def test_a_model_is_built_without_memory_and_filled_later():
    with tdt.device("meta"):
        model = tdt.nn.Sequential(
            tdt.nn.Conv2d(1, 4, 3), tdt.nn.ReLU(), tdt.nn.Flatten(), tdt.nn.Linear(144, 10), tdt.nn.BatchNorm1d(10)
        )
    assert all(p.is_meta for p in model.parameters())
    assert model(tdt.zeros(2, 1, 8, 8, device="meta")).shape == (2, 10)
    with pytest.raises(NotImplementedError, match="Cannot copy out of meta tensor; no data!"):
        model.to("cpu")
    filled = model.to_empty(device="cpu")
    assert not any(p.is_meta for p in filled.parameters())


CASTS = "half() bfloat16() double() long() bool() cfloat() to(t.float8_e5m2) type(t.int8) type_as(y) clone() t().half()"


@pytest.mark.parametrize("cast", CASTS.split())
def test_casts_and_copies_take_no_memory(cast):
    def run(t):
        x, y = (t.empty(10**6, 10**6, device="meta", dtype=kind) for kind in (t.float32, t.int64))
        cast_tensor = eval(f"x.{cast}", {"t": t, "x": x, "y": y})
        return cast_tensor.shape, str(cast_tensor.dtype).partition(".")[2], cast_tensor.device.type

    assert run(tdt) == run(require_torch())


def test_a_module_on_meta_is_cast_without_memory():
    model = tdt.nn.Linear(10**6, 10**6, device="meta").half()
    assert (model.weight.dtype, model.weight.is_meta) == (tdt.float16, True)


def test_weights_are_assigned_to_a_model_on_meta():
    source = tdt.nn.Linear(3, 2)
    with tdt.device("meta"):
        model = tdt.nn.Linear(3, 2)
    model.load_state_dict(source.state_dict(), assign=True)
    assert model(tdt.ones(3)).tolist() == source(tdt.ones(3)).tolist()


def test_no_generator_is_drawn_from():
    tdt.manual_seed(0)
    tdt.nn.Linear(3, 2, device="meta"), tdt.randn(3, device="meta"), tdt.randperm(3, device="meta")
    assert tdt.rand(1).item() == pytest.approx(0.4962566)
