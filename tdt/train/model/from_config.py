"""Build the module that a config declares; map each layer to the place where it is written."""

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
from tdt.train.errors import REFUSALS
from tdt.train.model import layers
from tdt.train.model.objective import Objective, Term

CONSTRUCTOR_ERRORS = (*REFUSALS, AssertionError)  # what constructors say no with, as PyTorch's do
MOST = 20_000  # modules and parameters of a model
OWN_STEP = (
    r"Detected call of `lr_scheduler\.step\(\)`"  # which SequentialLR itself makes of a scheduler that is nested in it
)


class Refused(nn.Module):
    """Stands for a layer whose constructor said no; what comes out of it nobody knows."""

    def forward(self, *inputs: Tensor) -> Tensor:
        raise Unknown


class Unknown(Exception):
    """Ends a pass through a model with a refused layer: what would be found beyond is no mistake of its own."""


class _Bound:
    """While it is entered, what makes modules and parameters is refused more of them than a model may have: a config is a
    few characters away from `Repeat(1000000000, ReLU)`."""

    def __init__(self) -> None:
        self.found: dict[int, Any] = {}  # kept, so that none has the number of one before it

    def __call__(self, owner: nn.Module, name: str, registered: Any) -> None:
        """As a hook on registering: what is registered, and of a module all that it holds, as of a copy."""
        if isinstance(registered, nn.Module):
            for one in registered.modules():
                self.add(one)
                self.found |= {id(parameter): parameter for parameter in one._parameters.values()}
        self.add(registered)

    def add(self, one: Any) -> None:
        """Count a module or parameter, once. ValueError for one too many."""
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
    """The model, and for each layer the component it was made from."""
    sources: dict[nn.Module, Component] = {}
    bound = _Bound()

    def make(part: Part) -> nn.Module:
        if isinstance(part, Chain):
            bound.add(chain := nn.Sequential())
            for name, entry in part.entries:
                chain.add_module(name, make(entry))
            return chain
        if isinstance(part, Graph):
            nodes = {name: make(node) for name, node in part.nodes.items()}
            return layers.Graph(nodes, part.sources, part.inputs, part.outputs)
        assert isinstance(part, Component)
        args = tuple(made(value) for value in part.args)
        kwargs = {key: made(value) for key, value in part.kwargs.items()}
        layer = create(registry.layers, replace(part, args=args, kwargs=kwargs), errors)
        layer = Refused() if layer is None else layer
        bound.add(layer)
        sources[layer] = part
        return layer

    def made(value: Any) -> Any:
        """An argument with the layers in it made."""
        if isinstance(value, Factory):
            return lambda: make(value.part)
        if isinstance(value, Part):
            return make(value)
        if isinstance(value, dict):
            return {key: made(item) for key, item in value.items()}
        return type(value)(made(item) for item in value) if isinstance(value, (list, tuple)) else value

    with bound:
        try:
            return make(part), sources
        except ValueError as error:  # of chains alone, which no component made
            errors.add("model", str(error))
            return Refused(), sources


def build_objective(terms: tuple[LossTerm, ...], errors: ConfigErrors) -> Objective | None:
    """What is minimised; None after reporting why a loss refused its arguments."""
    made = [(term, create(registry.losses, term.component, errors)) for term in terms]
    if any(loss is None for _, loss in made):
        return None
    return Objective([Term(term.name, loss, term.input, term.target, term.weight) for term, loss in made])


def create(known: registry.Registry, component: Component, errors: ConfigErrors, *leading: Any) -> Any:
    """What the component names, or None after reporting why its constructor refused, or what it warned of."""
    try:
        with warnings.catch_warnings():
            # as of the dropout of a single recurrent layer, which does nothing
            warnings.simplefilter("error", UserWarning)
            warnings.filterwarnings("ignore", OWN_STEP, UserWarning)
            return known.create(component, *leading)
    except (*CONSTRUCTOR_ERRORS, UserWarning) as error:
        errors.add(component, str(error), kind="unused" if isinstance(error, UserWarning) else "bad-value")
        return None
