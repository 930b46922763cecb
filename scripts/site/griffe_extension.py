"""Griffe extension: brings docstrings into Griffe's form, and finds objects where they are exported."""

from __future__ import annotations

import runpy
import sys
from operator import attrgetter
from pathlib import Path
from typing import Any

from griffe import Alias, Extension, Inspector, Object, ObjectNode

google_style = runpy.run_path(str(Path(__file__).with_name("sections.py")))["google_style"]


def is_defined(value: Any) -> bool:
    """Whether Griffe finds a function or class at the path of its definition.

    A method that another module adds to a class (`Tensor.__add__`, of `tdt._ops`) is not there: the class is an import in
    that module, and Griffe would follow it back to the method for ever.
    """
    module = sys.modules.get(getattr(value, "__module__", None) or "")
    owner, _, name = getattr(value, "__qualname__", "<").rpartition(".")
    try:
        home = attrgetter(owner)(module) if owner else module
        return getattr(home, name) is value and (home is module or home.__module__ == value.__module__)
    except AttributeError:
        return False


class Sections(Extension):
    """Rewrites every docstring as it is collected, and collects what a factory made where it is exported."""

    def on_alias_instance(self, *, alias: Alias, node: Any, agent: Any, **kwargs: Any) -> None:
        value = getattr(node.obj, alias.name, None)
        if isinstance(agent, Inspector) and callable(value) and not is_defined(value):
            agent.current.members.pop(alias.name, None)
            agent.inspect(ObjectNode(value, alias.name, parent=node))

    def on_instance(self, *, obj: Object, **kwargs: Any) -> None:
        if obj.docstring:
            obj.docstring.value = google_style(obj.docstring.value)
