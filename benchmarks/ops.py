"""Every public op at three sizes, forward and with its gradient: ratio of PyTorch's time to tdt's; above 1 tdt is faster.

    python -m benchmarks.ops                             # all; about ten minutes a thread count
    python -m benchmarks.ops --only exp --sizes 1000     # ops whose name holds a word
    python -m benchmarks.ops --seed 3 --threads 1        # other shapes
    python -m benchmarks.ops --sizes 4000000 --part 2/5  # the second fifth of the lines

Functions of one and of two tensors are found by calling every function that both libraries have; `CASES` adds those that
take more. The shapes of a size are drawn at random: the seed is printed. Both libraries take turns in short blocks.

On an AMD Zen 4 (`--threads 1 --seed 9911`, processor time, beside other programs) the geometric means of forward and gradient are
1.4 and 2.2 at 1,000 elements, 2.3 and 2.6 at 100,000, 2.1 and 1.9 at 4,000,000; below 1 are 25 %, 19 % and 13 % of the ops, and
1 %, 5 % and 9 % of the gradients.

On an AMD Zen 3 (one thread, beside other programs; seed 7301, at 4,000,000 the first 414 lines) they are 1.3 and 2.3, 1.9
and 2.3, 1.6 and 1.7; below 0.6 are 0.6 %, 0.9 % and 1.7 % of all: multinomial with replacement, tril_, softmax over a
dimension in front of two numbers and one_hot; scatter_ and scatter_add_ of short rows, mul_ of short rows by a column and
flatten; copy_ of a transposed matrix, the gradient of scatter, diagonal, and the gradients of views that the list below
names. Tensors of some 100 elements, of which the call is all, are at 0.2 to 0.6 in ops in place, random numbers, and
functions that are composed of several ops.

On an Intel Xeon with AVX-512 and AMX (one thread, beside other programs; seed 60713, at 4,000,000 an earlier state and seed 9173)
they are 1.3 and 1.9, 2.1 and 3.1, 1.8 and 1.6; below 1 are 32 %, 20 % and 14 % of the ops, 4 %, 2 % and 8 % of the gradients;
below 0.6 are 0.4 %, 1.0 % and 2.0 % of all. What is below 0.6 there, besides what the list below names:

- 1,000: bucketize, ones_like and tril_, by a little and not in each run: beside them a call takes one to four microseconds.
- 100,000: multinomial with replacement, which draws five numbers; tril_ of tall matrices, which writes few; flip of rows of a few
  numbers; scatter_add_, whose additions wait for each other; solve_triangular is SciPy's.
- all sizes: decompositions of matrices of 2 to 32 rows, which are not among
  the cases, are at 0.7 to 3; on a Zen 3 qr, lu, lu_factor and cholesky at 0.9 to 2, inv, det and solve at 2.4 to 4.6.

On an AMD EPYC of Zen 5 (one thread, beside other programs; seed 90210, at 4,000,000 662 lines of seed 31337, in four parts)
they are 1.4 and 1.6, 2.4 and 2.3, 2.4 and 2.1; below 0.6 are 0.6 %, 0.1 % and 0.9 % of all: multinomial with replacement,
gammainc, diagonal and diagonal_copy; tril_ of tall matrices; copy_ of a transposed matrix, adjoint, and the gradients of views
that the list below names.

Where tdt takes more than PyTorch's time / 0.6 or nearly so there and on a Zen 5 (seeds 50417 and 81649), and why:

- all sizes: diagonal, flatten, ravel, expand, chunk: a call takes a microsecond or more in Python, PyTorch's 0.7.
- 1,000: the call, of one_hot, complex, embedding, zeta, nll_loss, channel_shuffle and in-place ops; in gradients of diff and
  hinge_embedding_loss that of several ops.
- 1,000: median and nanmedian read every element once for each bit. searchsorted of short rows, each with edges of its own,
  finds values one by one, those of long rows 32 together. gammainc is SciPy's, in double precision. softmax over a dimension
  in front of one of two numbers fills an eighth of each vector.
- 100,000: rot90 and sums of short rows, of which a kernel's call is a third. prod, whose products are double precision. diff,
  roll, cat and in-place ops with a row or a column, of rows of less than 100 numbers: a row costs some 10 ns beside its vectors.
- 4,000,000: sums, means and extremes of all elements, and in-place ops, if the last cache holds the array: a Zen 4 reads it by
  vectors of 256 bits, PyTorch's, 10 to 20 % faster than by those of 512. Loading lines ahead makes that worse. Results of other
  elementwise ops and copies are written past the cache; not of rows of less than 8 KB, each of whose ends waits for memory.
- 4,000,000: cat of short rows, by one `memcpy` for each. glu reads two halves of rows, each with gaps, for which NumPy's sum
  of the halves takes as long. flip of rows of some 500 bytes.
- gradients of flatten, ravel, t, adjoint, atleast_3d and stack from 100,000 elements on: the gradient that the caller
  gives to `backward` is copied into `.grad`; PyTorch's `.grad` is the caller's memory, to which later gradients are added.
- beside other programs, one in a hundred more at 1,000 elements, another one each time.
"""

