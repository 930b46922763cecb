"""Modules of `torch.utils` that only PyTorch programs use."""
