"""Registries of the names that a config may use.

A registry looks a name up in a public module (`tdt.nn` for layers, `tdt.optim` for optimizers, ...), so a new layer is
known to configs as soon as it is exported. Modules are imported at the first lookup.

>>> from tdt.train.config import registry
>>> registry.optimizers.closest("Adm")
'Adam'
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from tdt._did_you_mean import closest

if TYPE_CHECKING:
    from tdt.train.config.parts import Component


MOST_STRANGERS = 50  # unknown names that are compared with the missing ones


class Registry:
    """Component names of one kind, found on first use.

    Args:
        kind: name of the kind in errors ("layer").
        modules: modules whose public names are searched.
        accepts: whether a public name and its object are a component of this kind.
        entries: further names → "module:attribute" or the object; they take precedence over the modules.
        supplied: leading parameters that tdt passes (`params` of an optimizer) and configs cannot set.
        refused: public names that configs cannot use → what to write instead.
    """

    def __init__(
        self,
        kind: str,
        modules: Iterable[str] = (),
        accepts: Callable[[str, Any], bool] = lambda name, value: True,
        *,
        entries: Mapping[str, Any] | None = None,
        supplied: tuple[str, ...] = (),
        refused: Mapping[str, str] | None = None,
    ) -> None:
        self.kind = kind
        self.supplied = supplied
        self.refused = dict(refused or {})
        self.entries: dict[str, Any] = dict(entries or {})
        self._modules = tuple(modules)
        self._accepts = accepts

    def register(self, name: str, target: Any) -> None:
        """Add `target`, an object or "module:attribute", as `name`. Raises ValueError if it is not an identifier."""
        if not name.isidentifier():
            raise ValueError(f"register: a {self.kind} needs an identifier as name, got {name!r}")
        self.entries[name] = target

    def takes(self, name: str, value: Any) -> bool:
        """Whether a user's own object is a component of this kind."""
        return self._accepts(name, value)

    def find(self, name: str) -> Any | None:
        """The object called `name`, or None if there is no such component."""
        if name in self.entries:
            target = self.entries[name]
            return _load(target) if isinstance(target, str) else target
        if name.startswith("_") or name in self.refused:
            return None
        for module in self._modules:
            value = getattr(importlib.import_module(module), name, None)
            if value is not None and self._accepts(name, value):
                return value
        return None

    def names(self) -> list[str]:
        """Every known name, sorted. Imports the modules."""
        found = set(self.entries)
        for path in self._modules:
            module = importlib.import_module(path)
            public = getattr(module, "__all__", None) or dir(module)
            found.update(name for name in public if name not in found and self.find(name) is not None)
        return sorted(found)

    def closest(self, name: str) -> str | None:
        """The known name that is most similar to `name`, or None."""
        return closest(name, self.names())

    def create(self, component: Component, *leading: Any, **extra: Any) -> Any:
        """Create the component: call its constructor with `leading`, its own arguments and `extra`.

        Components among the arguments are created first, by the same registry with the same `leading`. Exceptions of
        the constructor (a dropout of 1.5) pass through: the caller knows `component.source`.

        Raises:
            LookupError: an unknown name.
        """
        target = self.find(component.name)
        if target is None:
            raise LookupError(f"no {self.kind} is called {component.name!r}; known: {', '.join(self.names())}")
        args = [self._create_nested(value, leading) for value in component.args]
        kwargs = {key: self._create_nested(value, leading) for key, value in component.kwargs.items()}
        return target(*leading, *args, **kwargs, **extra)

    def _create_nested(self, value: Any, leading: tuple[Any, ...]) -> Any:
        from tdt.train.config.parts import Component, Numbers

        if isinstance(value, Component):
            return self.create(value, *leading)
        if isinstance(value, Numbers):
            import tdt

            return tdt.tensor(list(value), dtype=tdt.get_default_dtype())
        if isinstance(value, (list, tuple)):
            return type(value)(self._create_nested(item, leading) for item in value)
        return value

    def __repr__(self) -> str:
        return f"Registry({self.kind!r})"


def _load(path: str) -> Any:
    module, _, attribute = path.partition(":")
    return getattr(importlib.import_module(module), attribute)


def _subclass_of(
    path: str, *, excluding: tuple[str, ...] = (), suffix: str | None = None
) -> Callable[[str, Any], bool]:
    """Accept the public subclasses of the class at `path`: those whose name ends in `suffix`, else those not `...Loss`."""

    def accepts(name: str, value: Any) -> bool:
        if not inspect.isclass(value) or name in excluding or value is (base := _load(path)):
            return False
        named = name.endswith(suffix) if suffix else not name.endswith("Loss")
        return named and issubclass(value, base)

    return accepts


