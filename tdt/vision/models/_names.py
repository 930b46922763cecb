"""Names of parameters in files of timm, Hugging Face and others, as torchvision's networks have them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import tdt
from tdt import Tensor

_VIT = r"encoder.layers.encoder_layer_\1."
_CONVNEXT, _CONVNEXT_BLOCK = r"(?:convnext\.)?encoder\.stages\.(\d+)\.", r"features.{2*\1+1}.\2."
_SWIN, _SWIN_BLOCK = r"(?:swin\.)?encoder\.layers\.(\d+)\.", r"features.{2*\1+1}.\2."
_SWIN_LAYERS = (
    (r"patch_embed\.proj\.", "features.0.0."), (r"patch_embed\.norm\.", "features.0.2."),
    (r"layers\.(\d+)\.blocks\.(\d+)\.mlp\.fc1\.", _SWIN_BLOCK + "mlp.0."),
    (r"layers\.(\d+)\.blocks\.(\d+)\.mlp\.fc2\.", _SWIN_BLOCK + "mlp.3."),
    (r"layers\.(\d+)\.blocks\.(\d+)\.", _SWIN_BLOCK),
)  # fmt: skip

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
    "Hugging Face ConvNeXt": (
        (r"(?:convnext\.)?embeddings\.patch_embeddings\.", "features.0.0."),
        (r"(?:convnext\.)?embeddings\.layernorm\.", "features.0.1."),
        (_CONVNEXT + r"downsampling_layer\.([01])\.", r"features.{2*\1}.\2."),
        (_CONVNEXT + r"layers\.(\d+)\.layer_scale_parameter", _CONVNEXT_BLOCK + "layer_scale"),
        (_CONVNEXT + r"layers\.(\d+)\.dwconv\.", _CONVNEXT_BLOCK + "block.0."),
        (_CONVNEXT + r"layers\.(\d+)\.layernorm\.", _CONVNEXT_BLOCK + "block.2."),
        (_CONVNEXT + r"layers\.(\d+)\.pwconv1\.", _CONVNEXT_BLOCK + "block.3."),
        (_CONVNEXT + r"layers\.(\d+)\.pwconv2\.", _CONVNEXT_BLOCK + "block.5."),
        (r"(?:convnext\.)?layernorm\.", "classifier.0."), (r"classifier\.", "classifier.2."),
    ),
    "timm Swin": (
        *_SWIN_LAYERS, (r"layers\.(\d+)\.downsample\.", r"features.{2*\1}."), (r"head\.fc\.", "head."),
    ),
    "Swin's authors": (*_SWIN_LAYERS, (r"layers\.(\d+)\.downsample\.", r"features.{2*\1+2}.")),
    "Hugging Face Swin": (
        (r"(?:swin\.)?embeddings\.patch_embeddings\.projection\.", "features.0.0."),
        (r"(?:swin\.)?embeddings\.norm\.", "features.0.2."),
        (_SWIN + r"downsample\.", r"features.{2*\1+2}."),
        (_SWIN + r"blocks\.(\d+)\.layernorm_before\.", _SWIN_BLOCK + "norm1."),
        (_SWIN + r"blocks\.(\d+)\.layernorm_after\.", _SWIN_BLOCK + "norm2."),
        (_SWIN + r"blocks\.(\d+)\.attention\.self\.(query|key|value)\.", _SWIN_BLOCK + r"attn.\3_"),
        (_SWIN + r"blocks\.(\d+)\.attention\.q_proj\.", _SWIN_BLOCK + "attn.query_"),
        (_SWIN + r"blocks\.(\d+)\.attention\.k_proj\.", _SWIN_BLOCK + "attn.key_"),
        (_SWIN + r"blocks\.(\d+)\.attention\.v_proj\.", _SWIN_BLOCK + "attn.value_"),
        (_SWIN + r"blocks\.(\d+)\.attention\.(?:output\.dense|o_proj)\.", _SWIN_BLOCK + "attn.proj."),
        (_SWIN + r"blocks\.(\d+)\.attention\.(?:self|relative_position_bias)\.(relative_position)", _SWIN_BLOCK + r"attn.\3"),
        (_SWIN + r"blocks\.(\d+)\.(?:intermediate\.dense|mlp\.fc1)\.", _SWIN_BLOCK + "mlp.0."),
        (_SWIN + r"blocks\.(\d+)\.(?:output\.dense|mlp\.fc2)\.", _SWIN_BLOCK + "mlp.3."),
        (r"(?:swin\.)?layernorm\.", "norm."), (r"classifier\.", "head."),
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


_JOINED = {"self_attention.": "in_proj_", "attn.": "qkv."}  # module with queries, keys and values → their name as one


def _joined(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Queries, keys and values in one tensor, factors of channels with the dimensions of images, flat indices."""
    found = {}
    for name, tensor in tensors.items():
        if name.endswith("layer_scale") and tensor.ndim == 1:
            tensor = tensor.reshape(-1, 1, 1)
        if name.endswith("relative_position_index"):
            tensor = tensor.reshape(-1)
        match = re.fullmatch(r"(.*?)(self_attention\.|attn\.)(query|key|value)_(weight|bias)", name)
        parts = [f"{match[1]}{match[2]}{part}_{match[4]}" for part in ("query", "key", "value")] if match else []
        if match is None or any(part not in tensors for part in parts):
            found[name] = tensor
        elif match[3] == "query":
            found[match[1] + match[2] + _JOINED[match[2]] + match[4]] = tdt.cat([tensors[part] for part in parts])
    return found
