"""Collectives on Python objects, which are pickled."""

from __future__ import annotations

from typing import Any

from tdt._core.aliases import Device
from tdt.distributed._group import ProcessGroup, group_of
from tdt.distributed._work import (
    begin,
    listed,
    outside,
    root_of,
    root_with_list,
)


def _exchange(obj: Any, group: ProcessGroup | None) -> list[Any]:
    """The objects of all processes, by rank."""
    objects: list[Any] = []
    begin("all_gather_object", group, False, lambda c: c.exchange(obj, objects))
    return objects


def all_gather_object(object_list: list, obj: Any, group: ProcessGroup | None = None) -> None:
    """Gather the objects of all processes, which are pickled, into the list."""
    if not outside("all_gather_object", group):
        listed("object_list", object_list, group_of(group).size())
        object_list[:] = [obj] if group_of(group).size() == 1 else _exchange(obj, group)


def gather_object(
    obj: Any,
    object_gather_list: list | None = None,
    dst: int | None = None,
    group: ProcessGroup | None = None,
    group_dst: int | None = None,
) -> None:
    """`all_gather_object` for the process `dst` (default: rank 0) alone."""
    if outside("gather_object", group):
        return
    root, found = root_with_list("object_gather_list", object_gather_list, group, dst, group_dst), group_of(group)
    if found.rank() == root:
        listed("object_gather_list", object_gather_list, found.size())
    objects = [obj] if found.size() == 1 else _exchange(obj, group)
    if found.rank() == root:
        object_gather_list[:] = objects  # type: ignore[index]


def broadcast_object_list(
    object_list: list,
    src: int | None = None,
    group: ProcessGroup | None = None,
    device: Device = None,
    group_src: int | None = None,
) -> None:
    """Copy the objects of the list, which are pickled, from the process `src` (default: rank 0) into that of all others."""
    if outside("broadcast_object_list", group):
        return
    root = root_of("broadcast", group, 0 if src is None and group_src is None else src, group_src)
    found = group_of(group)
    if found.size() > 1:
        object_list[:] = _exchange(object_list if found.rank() == root else None, group)[root]


def scatter_object_list(
    scatter_object_output_list: list,
    scatter_object_input_list: list | None = None,
    src: int | None = None,
    group: ProcessGroup | None = None,
    group_src: int | None = None,
) -> None:
    """Distribute the objects of a list on the process `src` (default: rank 0), one to the first place of each output list."""
    if outside("scatter_object_list", group):
        return
    root, found = root_of("scatter", group, 0 if src is None and group_src is None else src, group_src), group_of(group)
    objects = None
    if found.rank() == root:
        objects = listed("scatter_object_input_list", scatter_object_input_list, found.size())
    if found.size() > 1:
        objects = _exchange(objects, group)[root]
    assert objects is not None
    scatter_object_output_list[0] = objects[found.rank()]
