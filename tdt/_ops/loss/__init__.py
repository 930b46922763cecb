"""Losses, a file per idea; here are those that `tdt` itself exports, `nn.functional` takes its own from the files."""

from tdt._ops.loss import native
from tdt._ops.loss.native import *  # noqa: F403

__all__ = native.__all__  # noqa: PLE0605
