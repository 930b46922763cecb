"""Stacks of recurrent layers over padded or packed batches, and single cells: PyTorch's functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from tdt._core.tensor import Tensor
from tdt._ops.nn import functional
from tdt._ops.nn.rnn.sequences import gru_sequence, lstm_sequence, rnn_sequence
from tdt._ops.shape.join import cat, stack
from tdt._ops.shape.views import select
from tdt.autograd._autocast import autocast, casts_on
from tdt.autograd._op import Op
from tdt.autograd._remembered import MOST_SAVED, calls_by_shape


class Kind(NamedTuple):
    """A recurrence: its op, how many gates it has, and the op's settings."""

    op: Op
    gates: int
    attributes: dict[str, bool]


WEIGHTS = ("w_ih", "w_hh", "b_ih", "b_hh", "w_hr")
KINDS = {
    "lstm": Kind(lstm_sequence, 4, {}),
    "gru": Kind(gru_sequence, 3, {}),
    "rnn_tanh": Kind(rnn_sequence, 1, {"relu": False}),
    "rnn_relu": Kind(rnn_sequence, 1, {"relu": True}),
}


def lstm(
    *args: Tensor | Sequence[Tensor] | bool | int | float, **kwargs: Tensor | Sequence[Tensor] | bool | int | float
) -> tuple[Tensor, Tensor, Tensor]:
    """Stack of LSTM layers over a padded or a packed batch of sequences.

    lstm(input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first), or packed:
    lstm(data, batch_sizes, hx, params, has_biases, num_layers, dropout, train, bidirectional).

    Args:
        input: padded batch; N first if `batch_first`.
        data, batch_sizes: packed batch; step t has `batch_sizes[t]` rows of `data`.
        hx: initial states (h, c).
        params: for each layer and direction w_ih, w_hh, with `has_biases` b_ih and b_hh, with projections to P features
            w_hr. Gates are in the order input, forget, candidate, output.
        dropout: probability of dropping an element between layers, if `train`.
    Shape: input (T, N, I) or (N, T, I), data (rows, I); h (layers · directions, N, H or P), c (layers · directions, N, H);
        w_ih (4H, I), w_hh (4H, H or P), b_ih and b_hh (4H,), w_hr (P, H).
    Returns: every h of the last layer, (T, N, H · directions) or as the input is laid out; the last h and the last c of
        every layer and direction, with the shapes of `hx`.
    Raises:
        RuntimeError: when shapes or dtypes do not fit.
    Source: Hochreiter and Schmidhuber, "Long Short-Term Memory", 1997.

    >>> import tdt
    >>> z = tdt.zeros(1, 1, 1)
    >>> tdt.lstm(z, (z, z), [tdt.ones(4, 1), tdt.ones(4, 1)], False, 1, 0.0, False, False, False)[0]
    tensor([[[0.]]])
    """
    packed = "batch_sizes" in kwargs or (len(args) > 1 and isinstance(args[1], Tensor))
    layers: Callable[..., Any] = _packed if packed else _padded
    return layers("lstm", *args, **kwargs)


def _single(name: str, args: tuple, kwargs: dict[str, Any]) -> tuple[Tensor, Tensor]:
    """A recurrence with one state, hx, a tensor."""
    packed = "batch_sizes" in kwargs or (len(args) > 2 and isinstance(args[2], Tensor))
    layers: Callable[..., Any] = _packed if packed else _padded
    return layers(name, *args, **kwargs)


def gru(
    *args: Tensor | Sequence[Tensor] | bool | int | float, **kwargs: Tensor | Sequence[Tensor] | bool | int | float
) -> tuple[Tensor, Tensor]:
    """Stack of GRU layers over a padded or a packed batch of sequences; arguments as `lstm`, except:

    Args:
        hx: initial state h.
        params: gates are in the order reset, update, new.
    Shape: input (T, N, I) or (N, T, I), data (rows, I); hx (layers · directions, N, H); w_ih (3H, I), w_hh (3H, H),
        b_ih and b_hh (3H,).
    Returns: every h of the last layer, (T, N, H · directions) or as the input is laid out; the last h of every layer and
        direction, with the shape of `hx`.
    Raises:
        RuntimeError: when shapes or dtypes do not fit.
    Source: Cho et al., "Learning Phrase Representations using RNN Encoder-Decoder for Statistical Machine Translation",
        2014.

    >>> import tdt
    >>> z = tdt.zeros(1, 1, 1)
    >>> tdt.gru(z, z, [tdt.ones(3, 1), tdt.ones(3, 1)], False, 1, 0.0, False, False, False)[0]
    tensor([[[0.]]])
    """
    return _single("gru", args, kwargs)


