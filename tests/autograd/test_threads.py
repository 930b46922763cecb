"""Threads that compute gradients at once get those that they would get one after the other."""

from __future__ import annotations

import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

import tdt
import tdt.nn.functional as F
from tdt import nn
from tdt.utils.checkpoint import checkpoint
from tests._kernels.forked import check_children


@pytest.fixture(autouse=True)
def _switch_often():
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def at_once(count, work):
    """The results of `work(i)` in as many threads, started together."""
    barrier = threading.Barrier(count)

    def start(i):
        barrier.wait()
        return work(i)

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(start, range(count)))


def net():
    tdt.manual_seed(0)
    layers = [nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()]
    return nn.Sequential(*layers, nn.Linear(64, 32), nn.LayerNorm(32), nn.GELU(), nn.Linear(32, 5)).double()


def losses(model, i):
    x = tdt.sin(tdt.arange(16 * 64, dtype=model[0].weight.dtype).reshape(16, 1, 8, 8) * (i + 1))
    return F.cross_entropy(model(x), tdt.arange(16) % 5, reduction="sum")


def test_threads_that_share_a_models_leaves_add_up_all_gradients():
    model = net().eval()
    for i in range(4):
        losses(model, i).backward()
    serial = [p.grad.clone() for p in model.parameters()]
    for _ in range(5):
        model.zero_grad()
        at_once(4, lambda i: losses(model, i).backward())
        for p, expected in zip(model.parameters(), serial, strict=True):
            assert tdt.allclose(p.grad, expected, rtol=1e-12, atol=1e-12)


def test_threads_may_go_through_one_retained_graph():
    model = net().eval()
    loss = losses(model, 1)
    expected = tdt.autograd.grad(loss, list(model.parameters()), retain_graph=True)
    found = at_once(
        4, lambda i: [tdt.autograd.grad(loss, list(model.parameters()), retain_graph=True) for _ in range(3)]
    )
    for thread in found:
        for grads in thread:
            assert all(tdt.equal(a, b) for a, b in zip(grads, expected, strict=True))


@pytest.mark.parametrize("dtype", [tdt.float32, tdt.float64])
def test_models_of_their_own_train_in_threads_as_one_after_the_other(dtype):
    def trained(i, model):
        optimizer = tdt.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
        for _ in range(5):
            optimizer.zero_grad()
            losses(model, i).backward()
            optimizer.step()
        return [p.detach().clone() for p in model.parameters()]

    def models():
        return [net().to(dtype) for _ in range(3)]

    serial, copies = [trained(i, model) for i, model in enumerate(models())], models()
    for a, b in zip(at_once(3, lambda i: trained(i, copies[i])), serial, strict=True):
        assert all(tdt.equal(x, y) for x, y in zip(a, b, strict=True))


def test_views_written_to_before_have_the_same_gradients_in_each_thread():
    x = tdt.arange(6, dtype=tdt.float64).requires_grad_()
    y = x * 2
    parts = [y[:3], y[3:], y.view(2, 3)[1]]
    parts[0].mul_(3)
    parts[1].exp_()
    total = y.sum() + sum((p * p).sum() for p in parts)
    (expected,) = tdt.autograd.grad(total, x, retain_graph=True)
    for found in at_once(4, lambda i: tdt.autograd.grad(total, x, retain_graph=True)[0]):
        assert tdt.equal(found, expected)


def test_hooks_and_checkpoints_keep_to_their_threads():
    def work(i):
        threads = []
        leaf = tdt.full((3,), i + 1.0, dtype=tdt.float64, requires_grad=True)
        with tdt.autograd.graph.saved_tensors_hooks(lambda t: t * (i + 1), lambda t: t / (i + 1)):
            y = checkpoint(lambda a: a.sin().exp(), leaf, use_reentrant=i % 2 == 0)
        y.register_hook(lambda g: threads.append(threading.get_ident()))
        y.sum().backward()
        return threads == [threading.get_ident()], leaf.grad

    for i, (own_thread, found) in enumerate(at_once(4, work)):
        x = tdt.full((3,), i + 1.0, dtype=tdt.float64)
        assert own_thread
        assert tdt.allclose(found, x.sin().exp() * x.cos())


def test_grad_modes_and_handlers_belong_to_their_thread():
    inside, leave = threading.Event(), threading.Event()

    def hold():
        with tdt.no_grad(), tdt.inference_mode(), tdt.autograd.set_detect_anomaly(True):
            inside.set()
            leave.wait(10)

    thread = threading.Thread(target=hold)
    thread.start()
    inside.wait(10)
    x = tdt.ones(2, requires_grad=True)
    y = x * 2
    assert (tdt.is_grad_enabled(), tdt.is_inference_mode_enabled(), tdt.is_anomaly_enabled()) == (True, False, False)
    assert y.requires_grad
    leave.set()
    thread.join()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_child_accumulates_while_a_thread_of_its_parent_did():
    check_children(
        """
import signal
import tdt
from tdt.autograd import _accumulate
x = tdt.ones(3, requires_grad=True)
def child():
    signal.alarm(20)
    (x * 2).sum().backward()
    assert x.grad.tolist() == [2, 2, 2]
_accumulate._lock.acquire()
""",
        after="_accumulate._lock.release()",
    )
