"""Recurrent layers and cells: LSTM, GRU and plain recurrence."""

from tdt._ops.nn.rnn._layers import gru as gru
from tdt._ops.nn.rnn._layers import gru_cell as gru_cell
from tdt._ops.nn.rnn._layers import lstm as lstm
from tdt._ops.nn.rnn._layers import lstm_cell as lstm_cell
from tdt._ops.nn.rnn._layers import rnn_relu as rnn_relu
from tdt._ops.nn.rnn._layers import rnn_relu_cell as rnn_relu_cell
from tdt._ops.nn.rnn._layers import rnn_tanh as rnn_tanh
from tdt._ops.nn.rnn._layers import rnn_tanh_cell as rnn_tanh_cell

__all__ = ["gru", "gru_cell", "lstm", "lstm_cell", "rnn_relu", "rnn_relu_cell", "rnn_tanh", "rnn_tanh_cell"]
