"""Of 200 configs with one change each, every mistake is reported in its place and alone, and sound ones are let pass."""

from __future__ import annotations

from tests.train.mutations import mutations, verdict


def test_200_mutated_configs_are_each_reported_exactly():
    made = mutations(200)
    assert sum(one.expected is None for one in made) >= 40
    assert [said for one in made if (said := verdict(one))] == []
