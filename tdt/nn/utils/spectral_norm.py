"""Spectral normalisation by a hook (Miyato et al., 2018); its successor is `parametrizations.spectral_norm`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tdt import linalg
from tdt._core.mode import no_grad
from tdt._core.tensor import Tensor
from tdt._ops.linalg.distance import normalize
from tdt.autograd._hooks import RemovableHandle
from tdt.nn import modules
from tdt.nn._types import M
from tdt.nn.parameter import Parameter, is_lazy
from tdt.nn.utils._pre_hook import pre_hook_of, remove_pre_hook

if TYPE_CHECKING:
    from tdt.nn.modules.module import Module


def as_matrix(weight: Tensor, dim: int) -> Tensor:
    """A weight as a matrix with the outputs, dimension `dim`, in its rows."""
    return weight.movedim(dim, 0).reshape(weight.shape[dim], -1)


def power_iteration(matrix: Tensor, u: Tensor, v: Tensor, count: int, eps: float, u_first: bool) -> None:
    """Turn `u` and `v`, in place, towards the first singular vectors. `u_first`: the one that each round begins with."""
    with no_grad():
        for _ in range(count):
            for is_u in (u_first, not u_first):
                (u if is_u else v).copy_(normalize(matrix.mv(v) if is_u else matrix.mH.mv(u), dim=0, eps=eps))


def output_dim(module: Module, dim: int | None) -> int:
    """`dim`; for None, the dimension of a layer's weight that counts its outputs."""
    transposed = (modules.ConvTranspose1d, modules.ConvTranspose2d, modules.ConvTranspose3d)
    return int(isinstance(module, transposed)) if dim is None else dim


class SpectralNorm:
    """The hook: before each forward, the weight is `<name>_orig` divided by its largest singular value.

    That value is uᵀ W v, with `<name>_u` and `<name>_v` from the power method, which goes on in training mode.
    """

    _version: int = 1
    handles: tuple[RemovableHandle, ...] = ()

    def __init__(self, name: str = "weight", n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12):
        if n_power_iterations <= 0:
            raise ValueError(
                f"Expected n_power_iterations to be positive, but got n_power_iterations={n_power_iterations}"
            )
        self.name, self.dim, self.n_power_iterations, self.eps = name, dim, n_power_iterations, eps

    def reshape_weight_to_matrix(self, weight: Tensor) -> Tensor:
        """The weight with its outputs in the rows."""
        return as_matrix(weight, self.dim)

    def compute_weight(self, module: Module, do_power_iteration: bool) -> Tensor:
        """The current weight, after the power method if requested."""
        weight, u, v = (getattr(module, self.name + suffix) for suffix in ("_orig", "_u", "_v"))
        matrix = self.reshape_weight_to_matrix(weight)
        if do_power_iteration:
            power_iteration(matrix, u, v, self.n_power_iterations, self.eps, u_first=False)
            u, v = u.clone(), v.clone()  # the next forward writes to them before this one's backward
        return weight / u.dot(matrix.mv(v))

    def remove(self, module: Module) -> None:
        """Make the weight of the moment an ordinary parameter."""
        with no_grad():
            weight = self.compute_weight(module, do_power_iteration=False)
        for suffix in ("", "_u", "_v", "_orig"):
            delattr(module, self.name + suffix)
        module.register_parameter(self.name, Parameter(weight))

    def __call__(self, module: Module, inputs: tuple) -> None:
        setattr(module, self.name, self.compute_weight(module, do_power_iteration=module.training))

    @staticmethod
    def apply(module: Module, name: str, n_power_iterations: int, dim: int, eps: float) -> SpectralNorm:
        """Put the hook on a parameter; RuntimeError if there is one, ValueError for None or one without a shape."""
        if pre_hook_of(module, SpectralNorm, name):
            raise RuntimeError(f"Cannot register two spectral_norm hooks on the same parameter {name}")
        hook, weight = SpectralNorm(name, n_power_iterations, dim, eps), module._parameters[name]
        if weight is None:
            raise ValueError(f"`SpectralNorm` cannot be applied as parameter `{name}` is None")
        if is_lazy(weight):
            raise ValueError("The module passed to `SpectralNorm` can't have uninitialized parameters. "
                             "Make sure to run the dummy forward before applying spectral normalization")  # fmt: skip
        with no_grad():
            sizes = hook.reshape_weight_to_matrix(weight).shape
            u, v = (normalize(weight.new_empty(n).normal_(0, 1), dim=0, eps=eps) for n in sizes)
        delattr(module, name)
        module.register_parameter(name + "_orig", weight)
        setattr(module, name, weight.data)  # not a parameter: what reads the weight before a forward finds it
        module.register_buffer(name + "_u", u)
        module.register_buffer(name + "_v", v)
        module.register_forward_pre_hook(hook)
        hook.handles = (
            module._register_state_dict_hook(SpectralNormStateDictHook(hook)),
            module._register_load_state_dict_pre_hook(SpectralNormLoadStateDictPreHook(hook)),
        )
        return hook


