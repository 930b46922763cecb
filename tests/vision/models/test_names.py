"""Files of timm and of Hugging Face in torchvision's networks: the same logits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tdt
from tdt.train.loop.warm_start import COMPUTED
from tdt.vision import models
from tdt.vision.models._names import renamed
from tdt.vision.models.convnext import CNBlockConfig
from tests.helpers import require, require_torch
from tests.vision.models.test_torchvision import moved

STAGES = [CNBlockConfig(8, 16, 1), CNBlockConfig(16, 24, 1), CNBlockConfig(24, 32, 1), CNBlockConfig(32, None, 1)]


def _timm(name: str, **options: Any) -> Any:
    return require("timm").create_model(name, num_classes=3, **options)


def _hugging_face(kind: str, **options: Any) -> Any:
    library = require("transformers")
    return getattr(library, f"{kind}ForImageClassification")(getattr(library, f"{kind}Config")(num_labels=3, **options))


VIT = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64, "patch_size": 8}
SWIN = {"patch_size": 4, "window_size": 4, "embed_dim": 8, "depths": [2, 1], "num_heads": [2, 4]}
CASES: dict[str, tuple[Any, Any]] = {
    "timm ViT": (
        lambda: _timm("vit_tiny_patch16_224", img_size=32, patch_size=8, depth=2, embed_dim=16, num_heads=2),
        lambda: models.VisionTransformer(32, 8, 2, 2, 16, 64, num_classes=3),
    ),
    "timm ConvNeXt": (
        lambda: _timm("convnext_tiny", depths=(1, 1, 1, 1), dims=(8, 16, 24, 32)),
        lambda: models.ConvNeXt(STAGES, num_classes=3),
    ),
    "timm ResNet": (lambda: _timm("resnet18"), lambda: models.resnet18(num_classes=3)),
    "Hugging Face ViT": (
        lambda: _hugging_face("ViT", image_size=32, layer_norm_eps=1e-6, **VIT),
        lambda: models.VisionTransformer(32, 8, 2, 2, 16, 64, num_classes=3),
    ),
    "Hugging Face ResNet": (
        lambda: _hugging_face("ResNet", hidden_sizes=[64, 128, 256, 512], depths=[2, 2, 2, 2], layer_type="basic"),
        lambda: models.resnet18(num_classes=3),
    ),
    "Hugging Face ConvNeXt": (
        lambda: _hugging_face("ConvNext", hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 1, 1], layer_norm_eps=1e-6),
        lambda: models.ConvNeXt(STAGES, num_classes=3),
    ),
    "Hugging Face Swin": (
        lambda: _hugging_face("Swin", image_size=32, **SWIN),
        lambda: models.SwinTransformer([4, 4], 8, [2, 1], [2, 4], [4, 4], num_classes=3),
    ),
    "timm Swin": (
        lambda: _timm("swin_tiny_patch4_window7_224", img_size=32, **SWIN),
        lambda: models.SwinTransformer([4, 4], 8, [2, 1], [2, 4], [4, 4], num_classes=3),
    ),
}


def load(what: str, ours: Any, state: dict[str, Any]) -> None:
    tensors = {key: tdt.from_numpy(value.copy()) for key, value in state.items()}
    own = ours.state_dict()
    fixed = {key: value for key, value in own.items() if key.endswith(COMPUTED)}
    ours.load_state_dict(fixed | dict(renamed(tensors)).get(what, tensors))


@pytest.mark.parametrize("what", CASES)
def test_a_network_with_weights_of_another_library_has_its_logits(what: str):
    torch, (make_theirs, make_ours) = require_torch(), CASES[what]
    torch.manual_seed(0)
    theirs, ours = make_theirs().eval(), make_ours().eval()
    state = moved(theirs.state_dict())
    theirs.load_state_dict({key: torch.from_numpy(value) for key, value in state.items()})
    load(what, ours, state)
    images = np.random.default_rng(0).standard_normal((2, 3, 32, 32)).astype(np.float32)
    with torch.no_grad(), tdt.no_grad():
        expected = theirs(torch.from_numpy(images))
        found = ours(tdt.from_numpy(images)).numpy()
    expected = getattr(expected, "logits", expected).numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
    assert not np.allclose(expected[0], expected[1], atol=1e-4)


def test_the_names_of_torchvisions_older_densenet_files_are_todays():
    ours = models.DenseNet(4, (1, 1), 8, 2, num_classes=3)
    state = ours.state_dict()
    old = {key.replace(".norm1.", ".norm.1.").replace(".conv2.", ".conv.2."): value for key, value in state.items()}
    assert set(old) != set(state) and set(dict(renamed(old))["torchvision DenseNet"]) == set(state)
