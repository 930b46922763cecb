"""`tdt.compile`: the same bits as without it, for models and settings drawn by a generator; what is refused; what guards see."""

from __future__ import annotations

import copy
import pickle
import random
import warnings
from collections import deque, namedtuple

import numpy as np
import pytest

import tdt
from tdt import nn
from tdt._compiled.function import Compiled, Difference
from tdt.nn import functional as F

CLASSES = 5


def bits(tensors) -> list[bytes]:
    return [t.detach().numpy().tobytes() for t in tensors]


def recordings(compiled) -> list:
    """The recordings of a compiled function or module that replay."""
    compiled = getattr(compiled, "_compiled", compiled)
    found = [each.recording for each_kind in compiled.recordings.values() for each in each_kind]
    return [r for r in found if r is not None and r.verified]


class Recurrent(nn.Module):
    def __init__(self, kind: str, width: int):
        super().__init__()
        self.embedding = nn.Embedding(11, width)
        self.layers = getattr(nn, kind)(width, width, batch_first=True)
        self.out = nn.Linear(width, CLASSES)

    def forward(self, x):
        return self.out(self.layers(self.embedding(x))[0][:, -1])


class Attention(nn.Module):
    """A block of a GPT with tied weights, written by hand."""

    def __init__(self, width: int, dropout: float):
        super().__init__()
        self.embedding, self.position = nn.Embedding(11, width), nn.Embedding(6, width)
        self.norm, self.heads = nn.LayerNorm(width), nn.Linear(width, 3 * width)
        self.dropout, self.out = nn.Dropout(dropout), nn.Linear(width, 11, bias=False)
        self.out.weight = self.embedding.weight

    def forward(self, x):
        x = self.embedding(x) + self.position(tdt.arange(x.shape[1]))
        n, t, d = x.shape
        q, k, v = (z.view(n, t, 2, d // 2).transpose(1, 2) for z in self.heads(self.norm(x)).split(d, 2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(n, t, d)
        x = x + self.dropout(y)
        return self.out(x * 0.5 * (1.0 + (x * 0.8).tanh()))[:, -1]


def any_model(draw: random.Random) -> tuple:
    """A model of random layers, and a function that draws inputs for it."""
    width, kind = draw.choice((4, 8, 12)), draw.choice(("mlp", "mlp", "cnn", "cnn", "LSTM", "GRU", "RNN", "gpt"))
    acts = (nn.ReLU(), nn.ReLU(inplace=True), nn.GELU(), nn.SiLU(), nn.Tanh(), nn.ELU(), nn.Softplus())
    act, second = draw.choice(acts), draw.choice(acts)
    drop = draw.choice((nn.Identity(), nn.Dropout(0.3), nn.AlphaDropout(0.2)))
    if kind == "mlp":
        norm = draw.choice((nn.Identity(), nn.LayerNorm(width), nn.BatchNorm1d(width), nn.RMSNorm(width)))
        layers = (nn.Linear(7, width), norm, act, drop, nn.Linear(width, width), second, nn.Linear(width, CLASSES))
        return nn.Sequential(*layers), lambda n: tdt.randn(n, 7)
    if kind == "cnn":
        norm = draw.choice((nn.Identity(), nn.BatchNorm2d(width), nn.GroupNorm(2, width), nn.InstanceNorm2d(width)))
        pool = draw.choice((nn.MaxPool2d(2), nn.AvgPool2d(2), nn.AdaptiveAvgPool2d(3)))
        first = nn.Conv2d(2, width, 3, stride=draw.choice((1, 2)), padding=1)
        layers = (first, norm, act, pool, nn.Dropout2d(0.2), nn.Flatten(), nn.LazyLinear(CLASSES))
        return nn.Sequential(*layers), lambda n: tdt.randn(n, 2, 8, 8)
    inputs = lambda n: tdt.randint(0, 11, (n, 6))  # noqa: E731
    return (Attention(width, 0.1) if kind == "gpt" else Recurrent(kind, width)), inputs


def trained(seed: int, compiled: bool) -> tuple[list[bytes], list]:
    """Bits of the losses, weights, buffers and the generator after some steps and evaluations."""
    draw = random.Random(seed)
    tdt.manual_seed(seed)
    model, inputs = any_model(draw)
    model(inputs(4))
    smoothing, clip = draw.choice((0.0, 0.1)), draw.choice((None, 0.5))
    kind = draw.choice((tdt.optim.SGD, tdt.optim.Adam, tdt.optim.AdamW, tdt.optim.RMSprop))
    optimizer, sizes = kind(model.parameters(), lr=0.02), draw.choice(((4, 4), (4, 3)))

    def loss_of(x, y):
        output = model(x)
        return F.cross_entropy(output, y, label_smoothing=smoothing), output

    function = tdt.compile(loss_of) if compiled else loss_of
    found = []
    for step in range(10):
        model.train(step not in (4, 5))
        x, y = inputs(sizes[step % 2]), tdt.randint(0, CLASSES, (sizes[step % 2],))
        optimizer.zero_grad()
        loss, output = function(x, y)
        loss.backward()
        if clip:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
        found += [loss, output]
    with tdt.no_grad():
        for _ in range(3):
            found += function(inputs(4), tdt.zeros(4, dtype=tdt.int64))
    values = bits([*found, *model.parameters(), *model.buffers(), tdt.rand(2)])
    return values, recordings(function) if compiled else []


@pytest.mark.parametrize("seed", range(24))
def test_training_has_the_same_bits_compiled(seed):
    own, (expected, _) = trained(seed, True), trained(seed, False)
    assert own[0] == expected
    assert len(own[1]) >= 2


def test_fifty_steps_have_the_same_bits():
    found = []
    for compiled in (False, True):
        tdt.manual_seed(3)
        model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Dropout(0.2), nn.Linear(8, CLASSES))
        optimizer = tdt.optim.Adam(model.parameters(), lr=0.01)
        call = tdt.compile(model) if compiled else model
        losses = []
        for _ in range(50):
            optimizer.zero_grad()
            losses.append(F.cross_entropy(call(tdt.randn(4, 6)), tdt.randint(0, CLASSES, (4,))))
            losses[-1].backward()
            optimizer.step()
        found.append(bits([*losses, *model.parameters()]))
    assert found[0] == found[1]
    assert len(recordings(call)) == 1


W = tdt.randn(6, 6, generator=tdt.Generator().manual_seed(0)).requires_grad_()


def under_autocast(x):
    with tdt.autocast("cpu"):
        return (x @ W).float().sum(-1)


def in_place(x):
    y = (x * 0.1).add_(1)
    return y.relu_() * W


FUNCTIONS = {
    "autocast": under_autocast,
    "in place": in_place,
    "no_grad": lambda x: x - x.detach().mean(),
    "boolean index": lambda x: x[x > 0].sum(),
    "index": lambda x: W[x.argmax(1)],
    "topk": lambda x: x.topk(2)[0] * 2,
    "cumprod": lambda x: (x @ W).cumprod(1),
    "one_hot": lambda x: F.one_hot(x.argmax(1), 6).float() @ W,
    "repeats": lambda x: x.repeat_interleave((x.sum(1) > 0).long(), 0),
    "multinomial": lambda x: tdt.multinomial(x.softmax(1), 2),
    "rand": lambda x: x * tdt.rand(6, 6) + tdt.randn_like(x),
    "rrelu": lambda x: F.rrelu(x, training=True),
    "std": lambda x: (x.std(0), x.var(1), x.norm()),
    "einsum": lambda x: tdt.einsum("ij,jk->ik", x, W),
    "det": lambda x: tdt.linalg.det(x),
    "fft": lambda x: tdt.fft.rfft(x).abs(),
    "half": lambda x: (x.half() * W.half()).float() + (x.bfloat16() @ W.bfloat16()),
    "float64": lambda x: x.double() @ W.double(),
    "chunks": lambda x: sum(c * 2 for c in W.chunk(3, 1)).sum() * x,
    "scatter": lambda x: tdt.zeros(6, 6).scatter_add_(1, x.argsort(1), x),
    "losses": lambda x: F.cross_entropy(x, W.argmax(1)) + F.kl_div(x.log_softmax(1), W.softmax(1), reduction="sum"),
    "like": lambda x: tdt.zeros_like(x) + tdt.full((6,), 2.0) * tdt.ones_like(x) * x,
    "0-d": lambda x: x.sum() * W.mean() + W[0, 0],
    "complex": lambda x: (tdt.complex(x, W) * 2).abs(),
}


@pytest.mark.filterwarnings("ignore:tdt.compile")
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_have_the_same_results_and_gradients(name):
    found = []
    for compiled in (False, True):
        function = tdt.compile(FUNCTIONS[name]) if compiled else FUNCTIONS[name]
        tdt.manual_seed(3)
        results = []
        for _ in range(4):
            x = (tdt.randn(6, 6) * 2).requires_grad_()
            outs = function(x)
            outs = outs if isinstance(outs, tuple) else (outs,)
            loss = sum((t.abs().sum() for t in outs if t.requires_grad), tdt.zeros(()))
            grads = tdt.autograd.grad(loss, (x, W), allow_unused=True) if loss.requires_grad else ()
            results += bits([*outs, *[g for g in grads if g is not None]])
            results += [(t.shape, t.stride(), t.dtype, t.requires_grad) for t in outs]
        found.append((results, bits([tdt.rand(2)])))
    assert found[0] == found[1]
    assert recordings(function) or name in ("boolean index", "repeats")


# What a recording depends on: each mutation must change what the compiled function computes as it does without.


class Scaled(nn.Module):
    factor = 2.0

    def __init__(self):
        super().__init__()
        self.layer, self.scale, self.sizes = nn.Linear(3, 3), 1.5, [1, 2]
        self.register_buffer("shift", tdt.ones(3))

    def forward(self, x):
        y = self.layer(x) * self.scale + self.shift + len(self.sizes) + self.factor
        return y * 2 if self.training else F.dropout(y, 0.0)


OFFSET = 1.0


def helper(x):
    return x + OFFSET


def new_bias(model):
    model.layer.bias = nn.Parameter(tdt.full((3,), 7.0))


def new_data(model):
    model.layer.weight.data = tdt.full((3, 3), 7.0)


def other_strides(model):
    model.layer.weight.data = tdt.arange(9.0).reshape(3, 3).T


def hooked(model):
    model.layer.register_forward_hook(lambda module, args, out: out * 3)


def hooked_before(model):
    model.register_forward_pre_hook(lambda module, args: (args[0] + 1,))


MUTATIONS = {
    "eval": lambda model: model.eval(),
    "a number": lambda model: setattr(model, "scale", 2.5),
    "an equal number of another type": lambda model: setattr(model, "scale", True),
    "the sign of zero": lambda model: setattr(model, "scale", -0.0),
    "a list": lambda model: model.sizes.append(3),
    "a parameter": new_bias,
    "a parameter's data": new_data,
    "strides": other_strides,
    "a parameter's values": lambda model: model.layer.weight.data.fill_(9.0),
    "a buffer": lambda model: setattr(model, "shift", tdt.full((3,), 5.0)),
    "a buffer's values": lambda model: model.shift.fill_(4.0),
    "a layer": lambda model: setattr(model, "layer", nn.Identity()),
    "a hook": hooked,
    "a hook before": hooked_before,
    "requires_grad": lambda model: model.requires_grad_(False),
    "one requires_grad": lambda model: model.layer.bias.requires_grad_(False),
}


@pytest.mark.filterwarnings("ignore:tdt.compile")
@pytest.mark.parametrize("name", MUTATIONS)
def test_a_mutation_of_the_model_counts(name):
    tdt.manual_seed(0)
    model, x = Scaled(), tdt.randn(2, 3)
    function = tdt.compile(lambda x: model(x).sum())
    for _ in range(3):
        function(x)
    assert len(recordings(function)) == 1
    MUTATIONS[name](model)
    for _ in range(3):
        results = []
        for call in (lambda x: model(x).sum(), function):
            model.zero_grad()
            y = call(x)
            if y.requires_grad:
                y.backward()
            results.append((bits([y]), y.requires_grad, [p.grad is None or bits([p.grad]) for p in model.parameters()]))
        assert results[0] == results[1]


def test_globals_variables_and_class_attributes_count(monkeypatch):
    factor, model, x = 2.0, Scaled(), tdt.ones(3)

    def f(x):
        return helper(model(x)) * factor

    function = tdt.compile(f)
    for _ in range(3):
        function(x)
    factor = 3.0
    assert bits([function(x)]) == bits([f(x)])
    monkeypatch.setitem(globals(), "OFFSET", 10.0)
    assert bits([function(x)]) == bits([f(x)])
    monkeypatch.setattr(Scaled, "factor", 9.0)
    assert bits([function(x)]) == bits([f(x)])
    monkeypatch.setitem(globals(), "helper", lambda x: x * 0)
    assert bits([function(x)]) == bits([f(x)])


def test_the_kind_of_a_call_counts():
    function = tdt.compile(lambda x, k=1, *, flag=True: x * k + 1 if flag else x - k)
    plain = function.__wrapped__
    x = tdt.arange(6.0).reshape(2, 3)
    leaf = tdt.ones(2, 3, requires_grad=True)
    calls = [((x,), {}), ((x.T,), {}), ((x, 2), {}), ((x, 2.0), {}), ((x, True), {}), ((x.long(),), {}), ((leaf,), {}),
             ((x,), {"flag": False})]  # fmt: skip
    for _ in range(3):
        for args, kwargs in calls:
            a, b = function(*args, **kwargs), plain(*args, **kwargs)
            assert (bits([a]), a.dtype, a.stride(), a.requires_grad) == (
                bits([b]),
                b.dtype,
                b.stride(),
                b.requires_grad,
            )
    with tdt.no_grad(), warnings.catch_warnings(record=True) as messages:
        assert not function(leaf).requires_grad
    assert "recorded 8 times" in str(messages[0].message)


def test_modes_around_a_call_count():
    model, x = nn.Linear(3, 3), tdt.randn(2, 3)
    function = tdt.compile(model)
    for _ in range(3):
        function(x)
    with tdt.autocast("cpu"):
        assert function(x).dtype is tdt.bfloat16
    with tdt.inference_mode():
        assert function(x).is_inference()
    with tdt.autograd.graph.saved_tensors_hooks(lambda t: t * 2, lambda t: t):
        function(x).sum().backward()
    doubled, model.weight.grad = model.weight.grad, None
    function(x).sum().backward()
    assert tdt.equal(doubled, model.weight.grad * 2)


# Gradients.


def test_gradients_flow_through_inputs_and_each_of_several_results():
    def f(x, w):
        y = (x @ w).tanh()
        return y, {"sum": (y * y).sum(), "shape": tuple(y.shape)}

    function = tdt.compile(f)
    for which in ((1, 0), (0, 1), (1, 1)) * 2:
        found = []
        for call in (f, function):
            tdt.manual_seed(1)
            x, w = tdt.randn(2, 3, requires_grad=True), tdt.randn(3, 3, requires_grad=True)
            y, rest = call(x * 2, w)
            assert rest["shape"] == (2, 3)
            (y.sum() * which[0] if not which[1] else rest["sum"] + (y.sum() if which[0] else 0)).backward()
            found.append(bits([y, rest["sum"], x.grad, w.grad]))
        assert found[0] == found[1]
    assert len(recordings(function)) == 1


def test_large_gradients_of_parts_live_until_the_whole_is_joined():
    def f(x):
        a, b, c = x.chunk(3)
        return (a * 2).sum() + (b * c).sum()

    x = tdt.randn(3, 200, 200, requires_grad=True)
    function = tdt.compile(f, fullgraph=True)
    for _ in range(3):
        assert bits(tdt.autograd.grad(function(x), x)) == bits(tdt.autograd.grad(f(x), x))
    assert len(recordings(function)) == 1


def test_a_graph_behaves_as_an_eager_one():
    w = tdt.randn(3, requires_grad=True)
    function = tdt.compile(lambda x: (x * w).exp())
    x = tdt.randn(3, requires_grad=True)
    for _ in range(3):
        y = function(x)
    assert y.grad_fn.name() == "CompiledFunctionBackward"
    y.sum().backward(retain_graph=True)
    first = x.grad.clone()
    y.sum().backward()
    assert tdt.equal(x.grad, first * 2)
    with pytest.raises(RuntimeError, match="a second time"):
        y.sum().backward()
    with pytest.raises(RuntimeError, match="create_graph=True"):
        tdt.autograd.grad(function(x).sum(), x, create_graph=True)
    for t in (w, y := function(x)):
        if t is w:
            y = function(x)
        with tdt.no_grad():
            t.mul_(2)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            y.sum().backward()


def test_a_view_of_a_parameter_that_is_saved_is_watched():
    w = tdt.randn(3, 3, requires_grad=True)
    function = tdt.compile(lambda x: x @ w.t())
    x = tdt.randn(2, 3, requires_grad=True)
    for _ in range(3):
        y = function(x)
    with tdt.no_grad():
        w.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


# What is refused, and how.

Pair = namedtuple("Pair", "a b")
saved = []


class Twice(tdt.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return g * 2


def sets_gradients(x):
    (x * x).sum().backward()
    return x * 2


def stores(x):
    global last
    last = x * 2
    return x * 2


def appends(x, found=()):
    found = [x] if found == () else found
    found.append(x * 2)
    return found[-1] * 1


class Box:
    value = 0


def counts(x, box=Box()):  # noqa: B008
    box.value += 1
    return x * 2


queue: deque = deque()
REFUSED = {
    "item": (lambda x: x * x.sum().item(), "Tensor.item"),
    "bool": (lambda x: x if x.sum() > 0 else -x, "bool"),
    "numpy": (lambda x: x + float(x.detach().numpy().sum()), "numpy"),
    "list": (lambda x: x + sum(x.detach().tolist()), "tolist"),
    "allclose": (lambda x: x * 2 if tdt.allclose(x, x) else x, "allclose"),
    "nonzero": (lambda x: x.detach().nonzero(), "depends on values"),
    "new data": (lambda x: x + tdt.tensor(np.array([1.0, 2.0])), "created without an op"),
    "random numbers": (lambda x: x + tdt.from_numpy(x.detach().clone().numpy()), "numpy"),
    "a Function": (lambda x: Twice.apply(x), "TwiceBackward"),
    "backward beside a graph": (sets_gradients, "no backward pass has freed"),
    "in place": (lambda x: x.detach().mul_(2) * 1, "written to"),
    "side effect": (lambda x: saved.append(1) or x * 2, "changes"),
    "a global": (stores, "changes"),
    "an attribute": (counts, "changes"),
    "a queue": (lambda x: queue.append(1) or x * 2, "changes"),
    "an iterator": (lambda x, it=iter(range(100)): x * 2 + 0 * next(it), "iterator"),
    "Python's random numbers": (lambda x: x * 2 if random.random() < 2 else x, "random numbers of Python"),
    "storage": (lambda x: x * len(x.detach().untyped_storage()), "untyped_storage"),
    "view of the argument": (lambda x: x.view(2, 1), "shares memory"),
    "hook": (lambda x: (y := x * 2).register_hook(lambda g: g * 3) and y, "hooks"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_recorded_runs_as_it_is_and_is_reported_once(name):
    function, reason = REFUSED[name]
    compiled = tdt.compile(function)
    x = tdt.tensor([1.0, -3.0], requires_grad=True)
    with warnings.catch_warnings(record=True) as messages:
        warnings.simplefilter("always")
        for k in range(4):
            found = []
            for call in (compiled, function):
                leaf = x.detach().clone().requires_grad_()
                y = call(leaf)
                found.append(bits([y, leaf, *(tdt.autograd.grad(y.sum(), leaf) if y.requires_grad else ())]))
            assert found[0] == found[1]
            with tdt.no_grad():
                x += k + 1
    assert not recordings(compiled)
    texts = [str(w.message) for w in messages if "tdt.compile" in str(w.message)]
    assert texts and all(text.startswith("tdt.compile: ") for text in texts)
    assert reason in texts[0]
    with pytest.raises(RuntimeError, match="fullgraph=True"):
        tdt.compile(function, fullgraph=True)(x)


@pytest.mark.filterwarnings("ignore:tdt.compile")
def test_control_flow_without_an_op_is_found_by_the_second_call():
    calls = iter(range(10))
    compiled = tdt.compile(lambda x: x * next(calls))
    assert [compiled(tdt.ones(1)).item() for _ in range(4)] == [0.0, 1.0, 2.0, 3.0]


# Forms.


def test_decorators_modules_copies_and_options():
    @tdt.compile(mode="default")
    def f(pair, *, by):
        return Pair(pair.a + by, [pair.b, None, "text"])

    for _ in range(3):
        result = f(Pair(tdt.ones(2), tdt.zeros(2)), by=2)
    assert isinstance(result, Pair) and result.b[1:] == [None, "text"] and result.a.tolist() == [3.0, 3.0]
    assert f.__name__ == "f" and len(recordings(f)) == 1

    model = nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.5))
    compiled = tdt.compile(model)
    assert isinstance(compiled, nn.Module) and compiled._orig_mod is model
    assert list(compiled.state_dict()) == ["_orig_mod.0.weight", "_orig_mod.0.bias"]
    compiled.eval()
    assert not model.training and compiled.extra_repr() == model.extra_repr()

    model.compile()
    clone = copy.deepcopy(model)
    loaded = pickle.loads(pickle.dumps(model))
    for each in (model, clone, loaded):
        for _ in range(3):
            each(tdt.ones(1, 2))
        with tdt.no_grad():
            each[0].weight.zero_()
            assert tdt.equal(each(tdt.ones(1, 2))[0], each[0].bias)
        assert recordings(each.forward)
    assert tdt.compile(abs, disable=True) is abs is tdt.compile(abs, backend="eager")
    with pytest.raises(RuntimeError, match="Unrecognized mode=fast"):
        tdt.compile(abs, mode="fast")
    with pytest.raises(RuntimeError, match="Invalid backend"):
        tdt.compile(abs, backend="other")
    with pytest.raises(NotImplementedError, match="backend of one's own"):
        tdt.compile(abs, backend=lambda graph, inputs: graph)
    with pytest.raises(TypeError, match="expected a function or a module"):
        tdt.compile(3)


def test_a_list_that_a_call_changes_is_changed_by_every_call():
    compiled, found = tdt.compile(appends), []
    with warnings.catch_warnings(record=True) as messages:
        for k in range(5):
            found = [tdt.ones(1)]
            compiled(tdt.ones(1) * k, found)
            assert [t.item() for t in found] == [1.0, 2.0 * k]
    assert "changes its arguments" in str(messages[0].message)


def test_a_method_of_a_class_and_an_error_in_the_first_call():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer, self.scale = nn.Linear(2, 2), 1.0

        @tdt.compile
        def forward(self, x):
            if self.scale is None:
                raise KeyError("scale")
            return self.layer(x) * self.scale

    nets, x = (Net(), Net()), tdt.ones(1, 2)
    nets[0].scale = None
    with pytest.raises(KeyError, match="scale"):
        nets[0](x)
    for scale in (1.0, 2.0) * 2:
        for net in nets:
            net.scale = scale
            for _ in range(3):
                assert bits([net(x)]) == bits([net.layer(x) * scale])
    assert len(recordings(Net.forward)) >= 2


def test_arguments_that_are_one_tensor_or_share_memory():
    function = tdt.compile(lambda x, y: x * 2 + y)
    a, b = tdt.tensor([1.0]), tdt.tensor([5.0])
    for _ in range(3):
        assert function(a, a).item() == 3.0
        assert function(a, b).item() == 7.0
        assert function(b, a).item() == 11.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        other = tdt.compile(lambda x, y: x * 2 + y)
        assert [other(a, a.detach()).item(), other(a, b).item(), other(a, b).item(), other(b, a).item()] == [
            3,
            7,
            7,
            11,
        ]


# Values that ops refuse, and what the comparison with a function finds.

LOGITS, TABLE = tdt.randn(4, 3, generator=tdt.Generator().manual_seed(1)), tdt.ones(3, 2)
CLASSES_IN, CLASSES_OUT = tdt.tensor([0, 1, 2, 1]), tdt.tensor([0, 1, 5, 1])
REFUSED_VALUES = {
    "cross_entropy": (lambda y: F.cross_entropy(LOGITS, y), CLASSES_IN, CLASSES_OUT),
    "nll_loss": (lambda y: F.nll_loss(LOGITS, y), CLASSES_IN, -CLASSES_OUT),
    "embedding": (lambda y: F.embedding(y, TABLE), CLASSES_IN, CLASSES_OUT),
    "one_hot": (lambda y: F.one_hot(y, 3) * 2, CLASSES_IN, CLASSES_OUT),
    "one_hot of negative numbers": (lambda y: F.one_hot(y, 3) * 2, CLASSES_IN, -CLASSES_OUT),
    "binary_cross_entropy": (lambda y: F.binary_cross_entropy(y, y), tdt.rand(3), tdt.ones(3) * 2),
    "gather": (lambda y: LOGITS.gather(1, y[:, None]) * 2, CLASSES_IN, CLASSES_OUT),
}


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
@pytest.mark.parametrize("name", REFUSED_VALUES)
def test_errors_about_values_are_those_of_the_function(name):
    function, good, bad = REFUSED_VALUES[name]
    compiled = tdt.compile(function)
    for _ in range(3):
        compiled(good)
    assert len(recordings(compiled)) == 1
    with pytest.raises((IndexError, RuntimeError)) as expected:
        function(bad)
    with pytest.raises(expected.type) as found:
        compiled(bad)
    assert str(found.value) == str(expected.value)
    assert bits([compiled(good)]) == bits([function(good)])


def test_ignored_classes_may_come_after_the_recording():
    compiled, x = tdt.compile(F.cross_entropy), LOGITS.clone().requires_grad_()
    for y in (CLASSES_IN, CLASSES_IN, CLASSES_IN, tdt.tensor([0, -100, 2, -100]), CLASSES_IN):
        own, ours = F.cross_entropy(x, y), compiled(x, y)
        assert bits([own, *tdt.autograd.grad(own, x)]) == bits([ours, *tdt.autograd.grad(ours, x)])
    assert len(recordings(compiled)) == 1


def test_functions_that_branch_on_values_are_not_recorded():
    index = tdt.tensor([[0], [2], [1], [0]])
    for function in (lambda x: tdt.take_along_dim(x, index, 1) * 1, lambda x: tdt.normal(x, x.abs()) * 1):
        with pytest.warns(UserWarning, match="reads values"):
            tdt.compile(function)(LOGITS)


def a_step(width: int = 3) -> tuple:
    """A model with a buffer, dropout and a hook on a parameter; a compiled loss of it, and a call of both."""
    tdt.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, width), nn.BatchNorm1d(width), nn.Dropout(0.5))
    model[0].weight.register_post_accumulate_grad_hook(lambda p: None)
    compiled = tdt.compile(lambda x: model(x).square().mean())._compiled
    return model, compiled, tdt.randn(4, 3)


