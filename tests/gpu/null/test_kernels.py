"""tdt's kernels under the real NVRTC and CuPy's RawKernel: arguments, resources, what the compiler makes of arithmetic."""

from __future__ import annotations

import re
import struct

import cupy
import numpy as np
import pytest
from cupy.cuda import compiler

import tdt
from tdt._kernels import _cuda
from tdt.nn import functional as F
from tests.gpu.null import cubin, kernels, wheel

OPTIONS = _cuda.OPTIONS[:-1]  # without the -I that takes what CuPy appends

PASSED = r"""
struct pair { long long a, b; };
extern "C" __global__ void passed(const float* x, const float* none, long long n, double d, pair p) {
    if (threadIdx.x == 0) *(float*)x = none ? n : d + p.a + p.b;
}
"""


def test_arguments_have_the_bytes_that_the_compiled_kernel_reads():
    x = cupy.zeros(3, "f")
    arguments = x, None, -5, 0.5, _cuda.struct((1, 1 << 40))
    with wheel.watch() as calls:
        kernels._compiled(PASSED, "passed")((2, 3), (32, 2), arguments)
        # As programs hand them over.
        _cuda.bare(PASSED, "passed").kernel((2, 3), (32, 2), tuple(map(_cuda.as_constant, arguments)))
    call, again = calls
    assert call.sizes == again.sizes == (2, 3, 1, 32, 2, 1, 0)
    expected = [struct.pack("<Q", x.data.ptr), bytes(8), struct.pack("<q", -5), struct.pack("<d", 0.5)]
    assert call.arguments == again.arguments == [*expected, struct.pack("<qq", 1, 1 << 40)]


@pytest.mark.refused
def test_a_launch_that_a_gpu_refuses_is_refused():
    kernel, x = kernels._compiled(PASSED, "passed"), cupy.zeros(3, "f")
    for grid, block in (((1, 65536), (32,)), ((1,), (2048,)), ((1,), (32, 64))):
        with pytest.raises(cupy.cuda.driver.CUDADriverError, match="invalid argument"):
            kernel(grid, block, (x, None, 1, 1.0, _cuda.struct((1, 2))))


HEAVY = r"""
extern "C" __global__ void heavy(double* x) {
    double all[64];
    for (int k = 0; k < 64; k++) all[k] = x[k * 1024 + threadIdx.x];
    for (int j = 0; j < 64; j++) for (int k = 0; k < 64; k++) all[k] = all[k] * all[j] + all[(k + 7) % 64];
    for (int k = 0; k < 64; k++) x[k * 1024 + threadIdx.x] = all[k];
}
"""


@pytest.mark.refused
def test_too_many_registers_for_a_blocks_threads_are_refused():
    kernel, x = kernels._compiled(HEAVY, "heavy"), cupy.zeros(1 << 16)
    kernel((1,), (256,), (x,))
    with pytest.raises(cupy.cuda.driver.CUDADriverError, match="too many resources"):
        kernel((1,), (1024,), (x,))


def numbers(*shape: int) -> tdt.Tensor:
    return tdt.tensor(np.random.default_rng(0).normal(size=shape))


