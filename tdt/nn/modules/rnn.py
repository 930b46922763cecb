"""Recurrent layers and cells: RNN, LSTM, GRU."""

from __future__ import annotations

import math
import numbers
import warnings
from typing import TYPE_CHECKING, Any, TypeAlias, overload

from tdt._core.creation import empty, zeros
from tdt._core.tensor import Tensor
from tdt._ops.nn import rnn as functions
from tdt.autograd._autocast import casts_on
from tdt.nn import init
from tdt.nn._types import Device, Dtype
from tdt.nn.modules.module import Module
from tdt.nn.parameter import Parameter
from tdt.nn.utils.rnn import PackedSequence

Pair: TypeAlias = tuple[Tensor, Tensor]  # the states h and c of an LSTM
GATES = {"LSTM": 4, "GRU": 3, "RNN_TANH": 1, "RNN_RELU": 1}


class RNNBase(Module):
    """What RNN, LSTM and GRU share: their parameters, and the way of a batch through them.

    Parameters, per layer k and direction: `weight_ih_l{k}`, `weight_hh_l{k}`, `bias_ih_l{k}`, `bias_hh_l{k}`,
    `weight_hr_l{k}`, those of the second direction with `_reverse` behind; all start uniform within ±1/√hidden_size.
    TypeError or ValueError for arguments that make no layer; a warning for dropout with nothing to drop from.

    >>> import tdt
    >>> len(tdt.nn.RNNBase("GRU", 2, 3).all_weights[0])
    4
    """

    def __init__(self, mode: str, input_size: int, hidden_size: int, num_layers: int = 1, bias: bool = True,
                 batch_first: bool = False, dropout: float = 0.0, bidirectional: bool = False, proj_size: int = 0,
                 device: Device = None, dtype: Dtype = None):  # fmt: skip
        super().__init__()
        _check_arguments(mode, input_size, hidden_size, num_layers, bias, batch_first, dropout, proj_size)
        self.mode, self.input_size, self.hidden_size, self.num_layers = mode, input_size, hidden_size, num_layers
        self.bias, self.batch_first, self.dropout = bias, batch_first, float(dropout)
        self.bidirectional, self.proj_size = bidirectional, proj_size
        self._all_weights: list[list[str]] = []
        rows, width, sides = GATES[mode] * hidden_size, proj_size or hidden_size, 2 if bidirectional else 1
        for layer in range(num_layers):
            for suffix in ("", "_reverse")[:sides]:
                inside = width * sides if layer else input_size
                shapes: dict[str, tuple[int, ...]] = {"weight_ih": (rows, inside), "weight_hh": (rows, width)}
                if bias:
                    shapes |= {"bias_ih": (rows,), "bias_hh": (rows,)}
                if proj_size:
                    shapes["weight_hr"] = (proj_size, hidden_size)
                named = {f"{name}_l{layer}{suffix}": shape for name, shape in shapes.items()}
                for name, shape in named.items():
                    setattr(self, name, Parameter(empty(shape, device=device, dtype=dtype)))
                self._all_weights.append([*named])
        self.reset_parameters()

    @property
    def _flat_weights_names(self) -> list[str]:
        return [name for names in self._all_weights for name in names]

    @property
    def _flat_weights(self) -> list[Tensor]:
        own = self._parameters if self._reads_directly else {}
        return [own[name] if name in own else getattr(self, name) for names in self._all_weights for name in names]

    @property
    def all_weights(self) -> list[list[Tensor]]:
        """The parameters of each layer and direction."""
        return [[getattr(self, name) for name in names] for names in self._all_weights]

    def flatten_parameters(self) -> None:
        """Nothing to do: parameters need not lie together."""

    def reset_parameters(self) -> None:
        """Draw all parameters anew."""
        _draw(self)

    def check_input(self, input: Tensor, batch_sizes: Tensor | None) -> None:
        """Check an input's number of dimensions, size and dtype.

        Raises:
            ValueError: when its dtype is not that of the parameters.
            RuntimeError: when its shape does not match.
        """
        weight: Tensor = getattr(self, self._all_weights[0][0])
        if input.dtype != weight.dtype and not casts_on(input.device.type):
            raise ValueError(
                f"RNN input dtype ({input.dtype}) does not match weight dtype ({weight.dtype}). "
                f"Convert input: input.to({weight.dtype}), or convert model: model.to({input.dtype})"
            )
        expected = 3 if batch_sizes is None else 2
        if input.dim() != expected:
            raise RuntimeError(f"input must have {expected} dimensions, got {input.dim()}")
        if self.input_size != input.size(-1):
            raise RuntimeError(
                f"input.size(-1) must be equal to input_size. Expected {self.input_size}, got {input.size(-1)}"
            )

    def get_expected_hidden_size(self, input: Tensor, batch_sizes: Tensor | None) -> tuple[int, int, int]:
        """The shape of h."""
        return self._state_size(input, batch_sizes, self.proj_size or self.hidden_size)

    def _state_size(self, input: Tensor, batch_sizes: Tensor | None, width: int) -> tuple[int, int, int]:
        batch = input.size(0 if self.batch_first else 1) if batch_sizes is None else int(batch_sizes._a[0])
        return self.num_layers * (2 if self.bidirectional else 1), batch, width

    def check_hidden_size(self, hx: Tensor, expected_hidden_size: tuple[int, int, int],
                          msg: str = "Expected hidden size {}, got {}") -> None:  # fmt: skip
        """Check the shape of a state.

        Raises:
            RuntimeError: when it is not `expected_hidden_size`.
        """
        if hx.size() != expected_hidden_size:
            raise RuntimeError(msg.format(expected_hidden_size, list(hx.size())))

    def check_forward_args(self, input: Tensor, hidden: Tensor, batch_sizes: Tensor | None) -> None:
        """Check the input and the state."""
        self.check_input(input, batch_sizes)
        self.check_hidden_size(hidden, self.get_expected_hidden_size(input, batch_sizes))

    def permute_hidden(self, hx: Tensor, permutation: Tensor | None) -> Tensor:
        """The state with its samples in another order."""
        return hx if permutation is None else hx.index_select(1, permutation)

    def _first_state(self, input: Tensor, batch_sizes: Tensor | None) -> Any:
        shape = self.get_expected_hidden_size(input, batch_sizes)
        return zeros(shape, dtype=input.dtype, device=input.device)

    def _check_rank(self, hx: Any, expected: int) -> None:
        """RuntimeError for a state that is batched where the input is not, or the other way round."""
        if hx.dim() != expected:
            raise RuntimeError(
                f"For {_BATCHED[expected]} input, hx should also be {expected}-D but got {hx.dim()}-D tensor"
            )

    def _run(self, input: Any, hx: Any) -> tuple[Any, Any]:
        """The results for a padded batch, a packed one, or a single sequence."""
        if isinstance(input, PackedSequence):
            return self._run_packed(input, hx)
        kind = self.mode.partition("_")[0]
        if input.dim() not in (2, 3):
            noun = "tensor " if kind == "RNN" else ""
            raise ValueError(f"{kind}: Expected input to be 2D or 3D, got {input.dim()}D {noun}instead")
        batch_dim, single = 0 if self.batch_first else 1, input.dim() == 2
        if hx is not None:
            self._check_rank(hx, input.dim())
        if single:
            input, hx = input.unsqueeze(batch_dim), hx if hx is None else _each(hx, lambda s: s.unsqueeze(1))
        hx = self._first_state(input, None) if hx is None else hx
        self.check_forward_args(input, hx, None)
        function = getattr(functions, self.mode.lower())
        output, *last = function(input, hx, self._flat_weights, self.bias, self.num_layers, self.dropout, self.training,
                                 self.bidirectional, self.batch_first)  # fmt: skip
        hidden = tuple(last) if len(last) > 1 else last[0]
        return (output.squeeze(batch_dim), _each(hidden, lambda s: s.squeeze(1))) if single else (output, hidden)

    def _run_packed(self, input: PackedSequence, hx: Any) -> tuple[PackedSequence, Any]:
        data, batch_sizes, in_order, back = input
        hx = self._first_state(data, batch_sizes) if hx is None else self.permute_hidden(hx, in_order)
        self.check_forward_args(data, hx, batch_sizes)
        function = getattr(functions, self.mode.lower())
        output, *last = function(data, batch_sizes, hx, self._flat_weights, self.bias, self.num_layers, self.dropout,
                                 self.training, self.bidirectional)  # fmt: skip
        state: Any = tuple(last) if len(last) > 1 else last[0]
        hidden = self.permute_hidden(state, back)
        return PackedSequence(output, batch_sizes, in_order, back), hidden

    def extra_repr(self) -> str:
        text = f"{self.input_size}, {self.hidden_size}"
        usual = {
            "proj_size": 0,
            "num_layers": 1,
            "bias": True,
            "batch_first": False,
            "dropout": 0,
            "bidirectional": False,
        }
        return text + "".join(f", {k}={getattr(self, k)}" for k, v in usual.items() if getattr(self, k) != v)


