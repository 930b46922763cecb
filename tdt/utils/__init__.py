"""Helpers around training: data loading and TensorBoard, under PyTorch's names."""

from tdt.compat._find import module_getattr

# Submodules come in on first use, so that the command line can name tdt.utils without loading NumPy.
__getattr__ = module_getattr("tdt.utils")