from __future__ import annotations

import argparse
import functools
import math
import statistics
import time
import warnings
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import numpy as np

from benchmarks._pairs import begin_sweep, compared

SIZES = (1_000, 100_000, 4_000_000)
PAIRS = 5
# Not functions of their arguments alone, not of dense floats, or not comparable: they draw numbers, or return memory as is. Or
# quadratic in the rows.
SKIPPED = {
    "from_dlpack", "compile", "bernoulli", "dropout", "alpha_dropout", "feature_dropout", "feature_alpha_dropout", "rrelu",
    "poisson", "dropout1d",
    "dropout2d", "dropout3d", "rand_like", "randn_like", "randint_like", "empty_like", "multinomial", "normal",
    "gumbel_softmax",
    "cholesky_inverse", "matrix_exp", "pinverse", "svd", "qr", "det", "logdet", "slogdet", "inverse", "kron", "outer", "ger",
    "cdist", "tensordot", "vander", "diag_embed", "diagflat", "combinations", "cartesian_prod", "block_diag", "histc",
    "native_dropout", "cov", "inner", "linear", "pdist", "corrcoef", "nonzero", "argwhere", "unique", "unique_consecutive",
    "unravel_index",
    "conj", "from_numpy", "as_tensor", "asarray", "tensor", "scalar_tensor", "clone_and_detach", "igamma", "igammac", "polygamma",
}  # fmt: skip

Call = Callable[[Any, Any], Any]  # of a library and a tuple of its tensors


def found(torch: ModuleType, tdt: ModuleType) -> Iterator[tuple[str, int, Call]]:
    """(name, number of tensors, call) of every function of both that takes one or two float tensors of a shape."""
    probe = np.random.default_rng(0).uniform(0.1, 0.9, (4, 5)).astype(np.float32)
    spaces = {"": (torch, tdt), "nn.functional.": (torch.nn.functional, tdt.nn.functional),
              "special.": (torch.special, tdt.special)}  # fmt: skip
    for prefix, (theirs, ours) in spaces.items():
        for name in sorted(set(dir(theirs)) & set(dir(ours))):
            if name.startswith("_") or name.endswith("_") or name in SKIPPED or isinstance(getattr(ours, name), type):
                continue
            for count in (1, 2):
                args = [probe, probe[::-1].copy()][:count]
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    try:
                        a = getattr(theirs, name)(*map(torch.from_numpy, args))
                        b = getattr(ours, name)(*map(tdt.from_numpy, args))
                    except (
                        TypeError,
                        ValueError,
                        RuntimeError,
                        IndexError,
                        NotImplementedError,
                        AttributeError,
                        AssertionError,
                    ):
                        continue
                if isinstance(a, torch.Tensor) and isinstance(b, tdt.Tensor) and tuple(a.shape) == tuple(b.shape):
                    yield prefix + name, count, _caller(prefix, name)
                    break


