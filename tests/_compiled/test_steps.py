"""Whole training steps as compiled functions: zero_grad, backward, clipping and the optimizer's step have the bits of eager."""

from __future__ import annotations

import copy
import gc
import warnings
import weakref

import numpy as np
import pytest

import tdt
from tdt import nn
from tdt._compiled.guards import Guards
from tdt._compiled.recording import Recording
from tdt.nn import functional as F
from tdt.optim._plan import Plan

OPTIMIZERS = {
    "SGD": lambda p: tdt.optim.SGD(p, lr=0.1),
    "momentum": lambda p: tdt.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True, weight_decay=1e-3),
    "Adam": lambda p: tdt.optim.Adam(p, lr=0.01, weight_decay=0.01),
    "AMSGrad": lambda p: tdt.optim.Adam(p, lr=0.01, amsgrad=True),
    "AdamW": lambda p: tdt.optim.AdamW(p, lr=0.01),
    "NAdam": lambda p: tdt.optim.NAdam(p, lr=0.01),
    "RAdam": lambda p: tdt.optim.RAdam(p, lr=0.01),
    "Adamax": lambda p: tdt.optim.Adamax(p, lr=0.01),
    "Adagrad": lambda p: tdt.optim.Adagrad(p, lr=0.05),
    "Adadelta": lambda p: tdt.optim.Adadelta(p),
    "RMSprop": lambda p: tdt.optim.RMSprop(p, lr=0.01, momentum=0.5, centered=True),
    "Rprop": lambda p: tdt.optim.Rprop(p),
    "ASGD": lambda p: tdt.optim.ASGD(p),
}
MODELS = {
    "MLP": lambda: nn.Sequential(nn.Linear(12, 20), nn.GELU(), nn.Linear(20, 5)),
    "batch norm and dropout": lambda: nn.Sequential(
        nn.Linear(12, 20), nn.BatchNorm1d(20), nn.ReLU(), nn.Dropout(0.3), nn.Linear(20, 5)
    ),
    "convolution": lambda: nn.Sequential(
        nn.Unflatten(1, (1, 3, 4)),
        nn.Conv2d(1, 4, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.LazyLinear(5),
    ),
    "one parameter twice": lambda: nn.Sequential(layer := nn.Linear(12, 12), nn.Tanh(), layer, nn.Linear(12, 5)),
}


class Training:
    """A model with its optimizer and a step, eager or compiled."""

    def __init__(self, model="MLP", optimizer="Adam", compiled=False, clears="before", clip=None, value=None):
        tdt.manual_seed(3)
        self.model = MODELS[model]()
        self.model(tdt.zeros(2, 12))
        self.optimizer = OPTIMIZERS[optimizer](self.model.parameters())
        model, optimizer = self.model, self.optimizer

        def step(x, y):
            if clears == "before":
                optimizer.zero_grad()
            output = model(x)
            loss = F.cross_entropy(output, y)
            loss.backward()
            if value is not None:
                nn.utils.clip_grad_value_(model.parameters(), value)
            norm = None if clip is None else nn.utils.clip_grad_norm_(model.parameters(), clip)
            optimizer.step()
            if clears == "after":
                optimizer.zero_grad()
            return output.detach(), loss, norm

        self.step = tdt.compile(step, fullgraph=True) if compiled else step
        tdt.manual_seed(4)
        self.random = tdt.default_generator.get_state()
        self.results = []

    def run(self, batches):
        before = tdt.default_generator.get_state()
        tdt.default_generator.set_state(self.random)
        for x, y in batches:
            self.results.append(self.step(x, y))
        self.random = tdt.default_generator.get_state()
        tdt.default_generator.set_state(before)
        return self

    def bits(self):
        """All that steps compute and change."""
        tensors = [t for result in self.results for t in result if t is not None]
        tensors += [*self.model.state_dict().values(), self.random]
        states = self.optimizer.state_dict()["state"]
        tensors += [value for own in states.values() for value in own.values() if isinstance(value, tdt.Tensor)]
        grads = [p.grad for p in self.model.parameters()]
        return [t.detach().numpy().tobytes() for t in tensors], [g if g is None else g.numpy().tobytes() for g in grads]

    @property
    def recordings(self):
        return [each.recording for of_kind in self.step._compiled.recordings.values() for each in of_kind]


def batches(count, size=8, seed=0):
    draw = np.random.default_rng(seed)
    return [
        (tdt.from_numpy(draw.standard_normal((size, 12)).astype(np.float32)), tdt.from_numpy(draw.integers(0, 5, size)))
        for _ in range(count)
    ]


def pair(**options):
    return Training(**options), Training(compiled=True, **options)


def agree(own, compiled):
    assert own.bits() == compiled.bits()
    return all(recording is not None and recording.verified for recording in compiled.recordings)


@pytest.mark.parametrize("clears", ["before", "after"])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_steps_of_each_optimizer_have_the_bits_of_eager(optimizer, clears):
    own, compiled = pair(optimizer=optimizer, clears=clears)
    for group in (batches(7), batches(18, seed=1)):  # from the 20th step on by the optimizer's kernel in eager
        assert agree(own.run(group), compiled.run(group))


@pytest.mark.parametrize("clipping", [{}, {"clip": 0.1}, {"value": 0.01}, {"clip": 0.1, "value": 0.05}], ids=str)
@pytest.mark.parametrize("model", MODELS)
def test_steps_of_models_with_clipping_have_the_bits_of_eager(model, clipping):
    own, compiled = pair(model=model, **clipping)
    group = [*batches(4), *batches(2, size=3), *batches(3, seed=2)]
    assert agree(own.run(group), compiled.run(group))


def test_a_step_of_a_small_model_is_one_tape():
    compiled = Training(compiled=True).run(batches(4))
    if tdt.backends.kernels.enabled():
        (step,) = compiled.recordings[0].native.steps
        assert len(step.tape.launches) > 5 and len(step.updates) == 1
    assert compiled.recordings[0].updates[0].params == list(compiled.model.parameters())


def test_steps_are_those_of_pytorch():
    torch = pytest.importorskip("torch")
    compiled = Training(optimizer="momentum", compiled=True)
    model = torch.nn.Sequential(torch.nn.Linear(12, 20), torch.nn.GELU(), torch.nn.Linear(20, 5))
    model.load_state_dict({name: torch.from_numpy(t.numpy().copy()) for name, t in compiled.model.state_dict().items()})
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, nesterov=True, weight_decay=1e-3)
    group = batches(25)
    compiled.run(group)
    for (x, y), (_, own, _) in zip(group, compiled.results, strict=True):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(torch.from_numpy(x.numpy())), torch.from_numpy(y.numpy()))
        loss.backward()
        optimizer.step()
        assert own.item() == pytest.approx(loss.item(), rel=2e-5)
    for p, own in zip(model.parameters(), compiled.model.parameters(), strict=True):
        np.testing.assert_allclose(own.detach().numpy(), p.detach().numpy(), rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(own.grad.numpy(), p.grad.numpy(), rtol=1e-4, atol=1e-6)


def changes_rate(training):
    training.optimizer.param_groups[0]["lr"] *= 0.5


def changes_betas(training):
    training.optimizer.param_groups[0]["betas"] = (0.8, 0.99)


def takes_a_rate_of_numpy(training):
    training.optimizer.param_groups[0]["lr"] = np.float64(0.02)


def loads_state(training):
    training.optimizer.load_state_dict(copy.deepcopy(training.optimizer.state_dict()))


def loads_state_and_changes_rate(training):
    loads_state(training)
    changes_rate(training)


def loads_weights(training):
    training.model.load_state_dict({name: t * 2 for name, t in training.model.state_dict().items()})


def replaces_weights(training):
    for p in training.model.parameters():
        p.data = p.data * 0.5


def freezes(training):
    training.model[0].weight.requires_grad_(False)


def sets_count(training):
    for own in training.optimizer.state.values():
        own["step"].fill_(100.0)


def sets_one_count(training):
    training.optimizer.state[training.model[0].bias]["step"].fill_(100.0)


def clears_state(training):
    training.optimizer.state.clear()


def adds_decay(training):
    training.optimizer.param_groups[0]["weight_decay"] = 0.5


def maximizes(training):
    training.optimizer.param_groups[0]["maximize"] = True


def takes_a_step(training):
    training.optimizer.step()


def evaluates(training):
    training.model.eval()


def adds_parameters(training):
    training.optimizer.add_param_group({"params": [nn.Parameter(tdt.ones(3))], "lr": 1.0})


def hooks_a_gradient(training):
    training.model[0].bias.register_hook(lambda g: g * 2)


def hooks_steps(training):
    training.optimizer.register_step_post_hook(lambda optimizer, args, kwargs: changes_rate(training))


def multiplies_after_accumulation(training):
    training.model[0].bias.register_post_accumulate_grad_hook(lambda p: p.grad.mul_(3))


@pytest.mark.parametrize("keeps", [False, True])
def test_a_backward_pass_that_cannot_be_recorded_to_its_end_has_the_gradients_of_the_engine(keeps):
    def step(x, w, b, factor):
        x.grad = w.grad = b.grad = None
        y = (x @ w).tanh()
        y.register_hook(lambda g: g * factor)  # reached after `b` and the branch to `x`
        loss = ((y + b) * x).square().sum()
        loss.backward(retain_graph=keeps)
        if keeps:
            loss.backward()
        return loss

    found = []
    for run in (step, tdt.compile(step)):
        tdt.manual_seed(0)
        tensors = [tdt.randn(shape, requires_grad=True) for shape in ((5, 4), (4, 4), (4,))]
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            run(*tensors, 3)
        assert ("has hooks" in "".join(str(each.message) for each in caught)) == (run is not step)
        found.append([t.grad.numpy().tobytes() for t in tensors])
    assert found[0] == found[1]


CHANGES = [
    changes_rate, changes_betas, takes_a_rate_of_numpy, loads_state, loads_state_and_changes_rate,
    loads_weights, replaces_weights, freezes, sets_count, sets_one_count, clears_state, adds_decay,
    maximizes, takes_a_step, evaluates, adds_parameters, hooks_a_gradient, hooks_steps, multiplies_after_accumulation,
]  # fmt: skip


@pytest.mark.parametrize("option, on", [("centered", True), ("momentum", 0.5)])
def test_an_option_that_calls_for_another_state_counts(option, on):
    own, compiled = pair(optimizer="RMSprop")
    for training in (own, compiled):
        for value in (0, on, 0):
            training.optimizer.param_groups[0][option] = value
            training.run(batches(4))
    assert agree(own, compiled)


def decays(training):
    for group in training.optimizer.param_groups:
        group["lr"] *= 0.9


def reads_rate(training):
    return training.optimizer.param_groups[0]["lr"]


@pytest.mark.parametrize("use", [decays, reads_rate])
def test_options_that_the_function_itself_uses(use):
    own, compiled = pair()

    def run(training, compiles):
        def step(x, y):
            rate = use(training)
            found = training_step(x, y)
            return *found, rate

        training_step = training.step
        step = tdt.compile(step) if compiles else step
        results = []
        for k, (x, y) in enumerate(batches(6)):
            *tensors, rate = step(x, y)
            results.append((*[None if t is None else t.detach().numpy().tobytes() for t in tensors], rate))
            if k >= 3:
                changes_rate(training)
        return results, training.bits()

    compiled.step = compiled.step._compiled.function
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert run(own, False) == run(compiled, True)


@pytest.mark.skipif(
    not tdt.backends.kernels.enabled(), reason="what is compared natively belongs to programs that run so"
)
def test_nothing_of_a_repeated_step_is_compared_in_python(monkeypatch):
    own, compiled = pair()
    for training in (own, compiled):
        training.run(batches(5))
    compared = [Guards, "hold"], [Recording, "takes"], [Plan, "holds"]
    for owner, name in compared:
        monkeypatch.setattr(owner, name, lambda *args: 1 / 0)
    with monkeypatch.context() as unchanged:
        unchanged.setattr(Plan, "reads", lambda *args: 1 / 0)
        compiled.run(batches(5, seed=1))
    changes_rate(compiled)  # which the step reads anew
    compiled.run(batches(5, seed=2))
    monkeypatch.undo()
    own.run(batches(5, seed=1))
    changes_rate(own)
    own.run(batches(5, seed=2))
    assert own.bits() == compiled.bits()


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_between_steps_counts(change):
    own, compiled = pair(model="batch norm and dropout")
    compiled.step = tdt.compile(compiled.step._compiled.function)  # some steps are then taken as they are
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for training in (own, compiled):
            training.run(batches(5))
            change(training)
            training.run(batches(6, seed=1))
    assert own.bits() == compiled.bits()


def test_a_coefficient_that_is_replaced_in_a_list_counts():
    own, compiled = pair()
    for training in (own, compiled):
        training.optimizer.param_groups[0]["betas"] = [0.9, 0.999]
        training.run(batches(8))
        training.optimizer.param_groups[0]["betas"][0] = 0.5
        training.run(batches(6, seed=1))
    assert own.bits() == compiled.bits()


def test_gradients_that_are_set_between_steps_count():
    own, compiled = pair(clears="after")
    compiled.step = tdt.compile(compiled.step._compiled.function)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for training in (own, compiled):
            training.run(batches(5))
            training.model[0].bias.grad = tdt.ones(20)
            training.run(batches(1, seed=1))
            training.model[0].bias.grad = tdt.ones(20)
            training.run(batches(4, seed=2))
    assert own.bits() == compiled.bits()


@pytest.mark.parametrize("change", ["tensor", "data", "none"])
def test_a_gradient_that_the_function_itself_holds_is_replaced_between_steps(change):
    def run(compiles):
        p, own = nn.Parameter(tdt.ones(3)), tdt.ones(3)
        optimizer = tdt.optim.SGD([p], lr=0.1)

        def step():
            own.mul_(1.5)
            optimizer.step()
            return (p * 2).detach() + 0

        step, found = tdt.compile(step) if compiles else step, []
        p.grad = own
        for k in range(12):
            if k == 7:
                new = {"tensor": tdt.full((3,), 5.0), "data": own, "none": None}[change]
                if change == "data":
                    p.grad.data = tdt.full((3,), 7.0)
                else:
                    p.grad = new
            found.append(step().numpy().tobytes())
        return found, step

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        (eager, _), (compiled, step) = run(False), run(True)
    assert compiled == eager
    assert any(each.recording is not None for each in sum(step._compiled.recordings.values(), []))


def test_a_scheduler_and_a_warm_restart():
    own, compiled = pair(optimizer="momentum")
    for training in (own, compiled):
        schedule = tdt.optim.lr_scheduler.CosineAnnealingWarmRestarts(training.optimizer, 3)
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # as that the scheduler was called before the optimizer
            for batch in batches(9):
                training.run([batch])
                schedule.step()
    assert agree(own, compiled)


def test_several_optimizers_as_of_adversarial_training():
    def train(compiles):
        tdt.manual_seed(0)
        maker, critic = nn.Linear(4, 6), nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 1))
        makers, critics = tdt.optim.Adam(maker.parameters(), 0.01), tdt.optim.RMSprop(critic.parameters(), 0.01)

        def step(x, noise):
            critics.zero_grad()
            output = maker(noise)
            loss = (critic(output.detach()) - critic(x)).mean()
            loss.backward()
            critics.step()
            makers.zero_grad()
            own = -critic(output).mean()
            own.backward()
            makers.step()
            return loss.detach(), own.detach()

        step = tdt.compile(step, fullgraph=True) if compiles else step
        draw = np.random.default_rng(0)
        results = []
        for _ in range(8):
            x, noise = (tdt.from_numpy(draw.standard_normal((5, n)).astype(np.float32)) for n in (6, 4))
            results += step(x, noise)
        return [t.detach().numpy().tobytes() for t in (*results, *maker.parameters(), *critic.parameters())], [
            p.grad.numpy().tobytes() for p in (*maker.parameters(), *critic.parameters())
        ]

    assert train(True) == train(False)


