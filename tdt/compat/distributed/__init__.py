"""Parts of `torch.distributed` for several processes, which programs import: using one is an error that says why."""