# Each kernel that is written by hand is launched by one of these.
CALLS = {
    "layer norm": (lambda x: F.layer_norm(x, x.shape[-1:], x[0], x[1]), (1100, 1500)),
    "batch norm and its count": (lambda x: tdt.nn.BatchNorm2d(3, device="cuda", dtype=x.dtype)(x), (40, 3, 9, 9)),
    "batch norm": (lambda x: F.batch_norm(x, x.new_zeros(3), x.new_ones(3), training=True), (40, 3, 9, 9)),
    "batch norm of long channels": (lambda x: tdt.nn.BatchNorm2d(3, device="cuda", dtype=x.dtype)(x), (4, 3, 60, 50)),
    "batch norm of long channels, channels-last": (
        lambda x: tdt.nn.BatchNorm2d(16, device="cuda", dtype=x.dtype)(x.contiguous(memory_format=tdt.channels_last)),
        (4, 16, 60, 50),
    ),
    "batch norm of half precision": (lambda x: tdt.nn.BatchNorm2d(3, device="cuda")(x.bfloat16()), (40, 3, 9, 9)),
    "batch norm of half precision, channels-last": (
        lambda x: tdt.nn.BatchNorm2d(16, device="cuda")(x.half().contiguous(memory_format=tdt.channels_last)), (4, 16, 60, 50)
    ),
    "group norm": (lambda x: F.group_norm(x, 3, x[0, :, 0, 0], x[1, :, 0, 0]), (4, 36, 9, 9)),
    "group norm of half precision": (lambda x: tdt.nn.GroupNorm(3, 36, device="cuda")(x.bfloat16()), (4, 36, 9, 9)),
    "cross-entropy": (lambda x: F.cross_entropy(x, tdt.zeros(len(x), dtype=tdt.int64, device="cuda"), x[0].detach(),
                                                label_smoothing=0.1), (7, 1500)),
    "softmax": (lambda x: x.softmax(1).sum() + x.log_softmax(1), (7, 1500)),
    "softmax of short rows": (lambda x: x.softmax(1).sum() + x.log_softmax(0), (40, 9)),
    "attention": (lambda x: F.scaled_dot_product_attention(x, x, x, is_causal=True), (2, 3, 1100, 8)),
    "attention with a mask": (lambda x: F.scaled_dot_product_attention(x, x, x, x[0, 0, 0, :1] > 0, 0.5), (2, 3, 70, 8)),
    "attention of wide heads": (lambda x: F.scaled_dot_product_attention(x, x, x), (2, 9, 300)),
    "LSTM": (lambda x: tdt.nn.LSTM(8, 9, 2, batch_first=True, device="cuda", dtype=x.dtype)(x)[0], (3, 7, 8)),
    "GRU": (lambda x: tdt.nn.GRU(8, 9, 2, batch_first=True, device="cuda", dtype=x.dtype)(x)[0], (3, 7, 8)),
    "joined arrays": (lambda x: tdt.cat([x, x[:, :2], x * 2], 1), (3, 7, 8)),
    "convolution": (lambda x: F.conv2d(x, x[:4, :, :3, :3], x[0, 0, 0, :4]), (8, 3, 20, 20)),
    "transposed convolution": (lambda x: F.conv_transpose2d(x, x[:3, :, :3, :3]), (8, 3, 9, 9)),
    "mean pooling": (lambda x: F.avg_pool2d(x, 2).sum() + F.avg_pool2d(x, 9), (2, 3, 9, 9)),
    "borders and slices": (lambda x: F.pad(x[:, ::2], (1, 2, 0, 1), value=-1.0), (2, 3, 9, 9)),
    "max pooling": (lambda x: F.max_pool2d(x, 3, 2, 1).sum() + F.max_pool2d(x, 2), (2, 3, 9, 9)),
    "embedding": (lambda x: F.embedding(tdt.zeros(5, dtype=tdt.int64, device="cuda"), x), (7, 1500)),
    "embedding of a large table": (
        lambda x: F.embedding(tdt.zeros(1030, dtype=tdt.int64, device="cuda"), x), (1030, 3)
    ),
    "dropout": (lambda x: F.dropout(x, 0.5), (7, 1500)),
    "sums": (lambda x: x.mean(0).sum() + x.norm() + x.var(1), (7, 9000)),
    "extremes": (lambda x: x.amax(1) + x.transpose(0, 1).amin(0), (7, 9000)),
    "extremes and their places": (lambda x: x.max(1).values + x.min(0)[0].max(0).values + x.argmax(), (7, 9000)),
    "losses of pairs": (lambda x: F.mse_loss(x, x * 2) + F.binary_cross_entropy_with_logits(x, x * 2), (7, 1500)),
    "random numbers": (lambda x: x + tdt.rand(x.shape, device="cuda", dtype=x.dtype), (7, 1500)),
    "normal numbers": (lambda x: x + tdt.randn(x.shape, device="cuda", dtype=x.dtype), (7, 1500)),
    "whole numbers": (lambda x: x + tdt.randint(9, (15,), device="cuda") + tdt.randint(1 << 40, (15,), device="cuda"), (7, 15)),
    "sorting of the longest rows": (lambda x: x.sort(1).values + x.topk(4096, 1).values, (3, 4096)),
    "sorting of integers": (lambda x: x + x.detach().long().sort(1).values + x.detach().bool().sort(1).values, (3, 40)),
    "running sums": (lambda x: x.cumsum(1) + x.cumprod(0) + x.detach().long().cumsum(1), (7, 9000)),
    "products and logarithms of sums": (lambda x: x.prod(1) + x.logsumexp(1) + (x > 0).any(1), (7, 9000)),
    "copies of views": (lambda x: x.flip(0).repeat(2, 1) + F.unfold(x[None, None], 1)[0, 0, 0], (7, 15)),
    "triangles": (lambda x: x.tril() + x.triu(1), (7, 15)),
    "elements at indices": (lambda x: x.gather(1, tdt.zeros(7, 2, dtype=tdt.int64, device="cuda")), (7, 15)),
    "one-hot": (lambda x: x * F.one_hot(tdt.zeros(7, dtype=tdt.int64, device="cuda"), 15), (7, 15)),
    "filled memory": (lambda x: x + tdt.full((7, 15), 2.0, device="cuda", dtype=x.dtype), (7, 15)),
    "interpolation": (lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"), (2, 3, 9, 9)),
}  # fmt: skip


@pytest.mark.parametrize("dtype", [tdt.float32, tdt.float64])
@pytest.mark.parametrize("what", CALLS)
def test_kernels_written_by_hand_compile_for_all_gpus_and_fit_them(what: str, dtype: tdt.dtype):
    function, shape = CALLS[what]
    kernels.launched.clear()
    x = numbers(*shape).to("cuda", dtype).requires_grad_()
    function(x).square().sum().backward()
    found = [kernel for (name, _), kernel in kernels.launched.items() if not name.startswith("elementwise_")]
    assert found
    for kernel in found:  # `Checked` has held arguments and resources to what each was compiled to
        assert [kernel.others[arch].name for arch in ("80", "100")] == [kernel.name] * 2
        frames = {arch: kernel.others[arch].frame for arch in ("80", "100")}
        most = 40 if kernel.name == "normal" else 32  # 40: by a sine in double precision
        assert max(frames.values()) <= most, (
            f"{kernel.name} keeps arrays in memory that registers should hold: {frames}"
        )


OPTIMIZERS = ("SGD", "Adam", "AdamW", "RMSprop", "Adagrad", "Adamax", "Adadelta", "NAdam", "RAdam", "ASGD")


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("dtype", [tdt.float32, tdt.float64, tdt.bfloat16, tdt.float16])
def test_an_optimizers_step_and_clipping_are_launched_with_their_lists_of_arrays(name: str, dtype: tdt.dtype):
    params = [tdt.nn.Parameter(tdt.ones(n, dtype=dtype, device="cuda")) for n in (3, 5000, 7) * 40]
    update = getattr(tdt.optim, name)(params, lr=0.1)
    for p in params:
        p.grad = tdt.ones_like(p)
    update.step()
    with wheel.watch() as calls:
        update.step()
    names = [call.name for call in calls]
    assert names == ["optimizer_step"] * 2  # 120 parameters: more than a launch has room for
    assert {len(call.arguments[0]) for call in calls} == {100 * 8 * 4 + 4 * 102}
    total = tdt.nn.utils.clip_grad_norm_(params, 1.0)
    assert total.dtype is dtype


def ptx(source: str) -> str:
    """What NVRTC makes of CUDA C with the options that it gets from CuPy."""
    received = []
    compile_one = compiler._NVRTCProgram.compile

    def compiled(self, options=(), log_stream=None):
        received.append(options)
        return compile_one(self, options, log_stream)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compiler._NVRTCProgram, "compile", compiled)
        compiler._compile_module_with_cache(_cuda.PRELUDE + source + f"// {np.random.default_rng().integers(1 << 60)}",
                                            _cuda.OPTIONS, arch="90")  # fmt: skip
    options = [option for option in received[-1] if not option.startswith("-arch")]
    program = compiler._NVRTCProgram(_cuda.PRELUDE + source, method="ptx")
    return program.compile((*options, "-arch=compute_90"))[0].decode()