def test_two_steps_of_one_optimizer_in_a_function():
    def train(compiles):
        w = nn.Parameter(tdt.tensor([1.0, -2.0, 3.0]))
        optimizer = tdt.optim.Adam([w], 0.1)

        def twice(x):
            for _ in range(2):
                optimizer.zero_grad()
                (w * x).pow(2).sum().backward()
                optimizer.step()
            return w.detach() * 1

        twice = tdt.compile(twice, fullgraph=True) if compiles else twice
        results = [twice(tdt.tensor([1.0, 2.0, k + 1.0])) for k in range(6)]
        return [t.numpy().tobytes() for t in results], optimizer.state[w]["step"].item()

    assert train(True) == train(False)


def test_a_sum_of_two_backward_passes_and_a_gradient_that_both_leaves_share():
    def train(compiles):
        a, b = (nn.Parameter(tdt.tensor([1.0, 2.0])) for _ in range(2))

        def step(x):
            a.grad = b.grad = None
            ((a + b) * x).sum().backward()
            a.grad.mul_(3)
            (a * b).sum().backward()
            return a.grad.sum() + b.grad.sum() * 2

        step = tdt.compile(step, fullgraph=True) if compiles else step
        results = [step(tdt.tensor([k + 1.0, -2.0])) for k in range(5)]
        return [t.detach().numpy().tobytes() for t in (*results, a.grad, b.grad)]

    assert train(True) == train(False)