_BATCHED = {2: "unbatched 2-D", 3: "batched 3-D"}


def _each(hx: Any, function: Any) -> Any:
    """`function` of a state, or of both of an LSTM."""
    return tuple(map(function, hx)) if isinstance(hx, tuple | list) else function(hx)


def _draw(module: Any) -> None:
    """Draw all parameters of a layer or a cell."""
    bound = 1 / math.sqrt(module.hidden_size) if module.hidden_size > 0 else 0
    for parameter in module.parameters():
        init.uniform_(parameter, -bound, bound)


def _check_arguments(mode: str, input_size: Any, hidden_size: Any, num_layers: int, bias: Any, batch_first: Any,
                     dropout: Any, proj_size: int) -> None:  # fmt: skip
    if not isinstance(dropout, numbers.Number) or isinstance(dropout, bool) or not 0 <= dropout <= 1:  # type: ignore[operator]
        raise ValueError(
            "dropout should be a number in range [0, 1] representing the probability of an element being zeroed, "
            f"got {dropout!r}"
        )
    if dropout > 0 and num_layers == 1:  # type: ignore[operator]
        warnings.warn(
            "dropout option adds dropout after all but last recurrent layer, so non-zero dropout expects num_layers "
            f"greater than 1, but got dropout={dropout} and num_layers={num_layers}",
            stacklevel=4,
        )
    for name, value in (("bias", bias), ("batch_first", batch_first)):
        if not isinstance(value, bool):
            raise TypeError(f"{name} should be of type bool, got: {type(value).__name__}")
    for name, value in (("input_size", input_size), ("hidden_size", hidden_size)):
        if not isinstance(value, int):
            raise TypeError(f"{name} should be of type int, got: {type(value).__name__}")
        if value <= 0:
            raise ValueError(f"{name} must be greater than zero")
    if num_layers <= 0:
        raise ValueError("num_layers must be greater than zero")
    if proj_size < 0:
        raise ValueError("proj_size should be a positive integer or zero to disable projections")
    if proj_size >= hidden_size:
        raise ValueError("proj_size has to be smaller than hidden_size")
    if mode not in GATES:
        raise ValueError(f"Unrecognized RNN mode: {mode}")


