"""Where tdt is allowed to differ from PyTorch's op database, and how results that are not unique are compared.

A deviation that no longer occurs makes its test fail, so the table cannot outlive its reasons.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple


class Deviation(NamedTuple):
    """Calls that may differ: of one op and check, in these dtypes ("*" for all), where the problem has these words."""

    op: str
    check: str
    dtypes: tuple[str, ...]
    words: str
    reason: str

    def covers(self, failure: Any) -> bool:
        """Whether it allows a `Failure` of its op."""
        return (
            self.check == failure.check
            and (self.dtypes == ("*",) or failure.dtype in self.dtypes)
            and self.words in failure.problem
        )


HALF = ("float16", "bfloat16")
DEVIATIONS = [
    # Decisions of tdt.
    *[Deviation(f"fft.{op}", "out= resized", ("*",), "strides of the target",
                "an empty out= of a transform is contiguous here; PyTorch's is not for the inverse of real numbers")
      for op in ("ifft", "ihfft")],
    *[Deviation(f"fft.{op}", "out= resized", ("*",), "PyTorch (0,)", "PyTorch leaves an empty out= empty")
      for op in ("ihfft2", "ihfftn")],
    *[Deviation(f"fft.{op}", "out= needs grad", ("*",), "PyTorch does not", "PyTorch forgets to refuse it")
      for op in ("ihfft2", "ihfftn")],
    Deviation("view_as_complex", "value", ("float16",), "tdt raises RuntimeError", "there is no complex32"),
    Deviation("gather", "error", ("*",), "unsupported operation",
              "a small out= gets new memory here; PyTorch's grows into the index behind it"),
    *[Deviation(op, "out= other dtype", ("complex64", "complex128"), "can't be cast to the desired output type",
                "no result loses its imaginary part in a real out=; of PyTorch's ops only these drop it")
      for op in ("logsumexp", "mean")],
    Deviation("nn.functional.avg_pool3d", "refused", HALF, "tdt does not",
              "PyTorch has it on GPUs, and one op serves both devices here"),
    Deviation("nn.functional.rrelu", "refused", ("float16",), "tdt does not",
              "PyTorch has it on GPUs, and one op serves both devices here"),
    *[Deviation(f"nn.functional.conv{n}d", "refused", ("*",), "tdt does not",
                "small integers: PyTorch takes them too, unless there is dilation") for n in (1, 2, 3)],
    *[Deviation(f"nn.functional.adaptive_avg_pool{n}d", "refused", ("complex64", "complex128"), "tdt raises",
                "PyTorch takes a single window, as a mean; what a dtype can do does not hang on sizes here") for n in (1, 3)],
    *[Deviation(f"index_reduce/{how}", "refused", ("bool", "complex64", "complex128"), "tdt raises",
                "PyTorch takes them where input has several dimensions, and refuses them for vectors")
      for how in ("mean", "prod", "amin", "amax")],
    Deviation("tensordot", "refused", ("bool",), "tdt raises", "PyTorch takes bools where one of the sizes is 1"),
    Deviation("narrow_copy", "error", ("*",), "Dimension out of range", "as narrow says it; PyTorch's is an assertion"),
    Deviation("split_with_sizes_copy", "out= needs grad", ("*",), "don't support automatic differentiation",
              "as every other out= of tensors that need gradients; PyTorch writes into them"),
    Deviation("histc", "out= needs grad", ("*",), "don't support automatic differentiation",
              "as every other out= of floats; counts have no gradient, so PyTorch lets it pass"),
    Deviation("cov", "second gradient", ("complex128",), "value at",
              "of float32 weights of two observations it is 0, of numbers of 1e3 that cancel in float32; and a complex number "
              "divided by 0 is NumPy's"),
    Deviation("native_group_norm", "value", ("float64",), "PyTorch raises RuntimeError: Expected X.is_contiguous",
              "PyTorch's entry point takes no strided input, for which group_norm makes a copy; here both do"),
    *[Deviation("matrix_exp", check, HALF, "value at", "computed in float32 here; in half precision PyTorch's overflows")
      for check in ("value", "method")],
    Deviation("sparse.mm/reduce", "gradient", ("float64",), "layout: tdt tdt.sparse_csr",
              "a sparse operand's gradient is that of its entries, as without reduce="),
    Deviation("sparse.mm/reduce", "gradient after a write", ("float64",), "",
              "it is composed of scatter_reduce, which saves its result"),
    Deviation("nn.functional.scaled_dot_product_attention", "gradient after a write", ("float64",), "modified by an inplace",
              "all sizes save the result; PyTorch's small ones of three dimensions are composed of ops that do not"),
    Deviation("erfinv", "gradient after a write", ("float64",), "modified by an inplace", "its gradient follows from the result"),
    Deviation("to_sparse", "value", ("complex128",), "does not support automatic differentiation",
              "the gradient, of the same elements, is right for complex numbers too"),
    # Mistakes of PyTorch 2.13.
    *[Deviation("as_strided_scatter", check, ("float64", "complex128"), "value at",
                "what was replaced gets the gradient as well")
      for check in ("gradient", "second gradient")],
    *[Deviation("as_strided_scatter", check, ("float64",), "value at", "what was replaced gets the gradient as well")
      for check in ("gradient after a write", "second gradient after a write")],
    *[Deviation("nn.functional.linear_cross_entropy/chunked", check, ("float64",), "value at",
                "gradients made in the forward are constants to it; here chunks have the second gradients of the whole")
      for check in ("second gradient", "second gradient after a write")],
    *[Deviation(op, "out= strided", dtypes, "value at", "it writes as if the target were contiguous")
      for op, dtypes in (("nn.functional.avg_pool3d", ("int64",)), ("narrow_copy", ("*",)))],
    *[Deviation(op, "out= strided", ("*",), "PyTorch raises RuntimeError",
                "it folds rows of a target whose strides do not fold") for op in ("matmul", "nn.functional.linear")],
    Deviation("masked.logaddexp", "second gradient", ("float64",), "PyTorch np.float64(nan)",
              "what two masks leave out has a gradient of 0 whatever its number; its rule multiplies infinities there"),
    Deviation("addbmm", "inplace", ("*",), "output with shape",
              "it gives the tensor another shape, which every other in-place op refuses"),
    *[Deviation(op, "out= resized", ("*",), "must match the size of tensor b (0)",
                "it broadcasts the target, to be resized, with the mean") for op in ("normal", "normal/number_mean")],
]  # fmt: skip


def allowed(op: str, failure: Any) -> bool:
    """Whether a `Failure` of the op may be."""
    return any(d.op == op and d.covers(failure) for d in DEVIATIONS)


# Ops whose graph ends in another node than PyTorch's, by why it does. All others show PyTorch's name of it.
OTHER_NODES: dict[str, str] = {
    "a copy of a view is the view and a clone": """
        alias_copy as_strided_copy diag diagonal_copy expand_copy narrow_copy permute_copy split_with_sizes_copy squeeze_copy
        t_copy transpose_copy unbind_copy unfold_copy unsqueeze_copy view_copy""",
    "complex products, roots and conjugates have no lazy bit and no real view": """
        H conj fft.fft fft.ifft fft.ihfft fft.ihfft2 fft.ihfftn imag mH nn.functional.conv1d nn.functional.conv2d
        nn.functional.conv3d nn.functional.conv_transpose1d nn.functional.conv_transpose2d nn.functional.conv_transpose3d
        real svd""",
    "one dimension is not computed as two": """
        nn.functional.adaptive_avg_pool1d nn.functional.adaptive_max_pool1d nn.functional.avg_pool1d nn.functional.max_pool1d
        nn.functional.max_unpool1d nn.functional.max_unpool1d/grad nn.functional.interpolate/area""",
    "one op for what PyTorch composes, by sizes": """
        __rmatmul__ kron linalg.multi_dot linalg.matrix_power matmul nn.functional.linear
        nn.functional.cosine_similarity nn.functional.linear_cross_entropy nn.functional.linear_cross_entropy/chunked
        nn.functional.linear_cross_entropy/chunked_none nn.functional.rms_norm
        nn.functional.scaled_dot_product_attention reshape reshape_as flatten""",
    "composed in another way, or of other ops": """
        _segment_reduce/lengths _segment_reduce/offsets as_strided_scatter cdist cholesky combinations corrcoef
        cumprod cumulative_trapezoid diagonal_scatter diff einsum grid_sampler_2d grid_sampler_3d index_reduce/amax
        index_reduce/amin index_reduce/mean index_reduce/prod linalg.cond linalg.lu linalg.matrix_norm linalg.norm
        linalg.norm/subgradients_at_zero linalg.solve linalg.tensorinv logdet masked.cumprod nanquantile
        nn.functional.adaptive_avg_pool3d nn.functional.bilinear nn.functional.cross_entropy nn.functional.ctc_loss
        nn.functional.grid_sample nn.functional.margin_ranking_loss nn.functional.pad/circular
        nn.functional.pad/reflect nn.functional.pad/replicate nn.functional.pad/replicate_negative
        nn.functional.pairwise_distance nn.functional.smooth_l1_loss nn.functional.triplet_margin_loss
        nn.functional.triplet_margin_with_distance_loss pca_lowrank polar quantile renorm repeat_interleave
        select_scatter slice_scatter sparse.mm/reduce sparse.sampled_addmm special.ndtr stft sum_to_size svd_lowrank
        trapezoid trapz""",
    "variants that PyTorch numbers by how it was called": """
        __rdiv__ __rsub__ clamp masked.prod masked.sum mean normal normal/number_mean prod
        round/decimals_0 round/decimals_3 round/decimals_neg_3 sort sum to_sparse""",
    "a cast to the same dtype is a clone": "bfloat16 cdouble cfloat double float half to",
}  # fmt: skip

# PyTorch's factorisations leave LAPACK's column order, and nonzero the transpose of its work array: no promise to users.
ANY_STRIDES = frozenset((
    "linalg.svd", "svd", "linalg.qr", "qr", "linalg.eigh", "linalg.inv", "linalg.solve",
    "linalg.cholesky", "cholesky", "argwhere", "nonzero", "multinomial",
    "linalg.matrix_power", "linalg.cholesky_ex", "cholesky_inverse", "cholesky_solve", "triangular_solve",
    "linalg.solve_triangular", "linalg.inv_ex", "linalg.solve_ex", "pinverse", "linalg.pinv", "linalg.pinv/hermitian",
    "linalg.pinv/singular", "linalg.eig", "lu", "linalg.lu", "linalg.lu_factor", "linalg.lu_factor_ex", "lu_unpack",
    "lu_solve", "linalg.lu_solve", "ormqr", "geqrf", "linalg.householder_product", "linalg.ldl_factor",
    "linalg.ldl_factor_ex", "linalg.ldl_solve", "linalg.lstsq", "linalg.lstsq/grad_oriented", "linalg.tensorinv",
    "linalg.tensorsolve",
))  # fmt: skip


def _svd(args: tuple, kwargs: dict, result: Any) -> Any:
    u, s, vh = result
    k = s.shape[-1]
    return s, (u[..., :k] * s.unsqueeze(-2)) @ vh[..., :k, :], u.mH @ u, vh @ vh.mH


def _old_svd(args: tuple, kwargs: dict, result: Any) -> Any:
    u, s, v = result
    k = s.shape[-1]
    return s, (u[..., :k] * s.unsqueeze(-2)) @ v[..., :k].mH


def _eigh(args: tuple, kwargs: dict, result: Any) -> Any:
    values, vectors = result
    return values, (vectors * values.unsqueeze(-2)) @ vectors.mH, vectors.mH @ vectors


def _eig(args: tuple, kwargs: dict, result: Any) -> Any:
    values, vectors = result
    return values, vectors.abs(), (vectors * values.unsqueeze(-2)) @ vectors.inverse()


def _qr(args: tuple, kwargs: dict, result: Any) -> Any:
    q, r = result
    return q @ r if q.numel() else r.abs(), r.abs()


def _chosen(at: int) -> Callable[[tuple, dict, Any], Any]:
    """Values, and what stands at the indices; `at`: which argument the dimension is."""

    def parts(args: tuple, kwargs: dict, result: Any) -> Any:
        values, index = result
        dim = kwargs.get("dim", args[at] if len(args) > at else -1)
        full = index if index.dim() == args[0].dim() else index.unsqueeze(dim)
        return values, args[0].gather(dim, full).reshape(values.shape)

    return parts


def _sorted(args: tuple, kwargs: dict, result: Any) -> Any:
    return result if kwargs.get("stable") else _chosen(1)(args, kwargs, result)


def _argsorted(args: tuple, kwargs: dict, result: Any) -> Any:
    if kwargs.get("stable") or not args[0].dim():
        return result
    return args[0].gather(kwargs.get("dim", args[1] if len(args) > 1 else -1), result)


# What of a result is unique: singular vectors, eigenvectors and the rows of R have a free sign or phase; where elements
# tie, which of their indices is reported is free.
UNIQUE: dict[str, Callable[[tuple, dict, Any], Any]] = {
    "sort": _sorted,
    "argsort": _argsorted,
    "linalg.svd": _svd,
    "svd": _old_svd,
    "svd_lowrank": _old_svd,
    "pca_lowrank": _old_svd,
    "linalg.eig": _eig,
    "linalg.eigh": _eigh,
    "linalg.qr": _qr,
    "qr": _qr,
    "topk": _chosen(2),
    "kthvalue": _chosen(2),
    "mode": _chosen(1),
}