def rnn_tanh(
    *args: Tensor | Sequence[Tensor] | bool | int | float, **kwargs: Tensor | Sequence[Tensor] | bool | int | float
) -> tuple[Tensor, Tensor]:
    """Stack of layers h = tanh(x W + h V + b) over a padded or a packed batch; arguments as `lstm`, except:

    Args:
        hx: initial state h.
    Shape: input (T, N, I) or (N, T, I), data (rows, I); hx (layers · directions, N, H); w_ih (H, I), w_hh (H, H),
        b_ih and b_hh (H,).
    Returns: every h of the last layer, (T, N, H · directions) or as the input is laid out; the last h of every layer and
        direction, with the shape of `hx`.
    Raises:
        RuntimeError: when shapes or dtypes do not fit.
    Source: Elman, "Finding Structure in Time", 1990.

    >>> import tdt
    >>> z = tdt.zeros(1, 1, 1)
    >>> tdt.rnn_tanh(z + 1, z, [tdt.ones(1, 1), tdt.ones(1, 1)], False, 1, 0.0, False, False, False)[0]
    tensor([[[0.7616]]])
    """
    return _single("rnn_tanh", args, kwargs)


def rnn_relu(
    *args: Tensor | Sequence[Tensor] | bool | int | float, **kwargs: Tensor | Sequence[Tensor] | bool | int | float
) -> tuple[Tensor, Tensor]:
    """Stack of layers h = relu(x W + h V + b) over a padded or a packed batch; arguments as `lstm`, except:

    Args:
        hx: initial state h.
    Shape: input (T, N, I) or (N, T, I), data (rows, I); hx (layers · directions, N, H); w_ih (H, I), w_hh (H, H),
        b_ih and b_hh (H,).
    Returns: every h of the last layer, (T, N, H · directions) or as the input is laid out; the last h of every layer and
        direction, with the shape of `hx`.
    Raises:
        RuntimeError: when shapes or dtypes do not fit.

    >>> import tdt
    >>> z = tdt.zeros(1, 1, 1)
    >>> tdt.rnn_relu(z + 1, z, [tdt.ones(1, 1), tdt.ones(1, 1)], False, 1, 0.0, False, False, False)[0]
    tensor([[[1.]]])
    """
    return _single("rnn_relu", args, kwargs)


def _padded(name: str, input: Tensor, hx: Any, params: Sequence[Tensor], has_biases: bool, num_layers: int,
            dropout: float, train: bool, bidirectional: bool, batch_first: bool) -> tuple[Tensor, ...]:  # fmt: skip
    if input.ndim != 3:
        raise RuntimeError(f"{name}: expected a batch of sequences (T, N, I), got input {tuple(input.shape)}")
    x = input.transpose(0, 1) if batch_first else input
    steps, batch, _ = x.shape
    if not steps:
        raise RuntimeError("Expected sequence length to be larger than 0 in RNN")
    sizes = (batch,) * steps
    out, *last = _stacked(name, x, sizes, hx, params, has_biases, num_layers, dropout, train, bidirectional)
    return out.transpose(0, 1) if batch_first else out, *last


def _packed(name: str, data: Tensor, batch_sizes: Tensor, hx: Any, params: Sequence[Tensor], has_biases: bool,
            num_layers: int, dropout: float, train: bool, bidirectional: bool) -> tuple[Tensor, ...]:  # fmt: skip
    sizes = tuple(batch_sizes.tolist())
    if not sizes:
        raise RuntimeError("Expected sequence length to be larger than 0 in RNN")
    if sizes[-1] < 1 or sorted(sizes, reverse=True) != [*sizes]:
        raise RuntimeError(f"{name}: batch_sizes must be positive and must not grow, got {list(sizes)}")
    if data.ndim != 2 or len(data) != sum(sizes):
        raise RuntimeError(
            f"{name}: batch_sizes stand for {sum(sizes)} rows, expected data ({sum(sizes)}, I), got {tuple(data.shape)}"
        )
    return _stacked(name, data, sizes, hx, params, has_biases, num_layers, dropout, train, bidirectional)