class RNN(RNNBase):
    """Elman network of several layers: h' = tanh(x W + h V + b), or relu in the place of tanh.

    Args:
        nonlinearity: "tanh" or "relu".
        batch_first: whether N precedes T in input and output, but not in the states.
        dropout: probability of dropping outputs of every layer but the last, in training.
        bidirectional: add a second direction that reads each sequence from its end.
    Shape: input (T, N, input_size), (T, input_size) or a PackedSequence; hx (layers · directions, N, hidden_size) or
        without
        N, zeros by default; result a pair: output (T, N, directions · hidden_size), the h of every step of the last
        layer,
        and h_n, shaped as hx, the last h of every layer and direction.
    Raises:
        ValueError: when `nonlinearity` is another one, or the input's dtype is not that of the weights.
        RuntimeError: when shapes of input or state do not match.
    Source: Elman, "Finding Structure in Time", 1990.

    >>> import tdt
    >>> out, h = tdt.nn.RNN(2, 3)(tdt.zeros(5, 1, 2))
    >>> out.shape, h.shape
    (tdt.Size([5, 1, 3]), tdt.Size([1, 1, 3]))
    """

    def __init__(self, input_size: int, hidden_size: int, num_layers: int = 1, nonlinearity: str = "tanh",
                 bias: bool = True, batch_first: bool = False, dropout: float = 0.0, bidirectional: bool = False,
                 device: Device = None, dtype: Dtype = None):  # fmt: skip
        if nonlinearity not in ("tanh", "relu"):
            raise ValueError(f"Unknown nonlinearity '{nonlinearity}'. Select from 'tanh' or 'relu'.")
        super().__init__(f"RNN_{nonlinearity.upper()}", input_size, hidden_size, num_layers, bias, batch_first, dropout,
                         bidirectional, device=device, dtype=dtype)  # fmt: skip
        self.nonlinearity = nonlinearity

    @overload
    def forward(self, input: Tensor, hx: Tensor | None = None) -> tuple[Tensor, Tensor]: ...
    @overload
    def forward(self, input: PackedSequence, hx: Tensor | None = None) -> tuple[PackedSequence, Tensor]: ...
    def forward(
        self, input: Tensor | PackedSequence, hx: Tensor | None = None
    ) -> tuple[Tensor | PackedSequence, Tensor]:
        return self._run(input, hx)

    if TYPE_CHECKING:  # the overloads, which Module's __call__ does not pass on

        @overload
        def __call__(self, input: Tensor, hx: Tensor | None = None) -> tuple[Tensor, Tensor]: ...
        @overload
        def __call__(self, input: PackedSequence, hx: Tensor | None = None) -> tuple[PackedSequence, Tensor]: ...
        def __call__(self, input: Any, hx: Tensor | None = None) -> Any: ...


