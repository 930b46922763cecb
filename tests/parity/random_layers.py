"""Random models as descriptions that a config can say and PyTorch can build, and the table of the layers in them."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from tests.helpers import require_torch

torch = require_torch()
nn = torch.nn

Shape = tuple[int, ...]
Layer = dict[str, Any]  # {"type": name, argument: value}; arguments that are layers are lists of such
Draw = Callable[[random.Random, Shape], Layer | list[Layer]]

ACTIVATIONS = [
    "CELU", "ELU", "GELU", "Hardshrink", "Hardsigmoid", "Hardswish", "Hardtanh", "Identity", "LeakyReLU", "LogSigmoid",
    "Mish", "PReLU", "RReLU", "ReLU", "ReLU6", "SELU", "SiLU", "Sigmoid", "Softplus", "Softshrink", "Softsign", "Tanh",
    "Tanhshrink",
]  # fmt: skip
SMOOTH = ["CELU", "ELU", "GELU", "Mish", "SiLU", "Sigmoid", "Softplus", "Softsign", "Tanh"]


def _plain(name: str, **arguments: Any) -> Draw:
    return lambda rng, shape: {"type": name, **arguments}


def _conv(name: str) -> Draw:
    transposed = "Transpose" in name

    def draw(rng: random.Random, shape: Shape) -> Layer:
        inputs = shape[0]
        layer: Layer = {
            "type": name,
            "in_channels": inputs,
            "out_channels": rng.choice([2, 4, 6]),
            "kernel_size": rng.choice([1, 2, 3]),
        }
        if rng.random() < 0.3:
            layer |= {"stride": 2}
        if rng.random() < 0.4:
            layer |= {"padding": min(1, layer["kernel_size"] - 1)}
            if not transposed and layer["padding"] and rng.random() < 0.5:
                layer["padding_mode"] = rng.choice(["reflect", "replicate", "circular"])
        if inputs % 2 == 0 and rng.random() < 0.3:
            layer["groups"] = 2
        if rng.random() < 0.2:
            layer["bias"] = False
        if not transposed and rng.random() < 0.2:
            layer["dilation"] = 2
        if name.startswith("Lazy"):
            del layer["in_channels"]
        return layer

    return draw


def _by_channels(name: str, **arguments: Any) -> Draw:
    return lambda rng, shape: {"type": name, "num_features": shape[0], **arguments}


def _groups(rng: random.Random, shape: Shape) -> Layer:
    return {"type": "GroupNorm", "num_groups": 2 if shape[0] % 2 == 0 else 1, "num_channels": shape[0]}


def _pad(name: str, size: int) -> Draw:
    value = {"value": 0.5} if name.startswith("Constant") else {}
    return lambda rng, shape: {"type": name, "padding": [rng.choice([0, 1]) for _ in range(size)], **value}


def _linear(rng: random.Random, shape: Shape) -> Layer:
    return {"type": "Linear", "in_features": shape[-1], "out_features": rng.choice([3, 4, 6])}


def _norm(name: str) -> Draw:
    return lambda rng, shape: {"type": name, "normalized_shape": list(shape[rng.choice([-1, -1, 0]) :])}


def _rnn(name: str) -> Draw:
    def draw(rng: random.Random, shape: Shape) -> list[Layer]:
        layer: Layer = {"type": name, "input_size": shape[-1], "hidden_size": rng.choice([3, 4]), "batch_first": True}
        if rng.random() < 0.4:
            layer |= {"num_layers": 2, "dropout": 0.3}
        if rng.random() < 0.4:
            layer["bidirectional"] = True
        if name == "LSTM" and rng.random() < 0.3:
            layer["proj_size"] = 2
        if name == "RNN" and rng.random() < 0.3:
            layer["nonlinearity"] = "relu"
        return [layer, {"type": "Pick", "key": 0}]

    return draw


def _cell(name: str) -> Draw:
    def draw(rng: random.Random, shape: Shape) -> list[Layer]:
        layer = {"type": name, "input_size": shape[-1], "hidden_size": 4}
        return [layer, {"type": "Pick", "key": 0}] if name == "LSTMCell" else [layer]

    return draw


def _even(shape: Shape) -> list[Layer]:
    """Layers that make the width even, for attention with two heads."""
    return [] if shape[-1] % 2 == 0 else [{"type": "Linear", "in_features": shape[-1], "out_features": 4}]


def _width(shape: Shape) -> int:
    return shape[-1] if shape[-1] % 2 == 0 else 4


def _encoder(rng: random.Random, shape: Shape) -> list[Layer]:
    return [*_even(shape), _encoder_layer(rng, _width(shape))]


def _encoder_layer(rng: random.Random, width: int) -> Layer:
    return {
        "type": "TransformerEncoderLayer",
        "d_model": width,
        "nhead": 2,
        "dim_feedforward": 6,
        "dropout": rng.choice([0.0, 0.1]),
        "activation": rng.choice(["relu", "gelu"]),
        "batch_first": True,
        "norm_first": rng.random() < 0.5,
    }


def _encoders(rng: random.Random, shape: Shape) -> list[Layer]:
    inner = _encoder_layer(rng, _width(shape))
    return [
        *_even(shape),
        {"type": "TransformerEncoder", "encoder_layer": inner, "num_layers": 2, "enable_nested_tensor": False},
    ]


def _graph(nodes: dict[str, tuple[Layer | list[Layer], list[str]]]) -> Layer:
    return {"type": "Graph", "nodes": nodes}


def _attention(rng: random.Random, shape: Shape) -> list[Layer]:
    heads = {
        "type": "MultiheadAttention",
        "embed_dim": _width(shape),
        "num_heads": 2,
        "batch_first": True,
        "dropout": rng.choice([0.0, 0.2]),
    }
    first = {"type": "Pick", "key": 0}
    return [*_even(shape), _graph({"look": (heads, ["input"] * 3), "seen": (first, ["look"])})]


def _decoder(rng: random.Random, shape: Shape) -> list[Layer]:
    width = _width(shape)
    layer = {
        "type": "TransformerDecoderLayer",
        "d_model": width,
        "nhead": 2,
        "dim_feedforward": 6,
        "dropout": 0.1,
        "batch_first": True,
    }
    memory = {"type": "Linear", "in_features": width, "out_features": width}
    return [*_even(shape), _graph({"memory": (memory, ["input"]), "out": (layer, ["input", "memory"])})]


def _whole_transformer(rng: random.Random, shape: Shape) -> list[Layer]:
    layer = {"type": "Transformer", "d_model": _width(shape), "nhead": 2, "num_encoder_layers": 1, "num_decoder_layers": 1,
             "dim_feedforward": 6, "dropout": 0.1, "batch_first": True}  # fmt: skip
    return [*_even(shape), _graph({"out": (layer, ["input", "input"])})]


def _two(layer: Layer, width: int = 4, after: list[Layer] | None = None) -> Draw:
    """A layer of two inputs, each a Linear of the same."""

    def draw(rng: random.Random, shape: Shape) -> list[Layer]:
        side = {"type": "Linear", "in_features": shape[-1], "out_features": width}
        nodes: dict[str, Any] = {"a": (side, ["input"]), "b": (dict(side), ["input"]), "joined": (layer, ["a", "b"])}
        return [_graph(nodes), *(after or [])]

    return draw


def _unpool(nd: int) -> Draw:
    def draw(rng: random.Random, shape: Shape) -> list[Layer]:
        even: Layer = {"type": f"AdaptiveAvgPool{nd}d", "output_size": [4] * nd}
        pool = {"type": f"MaxPool{nd}d", "kernel_size": 2, "return_indices": True}
        nodes: dict[str, Any] = {
            "pool": (pool, ["input"]), "values": ({"type": "Pick", "key": 0}, ["pool"]),
            "places": ({"type": "Pick", "key": 1}, ["pool"]),
            "out": ({"type": f"MaxUnpool{nd}d", "kernel_size": 2}, ["values", "places"]),
        }  # fmt: skip
        return [even, _graph(nodes)]

    return draw


def _causal(rng: random.Random, shape: Shape) -> list[Layer]:
    return [
        *_even(shape),
        {"type": "CausalSelfAttention", "embed_dim": _width(shape), "num_heads": 2, "dropout": rng.choice([0.0, 0.2])},
    ]


def _fold(rng: random.Random, shape: Shape) -> list[Layer]:
    return [{"type": "Unfold", "kernel_size": 2, "stride": 1},
            {"type": "Fold", "output_size": list(shape[1:]), "kernel_size": 2, "stride": 1}]  # fmt: skip


def _residual(rng: random.Random, shape: Shape) -> Layer:
    return {"type": "Residual", "body": _same(rng, shape)}


def _same(rng: random.Random, shape: Shape) -> list[Layer]:
    """Layers that leave a shape as it is."""
    nd = len(shape) - 1
    drop = {"type": rng.choice(["Dropout", "AlphaDropout"]), "p": 0.3}
    act = {"type": rng.choice(SMOOTH)}
    if nd in (1, 2, 3) and rng.random() < 0.7:
        conv = {"type": f"Conv{nd}d", "in_channels": shape[0], "out_channels": shape[0], "kernel_size": 3, "padding": 1}
        return rng.sample([conv, act, drop], 3)
    return rng.sample([{"type": "Linear", "in_features": shape[-1], "out_features": shape[-1]}, act, drop], 3)


def _branches(name: str) -> Draw:
    def draw(rng: random.Random, shape: Shape) -> Layer:
        if rng.random() < 0.5:
            return {"type": name, "branches": [_same(rng, shape), _same(rng, shape)]}
        return {"type": name, "branches": {"left": _same(rng, shape), "right": _same(rng, shape)}}

    return draw


def _repeat(rng: random.Random, shape: Shape) -> Layer:
    return {"type": "Repeat", "times": 2, "layer": _same(rng, shape)}


def _parallel(rng: random.Random, shape: Shape) -> list[Layer]:
    layer = {"type": "Parallel", "branches": {"kept": _same(rng, shape)}}
    return [layer, {"type": "Pick", "key": "kept"}]


# Domain → layers by the name under which they are drawn. A domain is the rank of what a layer takes, without the batch.
# CrossMapLRN2d is left out: it differs from PyTorch's on purpose, as its docstring says.
VECTOR, LINE, IMAGE, VOLUME, SEQUENCE, TOKENS = "vector", "line", "image", "volume", "sequence", "tokens"
EVERYWHERE: dict[str, Draw] = {name: _plain(name) for name in ACTIVATIONS} | {
    "Dropout": _plain("Dropout", p=0.3), "AlphaDropout": _plain("AlphaDropout", p=0.2),
    "Threshold": _plain("Threshold", threshold=0.1, value=0.2), "Softmax": _plain("Softmax", dim=1),
    "Softmin": _plain("Softmin", dim=-1), "LogSoftmax": _plain("LogSoftmax", dim=1), "LayerNorm": _norm("LayerNorm"),
    "RMSNorm": _norm("RMSNorm"), "Residual": _residual, "Add": _branches("Add"), "Concat": _branches("Concat"),
    "Repeat": _repeat, "Parallel": _parallel, "Linear": _linear, "LazyLinear": _plain("LazyLinear", out_features=4),
}  # fmt: skip


def _of_rank(nd: int) -> dict[str, Draw]:
    """The layers of feature maps of `nd` dimensions."""
    d = f"{nd}d"
    draws: dict[str, Draw] = {
        f"{name}{d}": _conv(f"{name}{d}") for name in ("Conv", "ConvTranspose", "LazyConv", "LazyConvTranspose")
    }
    draws |= {
        f"BatchNorm{d}": _by_channels(f"BatchNorm{d}"),
        f"InstanceNorm{d}": _by_channels(f"InstanceNorm{d}", affine=True),
        f"LazyBatchNorm{d}": _plain(f"LazyBatchNorm{d}", momentum=0.2),
        f"LazyInstanceNorm{d}": _plain(f"LazyInstanceNorm{d}", affine=True, track_running_stats=True),
        "GroupNorm": _groups,
        f"MaxPool{d}": _plain(f"MaxPool{d}", kernel_size=2), f"AvgPool{d}": _plain(f"AvgPool{d}", kernel_size=2, stride=1),
        f"LPPool{d}": _plain(f"LPPool{d}", norm_type=2, kernel_size=2),
        f"AdaptiveAvgPool{d}": _plain(f"AdaptiveAvgPool{d}", output_size=[3] * nd),
        f"AdaptiveMaxPool{d}": _plain(f"AdaptiveMaxPool{d}", output_size=[3] * nd),
        f"MaxUnpool{d}": _unpool(nd), f"Dropout{d}": _plain(f"Dropout{d}", p=0.3),
        "FeatureAlphaDropout": _plain("FeatureAlphaDropout", p=0.3),
        f"ReflectionPad{d}": _pad(f"ReflectionPad{d}", 2 * nd), f"ReplicationPad{d}": _pad(f"ReplicationPad{d}", 2 * nd),
        f"ConstantPad{d}": _pad(f"ConstantPad{d}", 2 * nd), f"ZeroPad{d}": _pad(f"ZeroPad{d}", 2 * nd),
        f"CircularPad{d}": _pad(f"CircularPad{d}", 2 * nd), "LocalResponseNorm": _plain("LocalResponseNorm", size=3, alpha=0.1),
        "Upsample": _plain("Upsample", scale_factor=2, mode={1: "linear", 2: "bilinear", 3: "trilinear"}[nd]),
    }  # fmt: skip
    return draws


DOMAINS: dict[str, dict[str, Draw]] = {
    VECTOR: {
        "BatchNorm1d": _by_channels("BatchNorm1d"), "LazyBatchNorm1d": _plain("LazyBatchNorm1d"),
        "GRUCell": _cell("GRUCell"), "RNNCell": _cell("RNNCell"), "LSTMCell": _cell("LSTMCell"),
        "Bilinear": _two({"type": "Bilinear", "in1_features": 4, "in2_features": 4, "out_features": 3}),
        "PairwiseDistance": _two({"type": "PairwiseDistance", "keepdim": True}),
        "CosineSimilarity": _two({"type": "CosineSimilarity", "dim": 1},
                                 after=[{"type": "Unflatten", "dim": 0, "unflattened_size": [-1, 1]}]),
    },
    LINE: _of_rank(1) | {"Transpose": _plain("Transpose", dim0=1, dim1=2)},
    IMAGE: _of_rank(2) | {
        "FractionalMaxPool2d": _plain("FractionalMaxPool2d", kernel_size=2, output_ratio=0.6),
        "UpsamplingBilinear2d": _plain("UpsamplingBilinear2d", scale_factor=2),
        "UpsamplingNearest2d": _plain("UpsamplingNearest2d", scale_factor=2), "Softmax2d": _plain("Softmax2d"),
        "PixelUnshuffle": _plain("PixelUnshuffle", downscale_factor=2),
        "PixelShuffle": lambda rng, shape: [{"type": "Conv2d", "in_channels": shape[0], "out_channels": 8, "kernel_size": 1},
                                            {"type": "PixelShuffle", "upscale_factor": 2}],
        "ChannelShuffle": lambda rng, shape: [{"type": "Conv2d", "in_channels": shape[0], "out_channels": 4, "kernel_size": 1},
                                              {"type": "ChannelShuffle", "groups": 2}],
        "Fold": _fold, "Unfold": _plain("Unfold", kernel_size=2), "Flatten": _plain("Flatten", start_dim=2),
        "GLU": lambda rng, shape: [{"type": "Conv2d", "in_channels": shape[0], "out_channels": 4, "kernel_size": 1},
                                   {"type": "GLU", "dim": 1}],
        "Transpose": _plain("Transpose", dim0=2, dim1=3),
    },
    VOLUME: _of_rank(3) | {"FractionalMaxPool3d": _plain("FractionalMaxPool3d", kernel_size=2, output_ratio=0.6)},
    SEQUENCE: {
        "LSTM": _rnn("LSTM"), "GRU": _rnn("GRU"), "RNN": _rnn("RNN"), "TransformerEncoderLayer": _encoder,
        "TransformerEncoder": _encoders, "MultiheadAttention": _attention, "TransformerDecoderLayer": _decoder,
        "Transformer": _whole_transformer, "CausalSelfAttention": _causal, "Transpose": _plain("Transpose", dim0=1, dim1=2),
        "Positions": lambda rng, shape: {"type": "Positions", "max_length": shape[0] + 1, "width": shape[1]},
    },
    TOKENS: {
        "Embedding": lambda rng, shape: {"type": "Embedding", "num_embeddings": 7, "embedding_dim": 4, **rng.choice(
            [{}, {"padding_idx": 1}, {"max_norm": 1.0}, {"scale_grad_by_freq": True}])},
        "EmbeddingBag": lambda rng, shape: {"type": "EmbeddingBag", "num_embeddings": 7, "embedding_dim": 4,
                                            "mode": rng.choice(["sum", "mean", "max"])},
    },
}  # fmt: skip
STARTS = {VECTOR: (6,), LINE: (4, 9), IMAGE: (2, 8, 8), VOLUME: (2, 6, 6, 6), SEQUENCE: (5, 4), TOKENS: (6,)}
# Each (domain, layer) once, then those that fit everywhere, in the domains in turn.
FEATURED: list[tuple[str, str]] = [(domain, name) for domain, known in DOMAINS.items() for name in known]
FEATURED += [(list(DOMAINS)[:5][i % 5], name) for i, name in enumerate(EVERYWHERE)]
random.Random(0).shuffle(FEATURED)


def draw_model(
    rng: random.Random, featured: tuple[str, str], classes: int, before_loss: list[str]
) -> tuple[list[Layer], Shape, set[str]]:
    """Layers that hold the `featured` one and give `classes` numbers, the shape of an input, and the kinds of layers."""
    domain, name = featured
    start = STARTS[domain]
    for before in (2, 1, 0):
        layers: list[Layer] = []
        x = torch.zeros(3, *start, dtype=torch.int64 if domain == TOKENS else torch.float64)
        for _ in range(before if domain != TOKENS else 0):
            x = _add_layer(rng, layers, x, domain, None)
        y = _add_layer(rng, layers, x, domain, name)
        if y is not None:
            break
    assert y is not None, f"no place for {name}"
    x = y
    for _ in range(rng.randrange(1, 4)):
        x = _add_layer(rng, layers, x, None, None)
    if x.ndim > 2:
        layers.append({"type": "Flatten"})
        x = x.flatten(1)
    layers.append({"type": "Linear", "in_features": x.shape[1], "out_features": classes})
    layers += [{"type": one, **({"dim": 1} if one == "LogSoftmax" else {})} for one in before_loss]
    return layers, start, kinds_of(layers)


def _add_layer(rng: random.Random, layers: list[Layer], x: Any, domain: str | None, required: str | None) -> Any:
    """Add `required`, or one drawn that fits what comes out of the layers before; the output for `x`.

    Of one that is drawn for a `domain` the output belongs there too. None where `required` does not fit.
    """
    for _ in range(40):
        here = domain or _domain(x)
        known = DOMAINS[here] | (EVERYWHERE if here != TOKENS else {})
        name = required or rng.choice(list(known))
        drawn = known[name](rng, tuple(x.shape[1:]))
        candidate = drawn if isinstance(drawn, list) else [drawn]
        y = _tried(candidate, x)
        if y is not None and (required or not domain or y.ndim == x.ndim):
            layers += candidate
            return y
    return None if required else x


def _domain(x: Any) -> str:
    if not x.is_floating_point():
        return TOKENS
    return {2: VECTOR, 3: LINE if x.shape[1] % 2 else SEQUENCE, 4: IMAGE, 5: VOLUME}[x.ndim]


def _tried(layers: list[Layer], x: Any) -> Any:
    """The output of layers for `x`, or None where they do not take it, or make it too large or of an odd rank."""
    from tests.parity.torch_program import build_torch

    try:
        with torch.no_grad():
            y = build_torch(layers).double().eval()(x)
    except (RuntimeError, ValueError, AssertionError, IndexError, TypeError):
        return None
    fits = y.ndim in (2, 3, 4, 5) and 1 <= y[0].numel() <= 4000 and len(y) == len(x) and y.is_floating_point()
    return y if fits and (y.ndim == 2 or min(y.shape[2:]) > 1) else None


def kinds_of(layers: Any) -> set[str]:
    """The types of the layers in a description, at any depth."""
    found: set[str] = set()
    if isinstance(layers, dict):
        found |= {layers["type"]} if isinstance(layers.get("type"), str) else set()
        layers = list(layers.values())
    if isinstance(layers, (list, tuple)):
        for item in layers:
            found |= kinds_of(item)
    return found
