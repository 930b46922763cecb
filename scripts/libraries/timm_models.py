"""timm: forward and backward of ResNet, ViT and ConvNeXt, and steps of its optimizers; from one seed on both."""

from __future__ import annotations

import os
import runpy

import torch

try:
    import torchvision
except RuntimeError:  # a wheel for CUDA beside PyTorch for CPUs: it lacks compiled operators, of which timm uses none
    for _operator in ("nms", "qnms"):
        torch.library.define(f"torchvision::{_operator}", "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    import torchvision  # noqa: F401

import timm
from timm.models.convnext import ConvNeXt
from timm.models.resnet import BasicBlock, Bottleneck, ResNet
from timm.models.vision_transformer import VisionTransformer
from timm.optim import create_optimizer_v2

results = runpy.run_path(os.path.join(os.path.dirname(__file__), "_models.py"))["results"]


def passed(model: torch.nn.Module, size: int, train: bool = True) -> dict[str, object]:
    """A pass forward and backward on two images."""
    model.train(train)
    images = torch.randn(2, 3, size, size)
    logits = model(images)
    return results(model, {"logits": logits}, torch.nn.functional.cross_entropy(logits, torch.tensor([1, 3])))


def features(name: str, size: int, **options: object) -> dict[str, object]:
    """The intermediate results that `features_only` gives, and their gradients."""
    model = timm.create_model(name, features_only=True, **options)
    maps = model(torch.randn(1, 3, size, size))
    return results(model, {str(i): x for i, x in enumerate(maps)}, sum(x.square().mean() for x in maps))


def trained(optimizer: str) -> list[float]:
    """Losses of six steps of one of timm's optimizers."""
    model = VisionTransformer(
        img_size=16, patch_size=8, embed_dim=32, depth=2, num_heads=2, num_classes=5, qkv_bias=False
    )
    steps = create_optimizer_v2(model, opt=optimizer, lr=1e-3, weight_decay=0.05)
    images, targets = torch.randn(8, 3, 16, 16), torch.arange(8) % 5
    losses = []
    for _ in range(6):
        loss = torch.nn.functional.cross_entropy(model(images), targets)
        steps.zero_grad()
        loss.backward()
        steps.step()
        losses.append(loss.item())
    return losses


def resnet(block: type, **options: object) -> ResNet:
    return ResNet(block, (1, 1, 1, 1), num_classes=5, channels=(8, 16, 24, 32), **options)


def vit(**options: object) -> VisionTransformer:
    return VisionTransformer(img_size=32, patch_size=8, embed_dim=32, depth=3, num_heads=4, num_classes=5, **options)


def convnext(**options: object) -> ConvNeXt:
    return ConvNeXt(num_classes=5, depths=(1, 1, 2, 1), dims=(8, 16, 24, 32), **options)


OPTIMIZERS = (
    "adamw",
    "lamb",
    "lion",
    "nadamw",
    "adabelief",
    "adafactor",
    "rmsproptf",
    "lars",
    "adan",
    "sgdw",
    "madgrad",
    "adopt",
)

CASES = {
    "ResNet": lambda: passed(resnet(BasicBlock), 64),
    "ResNet, evaluation": lambda: passed(resnet(BasicBlock), 64, train=False),
    "ResNet, bottleneck, deep stem, anti-aliased": lambda: passed(
        resnet(Bottleneck, stem_type="deep", stem_width=8, avg_down=True), 64
    ),
    "ViT": lambda: passed(vit(), 32),
    "ViT, distilled settings": lambda: passed(
        vit(qk_norm=True, init_values=1e-2, class_token=False, global_pool="avg"), 32
    ),
    "ViT, dropout": lambda: passed(vit(drop_rate=0.1, attn_drop_rate=0.1, drop_path_rate=0.2), 32),
    "ConvNeXt": lambda: passed(convnext(ls_init_value=0.5), 64),
    "ConvNeXt, linear MLP": lambda: passed(convnext(conv_mlp=False, use_grn=True, ls_init_value=None), 64),
    "resnet18": lambda: passed(timm.create_model("resnet18", num_classes=10), 64),
    "vit_tiny_patch16_224": lambda: passed(timm.create_model("vit_tiny_patch16_224", num_classes=10, img_size=64), 64),
    "convnext_atto": lambda: passed(timm.create_model("convnext_atto", num_classes=10), 64),
    "mobilenetv3_small_050": lambda: passed(timm.create_model("mobilenetv3_small_050", num_classes=10), 64),
    "features of resnet10t": lambda: features("resnet10t", 64),
    **{f"optimizer {name}": lambda name=name: trained(name) for name in OPTIMIZERS},
}
