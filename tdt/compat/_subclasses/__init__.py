"""`torch._subclasses`: tensors without values, with which PyTorch traces; tdt's are those of the meta device."""
