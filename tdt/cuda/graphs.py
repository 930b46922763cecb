"""CUDA graphs: work of a GPU that is recorded once and launched again as a whole, in one call of the host.

What a graph does again is what was launched while it was captured: with the same addresses, so that its inputs are tensors whose
values are replaced (`copy_`), and its results are overwritten by each replay. The host's own work is not repeated, with these
exceptions: an optimizer's step counts on, with the learning rate of the moment, and random numbers go on in the generator's
stream, as if the step were taken without a graph. Nothing may be read from the GPU or uploaded during a capture; a first call
does so to fill caches, so run the work a few times before.
"""

from __future__ import annotations

import weakref
from typing import Any, cast

from tdt import _backend
from tdt._backend._gpu_memory import GraphPool
from tdt._core.mode import enable_grad
from tdt._core.tensor import Tensor
from tdt._kernels import capture_gpu
from tdt._kernels.graph_gpu import Graph, prepare
from tdt.autograd._backward import grad
from tdt.autograd._function import Function
from tdt.cuda._devices import is_available, synchronize
from tdt.cuda.streams import Stream, StreamContext, current_stream

ERROR_MODES = ("global", "thread_local", "relaxed")


def is_current_stream_capturing() -> bool:
    """Whether the current stream is capturing a CUDA graph.

    >>> import tdt
    >>> tdt.cuda.is_current_stream_capturing()
    False
    """
    return is_available() and bool(current_stream()._stream.is_capturing())


def graph_pool_handle() -> GraphPool:
    """A memory pool for several graphs, which is passed to their captures as `pool`.

    Graphs may share one if they are replayed in the order of their captures, and one after the other.

    Raises:
        AssertionError: when there is no GPU.
    """
    return GraphPool(_backend.gpu())


class CUDAGraph(Graph):
    """Work of a GPU that is captured once, between `capture_begin` and `capture_end`, and launched by `replay`.

    `tdt.cuda.graph` captures a block. Memory that is allocated during the capture comes from a pool of the graph's own, and
    stays there as long as the graph.

    Args:
        keep_graph: has no effect; the graph is instantiated when the capture ends.
    Raises:
        AssertionError: when there is no GPU.
    """

    def __init__(self, keep_graph: bool = False) -> None:
        super().__init__()

    def capture_begin(self, pool: GraphPool | None = None, capture_error_mode: str = "global") -> None:
        """Begin to capture the current stream, which must not be the default one.

        Args:
            pool: of `graph_pool_handle`, or of another graph's `pool`; by default the graph's own.
            capture_error_mode: "global", "thread_local" or "relaxed". In each, calls of other threads are permitted, and CuPy
                refuses reads and uploads in the stream.
        Raises:
            RuntimeError: in the default stream, during a capture, or if this graph was captured before.
            ValueError: for another mode.
        """
        if capture_error_mode not in ERROR_MODES:
            raise ValueError(
                f"Unknown capture error mode. Expected `global`, `thread_local`, or `relaxed`, got {capture_error_mode}"
            )
        stream = current_stream()
        if self.is_captured or self.is_capturing:
            raise RuntimeError(
                "This CUDAGraph instance already owns a captured graph. To capture a new graph, create a new instance."
            )
        if stream._stream is _backend.gpu().cuda.Stream.null or not stream.cuda_stream:
            raise RuntimeError(
                "CUDA graphs must be captured on a non-default stream. (However, after capture, it's ok to replay them on the "
                "default stream.)"
            )
        if capture_gpu.current() is not None:
            raise RuntimeError("CUDA graphs cannot be captured inside each other")
        self.begin(pool)

    def capture_end(self) -> None:
        """End the capture; the graph can be replayed from now on. RuntimeError without `capture_begin`."""
        if not self.is_capturing:
            raise RuntimeError("capture_end() without capture_begin()")
        self.end()

    def replay(self) -> None:
        """Launch the captured work in the current stream. RuntimeError if nothing was captured."""
        if not self.is_captured:
            raise RuntimeError("Called CUDAGraph::replay without a preceding successful capture.")
        self.launch()

    def reset(self) -> None:
        """Forget the captured work, and release its memory where no tensor has it."""
        self._graph = self._capture = self._pool = None

    def pool(self) -> GraphPool:
        """The memory pool of the graph, for captures that share it. RuntimeError if nothing was captured."""
        if self._pool is None:
            raise RuntimeError("Called CUDAGraph::pool() without a preceding successful capture.")
        return self._pool


