"""Losses, a file per idea; here are those that `tdt` itself exports, `nn.functional` takes its own from the files."""

from tdt._ops.nn.loss import native
from tdt._ops.nn.loss.native import *  # noqa: F403

__all__ = native.__all__  # noqa: PLE0605
