"""Multi-head attention as a layer: the weights of its projections."""

from __future__ import annotations

from typing import Any

from tdt._core.creation import empty
from tdt._core.tensor import Tensor
from tdt._ops.nn.multi_head import each
from tdt.nn import functional as F
from tdt.nn import init
from tdt.nn._types import Device, Dtype
from tdt.nn.modules.linear import NonDynamicallyQuantizableLinear
from tdt.nn.modules.module import Module
from tdt.nn.parameter import Parameter

PROJECTIONS = ("q_proj_weight", "k_proj_weight", "v_proj_weight")


class MultiheadAttention(Module):
    """Multi-head attention: for each query a weighted mean of values, by its similarity to their keys, in several
    projections.

    Without the weights memory grows with L + S, not with L · S. Weights of the projections start as `xavier_uniform_`.

    Args:
        embed_dim: features of queries and of the output, divided among the heads.
        dropout: probability of dropping attention weights, in training.
        bias: whether the projections have biases.
        add_bias_kv: append a learned key and value to every sequence.
        add_zero_attn: append a key and a value of zeros to every sequence.
        kdim, vdim: numbers of features of keys and values; None stands for embed_dim.
        batch_first: whether N precedes the length in inputs and output.
    Shape: query (L, N, embed_dim), key (S, N, kdim), value (S, N, vdim), or all without N; key_padding_mask (N, S),
        attn_mask (L, S) or (N · num_heads, L, S), True where attention is not allowed, or numbers that are added to the
        scores; result a pair: output as query, and weights (N, L, S), (N, num_heads, L, S) unless average_attn_weights,
        or
        None unless need_weights.
    Raises:
        ValueError: when embed_dim or num_heads is not positive.
        AssertionError: when embed_dim is not divisible by num_heads, or shapes do not match.
    Source: Vaswani et al., "Attention Is All You Need", 2017.

    >>> import tdt
    >>> x = tdt.rand(2, 5, 8)
    >>> out, weights = tdt.nn.MultiheadAttention(8, 2, batch_first=True)(x, x, x)
    >>> out.shape, weights.shape
    (tdt.Size([2, 5, 8]), tdt.Size([2, 5, 5]))
    """

    in_proj_weight: Parameter | None
    in_proj_bias: Parameter | None
    q_proj_weight: Parameter | None
    k_proj_weight: Parameter | None
    v_proj_weight: Parameter | None
    bias_k: Parameter | None
    bias_v: Parameter | None

    def __init__(self, embed_dim: int, num_heads: int, dropout: float = 0.0, bias: bool = True, add_bias_kv: bool = False,
                 add_zero_attn: bool = False, kdim: int | None = None, vdim: int | None = None, batch_first: bool = False,
                 device: Device = None, dtype: Dtype = None):  # fmt: skip
        if embed_dim <= 0 or num_heads <= 0:
            raise ValueError(f"embed_dim and num_heads must be greater than 0, got embed_dim={embed_dim} and "
                             f"num_heads={num_heads} instead")  # fmt: skip
        super().__init__()
        self.embed_dim, self.num_heads, self.head_dim = embed_dim, num_heads, embed_dim // num_heads
        self.kdim, self.vdim = embed_dim if kdim is None else kdim, embed_dim if vdim is None else vdim
        self.dropout, self.batch_first, self.add_zero_attn = dropout, batch_first, add_zero_attn
        if embed_dim % num_heads:
            raise AssertionError(f"embed_dim must be divisible by num_heads; got {embed_dim} and {num_heads}")
        how: dict[str, Any] = {"device": device, "dtype": dtype}
        rows = {"in_proj_weight": 3 * embed_dim} if self._qkv_same_embed_dim else dict.fromkeys(PROJECTIONS, embed_dim)
        columns = {"k_proj_weight": self.kdim, "v_proj_weight": self.vdim}
        for name in ("in_proj_weight", *PROJECTIONS):
            weight = Parameter(empty(rows[name], columns.get(name, embed_dim), **how)) if name in rows else None
            self.register_parameter(name, weight)
        self.register_parameter("in_proj_bias", Parameter(empty(3 * embed_dim, **how)) if bias else None)
        self.out_proj = NonDynamicallyQuantizableLinear(embed_dim, embed_dim, bias=bias, **how)
        self.bias_k = Parameter(empty(1, 1, embed_dim, **how)) if add_bias_kv else None
        self.bias_v = Parameter(empty(1, 1, embed_dim, **how)) if add_bias_kv else None
        self._reset_parameters()

    @property
    def _qkv_same_embed_dim(self) -> bool:
        return self.kdim == self.embed_dim == self.vdim

    def _reset_parameters(self) -> None:
        for weight in (self.in_proj_weight, self.q_proj_weight, self.k_proj_weight, self.v_proj_weight):
            if weight is not None:
                init.xavier_uniform_(weight)
        if self.in_proj_bias is not None:
            init.zeros_(self.in_proj_bias)
            init.zeros_(self.out_proj.bias)
        for more in (self.bias_k, self.bias_v):
            if more is not None:
                init.xavier_normal_(more)

    def forward(self, query: Tensor, key: Tensor, value: Tensor, key_padding_mask: Tensor | None = None,
                need_weights: bool = True, attn_mask: Tensor | None = None, average_attn_weights: bool = True,
                is_causal: bool = False) -> tuple[Tensor, Tensor | None]:  # fmt: skip
        turned = self.batch_first and query.ndim == 3
        if turned:
            query, key, value = each(lambda t: t.transpose(0, 1), query, key, value)
        out, weights = F.multi_head_attention_forward(
            query, key, value, self.embed_dim, self.num_heads, self.in_proj_weight, self.in_proj_bias, self.bias_k,
            self.bias_v, self.add_zero_attn, self.dropout, self.out_proj.weight, self.out_proj.bias, self.training,
            key_padding_mask, need_weights, attn_mask, not self._qkv_same_embed_dim, self.q_proj_weight,
            self.k_proj_weight, self.v_proj_weight, average_attn_weights=average_attn_weights, is_causal=is_causal,
        )  # fmt: skip
        return (out.transpose(0, 1) if turned else out), weights

    def merge_masks(self, attn_mask: Tensor | None, key_padding_mask: Tensor | None,
                    query: Tensor) -> tuple[Tensor | None, int | None]:  # fmt: skip
        """Both masks as one, and its kind: (N, L) and 1 for padding alone, (N, num_heads, L, L) and 2 else; or None, None.

        query: (N, L, E).
        """
        if attn_mask is None:
            return key_padding_mask, None if key_padding_mask is None else 1
        batch, length, _ = query.shape
        if attn_mask.ndim == 3:
            merged = attn_mask.reshape(batch, -1, length, length)
        else:
            merged = attn_mask.reshape(1, 1, length, length).expand(batch, self.num_heads, -1, -1)
        if key_padding_mask is not None:
            merged = merged + key_padding_mask.reshape(batch, 1, 1, length)
        return merged, 2
