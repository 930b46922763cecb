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
from tdt._ops.group_norm import group_norm
from tdt._ops.layer_norm import layer_norm, rms_norm
from tdt._ops.linear import linear
from tdt._ops.loss.binary import (
    binary_cross_entropy,
    binary_cross_entropy_with_logits,
    multilabel_soft_margin_loss,
    soft_margin_loss,
)
from tdt._ops.loss.classes import cross_entropy, nll_loss
from tdt._ops.loss.distance import huber_loss, l1_loss, mse_loss, smooth_l1_loss
from tdt._ops.loss.likelihood import gaussian_nll_loss, kl_div, poisson_nll_loss
from tdt._ops.loss.margin import (
    cosine_embedding_loss,
    hinge_embedding_loss,
    margin_ranking_loss,
    multi_margin_loss,
    multilabel_margin_loss,
    triplet_margin_loss,
    triplet_margin_with_distance_loss,
)
from tdt._ops.multi_head import multi_head_attention_forward
from tdt._ops.norm import batch_norm, instance_norm
from tdt._ops.pad import pad
from tdt._ops.pool_average import (
    adaptive_avg_pool1d,
    adaptive_avg_pool2d,
    adaptive_avg_pool3d,
    avg_pool1d,
    avg_pool2d,
    avg_pool3d,
    lp_pool1d,
    lp_pool2d,
    lp_pool3d,
)
from tdt._ops.pool_max import (
    max_pool1d,
    max_pool1d_with_indices,
    max_pool2d,
    max_pool2d_with_indices,
    max_pool3d,
    max_pool3d_with_indices,
)
from tdt._ops.pool_uneven import (
    adaptive_max_pool1d_with_indices,
    adaptive_max_pool2d,
    adaptive_max_pool2d_with_indices,
    adaptive_max_pool3d,
    adaptive_max_pool3d_with_indices,
    fractional_max_pool2d,
    fractional_max_pool2d_with_indices,
    fractional_max_pool3d,
    fractional_max_pool3d_with_indices,
)
from tdt._ops.pool_uneven import functional_adaptive_max_pool1d as adaptive_max_pool1d
from tdt._ops.response_norm import local_response_norm
from tdt._ops.unpool import (
    max_unpool1d,
    max_unpool2d,
    max_unpool3d,
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
    "local_response_norm",
    "rms_norm",
    "pad",
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "adaptive_avg_pool3d",
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "lp_pool1d",
    "lp_pool2d",
    "lp_pool3d",
    "max_pool1d",
    "max_pool1d_with_indices",
    "max_pool2d",
    "max_pool2d_with_indices",
    "max_pool3d",
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "cosine_embedding_loss",
    "gaussian_nll_loss",
    "hinge_embedding_loss",
    "huber_loss",
    "kl_div",
    "margin_ranking_loss",
    "multi_margin_loss",
    "multilabel_margin_loss",
    "multilabel_soft_margin_loss",
    "poisson_nll_loss",
    "smooth_l1_loss",
    "soft_margin_loss",
    "triplet_margin_loss",
    "triplet_margin_with_distance_loss",
    "max_pool3d_with_indices",
    "adaptive_max_pool1d",
    "adaptive_max_pool1d_with_indices",
    "adaptive_max_pool2d",
    "adaptive_max_pool2d_with_indices",
    "adaptive_max_pool3d",
    "adaptive_max_pool3d_with_indices",
    "fractional_max_pool2d",
    "fractional_max_pool2d_with_indices",
    "fractional_max_pool3d",
    "fractional_max_pool3d_with_indices",
    "max_unpool1d",
    "max_unpool2d",
    "max_unpool3d",
]
