"""`torch.fx.experimental`: questions about tracing and symbolic sizes, of which tdt has neither."""
