"""Networks for images compared with torchvision's own, with the same random weights."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import pytest

import tdt
from tdt.vision import models, ops
from tests.helpers import require, require_torch


def _convnext(module: Any) -> Any:
    return module.ConvNeXt([module.CNBlockConfig(8, 16, 2), module.CNBlockConfig(16, None, 2)], num_classes=7)


def _efficientnet(module: Any) -> Any:
    if module.__name__.startswith("tdt"):
        rows = [module.BlockConfig(4, 3, 2, 8, 16, 2, fused=True), module.BlockConfig(1, 3, 1, 16, 16, 1, fused=True)]
        rows.append(module.BlockConfig(6, 5, 1, 16, 16, 2))
    else:
        rows = [module.FusedMBConvConfig(4, 3, 2, 8, 16, 2), module.FusedMBConvConfig(1, 3, 1, 16, 16, 1)]
        rows.append(module.MBConvConfig(6, 5, 1, 16, 16, 2))
    return module.EfficientNet(rows, 0.2, num_classes=7)


def _swin(module: Any, **version: Any) -> Any:
    return module.SwinTransformer([2, 2], 8, [2, 2], [1, 2], [4, 4], num_classes=7, **version)


def _vit(module: Any, **options: Any) -> Any:
    return module.VisionTransformer(24, 4, 2, 2, 16, 32, num_classes=7, **options)


# The network made of each library's module; its name; and the size of the images.
NETWORKS: dict[str, tuple[str, Callable[[Any], Any], int]] = {
    "ConvNeXt": ("convnext", _convnext, 24),
    "DenseNet": ("densenet", lambda m: m.DenseNet(4, (2, 1, 2), 8, 2, num_classes=7), 32),
    "EfficientNet": ("efficientnet", _efficientnet, 20),
    "MobileNetV3": ("mobilenetv3", lambda m: m.mobilenet_v3_small(num_classes=7, width_mult=0.25), 32),
    "MobileNetV3 with a dilated end": (
        "mobilenetv3", lambda m: m.mobilenet_v3_large(num_classes=7, width_mult=0.1, dilated=True, reduced_tail=True), 32,
    ),
    "Swin": ("swin_transformer", _swin, 25),
    "Swin V2": (
        "swin_transformer",
        lambda m: _swin(m, block=m.SwinTransformerBlockV2, downsample_layer=m.PatchMergingV2), 25,
    ),
    "Swin in one window": ("swin_transformer", _swin, 8),
    "ViT": ("vision_transformer", _vit, 24),
    "ViT with a stem and another head": (
        "vision_transformer",
        lambda m: _vit(
            m, representation_size=9, conv_stem_configs=[m.ConvStemConfig(4, 3, 2), m.ConvStemConfig(8, 3, 2)]
        ), 24,
    ),
}  # fmt: skip


def moved(state: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Initial values with noise, so that zeros and ones among them count as well."""
    rng, found = np.random.default_rng(0), {}
    for key, value in state.items():
        value = value.numpy().copy()
        if value.dtype.kind == "f" and "coords_table" not in key:
            noise = rng.uniform(-0.2, 0.2, value.shape) if value.ndim < 2 else 0.02 * rng.standard_normal(value.shape)
            value = (value + noise + 0.5 * ("layer_scale" in key)).astype(np.float32)
        found[key] = value
    return found