def _stacked(name: str, x: Tensor, sizes: tuple[int, ...], hx: Any, params: Sequence[Tensor], has_biases: bool,
             num_layers: int, dropout: float, train: bool, bidirectional: bool) -> tuple[Tensor, ...]:  # fmt: skip
    """All layers over (T, N, I) or (rows, I): every h of the last layer, (…, H · directions), and the last states."""
    kind, sides = KINDS[name], 2 if bidirectional else 1
    states = _states(name, hx)
    width, size = states[0].shape[-1], states[-1].shape[-1]
    each = 2 + 2 * bool(has_biases) + (width != size)
    if len(params) != each * sides * num_layers:
        raise RuntimeError(
            f"got an incorrect number of RNN parameters: {name} of {num_layers} layers in {sides} directions expects "
            f"{each * sides * num_layers}, {each} a layer and direction, got {len(params)}"
        )
    for i, s in enumerate(states):
        _expect(f"hidden[{i}]" if len(states) > 1 else "hidden", s, (num_layers * sides, sizes[0], s.shape[-1]), x)
    last_states: list[tuple[Tensor, ...]] = []
    for layer in range(num_layers):
        outputs = []
        for side in range(sides):
            k = layer * sides + side
            weights = _weights(kind, params[k * each : (k + 1) * each], bool(has_biases), x, width, size, layer)
            out, *last = kind.op(
                x, *[select(s, 0, k) for s in states], *weights, sizes=sizes, reverse=side == 1, **kind.attributes
            )
            outputs.append(out)
            last_states.append(tuple(last))
        x = outputs[0] if sides == 1 else cat(outputs, -1)
        if dropout and train and layer < num_layers - 1:
            x = functional.dropout(x, dropout)
    return x, *[stack(last) for last in zip(*last_states, strict=True)]


def _states(name: str, hx: Any) -> tuple[Tensor, ...]:
    """The states of `hx`: h and c of an LSTM, else h."""
    if name.startswith("lstm"):
        if isinstance(hx, Tensor) or len(hx) != 2:
            raise RuntimeError(f"{name} expects two hidden states")
        return tuple(hx)
    return (hx,)


def _weights(kind: Kind, params: Sequence[Tensor], has_biases: bool, x: Tensor, width: int, size: int,
             layer: int) -> list[Tensor | None]:  # fmt: skip
    """The op's operands after the states: w_ih, w_hh, b_ih, b_hh, and w_hr for an LSTM; None for a missing one."""
    rows = kind.gates * size
    shapes = (rows, x._a.shape[-1]), (rows, width), (rows,), (rows,), (width, size)
    biases = params[2:4] if has_biases else (None, None)
    weights = [*params[:2], *biases, *params[4 if has_biases else 2 :]]
    weights += [None] * ((5 if kind.gates == 4 else 4) - len(weights))
    for k, t in enumerate(weights):
        if t is not None:
            _expect(WEIGHTS[k], t, shapes[k], x, layer)
    return weights


def _expect(what: str, t: Tensor, shape: tuple[int, ...], x: Tensor, layer: int | None = None) -> None:
    if t._a.shape == shape and t._a.dtype is x._a.dtype:
        return
    what = what if layer is None else f"{what} of layer {layer}"
    if t._a.shape != shape:
        raise RuntimeError(f"Expected {what} size {shape}, got {list(t.shape)}")
    if t._a.dtype != x._a.dtype and not casts_on(x.device.type):
        raise RuntimeError(f"Expected {what} to have the input's dtype {x.dtype}, got {t.dtype}")


@autocast("keep")
def lstm_cell(input: Tensor, hx: Sequence[Tensor], w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None,
              b_hh: Tensor | None = None) -> tuple[Tensor, Tensor]:  # fmt: skip
    """One step of an LSTM.

    Args:
        hx: states (h, c) before the step.
        w_ih, w_hh: gates are in the order input, forget, candidate, output.
    Shape: input (N, I), h and c (N, H), w_ih (4H, I), w_hh (4H, H), b_ih and b_hh (4H,); both results (N, H).
    Returns: h and c after the step.
    Raises:
        RuntimeError: when sizes or dtypes do not fit.
    Source: Hochreiter and Schmidhuber, "Long Short-Term Memory", 1997.

    >>> import tdt
    >>> z = tdt.zeros(1, 1)
    >>> tdt.lstm_cell(z, (z, z), tdt.ones(4, 1), tdt.ones(4, 1), tdt.ones(4))[1]
    tensor([[0.5568]])
    """
    out, _, cell = _cell("lstm", input, _states("lstm_cell", hx), (w_ih, w_hh, b_ih, b_hh, None))
    return out, cell


@autocast("keep")
@calls_by_shape
def gru_cell(input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None,
             b_hh: Tensor | None = None) -> Tensor:  # fmt: skip
    """One step of a GRU: the next h.

    Args:
        hx: h before the step.
        w_ih, w_hh: gates are in the order reset, update, new.
    Shape: input (N, I), hx (N, H), w_ih (3H, I), w_hh (3H, H), b_ih and b_hh (3H,); result (N, H).
    Raises:
        RuntimeError: when sizes or dtypes do not fit.
    Source: Cho et al., "Learning Phrase Representations using RNN Encoder-Decoder for Statistical Machine Translation",
        2014.

    >>> import tdt
    >>> z = tdt.zeros(1, 1)
    >>> tdt.gru_cell(z, z, tdt.ones(3, 1), tdt.ones(3, 1), tdt.ones(3))
    tensor([[0.2048]])
    """
    return _cell("gru", input, (hx,), (w_ih, w_hh, b_ih, b_hh))[0]