def test_a_comparison_advances_nothing_twice():
    found = []
    for compares in (False, True):
        model, compiled, x = a_step()
        for step in range(6):
            (compiled.compare if compares and step > 2 else compiled)(x).backward()
        found.append(bits([*model.buffers(), *[p.grad for p in model.parameters()], tdt.rand(2)]))
    assert found[0] == found[1]
    assert len(recordings(compiled)) == 1


def forward_changed(recording):
    recording.native = changed(recording.native, lambda results: ((results[0][0] * 2,), *results[1:]))


def gradient_changed(recording):
    def other(results):
        return *results[:-1], results[-1] * 0 + 7

    ((chosen, (backward, places)),) = recording.backwards.items()
    recording.backwards[chosen] = changed(backward, other), places
    recording.native_backwards[chosen] = changed(recording.native_backwards[chosen], other)


def changed(function, change):
    def run(*arrays):
        return change(function(*arrays))

    run.is_small = False  # as of a program that does not run natively
    return run


def fails(recording):
    def raising(results):
        raise ValueError("shapes")

    recording.native = changed(recording.native, raising)


BROKEN = {
    "its result (1 of 1 elements": forward_changed,
    "a gradient (3 of 3 elements; at [0]: ": gradient_changed,
    "an error, ValueError: shapes": fails,
}


