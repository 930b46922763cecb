"""Parts of `torch.distributed` that tdt does not support: they can be imported, and raise NotImplementedError when used."""
