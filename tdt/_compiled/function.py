"""Compiled functions: which recording a call takes, and when it is recorded."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Sequence
from operator import is_
from typing import Any

import numpy as np

from tdt._backend import is_array
from tdt._compiled.graphed import Graphed, gpu_of, is_same_memory
from tdt._compiled.guards import Guards
from tdt._compiled.program import Refusal
from tdt._compiled.recording import NO_OPS, Recording, mode, requires_gradient
from tdt._core.calls import TENSOR_TYPES
from tdt._core.mode import state
from tdt._core.tensor import Tensor
from tdt._kernels._references import References
from tdt._kernels.capture_gpu import OutdatedCaptureError
from tdt.autograd._autocast import Casting

MOST_RECORDINGS = 8
MOST_AT_ONCE = 2  # calls of one kind on a GPU whose backward passes are to come, and that have a graph each
MOST_NOTED = 100  # times that a recording takes note of what it depends on, each as long as some checks in Python
ndarray = np.ndarray


class Difference(RuntimeError):
    """A recording gives other bits than the function, though it once gave the same.

    Attributes:
        source: of the recorded program.
        tensor: the one whose gradient or values differ, if it is one that the function reads.
        result: the function's own.
    """

    def __init__(self, message: str, source: str, tensor: Tensor | None = None, result: Any = None):
        super().__init__(message)
        self.source, self.tensor, self.result = source, tensor, result


class Written:
    """Arrays that a function writes to."""

    def __init__(self, arrays: list[ndarray]):
        self.arrays, owners = arrays, [*map(_owner, arrays)]
        self.owners = {*map(id, owners)} if all(a.base is None for a in owners) else None

    def shares(self, tensors: list[Tensor]) -> bool:
        """Whether a tensor may share memory with them."""
        owners = self.owners
        for t in tensors:
            owner = t._a
            while owner.base.__class__ is ndarray:
                owner = owner.base
            if owners is not None and owner.base is None and id(owner) not in owners:
                continue
            if any(np.may_share_memory(t._a, a) for a in self.arrays):
                return True
        return False


class Recorded:
    """A recording, or the reason why there is none, and what it holds for.

    Attributes:
        recording: None where the function is called as it is.
        own: the function's own tensors.
    """

    def __init__(self, guards: Guards, recording: Recording | Graphed | None):
        self.guards, self.recording, self.own = guards, recording, tuple(guards.tensors)
        self.arrays = [t._a for t in guards.tensors]
        self.requires = [requires_gradient(t) for t in guards.tensors]
        self._references: References | None = None
        self._noted = 0  # how often references were
        self._written: Written | None = None

    @property
    def is_small(self) -> bool:
        """Whether it may run on tapes, after some calls."""
        recording = self.recording
        return recording is not None and recording.verified and recording.is_small

    def holds(self, tensors: list[Tensor], any_gradients: bool = False) -> bool:
        """Whether the function depends on the same modules, tensors and numbers as when it was recorded.

        Args:
            tensors: the arguments of a call.
            any_gradients: whatever gradients there are, as after a call that sets some, which another function clears.
        """
        recording = self.recording
        if self._references is not None and self._references() and self.guards.hold_others():
            if recording is None or not (recording.filled or recording.is_graph) or recording.fills(self.own):
                return True
        self._references = None
        roots = *tensors, *self.own
        if recording is not None and recording.has_gradients and not (any_gradients or recording.takes(roots)):
            return False
        arrays = self.arrays
        for k, t in enumerate(self.own):
            a = t._a
            if a is not arrays[k]:
                if not _alike(a, arrays[k]):
                    return False
                arrays[k], self._written = a, None
            if (t._edge is not None) is not self.requires[k] and requires_gradient(t) is not self.requires[k]:
                return False
        holds = self.guards.hold()
        if (
            holds
            and not any_gradients
            and self._noted < MOST_NOTED
            and (self.is_small or (recording and recording.is_graph and recording.verified))
        ):
            self._note(tensors)
        return holds

    def is_written(self, tensors: list[Tensor]) -> bool:
        """Whether the function may write to memory of the arguments of a call: what it reads first is not recorded then.

        On a GPU, whether the call cannot be launched, for that reason or another.
        """
        if isinstance(self.recording, Graphed):
            return not self.recording.is_free(tensors, self.own)
        if self._written is None:
            assert self.recording is not None
            places = [place - self.recording.arguments for place, _ in self.recording.written]
            self._written = Written([self.arrays[place] for place in places])
        return self._written.shares(tensors)

    def _note(self, tensors: list[Tensor]) -> None:
        """Take note of what all refers to now: as long as that stays, the function depends on the same."""
        assert self.recording is not None
        self._noted += 1
        references = References()
        self.guards.refer(references)
        for t in self.own:
            for name in ("_a", "_edge", "_view"):
                references.slot(t, name)
            references.complete &= t._view is None
        if self.recording.has_gradients:
            self.recording.refer(references, (*tensors, *self.own))
        self._references = references if references.complete else None


class Compiled:
    """A function whose calls are recorded. See `tdt.compile`.

    Args:
        name: for messages.
        fullgraph: raise RuntimeError where a call cannot be recorded.
        limit: of recordings.
        eager_calls: the first calls of each kind, which are not recorded.
        warns: whether to warn of calls that are not compiled.

    Attributes:
        refusals: why calls were not compiled; with the innermost module that was running then, if there is one.
    """

    is_compiled_by_tdt = True

    def __init__(self, function: Callable[..., Any], name: str | None = None, fullgraph: bool = False,
                 limit: int = MOST_RECORDINGS, eager_calls: int = 0, warns: bool = True):  # fmt: skip
        self.function, self.fullgraph, self.limit = function, fullgraph, limit
        self.eager_calls, self.warns = eager_calls, warns
        self.name = name or str(getattr(function, "__qualname__", type(function).__name__))
        self.recordings: dict[Any, list[Recorded]] = {}
        self.count = 0
        self.refusals: dict[str, Any] = {}
        self._eager: dict[Any, int] = {}  # calls of kinds that are not recorded yet
        self._compares = False

    def __reduce__(self) -> tuple:
        return Compiled, (self.function, self.name, self.fullgraph, self.limit, self.eager_calls, self.warns)

    def compare(self, *args: Any, **kwargs: Any) -> Any:
        """The result of a call that computes both ways where it is recorded. All that the function changes is changed once.

        Raises:
            Difference: a bit differs that did not when the recording was verified.
        """
        self._compares = True
        try:
            return self(*args, **kwargs)
        finally:
            self._compares = False

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        handler = state.handler
        if handler is not None and (
            handler.__class__ is not Casting or not handler.alone or "cuda" not in handler.dtypes
        ):
            return self.function(*args, **kwargs)
        if state.inference or state.saving is not None or state.anomaly is not None:
            return self.function(*args, **kwargs)
        if state.recording is not None:  # of a function on a GPU, that calls this one
            return self.function(*args, **kwargs)
        tensors: list[Tensor] = []
        objects: list[Any] = []
        try:
            casts = None if handler is None else tuple(handler.dtypes.items())
            by_place = _key(args, tensors, objects) if args else None
            key = (mode(casts), by_place, _key(kwargs, tensors, objects) if kwargs else None)
        except Refusal as refusal:
            self._report(refusal)
            return self.function(*args, **kwargs)
        leased = 0
        for recorded in self.recordings.get(key, ()):
            if recorded.holds(tensors):
                recording = recorded.recording
                if recording is not None and recording.is_graph and recording.is_leased and leased < MOST_AT_ONCE - 1:
                    leased += 1  # another graph may compute this call
                    continue
                writes = recording is not None and (recording.is_graph or (recording.written and tensors))
                if recording is None or (writes and recorded.is_written(tensors)):
                    return self.function(*args, **kwargs)
                if recording.verified and not self._compares:
                    try:
                        return recording((*tensors, *recorded.own) if tensors else recorded.own)
                    except OutdatedCaptureError:  # nothing has been done
                        self.recordings[key].remove(recorded)
                        break
                return self._verify(recorded, tensors, args, kwargs)
        return self._record(key, tensors, objects, args, kwargs)

    def _record(self, key: Any, tensors: list[Tensor], objects: list[Any], args: tuple, kwargs: dict) -> Any:
        """Call the function as it is, and record the call if it can be."""
        if self.count < self.limit and self._eager.get(key, 0) < self.eager_calls:
            self._eager[key] = self._eager.get(key, 0) + 1
            return self.function(*args, **kwargs)
        if self.count >= self.limit:
            if self.recordings:  # else it has always been refused, and the reason is known
                reason = f"it has been recorded {self.limit} times (recompile_limit) for calls of different kinds"
                self._report(Refusal(reason))
            return self.function(*args, **kwargs)
        self.count += 1
        try:
            guards = Guards(self.function, *objects)
        except Refusal as refusal:  # such as hooks, which may be removed
            self._report(refusal)
            return self.function(*args, **kwargs)
        called: list[Any] = []

        def call() -> Any:
            called.append(self.function(*args, **kwargs))
            return called[0]

        recording: Recording | Graphed | None = None
        try:
            recording = self._recording(call, tensors, guards)
        except Refusal as refusal:
            self._report(refusal)
        recorded = Recorded(guards, recording)
        if recording is not None and not (guards.hold() and _is_unchanged(key, tensors, args, kwargs)):
            recorded.recording = None
            self._report(Refusal("it changes its arguments, or attributes, variables or lists that it depends on"))
        self.recordings.setdefault(key, []).append(recorded)
        if recording is not None:
            del recording.result  # and its graph
        return called[0] if called else self.function(*args, **kwargs)

    def _recording(self, call: Callable[[], Any], tensors: list[Tensor], guards: Guards) -> Recording | Graphed:
        roots = *tensors, *guards.tensors
        gpu = gpu_of(roots)
        if gpu is None and state.handler is not None:
            raise Refusal("autocast for a GPU is on, and its tensors are on a CPU")
        if gpu is None:
            return Recording(call, roots, len(tensors), self.name)
        return Graphed(call, roots, len(tensors), self.name, gpu, guards.generators)

    def _verify(self, recorded: Recorded, tensors: list[Tensor], args: tuple, kwargs: dict) -> Any:
        recording: Any = recorded.recording
        roots, verified = (*tensors, *recorded.own), recording.verified

        def call(places: Sequence[Tensor] | None = None) -> Any:
            """Call the function as it is, with tensors in the place of the arguments."""
            if places is None:
                return self.function(*args, **kwargs)
            found = {id(t): place for t, place in zip(tensors, places, strict=True)}
            return self.function(*_placed(args, found), **_placed(kwargs, found))

        try:
            result, difference, tensor = recording.verify(call, roots)
        except Refusal as refusal:  # of a function that cannot be captured
            recorded.recording = None
            self._report(refusal)
            return self.function(*args, **kwargs)
        if difference is None and not recorded.holds(tensors, any_gradients=True):
            difference = "what it depends on, which the call changes"
        if difference is not None:
            recorded.recording = None
            if verified:
                raise Difference(difference, recording.source, tensor, result)
            what = (
                "a CUDA graph of it differs from a call"
                if recording.is_graph
                else "a second call differs from the recorded one"
            )
            self._report(Refusal(f"{what} in {difference}"))
        return result

    def _report(self, refusal: Refusal) -> None:
        """Warn, once for each reason, that a call is not compiled; RuntimeError with `fullgraph`."""
        reason = str(refusal)
        if reason == NO_OPS:
            return
        if self.fullgraph:
            raise RuntimeError(f"tdt.compile(fullgraph=True): {self.name} cannot be compiled: {reason}")
        if reason not in self.refusals:
            self.refusals[reason] = refusal.module
            if self.warns:
                warnings.warn(f"tdt.compile: {self.name} is called as it is: {reason}", stacklevel=4)


def _is_unchanged(key: Any, tensors: list[Tensor], args: tuple, kwargs: dict) -> bool:
    """Whether the arguments are of the kind that they were before a call, with the same tensors in them."""
    now: list[Tensor] = []
    try:
        own = (_key(args, now, []) if args else None, _key(kwargs, now, []) if kwargs else None)
    except Refusal:
        return False
    return own == key[1:] and len(now) == len(tensors) and all(map(is_, now, tensors))


def compiled_function(compiled: Compiled) -> Callable[..., Any]:
    """A plain function, which may be a method too, that calls `compiled`."""

    call = compiled.__call__  # a method is called faster than an object

    @functools.wraps(compiled.function)
    def called(*args: Any, **kwargs: Any) -> Any:
        return call(*args, **kwargs)

    called._torchdynamo_orig_callable = compiled.function  # type: ignore[attr-defined]  # PyTorch's name
    called._compiled = compiled  # type: ignore[attr-defined]
    return called


def _placed(value: Any, places: dict[int, Tensor]) -> Any:
    """A copy of arguments with other tensors in them, by id of the ones before."""
    if value.__class__ in TENSOR_TYPES:
        return places[id(value)]
    if isinstance(value, tuple) and hasattr(value, "_make"):
        return value._make([_placed(item, places) for item in value])
    if value.__class__ in (tuple, list):
        return value.__class__([_placed(item, places) for item in value])
    return {name: _placed(item, places) for name, item in value.items()} if value.__class__ is dict else value


def _owner(a: ndarray) -> ndarray:
    """The array whose memory an array is a view of, as far as arrays tell."""
    while a.base.__class__ is ndarray:
        a = a.base
    return a


def _alike(a: Any, b: Any) -> bool:
    """Whether two arrays have the same type, shape, dtype and strides; on a GPU, where graphs know addresses, the same memory."""
    if a.__class__ is not ndarray:
        return a.__class__ is b.__class__ and is_same_memory(a, b)
    return b.__class__ is ndarray and a.shape == b.shape and a.dtype is b.dtype and a.strides == b.strides


def _key(value: Any, tensors: list[Tensor], objects: list[Any]) -> Any:
    """What must be equal for two calls to be of the same kind; appends the tensors in the value, each once, and modules."""
    kind = value.__class__
    if kind in TENSOR_TYPES:
        for k, t in enumerate(tensors):
            if t is value:
                return k
        a = value._a
        if a.__class__ is not ndarray and not is_array(a):
            raise Refusal(f"an argument is not a dense tensor but one of {type(a).__name__}")
        if value._st.inference:
            raise Refusal("an argument is an inference tensor")
        tensors.append(value)
        return (
            kind,
            a.dtype if a.__class__ is ndarray else (a.dtype, a.device.id),
            a.shape,
            a.strides,
            value._edge is not None if value._view is None else requires_gradient(value),
        )
    if kind is tuple or kind is list:
        return kind, *[_key(item, tensors, objects) for item in value]
    if kind is dict:
        names = [name if name.__class__ is str else (name.__class__, name, repr(name)) for name in value]
        return kind, *names, *[_key(item, tensors, objects) for item in value.values()]
    if kind in (bool, int, str, bytes, type(None)):
        return kind, value
    if kind is float or kind is complex:
        return kind, repr(value)
    if isinstance(value, tuple) and hasattr(value, "_make"):
        return kind, *[_key(item, tensors, objects) for item in value]
    if hasattr(value, "_parameters") and hasattr(value, "_modules"):
        objects.append(value)
        return kind, id(value)
    raise Refusal(f"an argument is of type {kind.__name__}")
