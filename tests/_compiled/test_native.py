"""Programs that run natively: the bits of the function in every case, and nothing of the user's is written to."""

from __future__ import annotations

import math
import mmap
import os
import threading

import numpy as np
import pytest

import tdt
from tdt import nn
from tdt._compiled import native, trials
from tdt._kernels import _jit, _native, _tape
from tdt._kernels._launches import watch
from tdt._kernels._layout import readable_behind
from tdt.nn import functional as F

pytestmark = pytest.mark.skipif(not tdt.backends.kernels.enabled(), reason="portable code launches nothing")


class Last(nn.Module):
    """A recurrent network of which the last output counts."""

    def __init__(self, kind: str, **options):
        super().__init__()
        self.layers = getattr(nn, kind)(6, 10, batch_first=True, **options)
        self.out = nn.LazyLinear(5)

    def forward(self, x):
        return self.out(self.layers(x)[0][:, -1])


class ByHand(nn.Module):
    """RMS norm, a gate, and moves of elements, written by hand."""

    def __init__(self):
        super().__init__()
        self.a, self.gain, self.b = nn.Linear(12, 24), nn.Parameter(tdt.ones(12)), nn.Linear(18, 5)

    def forward(self, x):
        x, gate = self.a(x).chunk(2, -1)
        x = x * tdt.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6) * self.gain
        y = (x * tdt.sigmoid(gate)).view(-1, 3, 4).transpose(1, 2).reshape(-1, 12)
        return self.b(tdt.cat([y[:, :6].flip(1), tdt.stack([x, y], 1).flatten(1)[:, 6:18]], 1))


class ChannelsLast(nn.Sequential):
    """Convolutions of channels-last images, the second and third by Winograd, and dropout."""

    def __init__(self):
        super().__init__(
            nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 32, 3, padding=1), nn.ReLU(),
            nn.Conv2d(32, 64, 3, padding=1), nn.MaxPool2d(2), nn.Flatten(), nn.Dropout(0.2), nn.Linear(1024, 5),
        )  # fmt: skip
        self.to(memory_format=tdt.channels_last)

    def forward(self, x):
        return super().forward(x.to(memory_format=tdt.channels_last))


MODELS = {
    "MLP": (lambda: nn.Sequential(nn.Linear(12, 20), nn.GELU(), nn.Linear(20, 5)), (8, 12)),
    "batch norm and dropout": (
        lambda: nn.Sequential(nn.Linear(12, 20), nn.BatchNorm1d(20), nn.ReLU(), nn.Dropout(0.3), nn.Linear(20, 5)),
        (8, 12),
    ),
    "convolutions": (
        lambda: nn.Sequential(
            nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 4, 3), nn.Tanh(),
            nn.GroupNorm(2, 4), nn.Flatten(), nn.LazyLinear(5),
        ),
        (6, 1, 8, 8),
    ),
    "channels-last": (ChannelsLast, (16, 1, 8, 8)),
    "LSTM": (lambda: Last("LSTM"), (4, 7, 6)),
    "GRU": (lambda: Last("GRU", bidirectional=True), (4, 7, 6)),
    "transformer": (
        lambda: nn.Sequential(nn.TransformerEncoderLayer(16, 4, 32, 0.1, batch_first=True), nn.Flatten(), nn.LazyLinear(5)),
        (4, 7, 16),
    ),
    "by hand": (ByHand, (8, 12)),
}  # fmt: skip
LOSSES = {
    "cross-entropy": F.cross_entropy,
    "smoothed": lambda output, y: F.cross_entropy(output, y, label_smoothing=0.1),
    "likelihood": lambda output, y: F.nll_loss(output.log_softmax(1), y),
    "squares": lambda output, y: F.mse_loss(output, F.one_hot(y.clamp(0), 5).float()),
}


def natives(compiled) -> list:
    """The forward and backward programs that run on tapes."""
    found = [each.recording for kind in compiled._compiled.recordings.values() for each in kind]
    programs = [p for r in found if r is not None for p in (r.native, *r.native_backwards.values())]
    return [p for p in programs if p.steps]


