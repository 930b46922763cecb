"""References of objects: every replacement is seen, and nothing else."""

from collections import OrderedDict, deque
from types import CellType

import numpy as np
import pytest

import tdt
from tdt._core.tensor import Tensor
from tdt._kernels._references import References


class Objects:
    """Objects of each kind, and references that name them."""

    def __init__(self):
        self.list, self.dict, self.ordered = (
            [object(), object()],
            {"a": object(), "b": object()},
            OrderedDict(a=object()),
        )
        self.names, self.tensor, self.cell, self.empty = {"a": object()}, tdt.ones(2), CellType(object()), {}
        self.references = References()
        self.none: set = set()
        self.array, known = np.array([1.0, float("nan")]), np.array([1.0, float("nan")])
        for each in (self.list, self.dict, self.ordered, self.empty, self.none):
            self.references.container(each)
        for name in ("a", "missing"):
            self.references.item(self.names, name)
        for name in ("_a", "_grad"):
            self.references.slot(self.tensor, name)
        self.references.slot(self.cell, "cell_contents")
        self.references.array(self.array, known)


CHANGES = {
    "an item of a list": lambda x: x.list.__setitem__(1, object()),
    "a longer list": lambda x: x.list.append(x.list[0]),
    "a shorter list": lambda x: x.list.pop(),
    "a turned list": lambda x: x.list.reverse(),
    "an item of a dictionary": lambda x: x.dict.__setitem__("b", object()),
    "a larger dictionary": lambda x: x.dict.__setitem__("c", object()),
    "a smaller dictionary": lambda x: x.dict.pop("a"),
    "an item of an ordered dictionary": lambda x: x.ordered.__setitem__("a", object()),
    "an item of a dictionary that was empty": lambda x: x.empty.__setitem__("a", object()),
    "an item of a set that was empty": lambda x: x.none.add(object()),
    "an element of an array": lambda x: x.array.__setitem__(0, -1.0),
    "an item by name": lambda x: x.names.__setitem__("a", object()),
    "an item by name that is gone": lambda x: x.names.clear(),
    "an item that was missing": lambda x: x.names.__setitem__("missing", None),
    "an array": lambda x: setattr(x.tensor, "_a", x.tensor._a.copy()),
    "a gradient": lambda x: setattr(x.tensor, "_grad", tdt.ones(2)),
    "the content of a cell": lambda x: setattr(x.cell, "cell_contents", object()),
    "a cell without content": lambda x: delattr(x.cell, "cell_contents"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_each_change_counts(name):
    objects = Objects()
    assert objects.references.complete
    assert objects.references()
    assert objects.references()
    CHANGES[name](objects)
    assert not objects.references()


def test_what_is_set_to_the_same_object_again_counts_as_the_same():
    objects = Objects()
    before, objects.list[0] = objects.list[0], None
    assert not objects.references()
    objects.list[0] = before
    objects.names["another"] = 1  # of which only some names count
    assert objects.references()


def test_objects_stay_in_memory():
    objects = Objects()
    before = id(objects.list[0])
    objects.list[0] = None
    assert all(id(each) != before for each in [object() for _ in range(1000)])


def test_subclasses_of_tensors_have_the_same_places():
    p = tdt.nn.Parameter(tdt.ones(2))
    references = References()
    references.slot(p, "_a")
    assert references.complete
    assert references()
    p.data = tdt.zeros(2)
    assert not references()


def test_what_cannot_be_compared_is_incomplete():
    cases = ("container", deque([1])), ("container", {1}), ("item", vars(Tensor), "grad"), ("slot", Objects(), "list")
    for name, *arguments in cases:
        references = References()
        getattr(references, name)(*arguments)
        assert not references.complete
