"""The public names of the core. A star import takes the names in the `__all__` of its module."""

from math import e, inf, nan, pi

from tdt._backend._gpu_memory import OutOfMemoryError
from tdt._backend.device import device, get_default_device, set_default_device
from tdt._compiled import *
from tdt._core import legacy_constructor as _legacy_constructor
from tdt._core import new_tensors as _new_tensors
from tdt._core import properties as _properties
from tdt._core import torch_function as _torch_function
from tdt._core.creation import *
from tdt._core.dtype import (
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
from tdt._core.layout import *
from tdt._core.memory_format import *
from tdt._core.methods import IN_PLACE_FUNCTIONS as _in_place_functions
from tdt._core.mode import (
    enable_grad,
    inference_mode,
    is_grad_enabled,
    is_inference_mode_enabled,
    no_grad,
    set_grad_enabled,
)
from tdt._core.printing import set_printoptions
from tdt._core.ranges import *
from tdt._core.sharing import *
from tdt._core.size import Size
from tdt._core.storage import *
from tdt._core.strided_creation import *
from tdt._core.tensor import Tensor
from tdt._function_transforms import vmap
from tdt._kernels._pool import get_num_threads, set_num_threads
from tdt._ops.elementwise import *
from tdt._ops.elementwise.activation import *
from tdt._ops.elementwise.piecewise import *
from tdt._ops.elementwise.special import *
from tdt._ops.index.by_tensors import *
from tdt._ops.index.getitem import *
from tdt._ops.index.masked import *
from tdt._ops.index.nonzero import *
from tdt._ops.index.pick import *
from tdt._ops.index.scatter import *
from tdt._ops.linalg.add_products import *
from tdt._ops.linalg.cross import *
from tdt._ops.linalg.distance import *
from tdt._ops.linalg.einsum import *
from tdt._ops.linalg.householder import *
from tdt._ops.linalg.least_squares import *
from tdt._ops.linalg.lobpcg import *
from tdt._ops.linalg.low_rank import *
from tdt._ops.linalg.lu import *
from tdt._ops.linalg.matrix_functions import *
from tdt._ops.linalg.norms import *
from tdt._ops.linalg.products import *
from tdt._ops.linalg.root_namespace import *
from tdt._ops.linalg.solve import *
from tdt._ops.linalg.triangular import *
from tdt._ops.nn.conv import *
from tdt._ops.nn.conv_transpose import *
from tdt._ops.nn.dropout import *
from tdt._ops.nn.embedding import *
from tdt._ops.nn.embedding_bag import *
from tdt._ops.nn.grid_sample import *
from tdt._ops.nn.layer_norm import *
from tdt._ops.nn.linear import *
from tdt._ops.nn.loss import *
from tdt._ops.nn.norm_by_position import *
from tdt._ops.nn.pad import *
from tdt._ops.nn.pool_average import *
from tdt._ops.nn.pool_max import *
from tdt._ops.nn.pool_uneven import *
from tdt._ops.nn.rnn import *
from tdt._ops.nn.shuffle import *
from tdt._ops.nn.softmax import *
from tdt._ops.random.creation import *
from tdt._ops.reduce.counting import *
from tdt._ops.reduce.cumulative import *
from tdt._ops.reduce.extremes import *
from tdt._ops.reduce.order import *
from tdt._ops.reduce.product import *
from tdt._ops.reduce.reductions import *
from tdt._ops.reduce.search import *
from tdt._ops.reduce.segments import *
from tdt._ops.reduce.sort import *
from tdt._ops.reduce.statistics import *
from tdt._ops.reduce.truth import *
from tdt._ops.reduce.unique import *
from tdt._ops.reduce.variance import *
from tdt._ops.shape.combine import *
from tdt._ops.shape.conversions import *
from tdt._ops.shape.diagonals import *
from tdt._ops.shape.dimensions import *
from tdt._ops.shape.join import *
from tdt._ops.shape.memory import *
from tdt._ops.shape.reorder import *
from tdt._ops.shape.repeat import *
from tdt._ops.shape.resize import *
from tdt._ops.shape.split import *
from tdt._ops.shape.view_copies import *
from tdt._ops.shape.view_scatter import *
from tdt._ops.shape.views import *
from tdt._ops.spectral.stft import *
from tdt._ops.spectral.window_functions import *
from tdt._random import Generator, default_generator, get_rng_state, initial_seed, manual_seed, seed, set_rng_state
from tdt.amp._mode import *
from tdt.autograd._anomaly import is_anomaly_check_nan_enabled, is_anomaly_enabled, set_anomaly_enabled
from tdt.autograd._variable import detach, detach_
from tdt.compat._old_types import *
from tdt.compat._switches import *
from tdt.serialization import load, save
from tdt.sparse._functions import dsmm, hsmm, hspmm, smm, spmm, sspaddmm
from tdt.sparse._methods import sparse_coo_tensor, sparse_csr_tensor

newaxis = None
globals().update(_in_place_functions)  # tdt.exp_(x), as x.exp_()
