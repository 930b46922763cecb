"""`train.amp`: steps and evaluations under autocast equal a plain loop, and skipped steps are counted."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

import tdt
from tdt.amp import GradScaler
from tdt.nn.utils import clip_grad_norm_
from tdt.train.config import ConfigError, loads
from tdt.train.logging.events import StepDone
from tdt.train.loop.build import build
from tdt.train.loop.evaluation import evaluate
from tests.train.loop.test_features import IN_ORDER, fitted, weights
from tests.train.loop.test_trainer import CONFIG, of, trainer


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_a_run_has_the_bits_of_a_plain_loop_with_autocast(tmp_path, dtype: str):
    built, _ = fitted(tmp_path, f"{{epochs: 2, amp: {dtype}, clip_grad_norm: 0.5}}", IN_ORDER)
    parts = build(loads(CONFIG.replace(*IN_ORDER)))
    scaler = GradScaler("cpu", enabled=dtype == "float16")
    for _ in range(2):
        for inputs, targets in parts.loaders["train"]:
            parts.optimizer.zero_grad()
            with tdt.autocast("cpu", dtype=getattr(tdt, dtype)):
                output = parts.model(inputs)
            scaler.scale(parts.loss.main(output.float(), targets)).backward()
            scaler.unscale_(parts.optimizer)
            clip_grad_norm_(parts.model.parameters(), 0.5)
            scaler.step(parts.optimizer)
            scaler.update()
    assert np.array_equal(
        weights(built), np.concatenate([p.detach().numpy().ravel() for p in parts.model.parameters()])
    )
    assert built.train_step.scaler.state_dict() == scaler.state_dict()


def test_an_evaluation_computes_in_the_lower_precision_and_scores_in_float32(tmp_path):
    outputs = {}
    for amp in ("null", "bfloat16"):
        built, _ = trainer(tmp_path / amp, ("{epochs: 3}", f"{{epochs: 3, amp: {amp}}}"))
        found: list[tdt.Tensor] = []
        evaluate(built.parts, "valid", lambda inputs, output, targets, found=found: found.append(output))
        outputs[amp] = tdt.cat(found)
    exact, lower = outputs.values()
    assert lower.dtype is tdt.float32 and not tdt.equal(exact, lower)
    assert tdt.equal(lower, lower.bfloat16().float()) and tdt.allclose(exact, lower, rtol=0.05, atol=0.05)


def test_a_step_whose_gradients_overflow_is_skipped_counted_and_logged(tmp_path: Path):
    changes = (
        ("{epochs: 3}", "{epochs: 1, amp: float16, warmup: 3 steps, ema: 0.5}"),
        ("every: 2 steps", "every: 1 step"),
    )
    built, received = trainer(tmp_path, *changes)
    built.train_step.scaler = GradScaler("cpu", init_scale=2.0**40)
    before, after = weights(built), []
    built.events.subscribe(lambda event: after.append(weights(built)) if isinstance(event, StepDone) else None)
    built.fit()
    first, *_, last = [event.scalars for event in of(StepDone, received)]
    assert np.array_equal(after[0], before)
    assert first["amp/skipped_steps"] == 1 and first["amp/scale"] == 2.0**39 and not math.isfinite(first["grad_norm"])
    assert last["amp/skipped_steps"] == built.train_step.skipped > 1
    assert last["amp/scale"] == 2.0 ** (40 - built.train_step.skipped)


def test_mixed_precision_of_double_precision_is_a_mistake_in_the_config():
    with pytest.raises(
        ConfigError, match=r"train\.amp: mixed precision computes in float16 and float32, but dtype is float64"
    ):
        loads("dtype: float64\n" + CONFIG.replace("{epochs: 3}", "{epochs: 3, amp: float16}"))
    with pytest.raises(ConfigError, match="float8"):
        loads(CONFIG.replace("{epochs: 3}", "{epochs: 3, amp: float8}"))