class GRU(RNNBase):
    """Gated recurrent units in several layers.

    The rows of each weight are those of the reset, update and new gate; the reset gate acts on h V + b, as in cuDNN.

    Args:
        batch_first: whether N precedes T in input and output, but not in the states.
        dropout: probability of dropping outputs of every layer but the last, in training.
        bidirectional: add a second direction that reads each sequence from its end.
    Shape: input (T, N, input_size), (T, input_size) or a PackedSequence; hx (layers · directions, N, hidden_size) or
        without
        N, zeros by default; result a pair: output (T, N, directions · hidden_size) and h_n, shaped as hx.
    Source: Cho et al., "Learning Phrase Representations using RNN Encoder-Decoder", 2014.

    >>> import tdt
    >>> out, h = tdt.nn.GRU(2, 3, bidirectional=True)(tdt.zeros(5, 1, 2))
    >>> out.shape, h.shape
    (tdt.Size([5, 1, 6]), tdt.Size([2, 1, 3]))
    """

    def __init__(self, input_size: int, hidden_size: int, num_layers: int = 1, bias: bool = True,
                 batch_first: bool = False, dropout: float = 0.0, bidirectional: bool = False, device: Device = None,
                 dtype: Dtype = None):  # fmt: skip
        super().__init__("GRU", input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional,
                         device=device, dtype=dtype)  # fmt: skip

    @overload
    def forward(self, input: Tensor, hx: Tensor | None = None) -> tuple[Tensor, Tensor]: ...
    @overload
    def forward(self, input: PackedSequence, hx: Tensor | None = None) -> tuple[PackedSequence, Tensor]: ...
    def forward(
        self, input: Tensor | PackedSequence, hx: Tensor | None = None
    ) -> tuple[Tensor | PackedSequence, Tensor]:
        return self._run(input, hx)

    if TYPE_CHECKING:  # the overloads, which Module's __call__ does not pass on

        @overload
        def __call__(self, input: Tensor, hx: Tensor | None = None) -> tuple[Tensor, Tensor]: ...
        @overload
        def __call__(self, input: PackedSequence, hx: Tensor | None = None) -> tuple[PackedSequence, Tensor]: ...
        def __call__(self, input: Any, hx: Tensor | None = None) -> Any: ...


