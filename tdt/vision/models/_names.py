"""Names of parameters in files of timm and of Hugging Face, as torchvision's networks have them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import tdt
from tdt import Tensor

_VIT = r"encoder.layers.encoder_layer_\1."

# Library and network → patterns of its names and torchvision's; `{2*\2+1}` computes with the numbers in a name.
NAMES: dict[str, tuple[tuple[str, str], ...]] = {
    "timm ViT": (
        (r"cls_token", "class_token"), (r"pos_embed", "encoder.pos_embedding"), (r"patch_embed\.proj\.", "conv_proj."),
        (r"blocks\.(\d+)\.norm([12])\.", _VIT + r"ln_\2."),
        (r"blocks\.(\d+)\.attn\.qkv\.", _VIT + "self_attention.in_proj_"),
        (r"blocks\.(\d+)\.attn\.proj\.", _VIT + "self_attention.out_proj."),
        (r"blocks\.(\d+)\.mlp\.fc1\.", _VIT + "mlp.0."), (r"blocks\.(\d+)\.mlp\.fc2\.", _VIT + "mlp.3."),
        (r"norm\.", "encoder.ln."), (r"head\.", "heads.head."),
    ),
    "Hugging Face ViT": (
        (r"(?:vit\.)?embeddings\.cls_token", "class_token"),
        (r"(?:vit\.)?embeddings\.position_embeddings", "encoder.pos_embedding"),
        (r"(?:vit\.)?embeddings\.patch_embeddings\.projection\.", "conv_proj."),
        (r"(?:vit\.)?(?:encoder\.layer|layers)\.(\d+)\.layernorm_before\.", _VIT + "ln_1."),
        (r"(?:vit\.)?(?:encoder\.layer|layers)\.(\d+)\.layernorm_after\.", _VIT + "ln_2."),
        (r"(?:vit\.)?encoder\.layer\.(\d+)\.attention\.attention\.(query|key|value)\.", _VIT + r"self_attention.\2_"),
        (r"(?:vit\.)?layers\.(\d+)\.attention\.q_proj\.", _VIT + "self_attention.query_"),
        (r"(?:vit\.)?layers\.(\d+)\.attention\.k_proj\.", _VIT + "self_attention.key_"),
        (r"(?:vit\.)?layers\.(\d+)\.attention\.v_proj\.", _VIT + "self_attention.value_"),
        (r"(?:vit\.)?encoder\.layer\.(\d+)\.attention\.output\.dense\.", _VIT + "self_attention.out_proj."),
        (r"(?:vit\.)?layers\.(\d+)\.attention\.o_proj\.", _VIT + "self_attention.out_proj."),
        (r"(?:vit\.)?encoder\.layer\.(\d+)\.intermediate\.dense\.", _VIT + "mlp.0."),
        (r"(?:vit\.)?encoder\.layer\.(\d+)\.output\.dense\.", _VIT + "mlp.3."),
        (r"(?:vit\.)?layers\.(\d+)\.mlp\.fc1\.", _VIT + "mlp.0."), (r"(?:vit\.)?layers\.(\d+)\.mlp\.fc2\.", _VIT + "mlp.3."),
        (r"(?:vit\.)?layernorm\.", "encoder.ln."), (r"classifier\.", "heads.head."),
    ),
    "Hugging Face ResNet": (
        (r"(?:resnet\.)?embedder\.embedder\.convolution\.", "conv1."),
        (r"(?:resnet\.)?embedder\.embedder\.normalization\.", "bn1."),
        (r"(?:resnet\.)?encoder\.stages\.(\d+)\.layers\.(\d+)\.shortcut\.convolution\.", r"layer{\1+1}.\2.downsample.0."),
        (r"(?:resnet\.)?encoder\.stages\.(\d+)\.layers\.(\d+)\.shortcut\.normalization\.", r"layer{\1+1}.\2.downsample.1."),
        (r"(?:resnet\.)?encoder\.stages\.(\d+)\.layers\.(\d+)\.layer\.(\d+)\.convolution\.", r"layer{\1+1}.\2.conv{\3+1}."),
        (r"(?:resnet\.)?encoder\.stages\.(\d+)\.layers\.(\d+)\.layer\.(\d+)\.normalization\.", r"layer{\1+1}.\2.bn{\3+1}."),
        (r"classifier\.1\.", "fc."),
    ),
    "timm ConvNeXt": (
        (r"stem\.([01])\.", r"features.0.\1."), (r"stages\.(\d+)\.downsample\.([01])\.", r"features.{2*\1}.\2."),
        (r"stages\.(\d+)\.blocks\.(\d+)\.gamma", r"features.{2*\1+1}.\2.layer_scale"),
        (r"stages\.(\d+)\.blocks\.(\d+)\.conv_dw\.", r"features.{2*\1+1}.\2.block.0."),
        (r"stages\.(\d+)\.blocks\.(\d+)\.norm\.", r"features.{2*\1+1}.\2.block.2."),
        (r"stages\.(\d+)\.blocks\.(\d+)\.mlp\.fc1\.", r"features.{2*\1+1}.\2.block.3."),
        (r"stages\.(\d+)\.blocks\.(\d+)\.mlp\.fc2\.", r"features.{2*\1+1}.\2.block.5."),
        (r"head\.norm\.", "classifier.0."), (r"head\.fc\.", "classifier.2."),
    ),
    "torchvision DenseNet": ((r"(.*denselayer\d+\.(?:norm|conv))\.([12])\.", r"\1\2."),),  # of its files, older than its layers
}  # fmt: skip


def renamed(tensors: Mapping[str, Tensor]) -> Iterator[tuple[str, dict[str, Tensor]]]:
    """For each library and network whose names occur: what it is, and the tensors under torchvision's names and shapes.

    >>> import tdt
    >>> from tdt.vision.models._names import renamed
    >>> [(what, list(found)) for what, found in renamed({"blocks.3.norm1.bias": tdt.ones(2)})]
    [('timm ViT', ['encoder.layers.encoder_layer_3.ln_1.bias'])]
    """
    for what, rules in NAMES.items():
        found = {_new_name(name, rules): tensor for name, tensor in tensors.items()}
        if len(found) == len(tensors) and any(name not in tensors for name in found):
            yield what, _joined(found)


def _new_name(name: str, rules: tuple[tuple[str, str], ...]) -> str:
    for old, new in rules:
        if match := re.match(old, name):
            text = match.expand(new) + name[match.end() :]
            return re.sub(r"\{(?:(\d+)\*)?(\d+)(?:\+(\d+))?\}", _computed, text)
    return name


def _computed(match: re.Match[str]) -> str:
    factor, number, more = match.groups()
    return str(int(factor or 1) * int(number) + int(more or 0))


def _joined(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Queries, keys and values in one tensor, and factors of channels with the dimensions of images."""
    found = {}
    for name, tensor in tensors.items():
        if name.endswith("layer_scale") and tensor.ndim == 1:
            tensor = tensor.reshape(-1, 1, 1)
        match = re.fullmatch(r"(.*self_attention\.)query_(weight|bias)", name)
        parts = [f"{match[1]}{part}_{match[2]}" for part in ("query", "key", "value")] if match else []
        if match and all(part in tensors for part in parts):
            found[f"{match[1]}in_proj_{match[2]}"] = tdt.cat([tensors[part] for part in parts])
        elif not re.search(r"self_attention\.(query|key|value)_(weight|bias)$", name):
            found[name] = tensor
    return found
