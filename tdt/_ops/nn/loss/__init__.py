"""Losses, a file per topic; exported here are those that `tdt` itself has, `nn.functional` imports its own from the files."""

from tdt._ops.nn.loss import native
from tdt._ops.nn.loss.native import *  # noqa: F403

__all__ = native.__all__