def test_a_sum_of_two_backward_passes_lies_as_the_parameter():
    def train(compiles):
        tdt.manual_seed(0)
        w = nn.Parameter(tdt.randn(20, 5).t())
        optimizer, strides = tdt.optim.SGD([w], lr=0.1), []

        def step(x, y):
            optimizer.zero_grad()
            for part in (x, x * 2):
                F.cross_entropy(F.linear(part, w), y).backward()
            optimizer.step()

        step = tdt.compile(step, fullgraph=True) if compiles else step
        for _ in range(5):
            step(tdt.randn(8, 20), tdt.randint(0, 5, (8,)))
            strides.append(w.grad.stride())
        return strides, w.tolist()

    assert train(True) == train(False)


def test_gradients_that_the_user_holds_stay_as_they_were():
    training = Training(compiled=True)
    saved = []
    for batch in batches(7):
        training.run([batch])
        grads = [p.grad for p in training.model.parameters()]
        saved.append((grads, [g.numpy().copy() for g in grads]))
        arrays = [g.numpy() for g in grads]
        saved.append((arrays, [a.copy() for a in arrays]))
    gc.collect()
    for held, copies in saved:
        for a, copied in zip(held, copies, strict=True):
            assert np.asarray(a).tobytes() == copied.tobytes()


