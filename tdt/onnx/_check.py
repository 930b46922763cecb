"""Comparison of an exported model in onnxruntime with the model itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tdt import Tensor
from tdt._about import install_hint
from tdt._core.mode import no_grad
from tdt.nn import Module
from tdt.onnx._trace import OnnxExporterError
from tdt.utils._evaluating import evaluating
from tdt.utils._nested import tensors_in

TOLERANCE = 1e-5  # of the largest number of an output, at least of 1


def needs(package: str, what: str) -> None:
    """ImportError with the command that installs it, if a package of the extra `onnx` is missing."""
    try:
        __import__(package)
    except ImportError as error:
        raise ImportError(f"{what} needs {package}: {install_hint('onnx')}") from error


def session_of(model: Any) -> Any:
    """An onnxruntime session for a file or a model, on the CPU. OnnxExporterError if onnxruntime refuses it."""
    needs("onnxruntime", "checking an exported model")
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    source = model if isinstance(model, str) else model.SerializeToString()
    try:
        return onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
    except Exception as error:
        raise OnnxExporterError(f"onnxruntime cannot load the exported model: {_first_line(error)}") from error


def check(model: Any, module: Module, calls: Sequence[tuple[Sequence[Any], Mapping[str, Any]]]) -> float:
    """Compare an exported model with its module on (args, kwargs), one after the other.

    Args:
        model: the message, or the path of the file.
    Returns: the largest difference, as a part of the largest number of its output, or of 1.
    Raises:
        OnnxExporterError: onnxruntime cannot run the model, or a difference is above 1e-5; the message says which.
    """
    session = session_of(model)
    worst = 0.0
    for args, kwargs in calls:
        tensors = tensors_in([args, kwargs])
        feeds = {entry.name: tensor.numpy() for entry, tensor in zip(session.get_inputs(), tensors, strict=True)}
        with evaluating(module), no_grad():
            worst = max(worst, compare(session, feeds, tensors_in(module(*args, **kwargs))))
    return worst


def compare(session: Any, feeds: Mapping[str, np.ndarray], expected: Sequence[Tensor]) -> float:
    """Compare the outputs of a session with the expected ones; result and exceptions are those of `check`."""
    try:
        found = session.run(None, dict(feeds))
    except Exception as error:
        inputs = ", ".join(f"{name} {array.shape}" for name, array in feeds.items())
        raise OnnxExporterError(f"onnxruntime fails for {inputs}: {_first_line(error)}") from error
    shapes = {name: array.shape for name, array in feeds.items()}
    outputs = zip(session.get_outputs(), expected, found, strict=True)
    return max(difference(entry.name, ours.detach().numpy(), theirs, shapes) for entry, ours, theirs in outputs)


def difference(name: str, ours: np.ndarray, theirs: np.ndarray, shapes: Mapping[str, Any]) -> float:
    """The largest difference of two results, relative to their scale; OnnxExporterError where it is too large."""
    inputs = ", ".join(f"{key} {tuple(shape)}" for key, shape in shapes.items())
    if ours.shape != theirs.shape:
        raise OnnxExporterError(f"output {name!r} for {inputs} is {theirs.shape} in onnxruntime, {ours.shape} in tdt")
    if not ours.size:
        return 0.0
    ours, theirs = ours.astype(np.float64), theirs.astype(np.float64)
    equal = (ours == theirs) | (np.isnan(ours) & np.isnan(theirs))
    finite = np.abs(ours[np.isfinite(ours)])
    scale = max(1.0, float(finite.max(initial=0)))
    with np.errstate(invalid="ignore"):
        errors = np.where(equal, 0.0, np.abs(ours - theirs)) / scale
    errors = np.where(np.isnan(errors), np.inf, errors)
    worst = float(errors.max())
    if worst > TOLERANCE:
        place = np.unravel_index(errors.argmax(), errors.shape)
        at = ", ".join(map(str, map(int, place)))
        raise OnnxExporterError(
            f"output {name!r} for {inputs} differs by {worst:.1e} of its scale {scale:.3g}, more than {TOLERANCE:g}: at "
            f"[{at}] onnxruntime has {theirs[place]:.8g}, tdt {ours[place]:.8g}"
        )
    return worst


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
