"""Ready parametrizations: orthogonal matrices, weight norm, spectral norm; see `parametrize`."""

from __future__ import annotations

import math
from typing import Any

from tdt import _backend, linalg
from tdt._core.creation import zeros_like
from tdt._core.dtype import finfo
from tdt._core.mode import no_grad
from tdt._core.ranges import eye
from tdt._core.tensor import Tensor, wrap
from tdt._ops.elementwise.compare import allclose
from tdt._ops.linalg.distance import normalize
from tdt._ops.random.creation import randn
from tdt._ops.shape.join import cat
from tdt.nn.modules.module import Module
from tdt.nn.utils import parametrize
from tdt.nn.utils.spectral_norm import as_matrix, output_dim, power_iteration
from tdt.nn.utils.weight_norm import norms, scaled


def _identity(n: int, like: Tensor) -> Tensor:
    return eye(n, dtype=like.dtype, device=like.device)


def _orthonormal(matrix: Tensor) -> Tensor:
    """Columns that span the same space, by QR with a positive diagonal of R."""
    q, r = linalg.qr(matrix)
    return q * r.diagonal(dim1=-2, dim2=-1).sgn().unsqueeze(-2)


def _matrix_exp(a: Tensor) -> Tensor:
    """Scaling and squaring around Taylor's polynomial of degree 19, by Paterson and Stockmeyer (1973): 7 products.

    With a norm of at most 1 the rest is below 1 / 20!, under half a unit in the last place of float64.
    """
    largest = float(a.detach().abs().sum(-2).max()) if a.numel() else 0.0
    squarings = math.ceil(math.log2(largest)) if 1 < largest < math.inf else 0
    a = a * 0.5**squarings
    powers = [_identity(a.shape[-1], a), a, a @ a]
    powers += [powers[2] @ a, powers[2] @ powers[2]]
    result: Any = 0
    for block in range(16, -1, -4):
        terms = sum(powers[i] / math.factorial(block + i) for i in range(4))
        result = terms if block == 16 else result @ powers[4] + terms
    for _ in range(squarings):
        result = result @ result
    return result


def _householder_product(a: Tensor, tau: Tensor) -> Tensor:
    """The first columns of the product of the reflectors I - τ v vᵀ whose vectors stand below the diagonal of `a`.

    As one block I - V T Vᵀ (Schreiber and Van Loan, 1989), where T⁻¹ = D⁻¹ + S; D holds τ, S is VᵀV above its diagonal.
    """
    k = a.shape[-1]
    unit_diagonal = _identity(a.shape[-2], a)[:, :k]
    v = a.tril(-1) + unit_diagonal
    scale = tau.unsqueeze(-1)
    t = linalg.solve(_identity(k, a) + scale * (v.mT @ v).triu(1), scale * v[..., :k, :].mT)
    return unit_diagonal - v @ t


def _reflectors(q: Tensor) -> tuple[Tensor, Tensor]:
    """LAPACK's geqrf: R above and the reflectors' vectors below the diagonal of the first, their τ in the second."""
    packed, tau = _backend.namespace(q._a).linalg.qr(q._a, mode="raw")
    return wrap(packed).mT.clone(), wrap(tau)


_MAPS = ("matrix_exp", "cayley", "householder")


