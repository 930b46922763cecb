"""Image models against torchvision's: layers, keys and counts by hash, values by the same source run over PyTorch."""

from __future__ import annotations

import hashlib
import importlib
import inspect
import re
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tdt
from tdt.autograd._meta import meta
from tdt.nn import GroupNorm, Module, Sequential
from tdt.train.config import ConfigError, loads
from tdt.train.config.errors import ConfigErrors
from tdt.train.model.from_config import build_model
from tdt.vision import models
from tests.helpers import require_torch

# Of torchvision 0.28: parameters, and the hash of the printed model and of its state_dict's keys with their shapes.
TORCHVISION = {
    "alexnet": (61_100_840, "d7fb0072c36bf271"),
    "convnext_base": (88_591_464, "31774e937e1a7697"),
    "convnext_large": (197_767_336, "4b24302a61690acd"),
    "convnext_small": (50_223_688, "65ce2e7dce486554"),
    "convnext_tiny": (28_589_128, "f5d31b0eb8e722a3"),
    "densenet121": (7_978_856, "3552552f3095e5c5"),
    "densenet161": (28_681_000, "f67bb87357d9906d"),
    "densenet169": (14_149_480, "5c1b215615b20845"),
    "densenet201": (20_013_928, "dd297dd4e521ffb4"),
    "efficientnet_b0": (5_288_548, "e8b8ed24d969daf7"),
    "efficientnet_b1": (7_794_184, "dd65189fd2539647"),
    "efficientnet_b2": (9_109_994, "754d50d6d88cb177"),
    "efficientnet_b3": (12_233_232, "52baaa607a460d02"),
    "efficientnet_b4": (19_341_616, "163093a2fafc4383"),
    "efficientnet_b5": (30_389_784, "d21bf9c1eb71f878"),
    "efficientnet_b6": (43_040_704, "2f8b69da39ff16ea"),
    "efficientnet_b7": (66_347_960, "5500c189a490070f"),
    "efficientnet_v2_l": (118_515_272, "989a1ac2fda009ec"),
    "efficientnet_v2_m": (54_139_356, "4ff5edd54e62dbe2"),
    "efficientnet_v2_s": (21_458_488, "2d6cfdc511fc3a34"),
    "mobilenet_v2": (3_504_872, "b16c72750145357b"),
    "mobilenet_v3_large": (5_483_032, "23cdba7e2c9fb59b"),
    "mobilenet_v3_small": (2_542_856, "37fe8d58efa5700c"),
    "resnet101": (44_549_160, "c95d2bcd4afa9c6b"),
    "resnet152": (60_192_808, "e73703076a439c6c"),
    "resnet18": (11_689_512, "42caef9bead04119"),
    "resnet34": (21_797_672, "ea57755d6bf3a63f"),
    "resnet50": (25_557_032, "42cf938a2ce22db6"),
    "resnext101_32x8d": (88_791_336, "a5916f932e3ca20a"),
    "resnext101_64x4d": (83_455_272, "86e9cbde6751487d"),
    "resnext50_32x4d": (25_028_904, "53d071392c1bf649"),
    "squeezenet1_0": (1_248_424, "e727de60580247f5"),
    "squeezenet1_1": (1_235_496, "13544c77c9e6f919"),
    "swin_b": (87_768_224, "16e57cbe9df9890e"),
    "swin_s": (49_606_258, "7b331e2e36103f26"),
    "swin_t": (28_288_354, "d1e4492be078683c"),
    "swin_v2_b": (87_930_848, "35d28d22fa5790b7"),
    "swin_v2_s": (49_737_442, "75211648e03d2f43"),
    "swin_v2_t": (28_351_570, "f865725ec77541ab"),
    "vgg11": (132_863_336, "e8111a0ae288632d"),
    "vgg11_bn": (132_868_840, "aa0d0ba1a8f8a08c"),
    "vgg13": (133_047_848, "f3c8b137c5ec7993"),
    "vgg13_bn": (133_053_736, "ec6f104e43c6022f"),
    "vgg16": (138_357_544, "a60b59b3d5025fa0"),
    "vgg16_bn": (138_365_992, "6aec9ecbbc0450ab"),
    "vgg19": (143_667_240, "a4871bc16ee9fda1"),
    "vgg19_bn": (143_678_248, "62f19941b765e018"),
    "vit_b_16": (86_567_656, "44f75e109afd67d6"),
    "vit_b_32": (88_224_232, "b18224e2cf21609f"),
    "vit_h_14": (632_045_800, "11373393e5b96a30"),
    "vit_l_16": (304_326_632, "78cd6dbc0cc26be9"),
    "vit_l_32": (306_535_400, "952466458662210a"),
    "wide_resnet101_2": (126_886_696, "ffe971bbf4736d50"),
    "wide_resnet50_2": (68_883_240, "c02cb28be3d93453"),
}