class graph:
    """Context manager that captures the work of its block in a `CUDAGraph`.

    Args:
        cuda_graph: gets the work.
        pool: memory of other graphs that this one may share, see `graph_pool_handle`.
        stream: to capture; by default one of its own, which all blocks share.
        capture_error_mode: see `CUDAGraph.capture_begin`.
    """

    default_capture_stream: Stream | None = None

    def __init__(self, cuda_graph: CUDAGraph, pool: GraphPool | None = None, stream: Stream | None = None,
                 capture_error_mode: str = "global") -> None:  # fmt: skip
        if stream is None:
            if graph.default_capture_stream is None:
                graph.default_capture_stream = Stream()
            stream = graph.default_capture_stream
        self.cuda_graph, self.pool, self.capture_stream = cuda_graph, pool, stream
        self.stream_ctx = StreamContext(stream)
        self.capture_error_mode = capture_error_mode

    def __enter__(self) -> None:
        synchronize()  # which raises errors that wait
        prepare()
        self.stream_ctx.__enter__()
        try:
            self.cuda_graph.capture_begin(self.pool, self.capture_error_mode)
        except BaseException:
            self.stream_ctx.__exit__(None, None, None)
            raise

    def __exit__(self, kind: type | None, error: BaseException | None, trace: Any) -> None:
        try:
            if kind is None:
                self.cuda_graph.capture_end()
            else:
                self.cuda_graph.abandon()
        finally:
            self.stream_ctx.__exit__(None, None, None)


def make_graphed_callables(
    callables: Any, sample_args: Any, num_warmup_iters: int = 3, allow_unused_input: bool = False, pool: Any = None
) -> Any:
    """Callables whose forward and backward passes are captured as CUDA graphs.

    A module keeps its identity and gets a `forward` that replays; a function is wrapped. Arguments have the shapes, dtypes and
    `requires_grad` of the samples; results are overwritten by the next call.

    Args:
        callables: a module or function of tensors that returns a tensor or a tuple of them, or a tuple of such.
        sample_args: a tuple of tensors for it, or a tuple of such tuples.
        num_warmup_iters: passes before the capture.
        allow_unused_input: whether arguments may have no part in the results.
        pool: see `graph_pool_handle`.
    Raises:
        RuntimeError: when autocast caches casts, a module has hooks, buffers require gradients, or an argument is not a tensor.
    """
    several = isinstance(callables, tuple)
    functions, samples = (callables, sample_args) if several else ((callables,), (sample_args,))
    if len(functions) != len(samples):
        raise RuntimeError(f"got {len(functions)} callables and {len(samples)} tuples of arguments")
    shared = GraphPool(_backend.gpu()) if pool is None else pool
    graphed = [
        _graphed(function, tuple(args), num_warmup_iters, allow_unused_input, shared)
        for function, args in zip(functions, samples, strict=True)
    ]
    return tuple(graphed) if several else graphed[0]


