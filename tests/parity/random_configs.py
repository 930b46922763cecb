"""Random configs, each with the PyTorch program that says the same: one description, drawn from a seed, is the source of
both. `random_layers` draws models, `torch_program` runs PyTorch, `compare` says how far the two are apart.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

from tests.parity.random_layers import FEATURED, Layer, Shape, draw_model

Options = dict[str, Any]
SAMPLES, CLASSES = 26, 4

OPTIMIZERS: dict[str, list[Options]] = {
    "SGD": [{"lr": 0.05}, {"lr": 0.05, "momentum": 0.9}, {"lr": 0.05, "momentum": 0.9, "nesterov": True},
            {"lr": 0.05, "momentum": 0.8, "dampening": 0.1, "weight_decay": 0.01}],
    "Adam": [{"lr": 0.003}, {"lr": 0.003, "amsgrad": True, "weight_decay": 0.01}],
    "AdamW": [{"lr": 0.003}, {"lr": 0.003, "betas": [0.8, 0.9], "amsgrad": True}],
    "Adamax": [{"lr": 0.003}], "NAdam": [{"lr": 0.003}, {"lr": 0.003, "decoupled_weight_decay": True, "weight_decay": 0.1}],
    "RAdam": [{"lr": 0.003}], "Adagrad": [{"lr": 0.01, "lr_decay": 0.1, "initial_accumulator_value": 0.1}],
    "Adadelta": [{"lr": 0.5}], "RMSprop": [{"lr": 0.003, "eps": 0.001},
                {"lr": 0.003, "eps": 0.001, "centered": True, "momentum": 0.5}],
    "Rprop": [{"lr": 0.001}], "ASGD": [{"lr": 0.05, "t0": 2.0, "lambd": 0.01}], "Adafactor": [{"lr": 0.01}],
}  # fmt: skip
SCHEDULERS: dict[str, Options] = {
    "StepLR": {"step_size": 1, "gamma": 0.5}, "MultiStepLR": {"milestones": [1, 2], "gamma": 0.3},
    "ExponentialLR": {"gamma": 0.9}, "ConstantLR": {"factor": 0.5, "total_iters": 2},
    "LinearLR": {"start_factor": 0.3, "total_iters": 3}, "PolynomialLR": {"total_iters": 4, "power": 2.0},
    "CosineAnnealingLR": {"T_max": 3, "eta_min": 0.0001}, "CosineAnnealingWarmRestarts": {"T_0": 2, "T_mult": 2},
    "CyclicLR": {"base_lr": 0.001, "max_lr": 0.01, "step_size_up": 2, "cycle_momentum": False},
    "OneCycleLR": {"max_lr": 0.02, "total_steps": 40, "cycle_momentum": False},
    "ReduceLROnPlateau": {"patience": 0, "factor": 0.5, "threshold": 10.0},
    "ChainedScheduler": {"schedulers": [{"type": "StepLR", "step_size": 1, "gamma": 0.7}, {"type": "ConstantLR", "factor": 0.5}]},
    "SequentialLR": {"schedulers": [{"type": "ConstantLR", "factor": 0.5}, {"type": "ExponentialLR", "gamma": 0.8}],
                     "milestones": [1]},
}  # fmt: skip
WITH_ATTENTION = (
    "CausalSelfAttention",
    "MultiheadAttention",
    "Transformer",
    "TransformerDecoderLayer",
    "TransformerEncoderLayer",
)
# Loss → the kind of its targets, layers in front of it, options of which one is drawn.
LOSSES: dict[str, tuple[str, list[str], list[Options]]] = {
    "CrossEntropyLoss": ("class", [], [{}, {"label_smoothing": 0.1}, {"ignore_index": 1}]),
    "NLLLoss": ("class", ["LogSoftmax"], [{}]),
    "MultiMarginLoss": ("class", [], [{}, {"p": 2, "margin": 0.5}]),
    "MSELoss": ("number", [], [{}]),
    "L1Loss": ("number", [], [{}]),
    "SmoothL1Loss": ("number", [], [{"beta": 0.5}]),
    "HuberLoss": ("number", [], [{"delta": 0.7}]),
    "PoissonNLLLoss": ("count", [], [{}, {"full": True}]),
    "BCEWithLogitsLoss": ("yes", [], [{}]),
    "BCELoss": ("yes", ["Sigmoid"], [{}]),
    "MultiLabelSoftMarginLoss": ("yes", [], [{}]),
    "KLDivLoss": ("chance", ["LogSoftmax"], [{"reduction": "batchmean"}]),
    "SoftMarginLoss": ("sign", [], [{}]),
    "HingeEmbeddingLoss": ("sign", [], [{}]),
}


@dataclass
class Description:
    """A training that a config and a PyTorch program can both carry out. `layers` maps to the model; `pairs` says whether
    targets are compared by one loss or the weighted sum of two."""

    seed: int
    layers: list[Layer]
    input: Shape
    loss: str
    loss_options: Options
    optimizer: str
    optimizer_options: Options
    scheduler: str | None
    scheduler_options: Options
    epochs: int = 2
    batch_size: int = 8
    drop_last: bool = False
    valid: bool = False
    train: Options = field(default_factory=dict)
    groups: list[Options] = field(default_factory=list)
    interval: str = "epoch"
    kinds: set[str] = field(default_factory=set)


def draw(number: int, seed: int = 0) -> Description:
    """The description `number` of those of `seed`; each kind of layer, loss, optimizer and scheduler comes up in turn."""
    rng = random.Random(seed * 1_000_003 + number)
    loss = list(LOSSES)[number % len(LOSSES)]
    kind, before, options = LOSSES[loss]
    layers, shape, kinds = draw_model(rng, FEATURED[(number + seed) % len(FEATURED)], CLASSES, before)
    optimizer = list(OPTIMIZERS)[number % len(OPTIMIZERS)]
    schedulers = [*SCHEDULERS, None]
    scheduler = schedulers[number % len(schedulers)]
    description = Description(
        seed=rng.randrange(1000), layers=layers, input=shape, loss=loss, loss_options=dict(rng.choice(options)),
        optimizer=optimizer, optimizer_options=dict(rng.choice(OPTIMIZERS[optimizer])), scheduler=scheduler,
        scheduler_options=dict(SCHEDULERS.get(scheduler or "", {})), epochs=3, kinds=kinds,
    )  # fmt: skip
    description.batch_size, description.drop_last = rng.choice([(8, True), (13, False), (6, False), (26, False)])
    description.valid = rng.random() < 0.5
    if scheduler in ("CyclicLR", "OneCycleLR"):
        description.interval = "step"
    elif scheduler in ("StepLR", "ExponentialLR", "LinearLR", "CosineAnnealingLR", "PolynomialLR"):
        description.interval = rng.choice(["epoch", "step"])
    _draw_settings(description, rng, kind)
    if loss in ("L1Loss", "SmoothL1Loss", "HuberLoss", "HingeEmbeddingLoss"):
        # Their gradients may be 1/n and -1/n. Where these add up to 0, every order of summation has another rounding error, of
        # which optimizers that divide by a gradient's own size make a whole step. An odd number does not.
        description.batch_size, description.drop_last = 13, False
        description.train.pop("accumulate", None)
    if optimizer not in ("SGD", "ASGD"):
        _without_keys_bias(description.layers)
    if "ignore_index" in description.loss_options and description.batch_size == 6:
        description.drop_last = (
            True  # else the last batch has two samples, which may both be ignored: a loss that is NaN
        )
    if scheduler == "OneCycleLR":
        batches = SAMPLES // description.batch_size if description.drop_last else -(-SAMPLES // description.batch_size)
        description.scheduler_options["total_steps"] = description.epochs * -(
            -batches // description.train.get("accumulate", 1)
        )
    return description


def _without_keys_bias(layers: Any) -> None:
    """Attention without biases: that of the keys changes no result, so its gradient is rounding error, of which optimizers
    that divide by a gradient's own size make whole steps."""
    if isinstance(layers, dict):
        if layers.get("type") in WITH_ATTENTION:
            layers["bias"] = False
        layers = list(layers.values())
    if isinstance(layers, (list, tuple)):
        for item in layers:
            _without_keys_bias(item)


def _draw_settings(description: Description, rng: random.Random, kind: str) -> None:
    if rng.random() < 0.25:
        description.train["clip_grad_norm"] = rng.choice([0.1, 1.0])
    elif rng.random() < 0.2:
        description.train["clip_grad_value"] = 0.05
    if rng.random() < 0.25 and description.batch_size < 13:
        description.train["accumulate"] = rng.choice([2, 3])
    if rng.random() < 0.2:
        description.train["warmup"] = 2
    if rng.random() < 0.2:
        description.train["ema"] = 0.9
    elif rng.random() < 0.1:
        description.train["swa"] = 1
    if rng.random() < 0.3:
        description.groups = [{"params": "*bias*", "lr": description.optimizer_options["lr"] / 2}]
    if kind in ("number", "sign") and "accumulate" not in description.train and rng.random() < 0.2:
        description.loss_options["reduction"] = "sum"