class LSTM(RNNBase):
    """Long short-term memory in several layers.

    The rows of each weight are those of the input, forget, cell and output gate.

    Args:
        batch_first: whether N precedes T in input and output, but not in the states.
        dropout: probability of dropping outputs of every layer but the last, in training.
        bidirectional: add a second direction that reads each sequence from its end.
        proj_size: number P of features to which h is projected; 0 for no projection.
    Shape: input (T, N, input_size), (T, input_size) or a PackedSequence; hx a pair (h, c) of (layers · directions, N, P
        or
        hidden_size) and (layers · directions, N, hidden_size) or without N, zeros by default; result (output, (h_n,
        c_n)),
        output (T, N, directions · P or hidden_size) and the states shaped as hx.
    Source: Hochreiter and Schmidhuber, "Long Short-Term Memory", 1997; projections: Sak, Senior and Beaufays, 2014.

    >>> import tdt
    >>> out, (h, c) = tdt.nn.LSTM(2, 3)(tdt.zeros(5, 1, 2))
    >>> out.shape, h.shape, c.shape
    (tdt.Size([5, 1, 3]), tdt.Size([1, 1, 3]), tdt.Size([1, 1, 3]))
    """

    def __init__(self, input_size: int, hidden_size: int, num_layers: int = 1, bias: bool = True,
                 batch_first: bool = False, dropout: float = 0.0, bidirectional: bool = False, proj_size: int = 0,
                 device: Device = None, dtype: Dtype = None):  # fmt: skip
        super().__init__("LSTM", input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, proj_size,
                         device, dtype)  # fmt: skip

    def get_expected_cell_size(self, input: Tensor, batch_sizes: Tensor | None) -> tuple[int, int, int]:
        """The shape of c."""
        return self._state_size(input, batch_sizes, self.hidden_size)

    def check_forward_args(  # type: ignore[override]
        self, input: Tensor, hidden: Pair, batch_sizes: Tensor | None
    ) -> None:
        """Check the input, h and c."""
        self.check_input(input, batch_sizes)
        sizes = self.get_expected_hidden_size(input, batch_sizes), self.get_expected_cell_size(input, batch_sizes)
        for i, size in enumerate(sizes):
            self.check_hidden_size(hidden[i], size, f"Expected hidden[{i}] size {{}}, got {{}}")

    def permute_hidden(  # type: ignore[override]
        self, hx: Pair, permutation: Tensor | None
    ) -> Pair:
        """h and c with their samples in another order."""
        return hx if permutation is None else (hx[0].index_select(1, permutation), hx[1].index_select(1, permutation))

    def _first_state(self, input: Tensor, batch_sizes: Tensor | None) -> Any:
        h, shape = super()._first_state(input, batch_sizes), self.get_expected_cell_size(input, batch_sizes)
        return h, h if h.shape == shape else zeros(shape, dtype=input.dtype, device=input.device)

    def _check_rank(self, hx: Any, expected: int) -> None:
        ranks = [s.dim() for s in hx]
        if ranks != [expected, expected]:
            raise RuntimeError(f"For {_BATCHED[expected]} input, hx and cx should also be {expected}-D but got "
                               f"({', '.join(f'{n}-D' for n in ranks)}) tensors")  # fmt: skip

    @overload
    def forward(self, input: Tensor, hx: Pair | None = None) -> tuple[Tensor, Pair]: ...
    @overload
    def forward(self, input: PackedSequence, hx: Pair | None = None) -> tuple[PackedSequence, Pair]: ...
    def forward(self, input: Tensor | PackedSequence, hx: Pair | None = None) -> tuple[Tensor | PackedSequence, Pair]:
        return self._run(input, hx)

    if TYPE_CHECKING:  # the overloads, which Module's __call__ does not pass on

        @overload
        def __call__(self, input: Tensor, hx: Pair | None = None) -> tuple[Tensor, Pair]: ...
        @overload
        def __call__(self, input: PackedSequence, hx: Pair | None = None) -> tuple[PackedSequence, Pair]: ...
        def __call__(self, input: Any, hx: Pair | None = None) -> Any: ...


