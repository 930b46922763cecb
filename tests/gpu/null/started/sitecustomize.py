"""With this folder on PYTHONPATH, every Python process has the null driver's GPU."""

from tests.gpu.null import wheel

wheel.start()