def train(make, shape, loss, compiled: bool, threads: int = 1, steps: int = 7) -> tuple:
    """Losses, weights and buffers after training on new batches, of which one ignores a sample."""
    before = tdt.get_num_threads()
    tdt.set_num_threads(threads)
    try:
        tdt.manual_seed(3)
        model = make()
        model(tdt.randn(*shape))
        optimizer = tdt.optim.Adam(model.parameters(), 1e-2)
        compute = lambda x, y: loss(model(x), y)  # noqa: E731
        compute = tdt.compile(compute) if compiled else compute
        losses = []
        for step in range(steps):
            x, y = tdt.randn(*shape), tdt.randint(0, 5, shape[:1])
            if step == 4 and loss is not LOSSES["squares"]:
                y[0] = -100
            optimizer.zero_grad()
            value = compute(x, y)
            value.backward()
            optimizer.step()
            losses.append(value.detach().numpy().tobytes())
        return losses, [t.numpy().tobytes() for t in model.state_dict().values()], compute
    finally:
        tdt.set_num_threads(before)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("name", MODELS)
def test_training_has_the_bits_of_eager(name, loss):
    make, shape = MODELS[name]
    *eager, _ = train(make, shape, LOSSES[loss], compiled=False)
    for threads in (1, 2):
        *own, compute = train(make, shape, LOSSES[loss], True, threads)
        assert own == eager
        assert len(natives(compute)) == 2


@pytest.mark.parametrize("name", ["MLP", "batch norm and dropout"])
def test_small_models_run_without_python_between_the_ops(name):
    make, shape = MODELS[name]
    *_, compute = train(make, shape, F.cross_entropy, compiled=True)
    assert len(natives(compute)) == 2
    assert all(isinstance(step, native._Launched) for program in natives(compute) for step in program.steps)


def test_convolutions_of_channels_last_images_are_launched():
    make, shape = MODELS["channels-last"]
    *_, compute = train(make, shape, F.cross_entropy, compiled=True)
    steps = [step for program in natives(compute) for step in program.steps if isinstance(step, native._Launched)]
    assert sum(len(step.tape.launches) for step in steps) > 50


# Images, weights, stride, and groups (0: depthwise).
CONVOLUTIONS = {
    "pixels of several samples": ((16, 48, 2, 2), (48, 48, 1, 1), 1, 1),
    "pixels": ((16, 24, 8, 8), (24, 24, 1, 1), 1, 1),
    "pixels, where they lie": ((4, 96, 16, 16), (24, 96, 1, 1), 1, 1),
    "every other pixel": ((16, 24, 8, 8), (48, 24, 1, 1), 2, 1),
    "depthwise": ((16, 24, 8, 8), (24, 1, 3, 3), 1, 24),
    "depthwise, every other pixel": ((16, 48, 4, 4), (48, 1, 3, 3), 2, 48),
    "few channels": ((16, 3, 32, 32), (24, 3, 3, 3), 2, 1),
}


