"""Build the model that a config declares, and map each layer to its position in the config."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

from tdt import Tensor, nn
from tdt.nn.modules.module import (
    register_module_module_registration_hook,
    register_module_parameter_registration_hook,
)
from tdt.train.config import Chain, Component, ConfigErrors, Factory, Graph, LossTerm, Part, registry
from tdt.train.errors import EXPECTED_ERRORS
from tdt.train.model import layers
from tdt.train.model.objective import Objective, Term

CONSTRUCTOR_ERRORS = (*EXPECTED_ERRORS, AssertionError)  # exceptions that constructors raise for invalid arguments
MOST = 20_000  # modules and parameters of a model
OWN_STEP = r"Detected call of `lr_scheduler\.step\(\)`"  # which SequentialLR causes for a scheduler nested in it


class FailedLayer(nn.Module):
    """Stands for a layer whose constructor raised an exception. Its output shape is unknown."""

    def forward(self, *inputs: Tensor) -> Tensor:
        raise UnknownShape


class UnknownShape(Exception):
    """Ends a forward pass at a failed layer: errors after it would be caused by it."""


class _Bound:
    """Context manager that limits the number of modules and parameters: `Repeat(1000000000, ReLU)` is easily written."""

    def __init__(self) -> None:
        self.found: dict[int, Any] = {}  # by id; kept alive so that ids stay unique

    def __call__(self, owner: nn.Module, name: str, registered: Any) -> None:
        """Registration hook: count what is registered, with everything inside a module."""
        if isinstance(registered, nn.Module):
            for one in registered.modules():
                self.add(one)
                self.found |= {id(parameter): parameter for parameter in one._parameters.values()}
        self.add(registered)

    def add(self, one: Any) -> None:
        """Count a module or parameter, once. Raises ValueError beyond the limit."""
        self.found[id(one)] = one
        if len(self.found) > MOST:
            raise ValueError(f"the model has more than {MOST:,} modules and parameter tensors together")

    def __enter__(self) -> None:
        self.handles = [
            register(self)
            for register in (register_module_module_registration_hook, register_module_parameter_registration_hook)
        ]

    def __exit__(self, *exc: object) -> None:
        for handle in self.handles:
            handle.remove()


def build_model(part: Part, errors: ConfigErrors) -> tuple[nn.Module, dict[nn.Module, Component]]:
    """The model, and the component of each layer."""
    sources: dict[nn.Module, Component] = {}
    bound = _Bound()

    def build(part: Part) -> nn.Module:
        if isinstance(part, Chain):
            bound.add(chain := nn.Sequential())
            section, _, block = part.key_path.partition(".")
            if section == "blocks" and "." not in block:
                chain.graph_name = block
            for name, entry in part.entries:
                chain.add_module(name, build(entry))
            return chain
        if isinstance(part, Graph):
            nodes = {name: build(node) for name, node in part.nodes.items()}
            return layers.Graph(nodes, part.sources, part.inputs, part.outputs)
        assert isinstance(part, Component)
        args = tuple(built(value) for value in part.args)
        kwargs = {key: built(value) for key, value in part.kwargs.items()}
        layer = create(registry.layers, replace(part, args=args, kwargs=kwargs), errors)
        layer = FailedLayer() if layer is None else layer
        bound.add(layer)
        sources[layer] = part
        return layer

    def built(value: Any) -> Any:
        """An argument with the layers in it built."""
        if isinstance(value, Factory):
            return lambda: build(value.part)
        if isinstance(value, Part):
            return build(value)
        if isinstance(value, dict):
            return {key: built(item) for key, item in value.items()}
        return type(value)(built(item) for item in value) if isinstance(value, (list, tuple)) else value

    with bound:
        try:
            return build(part), sources
        except ValueError as error:  # of chains, which are not components
            errors.add("model", str(error))
            return FailedLayer(), sources


def build_objective(terms: tuple[LossTerm, ...], errors: ConfigErrors) -> Objective | None:
    """The training objective; None after reporting a loss whose constructor raised an exception."""
    built = [(term, create(registry.losses, term.component, errors)) for term in terms]
    if any(loss is None for _, loss in built):
        return None
    return Objective([Term(term.name, loss, term.input, term.target, term.weight) for term, loss in built])


def create(known: registry.Registry, component: Component, errors: ConfigErrors, *leading: Any) -> Any:
    """Create the component; None after reporting an exception or a warning of its constructor."""
    try:
        with warnings.catch_warnings():
            # such as about the dropout of a single recurrent layer
            warnings.simplefilter("error", UserWarning)
            warnings.filterwarnings("ignore", OWN_STEP, UserWarning)
            return known.create(component, *leading)
    except (*CONSTRUCTOR_ERRORS, UserWarning) as error:
        errors.add(component, str(error), kind="unused" if isinstance(error, UserWarning) else "bad-value")
        return None
