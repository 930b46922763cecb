"""Parts of `torch.nn` that programs import and tdt does not have."""
