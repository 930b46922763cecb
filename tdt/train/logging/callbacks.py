"""Callbacks: the user's own code at fixed points of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tdt.train.errors import StopTraining, error_context
from tdt.train.logging.events import CheckpointSaved, Event, RunStarted, RunStopped, StepDone, Validated

if TYPE_CHECKING:
    from tdt.train.loop.parts import Parts


class Callback:
    """Base class of callbacks: override the methods that a run should call.

    Each gets the event, which has `step`, `epoch` and, where something was measured, `scalars` by tag, and the parts of the
    run: `parts.model`, `parts.optimizer`, `parts.loaders`, `parts.config` and so on. To end the training, raise
    `StopTraining`. Any other exception fails the run.

    State that a resumed run needs belongs into `state_dict`; with it, a run that is killed and resumed ends as one that was
    not. A callback that computes with random numbers draws them from tdt's default generator, whose state is restored.

    >>> import tempfile
    >>> from tdt.train import Callback, StopTraining, fit
    >>> class StopAt(Callback):
    ...     def __init__(self, accuracy):
    ...         self.accuracy = accuracy
    ...
    ...     def on_validation(self, event, parts):
    ...         if event.scalars["valid/accuracy"] >= self.accuracy:
    ...             raise StopTraining(f"accuracy {self.accuracy} is reached")
    >>> run = fit("digits-mlp", callbacks=[StopAt(0.5)], run_dir=tempfile.mkdtemp(), quiet=True)
    >>> run.state, run.ended_by
    ('done', 'StopAt: accuracy 0.5 is reached')
    """

    def on_start(self, event: RunStarted, parts: Parts) -> None:
        """Called before the first step of this process. `event.resumed`: of a resumed run; its state has been restored."""

    def on_step(self, event: StepDone, parts: Parts) -> None:
        """Called after every optimizer step. `event.scalars` is empty unless the step is logged."""

    def on_validation(self, event: Validated, parts: Parts) -> None:
        """Called after every validation. `event.scalars` has its scores; `event.best`: whether it is the best so far."""

    def on_checkpoint(self, event: CheckpointSaved, parts: Parts) -> None:
        """Called after `event.path` has been written.

        That file has the state from before the call. So a resumed run calls this again for the checkpoint that it resumes
        from, before `on_start`.
        """

    def on_end(self, event: RunStopped, parts: Parts) -> None:
        """Called last, also if the run has failed. `event.reason`: done, interrupted, failed or non-finite."""

    def state_dict(self) -> dict[str, Any]:
        """The state to keep in checkpoints: numbers, texts, lists, dicts, NumPy arrays and tensors."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore a `state_dict`, whose tensors are NumPy arrays and whose tuples are lists now."""
        if state:
            raise NotImplementedError(f"{type(self).__name__} must define load_state_dict, since it defines state_dict")


_METHODS: dict[type[Event], str] = {
    RunStarted: "on_start",
    StepDone: "on_step",
    Validated: "on_validation",
    CheckpointSaved: "on_checkpoint",
    RunStopped: "on_end",
}


class Callbacks:
    """Calls the callbacks of a run with its events.

    Attributes:
        stopped_by: which callback has ended the training, and why; None if none has.
    """

    def __init__(self, callbacks: Sequence[Callback], parts: Parts) -> None:
        self.callbacks, self.parts = callbacks, parts
        self.stopped_by: str | None = None
        self._ended = False

    def __call__(self, event: Event) -> None:
        method = None if self._ended else _METHODS.get(type(event))
        self._ended = self._ended or isinstance(event, RunStopped)  # once, also if one of them fails there
        for callback in self.callbacks if method else ():
            name = type(callback).__name__
            try:
                with error_context(lambda: f"{name}.{method} failed at step {event.step}"):  # noqa: B023 - called here
                    getattr(callback, str(method))(event, self.parts)
            except StopTraining as stop:
                self.stopped_by = self.stopped_by or f"{name}: {stop}"

    def state_dict(self) -> dict[str, dict[str, Any]]:
        """The states of the callbacks, by class name and number among those of that class."""
        return {name: callback.state_dict() for name, callback in self._named().items()}

    def load_state_dict(self, states: Mapping[str, Mapping[str, Any]]) -> None:
        """Restore the states.

        Raises:
            ValueError: the run had other callbacks.
        """
        named = self._named()
        if lacking := [name for name in states if name not in named]:
            raise ValueError(
                f"the run was trained with the callback {lacking[0]}; give it to fit(resume=…, callbacks=[…])"
            )
        for name, callback in named.items():
            if name in states:
                callback.load_state_dict(states[name])

    def _named(self) -> dict[str, Callback]:
        named: dict[str, Callback] = {}
        for callback in self.callbacks:
            kind = type(callback).__name__
            number = sum(type(other).__name__ == kind for other in named.values())
            named[f"{kind} {number + 1}" if number else kind] = callback
        return named
