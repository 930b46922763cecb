"""What each key of a config means: from the docstrings of the sections and of the components, for the schema that editors
show, the config reference and `tdt config explain`."""

from __future__ import annotations

import inspect
import re
from collections.abc import Collection
from typing import Any

# Arguments that mean the same in all components of a kind; a docstring's own text comes first.
COMMON: dict[str, dict[str, str]] = {
    "optimizer": {
        "lr": "Learning rate.",
        "momentum": "Factor of the running sum of past gradients.",
        "nesterov": "Nesterov's form of momentum.",
        "weight_decay": "Factor by which weights decay: of an L2 penalty, or decoupled from the gradient where the name says so.",
        "eps": "Added to denominators.",
        "maximize": "Maximize the loss.",
        "foreach": "Accepted without effect; there is one implementation.",
        "fused": "Accepted without effect; there is one implementation.",
        "capturable": "For CUDA graphs of PyTorch; a step raises an error.",
        "differentiable": "Autograd records the step; the parameters must then be results of operations.",
        "beta2_decay": "Exponent of the step in the decay of the second moment.",
        "lr_decay": "Decay of the learning rate over the steps.",
        "initial_accumulator_value": "Initial sum of squared gradients.",
        "momentum_decay": "Decay of the momentum over the steps.",
    },
    "scheduler": {
        "gamma": "Factor of the learning rate at each change.",
        "step_size": "Epochs (or steps, with `interval: step`) between two changes.",
        "milestones": "Epochs (or steps) at which the learning rate, or the scheduler, changes.",
        "total_iters": "Epochs (or steps) until the end of the change.",
        "start_factor": "Factor of the learning rate at the beginning.",
        "end_factor": "Factor of the learning rate at the end.",
        "factor": "Factor of the learning rate.",
        "patience": "Validations without an improvement before the learning rate changes.",
        "T_max": "Epochs (or steps) of half a cosine.",
        "eta_min": "Lowest learning rate.",
        "base_lr": "Lowest learning rate of the cycle.",
        "max_lr": "Highest learning rate of the cycle.",
        "base_momentum": "Lowest momentum of the cycle.",
        "max_momentum": "Highest momentum of the cycle.",
        "epochs": "Number of epochs.",
        "steps_per_epoch": "Steps of an epoch.",
        "div_factor": "Highest learning rate divided by the first one.",
        "final_div_factor": "First learning rate divided by the last one.",
        "power": "Exponent of the polynomial.",
        "schedulers": "The schedulers, in order.",
        "scale_fn": "A Python function, which a config cannot hold.",
        "scale_mode": "What `scale_fn` is called with.",
    },
    "layer": {
        "in_features": "Features of the input.", "out_features": "Features of the output.",
        "in_channels": "Channels of the input.", "out_channels": "Channels of the output.",
        "num_features": "Channels of the input.", "bias": "Whether to add a learned bias.",
        "num_classes": "Outputs of the last layer.", "dropout": "Probability that an element is zeroed in training.",
        "p": "Probability that an element or channel is zeroed.", "groups": "Parts of the channels that are treated apart.",
        "vocab_size": "Number of tokens.", "hidden_size": "Width of the hidden layers.", "input_size": "Features of the input.",
        "num_layers": "Number of layers.", "num_heads": "Number of attention heads.", "dim": "Dimension, counted from 0.",
        "norm_layer": "Class of the normalisation.", "activation": "Activation function.", "value": "Value of the padding.",
    },
    "dataset": {
        "root": "Folder of the files.", "path": "File that is read.", "seed": "Seeds the division into splits.",
        "valid": "Share of the rows for validation.", "test": "Share of the rows for the test.",
        "stratify": "Divide each class alike.", "split_column": "Column that names the split of each row.",
        "transform": "Accepted as in torchvision; write `data.transform`.",
        "target_transform": "A Python function, which a config cannot hold.", "images": "Folder of the images.",
        "masks": "Folder of the masks.", "x": "Name of the array of inputs.", "y": "Name of the array of targets.",
        "dataset": "The dataset that is divided.",
        "tokenizer": "A `tokenizer.json`, or a folder with one.", "target_type": "category, number or boolean.",
    },
    "metric": {"k": "Number of best classes of which one must be right."},
    "transform": {"p": "Probability that a sample is changed.", "size": "Height and width of the result, or its shorter side.",
                  "padding": "Pixels added to each side.", "padding_mode": "What the border holds."},
    "loss": {"margin": "Margin of the loss.",
             "size_average": "Former form of `reduction`.", "reduce": "Former form of `reduction`.",
             "reduction": "mean, sum or none."},
    "initializer": {"mean": "Mean of the distribution.", "std": "Standard deviation of the distribution.",
                    "a": "Lower bound, or the slope of leaky ReLU.", "b": "Upper bound.", "val": "The value.",
                    "gain": "Factor of the result.", "sparsity": "Share of zeros in each column."},
}  # fmt: skip
_ENTRY = re.compile(r"( *)([\w*]+(?:, [\w*]+)*): +(\S.*)")


def summary(target: Any) -> str:
    """The first paragraph of the docstring, on one line."""
    return " ".join((inspect.getdoc(target) or "").partition("\n\n")[0].split())


def descriptions(target: Any, names: Collection[str]) -> dict[str, str]:
    """The description of each of `names` in the docstring of a class or function.

    Or else in one that the class inherits from, or in those of the classes in its attribute `described_by`, whose arguments it
    takes. An entry is `name: text` or `name, other: text`; its further lines are indented more.

    >>> from tdt.train.config.descriptions import descriptions
    >>> from tdt.train.config.sections import Checkpoint
    >>> descriptions(Checkpoint, ["every", "nonsense"])
    {'every': 'Interval of checkpoints, in addition to the one at the end.'}
    """
    found: dict[str, str] = {}
    for one in _sources(target):
        if one is not object and (text := vars(one).get("__doc__") if isinstance(one, type) else inspect.getdoc(one)):
            for name, meaning in _entries(inspect.cleandoc(text)):
                if name in names:
                    found.setdefault(name, meaning)
    return found


def _sources(target: Any) -> list[Any]:
    """The classes and functions whose docstrings describe the arguments of `target`, the most specific first."""
    found = list(getattr(target, "__mro__", (target,)))
    return [*found, *(one for other in getattr(target, "described_by", ()) for one in _sources(other))]


def _entries(text: str) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    lines = text.partition("\n>>>")[0].splitlines()
    for number, line in enumerate(lines):
        if (match := _ENTRY.fullmatch(line)) is None:
            continue
        words = [match[3]]
        for following in lines[number + 1 :]:
            if not following.strip() or len(following) - len(following.lstrip()) <= len(match[1]):
                break
            words.append(following.strip())
        meaning = " ".join(words)
        found += [(name, meaning[:1].upper() + meaning[1:]) for name in match[2].split(", ")]
    return found
