"""Layers as functions, with PyTorch's signatures: each stands beside its op in `tdt._ops` and is named here."""

from tdt._ops.elementwise import sigmoid, tanh
from tdt._ops.elementwise.activation import (
    celu,
    celu_,
    elu,
    elu_,
    gelu,
    glu,
    logsigmoid,
    mish,
    selu,
    selu_,
    silu,
    softplus,
    softsign,
    tanhshrink,
)
from tdt._ops.elementwise.piecewise import (
    hardshrink,
    hardsigmoid,
    hardswish,
    hardtanh,
    hardtanh_,
    leaky_relu,
    leaky_relu_,
    prelu,
    relu,
    relu6,
    relu_,
    rrelu,
    rrelu_,
    softshrink,
    threshold,
    threshold_,
)
from tdt._ops.index.one_hot import one_hot
from tdt._ops.linalg.distance import cosine_similarity, normalize, pairwise_distance, pdist
from tdt._ops.linalg.grouped_mm import grouped_mm
from tdt._ops.nn.attention import scaled_dot_product_attention
from tdt._ops.nn.batch_norm import batch_norm, instance_norm
from tdt._ops.nn.conv import conv1d, conv2d, conv3d
from tdt._ops.nn.conv_transpose import conv_tbc, conv_transpose1d, conv_transpose2d, conv_transpose3d
from tdt._ops.nn.dropout import dropout1d, dropout2d, dropout3d
from tdt._ops.nn.dropout import functional_alpha_dropout as alpha_dropout
from tdt._ops.nn.dropout import functional_dropout as dropout
from tdt._ops.nn.dropout import functional_feature_alpha_dropout as feature_alpha_dropout
from tdt._ops.nn.embedding import functional_embedding as embedding
from tdt._ops.nn.embedding_bag import functional_embedding_bag as embedding_bag
from tdt._ops.nn.fold import fold, unfold
from tdt._ops.nn.grid_sample import affine_grid, grid_sample
from tdt._ops.nn.group_norm import group_norm
from tdt._ops.nn.interpolate import interpolate, upsample, upsample_bilinear, upsample_nearest
from tdt._ops.nn.layer_norm import layer_norm, rms_norm
from tdt._ops.nn.linear import bilinear, linear
from tdt._ops.nn.loss.binary import (
    binary_cross_entropy,
    binary_cross_entropy_with_logits,
    multilabel_soft_margin_loss,
    soft_margin_loss,
)
from tdt._ops.nn.loss.classes import cross_entropy, nll_loss
from tdt._ops.nn.loss.ctc import ctc_loss
from tdt._ops.nn.loss.distance import huber_loss, l1_loss, mse_loss, smooth_l1_loss
from tdt._ops.nn.loss.likelihood import gaussian_nll_loss, kl_div, poisson_nll_loss
from tdt._ops.nn.loss.linear_cross_entropy import linear_cross_entropy
from tdt._ops.nn.loss.margin import (
    cosine_embedding_loss,
    hinge_embedding_loss,
    margin_ranking_loss,
    multi_margin_loss,
    multilabel_margin_loss,
    triplet_margin_loss,
    triplet_margin_with_distance_loss,
)
from tdt._ops.nn.multi_head import multi_head_attention_forward
from tdt._ops.nn.pad import pad
from tdt._ops.nn.pool_average import (
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
from tdt._ops.nn.pool_max import (
    max_pool1d,
    max_pool1d_with_indices,
    max_pool2d,
    max_pool2d_with_indices,
    max_pool3d,
    max_pool3d_with_indices,
)
from tdt._ops.nn.pool_uneven import (
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
from tdt._ops.nn.pool_uneven import functional_adaptive_max_pool1d as adaptive_max_pool1d
from tdt._ops.nn.response_norm import local_response_norm
from tdt._ops.nn.shuffle import channel_shuffle, native_channel_shuffle, pixel_shuffle, pixel_unshuffle
from tdt._ops.nn.softmax import functional_log_softmax as log_softmax
from tdt._ops.nn.softmax import functional_softmax as softmax
from tdt._ops.nn.softmax import gumbel_softmax, softmin
from tdt._ops.nn.unpool import max_unpool1d, max_unpool2d, max_unpool3d

__all__ = [
    "celu",
    "celu_",
    "elu",
    "elu_",
    "gelu",
    "glu",
    "logsigmoid",
    "mish",
    "selu",
    "selu_",
    "silu",
    "softplus",
    "softsign",
    "tanhshrink",
    "scaled_dot_product_attention",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_tbc",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "cosine_similarity",
    "normalize",
    "pairwise_distance",
    "pdist",
    "dropout1d",
    "dropout2d",
    "dropout3d",
    "alpha_dropout",
    "dropout",
    "feature_alpha_dropout",
    "sigmoid",
    "tanh",
    "embedding",
    "embedding_bag",
    "affine_grid",
    "grid_sample",
    "fold",
    "unfold",
    "group_norm",
    "grouped_mm",
    "interpolate",
    "upsample",
    "upsample_bilinear",
    "upsample_nearest",
    "layer_norm",
    "rms_norm",
    "linear",
    "bilinear",
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "multilabel_soft_margin_loss",
    "soft_margin_loss",
    "cross_entropy",
    "nll_loss",
    "ctc_loss",
    "huber_loss",
    "l1_loss",
    "linear_cross_entropy",
    "mse_loss",
    "smooth_l1_loss",
    "gaussian_nll_loss",
    "kl_div",
    "poisson_nll_loss",
    "cosine_embedding_loss",
    "hinge_embedding_loss",
    "margin_ranking_loss",
    "multi_margin_loss",
    "multilabel_margin_loss",
    "triplet_margin_loss",
    "triplet_margin_with_distance_loss",
    "multi_head_attention_forward",
    "batch_norm",
    "instance_norm",
    "one_hot",
    "pad",
    "hardshrink",
    "hardsigmoid",
    "hardswish",
    "hardtanh",
    "hardtanh_",
    "leaky_relu",
    "leaky_relu_",
    "prelu",
    "relu",
    "relu6",
    "relu_",
    "rrelu",
    "rrelu_",
    "softshrink",
    "threshold",
    "threshold_",
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
    "max_pool3d_with_indices",
    "adaptive_max_pool1d_with_indices",
    "adaptive_max_pool2d",
    "adaptive_max_pool2d_with_indices",
    "adaptive_max_pool3d",
    "adaptive_max_pool3d_with_indices",
    "fractional_max_pool2d",
    "fractional_max_pool2d_with_indices",
    "fractional_max_pool3d",
    "fractional_max_pool3d_with_indices",
    "adaptive_max_pool1d",
    "local_response_norm",
    "channel_shuffle",
    "native_channel_shuffle",
    "pixel_shuffle",
    "pixel_unshuffle",
    "log_softmax",
    "softmax",
    "gumbel_softmax",
    "softmin",
    "max_unpool1d",
    "max_unpool2d",
    "max_unpool3d",
]
