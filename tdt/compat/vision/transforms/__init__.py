"""Parts of `torchvision.transforms` that programs import and tdt does not have."""