class RNNCellBase(Module):
    """What the cells share: `weight_ih`, `weight_hh`, `bias_ih` and `bias_hh`, uniform within ±1/√hidden_size.

    >>> import tdt
    >>> tdt.nn.RNNCellBase(2, 3, True, 4).weight_ih.shape
    tdt.Size([12, 2])
    """

    weight_ih: Parameter
    weight_hh: Parameter
    bias_ih: Parameter  # None with bias=False
    bias_hh: Parameter

    def __init__(self, input_size: int, hidden_size: int, bias: bool, num_chunks: int, device: Device = None,
                 dtype: Dtype = None):  # fmt: skip
        super().__init__()
        self.input_size, self.hidden_size, self.bias = input_size, hidden_size, bias
        rows = num_chunks * hidden_size
        shapes = {
            "weight_ih": (rows, input_size),
            "weight_hh": (rows, hidden_size),
            "bias_ih": (rows,),
            "bias_hh": (rows,),
        }
        for name, shape in shapes.items():
            used = bias or name.startswith("weight")
            self.register_parameter(name, Parameter(empty(shape, device=device, dtype=dtype)) if used else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw all parameters anew."""
        _draw(self)

    def extra_repr(self) -> str:
        text = f"{self.input_size}, {self.hidden_size}" + ("" if self.bias is True else f", bias={self.bias}")
        nonlinearity = getattr(self, "nonlinearity", "tanh")
        return text + ("" if nonlinearity == "tanh" else f", nonlinearity={nonlinearity}")

    def _step(self, function: Any, input: Tensor, hx: Any, pair: bool = False) -> Any:
        """One step: of a batch, or of a single sample, which is a batch of one."""
        name, rank = type(self).__name__, input.dim()
        if rank not in (1, 2):
            raise ValueError(f"{name}: Expected input to be 1D or 2D, got {rank}D instead")
        states = () if hx is None else tuple(hx) if pair else (hx,)
        for i, s in enumerate(states):
            if s.dim() not in (1, 2):
                what = f"hx[{i}]" if pair else "hidden"
                raise ValueError(f"{name}: Expected {what} to be 1D or 2D, got {s.dim()}D instead")
        if rank == 1:
            input, states = input.unsqueeze(0), tuple([s.unsqueeze(0) for s in states])
        if not states:
            first = zeros(input.size(0), self.hidden_size, dtype=input.dtype, device=input.device)
            states = (first, first) if pair else (first,)
        output = function(
            input, states if pair else states[0], self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh
        )
        return _each(output, lambda s: s.squeeze(0)) if rank == 1 else output


class RNNCell(RNNCellBase):
    """One step of an Elman network: h' = tanh(x W + h V + b), or relu in the place of tanh.

    Args:
        nonlinearity: "tanh" or "relu".
    Shape: input (N, input_size) or (input_size,), hx (N, hidden_size) or (hidden_size,), zeros by default; result as
        hx.
    Raises:
        RuntimeError: when `nonlinearity` is another one, or sizes do not match.
        ValueError: when the input or hx has another number of dimensions.
    Source: Elman, "Finding Structure in Time", 1990.

    >>> import tdt
    >>> tdt.nn.RNNCell(2, 3)(tdt.zeros(5, 2)).shape
    tdt.Size([5, 3])
    """

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True, nonlinearity: str = "tanh",
                 device: Device = None, dtype: Dtype = None):  # fmt: skip
        super().__init__(input_size, hidden_size, bias, 1, device, dtype)
        self.nonlinearity = nonlinearity

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        if self.nonlinearity not in ("tanh", "relu"):
            raise RuntimeError(f"Unknown nonlinearity: {self.nonlinearity}")
        function = functions.rnn_tanh_cell if self.nonlinearity == "tanh" else functions.rnn_relu_cell
        return self._step(function, input, hx)


class LSTMCell(RNNCellBase):
    """One step of long short-term memory.

    Shape: input (N, input_size) or (input_size,), hx a pair (h, c), each (N, hidden_size) or (hidden_size,), zeros by
        default; result the next pair.
    Source: Hochreiter and Schmidhuber, "Long Short-Term Memory", 1997.

    >>> import tdt
    >>> h, c = tdt.nn.LSTMCell(2, 3)(tdt.zeros(5, 2))
    >>> h.shape, c.shape
    (tdt.Size([5, 3]), tdt.Size([5, 3]))
    """

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: Device = None, dtype: Dtype = None
    ):
        super().__init__(input_size, hidden_size, bias, 4, device, dtype)

    def forward(self, input: Tensor, hx: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, Tensor]:
        return self._step(functions.lstm_cell, input, hx, pair=True)


class GRUCell(RNNCellBase):
    """One step of a gated recurrent unit.

    Shape: input (N, input_size) or (input_size,), hx (N, hidden_size) or (hidden_size,), zeros by default; result as
        hx.
    Source: Cho et al., "Learning Phrase Representations using RNN Encoder-Decoder", 2014.

    >>> import tdt
    >>> tdt.nn.GRUCell(2, 3)(tdt.zeros(5, 2)).shape
    tdt.Size([5, 3])
    """

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: Device = None, dtype: Dtype = None
    ):
        super().__init__(input_size, hidden_size, bias, 3, device, dtype)

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        return self._step(functions.gru_cell, input, hx)