class SpectralNormLoadStateDictPreHook:
    """Reads states of PyTorch 0.4, which hold the weight and no `v`."""

    def __init__(self, fn: SpectralNorm):
        self.fn = fn

    def __call__(self, state_dict: dict[str, Any], prefix: str, local_metadata: dict[str, Any], strict: bool,
                 missing_keys: list[str], unexpected_keys: list[str], error_msgs: list[str]) -> None:  # fmt: skip
        name = prefix + self.fn.name
        version = local_metadata.get("spectral_norm", {}).get(self.fn.name + ".version")
        complete = name not in state_dict and all(name + suffix in state_dict for suffix in ("_orig", "_u", "_v"))
        if (version is None and complete) or (version or 0) >= 1:
            return
        missing = [name + suffix for suffix in ("_orig", "", "_u") if name + suffix not in state_dict]
        if missing:
            missing_keys.extend(missing if strict else ())
            return
        with no_grad():
            original, u = state_dict[name + "_orig"], state_dict[name + "_u"]
            sigma = (original / state_dict.pop(name)).mean()
            matrix = self.fn.reshape_weight_to_matrix(original)
            left, values, right = linalg.svd(matrix, full_matrices=False)
            v = right.mH.mv(left.mH.mv(u) / values)  # the least squares solution of W v = u
            state_dict[name + "_v"] = v * (sigma / u.dot(matrix.mv(v)))


class SpectralNormStateDictHook:
    """Writes the hook's version into a state's metadata, where PyTorch looks for it."""

    def __init__(self, fn: SpectralNorm):
        self.fn = fn

    def __call__(self, module: Module, state_dict: dict[str, Any], prefix: str, local_metadata: dict[str, Any]) -> None:
        versions, key = local_metadata.setdefault("spectral_norm", {}), self.fn.name + ".version"
        if key in versions:
            raise RuntimeError(f"Unexpected key in metadata['spectral_norm']: {key}")
        versions[key] = self.fn._version


def spectral_norm(
    module: M, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None
) -> M:
    """Divides a weight by its largest singular value before each forward. Returns the module.

    Args:
        n_power_iterations: rounds of the power method before each forward in training.
        eps: added to norms before they divide.
        dim: dimension of the outputs; None stands for 0, for transposed convolutions 1.
    Raises:
        ValueError: when `n_power_iterations` is not positive.
    Source: Miyato et al., "Spectral Normalization for Generative Adversarial Networks", 2018.

    >>> import tdt
    >>> layer = tdt.nn.utils.spectral_norm(tdt.nn.Linear(2, 2), n_power_iterations=50)
    >>> _ = layer(tdt.ones(1, 2))
    >>> tdt.linalg.svdvals(layer.weight)[0].round(decimals=3)
    tensor(1., grad_fn=<RoundBackward0>)
    """
    SpectralNorm.apply(module, name, n_power_iterations, output_dim(module, dim), eps)
    return module


def remove_spectral_norm(module: M, name: str = "weight") -> M:
    """Undo `spectral_norm`: the weight is a parameter again. ValueError where there is none. Returns the module.

    >>> import tdt
    >>> from tdt import nn
    >>> list(tdt.nn.utils.remove_spectral_norm(tdt.nn.utils.spectral_norm(nn.Linear(2, 2))).state_dict())
    ['bias', 'weight']
    """
    hook = remove_pre_hook(module, SpectralNorm, name, f"spectral_norm of '{name}' not found in {module}")
    for handle in hook.handles:
        handle.remove()
    return module


__all__ = ["SpectralNorm", "SpectralNormLoadStateDictPreHook", "SpectralNormStateDictHook", "remove_spectral_norm",
           "spectral_norm"]  # fmt: skip