def test_tensors_of_the_first_call_are_freed():
    training = Training(compiled=True)
    ((x, y),) = batches(1)
    references = [weakref.ref(x), weakref.ref(y), *map(weakref.ref, training.step(x, y)[:2])]
    del x, y
    gc.collect()
    assert [each() for each in references] == [None] * 4
    training.run(batches(3))
    assert training.recordings[0].verified


@pytest.mark.parametrize("fails", [False, True])
def test_arrays_of_a_recorded_call_do_not_wait_for_the_garbage_collector(fails):
    references = []

    @tdt.compile
    def function(x):
        y = x.exp()
        references.append(weakref.ref(y._a))
        if fails:
            y.sum().item()
        return y * 2

    gc.disable()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            function(tdt.ones(3, requires_grad=True))
        assert references[0]() is None
    finally:
        gc.enable()


def test_the_graph_of_a_result_is_freed():
    training = Training(compiled=True).run(batches(5))
    loss = training.results[-1][1]
    assert loss.requires_grad and not loss.is_leaf
    with pytest.raises(RuntimeError, match="second time"):
        loss.backward()


def test_versions_and_saved_values_of_parameters():
    training = Training(compiled=True).run(batches(3))
    weight = training.model[0].weight
    y, version = (weight * weight).sum(), weight._version
    training.run(batches(1, seed=1))
    assert weight._version == version + 1
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()


