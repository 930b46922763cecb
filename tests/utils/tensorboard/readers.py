"""TensorBoard's own readers, as the tests use them."""

from __future__ import annotations

from pathlib import Path

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.backend.event_processing.event_file_loader import RawEventFileLoader
from tensorboard.compat.proto.event_pb2 import Event

Points = dict[str, list[tuple[int, float]]]


def event_files(folder: Path) -> list[Path]:
    """The event files of `folder`, in the order TensorBoard reads them."""
    return sorted(Path(folder).glob("events.out.tfevents.*"))


def events(path: Path) -> list[Event]:
    """All events of one file, checksums verified."""
    return [Event.FromString(record) for record in RawEventFileLoader(str(path)).Load()]


def untimed(path: Path) -> list[Event]:
    """All events of one file without wall times and the writer's name."""
    found = events(path)
    for event in found:
        event.ClearField("wall_time")
        event.ClearField("source_metadata")
    return found


def points(folder: Path) -> Points:
    """What TensorBoard's accumulator shows for a run: {tag: [(step, value), …]}."""
    accumulator = EventAccumulator(str(folder), size_guidance={"scalars": 0, "tensors": 0})
    accumulator.Reload()
    tags = accumulator.Tags()["scalars"]
    return {tag: [(point.step, point.value) for point in accumulator.Scalars(tag)] for tag in tags}
