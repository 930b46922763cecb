"""How much memory compiled training takes at most, counted in arrays, and the bits of what frees them early."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

import tdt
from tdt import nn
from tdt._compiled import fusion, native, verified
from tdt._compiled.values import COPIED, Values
from tdt.nn import functional as F

portable = pytest.mark.skipif(not tdt.backends.kernels.enabled(), reason="portable code is not fused")
LAYERS, WIDTH = 8, 256
ARRAY = 4 * WIDTH * WIDTH  # bytes of an activation, a weight or a gradient


@pytest.fixture(autouse=True)
def _by_python(monkeypatch):
    """Programs of large arrays do not run on tapes, which keep their arrays between calls; those here are of 256 kB each."""
    monkeypatch.setattr(native, "MOST_BYTES", 0)


def peak(run, calls: int = 0) -> float:
    """The most memory that a call of `run` takes beyond what is held before it, in arrays. calls: that come before it."""
    tracemalloc.start()
    try:
        for _ in range(calls):
            run()
        start = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        run()
        return (tracemalloc.get_traced_memory()[1] - start) / ARRAY
    finally:
        tracemalloc.stop()


class Layers(nn.Module):
    def __init__(self, function):
        super().__init__()
        tdt.manual_seed(0)
        self.weights = nn.ParameterList([tdt.randn(WIDTH, WIDTH) / WIDTH**0.5 for _ in range(LAYERS)])
        self.function = function

    def forward(self, x):
        for w in self.weights:
            x = self.function(x @ w)
        return x


def trained(how: str, function=lambda x: x, optimizer=tdt.optim.SGD) -> tuple:
    """A model, and a step of training on it: "eager", or with the "loss" or the whole "step" compiled."""
    model = Layers(function)
    optimizer = optimizer(model.parameters(), lr=1e-3)
    x = tdt.randn(WIDTH, WIDTH)

    def loss(x):
        return model(x).square().mean()

    computed = tdt.compile(loss, fullgraph=True) if how == "loss" else loss

    def step(x):
        optimizer.zero_grad()
        found = computed(x)
        found.backward()
        optimizer.step()
        return found

    run = tdt.compile(step, fullgraph=True) if how == "step" else step
    return model, lambda: run(x)


def bits(model, run, steps: int = 4) -> list[bytes]:
    found = [run().detach().numpy().tobytes() for _ in range(steps)]
    return [*found, *[p.grad.numpy().tobytes() for p in model.parameters()]]


@pytest.mark.parametrize("how", ["eager", "loss", "step"])
def test_gradients_take_the_place_of_what_was_saved_for_them(how):
    model, run = trained(how)
    for _ in range(3):
        run()
    for p in model.parameters():
        p.grad = None
    assert peak(run) < LAYERS + 4  # the activations and the gradients would be twice as many


@pytest.mark.parametrize("how", ["loss", "step"])
def test_gradients_of_the_step_before_are_gone_when_the_next_are_computed(how):
    _, run = trained(how)
    assert peak(run, calls=3) < 4  # beyond them: the activations take their place


def test_parts_of_an_array_keep_it_no_longer_than_they_are_read():
    def parts(x):
        a, b, c, d = F.pad(x, (0, 3 * WIDTH)).split(WIDTH, 1)
        return (a + b + c + d).cumsum(0)

    for how in ("eager", "step"):
        model, run = trained(how, parts)
        for _ in range(3):
            run()
        for p in model.parameters():
            p.grad = None
        assert peak(run) < LAYERS + 10, how  # with the gradient of each part, until the last is computed: 8


@pytest.fixture(params=[1, 2], ids=["one thread", "two threads"])
def threads(request):
    before = tdt.get_num_threads()
    tdt.set_num_threads(request.param)
    yield
    tdt.set_num_threads(before)


@pytest.mark.parametrize(("how", "more"), [("loss", 4), ("step", 1)])
@pytest.mark.usefixtures("threads")
def test_a_recording_takes_about_the_memory_of_a_step(how, more):
    """Gradients of a loss are computed twice, while the graph is there, and not held; those of a step once."""
    (_, eager), (_, compiled), (_, other) = (trained(each, F.gelu) for each in ("eager", how, how))
    other()  # compiles what is compiled once
    assert peak(compiled) < peak(eager) + more


@pytest.mark.parametrize("how", ["loss", "step"])
def test_a_comparison_takes_about_the_memory_of_a_step(how, monkeypatch):
    monkeypatch.setattr(verified, "MOST_COPIED", 0)
    eager, compiled = trained("eager", optimizer=tdt.optim.Adam), trained(how, optimizer=tdt.optim.Adam)
    eager[1](), compiled[1]()
    # The graph is retained while the gradients of the loss are compared.
    assert peak(compiled[1]) < peak(eager[1]) + 4
    assert bits(*compiled) == bits(*eager)


@pytest.mark.parametrize("most", [0, 1 << 22])
def test_a_state_advances_once_in_a_comparison(most, monkeypatch):
    monkeypatch.setattr(verified, "MOST_COPIED", most)
    found = []
    for how in ("eager", "step"):
        model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Dropout(0.5))
        tdt.manual_seed(0)
        optimizer, x = tdt.optim.Adam(model.parameters()), tdt.randn(6, 4)

        def step(x, model=model, optimizer=optimizer):
            optimizer.zero_grad()
            model(x).square().sum().backward()
            optimizer.step()

        with tdt.no_grad():
            for p in model.parameters():
                p.fill_(0.5)
        run = tdt.compile(step, fullgraph=True) if how == "step" else step
        each = []
        for _ in range(4):
            run(x)
            states = [t for own in optimizer.state.values() for t in own.values()]
            each += [
                (t._version, t.detach().numpy().tobytes()) for t in (*model.parameters(), *model.buffers(), *states)
            ]
        found.append(each)
    assert found[0] == found[1]


def test_a_step_that_reads_what_it_has_updated_is_compared_as_a_whole(monkeypatch):
    monkeypatch.setattr(verified, "MOST_COPIED", 0)
    found = []
    for compiles in (False, True):
        tdt.manual_seed(0)
        model = nn.Linear(4, 4)
        optimizer, x = tdt.optim.Adam(model.parameters()), tdt.randn(6, 4)

        def step(x, model=model, optimizer=optimizer):
            optimizer.zero_grad()
            model(x).square().sum().backward()
            optimizer.step()
            with tdt.no_grad():
                return model(x).sum()

        run = tdt.compile(step, fullgraph=True) if compiles else step
        found.append([run(x).detach().numpy().tobytes() for _ in range(4)])
    assert found[0] == found[1]


def test_of_large_arrays_that_differ_the_kind_is_shown():
    found = Values(np.ones((WIDTH, WIDTH), np.float32))
    other = np.ones((WIDTH, WIDTH), np.float32)
    other[3, 4] = np.nan
    assert found.shown_beside(Values(other)) == " (float32 [256, 256])"


@portable
def test_many_gradients_of_a_weight_do_not_wait_for_their_sum(monkeypatch):
    """Their sum in one pass would hold them all."""
    found = {}
    for held in (ARRAY, 1 << 40):
        monkeypatch.setattr(fusion, "HELD", held)
        tdt.manual_seed(0)
        w = (tdt.randn(WIDTH, WIDTH) / WIDTH**0.5).requires_grad_()

        def step(x, w=w):
            w.grad = None
            for _ in range(2 * LAYERS):
                x = x @ w
            x.square().mean().backward()

        run, x = tdt.compile(step, fullgraph=True), tdt.randn(8, WIDTH)
        for _ in range(3):
            run(x)
        found[held] = peak(lambda run=run, x=x: run(x)), w.grad.numpy().tobytes()
        step(x)
        assert found[held][1] == w.grad.numpy().tobytes()
    assert found[ARRAY][0] < 5
    assert found[1 << 40][0] > 2 * LAYERS - 2


def new_gelu(x):
    return 0.5 * x * (1.0 + (0.7978845608 * (x + 0.044715 * x**3)).tanh())


@portable
@pytest.mark.parametrize("how", ["loss", "step"])
def test_of_an_activation_only_what_it_is_computed_of_is_saved(how):
    model, run = trained(how, new_gelu)
    for _ in range(3):
        run()
    for p in model.parameters():
        p.grad = None
    assert peak(run) < LAYERS + 8  # its input and its result would be twice as many, and the values between more
    assert bits(*trained(how, new_gelu)) == bits(*trained("eager", new_gelu))


class Normed(nn.Module):
    """Layer norms, each before a product that saves what is normed."""

    def __init__(self):
        super().__init__()
        tdt.manual_seed(0)
        self.norms = nn.ModuleList([nn.LayerNorm(WIDTH) for _ in range(LAYERS)])
        self.products = nn.ModuleList([nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(LAYERS)])

    def forward(self, x):
        for norm, product in zip(self.norms, self.products, strict=True):
            x = product(norm(x))
        return x


@portable
@pytest.mark.parametrize("how", ["loss", "step"])
def test_a_layer_norm_is_computed_again(how):
    found = {}
    for each in ("eager", how):
        model = Normed()
        optimizer, x = tdt.optim.SGD(model.parameters(), lr=0.1), tdt.randn(WIDTH, WIDTH)

        def loss(x, model=model):
            return model(x).square().mean()

        computed = tdt.compile(loss, fullgraph=True) if each == "loss" else loss

        def step(x, computed=computed, optimizer=optimizer):
            optimizer.zero_grad()
            computed(x).backward()
            optimizer.step()

        run = tdt.compile(step, fullgraph=True) if each == "step" else step
        for _ in range(4):
            run(x)
        gradients = [p.grad.numpy().tobytes() for p in model.parameters()]
        for p in model.parameters():
            p.grad = None
        found[each] = gradients, peak(lambda run=run, x=x: run(x))
    assert found[how][0] == found["eager"][0]
    assert found[how][1] < found["eager"][1] - LAYERS + 4


def test_a_bias_that_changes_before_the_backward_pass_is_what_it_was():
    """Nothing of it is saved without `tdt.compile`; what is computed again takes it as it was."""
    found = []
    for compiles in (False, True):
        model, x = Normed(), tdt.randn(WIDTH, WIDTH, generator=tdt.Generator().manual_seed(1))
        function = tdt.compile(model, fullgraph=True) if compiles else model
        for _ in range(4):
            for p in model.parameters():
                p.grad = None
            y = function(x).square().mean()
            with tdt.no_grad():
                for norm in model.norms:
                    norm.bias.add_(1)
            y.backward()
        found.append([p.grad.numpy().tobytes() for p in model.parameters()])
    assert found[0] == found[1]


@pytest.mark.parametrize("how", ["loss", "step"])
def test_values_that_are_written_to_in_place_are_not_computed_again(how):
    def function(x):
        y = (x.detach() * 0.1).add_(1)
        return y.relu_() * x.tanh()

    assert bits(*trained(how, function)) == bits(*trained("eager", function))


def adversarial(model, other, optimizers):
    """Two losses and steps in turns: the second loss reads what the first step has changed, and a value of before."""

    def step(x):
        for optimizer in optimizers:
            optimizer.zero_grad()
        y = new_gelu(model(x))
        y.detach().square().mean()
        other(y.detach()).square().mean().backward()
        optimizers[1].step()
        other(y).mean().backward()
        optimizers[0].step()

    return step


def in_place(model, other, optimizers):
    """A value is written to after another one was computed of it, which is saved."""

    def step(x):
        for optimizer in optimizers:
            optimizer.zero_grad()
        y = F.linear(x, model.weight).sum(1, keepdim=True)
        z = (y * 2 + x).tanh()  # saved, whereas y is not, and smaller
        y.detach().mul_(2)
        (other(z).square().mean() + y.detach().mean()).backward()
        for optimizer in optimizers:
            optimizer.step()

    return step


def scaled_weights(model, other, optimizers):
    """A value is computed of a weight, which a step changes before its gradient is."""

    def step(x):
        for optimizer in optimizers:
            optimizer.zero_grad()
        w = (other.weight * 2).tanh()
        y = F.linear(model(x), w)
        other(x).square().mean().backward()
        optimizers[1].step()
        for optimizer in optimizers:
            optimizer.zero_grad()
        y.square().mean().backward()
        optimizers[0].step()

    return step


@pytest.mark.parametrize("build", [adversarial, in_place, scaled_weights])
def test_what_is_written_to_between_is_not_computed_again(build):
    found = []
    for compiles in (False, True):
        tdt.manual_seed(0)
        model, other = nn.Linear(16, 16), nn.Linear(16, 16)
        optimizers = [tdt.optim.Adam(each.parameters(), lr=0.1) for each in (model, other)]
        step, x = build(model, other, optimizers), tdt.randn(8, 16)
        run = tdt.compile(step, fullgraph=True) if compiles else step
        for _ in range(4):
            run(x)
        found.append([p.detach().numpy().tobytes() for p in (*model.parameters(), *other.parameters())])
    assert found[0] == found[1]


def test_a_graph_that_is_retained_has_the_same_gradients_twice():
    model, _ = trained("loss")
    loss = tdt.compile(lambda x: model(x).square().mean(), fullgraph=True)
    x = tdt.randn(WIDTH, WIDTH)
    for _ in range(3):
        found = loss(x)
        found.backward(retain_graph=True)
        first = [p.grad.numpy().tobytes() for p in model.parameters()]
        for p in model.parameters():
            p.grad = None
        found.backward()
        assert [p.grad.numpy().tobytes() for p in model.parameters()] == first
        with pytest.raises(RuntimeError, match="second time|freed"):
            found.backward()
        for p in model.parameters():
            p.grad = None


def test_values_are_those_of_their_array_alone():
    draw = np.random.default_rng(0)
    for n in (3, COPIED):
        for a in (draw.standard_normal((n, 3)), draw.standard_normal((3, n)).T, draw.integers(0, 9, (n, 4))[:, ::2]):
            values, other = Values(a), a.copy()
            assert values.are(Values(a))
            assert values.are(Values(other))
            assert values.shown_beside(Values(np.asfortranarray(other))) == " (its strides)"
            other[n - 1, 1] += 1
            assert not values.are(Values(other))
            assert ("1 of" if a.nbytes <= COPIED else f"{a.dtype}") in values.shown_beside(Values(other))
            assert not values.are(Values(a.astype(np.float32)))
            assert not values.are(Values(a[:-1]))
