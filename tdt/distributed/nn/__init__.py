"""Collectives with gradients: `tdt.distributed.nn.functional`."""

from tdt.distributed.nn import functional as functional
from tdt.distributed.nn.functional import *  # noqa: F403
from tdt.distributed.nn.functional import __all__  # noqa: F401
