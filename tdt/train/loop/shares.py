"""What the batches of a step weigh in the mean over all of their samples."""

from __future__ import annotations

from typing import Any

import numpy as np

from tdt import Tensor, _backend
from tdt._compiled.graphed import ALIGNED, is_on_gpu
from tdt._core.tensor import wrap
from tdt._kernels import lazy

_add_on_gpu = lazy("optim_gpu:add_share")


class Shares:
    """The weights of a step's batches, relative to the first that is not 0: on the host or, if they are counted there, a GPU.

    Attributes:
        count: how many batches there are so far.

    >>> from tdt.train.loop.shares import Shares
    >>> shares = Shares()
    >>> shares.add(4), shares.add(2), round(shares.factor, 3)
    (1.0, 0.5, 0.667)
    """

    def __init__(self) -> None:
        self._memory: Any = None  # on a GPU, as of the kernel
        self._loss_factor: Tensor
        self._sum_factor: Tensor
        self.clear()

    def clear(self) -> None:
        """Begin a step."""
        self.count, self._first, self._all, self._is_on_gpu = 0, 0.0, 0.0, False

    def add(self, share: Any, stays: bool = False) -> float | Tensor:
        """Count a batch. Returns by what its loss is multiplied.

        Args:
            share: its weight, a number or a 0-d array.
            stays: whether an array of a GPU is not read; of all batches of a step, or of none.
        """
        self.count += 1
        if stays and is_on_gpu(share):
            return self._add_on_gpu(share)
        share = float(share)
        self._first = self._first or share
        self._all += share
        return 1.0 if share == self._first else share / self._first

    def _add_on_gpu(self, share: Any) -> Tensor:
        if self._memory is None:
            self._memory = _backend.gpu().empty(2 * ALIGNED // 8, np.float64)
            self._loss_factor, self._sum_factor = (wrap(self._memory[k : k + 1].reshape(())) for k in (0, ALIGNED // 8))
        self._is_on_gpu = True
        _add_on_gpu(share.astype(np.float64), self._memory, self.count == 1)
        return self._loss_factor

    @property
    def factor(self) -> float | Tensor:
        """By what the sum of the batches' gradients is multiplied."""
        return self._sum_factor if self._is_on_gpu else 1 / (self._all / self._first)
