"""Numbers that say how good a model is, over a whole data set rather than as a mean of batches."""

from __future__ import annotations

from typing import Any

from tdt import Tensor


class Mean:
    """The mean over all samples of what a subclass's `batch_sum` gives for a batch; NaN before the first sample.

    Sums are made of the tensors' arrays, since no gradient is wanted. On a GPU they stay there until they are read, so
    that counting a batch never waits for the device. `higher_is_better` decides which checkpoint is the best one.
    """

    higher_is_better = True

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Forget all samples."""
        self.total: Any = 0.0
        self.count = 0

    def batch_sum(self, output: Tensor, target: Tensor, loss: Tensor) -> Any:
        """The sum over a batch: the model's output (n, …), the targets (n, …) and their mean loss, a scalar.

        A number, or a 0-d array on the device.
        """
        raise NotImplementedError(f"{type(self).__name__} must define batch_sum")

    def add(self, amount: Any, count: int) -> None:
        """Count `count` more samples, whose sum is `amount`."""
        self.total = self.total + amount
        self.count += count

    def update(self, output: Tensor, target: Tensor, loss: Tensor) -> None:
        """Count a batch."""
        self.add(self.batch_sum(output, target, loss), len(target))

    def compute(self) -> float:
        """The mean so far."""
        return float(self.total) / self.count if self.count else float("nan")

    def state_dict(self) -> dict[str, Any]:
        """What `load_state_dict` needs to go on in the middle of an epoch."""
        return {"total": float(self.total), "count": self.count}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a `state_dict`."""
        self.total, self.count = state["total"], state["count"]


class Loss(Mean):
    """The mean loss per sample.

    >>> import tdt
    >>> loss = Loss()
    >>> loss.update(tdt.zeros(3), tdt.zeros(3), tdt.tensor(1.0)); loss.update(tdt.zeros(1), tdt.zeros(1), tdt.tensor(5.0))
    >>> loss.compute()
    2.0
    """

    higher_is_better = False

    def batch_sum(self, output: Tensor, target: Tensor, loss: Tensor) -> Any:
        return loss._a.astype("float64") * len(target)


class Accuracy(Mean):
    """The share of samples whose largest output is that of the target class.

    output: (n, classes, …) scores; target: (n, …) class indices, or (n, classes, …) probabilities.

    >>> import tdt
    >>> accuracy = Accuracy()
    >>> accuracy.update(tdt.tensor([[0.1, 0.9], [0.8, 0.2]]), tdt.tensor([1, 1]), tdt.tensor(0.0))
    >>> accuracy.compute()
    0.5
    """

    def batch_sum(self, output: Tensor, target: Tensor, loss: Tensor) -> Any:
        classes = target._a.argmax(1) if target.is_floating_point() else target._a
        hits = output._a.argmax(1) == classes
        return hits.sum() * (len(target) / hits.size)
