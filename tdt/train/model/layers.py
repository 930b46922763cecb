"""Layers of configs beyond `tdt.nn`: Residual, Concat, Graph, Repeat and other containers, and small adapters.

`tdt.nn` has PyTorch's layers; these are what a config without code needs in addition: residual sums, branches, repetition,
graphs. All are ordinary modules. Their submodules are named by role (`body`, `shortcut`), by key or by index; the names of
weights follow from that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tdt
from tdt import Tensor
from tdt.nn import Linear, Module, Parameter, Sequential, init
from tdt.text._cache import causal_attention, first_position

__all__ = [
    "Add",
    "CausalSelfAttention",
    "Concat",
    "Graph",
    "Parallel",
    "Pick",
    "Positions",
    "Repeat",
    "Residual",
    "Transpose",
]


class Residual(Module):
    """`body(x) + shortcut(x)`; without a shortcut x itself is added (He et al., Deep Residual Learning, 2015).

    Weights are named `body.…` and `shortcut.…`. Raises ValueError if the two differ in shape.

    Args:
        body: layer whose output is added.
        shortcut: layer on the other way, which makes shapes equal; None for the input itself.

    >>> import tdt
    >>> from tdt.train.model.layers import Residual
    >>> layer = Residual(tdt.nn.Linear(4, 4))
    >>> layer(tdt.ones(2, 4)).shape, [name for name, _ in layer.named_parameters()]
    (tdt.Size([2, 4]), ['body.weight', 'body.bias'])
    """

    def __init__(self, body: Module, shortcut: Module | None = None) -> None:
        super().__init__()
        self.body, self.shortcut = body, shortcut

    def forward(self, input: Tensor) -> Tensor:
        around = input if self.shortcut is None else self.shortcut(input)
        inside = self.body(input)
        if inside.shape != around.shape:
            name = "the input" if self.shortcut is None else "the shortcut"
            advice = "; add a shortcut that changes the shape like the body" if self.shortcut is None else ""
            shapes = f"the body returns {tuple(inside.shape)}, {name} is {tuple(around.shape)}"
            raise ValueError(f"Residual: {shapes}: different shapes cannot be added{advice}")
        return inside + around


class _Branches(Module):
    """Base of layers that join the outputs of branches for one input, or without branches several inputs."""

    def __init__(self, branches: Sequence[Module] | Mapping[str, Module] | None = None) -> None:
        super().__init__()
        named = branches.items() if isinstance(branches, Mapping) else enumerate(branches or ())
        for name, branch in named:
            self.add_module(str(name), branch)

    def _by_name(self, inputs: tuple[Tensor, ...]) -> dict[str, Tensor]:
        """The outputs of the branches by name, or the inputs by index."""
        if not self._modules:
            if len(inputs) < 2:
                raise ValueError(
                    f"{type(self).__name__}: has no branches and one input; it needs branches or several inputs"
                )
            return {str(i): x for i, x in enumerate(inputs)}
        return {name: branch(*inputs) for name, branch in self._modules.items()}

    def _refusal(self, tensors: Mapping[str, Tensor], why: str) -> ValueError:
        what = "branch" if self._modules else "input"
        shapes = ", ".join(f"{what} {name} is {tuple(x.shape)}" for name, x in tensors.items())
        return ValueError(f"{type(self).__name__}: {shapes}: {why}")


class Add(_Branches):
    """The sum of the outputs of branches for one input; without branches, of several inputs.

    Branches are a list (weights named `0.…`, `1.…`) or a mapping (named by its keys). Raises ValueError for different shapes.

    Args:
        branches: layers as a list or by name; None where the inputs themselves are added.

    >>> import tdt
    >>> from tdt.train.model.layers import Add
    >>> Add()(tdt.ones(2), tdt.ones(2))
    tensor([2., 2.])
    """

    def forward(self, *inputs: Tensor) -> Tensor:
        tensors = self._by_name(inputs)
        first, *others = tensors.values()
        total = first
        for other in others:
            if other.shape != first.shape:
                raise self._refusal(tensors, "different shapes cannot be added")
            total = total + other
        return total


class Concat(_Branches):
    """Concatenate the outputs of branches for one input, or several inputs, along `dim`.

    Branches are a list (weights named `0.…`, `1.…`) or a mapping (named by its keys). Raises ValueError if shapes
    differ in other dimensions. As in Szegedy et al., Going Deeper with Convolutions (2014).

    Args:
        branches: layers as a list or by name; None where the inputs themselves are joined.

    >>> import tdt
    >>> from tdt.train.model.layers import Concat
    >>> Concat([tdt.nn.Linear(4, 2), tdt.nn.Linear(4, 3)])(tdt.ones(1, 4)).shape
    tdt.Size([1, 5])
    """

    def __init__(self, branches: Sequence[Module] | Mapping[str, Module] | None = None, dim: int = 1) -> None:
        super().__init__(branches)
        self.dim = dim

    def forward(self, *inputs: Tensor) -> Tensor:
        tensors = self._by_name(inputs)
        shapes = [list(x.shape) for x in tensors.values()]
        for shape in shapes:
            if not -len(shape) <= self.dim < len(shape):
                raise self._refusal(tensors, f"there is no dim {self.dim}")
            shape[self.dim] = 0
        if any(shape != shapes[0] for shape in shapes):
            raise self._refusal(tensors, f"they may differ in dim {self.dim} alone")
        return tdt.cat(list(tensors.values()), self.dim)

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


class Parallel(_Branches):
    """The outputs of branches for one input: a tuple for a list of branches, a dict for a mapping.

    Weights are named `0.…`, `1.…` or by the keys. For models with several outputs: a loss picks one with
    `input: output/key`.

    Args:
        branches: layers as a list or by name.

    >>> import tdt
    >>> from tdt.train.model.layers import Parallel
    >>> heads = Parallel({"digit": tdt.nn.Linear(4, 10), "sign": tdt.nn.Linear(4, 1)})
    >>> {name: tuple(x.shape) for name, x in heads(tdt.ones(2, 4)).items()}
    {'digit': (2, 10), 'sign': (2, 1)}
    """

    def __init__(self, branches: Sequence[Module] | Mapping[str, Module]) -> None:
        super().__init__(branches)
        self.named = isinstance(branches, Mapping)

    def forward(self, *inputs: Tensor) -> Any:
        outputs = self._by_name(inputs)
        return outputs if self.named else tuple(outputs.values())


class Repeat(Sequential):
    """`times` layers in sequence, each created by calling `layer`, with weights of their own.

    They are named `0`, `1`, … as in Sequential. In a config `layer` is any model, which is built for each.

    Args:
        times: number of layers.
        layer: function that returns a new layer; in a config any model.

    >>> import tdt
    >>> from tdt.train.model.layers import Repeat
    >>> [name for name, _ in Repeat(2, lambda: tdt.nn.Linear(4, 4, bias=False)).named_parameters()]
    ['0.weight', '1.weight']
    """

    def __init__(self, times: int, layer: Callable[[], Module]) -> None:
        if times < 1:
            raise ValueError(f"Repeat: times must be at least 1, got {times}")
        super().__init__(*(layer() for _ in range(times)))


class Graph(Module):
    """Modules by name, each with the names of its inputs: other modules, or inputs of the graph.

    nodes: in topological order. outputs: a name, or several for a dict of outputs. Called with as many tensors as
    `inputs` has names, or with one tuple of them, or a dict. Weights are named after the nodes.

    >>> import tdt
    >>> from tdt.train.model.layers import Add, Graph
    >>> graph = Graph({"a": tdt.nn.Linear(4, 4), "sum": Add()}, {"a": ["x"], "sum": ["x", "a"]}, ["x"], "sum")
    >>> graph(tdt.ones(2, 4)).shape
    tdt.Size([2, 4])
    """

    def __init__(
        self,
        nodes: Mapping[str, Module],
        sources: Mapping[str, Sequence[str]],
        inputs: Sequence[str],
        outputs: str | Sequence[str],
    ) -> None:
        super().__init__()
        known = set(inputs)
        for name, node in nodes.items():
            unknown = [source for source in sources[name] if source not in known]
            if unknown or name in known:
                reason = f"takes from {unknown[0]!r}, which is not before it" if unknown else "already exists"
                raise ValueError(f"Graph: node {name!r} {reason}")
            known.add(name)
            self.add_module(name, node)
        self.sources = {name: tuple(sources[name]) for name in nodes}
        self.inputs, self.outputs = tuple(inputs), outputs if isinstance(outputs, str) else tuple(outputs)

    def forward(self, *inputs: Any) -> Any:
        if len(inputs) == 1 and isinstance(inputs[0], Mapping):
            tensors = inputs[0]
            if tensors.keys() != set(self.inputs):
                named = ", ".join(map(str, tensors))
                raise ValueError(f"Graph: takes the inputs {', '.join(self.inputs)}, but got {named}")
            inputs = tuple(tensors[name] for name in self.inputs)
        elif len(inputs) == 1 and isinstance(inputs[0], (tuple, list)):
            inputs = tuple(inputs[0])
        if len(inputs) != len(self.inputs):
            raise ValueError(f"Graph: takes {len(self.inputs)} inputs ({', '.join(self.inputs)}), got {len(inputs)}")
        values = dict(zip(self.inputs, inputs, strict=True))
        for name, node in self._modules.items():
            values[name] = node(*(values[source] for source in self.sources[name]))
        if isinstance(self.outputs, str):
            return values[self.outputs]
        return {name: values[name] for name in self.outputs}


class Pick(Module):
    """Select one of several outputs of the previous layer: by index, as from `(output, state)` of an LSTM, or by key.

    Args:
        key: index or name of the output.

    >>> import tdt
    >>> from tdt.train.model.layers import Pick
    >>> Pick(0)((tdt.ones(2), "state"))
    tensor([1., 1.])
    """

    def __init__(self, key: int | str) -> None:
        super().__init__()
        self.key = key

    def forward(self, input: Any) -> Any:
        return input[self.key]

    def extra_repr(self) -> str:
        return repr(self.key)


class Transpose(Module):
    """Swap two dimensions; 0 is the batch.

    For sequences: losses over classes take (n, classes, length), a Linear returns (n, length, classes).

    Args:
        dim0, dim1: the dimensions; 0 is the batch.

    >>> import tdt
    >>> from tdt.train.model.layers import Transpose
    >>> Transpose(1, 2)(tdt.ones(8, 5, 3)).shape
    tdt.Size([8, 3, 5])
    """

    def __init__(self, dim0: int, dim1: int) -> None:
        super().__init__()
        self.dim0, self.dim1 = dim0, dim1

    def forward(self, input: Tensor) -> Tensor:
        return input.transpose(self.dim0, self.dim1)

    def extra_repr(self) -> str:
        return f"{self.dim0}, {self.dim1}"


def _check_sequence(layer: Module, input: Tensor) -> None:
    if input.ndim != 3:
        raise ValueError(
            f"{type(layer).__name__}: takes sequences (n, length, width), got the shape {tuple(input.shape)}"
        )


class Positions(Module):
    """Learned positional embedding: adds a vector for each position of a sequence (n, length, width) up to `max_length`.

    Initialised from a normal distribution with deviation 0.02 (Radford et al., Language Models are Unsupervised
    Multitask Learners, 2019).

    Args:
        max_length: most positions of a sequence.
        width: numbers of each vector.

    >>> import tdt
    >>> from tdt.train.model.layers import Positions
    >>> Positions(16, 8)(tdt.zeros(2, 5, 8)).shape
    tdt.Size([2, 5, 8])
    """

    def __init__(self, max_length: int, width: int) -> None:
        super().__init__()
        self.weight = Parameter(tdt.empty(max_length, width))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initialise the vectors."""
        init.normal_(self.weight, std=0.02)

    def forward(self, input: Tensor) -> Tensor:
        _check_sequence(self, input)
        start = first_position()
        end = start + input.shape[1]
        if end > self.max_length:
            raise ValueError(f"Positions: the sequence has length {end}, but max_length is {self.max_length}")
        return input + self.weight[start:end]

    @property
    def max_length(self) -> int:
        """The longest sequence."""
        return self.weight.shape[0]

    def extra_repr(self) -> str:
        return f"{self.weight.shape[0]}, {self.weight.shape[1]}"


