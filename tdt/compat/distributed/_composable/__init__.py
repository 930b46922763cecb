"""`torch.distributed._composable`."""
