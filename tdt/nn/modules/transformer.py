"""The Transformer: encoder and decoder, of layers that attend and then work on every place by itself."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

from tdt._core.creation import full
from tdt._core.mode import state
from tdt._core.tensor import Tensor
from tdt._ops.nn.multi_head import float_mask
from tdt.nn import functional as F
from tdt.nn import init
from tdt.nn._types import Device, Dtype
from tdt.nn.modules.activation import GELU, ReLU
from tdt.nn.modules.attention import MultiheadAttention
from tdt.nn.modules.container import ModuleList
from tdt.nn.modules.dropout import Dropout
from tdt.nn.modules.linear import Linear
from tdt.nn.modules.module import Module
from tdt.nn.modules.normalization import LayerNorm

Activation = str | Callable[[Tensor], Tensor]
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"relu": F.relu, "gelu": F.gelu}


def _get_activation_fn(activation: str) -> Callable[[Tensor], Tensor]:
    """The function of an activation's name; models outside import it under this name of PyTorch's."""
    if activation not in ACTIVATIONS:
        raise RuntimeError(f"activation should be relu/gelu, not {activation}")
    return ACTIVATIONS[activation]


class _Layer(Module):
    """What both kinds of layer have: attentions by name, each a block with its own norm and dropout, and a feed-forward
    block after them. A block's result is added to what came in; the norm stands before the block (`norm_first`), or after
    the sum."""

    attentions: tuple[str, ...]
    activation: Callable[[Tensor], Tensor]

    def __init__(self, d_model: int, nhead: int, dim_feedforward: int = 2048, dropout: float = 0.1,
                 activation: Activation = F.relu, layer_norm_eps: float = 1e-5, batch_first: bool = False,
                 norm_first: bool = False, bias: bool = True, device: Device = None, dtype: Dtype = None):  # fmt: skip
        how: dict[str, Any] = {"bias": bias, "device": device, "dtype": dtype}
        super().__init__()
        for name in self.attentions:
            setattr(self, name, MultiheadAttention(d_model, nhead, dropout=dropout, batch_first=batch_first, **how))
        self.linear1 = Linear(d_model, dim_feedforward, **how)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, **how)
        self.norm_first = norm_first
        blocks = range(1, len(self.attentions) + 2)
        for i in blocks:
            setattr(self, f"norm{i}", LayerNorm(d_model, layer_norm_eps, **how))
        for i in blocks:
            setattr(self, f"dropout{i}", Dropout(dropout))
        if isinstance(activation, str):
            activation = _get_activation_fn(activation)
        self.activation = activation
        kinds = {F.relu: 1, F.gelu: 2, ReLU: 1, GELU: 2}
        self.activation_relu_or_gelu = kinds.get(activation, kinds.get(type(activation), 0))

    def _add(self, x: Tensor, norm: Module, block: Callable[[Tensor], Tensor]) -> Tensor:
        return x + block(norm(x)) if self.norm_first else norm(x + block(x))

    def _ff_block(self, x: Tensor) -> Tensor:
        x = self.linear2(self.dropout(self.activation(self.linear1(x))))
        return getattr(self, f"dropout{len(self.attentions) + 1}")(x)


class TransformerEncoderLayer(_Layer):
    """Self-attention and a feed-forward network, each with dropout, a residual sum and layer normalisation.

    Args:
        d_model: features of every position.
        nhead: number of attention heads, which divides d_model.
        layer_norm_eps: added to the variance in layer norms.
        batch_first: whether N precedes the length in inputs and output.
        dim_feedforward: width of the hidden layer of the feed-forward network.
        activation: "relu", "gelu" or a function of a tensor.
        norm_first: normalise before each block instead of after its sum.
    Shape: src (S, N, d_model), N first if batch_first, or (S, d_model); src_mask (S, S) or (N · nhead, S, S) and
        src_key_padding_mask (N, S), True where attention is not allowed, or numbers that are added; result as src.
    Raises:
        RuntimeError: when `activation` is another name.
    Source: Vaswani et al., "Attention Is All You Need", 2017; norm_first: Xiong et al., 2020.

    >>> import tdt
    >>> tdt.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)(tdt.rand(3, 5, 8)).shape
    tdt.Size([3, 5, 8])
    """

    dropout1: Dropout

    attentions = ("self_attn",)
    self_attn: MultiheadAttention
    norm1: LayerNorm
    norm2: LayerNorm

    def forward(self, src: Tensor, src_mask: Tensor | None = None, src_key_padding_mask: Tensor | None = None,
                is_causal: bool = False) -> Tensor:  # fmt: skip
        padding = float_mask(src_key_padding_mask, "src_key_padding_mask", src.dtype, src_mask, "src_mask")
        mask = float_mask(src_mask, "src_mask", src.dtype)
        x = self._add(src, self.norm1, lambda x: self._sa_block(x, mask, padding, is_causal))
        return self._add(x, self.norm2, self._ff_block)

    def _sa_block(self, x: Tensor, attn_mask: Tensor | None, key_padding_mask: Tensor | None,
                  is_causal: bool = False) -> Tensor:  # fmt: skip
        return self.dropout1(self.self_attn(x, x, x, key_padding_mask, False, attn_mask, is_causal=is_causal)[0])


class TransformerDecoderLayer(_Layer):
    """Self-attention, attention to the encoder's output and a feed-forward network, each with dropout and a residual sum.

    Args:
        d_model: features of every position.
        nhead: number of attention heads, which divides d_model.
        layer_norm_eps: added to the variance in layer norms.
        batch_first: whether N precedes the length in inputs and output.
        dim_feedforward: width of the hidden layer of the feed-forward network.
        activation: "relu", "gelu" or a function of a tensor.
        norm_first: normalise before each block instead of after its sum.
    Shape: tgt (T, N, d_model), memory (S, N, d_model), N first if batch_first, or both without N; tgt_mask (T, T) and
        memory_mask (T, S), or with N · nhead before it; tgt_key_padding_mask (N, T), memory_key_padding_mask (N, S),
        True
        where attention is not allowed; result as tgt.
    Source: Vaswani et al., "Attention Is All You Need", 2017; norm_first: Xiong et al., 2020.

    >>> import tdt
    >>> tdt.nn.TransformerDecoderLayer(8, 2, 16)(tdt.rand(5, 3, 8), tdt.rand(7, 3, 8)).shape
    tdt.Size([5, 3, 8])
    """

    dropout1: Dropout
    dropout2: Dropout

    attentions = ("self_attn", "multihead_attn")
    self_attn: MultiheadAttention
    multihead_attn: MultiheadAttention
    norm1: LayerNorm
    norm2: LayerNorm
    norm3: LayerNorm

    def forward(self, tgt: Tensor, memory: Tensor, tgt_mask: Tensor | None = None, memory_mask: Tensor | None = None,
                tgt_key_padding_mask: Tensor | None = None, memory_key_padding_mask: Tensor | None = None,
                tgt_is_causal: bool = False, memory_is_causal: bool = False) -> Tensor:  # fmt: skip
        x = self._add(tgt, self.norm1, lambda x: self._sa_block(x, tgt_mask, tgt_key_padding_mask, tgt_is_causal))
        x = self._add(
            x,
            self.norm2,
            lambda x: self._mha_block(x, memory, memory_mask, memory_key_padding_mask, memory_is_causal),
        )
        return self._add(x, self.norm3, self._ff_block)

    def _sa_block(self, x: Tensor, attn_mask: Tensor | None, key_padding_mask: Tensor | None,
                  is_causal: bool = False) -> Tensor:  # fmt: skip
        return self.dropout1(self.self_attn(x, x, x, key_padding_mask, False, attn_mask, is_causal=is_causal)[0])

    def _mha_block(self, x: Tensor, mem: Tensor, attn_mask: Tensor | None, key_padding_mask: Tensor | None,
                   is_causal: bool = False) -> Tensor:  # fmt: skip
        found = self.multihead_attn(x, mem, mem, key_padding_mask, False, attn_mask, is_causal=is_causal)
        return self.dropout2(found[0])


def _copies(layer: Module, count: int) -> ModuleList:
    return ModuleList(copy.deepcopy(layer) for _ in range(count))


class TransformerEncoder(Module):
    """Stack of `num_layers` copies of an encoder layer, followed by `norm` if given.

    Where PyTorch computes in nested tensors (evaluation of a padded batch without gradients), padding that follows all
    other
    positions gives zeros, as there.

    Args:
        encoder_layer: the layer that is copied.
        norm: module applied to the last layer's output.
        enable_nested_tensor: False computes padded positions like all others.
        mask_check: accepted without effect, for PyTorch's sake.
    Shape: src, masks and result as for `TransformerEncoderLayer`; is_causal=None checks whether the mask is causal.

    >>> import tdt
    >>> layer = tdt.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    >>> tdt.nn.TransformerEncoder(layer, 2)(tdt.rand(3, 5, 8)).shape
    tdt.Size([3, 5, 8])
    """

    norm: Module | None

    def __init__(self, encoder_layer: TransformerEncoderLayer, num_layers: int, norm: Module | None = None,
                 enable_nested_tensor: bool = True, mask_check: bool = True):  # fmt: skip
        super().__init__()
        self.layers = _copies(encoder_layer, num_layers)
        self.num_layers, self.norm = num_layers, norm
        self.enable_nested_tensor, self.mask_check = enable_nested_tensor, mask_check
        self.use_nested_tensor = enable_nested_tensor and _may_nest(encoder_layer)

    def forward(self, src: Tensor, mask: Tensor | None = None, src_key_padding_mask: Tensor | None = None,
                is_causal: bool | None = None) -> Tensor:  # fmt: skip
        padding = float_mask(src_key_padding_mask, "src_key_padding_mask", src.dtype, mask, "mask")
        mask = float_mask(mask, "mask", src.dtype)
        first = self.layers[0]
        is_causal = _is_causal(mask, is_causal, src, first.self_attn.batch_first)
        out = src
        for layer in self.layers:
            out = layer(out, src_mask=mask, is_causal=is_causal, src_key_padding_mask=padding)
        if padding is not None and mask is None and self._leaves_out(src, padding.ne(0), first):
            out = out.masked_fill(padding.ne(0).unsqueeze(-1), 0)
        return out if self.norm is None else self.norm(out)

    def _leaves_out(self, src: Tensor, padded: Tensor, first: Module) -> bool:
        """Whether PyTorch would compute without the places of padding, in nested tensors."""
        if not self.use_nested_tensor or first.training or src.ndim != 3:
            return False
        if state.grad and any(t.requires_grad for t in (src, *first.parameters())):
            return False
        return not self.mask_check or not bool((padded[:, :-1] & ~padded[:, 1:]).any())


def _may_nest(layer: Module) -> bool:
    return (
        isinstance(layer, TransformerEncoderLayer)
        and not layer.norm_first
        and layer.self_attn.batch_first
        and layer.self_attn.in_proj_bias is not None
        and layer.activation_relu_or_gelu > 0
        and layer.norm1.eps == layer.norm2.eps
        and layer.self_attn.num_heads % 2 == 0
    )


class TransformerDecoder(Module):
    """Stack of `num_layers` copies of a decoder layer, followed by `norm` if given.

    Args:
        decoder_layer: the layer that is copied.
        norm: module applied to the last layer's output.
    Shape: tgt, memory, masks and result as for `TransformerDecoderLayer`; tgt_is_causal=None checks whether tgt_mask is
        causal.

    >>> import tdt
    >>> layer = tdt.nn.TransformerDecoderLayer(8, 2, 16)
    >>> tdt.nn.TransformerDecoder(layer, 2)(tdt.rand(5, 3, 8), tdt.rand(7, 3, 8)).shape
    tdt.Size([5, 3, 8])
    """

    norm: Module | None

    def __init__(self, decoder_layer: TransformerDecoderLayer, num_layers: int, norm: Module | None = None):
        super().__init__()
        self.layers = _copies(decoder_layer, num_layers)
        self.num_layers, self.norm = num_layers, norm

    def forward(self, tgt: Tensor, memory: Tensor, tgt_mask: Tensor | None = None, memory_mask: Tensor | None = None,
                tgt_key_padding_mask: Tensor | None = None, memory_key_padding_mask: Tensor | None = None,
                tgt_is_causal: bool | None = None, memory_is_causal: bool = False) -> Tensor:  # fmt: skip
        causal = _is_causal(tgt_mask, tgt_is_causal, tgt, self.layers[0].self_attn.batch_first)
        out = tgt
        for layer in self.layers:
            out = layer(out, memory, tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask, causal,
                        memory_is_causal)  # fmt: skip
        return out if self.norm is None else self.norm(out)


def _is_causal(mask: Tensor | None, is_causal: bool | None, x: Tensor, batch_first: bool) -> bool:
    """The hint, or without one, whether the mask is `generate_square_subsequent_mask`'s for `x`."""
    if is_causal is not None or mask is None:
        return bool(is_causal)
    length = x.shape[0 if x.ndim == 2 or not batch_first else 1]
    causal = Transformer.generate_square_subsequent_mask(length, mask.device, mask.dtype)
    return mask.shape == causal.shape and bool(mask.eq(causal).all())


