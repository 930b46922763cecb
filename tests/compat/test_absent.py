"""Old names and old spellings: what PyTorch still takes works, what it took out says what stands in its place."""

from __future__ import annotations

import inspect
import warnings

import pytest

import tdt
from tdt.compat import _absent
from tests.helpers import require_torch


def test_what_is_listed_as_removed_pytorch_removed_and_has_the_successor():
    torch = require_torch()
    for name, successor in _absent.REMOVED.items():
        if callable(old := getattr(torch, name, None)):  # some stay as functions that only raise
            count = len([p for p in inspect.signature(old).parameters.values() if p.default is p.empty])
            with pytest.raises(RuntimeError, match="removed"):
                old(*[torch.eye(2)] * count)
        value = torch
        for part in successor.split("."):
            value = getattr(value, part)


def test_a_missing_name_is_explained_the_same_each_time_and_looked_up_once(monkeypatch: pytest.MonkeyPatch):
    messages = []
    for _ in range(3):
        with pytest.raises(AttributeError) as caught:
            tdt.zeroes
        messages.append(str(caught.value))
        monkeypatch.setattr(_absent, "explain", None)
    assert len(set(messages)) == 1
    assert "zeros" in messages[0]


@pytest.mark.parametrize("name", ["gesv", "potrf", "symeig", "trtrs", "eig"])
def test_a_removed_method_names_its_successor(name: str):
    with pytest.raises(
        AttributeError, match=f"Tensor.{name} was removed, as in PyTorch; use tdt.{_absent.REMOVED[name]}"
    ):
        getattr(tdt.eye(2), name)


def test_a_removed_attribute_names_its_successor():
    for name, successor in _absent.REMOVED_ATTRIBUTES.items():
        with pytest.raises(AttributeError, match=f"Tensor.{name} was removed, as in PyTorch; use tdt.{successor}"):
            getattr(tdt.ones(1), name)
        assert not hasattr(tdt.ones(1), name)


def test_an_unknown_attribute_of_a_tensor_is_pythons_own_error():
    with pytest.raises(AttributeError, match="^'Tensor' object has no attribute 'vieww'$"):
        tdt.ones(1).vieww  # noqa: B018
    assert not hasattr(tdt.Tensor, "__getattr__")  # which would make every attribute slow


def scalar():
    return tdt.ones(1, requires_grad=True).sum()


OLD_ARGUMENTS = {
    "backward": (lambda: scalar().backward(retain_variables=True), "retain_graph"),
    "autograd.backward": (lambda: tdt.autograd.backward([scalar()], retain_variables=True), "retain_graph"),
    "autograd.grad": (lambda: tdt.autograd.grad(scalar(), [], retain_variables=True), "retain_graph"),
    "TensorDataset": (
        lambda: tdt.utils.data.TensorDataset(data_tensor=tdt.ones(2), target_tensor=tdt.ones(2)),
        r"TensorDataset\(data, target\), by position",
    ),
}


@pytest.mark.parametrize(("call", "successor"), OLD_ARGUMENTS.values(), ids=OLD_ARGUMENTS)
def test_a_removed_argument_is_a_type_error_that_names_its_successor(call, successor):
    with pytest.raises(TypeError, match=f"got an unexpected keyword argument '.*'; use {successor}"):
        call()