@pytest.mark.parametrize("family", NETWORKS)
def test_initial_values_and_logits_are_those_of_torchvision(family: str):
    torch, (name, make, size) = require_torch(), NETWORKS[family]
    torch.manual_seed(3)
    theirs = make(require(f"torchvision.models.{name}"))
    tdt.manual_seed(3)
    ours = make(importlib.import_module(f"tdt.vision.models.{name}"))
    initial = {key: value.numpy() for key, value in theirs.state_dict().items()}
    assert list(ours.state_dict()) == list(initial)
    for key, value in ours.state_dict().items():
        np.testing.assert_allclose(value.numpy(), initial[key], rtol=2e-6, atol=2e-7, err_msg=key)
    images = np.random.default_rng(1).standard_normal((8, 3, size, size)).astype(np.float32)
    state = moved(theirs.state_dict())
    theirs.load_state_dict({key: torch.from_numpy(value) for key, value in state.items()})
    for layer in theirs.modules():
        if isinstance(layer, torch.nn.BatchNorm2d):
            layer.momentum = 1.0
    theirs(torch.from_numpy(images))  # running statistics of this batch
    ours.load_state_dict({key: tdt.from_numpy(value.numpy()) for key, value in theirs.state_dict().items()})
    with tdt.no_grad(), torch.no_grad():
        found = ours.eval()(tdt.from_numpy(images)).numpy()
        expected = theirs.eval()(torch.from_numpy(images)).numpy()
    assert not np.allclose(expected[0], expected[1], atol=1e-4)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_a_network_in_training_mode_has_torchvisions_gradients():
    torch, theirs = require_torch(), require("torchvision.models.swin_transformer")
    images = np.random.default_rng(0).standard_normal((2, 3, 24, 24)).astype(np.float32)
    grads = {}
    for lib, make in ((tdt, models.SwinTransformer), (torch, theirs.SwinTransformer)):
        lib.manual_seed(5)
        model = make([2, 2], 8, [2, 2], [1, 2], [4, 4], stochastic_depth_prob=0.5, dropout=0.1, num_classes=3)
        model(lib.from_numpy(images)).square().sum().backward()
        grads[lib] = {name: p.grad.numpy() for name, p in model.named_parameters()}
    for name, expected in grads[torch].items():
        np.testing.assert_allclose(grads[tdt][name], expected, rtol=1e-3, atol=1e-6, err_msg=name)


def test_dense_layers_that_compute_twice_have_the_same_gradients():
    gradients = []
    for efficient in (False, True):
        tdt.manual_seed(0)
        model = models.DenseNet(4, (2, 2), 8, 2, num_classes=3, memory_efficient=efficient)
        model(tdt.ones(2, 3, 32, 32)).sum().backward()
        gradients.append(model.features.denseblock1.denselayer2.conv1.weight.grad.numpy())
    assert np.array_equal(*gradients)


def test_stochastic_depth_leaves_out_samples_as_torchvision_does():
    torch, theirs = require_torch(), require("torchvision.ops")
    for mode in ("row", "batch"):
        torch.manual_seed(1)
        expected = theirs.stochastic_depth(torch.ones(8, 3), 0.3, mode)
        tdt.manual_seed(1)
        found = ops.stochastic_depth(tdt.ones(8, 3), 0.3, mode)
        np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-6)
    assert ops.stochastic_depth(tdt.ones(4), 1.0, "row").sum() == 0


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: models.ConvNeXt([]), "should not be empty"),
        (lambda: models.EfficientNet([], 0.1), "should not be empty"),
        (lambda: models.MobileNetV3([], 8), "should not be empty"),
        (lambda: models.VisionTransformer(30, 16, 1, 1, 8, 8), "image_size 30 is not a multiple of patch_size 16"),
        (
            lambda: models.VisionTransformer(8, 4, 1, 1, 8, 8)(tdt.ones(1, 3, 8, 9)),
            "expected images of 8 x 8, got 8 x 9",
        ),
        (lambda: ops.stochastic_depth(tdt.ones(1), 2.0, "row"), "between 0 and 1"),
        (lambda: ops.stochastic_depth(tdt.ones(1), 0.5, "column"), "either 'batch' or 'row'"),
    ],
)
def test_wrong_arguments_are_refused(make: Any, message: str):
    with pytest.raises(ValueError, match=message):
        make()


def test_settings_of_another_kind_are_refused():
    for make in (
        models.ConvNeXt,
        partial(models.EfficientNet, dropout=0.1),
        partial(models.MobileNetV3, last_channel=8),
    ):
        with pytest.raises(TypeError, match="should be List"):
            make([(1, 2, 3)])
