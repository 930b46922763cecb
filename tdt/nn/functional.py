"""Layers as functions, with PyTorch's signatures: each stands beside its op in `tdt._ops` and is named here."""

from tdt._ops.activation import elu, gelu, leaky_relu, relu, relu_, silu, softplus
from tdt._ops.activation import functional_log_softmax as log_softmax
from tdt._ops.activation import functional_softmax as softmax
from tdt._ops.attention import scaled_dot_product_attention
from tdt._ops.conv import conv1d, conv2d, conv3d
from tdt._ops.conv_transpose import conv_tbc, conv_transpose1d, conv_transpose2d, conv_transpose3d
from tdt._ops.dropout import dropout
from tdt._ops.elementwise import sigmoid, tanh
from tdt._ops.embedding import embedding
from tdt._ops.linear import linear
from tdt._ops.loss import cross_entropy, l1_loss, mse_loss, nll_loss
from tdt._ops.multi_head import multi_head_attention_forward
from tdt._ops.norm import batch_norm, group_norm, instance_norm, layer_norm
from tdt._ops.pad import pad
from tdt._ops.pool import (
    adaptive_avg_pool1d,
    adaptive_avg_pool2d,
    adaptive_avg_pool3d,
    avg_pool1d,
    avg_pool2d,
    avg_pool3d,
    max_pool1d,
    max_pool2d,
    max_pool3d,
)

__all__ = [
    "elu",
    "gelu",
    "leaky_relu",
    "log_softmax",
    "relu",
    "relu_",
    "silu",
    "softmax",
    "softplus",
    "multi_head_attention_forward",
    "scaled_dot_product_attention",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_tbc",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "dropout",
    "sigmoid",
    "tanh",
    "embedding",
    "linear",
    "cross_entropy",
    "l1_loss",
    "mse_loss",
    "nll_loss",
    "batch_norm",
    "group_norm",
    "instance_norm",
    "layer_norm",
    "pad",
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "adaptive_avg_pool3d",
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "max_pool1d",
    "max_pool2d",
    "max_pool3d",
]