def _is_layer(name: str, value: Any) -> bool:
    if inspect.isfunction(value):
        return _load("tdt.vision.models._api:BUILDERS").get(name) is value
    return _is_module(name, value)


def _is_init(name: str, value: Any) -> bool:
    return name.endswith("_") and inspect.isfunction(value)


_BASES = ("LRScheduler", "Dataset", "Optimizer")
_CODE = "takes a Python function, and a config holds no code; use another scheduler"
_LAYERS = "is what a list (or a mapping) of layers becomes; write [ReLU, Flatten], or a layer on each line"
_WEIGHTS = "only holds weights, for a layer that a program defines; write that layer"

_is_module = _subclass_of("tdt.nn:Module", excluding=("NLLLoss2d", "RNNBase", "RNNCellBase"))
layers = Registry(
    "layer",
    ["tdt.nn", "tdt.train.model.layers", "tdt.vision.models", "tdt.text.models"],
    _is_layer,
    refused=dict.fromkeys(("Sequential", "ModuleList", "ModuleDict", "Container"), _LAYERS)
    | dict.fromkeys(("ParameterList", "ParameterDict"), _WEIGHTS)
    | {"Graph": "is written as `graph:`, with its nodes below"}
    | {"ResNet": "takes a Python class; write resnet18 or another ready model"}
    | {
        network: f"takes Python objects; write {example} or another ready model"
        for network, example in (
            ("ConvNeXt", "convnext_tiny"),
            ("EfficientNet", "efficientnet_b0"),
            ("MobileNetV3", "mobilenet_v3_small"),
        )
    }
    | {
        "DataParallel": "wraps the model of a program; where a config's model runs, `device` says",
    },
)
losses = Registry("loss", ["tdt.nn"], _subclass_of("tdt.nn:Module", suffix="Loss"))
_METRICS = {
    "loss": "Loss",
    "accuracy": "Accuracy",
    "top_k": "TopK",
    "precision": "Precision",
    "recall": "Recall",
    "f1": "F1",
    "iou": "IoU",
    "dice": "Dice",
    "auroc": "AUROC",
    "average_precision": "AveragePrecision",
    "perplexity": "Perplexity",
    "mae": "MAE",
    "mse": "MSE",
    "rmse": "RMSE",
    "r2": "R2",
}
_TABLE = "is a table, not a number to log; tdt eval --confusion shows it"
metrics = Registry(
    "metric",
    accepts=_subclass_of("tdt.train.metrics:Metric"),
    entries={name: f"tdt.train.metrics:{attribute}" for name, attribute in _METRICS.items()},
    refused=dict.fromkeys(("confusion_matrix", "ConfusionMatrix"), _TABLE),
)
datasets = Registry(
    "dataset",
    ["tdt.vision.datasets", "tdt.train.data.datasets"],
    _subclass_of("tdt.utils.data:Dataset", excluding=_BASES),
)
transforms = Registry(
    "transform",
    ["tdt.vision.transforms"],
    _subclass_of("tdt.vision.transforms:Transform"),
    refused={
        "Compose": "is what a list of transforms becomes; write [ToTensor, ...]",
        "Lambda": "takes a Python function, and a config holds no code; write a Transform and import it",
    },
)
optimizers = Registry(
    "optimizer",
    ["tdt.optim"],
    _subclass_of("tdt.optim:Optimizer", excluding=_BASES),
    supplied=("params",),
    refused={"LBFGS": "computes the loss of a batch several times a step, which `tdt train` does not; use another one"},
)
schedulers = Registry(
    "scheduler",
    ["tdt.optim.lr_scheduler"],
    _subclass_of("tdt.optim.lr_scheduler:LRScheduler", excluding=_BASES),
    entries={"ChainedScheduler": "tdt.train.model.scheduling:chained"},
    supplied=("optimizer",),
    refused=dict.fromkeys(("LambdaLR", "MultiplicativeLR"), _CODE),
)
callbacks = Registry("callback", accepts=_subclass_of("tdt.train.logging.callbacks:Callback"))
initializers = Registry("init function", ["tdt.nn.init"], _is_init, supplied=("tensor",))


def find_iterable_dataset() -> type:
    """The class IterableDataset."""
    return _load("tdt.utils.data:IterableDataset")


def find_sequential() -> type:
    """The class Sequential, which lists and mappings of layers become."""
    return _load("tdt.nn:Sequential")


ALL = (layers, losses, metrics, datasets, transforms, optimizers, schedulers, callbacks, initializers)
