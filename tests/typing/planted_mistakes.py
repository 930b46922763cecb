"""Thirty mistakes that users of a library with PyTorch's API make, one a line: what a type checker should catch.

Read by mypy and pyright, never run as a test. Each function or method holds one mistake, on the line whose comment says
what it is; all else is right, and the file would have no errors if those lines were mended. Called, each raises on that
line, except where the comment says "type only". README.md says how to count.
"""

from __future__ import annotations

import tdt
import tdt.nn.functional as F
from tdt import Tensor, nn, optim
from tdt.train.session import Session
from tdt.utils.data import DataLoader, Dataset, TensorDataset
from tdt.vision import transforms


class Net(nn.Module):
    def __init__(self, features: int = 4, classes: int = 3) -> None:
        super().__init__()
        self.hidden = nn.Linear(features, 8)
        self.out = nn.Linear(8, classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(F.relu(self.hidden(x)))


class Misspelt(Net):
    def forward(self, x: Tensor) -> Tensor:
        return self.out(F.relu(self.hiden(x)))  # mistake: misspelt layer of the user's own module


class Squares(Dataset):
    def __len__(self) -> int:
        return 10

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        x = tdt.tensor([float(index)])
        return x, x * x


def batch() -> tuple[Tensor, Tensor]:
    return tdt.randn(6, 4), tdt.randint(0, 3, (6,))


def own_layer_misspelt() -> Tensor:
    x, _ = batch()
    return Misspelt()(x)


# Creation


def function_misspelt() -> Tensor:
    return tdt.onse(2, 3)  # mistake: misspelt function


def keyword_of_tensor() -> Tensor:
    return tdt.tensor([1.0, 2.0], requires_gradient=True)  # mistake: the keyword is requires_grad


def dtype_as_string() -> Tensor:
    return tdt.arange(10, dtype="float32")  # mistake: a string, as NumPy takes it, is no dtype


# Operations


def cat_without_list() -> Tensor:
    x, y = tdt.ones(2, 3), tdt.zeros(2, 3)
    return tdt.cat(x, y)  # mistake: the tensors belong into one list or tuple


def keyword_of_sum() -> Tensor:
    x, _ = batch()
    centred = x - x.mean(dim=1, keepdim=True)
    return centred.sum(dims=1)  # mistake: the keyword is dim


def pair_taken_for_tensor() -> Tensor:
    x, _ = batch()
    return x.softmax(dim=1).topk(2, dim=1).log()  # mistake: topk returns (values, indices)


# Methods and attributes


def method_misspelt() -> None:
    x, y = batch()
    loss = F.cross_entropy(Net()(x), y)
    loss.backwards()  # mistake: misspelt method


def float_as_size() -> Tensor:
    x, _ = batch()
    return x.reshape(x.shape[0] / 2, -1)  # mistake: / gives a float, sizes are integers


def number_taken_for_tensor() -> None:
    w = tdt.ones(3, requires_grad=True)
    loss = (w * w).sum()
    loss.item().backward()  # mistake: item() is a Python number, which has no backward


def method_not_called() -> float:
    total = 0.0
    for x, y in DataLoader(Squares(), batch_size=5):
        loss = F.mse_loss(x, y)
        total += loss.item  # mistake: the method is not called
    return total


def gradient_that_is_not_there() -> Tensor:
    w = tdt.ones(3, requires_grad=True)
    return w.grad.norm()  # mistake: grad is None before backward()


# Operators


def tensor_plus_string() -> Tensor:
    return tdt.ones(2) + "a"  # mistake: no arithmetic with a string


def tensor_as_dict() -> Tensor:
    x, _ = batch()
    return x["mean"]  # mistake: a string is no index


# Layers


def required_argument_left_out() -> nn.Module:
    return nn.Sequential(nn.Conv2d(1, 8), nn.ReLU())  # mistake: kernel_size is missing


def attribute_of_layer_misspelt() -> Tensor:
    layer = nn.Linear(4, 3)
    return layer.wieght  # mistake: misspelt attribute of a layer


def list_of_layers() -> nn.Module:
    return nn.Sequential([nn.Linear(4, 8), nn.ReLU()])  # mistake: layers are given one by one, not in a list


def recurrent_output() -> Tensor:
    lstm = nn.LSTM(4, 8, batch_first=True)
    return lstm(tdt.randn(2, 5, 4)).mean(dim=1)  # mistake: a recurrent layer returns (output, state)


# Losses


def reduction_of_wrong_type() -> Tensor:
    x, y = batch()
    return F.cross_entropy(Net()(x), y, reduction=3)  # mistake: reduction is 'mean', 'sum' or 'none'


def loss_not_constructed() -> None:
    x, y = batch()
    logits = Net()(x)
    nn.CrossEntropyLoss(logits, y).backward()  # mistake: the constructor takes options, not the batch


# Optimizers and schedulers


def keyword_of_optimizer() -> optim.Optimizer:
    return optim.SGD(Net().parameters(), learning_rate=0.1)  # mistake: the keyword is lr


def model_instead_of_parameters() -> optim.Optimizer:
    model = Net()
    return optim.Adam(model, lr=1e-3)  # mistake: the optimizer takes model.parameters()


def scheduler_without_step_size() -> None:
    optimizer = optim.SGD(Net().parameters(), lr=0.1, momentum=0.9)
    scheduler = optim.lr_scheduler.StepLR(optimizer, gamma=0.5)  # mistake: step_size is missing
    scheduler.step()


# Data


def loader_taken_for_iterator() -> Tensor:
    loader = DataLoader(TensorDataset(*batch()), batch_size=2)
    x, _ = next(loader)  # mistake: a loader is iterable, not an iterator
    return x


def transforms_one_by_one() -> transforms.Compose:
    scale = transforms.Normalize((0.5,), (0.5,))
    return transforms.Compose(transforms.ToTensor(), scale)  # mistake: Compose takes one list


# Saving and loading


def save_with_arguments_exchanged() -> None:
    tdt.save("model.pt", Net().state_dict())  # mistake: the object comes first, then the file


def path_instead_of_state_dict() -> None:
    model = Net()
    model.load_state_dict("model.pt")  # mistake: takes what tdt.load returns, not a path


# The training toolkit


def name_instead_of_config() -> None:
    with Session.start("digits-mlp", root="runs") as session:  # mistake: takes what config.load returns, not a name
        session.train()


# The rest


def context_manager_not_called() -> Tensor:
    x, _ = batch()
    with tdt.no_grad:  # mistake: the class is not called
        return Net()(x)


def accuracy() -> float:
    x, y = batch()
    predicted = Net()(x).argmax(dim=1)
    return (predicted == y).float().mean()  # mistake (type only): a Tensor is returned as a float; .item() is missing
