"""Of 200 configs with one change each, every mistake is reported in its place and alone, and sound ones are let pass; configs
changed without regard for what they mean are answered in short lines with places."""

from __future__ import annotations

import random

from tests.train import wild_mutations
from tests.train.mutations import mutations, verdict


def test_200_mutated_configs_are_each_reported_exactly():
    mutated = mutations(200)
    assert sum(one.expected is None for one in mutated) >= 40
    assert [problem for one in mutated if (problem := verdict(one))] == []


def test_configs_changed_at_random_are_valid_or_refused_with_places():
    changed = [wild_mutations.wild(random.Random(f"2/{number}")) for number in range(25)]
    outcomes = [wild_mutations.verdict(one) for one in changed]
    assert [problem for _, problem in outcomes if problem] == []
    assert {outcome for outcome, _ in outcomes} == {"sound", "answered"}