class _Orthogonal(Module):
    """An orthogonal (unitary) matrix from any matrix, on the tangent space at `base` if that is used."""

    base: Any

    def __init__(self, weight: Tensor, orthogonal_map: str, *, use_trivialization: bool = True):
        super().__init__()
        if weight.is_complex() and orthogonal_map == "householder":
            raise ValueError("The householder parametrization does not support complex tensors.")
        self.shape, self.orthogonal_map = weight.shape, orthogonal_map
        if use_trivialization:
            self.register_buffer("base", None)

    def forward(self, X: Tensor) -> Tensor:
        transposed = X.size(-2) < X.size(-1)
        q = self._columns(X.mT if transposed else X)
        if hasattr(self, "base"):
            q = self.base @ q
        return q.mT if transposed else q

    def _columns(self, x: Tensor) -> Tensor:
        """Orthonormal columns, as many as `x` (…, n, k ≤ n) has."""
        n, k = x.shape[-2:]
        if self.orthogonal_map == "householder":
            a = x.tril(-1)
            q = _householder_product(a, 2.0 / (1.0 + (a * a).sum(-2)))
            # The diagonal of x holds signs, which are not trained.
            return q * x.diagonal(dim1=-2, dim2=-1).int().unsqueeze(-2)
        x = x.tril()
        if n != k:
            x = cat([x, x.new_zeros(*x.shape[:-1], n - k)], dim=-1)
        skew = x - x.mH
        if self.orthogonal_map == "matrix_exp":
            return _matrix_exp(skew)[..., :k]
        one = _identity(n, skew)
        return linalg.solve(one - 0.5 * skew, one + 0.5 * skew)[..., :k]

    @no_grad()
    def right_inverse(self, Q: Tensor) -> Tensor:
        if self.shape != Q.shape:
            raise ValueError(f"Expected a matrix or batch of matrices of shape {self.shape}. "
                             f"Got a tensor of shape {Q.shape}.")  # fmt: skip
        transposed = Q.size(-2) < Q.size(-1)
        q = Q.mT if transposed else Q
        if hasattr(self, "base"):
            n, k = q.shape[-2:]
            if n != k:  # complete it to a basis
                q = _orthonormal(cat([q, randn(*q.shape[:-1], n - k, dtype=q.dtype, device=q.device)], dim=-1))
            else:
                near = allclose(q.mH @ q, _identity(n, q), atol=10.0 * n * finfo(q.dtype).eps)
                q = q.clone() if near else _orthonormal(q)
            self.base = q
            # Diagonal -1: with it, zeros below are the identity in all three maps.
            start = zeros_like(Q)
            start.diagonal(dim1=-2, dim2=-1).fill_(-1.0)
            return start
        if self.orthogonal_map != "householder":
            raise NotImplementedError("It is not possible to assign to the matrix exponential or the Cayley parametrizations "
                                      "when use_trivialization=False.")  # fmt: skip
        a, tau = _reflectors(q)
        # A reflector that was not needed (τ = 0) flips no sign.
        diagonal = a.diagonal(dim1=-2, dim2=-1)
        diagonal.copy_(diagonal.sign() * (1 - 2 * tau.eq(0).to(a.dtype)))
        return a.mT if transposed else a


def orthogonal(module: Module, name: str = "weight", orthogonal_map: str | None = None, *,
               use_trivialization: bool = True) -> Module:  # fmt: skip
    """Parametrizes a matrix, or each of a batch, as orthogonal: orthonormal columns or rows, whichever are fewer.

    Args:
        orthogonal_map: "matrix_exp", "cayley" or "householder"; None stands for "householder" if the matrix is real and
            not
            square, else "matrix_exp".
        use_trivialization: work on the tangent space at the initial weight; without it only "householder" allows
            assignment.
    Returns: the module.
    Raises:
        ValueError: when the tensor has fewer than 2 dimensions, `orthogonal_map` is another name, or it is
            "householder" for
            a complex tensor.
    Source: Lezcano-Casado, "Trivializations for Gradient-Based Optimization on Manifolds", 2019.

    >>> import tdt
    >>> layer = tdt.nn.utils.parametrizations.orthogonal(tdt.nn.Linear(2, 4))
    >>> tdt.allclose(layer.weight.T @ layer.weight, tdt.eye(2), atol=1e-6)
    True
    """
    weight = _tensor(module, name)
    if weight.ndim < 2:
        raise ValueError(f"Expected a matrix or batch of matrices. Got a tensor of {weight.ndim} dimensions.")
    if orthogonal_map is None:
        square = weight.size(-2) == weight.size(-1)
        orthogonal_map = "matrix_exp" if square or weight.is_complex() else "householder"
    if orthogonal_map not in _MAPS:
        raise ValueError(
            f'orthogonal_map has to be one of "matrix_exp", "cayley", "householder". Got: {orthogonal_map}'
        )
    parametrization = _Orthogonal(weight, orthogonal_map, use_trivialization=use_trivialization)
    return parametrize.register_parametrization(module, name, parametrization, unsafe=True)


def _tensor(module: Module, name: str) -> Any:
    value = getattr(module, name, None)
    if not isinstance(value, Tensor):
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    return value


