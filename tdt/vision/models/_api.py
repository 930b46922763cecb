"""Builder functions of models, by name: `resnet18(num_classes=10)` and `get_model("resnet18", num_classes=10)` are the same."""

from __future__ import annotations

import enum
import fnmatch
import functools
import inspect
import sys
from collections.abc import Callable, Iterable, Sequence
from types import ModuleType
from typing import Any, NoReturn, Protocol, TypeAlias, TypedDict, TypeVar, Unpack

from tdt import nn

M = TypeVar("M", bound=nn.Module)
M_co = TypeVar("M_co", bound=nn.Module, covariant=True)
Norm: TypeAlias = Callable[..., Any]  # Any: any class or function that a network can call as it does BatchNorm2d


class ModelOptions(TypedDict, total=False):
    """Keyword arguments of the builder functions; each network takes some of them, named in its signature."""

    pretrained: bool
    num_classes: int
    dropout: float
    init_weights: bool
    zero_init_residual: bool
    groups: int
    width_per_group: int
    replace_stride_with_dilation: Sequence[bool] | None
    width_mult: float
    inverted_residual_setting: Sequence[Sequence[int]] | None
    round_nearest: int
    block: Norm | None
    norm_layer: Norm | None
    stochastic_depth_prob: float
    layer_scale: float
    growth_rate: int
    bn_size: int
    drop_rate: float
    memory_efficient: bool
    last_channel: int | None
    reduced_tail: bool
    dilated: bool
    image_size: int
    attention_dropout: float
    representation_size: int | None
    conv_stem_configs: Sequence[Any] | None
    mlp_ratio: float
    downsample_layer: Norm


class Builder(Protocol[M_co]):
    """A function that builds a network, such as `resnet18`."""

    __name__: str
    __module__: str

    def __call__(
        self, weights: WeightsEnum | str | None = None, progress: bool = True, **config: Unpack[ModelOptions]
    ) -> M_co:
        """The network. ValueError when weights are requested."""
        ...


BUILDERS: dict[str, Builder[nn.Module]] = {}
FILES: dict[str, str] = {}  # builder name → torchvision's file with its default weights
# Builders with a second set of weights in torchvision.
TRAINED_TWICE = {
    "efficientnet_b1", "mobilenet_v2", "mobilenet_v3_large", "resnet50", "resnet101", "resnet152", "resnext50_32x4d",
    "resnext101_32x8d", "wide_resnet50_2", "wide_resnet101_2",
}  # fmt: skip
SWAG = ["IMAGENET1K_SWAG_E2E_V1", "IMAGENET1K_SWAG_LINEAR_V1"]
# Builders with other sets of weights; the first is the default.
TRAINED_OTHERWISE = {
    "vit_b_16": ["IMAGENET1K_V1", *SWAG], "vit_l_16": ["IMAGENET1K_V1", *SWAG], "vit_h_14": SWAG,
}  # fmt: skip
WEIGHTS = "https://download.pytorch.org/models/"  # the address of torchvision's files

DOC = """{doc}

Args:
    weights: None; tdt downloads no weights.
    progress: accepted without effect.
    config: arguments of {network}.
Shape: of the network: input (N, 3, H, W), result (N, num_classes).
Raises:
    ValueError: when weights are requested; the message says where torchvision's are and how to load them.
Source: {source}.

>>> import tdt
>>> with tdt.device("meta"):
...     model = tdt.vision.models.{name}(num_classes=10)
>>> type(model).__name__
'{network}'
"""