@pytest.mark.parametrize("name", TORCHVISION)
def test_layers_and_keys_are_those_of_torchvision(name: str):
    with meta():
        model = models.get_model(name)
    lines = [repr(model), *(f"{key} {tuple(value.shape)}" for key, value in model.state_dict().items())]
    found = hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]
    assert (sum(p.numel() for p in model.parameters()), found) == TORCHVISION[name]


def test_every_model_is_listed():
    assert models.list_models() == sorted(TORCHVISION)
    assert models.list_models(module=models, include=["vgg1?", "alex*"], exclude="*9") == [
        "alexnet",
        "vgg11",
        "vgg13",
        "vgg16",
    ]
    with pytest.raises(ValueError, match="Unknown model resnet19"):
        models.get_model("resnet19")


@pytest.mark.parametrize("config", [{"weights": "DEFAULT"}, {"pretrained": True}])
def test_weights_are_not_fetched_and_the_error_has_a_remedy(config: dict[str, Any]):
    file = "resnet18-f37072fd.pth"
    with pytest.raises(ValueError, match=rf"models/{file} and load it: model.load_state_dict\(tdt.load\('{file}'\)\)"):
        models.resnet18(**config)
    with meta():
        assert isinstance(
            models.resnet18(False, num_classes=3), models.ResNet
        )  # as scripts call it that have no weights


def test_a_builder_takes_what_torchvision_takes():
    parameters = inspect.signature(models.resnet18).parameters
    assert [*parameters] == ["weights", "progress", "num_classes", "zero_init_residual", "groups", "width_per_group",
                             "replace_stride_with_dilation", "norm_layer"]  # fmt: skip
    assert all(p.kind is p.KEYWORD_ONLY for p in parameters.values())
    assert inspect.signature(models.resnext50_32x4d).parameters["groups"].default == 32


def over_torch(module: str) -> SimpleNamespace:
    """The same source with PyTorch's tensors and layers."""
    source = inspect.getsource(importlib.import_module(f"tdt.vision.models.{module}"))
    source = re.sub("from tdt.vision.models._api import .*\n", "", source).replace(
        "import tdt\n", "import torch as tdt\n"
    )
    names: dict[str, Any] = {}
    for inner in re.findall("from (tdt.vision.ops.*) import .*\n", source):
        exec(
            inspect.getsource(importlib.import_module(inner))
            .replace("from tdt", "from torch")
            .replace("import tdt\n", "import torch as tdt\n"),
            names,
        )
    source = re.sub("from tdt.vision.ops.* import .*\n", "", source)
    names["builder"] = lambda name, make, *fixed, doc, source, file, **preset: partial(make, *fixed, **preset)
    exec(source.replace("from tdt", "from torch"), names)
    return SimpleNamespace(**names)


def _basic(source: Any) -> Any:
    first, shrinking = source.conv1x1(3, 8), source.conv1x1(8, 16, 2)
    return source.nn.Sequential(first, source.BasicBlock(8, 8), source.BasicBlock(8, 16, 2, shrinking))


def _bottleneck(source: Any) -> Any:
    dilated = (False, True, True)
    return source.ResNet(source.Bottleneck, (1, 1, 2, 1), 5, True, 2, 8, replace_stride_with_dilation=dilated)


BUILT = {
    "basic": ("resnet", _basic),
    "bottleneck": ("resnet", _bottleneck),
    "mobilenet": ("mobilenetv2", lambda source: source.mobilenet_v2(num_classes=5, width_mult=0.25, dropout=0.0)),
    "squeezenet": ("squeezenet", lambda source: source.squeezenet1_1(num_classes=5, dropout=0.0)),
    "lenet": ("lenet", lambda source: source.LeNet(5, 3)),
}  # fmt: skip


@pytest.mark.parametrize("name", BUILT)
def test_initial_values_outputs_and_gradients_are_those_of_pytorch(name: str):
    torch = require_torch()
    module, make = BUILT[name]
    torch.manual_seed(7)
    theirs = make(over_torch(module))
    tdt.manual_seed(7)
    ours = make(importlib.import_module(f"tdt.vision.models.{module}"))
    for (key, value), (other_key, their_grad) in zip(
        ours.state_dict().items(), theirs.state_dict().items(), strict=True
    ):
        assert key == other_key
        np.testing.assert_allclose(value.numpy(), their_grad.numpy(), rtol=2e-6, atol=2e-7)
    ours.double(), theirs.double()
    ours.load_state_dict({key: tdt.from_numpy(value.numpy().copy()) for key, value in theirs.state_dict().items()})
    images = np.random.RandomState(0).randn(4, 3, 28, 28) + 1
    out, their_grad = ours(tdt.from_numpy(images)), theirs(torch.from_numpy(images))
    np.testing.assert_allclose(out.detach().numpy(), their_grad.detach().numpy(), rtol=1e-9, atol=1e-12)
    (out**2).sum().backward(), (their_grad**2).sum().backward()
    gradients = [(p.grad.numpy(), q.grad.numpy()) for p, q in zip(ours.parameters(), theirs.parameters(), strict=True)]
    largest = max(abs(theirs).max() for _, theirs in gradients)  # before a normalisation, those of biases are 0
    for our_grad, their_grad in gradients:
        np.testing.assert_allclose(our_grad, their_grad, rtol=1e-7, atol=1e-12 * largest)