ARITHMETIC = """
extern "C" __global__ void arithmetic(float* x, double* y) {
    x[0] = x[1] * x[2] + x[3];
    x[4] = x[5] / x[6];
    x[7] = sqrt(x[8]);
    x[9] = fma(x[10], x[11], x[12]);
    y[0] = y[1] * y[2] + y[3];
}
"""


def test_arithmetic_is_rounded_once_an_operation_and_keeps_subnormal_numbers():
    code = ptx(ARITHMETIC)
    found = re.findall(r"\b(?:mul|add|fma|div|sqrt)\.r\S+", code)
    assert sorted(found) == sorted(["mul.rn.f32", "add.rn.f32", "div.rn.f32", "sqrt.rn.f32", "fma.rn.f32", "mul.rn.f64",
                                    "add.rn.f64"])  # fmt: skip
    assert ".ftz" not in code


BOUNDED = """
extern "C" __global__ void __launch_bounds__(256) bounded(double* x) {
    __shared__ double kept[100];
    kept[threadIdx.x % 100] = x[threadIdx.x];
    __syncthreads();
    x[threadIdx.x] = kept[(threadIdx.x + 1) % 100];
}
"""


def test_a_cubin_lists_what_its_kernels_need():
    image = compiler.compile_using_nvrtc(_cuda.PRELUDE + PASSED, OPTIONS, arch="80")[0]
    (kernel,) = cubin.kernels(image).values()
    assert kernel.parameters == [(0, 8), (8, 8), (16, 8), (24, 8), (32, 16)]
    assert 0 < kernel.registers <= 32
    assert (kernel.shared, kernel.threads) == (0, 1024)
    for arch in kernels.ARCHITECTURES:
        bounded = compiler.compile_using_nvrtc(_cuda.PRELUDE + BOUNDED, OPTIONS, arch=arch)[0]
        assert (cubin.kernels(bounded)["bounded"].shared, cubin.kernels(bounded)["bounded"].threads) == (800, 256)
