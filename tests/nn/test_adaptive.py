"""The adaptive softmax is PyTorch's: losses, gradients, all log-probabilities, predictions, and what is refused."""

import re

import numpy as np
import pytest

import tdt
from tests.nn._compare import agree_error, near, numbers, same_state

torch = pytest.importorskip("torch")
TARGETS = np.array([0, 1, 2, 4, 5, 11, 3, 0])


def pair(**options):
    modules = []
    for lib in (tdt, torch):
        lib.manual_seed(0)
        modules.append(lib.nn.AdaptiveLogSoftmaxWithLoss(64, 12, [2, 5, 9], **options))
    same_state(*modules)
    return modules


@pytest.mark.parametrize("options", [{}, {"div_value": 2.0, "head_bias": True}], ids=str)
@pytest.mark.parametrize(
    "targets", [TARGETS, TARGETS[:2], TARGETS[5:6], np.array(7)], ids=["all", "head", "tail", "one"]
)
def test_losses_and_gradients_are_pytorchs(options, targets):
    layers, inputs = pair(**options), []
    results = []
    for lib, layer in zip((tdt, torch), layers, strict=True):
        x = lib.from_numpy(numbers(*targets.shape, 64)).requires_grad_()
        result = layer(x, lib.from_numpy(targets))
        (result.output.sum() * 2 + result.loss).backward()
        inputs.append(x.grad)
        results.append(result)
    near(results[0].output, results[1].output, "output")
    near(results[0].loss, results[1].loss, "loss")
    near(*inputs, "gradient of the input")
    for (name, p), (_, q) in zip(layers[0].named_parameters(), layers[1].named_parameters(), strict=True):
        assert (p.grad is None) == (q.grad is None), name
        if q.grad is not None:
            near(p.grad, q.grad, name)


def test_all_log_probabilities_and_predictions_are_pytorchs():
    layers = pair()
    for scale in (1, 30):
        x = [lib.from_numpy(scale * numbers(40, 64)) for lib in (tdt, torch)]
        logs = [layer.log_prob(a) for layer, a in zip(layers, x, strict=True)]
        near(*logs, "log_prob")
        np.testing.assert_allclose(logs[0].detach().exp().sum(1).numpy(), 1, rtol=1e-5)
        near(*(layer.predict(a) for layer, a in zip(layers, x, strict=True)), "predict")
        assert (layers[0].predict(x[0]) == logs[0].argmax(1)).all()
    assert len(set(layers[0].predict(x[0]).tolist())) > 3  # of the head and of clusters


def test_all_weights_are_drawn_again():
    layers = pair()
    for lib, layer in zip((tdt, torch), layers, strict=True):
        lib.manual_seed(3)
        layer.reset_parameters()
    for (name, p), (_, q) in zip(layers[0].named_parameters(), layers[1].named_parameters(), strict=True):
        np.testing.assert_array_equal(p.detach().numpy(), q.detach().numpy(), err_msg=name)


def call(lib, x=(3, 16), targets=(0, 1, 2)):
    return lib.nn.AdaptiveLogSoftmaxWithLoss(16, 12, [2, 5])(lib.ones(x), lib.tensor(targets))


REFUSED = [
    lambda lib: call(lib, targets=(0, 1)), lambda lib: call(lib, targets=(0, 1, 12)), lambda lib: call(lib, targets=(0, -1, 2)),
    lambda lib: call(lib, (3, 2, 16)), lambda lib: call(lib, (3, 16), 1), lambda lib: call(lib, targets=((0, 1, 2),)),
    *(lambda lib, c=c: lib.nn.AdaptiveLogSoftmaxWithLoss(16, 12, c) for c in ([], [0], [12], [5, 2], [2, 2], [1.5])),
]  # fmt: skip


@pytest.mark.parametrize("refused", REFUSED, ids=[str(i) for i in range(len(REFUSED))])
def test_what_pytorch_refuses_is_refused_with_the_start_of_its_message(refused):
    with pytest.raises(Exception) as found:  # noqa: PT011 (the class is compared below)
        refused(torch)
    agree_error(refused, re.split(r"[;(.]| but values", str(found.value).replace("torch", "tdt"))[0].strip())
