"""What training loops do to parameters and gradients beside the layers."""

from tdt.nn.utils.clip_grad import clip_grad_norm_ as clip_grad_norm_
from tdt.nn.utils.clip_grad import clip_grad_value_ as clip_grad_value_
from tdt.nn.utils.clip_grad import clip_grads_with_norm_ as clip_grads_with_norm_
from tdt.nn.utils.clip_grad import get_total_norm as get_total_norm

__all__ = ["clip_grad_norm_", "clip_grad_value_", "clip_grads_with_norm_", "get_total_norm"]