class Transformer(Module):
    """Encoder-decoder transformer: the decoder attends to the encoder's output. Weights start as `xavier_uniform_`.

    Args:
        d_model: features of every position.
        nhead: number of attention heads, which divides d_model.
        num_encoder_layers, num_decoder_layers: number of layers of each.
        layer_norm_eps: added to the variance in layer norms.
        batch_first: whether N precedes the length in inputs and output.
        dim_feedforward: width of the hidden layer of each feed-forward network.
        dropout: probability of dropping elements in every layer, in training.
        activation: "relu", "gelu" or a function of a tensor.
        custom_encoder, custom_decoder: modules to use in the place of the standard ones.
        norm_first: normalise before each block instead of after it.
    Shape: src (S, N, d_model), tgt (T, N, d_model), N first if batch_first, or both without N; src_mask (S, S),
        tgt_mask (T, T), memory_mask (T, S), padding masks (N, S) and (N, T), True where attention is not allowed;
        result as tgt.
    Raises:
        RuntimeError: when the batch or feature sizes of src and tgt do not match.
    Source: Vaswani et al., "Attention Is All You Need", 2017.

    >>> import tdt
    >>> model = tdt.nn.Transformer(8, 2, 1, 1, 16)
    >>> model(tdt.rand(5, 3, 8), tdt.rand(4, 3, 8), tgt_mask=model.generate_square_subsequent_mask(4)).shape
    tdt.Size([4, 3, 8])
    """

    def __init__(self, d_model: int = 512, nhead: int = 8, num_encoder_layers: int = 6, num_decoder_layers: int = 6,
                 dim_feedforward: int = 2048, dropout: float = 0.1, activation: Activation = F.relu,
                 custom_encoder: Module | None = None, custom_decoder: Module | None = None, layer_norm_eps: float = 1e-5,
                 batch_first: bool = False, norm_first: bool = False, bias: bool = True, device: Device = None,
                 dtype: Dtype = None):  # fmt: skip
        super().__init__()
        how: dict[str, Any] = {"bias": bias, "device": device, "dtype": dtype}
        args = d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first
        if custom_encoder is None:
            layer = TransformerEncoderLayer(*args, **how)
            custom_encoder = TransformerEncoder(layer, num_encoder_layers, LayerNorm(d_model, layer_norm_eps, **how))
        self.encoder = custom_encoder
        if custom_decoder is None:
            last = TransformerDecoderLayer(*args, **how)
            custom_decoder = TransformerDecoder(last, num_decoder_layers, LayerNorm(d_model, layer_norm_eps, **how))
        self.decoder = custom_decoder
        self._reset_parameters()
        self.d_model, self.nhead, self.batch_first = d_model, nhead, batch_first

    def _reset_parameters(self) -> None:
        for p in self.parameters():
            if p.ndim > 1:
                init.xavier_uniform_(p)

    def forward(self, src: Tensor, tgt: Tensor, src_mask: Tensor | None = None, tgt_mask: Tensor | None = None,
                memory_mask: Tensor | None = None, src_key_padding_mask: Tensor | None = None,
                tgt_key_padding_mask: Tensor | None = None, memory_key_padding_mask: Tensor | None = None,
                src_is_causal: bool | None = None, tgt_is_causal: bool | None = None,
                memory_is_causal: bool = False) -> Tensor:  # fmt: skip
        batch = 0 if self.batch_first else 1
        if src.ndim == 3 and src.shape[batch] != tgt.shape[batch]:
            raise RuntimeError(f"the batch number of src and tgt must be equal; src {list(src.shape)}, tgt {list(tgt.shape)}, "
                               f"batch_first={self.batch_first}")  # fmt: skip
        if not src.shape[-1] == tgt.shape[-1] == self.d_model:
            raise RuntimeError("the feature number of src and tgt must be equal to d_model; src "
                               f"{list(src.shape)}, tgt {list(tgt.shape)}, d_model {self.d_model}")  # fmt: skip
        memory = self.encoder(src, mask=src_mask, src_key_padding_mask=src_key_padding_mask, is_causal=src_is_causal)
        return self.decoder(
            tgt, memory, tgt_mask=tgt_mask, memory_mask=memory_mask, tgt_key_padding_mask=tgt_key_padding_mask,
            memory_key_padding_mask=memory_key_padding_mask, tgt_is_causal=tgt_is_causal,
            memory_is_causal=memory_is_causal,
        )  # fmt: skip

    @staticmethod
    def generate_square_subsequent_mask(sz: int, device: Device = None, dtype: Dtype = None) -> Tensor:
        """(sz, sz): 0 where a place may look, up to itself, and -inf behind it."""
        return full((sz, sz), -math.inf, device=device, dtype=dtype).triu(1)
