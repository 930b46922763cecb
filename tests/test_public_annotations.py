"""Every public function and method says what it takes and returns; where that may be anything, the list says why."""

from __future__ import annotations

from fnmatch import fnmatchcase

from tests.annotations import found, left_open

# Namespaces whose annotations are not complete yet.
NOT_YET = (
    "tdt.serialization", "tdt.utils", "tdt.vision",
    "tdt.amp", "tdt.autograd", "tdt.backends", "tdt.compat", "tdt.compiler", "tdt.cuda", "tdt.distributed",
    "tdt.func", "tdt.functional", "tdt.multiprocessing", "tdt.nn", "tdt.optim", "tdt.profiler", "tdt.sparse",
    "tdt.testing",
)  # fmt: skip
# The command line's own modules; nobody's program calls them.
NOT_PUBLIC = ("tdt.cli", "tdt.commands", "tdt.train")

# Where a value may be anything, by reason. `*`: any part of a name.
ANYTHING: dict[str, str] = {}


def test_annotations_say_any_only_where_the_list_gives_a_reason():
    names = found(skip=NOT_YET + NOT_PUBLIC)
    listed = [pattern for patterns in ANYTHING.values() for pattern in patterns.split()]
    unlisted = [f"{name}: {', '.join(open_)}" for name, open_ in names.items()
                if not any(fnmatchcase(name, pattern) for pattern in listed)]  # fmt: skip
    assert not unlisted, "\n".join(unlisted)
    assert not [pattern for pattern in listed if not any(fnmatchcase(name, pattern) for name in names)]


def test_parts_of_annotations_and_missing_ones_are_found():
    def function(a, b: int, c: dict[str, Any], *d: object, e: Callable[..., None], f: np.ndarray[Any, Any]):  # noqa: F821
        return a

    def annotated(a: int, *b: str) -> None:
        pass

    assert left_open(function) == ["a", "c", "d", "return"]
    assert left_open(annotated) == []
