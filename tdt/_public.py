"""The names of the core that `tdt` itself exports. A starred module lists them in its `__all__`."""

from math import e, inf, nan, pi

from tdt._anomaly import is_anomaly_check_nan_enabled, is_anomaly_enabled, set_anomaly_enabled
from tdt._creation import *
from tdt._device import device, get_default_device, set_default_device
from tdt._dtype import (
    bfloat16,
    bool,
    can_cast,
    cdouble,
    cfloat,
    complex64,
    complex128,
    double,
    dtype,
    finfo,
    float,
    float8_e4m3fn,
    float8_e4m3fnuz,
    float8_e5m2,
    float8_e5m2fnuz,
    float8_e8m0fnu,
    float16,
    float32,
    float64,
    get_default_dtype,
    half,
    iinfo,
    int,
    int8,
    int16,
    int32,
    int64,
    long,
    promote_types,
    set_default_dtype,
    short,
    uint8,
    uint16,
    uint32,
    uint64,
)
from tdt._errors import OutOfMemoryError
from tdt._kernels._pool import get_num_threads, set_num_threads
from tdt._layout import *
from tdt._old_types import *
from tdt._ops.activation import *
from tdt._ops.combine import *
from tdt._ops.conv import *
from tdt._ops.conv_transpose import *
from tdt._ops.counting import *
from tdt._ops.decompositions import *
from tdt._ops.distance import *
from tdt._ops.dropout import *
from tdt._ops.elementwise import *
from tdt._ops.embedding import *
from tdt._ops.embedding_bag import *
from tdt._ops.grid_sample import *
from tdt._ops.householder import *
from tdt._ops.in_place import *
from tdt._ops.index import *
from tdt._ops.join import *
from tdt._ops.layer_norm import *
from tdt._ops.least_squares import *
from tdt._ops.linalg import *
from tdt._ops.linear import *
from tdt._ops.lobpcg import *
from tdt._ops.loss import *
from tdt._ops.low_rank import *
from tdt._ops.lu import *
from tdt._ops.matrix_functions import *
from tdt._ops.memory import *
from tdt._ops.nonzero import *
from tdt._ops.norm_by_position import *
from tdt._ops.order import *
from tdt._ops.pad import *
from tdt._ops.pick import *
from tdt._ops.piecewise import *
from tdt._ops.pool_average import *
from tdt._ops.pool_max import *
from tdt._ops.pool_uneven import *
from tdt._ops.random import *
from tdt._ops.reduce import *
from tdt._ops.resize import *
from tdt._ops.rnn import *
from tdt._ops.scatter import *
from tdt._ops.search import *
from tdt._ops.segments import *
from tdt._ops.shape import *
from tdt._ops.shuffle import *
from tdt._ops.softmax import *
from tdt._ops.solve import *
from tdt._ops.special import *
from tdt._ops.spectral import *
from tdt._ops.split import *
from tdt._ops.statistics import *
from tdt._ops.triangular import *
from tdt._ops.view_copies import *
from tdt._ops.view_scatter import *
from tdt._ops.window_functions import *
from tdt._random import Generator, default_generator, get_rng_state, initial_seed, manual_seed, seed, set_rng_state
from tdt._repr import set_printoptions
from tdt._sharing import *
from tdt._size import Size
from tdt._storage import *
from tdt._switches import *
from tdt._tensor import Tensor
from tdt._transforms import vmap
from tdt.amp._mode import *
from tdt.autograd._mode import (
    enable_grad,
    inference_mode,
    is_grad_enabled,
    is_inference_mode_enabled,
    no_grad,
    set_grad_enabled,
)
from tdt.autograd._variable import detach
from tdt.serialization import load, save
from tdt.sparse._functions import dsmm, hsmm, hspmm, smm, spmm, sspaddmm
from tdt.sparse._methods import sparse_coo_tensor, sparse_csr_tensor

newaxis = None
