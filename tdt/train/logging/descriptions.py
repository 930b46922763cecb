"""What the scalars of a run mean, as TensorBoard shows it beside their charts."""

from __future__ import annotations

import re

_TAGS = {
    r"lr": "Learning rate of the optimizer, after warm-up.",
    r"lr/group(\d+)": "Learning rate of parameter group {0}, after warm-up.",
    r"grad_norm": "2-norm of all gradients together, before clipping.",
    r"amp/scale": "Factor of the loss in mixed precision, so that small gradients do not vanish.",
    r"amp/skipped_steps": "Steps left out so far because a scaled gradient overflowed.",
    r"time/peak_memory_mb": "Most memory that the process has held so far, in MiB.",
    r"time/samples_per_second": "Training samples per second since the last logged step.",
    r"time/(.*)": "{0}, measured: it differs between equal runs.",
    r"train/(.*)": "{0} of the batch of this step, with dropout and augmentation.",
    r"train_epoch/(.*)": "Mean {0} over the epoch's training batches, while the weights changed.",
    r"valid/(.*)": "{0} of the validation data.",
    r"test/(.*)": "{0} of the test data, with the best weights, once at the end.",
}


def description(tag: str) -> str:
    """What the scalar `tag` means; empty if that is not known.

    >>> from tdt.train.logging.descriptions import description
    >>> description("valid/loss")
    'Loss of the validation data.'
    >>> description("train_epoch/accuracy")
    "Mean accuracy over the epoch's training batches, while the weights changed."
    """
    for pattern, text in _TAGS.items():
        if match := re.fullmatch(pattern, tag):
            shown = text.format(*(group.replace("_", " ") for group in match.groups()))
            return shown[:1].upper() + shown[1:]
    return ""