@pytest.mark.parametrize("text", BROKEN)
def test_a_comparison_finds_a_recording_that_computes_something_else(text):
    model, compiled, x = a_step()
    for _ in range(3):
        compiled(x)
    BROKEN[text](recordings(compiled)[0])
    before = bits(model.buffers())
    with pytest.raises(Difference) as found:
        compiled.compare(x)
    assert str(found.value).startswith(text)
    assert found.value.tensor is (model[0].bias if "gradient" in text else None)
    assert bits(model.buffers()) != before
    compiled.compare(x)  # as it is from now on
    assert not recordings(compiled)


def test_a_comparison_leaves_the_graph_of_earlier_calls():
    """An argument's graph leads to the function's own parameters, where a block is called in a loop."""

    def gradients(compiles):
        tdt.manual_seed(1)
        block = nn.Linear(4, 4)
        function = tdt.compile(block, fullgraph=True) if compiles else block
        x = tdt.randn(2, 4, requires_grad=True)
        y = x * 2
        for _ in range(5):
            y = function(y).tanh()
        y.sum().backward()
        return bits([x.grad, *[p.grad for p in block.parameters()]])

    assert gradients(True) == gradients(False)


@pytest.mark.filterwarnings("ignore:tdt.compile")
def test_as_strided_looks_around_arguments():
    memory = tdt.arange(10.0)
    for offset, expected in ((None, [4, 6, 8, 10]), (1, [2, 4, 6, 8])):
        compiled = tdt.compile(lambda x: x.as_strided((4,), (1,), offset) * 2)  # noqa: B023
        assert [compiled(memory[2:4]).tolist() for _ in range(4)] == [expected] * 4
    compiled = tdt.compile(lambda x: (x * 2).as_strided((3,), (2,)) + 1, fullgraph=True)
    assert [compiled(memory[:6]).tolist() for _ in range(4)] == [[1, 5, 9]] * 4


