"""The console and the numbers of the command line."""

from tdt.train.logging.console import Console, number

__all__ = ["Console", "number"]