def _caller(prefix: str, name: str) -> Call:
    path = [*prefix.split(".")[:-1], name]

    def call(t: Any, tensors: Any) -> Any:
        function = t
        for part in path:
            function = getattr(function, part)
        return function(*tensors)

    return call


def shape(rng: np.random.Generator, size: int, ndim: int) -> tuple[int, ...]:
    """A shape of about `size` elements."""
    dims = []
    for d in range(ndim - 1):
        rest = size / math.prod(dims)
        dims.append(max(1, round(rest ** rng.uniform(0.2, 0.8) if d < ndim - 2 else rest ** rng.uniform(0.3, 0.7))))
    return (*dims, max(1, round(size / math.prod(dims))))


def cases(rng: np.random.Generator, size: int) -> dict[str, tuple[list[np.ndarray], Call]]:
    """Ops that take more than tensors of one shape: name → (arrays, call). Integer arrays have no gradient."""

    def floats(*dims: int) -> np.ndarray:
        return rng.standard_normal(dims).astype(np.float32)

    n, m = shape(rng, size, 2)
    x = floats(n, m)
    a, b, c = shape(rng, size, 3)
    cube = floats(a, b, c)
    channels = int(rng.choice([8, 16, 32]))
    side = max(4, round(math.sqrt(size / channels / 2)))
    image = floats(2, channels, side, side)
    scales = [floats(channels), floats(channels)]
    rows = rng.integers(0, n, n)
    places = rng.integers(0, m, (n, m))
    mask = rng.random((n, m)) > 0.5
    words = rng.integers(0, 1000, max(1, size // 64))
    one = int(rng.integers(0, 3))
    table: dict[str, tuple[list[np.ndarray], Call]] = {}
    for name in ("sum", "mean", "amax", "amin", "prod", "logsumexp", "softmax", "log_softmax", "cumsum", "cumprod", "argmax",
                 "sort", "argsort", "median", "std", "var", "norm", "any", "all", "flip"):  # fmt: skip

        def over(t: Any, args: Any, name: str = name, d: int = one) -> Any:
            if name == "norm":
                return t.linalg.vector_norm(args[0], dim=d)
            out = getattr(t, name)(args[0], (d,) if name == "flip" else d)
            return out if isinstance(out, t.Tensor) else out[0]

        table[f"{name} over dim {one} of 3"] = [cube], over
    table |= {
        "x + row": ([x, floats(m)], lambda t, v: v[0] + v[1]),
        "x * column": ([x, floats(n, 1)], lambda t, v: v[0] * v[1]),
        "x + 1": ([x], lambda t, v: v[0] + 1),
        "2 / x": ([x], lambda t, v: 2 / v[0]),
        "x ** 2": ([x], lambda t, v: v[0] ** 2),
        "x ** 3": ([x], lambda t, v: v[0] ** 3),
        "x ** 0.5": ([abs(x)], lambda t, v: v[0] ** 0.5),
        "x > 0": ([x], lambda t, v: v[0] > 0),
        "clamp": ([x], lambda t, v: v[0].clamp(-0.5, 0.5)),
        "clamp min": ([x], lambda t, v: v[0].clamp(min=0)),
        "where": ([mask, x, floats(n, m)], lambda t, v: t.where(v[0], v[1], v[2])),
        "masked_fill": ([x, mask], lambda t, v: v[0].masked_fill(v[1], 0.5)),
        "lerp": ([x, floats(n, m)], lambda t, v: t.lerp(v[0], v[1], 0.3)),
        "addcmul": ([x, floats(n, m), floats(n, m)], lambda t, v: t.addcmul(v[0], v[1], v[2], value=0.5)),
        "addcdiv": ([x, floats(n, m), abs(floats(n, m)) + 1], lambda t, v: t.addcdiv(v[0], v[1], v[2], value=0.5)),
        "add_": ([x, floats(n, m)], lambda t, v: v[0].detach().add_(v[1].detach())),
        "mul_ by a number": ([x], lambda t, v: v[0].detach().mul_(1.0)),
        "add_ of a row": ([x, floats(m)], lambda t, v: v[0].detach().add_(v[1].detach())),
        "mul_ by a column": ([x, np.sign(floats(n, 1))], lambda t, v: v[0].detach().mul_(v[1].detach())),
        "add_ of a multiple": ([x, floats(n, m)], lambda t, v: v[0].detach().add_(v[1].detach(), alpha=0.1)),
        "lerp_": ([x, floats(n, m)], lambda t, v: v[0].detach().lerp_(v[1].detach(), 0.1)),
        "addcmul_": ([x, floats(n, m)], lambda t, v: v[0].detach().addcmul_(v[1].detach(), v[1].detach(), value=0.1)),
        "addcdiv_": (
            [x, floats(n, m), abs(floats(n, m)) + 1],
            lambda t, v: v[0].detach().addcdiv_(v[1].detach(), v[2].detach(), value=0.1),
        ),
        "clamp_": ([x], lambda t, v: v[0].detach().clamp_(-0.5, 0.5)),
        "zero_": ([x], lambda t, v: v[0].detach().zero_()),
        "fill_": ([x], lambda t, v: v[0].detach().fill_(1.5)),
        "copy_": ([x, floats(n, m)], lambda t, v: v[0].detach().copy_(v[1].detach())),
        "masked_fill_": ([x, mask], lambda t, v: v[0].detach().masked_fill_(v[1], 0.5)),
        "add of a multiple": ([x, floats(n, m)], lambda t, v: t.add(v[0], v[1], alpha=0.1)),
        "column - row": ([floats(n, 1), floats(m)], lambda t, v: v[0] - v[1]),
        "column >= row": ([floats(n, 1), floats(m)], lambda t, v: v[0] >= v[1]),
        "to half": ([x], lambda t, v: v[0].half()),
        "to bfloat16": ([x], lambda t, v: v[0].bfloat16()),
        "to double": ([x], lambda t, v: v[0].double()),
        "to int64": ([x], lambda t, v: v[0].detach().long()),
        "from int64": ([places], lambda t, v: v[0].float()),
        "sum of all": ([x], lambda t, v: v[0].sum()),
        "mean of all": ([x], lambda t, v: v[0].mean()),
        "std of all": ([x], lambda t, v: v[0].std()),
        "cat": ([x, floats(n, m)], lambda t, v: t.cat([v[0], v[1]], 1)),
        "stack": ([x, floats(n, m)], lambda t, v: t.stack([v[0], v[1]])),
        "roll": ([x], lambda t, v: v[0].roll(3, 1)),
        "repeat": ([x], lambda t, v: v[0].repeat(1, 2)),
        "transpose copy": ([x], lambda t, v: v[0].t().contiguous()),
        "permute copy": ([cube], lambda t, v: v[0].permute(2, 0, 1).contiguous()),
        "pad": ([cube], lambda t, v: t.nn.functional.pad(v[0], (1, 1))),
        "gather": ([x, places], lambda t, v: v[0].gather(1, v[1])),
        "scatter_add": ([x, places, floats(n, m)], lambda t, v: v[0].scatter_add(1, v[1], v[2])),
        "index_select": ([x, rows], lambda t, v: v[0].index_select(0, v[1])),
        "x[rows]": ([x, rows], lambda t, v: v[0][v[1]]),
        "x[mask]": ([x, mask], lambda t, v: v[0][v[1]]),
        "topk": ([x], lambda t, v: v[0].topk(min(5, m), 1)[0]),
        "embedding": ([floats(1000, 64), words], lambda t, v: t.nn.functional.embedding(v[1], v[0])),
        "one_hot": ([words], lambda t, v: t.nn.functional.one_hot(v[0], 1000) if size < 1e6 else v[0] + 0),
        "matmul": ([x, floats(m, 64)], lambda t, v: v[0] @ v[1]),
        "linear": ([x, floats(64, m), floats(64)], lambda t, v: t.nn.functional.linear(*v)),
        "layer_norm": ([x, floats(m), floats(m)], lambda t, v: t.nn.functional.layer_norm(v[0], (m,), v[1], v[2])),
        "batch_norm": ([image, *scales], lambda t, v: t.nn.functional.batch_norm(v[0], None, None, *v[1:], True)),
        "group_norm": ([image, *scales], lambda t, v: t.nn.functional.group_norm(v[0], 4, *v[1:])),
        "max_pool2d": ([image], lambda t, v: t.nn.functional.max_pool2d(v[0], 2)),
        "avg_pool2d": ([image], lambda t, v: t.nn.functional.avg_pool2d(v[0], 2)),
        "adaptive_avg_pool2d": ([image], lambda t, v: t.nn.functional.adaptive_avg_pool2d(v[0], 1)),
        "interpolate": ([image], lambda t, v: t.nn.functional.interpolate(v[0], scale_factor=2, mode="bilinear")),
        "cross_entropy": ([x, rng.integers(0, m, n)], lambda t, v: t.nn.functional.cross_entropy(*v)),
        "mse_loss": ([x, floats(n, m)], lambda t, v: t.nn.functional.mse_loss(v[0], v[1].detach())),
        "smooth_l1_loss": ([x, floats(n, m)], lambda t, v: t.nn.functional.smooth_l1_loss(v[0], v[1].detach())),
        "glu": ([floats(n, 2 * m)], lambda t, v: t.nn.functional.glu(v[0])),
        "gelu by tanh": ([x], lambda t, v: t.nn.functional.gelu(v[0], approximate="tanh")),
    }  # fmt: skip
    return table | drawn(size, m) | written(x, rows, places, floats) | composed(x, places, floats)


def drawn(size: int, categories: int) -> dict[str, tuple[list[np.ndarray], Call]]:
    """Ops that draw numbers or create tensors: name → (arrays, call)."""
    target, weights = np.empty(size, np.float32), np.full(min(categories, 10_000), 0.5, np.float32)
    return {
        "rand": ([], lambda t, v: t.rand(size)),
        "randn": ([], lambda t, v: t.randn(size)),
        "randint": ([], lambda t, v: t.randint(0, 100, (size,))),
        "randperm": ([], lambda t, v: t.randperm(size)),
        "normal_": ([target], lambda t, v: v[0].detach().normal_(0.0, 0.02)),
        "uniform_": ([target], lambda t, v: v[0].detach().uniform_(-0.1, 0.1)),
        "bernoulli_": ([target], lambda t, v: v[0].detach().bernoulli_(0.3)),
        "exponential_": ([target], lambda t, v: v[0].detach().exponential_()),
        "multinomial of one": ([weights], lambda t, v: t.multinomial(v[0].detach(), 1)),
        "multinomial with replacement": ([weights], lambda t, v: t.multinomial(v[0].detach(), 5, replacement=True)),
        "dropout": ([target + 1], lambda t, v: t.nn.functional.dropout(v[0], 0.1)),
        "zeros": ([], lambda t, v: t.zeros(size)),
        "full": ([], lambda t, v: t.full((size,), 1.5)),
        "arange": ([], lambda t, v: t.arange(size)),
        "linspace": ([], lambda t, v: t.linspace(0, 1, size)),
        "eye": ([], lambda t, v: t.eye(round(math.sqrt(size)))),
    }


def written(
    x: np.ndarray, rows: np.ndarray, places: np.ndarray, floats: Callable[..., np.ndarray]
) -> dict[str, tuple[list[np.ndarray], Call]]:
    """Ops that write into a tensor at places, or convert what they write; and `out=`: name → (arrays, call)."""
    n, m = x.shape
    y, rows = floats(n, m), np.random.default_rng(0).permutation(len(rows))
    return {
        "copy_ of a double": ([x, y.astype(np.float64)], lambda t, v: v[0].detach().copy_(v[1].detach())),
        "copy_ of an int64": ([x, places], lambda t, v: v[0].detach().copy_(v[1])),
        "copy_ of a row": ([x, floats(m)], lambda t, v: v[0].detach().copy_(v[1].detach())),
        "copy_ of a transposed": ([x, floats(m, n)], lambda t, v: v[0].detach().copy_(v[1].detach().t())),
        "x[rows] = y": ([x, rows, y], lambda t, v: v[0].detach().__setitem__(v[1], v[2].detach())),
        "x[:, column] = y": ([x, floats(n)], lambda t, v: v[0].detach().__setitem__((slice(None), m // 2), v[1].detach())),
        "index_put_": ([x, rows, y], lambda t, v: v[0].detach().index_put_((v[1],), v[2].detach())),
        "index_copy_": ([x, rows, y], lambda t, v: v[0].detach().index_copy_(0, v[1], v[2].detach())),
        "index_add_": ([x, rows, y], lambda t, v: v[0].detach().index_add_(0, v[1], v[2].detach())),
        "index_fill_": ([x, rows], lambda t, v: v[0].detach().index_fill_(0, v[1], 1.5)),
        "scatter": ([x, places, y], lambda t, v: v[0].scatter(1, v[1], v[2])),
        "scatter_": ([x, places, y], lambda t, v: v[0].detach().scatter_(1, v[1], v[2].detach())),
        "scatter_add_": ([x, places, y], lambda t, v: v[0].detach().scatter_add_(1, v[1], v[2].detach())),
        "fill_diagonal_": ([x], lambda t, v: v[0].detach().fill_diagonal_(1.5)),
        "tril_": ([x], lambda t, v: v[0].detach().tril_()),
        "round_": ([x], lambda t, v: v[0].detach().round_()),
        "mul into out": ([x, y, floats(n, m)], lambda t, v: t.mul(v[0].detach(), v[1].detach(), out=v[2].detach())),
        "sum into out": ([x, floats(n)], lambda t, v: t.sum(v[0].detach(), 1, out=v[1].detach())),
        "matmul into out": (
            [x, floats(m, 16), floats(n, 16)], lambda t, v: t.matmul(v[0].detach(), v[1].detach(), out=v[2].detach())
        ),
    }  # fmt: skip


def composed(
    x: np.ndarray, places: np.ndarray, floats: Callable[..., np.ndarray]
) -> dict[str, tuple[list[np.ndarray], Call]]:
    """Functions of sequences, of sorted values, of whole tensors and of matrices: name → (arrays, call)."""
    n, m = x.shape
    side = min(max(4, round(math.sqrt(x.size))), 256)
    square, edges = floats(side, side) + side * np.eye(side, dtype=np.float32), np.linspace(-2, 2, 30, dtype=np.float32)
    parts = [floats(max(1, n // (k + 1)), m) for k in range(8)]
    normal = lambda t: t.distributions.MultivariateNormal(t.zeros(8), t.eye(8))  # noqa: E731
    return {
        "pad_sequence": (parts, lambda t, v: t.nn.utils.rnn.pad_sequence(v, batch_first=True)),
        "block_diag": ([x[:9, :9], x[:5, :9]], lambda t, v: t.block_diag(*v)),
        "equal": ([x, x], lambda t, v: t.equal(*v)),
        "aminmax": ([x], lambda t, v: t.aminmax(v[0]).max),
        "cummax over rows": ([x], lambda t, v: t.cummax(v[0], 1)[0]),
        "bucketize": ([x, edges], lambda t, v: t.bucketize(v[0].detach(), v[1].detach())),
        "searchsorted": ([edges, x], lambda t, v: t.searchsorted(v[0].detach(), v[1].detach())),
        "unique": ([places], lambda t, v: t.unique(v[0])),
        "places << 2": ([places], lambda t, v: v[0] << 2),
        "tensordot": ([x, floats(m, 16)], lambda t, v: t.tensordot(v[0], v[1], 1)),
        "multi_dot": ([x, floats(m, 16), floats(16, 8)], lambda t, v: t.linalg.multi_dot(v)),
        "matrix_power": ([square], lambda t, v: t.linalg.matrix_power(v[0], 3)),
        "solve_triangular": ([square, floats(side, 8)], lambda t, v: t.linalg.solve_triangular(v[0], v[1], upper=True)),
        "lstsq": ([square, floats(side, 8)], lambda t, v: t.linalg.lstsq(v[0].detach(), v[1].detach()).solution),
        "Gamma.sample": ([abs(x) + 0.1], lambda t, v: t.distributions.Gamma(v[0].detach(), 1.0, False).sample()),
        "MultivariateNormal.log_prob": (
            [floats(max(1, x.size // 8), 8)], lambda t, v: normal(t).log_prob(v[0])
        ),
    }  # fmt: skip


def stepped(t: Any, call: Call, tensors: list[Any]) -> Callable[[], Any]:
    """Forward and backward of one call."""
    leaves = [v for v in tensors if v.requires_grad]

    def step() -> None:
        out = call(t, tensors)
        out.backward(weights) if out.ndim else out.backward()
        for leaf in leaves:
            leaf.grad = None

    out = call(t, tensors)
    weights = t.ones_like(out) if out.ndim else None
    return step


def main() -> None:
    """Print a line for each op and size, then the summary."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="run only ops whose name contains this text")
    parser.add_argument("--sizes", type=int, nargs="*", default=list(SIZES))
    parser.add_argument("--seed", type=int, default=int(time.time()) % 10_000)
    parser.add_argument("--part", default="1/1", help="run one of several parts of the lines, such as 2/5")
    parser.add_argument("--threads", type=int, default=0, help="number of threads; 0: all cores")
    args = parser.parse_args()
    part, parts = map(int, args.part.split("/"))
    clock, tdt, torch, _ = begin_sweep(args)
    warnings.simplefilter("ignore")
    summary: dict[tuple[int, str], list[tuple[float, str]]] = {}
    functions = list(found(torch, tdt))
    for size in args.sizes:
        rng = np.random.default_rng(args.seed)
        table = cases(rng, size)
        dims = shape(rng, size, 2)
        pair = [rng.uniform(0.05, 0.95, dims).astype(np.float32) for _ in range(2)]
        for name, count, call in functions:
            table[name] = pair[:count], call
        for k, (name, (arrays, call)) in enumerate(table.items()):
            if args.only not in name or k % parts != part - 1:
                continue
            for mode in ("forward", "gradient"):
                sides = []
                for t in (tdt, torch):
                    tensors = [t.from_numpy(a.copy()) for a in arrays]
                    if mode == "gradient":
                        trained = tensors[:1] if "loss" in name else tensors  # losses have no gradient for some targets
                        trained = [v.requires_grad_() for v in trained if v.is_floating_point()]
                        if not (trained and getattr(call(t, tensors), "requires_grad", False)):
                            break
                        sides.append(stepped(t, call, tensors))
                    else:
                        sides.append(functools.partial(call, t, tensors))
                if len(sides) < 2:
                    continue
                try:
                    ratio, ours, _ = compared(clock, *sides, PAIRS)
                except (RuntimeError, NotImplementedError, ValueError) as error:
                    print(f"{name:<36} {size:>9} {mode:<9} failed: {str(error)[:60]}")
                    continue
                summary.setdefault((size, mode), []).append((ratio, name))
                print(f"{name:<36} {size:>9} {mode:<9} {ratio:6.2f} {ours * 1e6:11.1f} µs", flush=True)
    for (size, mode), lines in summary.items():
        ratios = [r for r, _ in lines]
        mean = math.exp(statistics.fmean(map(math.log, ratios)))
        below = sorted((r, n) for r, n in lines if r < 0.6)
        losing = sum(r < 1 for r in ratios) / len(ratios)
        print(f"{size:>9} {mode:<9} geometric mean {mean:.2f}; {losing:.0%} of {len(ratios)} below 1, {len(below)} below 0.6: "
              + ", ".join(f"{n} {r:.2f}" for r, n in below[:25]))  # fmt: skip


if __name__ == "__main__":
    main()