@calls_by_shape
def rnn_tanh_cell(input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None,
                  b_hh: Tensor | None = None) -> Tensor:  # fmt: skip
    """One step of a plain recurrent layer: tanh(input · w_ihᵀ + b_ih + hx · w_hhᵀ + b_hh).

    Args:
        hx: h before the step.
    Shape: input (N, I), hx (N, H), w_ih (H, I), w_hh (H, H), b_ih and b_hh (H,); result (N, H).
    Raises:
        RuntimeError: when sizes or dtypes do not fit.
    Source: Elman, "Finding Structure in Time", 1990.

    >>> import tdt
    >>> tdt.rnn_tanh_cell(tdt.ones(1, 1), tdt.zeros(1, 1), tdt.ones(1, 1), tdt.ones(1, 1))
    tensor([[0.7616]])
    """
    return _cell("rnn_tanh", input, (hx,), (w_ih, w_hh, b_ih, b_hh))[0]


@calls_by_shape
def rnn_relu_cell(input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None,
                  b_hh: Tensor | None = None) -> Tensor:  # fmt: skip
    """One step of a plain recurrent layer: relu(input · w_ihᵀ + b_ih + hx · w_hhᵀ + b_hh).

    Args:
        hx: h before the step.
    Shape: input (N, I), hx (N, H), w_ih (H, I), w_hh (H, H), b_ih and b_hh (H,); result (N, H).
    Raises:
        RuntimeError: when sizes or dtypes do not fit.

    >>> import tdt
    >>> tdt.rnn_relu_cell(tdt.ones(1, 1), tdt.zeros(1, 1), tdt.ones(1, 1), tdt.ones(1, 1))
    tensor([[1.]])
    """
    return _cell("rnn_relu", input, (hx,), (w_ih, w_hh, b_ih, b_hh))[0]


def _cell(name: str, x: Tensor, states: Sequence[Tensor], weights: Sequence[Any]) -> tuple[Tensor, ...]:
    """A sequence of one step."""
    kind = KINDS[name]
    kinds = (name, *[(t._a.shape, t._a.dtype) for t in (x, *states, *weights) if t is not None])
    if kinds not in _FITTING:
        _check_cell(kind, x, states, weights)
        if len(_FITTING) >= MOST_SAVED:
            _FITTING.clear()
        _FITTING.add(kinds)
    return kind.op(x, *states, *weights, sizes=(len(x._a),), **kind.attributes)


_FITTING: set[tuple] = set()  # a cell's name, and the shapes and dtypes of operands that are right for it


def _check_cell(kind: Kind, x: Tensor, states: Sequence[Tensor], weights: Sequence[Any]) -> None:
    arrays = [t._a for t in (x, *states, *weights) if t is not None]
    batch, inside, size = len(arrays[0]), weights[0]._a.shape[-1], weights[1]._a.shape[-1]
    rows = kind.gates * size
    shapes = [(batch, inside), *[(batch, size)] * len(states), (rows, inside), (rows, size), (rows,), (rows,)]
    if [a.shape for a in arrays] != shapes[: len(arrays)] or any(a.dtype != arrays[0].dtype for a in arrays):
        _explain(kind, x, states, weights, shapes)


def _explain(
    kind: Kind, x: Tensor, states: Sequence[Tensor], weights: Sequence[Any], shapes: list[tuple[int, ...]]
) -> None:
    """Raise PyTorch's error if the shapes of a cell's operands do not match."""
    (_, inside), (_, size) = shapes[:2]
    if x.ndim != 2 or x.shape[1] != inside:
        raise RuntimeError(
            f"input has inconsistent input_size: got {x.shape[-1]} expected {inside}; input {tuple(x.shape)}, w_ih "
            f"{tuple(weights[0].shape)}"
        )
    for i, s in enumerate(states):
        if s.shape[0] != x.shape[0]:
            raise RuntimeError(f"Input batch size {x.shape[0]} doesn't match hidden{i} batch size {s.shape[0]}")
        if s.ndim != 2 or s.shape[1] != size:
            raise RuntimeError(f"hidden{i} has inconsistent hidden_size: got {s.shape[-1]}, expected {size}")
    rows = kind.gates * size
    for what, w in zip(("weight_ih", "weight_hh"), weights, strict=False):
        if w.shape[0] != rows:
            raise RuntimeError(f"{what} first dim must be {kind.gates} * hidden_size = {rows}, but got {w.shape[0]}")
    named = zip(("w_ih", "w_hh", "b_ih", "b_hh"), weights, shapes[1 + len(states) :], strict=False)
    for what, t, shape in [*((f"hidden{i}", s, shapes[1]) for i, s in enumerate(states)), *named]:
        if t is not None:
            _expect(what, t, shape, x)
