"""A few of the random configs that `scripts/compare_training` compares with PyTorch by the hundred."""

from __future__ import annotations

import pytest

from tests.helpers import require_torch

require_torch()
from tests.parity.compare_training import compare, text_of  # noqa: E402
from tests.parity.random_configs import OPTIMIZERS, SCHEDULERS, draw  # noqa: E402
from tests.parity.random_layers import DOMAINS, EVERYWHERE, FEATURED  # noqa: E402


@pytest.mark.parametrize("number", [3, 22, 46, 58, 97, 131])
def test_a_random_config_trains_as_its_pytorch_program(number):
    description = draw(number)
    verdict = compare(description)
    assert verdict.kind == "agrees", f"{verdict}\n{text_of(description)}"


def test_the_same_number_and_seed_draw_the_same_config():
    assert text_of(draw(12, seed=5)) == text_of(draw(12, seed=5)) != text_of(draw(12, seed=6))


def test_a_round_of_configs_covers_every_kind_of_layer_optimizer_and_scheduler():
    kinds = {name for known in (*DOMAINS.values(), EVERYWHERE) for name in known}
    assert {name for _, name in FEATURED} == kinds
    assert (len(kinds) >= 89, len(OPTIMIZERS), len(SCHEDULERS)) == (True, 12, 13)
    assert len(FEATURED) <= 180  # the default of the script
