"""Swin Transformer (Liu et al., 2021) and its second version (Liu et al., 2022)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import tdt
from tdt import Tensor, nn
from tdt.nn import functional as F
from tdt.vision.models._api import Builder, Norm, builder
from tdt.vision.ops.misc import MLP, Permute
from tdt.vision.ops.stochastic_depth import StochasticDepth

__all__ = ["SwinTransformer", "swin_b", "swin_s", "swin_t", "swin_v2_b", "swin_v2_s", "swin_v2_t"]


class PatchMerging(nn.Module):
    """Four neighbours become one, of twice the channels."""

    def __init__(self, dim: int, norm_layer: Norm = nn.LayerNorm) -> None:
        super().__init__()
        self.dim = dim
        self.reduction = nn.Linear(4 * dim, 2 * dim, bias=False)
        self.norm = self._norm(dim, norm_layer)

    def _norm(self, dim: int, norm_layer: Norm) -> Any:
        return norm_layer(4 * dim)

    def _neighbours(self, x: Tensor) -> Tensor:
        """(n, h, w, dim) → (n, h / 2, w / 2, 4 · dim), an odd size being filled up by zeros."""
        h, w = x.shape[-3:-1]
        x = F.pad(x, (0, 0, 0, w % 2, 0, h % 2))
        return tdt.cat([x[..., i::2, j::2, :] for j in (0, 1) for i in (0, 1)], -1)

    def forward(self, x: Tensor) -> Tensor:
        """(n, h, w, dim) → (n, h / 2, w / 2, 2 · dim)."""
        return self.reduction(self.norm(self._neighbours(x)))


class PatchMergingV2(PatchMerging):
    """As `PatchMerging`, with the normalisation last."""

    def _norm(self, dim: int, norm_layer: Norm) -> Any:
        return norm_layer(2 * dim)

    def forward(self, x: Tensor) -> Tensor:
        """(n, h, w, dim) → (n, h / 2, w / 2, 2 · dim)."""
        return self.norm(self.reduction(self._neighbours(x)))


class ShiftedWindowAttention(nn.Module):
    """Attention inside windows, which are shifted in every second layer, with a bias that depends on relative positions."""

    relative_position_index: Tensor

    def __init__(
        self, dim: int, window_size: Sequence[int], shift_size: Sequence[int], num_heads: int, qkv_bias: bool = True,
        proj_bias: bool = True, attention_dropout: float = 0.0, dropout: float = 0.0,
    ) -> None:  # fmt: skip
        super().__init__()
        if len(window_size) != 2 or len(shift_size) != 2:
            raise ValueError("window_size and shift_size must be of length 2")
        self.window_size, self.shift_size, self.num_heads = list(window_size), list(shift_size), num_heads
        self.attention_dropout, self.dropout = attention_dropout, dropout
        self.qkv = nn.Linear(dim, dim * 3, bias=qkv_bias)
        self.proj = nn.Linear(dim, dim, bias=proj_bias)
        self._define_bias()
        rows, columns = (tdt.arange(size) for size in window_size)
        place = [axis.flatten() for axis in tdt.meshgrid(rows, columns, indexing="ij")]
        down, right = (axis[:, None] - axis + size - 1 for axis, size in zip(place, window_size, strict=True))
        self.register_buffer("relative_position_index", (down * (2 * window_size[1] - 1) + right).flatten())

    def _define_bias(self) -> None:
        positions = (2 * self.window_size[0] - 1) * (2 * self.window_size[1] - 1)
        self.relative_position_bias_table = nn.Parameter(tdt.zeros(positions, self.num_heads))
        nn.init.trunc_normal_(self.relative_position_bias_table, std=0.02)

    def get_relative_position_bias(self) -> Tensor:
        """The bias (heads, positions, positions) of the scores inside a window."""
        return self._by_positions(self.relative_position_bias_table)

    def _by_positions(self, table: Tensor) -> Tensor:
        positions = self.window_size[0] * self.window_size[1]
        return table[self.relative_position_index].view(positions, positions, -1).permute(2, 0, 1)

    def _attend(self, x: Tensor, mask: Tensor) -> Tensor:
        """Attention over the positions of windows x (n, windows, positions, dim) with an additive mask."""
        query, key, value = self._heads(F.linear(x, self.qkv.weight, self.qkv.bias))
        dropout = self.attention_dropout if self.training else 0.0
        return F.scaled_dot_product_attention(query, key, value, mask, dropout)

    def _heads(self, qkv: Tensor) -> Sequence[Tensor]:
        """Queries, keys and values, each (n, windows, heads, positions, channels of a head)."""
        return qkv.unflatten(-1, (3, self.num_heads, -1)).permute(3, 0, 1, 4, 2, 5).unbind(0)

    def forward(self, x: Tensor) -> Tensor:
        """(n, h, w, dim) → the same."""
        (n, h, w, dim), (rows, columns) = x.shape, self.window_size
        x = F.pad(x, (0, 0, 0, -w % columns, 0, -h % rows))
        high, wide = x.shape[1:3]
        shift = [
            0 if window >= size else by
            for window, size, by in zip(self.window_size, (high, wide), self.shift_size, strict=True)
        ]
        bias = self.get_relative_position_bias()
        if any(shift):
            x = x.roll((-shift[0], -shift[1]), (1, 2))
            bias = bias + self._between_regions(x, shift).unsqueeze(1)
        windows = self._windows(x)
        grid = (high // rows, wide // columns)
        out = self._attend(windows, bias).transpose(2, 3).reshape(windows.shape)
        out = F.dropout(F.linear(out, self.proj.weight, self.proj.bias), self.dropout, self.training)
        out = out.view(n, *grid, rows, columns, dim).permute(0, 1, 3, 2, 4, 5).reshape(n, high, wide, dim)
        out = out.roll(tuple(shift), (1, 2)) if any(shift) else out
        return out[:, :h, :w].contiguous()

    def _windows(self, x: Tensor) -> Tensor:
        """(n, h, w, dim) → (n, windows, positions, dim)."""
        (n, high, wide, dim), (rows, columns) = x.shape, self.window_size
        x = x.view(n, high // rows, rows, wide // columns, columns, dim).permute(0, 1, 3, 2, 4, 5)
        return x.reshape(n, -1, rows * columns, dim)

    def _between_regions(self, x: Tensor, shift: Sequence[int]) -> Tensor:
        """-100 between positions (windows, positions, positions) that the shift has brought together, else 0."""
        regions = []
        for size, window, by in zip(x.shape[1:3], self.window_size, shift, strict=True):
            place = tdt.arange(size, device=x.device)
            regions.append((place >= size - window).long() + (place >= size - by).long() if by else place * 0)
        region = self._windows((3 * regions[0][:, None] + regions[1])[None, :, :, None])[0, :, :, 0]
        return (region[:, :, None] != region[:, None, :]).to(x.dtype) * -100.0


class ShiftedWindowAttentionV2(ShiftedWindowAttention):
    """As `ShiftedWindowAttention`, by the cosine of queries and keys, with a bias that two linear layers compute."""

    relative_coords_table: Tensor

    def __init__(
        self, dim: int, window_size: Sequence[int], shift_size: Sequence[int], num_heads: int, qkv_bias: bool = True,
        proj_bias: bool = True, attention_dropout: float = 0.0, dropout: float = 0.0,
    ) -> None:  # fmt: skip
        super().__init__(dim, window_size, shift_size, num_heads, qkv_bias, proj_bias, attention_dropout, dropout)
        self.logit_scale = nn.Parameter(tdt.log(10 * tdt.ones(num_heads, 1, 1)))
        self.cpb_mlp = nn.Sequential(nn.Linear(2, 512), nn.ReLU(inplace=True), nn.Linear(512, num_heads, bias=False))
        if qkv_bias:
            with tdt.no_grad():
                self.qkv.bias[dim : 2 * dim].zero_()

    def _define_bias(self) -> None:
        """A table of the relative positions, on a logarithmic scale."""
        axes = [tdt.arange(1 - size, size, dtype=tdt.float32) / (size - 1) * 8 for size in self.window_size]
        table = tdt.stack(tdt.meshgrid(*axes, indexing="ij"), -1)[None]
        self.register_buffer("relative_coords_table", table.sign() * tdt.log2(table.abs() + 1.0) / 3.0)

    def get_relative_position_bias(self) -> Tensor:
        """The bias (heads, positions, positions) of the scores inside a window."""
        table = self.cpb_mlp(self.relative_coords_table).view(-1, self.num_heads)
        return 16 * self._by_positions(table).sigmoid()

    def _attend(self, x: Tensor, mask: Tensor) -> Tensor:
        bias: Tensor | None = self.qkv.bias
        if bias is not None:  # keys have none
            dim = x.shape[-1]
            bias = tdt.cat([bias[:dim], bias[:dim] * 0, bias[2 * dim :]])
        query, key, value = self._heads(F.linear(x, self.qkv.weight, bias))
        query = F.normalize(query, dim=-1) * self.logit_scale.clamp(max=math.log(100.0)).exp()
        dropout = self.attention_dropout if self.training else 0.0
        return F.scaled_dot_product_attention(query, F.normalize(key, dim=-1), value, mask, dropout, scale=1.0)


class SwinTransformerBlock(nn.Module):
    """Attention in windows and two linear layers, each after a normalisation, around which the input goes straight."""

    def __init__(
        self, dim: int, num_heads: int, window_size: Sequence[int], shift_size: Sequence[int], mlp_ratio: float = 4.0,
        dropout: float = 0.0, attention_dropout: float = 0.0, stochastic_depth_prob: float = 0.0,
        norm_layer: Norm = nn.LayerNorm, attn_layer: Norm = ShiftedWindowAttention,
    ) -> None:  # fmt: skip
        super().__init__()
        self.norm1 = norm_layer(dim)
        self.attn = attn_layer(
            dim, window_size, shift_size, num_heads, attention_dropout=attention_dropout, dropout=dropout
        )
        self.stochastic_depth = StochasticDepth(stochastic_depth_prob, "row")
        self.norm2 = norm_layer(dim)
        self.mlp = MLP(dim, [int(dim * mlp_ratio), dim], activation_layer=nn.GELU, dropout=dropout)
        for layer in self.mlp:
            if isinstance(layer, nn.Linear):
                nn.init.xavier_uniform_(layer.weight)
                nn.init.normal_(layer.bias, std=1e-6)

    def forward(self, x: Tensor) -> Tensor:
        """(n, h, w, dim) → the same."""
        x = x + self.stochastic_depth(self.attn(self.norm1(x)))
        return x + self.stochastic_depth(self.mlp(self.norm2(x)))


class SwinTransformerBlockV2(SwinTransformerBlock):
    """As `SwinTransformerBlock`, with each normalisation last."""

    def __init__(
        self, dim: int, num_heads: int, window_size: Sequence[int], shift_size: Sequence[int], mlp_ratio: float = 4.0,
        dropout: float = 0.0, attention_dropout: float = 0.0, stochastic_depth_prob: float = 0.0,
        norm_layer: Norm = nn.LayerNorm, attn_layer: Norm = ShiftedWindowAttentionV2,
    ) -> None:  # fmt: skip
        super().__init__(
            dim, num_heads, window_size, shift_size, mlp_ratio, dropout, attention_dropout, stochastic_depth_prob,
            norm_layer, attn_layer,
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        """(n, h, w, dim) → the same."""
        x = x + self.stochastic_depth(self.norm1(self.attn(x)))
        return x + self.stochastic_depth(self.norm2(self.mlp(x)))


class SwinTransformer(nn.Module):
    """Swin Transformer: stages of attention in windows, a mean over the image and one linear layer.

    Args:
        patch_size, window_size: height and width.
        embed_dim: channels of the first stage; each later one has twice those before it.
        depths, num_heads: blocks and heads of each stage.
        mlp_ratio: channels between a block's two linear layers, in multiples of the stage's.
        attention_dropout: probability that an attention weight is zeroed in training.
        stochastic_depth_prob: probability that the last block's branches are left out; those before have less.
        norm_layer: function of the channels; None stands for layer norm.
        block: class of the blocks; None for those of the first version.
        downsample_layer: class of the layers between stages.
    Shape: x (N, 3, H, W); result (N, num_classes).
    Source: Liu et al., "Swin Transformer: Hierarchical Vision Transformer using Shifted Windows", 2021.

    >>> import tdt
    >>> model = tdt.vision.models.SwinTransformer([4, 4], 8, [1, 2], [1, 2], [4, 4], num_classes=10)
    >>> model(tdt.ones(2, 3, 32, 32)).shape
    tdt.Size([2, 10])
    """

    def __init__(
        self,
        patch_size: Sequence[int],
        embed_dim: int,
        depths: Sequence[int],
        num_heads: Sequence[int],
        window_size: Sequence[int],
        mlp_ratio: float = 4.0,
        dropout: float = 0.0,
        attention_dropout: float = 0.0,
        stochastic_depth_prob: float = 0.1,
        num_classes: int = 1000,
        norm_layer: Norm | None = None,
        block: Norm | None = None,
        downsample_layer: Norm = PatchMerging,
    ) -> None:
        super().__init__()
        self.num_classes = num_classes
        block, norm = block or SwinTransformerBlock, norm_layer or partial(nn.LayerNorm, eps=1e-5)
        size = (patch_size[0], patch_size[1])
        layers: list[Any] = [nn.Sequential(nn.Conv2d(3, embed_dim, size, size), Permute([0, 2, 3, 1]), norm(embed_dim))]
        dim, number = embed_dim, 0
        for stage, (depth, heads) in enumerate(zip(depths, num_heads, strict=True)):
            blocks: list[Any] = []
            for i in range(depth):
                shift = [size // 2 if i % 2 else 0 for size in window_size]
                probability = stochastic_depth_prob * number / max(sum(depths) - 1, 1)
                blocks.append(
                    block(dim, heads, window_size, shift, mlp_ratio, dropout, attention_dropout, probability, norm)
                )
                number += 1
            layers.append(nn.Sequential(*blocks))
            if stage < len(depths) - 1:
                layers.append(downsample_layer(dim, norm))
                dim *= 2
        self.features = nn.Sequential(*layers)
        self.norm = norm(dim)
        self.permute = Permute([0, 3, 1, 2])
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.flatten = nn.Flatten(1)
        self.head = nn.Linear(dim, num_classes)
        for layer in self.modules():
            if isinstance(layer, nn.Linear):
                nn.init.trunc_normal_(layer.weight, std=0.02)
                if layer.bias is not None:
                    nn.init.zeros_(layer.bias)

    def forward(self, x: Tensor) -> Tensor:
        """(n, 3, h, w) → (n, num_classes)."""
        return self.head(self.flatten(self.avgpool(self.permute(self.norm(self.features(x))))))


def _swin(name: str, embed_dim: int, depth: int, probability: float, file: str) -> Builder[SwinTransformer]:
    second = "_v2_" in name
    window = 8 if second else 7
    heads = [embed_dim // 32 * 2**stage for stage in range(4)]
    version: dict[str, Any] = {"block": SwinTransformerBlockV2, "downsample_layer": PatchMergingV2} if second else {}
    title = "Swin Transformer V2: Scaling Up Capacity and Resolution"
    first = "Swin Transformer: Hierarchical Vision Transformer using Shifted Windows"
    return builder(
        name, SwinTransformer, [4, 4], embed_dim, [2, 2, depth, 2], heads, [window, window],
        stochastic_depth_prob=probability, **version, file=file,
        doc=f"Swin Transformer{' V2' * second} of {embed_dim} channels and {depth + 6} blocks.",
        source=f'Liu et al., "{title if second else first}", {2022 if second else 2021}',
    )  # fmt: skip


swin_t = _swin("swin_t", 96, 6, 0.2, "swin_t-704ceda3.pth")
swin_s = _swin("swin_s", 96, 18, 0.3, "swin_s-5e29d889.pth")
swin_b = _swin("swin_b", 128, 18, 0.5, "swin_b-68c6b09e.pth")
swin_v2_t = _swin("swin_v2_t", 96, 6, 0.2, "swin_v2_t-b137f0e2.pth")
swin_v2_s = _swin("swin_v2_s", 96, 18, 0.3, "swin_v2_s-637d8ceb.pth")
swin_v2_b = _swin("swin_v2_b", 128, 18, 0.5, "swin_v2_b-781e5279.pth")