def test_a_class_out_of_range_leaves_everything_as_it_was():
    own, compiled = pair()
    ((x, y),) = batches(1, seed=5)
    y[3] = 7
    for training in (own, compiled):
        training.run(batches(5))
        with pytest.raises(IndexError, match="7"):
            training.step(x, y)
        training.run(batches(3, seed=1))
    assert agree(own, compiled)


def refused(name, step_of):
    w = nn.Parameter(tdt.tensor([1.0, 2.0]))
    step = step_of(w)
    compiled = tdt.compile(step, fullgraph=True)

    def calls():
        for _ in range(3):
            compiled(tdt.tensor([1.0, 1.0]))

    with pytest.raises(RuntimeError, match=name):
        calls()


def test_what_a_step_may_not_do_is_refused_with_the_reason():
    def adds(w):
        return lambda x: (w * x).sum().backward()

    def retains(w):
        def step(x):
            w.grad = None
            loss = (w * w * x).sum()
            loss.backward(retain_graph=True)
            return loss

        return step

    def descends(optimizer):
        def step(x):
            optimizer.zero_grad()
            (optimizer.param_groups[0]["params"][0] * x).sum().backward()
            optimizer.step()
            return x * 1

        return step

    def leads_out(w):
        y = w * 2
        return lambda x: (y * x).sum().backward()

    refused("clear them in the function", adds)
    refused("no backward pass has freed", retains)
    refused("LBFGS, whose steps are not recorded", lambda w: descends(tdt.optim.LBFGS([w])))
    refused("Adafactor, whose steps are not recorded", lambda w: descends(tdt.optim.Adafactor([w])))
    refused("leads out of the function|recorded before the call", leads_out)


def test_a_step_that_computes_something_else_is_found():
    training = Training(compiled=True).run(batches(4))
    recording = training.recordings[0]
    recording.native.disabled, forward = True, recording.native.otherwise

    def changed(*arrays):
        found, saved = forward(*arrays)
        return (*found[:-1], found[-1] + 1), saved

    recording.forward = recording.native.otherwise = changed
    ((x, y),) = batches(1, seed=1)
    weights = [p.detach().clone() for p in training.model.parameters()]
    other = Training()
    other.model.load_state_dict(training.model.state_dict())
    other.optimizer.load_state_dict(copy.deepcopy(training.optimizer.state_dict()))
    with pytest.raises(Exception, match="a gradient"):
        training.step._compiled.compare(x, y)
    other.step(x, y)  # the state is that after one ordinary step
    assert not any(tdt.equal(a, b) for a, b in zip(weights, training.model.parameters(), strict=True))
    assert all(tdt.equal(a, b) for a, b in zip(other.model.parameters(), training.model.parameters(), strict=True))


def test_a_comparison_changes_everything_once():
    own, compiled = pair(model="batch norm and dropout", clip=0.1)
    own.run(batches(6))
    for k, (x, y) in enumerate(batches(6)):
        compiled.step = compiled.step if k != 4 else compiled.step._compiled.compare
        compiled.run([(x, y)])
        compiled.step = compiled.step if k != 4 else tdt.compile(compiled.step.__self__.function)
    assert own.bits() == compiled.bits()


def test_a_state_that_is_loaded_between_the_first_two_steps_advances_once():
    own, compiled = pair()
    for training in (own, compiled):
        training.run(batches(1))
        loads_state(training)
        training.run(batches(4, seed=1))
    assert agree(own, compiled)


class Counting(tdt.optim.Adam):
    """An optimizer with code of the user's own around its step."""

    steps = 0

    def step(self, closure=None):
        self.steps += 1
        return super().step(closure)


def test_a_step_with_code_of_the_users_own_is_not_recorded():
    w = nn.Parameter(tdt.ones(2))
    optimizer = Counting([w])

    @tdt.compile
    def step(x):
        optimizer.zero_grad()
        (w * x).sum().backward()
        optimizer.step()

    with pytest.warns(UserWarning, match="Counting, whose steps are not recorded"):
        step(tdt.ones(2))
    for _ in range(4):
        step(tdt.ones(2))
    assert optimizer.steps == 5 == optimizer.state[w]["step"].item()


