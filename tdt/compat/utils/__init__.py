"""Stand-ins for modules of `torch.utils`."""
