"""`key=value` and `~key` from the command line → changes in the tree, with positions for errors."""

from __future__ import annotations

import re
from collections.abc import Sequence as Texts

from tdt._did_you_mean import closest
from tdt.train.config import calls, reader
from tdt.train.config.errors import ConfigErrors
from tdt.train.config.nodes import Call, Mapping, Node, Scalar, Sequence, child, present
from tdt.train.config.scalars import resolve
from tdt.train.config.source import COMMAND_LINE, Source

Holder = Mapping | Sequence | Call  # nodes with children


def apply(root: Mapping, overrides: Texts[str], errors: ConfigErrors) -> None:
    """Apply each override to the tree. Errors have the position `<command line>:n:column` for the n-th override.

    A value is a YAML scalar, or a list or mapping in [ ] or { }; `null` resets a setting to its default. `~key` removes
    a key. Missing sections are created; for a component written as a call, `optimizer.lr=0.1` sets a keyword argument.
    """
    errors.overrides = tuple(overrides)
    for number, text in enumerate(overrides, 1):
        _apply_one(root, text, number, errors)


def _apply_one(root: Mapping, text: str, number: int, errors: ConfigErrors) -> None:
    key, equals, value_text = text.partition("=")
    key = key.strip()
    start = Source(COMMAND_LINE, number, 1)
    if key.startswith("~") and not equals:
        _remove(root, key[1:], start, errors)
        return
    if key.startswith(("+", "-")):
        errors.add(
            start,
            f"is written without {key[: -len(key.lstrip('+-'))]}",
            key.lstrip("+-") + equals + value_text,
            key=key,
        )
        return
    parts = key.split(".")
    if parts[0] == "extends":
        errors.add(start, "is read before overrides; write it in a file", key="extends")
        return
    if not equals or not all(parts) or len(parts) > reader.DEEPEST:
        message = "expected key=value, as in optimizer.lr=0.1"
        errors.add(start, message, kind="bad-value", key=key if equals else "")
        return
    indent = text.index("=") + 1 + len(value_text) - len(value_text.lstrip())
    value = _read_value(value_text.strip(), Source(COMMAND_LINE, number, indent + 1), key, errors)
    if value is None:
        return
    value.key_source = start
    holder: Holder = root
    for depth, part in enumerate(parts[:-1]):
        below = _descend(holder, part, ".".join(parts[: depth + 1]), start, errors)
        if below is None:
            return
        holder = below
    _assign(holder, parts[-1], value, key, start, errors)


def _remove(root: Mapping, key: str, start: Source, errors: ConfigErrors) -> None:
    parts = key.split(".")
    holder: Holder = root
    for depth, part in enumerate(parts):
        here = ".".join(parts[: depth + 1])
        if child(holder, part) is None:
            keys = holder.items if isinstance(holder, Mapping) else holder.kwargs if isinstance(holder, Call) else ()
            errors.add(start, "there is nothing to remove", closest(part, keys), kind="unknown-key", key=here)
            return
        if depth < len(parts) - 1:
            below = _descend(holder, part, here, start, errors)
            if below is None:
                return
            holder = below
    if isinstance(holder, Sequence):
        del holder.items[int(parts[-1])]
    elif isinstance(holder, Mapping):
        del holder.items[parts[-1]]
    elif holder.kwargs.pop(parts[-1], None) is None:
        del holder.args[int(parts[-1])]


def _read_value(text: str, source: Source, key: str, errors: ConfigErrors) -> Node | None:
    if text[:1] in tuple("[{\"'"):
        inner = ConfigErrors()
        one_line = re.sub(r"[\r\n\x85\u2028\u2029]", " ", text)  # as YAML reads them inside brackets and quotes
        padded = (
            "\n" * (source.line - 1) + " " * (source.column - 1) + one_line
        )  # so that PyYAML's marks are our positions
        node = reader.read(padded, COMMAND_LINE, inner)
        for problem in inner.problems:
            full = ".".join(filter(None, [key, problem.key]))
            errors.add(problem.source, problem.message, problem.suggestion, kind=problem.kind, key=full)
        return None if inner.problems else node
    try:
        return Scalar(source, value=resolve(text), text=text, exact=True)
    except ValueError as error:
        errors.add(source, str(error), key=key)
        return None


def _descend(holder: Holder, part: str, path: str, start: Source, errors: ConfigErrors) -> Holder | None:
    """The node under `part`, made a mapping or a call if it can become one; None after reporting why not."""
    below = child(holder, part)
    if present(below) is None:
        if isinstance(holder, Sequence):
            _add_no_item(holder, part, path, start, errors)
            return None
        below = Mapping(start, start)
    elif isinstance(below, Scalar) and calls.looks_like_call(below):
        below = calls.parse(below, path, errors)
        if below.broken:
            return None
    if not isinstance(below, (Mapping, Sequence, Call)):
        errors.add(start, "is a single value and has no keys", kind="wrong-type", key=path)
        return None
    return below if _assign(holder, part, below, path, start, errors) else None


def _assign(holder: Holder, part: str, value: Node, path: str, start: Source, errors: ConfigErrors) -> bool:
    if isinstance(holder, Mapping):
        holder.items[part] = value
        return True
    is_index = re.fullmatch(r"\d{1,8}", part) is not None
    items = holder.args if isinstance(holder, Call) else holder.items
    if is_index and int(part) < len(items):
        items[int(part)] = value
        return True
    if isinstance(holder, Call) and part.isidentifier():
        holder.kwargs[part] = value
        return True
    _add_no_item(holder, part, path, start, errors)
    return False


def _add_no_item(holder: Sequence | Call, part: str, path: str, start: Source, errors: ConfigErrors) -> None:
    items = holder.args if isinstance(holder, Call) else holder.items
    numbers = [str(number) for number in range(len(items))]
    message = f"there is no item {part!r}: the list has {len(items)}" + (f", 0 to {len(items) - 1}" if items else "")
    errors.add(start, message, closest(part, numbers), kind="unknown-key", key=path)