# What PyTorch 2.13 still takes: the same values here, and a warning where it warns.
STILL = """
    autograd.Variable(x)|autograd.Variable(x,requires_grad=True)|isinstance(x,autograd.Variable)
    FloatTensor([[2,3]])|FloatTensor(2,3).zero_()|LongTensor([1,2])|ByteTensor([1,0])|isinstance(x,FloatTensor)
    isinstance(x,LongTensor)|isinstance(x,DoubleTensor)
    nn.init.xavier_uniform(g(2,2))|nn.init.xavier_normal(g(2,2))|nn.init.kaiming_uniform(g(2,2))
    nn.init.kaiming_normal(g(2,2))|nn.init.normal(g(2,2))|nn.init.uniform(g(2,2))|nn.init.constant(g(2,2),3)
    nn.init.orthogonal(g(2,2)).abs()|nn.init.eye(g(2,2))|nn.init.dirac(g(2,2,1))
    tensor(1.).data[0]|x.sum()[0]|x.sum().data[0]
    F.tanh(x)|F.sigmoid(x)|F.softmax(y)|F.log_softmax(y)|nn.Softmax()(y)|F.softmin(y)
    F.upsample(z,scale_factor=2)|F.upsample_nearest(z,scale_factor=2)|F.upsample_bilinear(z,scale_factor=2)
    F.mse_loss(x,y[0],size_average=False)|F.mse_loss(x,y[0],reduce=False)|nn.MSELoss(size_average=False)(x,y[0])
    F.cross_entropy(y,l,size_average=True,reduce=True)|nn.CrossEntropyLoss(reduce=False)(y,l)
    F.nll_loss(y,l,size_average=False)|nn.BCELoss(size_average=True)(x.sigmoid(),x.sigmoid())|F.kl_div(x,x.sigmoid())
    nn.utils.clip_grad_norm([nn.Parameter(x)],1)
    add(x,2,x)|x.add(2,x)|x.clone().add_(2,x)|sub(x,2,x)|x.sub(2,x)|x.clone().sub_(0.5,x)|x.clone().add_(True,x)
    addcmul(x,2,x,x)|x.addcmul(2,x,x)|x.clone().addcmul_(1-0.9,x,x)|addcdiv(x,2,x,x)|x.clone().addcdiv_(-0.1,x,x)
    addmm(1,y,3,y,y)|addmm(2,y,y,y)|y.addmm(2,3,y,y)|y.addmm(2,y,y)|y.clone().addmm_(2,3,y,y)
    addmv(2,x,3,y,x)|x.addmv(2,y,x)|x.clone().addmv_(2,3,y,x)|addr(2,y,3,x,x)|y.clone().addr_(2,x,x)
    baddbmm(2,b,3,b,b)|b.clone().baddbmm_(2,3,b,b)|addbmm(2,y,3,b,b)|y.addbmm(2,3,b,b)
    add(x,x,2)|add(x,2,x,x)|addcmul(x,x,2,x)|addcmul(x,2,2,x,x)|addmm(1,1,1,y,y,y)|x.add_(1,2)""".replace("\n", "|")


def answer(library, code: str) -> tuple:
    """The value, or the error's class; and the warnings' classes."""
    library.manual_seed(0)
    tensor = library.tensor
    names = {
        **{name: getattr(library, name) for name in ("nn", "autograd")},
        "F": library.nn.functional,
        "x": tensor([0.5, -1.5]),
        "y": tensor([[0.5, 1.0], [-2.0, 0.25]]),
        "z": tensor([[[[1.0, 2.0], [3.0, 5.0]]]]),
        "b": tensor([[[1.0, 2.0], [3.0, 4.0]]]),
        "l": tensor([0, 1]),
        "g": library.empty,
    }
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            value = eval(code, vars(library) | names)
        except (RuntimeError, TypeError, IndexError) as error:
            return (type(error).__name__,)
    value = value.tolist() if isinstance(value, library.Tensor) else value
    return value, {w.category.__name__ for w in caught} - {"UserWarning"}


@pytest.mark.parametrize("code", [code.strip() for code in STILL.split("|") if code.strip()])
def test_an_old_spelling_that_pytorch_takes_has_its_value(code: str):
    torch = require_torch()
    ours, theirs = answer(tdt, code), answer(torch, code)
    assert ours[1:] == theirs[1:]
    assert ours[0] == pytest.approx(theirs[0], rel=1e-6) if isinstance(theirs[0], float) else ours[0] == theirs[0] or (
        tdt.allclose(tdt.tensor(ours[0]), tdt.tensor(theirs[0]), rtol=1e-6)
    )  # fmt: skip


def test_numbers_before_tensors_are_warned_about_with_the_new_spelling():
    with pytest.warns(UserWarning, match="addmm: numbers before tensors are deprecated; write beta=2, alpha=3"):
        tdt.addmm(2, tdt.eye(2), 3, tdt.eye(2), tdt.eye(2))
    with pytest.warns(UserWarning, match="add_: numbers before tensors are deprecated; write alpha=2"):
        tdt.eye(2).add_(2, tdt.eye(2))