@pytest.mark.parametrize("some", ["whole images", "some of their channels"])
@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions_run_without_python(name, some):
    shape, weights, stride, groups = CONVOLUTIONS[name]
    wide = some != "whole images"
    shape = (shape[0], shape[1] * (2 if wide else 1), *shape[2:])
    size = [-(-n // stride) for n in shape[2:]]
    target = tdt.randn(shape[0], weights[0], *size)

    def function(x, w):
        x = x * 2
        out = F.conv2d(x.chunk(2, 1)[1] if wide else x, w, None, stride, weights[2] // 2, 1, groups)
        return (out * target).mean()

    compiled = tdt.compile(function, fullgraph=True)
    for _ in range(5 + (4 * 8 * shape[0] * math.prod(shape[1:])) // native.WAITED):
        x, w = tdt.randn(*shape, requires_grad=True), tdt.randn(*weights, requires_grad=True)
        expected = function(x, w)
        found = compiled(x, w)
        assert found.item() == expected.item()
        for own, other in zip(tdt.autograd.grad(found, [x, w]), tdt.autograd.grad(expected, [x, w]), strict=True):
            assert own.numpy().tobytes() == other.numpy().tobytes()
    assert len(natives(compiled)) == 2
    assert all(isinstance(step, native._Launched) for program in natives(compiled) for step in program.steps)


@pytest.fixture(params=[1, 2])
def threads(request):
    before = tdt.get_num_threads()
    tdt.set_num_threads(request.param)
    yield
    tdt.set_num_threads(before)


# Functions with the shapes of their operands: sums of many rows, of rows that are folded as one, and by several blocks; turned
# operands; kernels that add to zeros, or whose words hold the addresses of tables.
SUMMED = {
    "linear layer of many rows": (lambda x, w, b: F.linear(x, w, b), (300, 20), (100, 20), (100,)),
    "linear layer of a turned input": (lambda x, w, b: F.linear(x.transpose(0, 1), w, b), (4, 8, 32), (32, 32), (32,)),
    "layer norm of several blocks": (lambda x, w, b: F.layer_norm(x, (40,), w, b), (8, 8, 8, 40), (40,), (40,)),
    "layer norm of a turned input": (
        lambda x, w, b: F.layer_norm(x.transpose(0, 1), (48,), w, b),
        (4, 40, 48),
        (48,),
        (48,),
    ),
    "layer norm of many elements": (lambda x, w, b: F.layer_norm(x, (64,), w, b), (8, 8, 10, 64), (64,), (64,)),
    "batch norm of many elements": (
        lambda x, w, b: F.batch_norm(x, tdt.ones(8), tdt.full((8,), 2.0), w, b, False),
        (4, 8, 40, 40),
        (8,),
        (8,),
    ),
    "group norm": (lambda x, w, b: F.group_norm(x, 8, w, b), (4, 16, 16, 16), (16,), (16,)),
    "convolution with a bias": (lambda x, w, b: F.conv2d(x, w, b, 1, 2), (64, 1, 28, 28), (6, 1, 5, 5), (6,)),
    "broadcast operands": (lambda x, w, b: x * w + b, (1001, 3), (3,), (1001, 1)),
    "attention": (lambda q, k, v: F.scaled_dot_product_attention(q, k, v), *[(2, 3, 20, 8)] * 3),
    "maxima of lines": (lambda x: F.max_pool1d(x, 4), (2, 3, 50)),
    "convolution with a border of small images": (lambda x, w: F.conv2d(x, w, None, 2, 1), (4, 8, 8, 8), (16, 8, 4, 4)),
    "every other pixel of many rows": (lambda x, w: F.conv2d(x, w, None, 2), (16, 32, 32, 4), (16, 32, 1, 1)),
}


@pytest.mark.parametrize("name", SUMMED)
@pytest.mark.usefixtures("threads")
def test_sums_within_kernels_run_without_python(name, monkeypatch):
    operation, *shapes = SUMMED[name]
    monkeypatch.setattr(native, "WAITED", 1 << 40)

    def function(*operands):
        return operation(*[t * 2 for t in operands]).tanh()

    compiled = tdt.compile(function, fullgraph=True)
    for _ in range(5):
        tensors = [tdt.randn(*shape, requires_grad=True) for shape in shapes]
        pairs = []
        expected, found = function(*tensors), compiled(*tensors)
        g = tdt.randn(*expected.shape)
        for out in (expected, found):
            pairs.append([out, *tdt.autograd.grad(out, tensors, g)])
        for own, other in zip(*pairs, strict=True):
            assert own.detach().numpy().tobytes() == other.detach().numpy().tobytes()
    assert len(natives(compiled)) == 2
    assert all(isinstance(step, native._Launched) for program in natives(compiled) for step in program.steps)


def test_arrays_at_the_end_of_a_page_are_launched_as_others():
    memory, counts = np.zeros(2 * mmap.PAGESIZE, np.uint8), []
    end = -memory.ctypes.data % mmap.PAGESIZE + mmap.PAGESIZE
    for behind in (0, 64):
        with watch() as trace:
            readable_behind(memory[end - behind - 256 : end - behind].view(np.float32), 8)
        counts.append(len(trace.launches))
    assert counts == [1, 1]


def test_kernels_take_watched_arrays_as_others(monkeypatch):
    kernel, keys = _jit.Kernel(lambda first, last, x: None), []
    monkeypatch.setattr(
        kernel, "_load", lambda key: keys.append(key) or _native.Entry(None, 0, lambda *words: bytes(8))
    )
    x = np.zeros((2, 3), np.float32)
    kernel.prepare((x, 1, True))
    kernel.prepare((x.view(_tape.Watched), 1, True))
    assert keys[0] == keys[1]


def test_moves_of_elements_are_copies():
    function = tdt.compile(
        lambda x: tdt.cat([x.flip(0), tdt.stack([x, x * 2], 1).flatten(0, 1)]).transpose(0, 1).contiguous()
    )
    for _ in range(4):
        x = tdt.randn(3, 4)
        expected = tdt.cat([x.flip(0), tdt.stack([x, x * 2], 1).flatten(0, 1)]).transpose(0, 1).contiguous()
        assert tdt.equal(function(x), expected)
    (program,) = natives(function)
    assert all(isinstance(step, native._Launched) for step in program.steps)


@pytest.mark.parametrize("chosen", [
    lambda x: x[:, 2:7], lambda x: x.chunk(2, 1)[1], lambda x: x[:, -1], lambda x: F.pad(x, (1, 2)), lambda x: x[1::2],
    lambda x: tdt.cat([x.chunk(2, 1)[1], x[:, :3]], 1),
])  # fmt: skip
def test_gradients_of_parts_are_copies_with_zeros(chosen):
    def function(x):
        part = chosen(x * 2)
        return (part * weights).sum()

    weights = tdt.randn(*chosen(tdt.zeros(6, 10)).shape)
    compiled = tdt.compile(function, fullgraph=True)
    for _ in range(5):
        x = tdt.randn(6, 10, requires_grad=True)
        (expected,), (found,) = (tdt.autograd.grad(each(x), x) for each in (function, compiled))
        assert found.numpy().tobytes() == expected.numpy().tobytes()
    assert len(natives(compiled)) == 2
    assert all(isinstance(step, native._Launched) for program in natives(compiled) for step in program.steps)


@pytest.fixture
def step():
    """A compiled function that runs natively, and the same without."""
    tdt.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))
    eager = lambda x, y: F.cross_entropy(model(x), y)  # noqa: E731
    compiled = tdt.compile(eager)
    for _ in range(4):
        compiled(tdt.randn(5, 6), tdt.randint(0, 3, (5,))).backward()
    assert len(natives(compiled)) == 2
    model.zero_grad()
    return compiled, eager, model


def batch(seed: int):
    tdt.manual_seed(seed)
    return tdt.randn(5, 6), tdt.randint(0, 3, (5,))


def gradients(model, *losses) -> list[bytes]:
    model.zero_grad()
    for loss in losses:
        loss.backward()
    return [p.grad.numpy().tobytes() for p in model.parameters()]


def test_calls_before_the_first_ones_backward_pass(step):
    compiled, eager, model = step
    first, second = batch(1), batch(2)
    own = [compiled(*first), compiled(*second)]
    assert gradients(model, *own) == gradients(model, eager(*first), eager(*second))
    own = [compiled(*first), compiled(*second)]
    assert gradients(model, *own[::-1]) == gradients(model, eager(*second), eager(*first))


def test_a_retained_graph_is_gone_through_twice(step):
    compiled, eager, model = step
    found = []
    for function in (compiled, eager):
        model.zero_grad()
        loss = function(*batch(1))
        loss.backward(retain_graph=True)
        function(*batch(2)).backward()
        loss.backward()
        found.append([p.grad.numpy().tobytes() for p in model.parameters()])
    assert found[0] == found[1]


def test_nothing_of_the_users_is_written_to(step):
    compiled, _, model = step
    (x, y), other = batch(1), batch(2)
    before = x.numpy().tobytes(), y.numpy().tobytes()
    loss = compiled(x, y)
    value = loss.item()
    model.zero_grad()
    loss.backward()
    saved = [p.grad for p in model.parameters()]
    bits = [g.numpy().tobytes() for g in saved]
    model.zero_grad()
    compiled(*other).backward()
    assert (x.numpy().tobytes(), y.numpy().tobytes()) == before
    assert loss.item() == value
    assert [g.numpy().tobytes() for g in saved] == bits


def test_a_class_out_of_range_has_the_error_of_eager(step):
    compiled, eager, model = step
    x, y = batch(1)
    y[2] = 7
    errors = []
    for function in (eager, compiled):
        with pytest.raises(IndexError) as error:
            function(x, y)
        errors.append(str(error.value))
    assert errors[0] == errors[1]
    assert gradients(model, compiled(*batch(2))) == gradients(model, eager(*batch(2)))


@pytest.mark.parametrize("how", ["replaced", "swapped", "written"])
def test_parameters_that_change(step, how):
    compiled, eager, model = step
    weight = model[0].weight
    other = tdt.randn(8, 6)
    for turn in range(60 if how == "replaced" else 3):
        if how == "written":
            with tdt.no_grad():
                weight.copy_(other * turn)
        elif how == "swapped" or turn == 0:
            weight.data, other = other, weight.data
        saved = other.clone()
        assert gradients(model, compiled(*batch(turn))) == gradients(model, eager(*batch(turn)))
        assert tdt.equal(saved, other)


def test_threads_do_not_disturb_each_other(step):
    compiled, eager, _ = step
    batches = [batch(seed) for seed in range(8)]
    expected = [eager(*each).item() for each in batches]
    found: list = [None] * 8

    def run(k):
        found[k] = [compiled(*batches[k]).item() for _ in range(50)]

    threads = [threading.Thread(target=run, args=(k,)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [[value] * 50 for value in expected]


def test_programs_of_large_arrays_stay_with_python(monkeypatch, step):
    _, eager, _ = step
    monkeypatch.setattr(native, "MOST_BYTES", 100)
    compiled = tdt.compile(eager)
    for seed in range(4):
        assert compiled(*batch(seed)).item() == eager(*batch(seed)).item()
    assert natives(compiled) == []


def test_programs_whose_arguments_and_results_take_long_to_copy_stay_with_python(monkeypatch):
    """A tape has its own places for both; Python passes them on."""
    monkeypatch.setattr(native, "COPIED", 1 << 17)
    for size, is_taped in ((16, True), (1 << 18, False)):
        x, g = tdt.randn(size, requires_grad=True), tdt.ones(size)
        compiled = tdt.compile(lambda x: (x * 2).tanh() * x, fullgraph=True)
        for _ in range(4):
            x.grad = None
            compiled(x.detach().requires_grad_()).backward(g)
        ((each,),) = compiled._compiled.recordings.values()
        assert bool(each.recording.native.steps) is is_taped


def test_programs_of_many_small_statements_may_hold_twice_as_much(monkeypatch):
    def function(x):
        for _ in range(20):
            x = x.tanh().cumsum(0)
        return x

    x = tdt.randn(64, 64)
    for most, each, holds in (
        (1 << 20, 0, True),
        (1 << 19, 1 << 16, True),
        (1 << 19, 1 << 10, False),
        (1 << 18, 1 << 16, False),
    ):
        monkeypatch.setattr(native, "MOST_BYTES", most)
        monkeypatch.setattr(native, "BYTES_OF_STATEMENT", each)
        compiled = tdt.compile(function, fullgraph=True)
        for _ in range(4):
            assert compiled(x).numpy().tobytes() == function(x).numpy().tobytes()
        assert bool(natives(compiled)) == holds


def test_large_programs_wait_for_so_many_calls_at_most(monkeypatch):
    monkeypatch.setattr(native, "WAITED", 1)
    monkeypatch.setattr(native, "MOST_WAITED", 3)
    compiled, x = tdt.compile(lambda x: (x + 1).cumsum(0).tanh(), fullgraph=True), tdt.randn(8, 8)
    compiled(x)
    compiled(x)
    for _ in range(3):
        compiled(x)
        assert not natives(compiled)
    compiled(x)
    assert natives(compiled)


def test_a_state_of_the_generator_advances_once():
    dropout = tdt.compile(lambda x: F.dropout(x * 2, 0.5) + 1)
    x, found = tdt.ones(40), []
    for function in (dropout, lambda x: F.dropout(x * 2, 0.5) + 1):
        tdt.manual_seed(4)
        found.append([*[function(x).numpy().tobytes() for _ in range(6)], tdt.rand(3).numpy().tobytes()])
    assert found[0] == found[1]
    assert len(natives(dropout)) == 1


def drops(count: int):
    """A compiled function that drops numbers of `count` natively, and the same without."""
    eager = lambda x: F.dropout(x * 2, 0.5) + 1  # noqa: E731
    compiled = tdt.compile(eager)
    for _ in range(4):
        compiled(tdt.ones(count))
    (program,) = natives(compiled)
    assert all(isinstance(step, native._Launched) for step in program.steps)
    return compiled, eager


def test_threads_that_draw_at_once_get_different_numbers():
    """A generator's state depends on how many numbers were drawn, whoever drew them."""
    compiled, eager = drops(300)
    compute = [
        lambda: compiled(tdt.ones(300)),
        lambda: tdt.rand(7),
        lambda: eager(tdt.ones(300)),
        lambda: tdt.rand(900),
    ]
    tdt.manual_seed(5)
    threads = [threading.Thread(target=lambda f=f: [f() for _ in range(200)]) for f in compute]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    state = tdt.get_rng_state()
    tdt.manual_seed(5)
    for function in compute:
        for _ in range(200):
            function()
    assert tdt.equal(tdt.get_rng_state(), state)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_child_draws_from_its_own_generator():
    compiled, eager = drops(300)
    tdt.manual_seed(6)
    child = os.fork()
    if not child:
        found = [compiled(tdt.ones(300)).numpy().tobytes() for _ in range(3)]
        tdt.manual_seed(6)
        os._exit(found != [eager(tdt.ones(300)).numpy().tobytes() for _ in range(3)])
    assert os.waitpid(child, 0)[1] == 0
    assert tdt.equal(compiled(tdt.ones(300)), (tdt.manual_seed(6), eager(tdt.ones(300)))[1])


OWN = tdt.Generator()


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_random_numbers_of_a_generator_of_the_users_own():
    function = lambda x: x + tdt.rand(x.shape, generator=OWN)  # noqa: E731
    compiled, x = tdt.compile(function), tdt.ones(600)
    OWN.manual_seed(7)
    found = [compiled(x).numpy().tobytes() for _ in range(8)]
    OWN.manual_seed(7)
    assert found == [function(x).numpy().tobytes() for _ in range(8)]
    for _ in range(2):
        OWN.set_state(tdt.Generator().manual_seed(8).get_state())
        assert tdt.equal(compiled(x), x + tdt.rand(600, generator=tdt.Generator().manual_seed(8)))


@pytest.mark.parametrize("dtype", [tdt.float32, tdt.float64])
def test_values_of_the_trials_do_not_stay(dtype):
    weight = nn.Parameter(tdt.arange(6, dtype=dtype).reshape(2, 3))
    bits = weight.detach().numpy().tobytes()
    function = tdt.compile(lambda x: (x @ weight).relu().sum())
    for _ in range(4):
        function(tdt.ones(4, 2, dtype=dtype)).backward()
    assert len(natives(function)) == 2
    assert weight.detach().numpy().tobytes() == bits
    assert np.array_equal(weight.grad.numpy(), np.full((2, 3), 16))


@pytest.mark.parametrize("function", [lambda x: x.sum(-1), lambda x: x + 0, lambda x: x.reshape(-1), lambda x: -(-x)])
@pytest.mark.parametrize("shape", [(1, 1), (64, 1)])
def test_negative_zeros_are_no_zeros(function, shape):
    """What copies all other numbers as it sums or adds them is no copy."""
    compiled = tdt.compile(lambda x: function(x * 1.0) * 1.0)
    for value in (1.0, 2.0, 3.0, 4.0, -0.0, 0.0):
        x = tdt.full(shape, value)
        assert compiled(x).numpy().tobytes() == (function(x * 1.0) * 1.0).numpy().tobytes()


def test_trials_leave_weights_as_they_are_for_other_threads(monkeypatch):
    model = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(64, 5))
    compiled, x = tdt.compile(model), tdt.randn(2, 1, 4, 4)
    before = [p.detach().numpy().tobytes() for p in model.parameters()]
    unlike, run = [], trials.Tape.run

    def watched(tape):
        unlike.extend(k for k, p in enumerate(model.parameters()) if p.detach().numpy().tobytes() != before[k])
        return run(tape)

    monkeypatch.setattr(trials.Tape, "run", watched)
    for _ in range(4):
        F.mse_loss(compiled(x), tdt.zeros(2, 5)).backward()
    assert unlike == []


def test_copies_of_bfloat16_are_left_to_python():
    """NumPy's table of a ufunc has no loops for it."""
    function = lambda x: (x * 2).transpose(0, 1).reshape(-1) * 3  # noqa: E731
    compiled = tdt.compile(function)
    for _ in range(4):
        x = tdt.randn(6, 5).bfloat16()
        assert tdt.equal(compiled(x), function(x))


WRITES = {
    "a diagonal": lambda x: (lambda y: (y.diagonal().add_(1.0), y * 1)[1])(x @ x.t()),
    "every other row": lambda x: (lambda y: (y[::2].sin_(), y + 1)[1])(x * 2),
    "columns": lambda x: (lambda y: (y[:, :3].clamp_(0), y + 1)[1])(x * 2),
    "a half": lambda x: (lambda y: (y.chunk(2, 1)[0].relu_(), y * 3)[1])(x * 2),
    "by dropout": lambda x: (lambda y: (F.dropout(y[:, :4], 0.3, inplace=True), y * 3)[1])(x * 2),
    "the base": lambda x: (lambda y: (lambda v: (y.mul_(3), v + 1)[1])(y[:, :4]))(x * 2),
    "a column": lambda x: (lambda y: (y.select(1, 3).add_(1), y * 3)[1])(x * 2),
    "parts of complex numbers": lambda x: (lambda y: (y.real.mul_(2), y.abs())[1])(tdt.fft.fft(x * 1)),
    "rows of an inverse": lambda x: (lambda y: (y[1:3].mul_(2), y + 1)[1])(tdt.linalg.inv(x @ x.t() + tdt.eye(6))),
}


@pytest.mark.filterwarnings("ignore::UserWarning")  # of what is called as it is
@pytest.mark.parametrize("name", WRITES)
def test_writes_through_views_count_for_other_views(name):
    function = WRITES[name]
    compiled = tdt.compile(function)
    for turn in range(6):
        x = tdt.randn(6, 6, generator=tdt.Generator().manual_seed(turn))
        found = []
        for call in (compiled, function):
            tdt.manual_seed(turn)
            found.append(call(x).numpy().tobytes())
        assert found[0] == found[1], turn


LAYOUTS = {
    "of an expanded mean": lambda x: (x.mean().expand(4, 3) * x.t()).t().view(-1) + 1,
    "of an expanded mean, turned": lambda x: x.mean().expand(4, 3) * x.t(),
    "with a gap": lambda x: (x * 2)[:, :2],
    "of every other row": lambda x: (x * 2)[::2].t(),
    "expanded": lambda x: (x * 2).sum(1, keepdim=True).expand(3, 4),
    "turned": lambda x: (x * 2).t(),
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_results_lie_in_memory_as_without(name):
    function = LAYOUTS[name]
    compiled = tdt.compile(function)
    for _ in range(6):
        x = tdt.randn(3, 4)
        own, expected = compiled(x), function(x)
        assert own.stride() == expected.stride() and tdt.equal(own, expected)


@pytest.mark.parametrize("form", ["turned", "channels-last", "turned and summed"])
def test_gradients_of_compiled_steps_lie_as_their_leaves(form):
    w = {
        "turned": lambda: tdt.arange(12.0).reshape(3, 4).t(),
        "channels-last": lambda: tdt.randn(2, 3, 4, 5).to(memory_format=tdt.channels_last),
        "turned and summed": lambda: tdt.randn(2, 3, 4),
    }[form]().detach().requires_grad_()  # fmt: skip

    def step():
        w.grad = None
        if form == "turned and summed":
            (w.transpose(0, -1) * w.transpose(0, -1).contiguous()).abs().sum().backward()
        else:
            w.unsqueeze(0).squeeze(0).abs().sum().backward()

    compiled = tdt.compile(step)
    for _ in range(6):
        compiled()
        assert w.grad.stride() == w.stride()


def test_a_function_that_seeds_is_called_as_it_is():
    def seeded(x):
        tdt.manual_seed(3)
        return x * 2

    compiled = tdt.compile(seeded)
    with pytest.warns(UserWarning, match="it seeds the generator of random numbers"):
        compiled(tdt.ones(2))
    for _ in range(4):
        tdt.manual_seed(8)
        compiled(tdt.ones(2))
        assert tdt.initial_seed() == 3


def test_what_a_function_reads_of_a_generator_counts():
    compiled = tdt.compile(lambda x: x * OWN.initial_seed())
    for seed in (1, 1, 1, 1, 9):
        OWN.manual_seed(seed)
        assert compiled(tdt.ones(2)).tolist() == [seed, seed]


def test_others_draw_between_the_draws_of_a_tape():
    """The generator is free while a tape computes what draws nothing."""
    compiled, _ = drops(300)
    (program,) = natives(compiled)
    assert [step.draws is not None for step in program.steps].count(True) == 1
    assert len(program.steps) == 2


@pytest.mark.parametrize("dtype", [tdt.float32, tdt.bfloat16])
@pytest.mark.parametrize("name", ["cross_entropy", "cosine_similarity"])
def test_numbers_of_ops_that_save_more_than_their_result(name, dtype):
    if name == "cross_entropy":
        function, shape = F.cross_entropy, (3, 4)
    else:
        function, shape = (lambda x, y: tdt.dot(x, y) + F.cosine_similarity(x, y, 0)), (4,)
    compiled, y = tdt.compile(function), tdt.rand(shape).to(dtype)
    for _ in range(6):
        x, found = tdt.randn(shape).to(dtype).requires_grad_(), []
        for call in (compiled, function):
            x.grad = None
            out = call(x, y)
            out.backward()
            found.append((out.item(), x.grad.tolist()))
        assert found[0] == found[1]


VIEWS = {
    "with gaps": lambda: tdt.randn(4, 3, 9, 12)[..., 2:11],
    "every other": lambda: tdt.randn(4, 3, 9, 18)[..., ::2],
    "expanded": lambda: tdt.randn(1, 3, 1, 9).expand(4, 3, 9, 9),
    "overlapping": lambda: tdt.randn(60).as_strided((4, 3, 9, 9), (1, 2, 3, 2)),
}
OF_VIEWS = {
    "mean": lambda x: x.mean(),
    "sum": lambda x: x.sum((2, 3)),
    "norm": lambda x: x.norm(),
    "logsumexp": lambda x: x.logsumexp(-1),
    "std": lambda x: x.std(),
    "pool": lambda x: F.adaptive_avg_pool2d(x, 1),
    "prod": lambda x: x.prod(),
    "flip": lambda x: x.flip(0),
}


@pytest.mark.parametrize("name", OF_VIEWS)
@pytest.mark.parametrize("view", VIEWS)
def test_arguments_that_are_views_have_the_bits_and_strides_of_eager(view, name):
    function = OF_VIEWS[name]
    compiled = tdt.compile(function, fullgraph=True)
    for seed in range(12):
        tdt.manual_seed(seed)
        x = VIEWS[view]()
        eager, own = function(x), compiled(x)
        assert own.stride() == eager.stride()
        assert own.numpy().tobytes() == eager.numpy().tobytes()


def test_a_small_view_of_a_large_tensor_has_no_copy_of_it():
    large = tdt.zeros(native.MOST_BYTES // 4 + 64, 2)
    compiled = tdt.compile(lambda x: x * 2 + 1, fullgraph=True)
    for _ in range(4):
        assert compiled(large[:: len(large) - 1, 0]).tolist() == [1.0, 1.0]
    assert natives(compiled) == []


@pytest.mark.parametrize(
    "share", [lambda t: t, lambda t: t.detach(), lambda t: t[:2], lambda t: tdt.from_numpy(t.numpy())]
)
def test_arguments_that_share_memory_with_what_is_written_have_its_new_values(share):
    norm = nn.BatchNorm1d(3)

    def function(x, v):
        norm(x)
        return v * 2

    compiled = tdt.compile(function, fullgraph=True)
    shape = share(norm.running_mean).shape
    for step in range(12):
        v = tdt.ones(shape) if step < 8 else share(norm.running_mean)
        own = compiled(tdt.randn(4, 3), v)
        assert own.tolist() == (v * 2).tolist()
    assert len(natives(compiled)) == 1