class _WeightNorm(Module):
    """A weight from its norms and its direction."""

    def __init__(self, dim: int | None = 0):
        super().__init__()
        self.dim = -1 if dim is None else dim

    def forward(self, weight_g: Tensor, weight_v: Tensor) -> Tensor:
        return scaled(weight_v, weight_g, self.dim)

    def right_inverse(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        return norms(weight, self.dim), weight


def weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Module:
    """Parametrizes a weight by its norms, `original0`, and its direction, `original1`.

    State dicts of the older hook `nn.utils.weight_norm` can be loaded.

    Args:
        dim: dimension along which there is a norm each; None for one norm of the whole weight.
    Returns: the module.
    Source: Salimans and Kingma, "Weight Normalization", 2016.

    >>> import tdt
    >>> from tdt import nn
    >>> [tuple(p.shape) for p in tdt.nn.utils.parametrizations.weight_norm(nn.Linear(3, 2, bias=False)).parameters()]
    [(2, 1), (2, 3)]
    """
    parametrize.register_parametrization(module, name, _WeightNorm(dim), unsafe=True)

    def rename(state_dict: dict[str, Any], prefix: str, *rest: Any) -> None:
        old = [f"{prefix}{name}_g", f"{prefix}{name}_v"]
        if all(key in state_dict for key in old):
            for i, key in enumerate(old):
                state_dict[f"{prefix}parametrizations.{name}.original{i}"] = state_dict.pop(key)

    module._register_load_state_dict_pre_hook(rename)
    return module


class _SpectralNorm(Module):
    """A weight divided by its largest singular value; a vector by its length."""

    _u: Tensor
    _v: Tensor

    def __init__(self, weight: Tensor, n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12):
        super().__init__()
        if not -weight.ndim <= dim < weight.ndim:
            raise IndexError("Dimension out of range (expected to be in range of "
                             f"[-{weight.ndim}, {weight.ndim - 1}] but got {dim})")  # fmt: skip
        if n_power_iterations <= 0:
            raise ValueError(
                f"Expected n_power_iterations to be positive, but got n_power_iterations={n_power_iterations}"
            )
        self.dim, self.eps = dim % weight.ndim, eps
        if weight.ndim > 1:
            self.n_power_iterations = n_power_iterations
            matrix = as_matrix(weight.detach(), self.dim)
            for name, size in zip(("_u", "_v"), matrix.shape, strict=True):
                self.register_buffer(name, normalize(matrix.new_empty(size).normal_(0, 1), dim=0, eps=eps))
            power_iteration(matrix, self._u, self._v, 15, eps, u_first=True)

    def forward(self, weight: Tensor) -> Tensor:
        if weight.ndim == 1:
            return normalize(weight, dim=0, eps=self.eps)
        matrix = as_matrix(weight, self.dim)
        if self.training:
            power_iteration(matrix, self._u, self._v, self.n_power_iterations, self.eps, u_first=True)
        # Copies: the next forward writes to the buffers before this one's backward.
        return weight / self._u.clone().vdot(matrix.mv(self._v.clone()))

    def right_inverse(self, value: Tensor) -> Tensor:
        return value


def spectral_norm(
    module: Module, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None
) -> Module:
    """Parametrizes a weight as divided by its largest singular value, found by the power method.

    Args:
        n_power_iterations: rounds of the power method at each use in training.
        eps: added to norms before they divide.
        dim: dimension of the outputs; None stands for 0, for transposed convolutions 1.
    Returns: the module.
    Raises:
        ValueError: when `name` is not a tensor of the module or `n_power_iterations` is not positive.
    Source: Miyato et al., "Spectral Normalization for Generative Adversarial Networks", 2018.

    >>> import tdt
    >>> layer = tdt.nn.utils.parametrizations.spectral_norm(tdt.nn.Linear(2, 2), n_power_iterations=50)
    >>> tdt.linalg.svdvals(layer.weight.detach())[0].round(decimals=3)
    tensor(1.)
    """
    weight = _tensor(module, name)
    parametrization = _SpectralNorm(weight, n_power_iterations, output_dim(module, dim), eps)
    return parametrize.register_parametrization(module, name, parametrization)


__all__ = ["orthogonal", "spectral_norm", "weight_norm"]