def test_the_first_calls_of_a_kind_can_stay_as_they_are():
    compiled = Compiled(lambda x: x * 2, eager_calls=2)
    for count in (0, 0, 1, 1):
        compiled(tdt.ones(2))
        assert compiled.count == count
    compiled(tdt.ones(3))
    assert compiled.count == 1


def test_hooks_that_are_removed_leave_a_function_that_is_compiled():
    model, x = nn.Linear(2, 2), tdt.ones(1, 2)
    function = tdt.compile(lambda x: model(x) * 2)
    handle = model.register_full_backward_hook(lambda module, inputs, outputs: None)
    with pytest.warns(UserWarning, match="backward hooks are registered on Linear"):
        assert tdt.equal(function(x), model(x) * 2)
    handle.remove()
    for _ in range(3):
        assert tdt.equal(function(x), model(x) * 2)
    assert len(recordings(function)) == 1


def test_forward_hooks_are_recorded_with_what_they_depend_on():
    factor, model, x = 3.0, nn.Linear(2, 2), tdt.ones(1, 2)
    model.register_forward_hook(lambda module, args, out: out * factor)
    model.register_forward_pre_hook(lambda module, args: (args[0] + factor,))
    function = tdt.compile(lambda x: model(x) * 2, fullgraph=True)
    for factor in (3.0, 3.0, 3.0, 5.0, 5.0, 5.0):
        assert bits([function(x)]) == bits([model(x) * 2])
    assert len(recordings(function)) == 2