@pytest.mark.filterwarnings("ignore:tdt.compile")
@pytest.mark.parametrize("exchanged", [False, True])
def test_a_step_by_gradients_that_are_the_functions_own_tensors(exchanged: bool):
    """One is replaced by another tensor, or two are exchanged, before the eighth step: both count."""
    found = []
    for is_compiled in (False, True):
        tdt.manual_seed(0)
        parameters = [tdt.randn(3, requires_grad=True) for _ in range(2)]
        sums = [tdt.zeros(3) for _ in parameters]
        optimizer = tdt.optim.Adam(parameters, lr=0.1)

        def update():
            norm = tdt.nn.utils.clip_grad_norm_(parameters, 0.5)  # noqa: B023  # called in this turn
            optimizer.step()  # noqa: B023
            return norm, sums[0].sum()  # noqa: B023

        step = tdt.compile(update) if is_compiled else update
        for number in range(12):
            for p, total in zip(parameters, sums, strict=True):
                total.copy_(tdt.arange(3.0) - number)
                p.grad = total
            if number >= 7:
                parameters[0].grad = sums[1] if exchanged else tdt.ones(3)
                parameters[1].grad = sums[0] if exchanged else sums[1]
            values = step()
            found.append([t.detach().numpy().tobytes() for t in (*values, *parameters, *sums)])
        if is_compiled:
            (of_kind,) = step._compiled.recordings.values()
            recording = of_kind[0].recording
            assert recording.verified and (recording.native.steps or not tdt.backends.kernels.enabled())
    assert found[:12] == found[12:]


def test_a_step_whose_gradient_is_an_argument_is_called_as_it_is():
    w = tdt.ones(2, requires_grad=True)
    optimizer = tdt.optim.SGD([w], lr=0.1)

    def step(gradient):
        w.grad = gradient
        optimizer.step()

    compiled = tdt.compile(step)
    with pytest.warns(UserWarning, match="gradients that the function does not compute"):
        compiled(tdt.ones(2))
    compiled(tdt.ones(2))
    compiled(tdt.ones(2))
    assert w.tolist() == pytest.approx([0.7, 0.7])


@pytest.mark.filterwarnings("ignore:tdt.compile")
@pytest.mark.filterwarnings("ignore:.*gradients are added")
@pytest.mark.parametrize("calls", [2, 3, 9])
def test_gradients_may_be_cleared_outside_of_the_function(calls):
    """A call that finds some adds to them, as one that comes just after the comparison may."""
    found = []
    for compiled in (False, True):
        tdt.manual_seed(0)
        model = nn.Linear(12, 5)
        optimizer = tdt.optim.Adam(model.parameters())

        def step(x, y, model=model, optimizer=optimizer):
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            return loss

        run = tdt.compile(step) if compiled else step
        tensors = []
        for k, batch in enumerate(batches(calls + 3)):
            if k < calls:
                optimizer.zero_grad()
            tensors += [run(*batch), *[p.grad.clone() for p in model.parameters()]]
            if compiled and k == calls - 1:
                assert run._compiled.count == 1
                assert not run._compiled.refusals
        found.append([t.detach().numpy().tobytes() for t in [*tensors, *model.parameters()]])
    assert found[0] == found[1]


def test_whether_tensors_have_gradients_counts():
    """Others of which the function takes the norm, and one that it only looks at."""

    def run(compiles):
        tdt.manual_seed(1)
        layer, other, looked = nn.Linear(2, 3), nn.Linear(2, 1), tdt.ones(1, requires_grad=True)
        optimizer = tdt.optim.SGD(layer.parameters(), lr=0.1)
        parameters = [*layer.parameters(), *other.parameters()]

        def step(x):
            optimizer.zero_grad()
            layer(x).sum().backward()
            norm = nn.utils.clip_grad_norm_(parameters, 1.0)
            optimizer.step()
            return norm

        look = lambda x: x * (2 if looked.grad is None else 3)  # noqa: E731
        if compiles:
            step, look = tdt.compile(step), tdt.compile(look)
        found = []
        for turn in range(40):
            if turn in (15, 25):
                other(tdt.ones(3, 2)).sum().backward()
                looked.grad = tdt.ones(1)
            if turn in (20, 30):
                other.zero_grad()
                looked.grad = None
            found += [step(tdt.randn(3, 2)), look(tdt.ones(2)), *[p.detach().clone() for p in layer.parameters()]]
        return [t.numpy().tobytes() for t in found]

    assert run(True) == run(False)


@pytest.mark.skipif(
    not tdt.backends.kernels.enabled(), reason="what is compared natively belongs to programs that run so"
)
def test_gradients_that_others_set_may_be_other_ones_in_each_call():
    """Those of a tensor that is read but not updated."""
    layer, other = nn.Linear(2, 3), nn.Linear(3, 1)
    optimizer = tdt.optim.SGD(layer.parameters(), lr=0.1)

    @tdt.compile(fullgraph=True)
    def step(x):
        optimizer.zero_grad()
        loss = F.mse_loss(layer(x), other.bias.detach().expand(4, 3))
        loss.backward()
        optimizer.step()
        return loss

    for _ in range(30):
        other.bias.grad = tdt.ones(1)
        step(tdt.randn(4, 2))
    [recorded] = step._compiled.recordings.values()
    assert recorded[0]._noted == 1
    other.bias.grad = None
    step(tdt.randn(4, 2))
    assert len(recorded) == 2


