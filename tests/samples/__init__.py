"""Samples of every op, by op name: importing this package fills TABLE."""

from tests.samples import (
    activation,
    elementwise,
    index,
    linalg,
    network,
    random,
    reduce,
    resampling,
    shape,
    spectral,
    windows,
)  # fmt: skip
from tests.samples._sample import TABLE as TABLE
from tests.samples._sample import Call as Call
from tests.samples._sample import Samples as Samples

FAMILIES = (activation, elementwise, index, linalg, network, random, reduce, resampling, shape, spectral, windows)