def test_a_refusal_names_the_module_that_was_running():
    class Gate(nn.Module):
        def forward(self, x):
            return x if x.sum() > 0 else -x

    model = nn.Sequential(nn.Linear(2, 2), Gate())
    function = tdt.compile(lambda x: model(x))
    with pytest.warns(UserWarning, match="test_compile.py"):
        function(tdt.ones(1, 2))
    assert list(function._compiled.refusals.values()) == [model[1]]


WRITTEN = {
    "an activation in place": lambda x: F.elu(x * 2, inplace=True),
    "a product in place": lambda x: (x * 2).mul_(x),
    "several writes": lambda x: x.clone().mul_(x).div_(2).exp_(),
    "channels last": lambda x: F.silu((x * 2).to(memory_format=tdt.channels_last), inplace=True),
}


@pytest.mark.parametrize("function", WRITTEN.values(), ids=WRITTEN)
def test_what_is_saved_before_it_is_written_to(function):
    found = []
    call = tdt.compile(lambda x: (function(x) * x).sum(), fullgraph=True)
    for run in (call._compiled.function, call):
        tdt.manual_seed(0)
        x = tdt.randn(2, 3, 4, 5, requires_grad=True)
        for _ in range(8):
            x.grad = None
            loss = run(x)
            loss.backward()
            found.append([t.detach().numpy().tobytes() for t in (loss, x.grad)])
    assert all(each == found[0] for each in found)
    assert len(recordings(call)) == 1