def _graphed(function: Any, args: tuple, passes: int, allow_unused: bool, pool: GraphPool) -> Any:
    """One of `make_graphed_callables`."""
    parameters: tuple[Tensor, ...] = ()
    if hasattr(function, "parameters"):
        if any(vars(function).get(name) for name in ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks")):
            raise RuntimeError(
                "Modules must not have hooks registered at the time they are passed. However, registering hooks on modules "
                "after passing them through make_graphed_callables is allowed."
            )
        if any(buffer.requires_grad for buffer in function.buffers()):
            raise RuntimeError(
                "In any :class:`~torch.nn.Module` passed to :func:`~make_graphed_callables`, only parameters may be trainable. "
                "All buffers must have ``requires_grad=False``."
            )
        parameters = tuple(p for p in function.parameters() if p.requires_grad)
    if not all(isinstance(arg, Tensor) for arg in args):
        raise RuntimeError(
            "In the beta API, sample_args for each callable must contain only Tensors. Other types are not allowed."
        )
    passes_of = _Passes(function, args, parameters, allow_unused)
    passes_of.capture(passes, pool)
    return passes_of.module() if hasattr(function, "parameters") else passes_of.call


class _Passes:
    """The captured passes of one callable.

    Attributes:
        inputs: the memory of the arguments, followed by the parameters that require gradients.
        outputs, grad_outputs, grads: of the last replays.
    """

    def __init__(self, function: Any, args: tuple, parameters: tuple[Tensor, ...], allow_unused: bool):
        self.function, self.count, self.allow_unused = function, len(args), allow_unused
        self.inputs = (*args, *parameters)
        self.forward_graph, self.backward_graph = CUDAGraph(), CUDAGraph()
        self.needed = [t for t in self.inputs if t.requires_grad]
        self.single = False
        self.outputs: tuple[Tensor, ...] = ()
        self.grad_outputs: tuple[Tensor | None, ...] = ()
        self.grads: tuple[Tensor | None, ...] = ()

    def _forward(self) -> tuple[Tensor, ...]:
        with enable_grad():
            found = self.function(*self.inputs[: self.count])
        self.single = isinstance(found, Tensor)
        return (found,) if self.single else tuple(found)

    def _backward(self, outputs: tuple[Tensor, ...], grads: tuple[Tensor | None, ...]) -> tuple[Tensor | None, ...]:
        roots = [(out, g) for out, g in zip(outputs, grads, strict=True) if g is not None]
        if not roots or not self.needed:
            return (None,) * len(self.inputs)
        found = iter(grad([out for out, _ in roots], self.needed, [g for _, g in roots],
                          allow_unused=self.allow_unused))  # fmt: skip
        return tuple(next(found) if t.requires_grad else None for t in self.inputs)

    def capture(self, passes: int, pool: GraphPool) -> None:
        """Warm up, and capture both passes."""
        synchronize()
        side = Stream()
        with StreamContext(side):
            for _ in range(passes):
                outputs = self._forward()
                self._backward(outputs, tuple(_like(out) for out in outputs))
        synchronize()
        with graph(self.forward_graph, pool):
            self.outputs = self._forward()
        self.grad_outputs = tuple(_like(out) for out in self.outputs)
        if self.needed:
            with graph(self.backward_graph, pool):
                self.grads = self._backward(self.outputs, self.grad_outputs)

    def call(self, *args: Tensor) -> Any:
        """The callable, by replays."""
        found = cast(tuple, _Replayed.apply(self, *args, *self.inputs[self.count :]))
        return found[0] if self.single else found

    def module(self) -> Any:
        """The module, whose `forward` replays as long as its training mode is that of the capture."""
        module, original, mode = self.function, self.function.forward, self.function.training
        held = weakref.ref(module)

        def forward(*args: Any) -> Any:
            return self.call(*args) if cast(Any, held()).training == mode else original(*args)

        self.function = original
        module.forward = forward
        return module


def _like(out: Tensor) -> Tensor | None:
    """Memory for the gradient of a result; None where it has none."""
    return Tensor.new_ones(out, out.shape) if out.requires_grad else None


class _Replayed(Function):
    """The passes of a `_Passes` as one function of autograd."""

    @staticmethod
    def forward(ctx: Any, passes: _Passes, *inputs: Tensor) -> Any:
        if len(inputs) != len(passes.inputs):
            raise TypeError(f"the graphed callable takes {passes.count} tensors")
        ctx.passes = passes
        for place, value in zip(passes.inputs[: passes.count], inputs, strict=False):
            if place._st is not value._st:
                place.detach().copy_(value.detach())
        passes.forward_graph.replay()
        return tuple(out.detach() for out in passes.outputs)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        passes = ctx.passes
        for place, value in zip(passes.grad_outputs, grads, strict=True):
            if place is not None and place._st is not value._st:
                place.copy_(value)
        passes.backward_graph.replay()
        return None, *(None if g is None else g.detach() for g in passes.grads)
