"""Stand-ins for modules of `torch.distributed`."""