@pytest.mark.parametrize("clears", ["before", "after"])
def test_a_caught_error_leaves_versions_and_gradients_as_eager(clears):
    def run(compiles):
        tdt.manual_seed(1)
        model = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
        optimizer = tdt.optim.SGD(model.parameters(), lr=0.1)

        def step(x, y):
            if clears == "before":
                optimizer.zero_grad()
            output = model(x)
            loss = F.cross_entropy(output, y)
            if clears == "after":
                optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            return loss

        step, found = tdt.compile(step, fullgraph=True) if compiles else step, []
        for turn in range(12):
            y = tdt.tensor([0, 1, 3 if turn in (5, 9) else 2])
            try:
                step(tdt.randn(3, 2), y)
            except IndexError:
                found.append("IndexError")
            found += [p.grad is None for p in model.parameters()]
            found += [(b._version, b.numpy().tobytes()) for b in model.buffers()]
            found += [p.numpy().tobytes() for p in map(tdt.Tensor.detach, model.parameters())]
        return found

    assert run(True) == run(False)


def test_a_first_step_that_is_compared_has_no_dampening():
    def run(compiles):
        ps = [nn.Parameter(tdt.tensor([1.0, k])) for k in range(2)]
        optimizer, found = tdt.optim.SGD(ps, lr=0.05, momentum=0.5, dampening=0.1), []

        def step(x):
            optimizer.zero_grad()
            sum((p * x).square().sum() for p in ps).backward()
            optimizer.step()

        step = tdt.compile(step, fullgraph=True) if compiles else step
        for turn in range(5):
            if turn == 1:  # the call that is computed both ways
                optimizer.state.pop(ps[1])
            step(tdt.tensor(0.5))
            found += [p.tolist() for p in ps]
        return found

    assert run(True) == run(False)


@pytest.mark.parametrize("turn", range(5))
def test_an_error_in_any_call_leaves_what_came_before_it(turn):
    def run(compiles):
        tdt.manual_seed(0)
        layer, buffer = nn.Linear(12, 20), tdt.ones(20)

        def loss_of(x, y):
            output = layer(x)
            buffer.mul_(0.5)
            return F.cross_entropy(F.dropout(output + buffer, 0.3), y)

        call, found = tdt.compile(loss_of, fullgraph=True) if compiles else loss_of, []
        for k in range(7):
            y = tdt.full((8,), 99 if k == turn else 1)
            try:
                found.append(call(tdt.randn(8, 12), y).item())
            except IndexError:
                found.append(None)
            found += [buffer[0].item(), buffer._version, tdt.get_rng_state().tolist()]
        return found

    assert run(True) == run(False)


def penalty(model, x):
    """How far the norms of a function's slopes are from 1."""
    x = x.detach().requires_grad_()
    (slope,) = tdt.autograd.grad(model(x).sum(), x, create_graph=True)
    return (slope.norm(2, 1) - 1).square().mean()


def residual(model, x):
    """How far a function is from one whose third derivative is its value."""
    x = x * 0.5
    x.requires_grad_()
    value = found = model(x)[:, :1]
    for _ in range(3):
        (slope,) = tdt.autograd.grad(found, x, tdt.ones_like(found), create_graph=True)
        found = slope[:, :1]
    return (found - value).square().mean()


@pytest.mark.parametrize("how", ["loss", "step"])
@pytest.mark.parametrize("function", [penalty, residual])
def test_gradients_of_gradients_within_the_function(function, how):
    found = []
    for compiled in (False, True):
        tdt.manual_seed(0)
        model = nn.Sequential(nn.Linear(12, 9), nn.Tanh(), nn.Linear(9, 7), nn.Softplus(), nn.Linear(7, 2))
        optimizer = tdt.optim.Adam(model.parameters(), lr=0.01)

        def loss(x, model=model):
            return function(model, x) + model(x).square().mean()

        computed = tdt.compile(loss, fullgraph=True) if compiled and how == "loss" else loss

        def step(x, optimizer=optimizer, computed=computed):
            optimizer.zero_grad()
            value = computed(x)
            value.backward()
            optimizer.step()
            return value

        run = tdt.compile(step, fullgraph=True) if compiled and how == "step" else step
        tensors = [run(x) for x, _ in batches(12)]
        tensors += [t for p in model.parameters() for t in (p, p.grad)]
        found.append([t.detach().numpy().tobytes() for t in tensors])
    assert found[0] == found[1]
    compiled = (computed if how == "loss" else run)._compiled
    assert [r.recording.verified for each in compiled.recordings.values() for r in each] == [True]


def reads_the_gradient(x, w):
    x = (x * w).detach().requires_grad_()
    (x * w).sum().backward()
    return x.grad * 2


