"""Vision Transformer (Dosovitskiy et al.: An Image is Worth 16x16 Words, 2021)."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import tdt
from tdt import Tensor, nn
from tdt.vision.models._api import Builder, Norm, builder
from tdt.vision.ops.misc import MLP, Conv2dNormActivation

__all__ = ["VisionTransformer", "vit_b_16", "vit_b_32", "vit_h_14", "vit_l_16", "vit_l_32"]

LAYER_NORM = partial(nn.LayerNorm, eps=1e-6)


class ConvStemConfig(NamedTuple):
    """A convolution of those that may stand in place of the division into patches."""

    out_channels: int
    kernel_size: int
    stride: int
    norm_layer: Norm = nn.BatchNorm2d
    activation_layer: Norm = nn.ReLU


class MLPBlock(MLP):
    """Two linear layers with GELU between them."""

    def __init__(self, in_dim: int, mlp_dim: int, dropout: float) -> None:
        super().__init__(in_dim, [mlp_dim, in_dim], activation_layer=nn.GELU, dropout=dropout)
        for layer in self:
            if isinstance(layer, nn.Linear):
                nn.init.xavier_uniform_(layer.weight)
                nn.init.normal_(layer.bias, std=1e-6)


class EncoderBlock(nn.Module):
    """Attention and two linear layers, each after a normalisation, around which the input goes straight."""

    def __init__(
        self, num_heads: int, hidden_dim: int, mlp_dim: int, dropout: float, attention_dropout: float, norm_layer: Norm
    ) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.ln_1 = norm_layer(hidden_dim)
        self.self_attention = nn.MultiheadAttention(hidden_dim, num_heads, dropout=attention_dropout, batch_first=True)
        self.dropout = nn.Dropout(dropout)
        self.ln_2 = norm_layer(hidden_dim)
        self.mlp = MLPBlock(hidden_dim, mlp_dim, dropout)

    def forward(self, input: Tensor) -> Tensor:
        """(n, patches, hidden_dim) → the same."""
        x = self.ln_1(input)
        x = self.dropout(self.self_attention(x, x, x, need_weights=False)[0]) + input
        return x + self.mlp(self.ln_2(x))


class Encoder(nn.Module):
    """A learned position for each patch, and blocks."""

    def __init__(
        self, seq_length: int, num_layers: int, num_heads: int, hidden_dim: int, mlp_dim: int, dropout: float,
        attention_dropout: float, norm_layer: Norm,
    ) -> None:  # fmt: skip
        super().__init__()
        self.pos_embedding = nn.Parameter(tdt.empty(1, seq_length, hidden_dim).normal_(std=0.02))
        self.dropout = nn.Dropout(dropout)
        self.layers = nn.Sequential()
        for i in range(num_layers):
            block = EncoderBlock(num_heads, hidden_dim, mlp_dim, dropout, attention_dropout, norm_layer)
            self.layers.add_module(f"encoder_layer_{i}", block)
        self.ln = norm_layer(hidden_dim)

    def forward(self, input: Tensor) -> Tensor:
        """(n, seq_length, hidden_dim) → the same."""
        return self.ln(self.layers(self.dropout(input + self.pos_embedding)))


class VisionTransformer(nn.Module):
    """Vision Transformer: the image as a sequence of patches, and a linear layer on the output of a class token.

    Args:
        hidden_dim: width of the vector of each patch.
        mlp_dim: width between the two linear layers of a block.
        attention_dropout: probability that an attention weight is zeroed in training.
        image_size: height and width of the images.
        patch_size: height and width of a patch.
        representation_size: outputs of a linear layer with tanh before the last; None for none.
        norm_layer: function of the channels.
        conv_stem_configs: a ConvStemConfig for each of the convolutions in place of the division into patches.
    Shape: x (N, 3, image_size, image_size); result (N, num_classes).
    Raises:
        ValueError: when `image_size` is no multiple of `patch_size`, or images of another size come.
    Source: Dosovitskiy et al., "An Image is Worth 16x16 Words: Transformers for Image Recognition at Scale", 2021.

    >>> import tdt
    >>> model = tdt.vision.models.VisionTransformer(32, 8, 1, 2, 16, 32, num_classes=10)
    >>> model(tdt.ones(2, 3, 32, 32)).shape
    tdt.Size([2, 10])
    """

    def __init__(
        self,
        image_size: int,
        patch_size: int,
        num_layers: int,
        num_heads: int,
        hidden_dim: int,
        mlp_dim: int,
        dropout: float = 0.0,
        attention_dropout: float = 0.0,
        num_classes: int = 1000,
        representation_size: int | None = None,
        norm_layer: Norm = LAYER_NORM,
        conv_stem_configs: Sequence[ConvStemConfig] | None = None,
    ) -> None:
        super().__init__()
        if image_size % patch_size:
            raise ValueError(f"image_size {image_size} is not a multiple of patch_size {patch_size}")
        self.image_size, self.patch_size = image_size, patch_size
        self.hidden_dim, self.mlp_dim, self.num_classes = hidden_dim, mlp_dim, num_classes
        self.dropout, self.attention_dropout = dropout, attention_dropout
        self.representation_size, self.norm_layer = representation_size, norm_layer
        self.conv_proj: Any
        if conv_stem_configs is None:
            self.conv_proj = nn.Conv2d(3, hidden_dim, patch_size, patch_size)
        else:
            self.conv_proj = _conv_stem(conv_stem_configs, hidden_dim)
        self.class_token = nn.Parameter(tdt.zeros(1, 1, hidden_dim))
        self.seq_length = (image_size // patch_size) ** 2 + 1
        self.encoder = Encoder(
            self.seq_length, num_layers, num_heads, hidden_dim, mlp_dim, dropout, attention_dropout, norm_layer
        )
        heads: OrderedDict[str, nn.Module] = OrderedDict()
        if representation_size is not None:
            heads["pre_logits"] = nn.Linear(hidden_dim, representation_size)
            heads["act"] = nn.Tanh()
        heads["head"] = nn.Linear(representation_size or hidden_dim, num_classes)
        self.heads = nn.Sequential(heads)
        self._initialise()

    def _initialise(self) -> None:
        if isinstance(self.conv_proj, nn.Conv2d):
            nn.init.trunc_normal_(self.conv_proj.weight, std=math.sqrt(1 / (3 * self.patch_size**2)))
            nn.init.zeros_(self.conv_proj.bias)
        else:
            last = self.conv_proj.conv_last
            nn.init.normal_(last.weight, std=math.sqrt(2 / last.out_channels))
            nn.init.zeros_(last.bias)
        *before, head = (layer for layer in self.heads if isinstance(layer, nn.Linear))
        for layer in before:
            nn.init.trunc_normal_(layer.weight, std=math.sqrt(1 / layer.in_features))
            nn.init.zeros_(layer.bias)
        nn.init.zeros_(head.weight)
        nn.init.zeros_(head.bias)

    def forward(self, x: Tensor) -> Tensor:
        """(n, 3, image_size, image_size) → (n, num_classes)."""
        if tuple(x.shape[-2:]) != (self.image_size, self.image_size):
            size = self.image_size
            raise ValueError(f"expected images of {size} x {size}, got {x.shape[-2]} x {x.shape[-1]}")
        patches = self.conv_proj(x).flatten(2).permute(0, 2, 1)
        token = self.class_token.expand(x.shape[0], -1, -1)
        return self.heads(self.encoder(tdt.cat([token, patches], 1))[:, 0])


def _conv_stem(configs: Sequence[ConvStemConfig], hidden_dim: int) -> nn.Sequential:
    """Convolutions, and one of 1×1 to `hidden_dim` channels."""
    layers, channels = nn.Sequential(), 3
    for i, one in enumerate(configs):
        conv = Conv2dNormActivation(
            channels, one.out_channels, one.kernel_size, one.stride, norm_layer=one.norm_layer,
            activation_layer=one.activation_layer,
        )  # fmt: skip
        layers.add_module(f"conv_bn_relu_{i}", conv)
        channels = one.out_channels
    layers.add_module("conv_last", nn.Conv2d(channels, hidden_dim, 1))
    return layers


def _vision_transformer(
    patch_size: int,
    num_layers: int,
    num_heads: int,
    hidden_dim: int,
    mlp_dim: int,
    image_size: int = 224,
    dropout: float = 0.0,
    attention_dropout: float = 0.0,
    num_classes: int = 1000,
    representation_size: int | None = None,
    norm_layer: Norm = LAYER_NORM,
    conv_stem_configs: Sequence[ConvStemConfig] | None = None,
) -> VisionTransformer:
    return VisionTransformer(
        image_size, patch_size, num_layers, num_heads, hidden_dim, mlp_dim, dropout, attention_dropout, num_classes,
        representation_size, norm_layer, conv_stem_configs,
    )  # fmt: skip


def _vit(name: str, size: str, shape: tuple[int, int, int, int], file: str) -> Builder[VisionTransformer]:
    patch = int(name[-2:])
    return builder(
        name, _vision_transformer, patch, *shape, doc=f"The {size} vision transformer of patches of {patch} × {patch}.",
        source='Dosovitskiy et al., "An Image is Worth 16x16 Words: Transformers for Image Recognition at Scale", 2021',
        file=file,
    )  # fmt: skip


BASE, LARGE, HUGE = (12, 12, 768, 3072), (24, 16, 1024, 4096), (32, 16, 1280, 5120)  # layers, heads, channels, hidden
vit_b_16 = _vit("vit_b_16", "base", BASE, "vit_b_16-c867db91.pth")
vit_b_32 = _vit("vit_b_32", "base", BASE, "vit_b_32-d86f8d99.pth")
vit_l_16 = _vit("vit_l_16", "large", LARGE, "vit_l_16-852ce7e3.pth")
vit_l_32 = _vit("vit_l_32", "large", LARGE, "vit_l_32-c7638314.pth")
vit_h_14 = _vit("vit_h_14", "huge", HUGE, "vit_h_14_swag-80465313.pth")