def fills_columns(x):
    y = tdt.zeros(4, 5)
    y[:, 1] = x[:, 0] * W[:4, 1]
    y[0] = W[0, :5]
    return y * x


def fills_a_cache(x):
    cache = tdt.empty(3, 4, 5)
    for k in range(3):
        cache[k] = x * (k + 1)
    return cache.softmax(0).prod(0)


def writes_to_views_of_views(x):
    y = x * 1
    y.diagonal().mul_(W[0, :4])
    y.view(-1)[:3].mul_(x[0, :3])
    y.t()[1:3].select(1, 2).sigmoid_()
    return y + x


def reads_a_view_after_its_base_was_written_to(x):
    y = x * 1
    row = y[1]
    y.mul_(2)
    row.add_(x[0])
    y[2] = row * 2
    return y.sin() + row


def copies_from_itself(x):
    y = x.clone()
    y[:, 1:] += y[:, :-1].clone()
    y.masked_fill_(x > 0, 0.3).narrow(0, 0, 2).zero_()
    return y


def makes_a_mask(x):
    with tdt.no_grad():
        mask = tdt.ones_like(x)
        mask[:, 0] = 0.5
        mask[0].mul_(x[1].abs())
    return x * mask


PARTS = [fills_columns, fills_a_cache, writes_to_views_of_views, reads_a_view_after_its_base_was_written_to,
         copies_from_itself, makes_a_mask]  # fmt: skip


@pytest.mark.parametrize("function", PARTS)
def test_writes_to_parts_of_tensors(function):
    found = []
    call = tdt.compile(lambda x: (function(x) * x).sum(), fullgraph=True)
    for run in (call._compiled.function, call):
        tdt.manual_seed(0)
        results = []
        for _ in range(12):
            x = tdt.randn(4, 5, requires_grad=True)
            W.grad = None
            loss = run(x)
            loss.backward()
            results += [t.detach().numpy().tobytes() for t in (loss, x.grad, W.grad) if t is not None]
        found.append(results)
    assert found[0] == found[1]
    assert len(recordings(call)) == 1
