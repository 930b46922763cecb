"""Parts of `torch.nn.attention` that programs import and tdt does not have."""
