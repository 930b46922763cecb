"""Parts of torchvision that programs import and tdt does not have."""
