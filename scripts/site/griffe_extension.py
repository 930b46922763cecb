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
    """Whether a function or class is found under the name of its definition, so that Griffe can follow it there."""
    try:
        return attrgetter(value.__qualname__)(sys.modules[value.__module__]) is value
    except (AttributeError, KeyError):
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