class CausalSelfAttention(Module):
    """Causal multi-head self-attention: (n, length, embed_dim) → same. Each position attends to itself and earlier ones.

    Weights are named `in_proj` (queries, keys and values) and `out_proj`.

    Args:
        embed_dim: features of every position, divided among the heads.
        dropout: probability that an attention weight is zeroed in training.
    Raises:
        ValueError: when embed_dim is not a multiple of num_heads.
    Source: Vaswani et al., "Attention Is All You Need", 2017.

    >>> import tdt
    >>> from tdt.train.model.layers import CausalSelfAttention
    >>> CausalSelfAttention(8, 2)(tdt.rand(3, 5, 8)).shape
    tdt.Size([3, 5, 8])
    """

    def __init__(self, embed_dim: int, num_heads: int, dropout: float = 0.0, bias: bool = True) -> None:
        super().__init__()
        if num_heads < 1 or embed_dim % num_heads:
            raise ValueError(f"CausalSelfAttention: embed_dim {embed_dim} is not a multiple of num_heads {num_heads}")
        self.num_heads, self.dropout = num_heads, dropout
        self.in_proj = Linear(embed_dim, 3 * embed_dim, bias)
        self.out_proj = Linear(embed_dim, embed_dim, bias)

    def forward(self, input: Tensor) -> Tensor:
        _check_sequence(self, input)
        n, length, width = input.shape
        heads = self.in_proj(input).reshape(n, length, 3, self.num_heads, -1).permute(2, 0, 3, 1, 4)
        q, k, v = heads  # each (n, heads, length, width / heads)
        dropout = self.dropout if self.training else 0.0
        attended = causal_attention(self, q, k, v, dropout=dropout)
        return self.out_proj(attended.transpose(1, 2).reshape(n, length, width))

    def extra_repr(self) -> str:
        return f"num_heads={self.num_heads}, dropout={self.dropout}"