def builder(
    name: str, make: Callable[..., M], *fixed: Any, doc: str, source: str, file: str, **preset: Any
) -> Builder[M]:
    """Make and register the function `name`, which returns `make(*fixed, **config)`; `preset` are defaults of its own.

    doc, source: summary line and paper, for its docstring. file: torchvision's weights, named in the error of who asks
    for weights.
    """
    parameters = [*inspect.signature(make).parameters.values()][len(fixed) :]
    options = [
        p.replace(kind=p.KEYWORD_ONLY, default=preset.get(p.name, p.default))
        for p in (*inspect.signature(_no_weights).parameters.values(), *parameters)
    ]

    def build(weights: WeightsEnum | str | None = None, progress: bool = True, **config: Unpack[ModelOptions]) -> M:
        requested = weights or config.pop("pretrained", None)  # the deprecated name of `weights`
        if requested:
            raise ValueError(
                f"{name}: tdt fetches no weights, got {requested!r}. Fetch {WEIGHTS}{file} and load it: "
                f"model.load_state_dict(tdt.load({file!r}))"
            )
        return make(*fixed, **{**preset, **config})

    build.__name__ = build.__qualname__ = name
    build.__code__ = build.__code__.replace(co_name=name, co_qualname=name)
    build.__module__ = make.__module__
    network = make.__annotations__.get("return", make.__name__)
    build.__doc__ = DOC.format(doc=doc, source=source, name=name, network=network)
    build.__signature__ = inspect.Signature(options)  # type: ignore[attr-defined]
    build.described_by = make, vars(sys.modules[make.__module__])[network]  # type: ignore[attr-defined]
    BUILDERS[name], FILES[name] = build, file
    return build


class WeightsEnum(enum.Enum):
    """Base of enums such as `VGG16_Weights`, whose members torchvision's builders take as `weights`."""

    def get_state_dict(self, *args: Any, **kwargs: Any) -> NoReturn:
        """NotImplementedError: it names the file to fetch."""
        file = FILES[type(self).__name__.lower().removesuffix("_weights")]
        raise NotImplementedError(
            f"{self}: tdt fetches no weights. Fetch {WEIGHTS}{file} and load it: tdt.load({file!r})"
        )


@functools.cache
def weights_enum(name: str) -> type[WeightsEnum]:
    """The enum of a model's weights by torchvision's name of it. AttributeError if there is no such model.

    >>> from tdt.vision.models._api import weights_enum
    >>> [member.name for member in weights_enum("ResNet50_Weights")], weights_enum("ResNet50_Weights").DEFAULT.name
    (['IMAGENET1K_V1', 'IMAGENET1K_V2'], 'IMAGENET1K_V2')
    """
    model = name.lower().removesuffix("_weights")
    if not name.endswith("_Weights") or model not in FILES:
        raise AttributeError(f"module 'tdt.vision.models' has no attribute '{name}'")
    members = ["IMAGENET1K_V1", "IMAGENET1K_V2"][: 1 + (model in TRAINED_TWICE)]
    default = members[-1]
    if model in TRAINED_OTHERWISE:
        members = TRAINED_OTHERWISE[model]
        default = members[0]
    return WeightsEnum(name, {**{member: member for member in members}, "DEFAULT": default})  # type: ignore[call-arg, return-value]


def _no_weights(weights: WeightsEnum | str | None = None, progress: bool = True) -> None:
    """The parameters of all builders, in torchvision's order."""


def list_models(
    module: ModuleType | None = None,
    include: Iterable[str] | str | None = None,
    exclude: Iterable[str] | str | None = None,
) -> list[str]:
    """The names that `get_model` knows, sorted: of one module, those that match `include` and not `exclude` (wildcards).

    >>> from tdt.vision import models
    >>> models.list_models(include="resnet*", exclude="*5*")
    ['resnet101', 'resnet18', 'resnet34']
    """
    names = {n for n, b in BUILDERS.items() if module is None or b.__module__.rpartition(".")[0] == module.__name__}

    def matching(patterns: Iterable[str] | str) -> set[str]:
        patterns = [patterns] if isinstance(patterns, str) else patterns
        return {name for pattern in patterns for name in fnmatch.filter(names, pattern)}

    return sorted((matching(include) if include else names) - (matching(exclude) if exclude else set()))


def get_model_builder(name: str) -> Builder[nn.Module]:
    """Function that builds the model `name`, upper or lower case.

    Raises:
        ValueError: when there is no such model.

    >>> from tdt.vision import models
    >>> models.get_model_builder("ResNet18") is models.resnet18
    True
    """
    try:
        return BUILDERS[name.lower()]
    except KeyError:
        raise ValueError(f"Unknown model {name.lower()}; known: {', '.join(list_models())}") from None


def get_model(name: str, **config: Unpack[ModelOptions]) -> nn.Module:
    """The model `name`, built with `config`.

    >>> from tdt.vision import models
    >>> models.get_model("squeezenet1_1", num_classes=10).num_classes
    10
    """
    return get_model_builder(name)(**config)
