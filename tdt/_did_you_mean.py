"""The "did you mean" suggestions of error messages: which known name was most likely meant."""

from __future__ import annotations

from collections.abc import Iterable

LONGEST_NAME = 200  # a longer name gets no suggestion
MOST_COMPARED = 500

# Names in other libraries, in lower case and without underscores → the names of the same things here.
SYNONYMS = {
    "maxepochs": "epochs", "numepochs": "epochs", "numtrainepochs": "epochs", "nepochs": "epochs", "maxsteps": "steps",
    "learningrate": "lr", "lr0": "lr", "initiallr": "lr", "l2": "weight_decay", "wd": "weight_decay",
    "decay": "weight_decay", "batch": "batch_size", "bs": "batch_size", "batchsize": "batch_size", "workers": "num_workers",
    "numworkers": "num_workers", "gradientclipval": "clip_grad_norm", "maxgradnorm": "clip_grad_norm",
    "clipnorm": "clip_grad_norm", "accumulategradbatches": "accumulate", "gradientaccumulationsteps": "accumulate",
    "precision": "amp", "fp16": "amp", "bf16": "amp", "randomseed": "seed", "randomstate": "seed", "earlystop": "early_stopping",
    "patience": "early_stopping",
    "dense": "Linear", "fullyconnected": "Linear", "fc": "Linear", "affine": "Linear", "conv2dtranspose": "ConvTranspose2d",
    "maxpooling2d": "MaxPool2d", "averagepooling2d": "AvgPool2d", "globalaveragepooling2d": "AdaptiveAvgPool2d",
    "batchnormalization": "BatchNorm2d", "layernormalization": "LayerNorm", "multiheadattention": "MultiheadAttention",
    "swish": "SiLU", "categoricalcrossentropy": "CrossEntropyLoss", "crossentropy": "CrossEntropyLoss",
    "sparsecategoricalcrossentropy": "CrossEntropyLoss", "softmaxcrossentropy": "CrossEntropyLoss",
    "binarycrossentropy": "BCEWithLogitsLoss", "mse": "MSELoss", "meansquarederror": "MSELoss", "mae": "L1Loss",
    "meanabsoluteerror": "L1Loss", "huber": "HuberLoss", "cosinedecay": "CosineAnnealingLR", "cosine": "CosineAnnealingLR",
    "exponentialdecay": "ExponentialLR", "csv": "Table", "csvdataset": "Table", "acc": "accuracy", "rocauc": "auroc",
}  # fmt: skip


def closest(name: str, known: Iterable[str], most: int = MOST_COMPARED) -> str | None:
    """The name in `known` that means or is most similar to `name`; None if none is similar enough.

    Upper and lower case count as equal. If there are more than `most` known names, only those with the same first letter
    are compared: the time stays bounded.

    >>> from tdt._did_you_mean import closest
    >>> closest("Adm", ["SGD", "Adam"]), closest("learning_rate", ["lr", "momentum"])
    ('Adam', 'lr')
    """
    import difflib  # on use: not every command makes a mistake

    if len(name) > LONGEST_NAME:
        return None
    known = list(known)
    if (same := synonym(name)) in known:
        return same
    # Of names that differ in case alone ("Tensor", "tensor") the last stays: one that begins as `name` does.
    by_lower = {option.lower(): option for option in sorted(known, key=lambda option: option[:1] == name[:1])}
    if len(by_lower) > most:
        alike = [option for option in by_lower if option[:1] == name[:1].lower()][:most]
        by_lower = {option: by_lower[option] for option in alike}
    matches = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=0.6)
    return by_lower[matches[0]] if matches else None


def synonym(name: str) -> str | None:
    """The name here of what other libraries call `name`; None if it is not known.

    >>> from tdt._did_you_mean import synonym
    >>> synonym("max_epochs"), synonym("Dense"), synonym("x")
    ('epochs', 'Linear', None)
    """
    return SYNONYMS.get(name.lower().replace("_", ""))


def did_you_mean(name: str, known: Iterable[str], otherwise: str = "") -> str:
    """The end of an error message about an unknown name: the suggestion, or `otherwise` if there is none.

    >>> from tdt._did_you_mean import did_you_mean
    >>> did_you_mean("epochz", ["epochs", "steps"]), did_you_mean("x", ["epochs", "steps"], "known: epochs, steps")
    ("did you mean 'epochs'?", 'known: epochs, steps')
    """
    suggestion = closest(name, known)
    return f"did you mean {suggestion!r}?" if suggestion else otherwise