def test_vgg_begins_with_the_values_of_torchvision():
    torch = require_torch()

    def begun(nn: Any, vgg: Any, seed: Any) -> list[np.ndarray]:
        seed(1)
        layers = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Conv2d(4, 4, 3, bias=False), nn.BatchNorm2d(4), nn.Linear(9, 8))
        vgg._initialise(layers)
        return [p.detach().numpy() for p in layers.parameters()]

    ours = begun(tdt.nn, models.VGG, tdt.manual_seed)
    theirs = begun(torch.nn, over_torch("vgg").VGG, torch.manual_seed)
    for our_weight, their_weight in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(our_weight, their_weight, rtol=2e-6, atol=2e-7)


def test_models_take_another_normalisation_and_refuse_what_does_not_fit():
    with meta():
        model = models.resnet18(norm_layer=partial(GroupNorm, 4))
    assert isinstance(model.bn1, GroupNorm)
    with pytest.raises(ValueError, match="BasicBlock only supports groups=1"):
        models.resnet18(groups=2)
    with pytest.raises(ValueError, match="None or a 3-element tuple"):
        models.resnet50(replace_stride_with_dilation=[True])
    with pytest.raises(ValueError, match="1_0 or 1_1 expected"):
        models.SqueezeNet("2")
    with pytest.raises(ValueError, match="non-empty or a 4-element list"):
        models.mobilenet_v2(inverted_residual_setting=[])


CONFIG = "name: a\ndata: {train: Digits}\nloss: CrossEntropyLoss\noptimizer: SGD(lr=0.1)\ntrain: {steps: 1}\nmodel: "


def built(text: str) -> tuple[Module, list[str]]:
    errors = ConfigErrors()
    model, _ = build_model(loads(CONFIG + text).model, errors)
    return model, [str(problem) for problem in errors.problems]


def test_a_config_names_a_model():
    with meta():
        resnet, problems = built("resnet18(num_classes=10, zero_init_residual=true)\n")
        chain, _ = built("['squeezenet1_1(num_classes=3)', 'Linear(3, 2)']\n")
    assert not problems and isinstance(resnet, models.ResNet) and resnet.fc.out_features == 10
    assert isinstance(chain, Sequential) and isinstance(chain[0], models.SqueezeNet)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("resnet18(num_clases=10)", "model.num_clases: unknown argument of resnet18; did you mean 'num_classes'?"),
        ("resnet18(num_classes=ten)", "model.num_classes: expected int, got 'ten'"),
        ("restnet18", "no layer is called 'restnet18'; did you mean 'resnet18'?"),
        ("ResNet(num_classes=3)", "ResNet takes a Python class; write resnet18 or another ready model"),
        ("get_model(name=resnet18)", "no layer is called 'get_model'"),
    ],
)
def test_a_mistake_in_a_config_is_named(text: str, message: str):
    with pytest.raises(ConfigError) as caught:
        loads(CONFIG + text + "\n")
    assert message in str(caught.value)


def test_a_config_that_requests_pretrained_weights_gets_their_address():
    _, problems = built("resnet18(weights=DEFAULT)\n")
    assert len(problems) == 1 and "tdt fetches no weights, got 'DEFAULT'" in problems[0]


def test_every_model_has_torchvisions_enum_of_weights_which_names_the_file():
    enum = models.VGG16_Weights
    assert enum is models.VGG16_Weights and enum.DEFAULT is enum.IMAGENET1K_V1
    assert models.MobileNet_V2_Weights.DEFAULT.name == models.Wide_ResNet50_2_Weights.DEFAULT.name == "IMAGENET1K_V2"
    with pytest.raises(ValueError, match="fetches no weights, got .*IMAGENET1K_V1.*vgg16-397923af.pth"):
        models.vgg16(weights=enum.DEFAULT)
    with pytest.raises(NotImplementedError, match="tdt fetches no weights. Fetch .*vgg16-397923af.pth"):
        enum.DEFAULT.get_state_dict(progress=True)
    with pytest.raises(AttributeError, match="no attribute 'NoSuchNet_Weights'"):
        models.NoSuchNet_Weights