@pytest.mark.parametrize("hooked", [False, True])
@pytest.mark.parametrize("within", [False, True])
def test_zeros_behind_kinks_are_gradients_of_the_function_too(within, hooked):
    received = []

    def slopes(w, b, x):
        x = x.detach().requires_grad_()
        h = x @ w + b
        if hooked:
            h.register_hook(lambda g: received.append(g.tolist()))
        (slope,) = tdt.autograd.grad(h.relu().sum(), x, create_graph=True)
        loss = slope.square().sum()
        if within:
            w.grad = b.grad = None
            loss.backward()
        return loss

    found = []
    for run in (slopes, tdt.compile(slopes)):
        tdt.manual_seed(0)
        w, b, x = tdt.randn(4, 3, requires_grad=True), tdt.randn(3, requires_grad=True), tdt.randn(5, 4)
        with warnings.catch_warnings():
            warnings.simplefilter("error" if not hooked else "ignore")
            for _ in range(4):
                w.grad = b.grad = None
                loss = run(w, b, x)
                if not within:
                    loss.backward()
                found.append((w.grad.tolist(), b.grad.tolist(), len(received)))
                received.clear()
    assert found[0][1:] == ([0, 0, 0], 2 * hooked)
    assert len({repr(each) for each in found}) == 1


def hooks_the_leaf(x, w):
    x = (x * w).detach().requires_grad_()
    x.register_hook(lambda g: g * 2)
    (x * w).sum().backward()
    return x * 2


def passes_the_gradient_on(x, w):
    x = (x * w).detach().requires_grad_()
    (x * w).sum().backward()
    return x.grad


@pytest.mark.parametrize("function", [reads_the_gradient, hooks_the_leaf, passes_the_gradient_on])
def test_gradients_of_leaves_that_the_function_creates_are_not_recorded(function):
    w = tdt.arange(4.0).requires_grad_()

    def run(x):
        w.grad = None
        return function(x, w)

    compiled, x = tdt.compile(run), tdt.ones(3, 4)
    with pytest.warns(UserWarning, match="created without an op|has hooks"):
        found = [compiled(x) for _ in range(3)]
    assert all(tdt.equal(each, run(x)) for each in found)
    assert w.grad.tolist() == [0, 3, 6, 9]


def subtracts(p, optimizer):
    p -= 0.1 * p.grad


def adds_a_share(p, optimizer):
    p.add_(p.grad, alpha=-0.1)
    p.grad = None


def writes_to_data(p, optimizer):
    p.data.sub_(p.grad * 0.1)


def copies(p, optimizer):
    p.copy_(p - 0.1 * p.grad)


def writes_to_a_row(p, optimizer):
    p[0] -= p.grad[0]


def clamps_after_a_step(p, optimizer):
    optimizer.step()
    p.data.clamp_(-0.3, 0.3)


def changes_the_gradient(p, optimizer):
    p.grad.clamp_(-0.01, 0.01).add_(p.detach(), alpha=0.01)
    p.grad.data.mul_(0.5)
    optimizer.step()


BY_HAND = subtracts, adds_a_share, writes_to_data, copies, writes_to_a_row, clamps_after_a_step, changes_the_gradient


def updated_by_hand(update, compiled, fullgraph=True):
    """Bits of some steps, and the versions of the parameters; and the recordings."""
    tdt.manual_seed(0)
    model = nn.Sequential(nn.Linear(12, 9), nn.Tanh(), nn.Linear(9, 5))
    optimizer = tdt.optim.Adam(model.parameters(), lr=0.01)

    def step(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        with tdt.no_grad():
            for p in model.parameters():
                update(p, optimizer)
        return loss

    run = tdt.compile(step, fullgraph=fullgraph) if compiled else step
    found = []
    for batch in batches(12):
        tensors = [run(*batch), *model.parameters(), *[p.grad for p in model.parameters() if p.grad is not None]]
        found.append([t.detach().numpy().tobytes() for t in tensors])
        found.append([p._version for p in model.parameters()])
    return found, [each for kind in run._compiled.recordings.values() for each in kind] if compiled else []


@pytest.mark.parametrize("update", BY_HAND)
def test_parameters_may_be_written_to_in_the_function(update):
    (expected, _), (found, recordings) = updated_by_hand(update, False), updated_by_hand(update, True)
    assert found == expected
    assert [each.recording.verified for each in recordings] == [True]


def replaces_data(p, optimizer):
    p.data = p.data - 0.1 * p.grad


@pytest.mark.filterwarnings("ignore:.*gets other memory")
def test_parameters_that_get_other_memory_in_the_function_are_not_compiled():
    (expected, _), (found, recordings) = [updated_by_hand(replaces_data, how, False) for how in (False, True)]
    assert found == expected
    assert [each.recording for each in recordings] == [None]


@pytest.mark.filterwarnings("ignore:.*is called as it is")
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_function_that_clears_the_state_of_its_optimizer_is_not_compiled(when):
    def clears(p, optimizer):
        if when == "before":
            optimizer.state.clear()
        if p.ndim == 1:
            optimizer.step()
        if when == "after":
            optimizer.state.clear()

    (expected, _), (found, recordings) = [updated_by_hand(clears, how, False) for how in (False, True)]
    assert found == expected
    assert [each.recording for each in recordings] == [None]
