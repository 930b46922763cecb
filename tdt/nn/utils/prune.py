"""Pruning: entries of a parameter held at zero by a mask (Han et al., 2015; Frankle and Carbin, 2019).

A pruned parameter `weight` becomes `weight_orig`, which is trained, times the buffer `weight_mask`, before each forward.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, Literal, Self

from tdt._core.constructors import own_constructor
from tdt._core.creation import ones_like, zeros_like
from tdt._core.memory_format import contiguous_format
from tdt._core.tensor import Tensor
from tdt._ops.random.creation import rand, rand_like
from tdt.nn._types import M
from tdt.nn.utils._pre_hook import pre_hook_of, remove_pre_hook
from tdt.nn.utils.convert_parameters import parameters_to_vector

if TYPE_CHECKING:
    from tdt.nn.modules.module import Module


class BasePruningMethod(ABC):
    """What masks entries: a subclass says which in `compute_mask`, and in PRUNING_TYPE what a second pruning looks at.

    PRUNING_TYPE: "unstructured" (the entries left), "structured" (the slices along `dim` that are left) or "global" (all).

    >>> import tdt
    >>> from tdt.nn.utils import prune
    >>> class EverySecond(prune.BasePruningMethod):
    ...     PRUNING_TYPE = "unstructured"
    ...     def compute_mask(self, t, default_mask):
    ...         mask = default_mask.clone()
    ...         mask[::2] = 0
    ...         return mask
    >>> EverySecond().prune(tdt.ones(4))
    tensor([0., 1., 0., 1.])
    """

    PRUNING_TYPE: str
    _tensor_name: str | None = None

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        own_constructor(cls)

    def __call__(self, module: Module, inputs: tuple) -> None:
        setattr(module, str(self._tensor_name), self.apply_mask(module))

    @abstractmethod
    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """A mask of t's shape: 1 stays, 0 goes. t: importance of the entries; default_mask: the mask so far."""

    def apply_mask(self, module: Module) -> Tensor:
        """Parameter with its mask applied.

        Raises:
            AssertionError: when no parameter was pruned yet.
        """
        if self._tensor_name is None:
            raise AssertionError(f"Module {module} has to be pruned")
        original = getattr(module, self._tensor_name + "_orig")
        return getattr(module, self._tensor_name + "_mask").to(original.dtype) * original

    @classmethod
    def apply(
        cls, module: Module, name: str, *args: Any, importance_scores: Tensor | None = None, **kwargs: Any
    ) -> Self:
        """Prune a parameter by `cls(*args, **kwargs)`, in addition to earlier prunings; returns the hook on the module.

        Args:
            importance_scores: tensor of the parameter's shape to prune by; None stands for the parameter itself.
        Raises:
            AssertionError: when the scores have another shape; nothing is changed then.
        """
        found = pre_hook_of(module, BasePruningMethod, name, "_tensor_name")
        method: Any = cls(*args, **kwargs)
        method._tensor_name = name
        if found:
            before = found[1] if isinstance(found[1], PruningContainer) else [found[1]]
            method = PruningContainer(*before, method)
        original = getattr(module, name)
        if importance_scores is not None and importance_scores.shape != original.shape:
            raise AssertionError(
                f"importance_scores should have the same shape as parameter {name} of {module}, "
                f"got {importance_scores.shape} vs {original.shape}"
            )
        default = _copied(getattr(module, name + "_mask")) if found else ones_like(original)
        mask = method.compute_mask(original if importance_scores is None else importance_scores, default_mask=default)
        if found:
            del module._forward_pre_hooks[found[0]]
        else:
            module.register_parameter(name + "_orig", original)
            del module._parameters[name]
        module.register_buffer(name + "_mask", mask)
        setattr(module, name, method.apply_mask(module))
        module.register_forward_pre_hook(method)
        return method

    def prune(self, t: Tensor, default_mask: Tensor | None = None, importance_scores: Tensor | None = None) -> Tensor:
        """Copy of `t` with the elements that this method prunes set to zero.

        Raises:
            AssertionError: when `importance_scores` has another shape.
        """
        if importance_scores is None:
            importance_scores = t
        elif importance_scores.shape != t.shape:
            raise AssertionError("importance_scores should have the same shape as tensor t, "
                                 f"got {importance_scores.shape} vs {t.shape}")  # fmt: skip
        return t * self.compute_mask(importance_scores, ones_like(t) if default_mask is None else default_mask)

    def remove(self, module: Module) -> None:
        """Make the parameter, with its zeros, an ordinary one again; the hook itself stays.

        Raises:
            AssertionError: when no parameter was pruned yet.
        """
        name = self._tensor_name
        if name is None:
            raise AssertionError(f"Module {module} has to be pruned before pruning can be removed")
        original = module._parameters[name + "_orig"]
        original.data = self.apply_mask(module)
        if hasattr(module, name):
            delattr(module, name)
        del module._parameters[name + "_orig"]
        del module._buffers[name + "_mask"]
        setattr(module, name, original)


def _copied(mask: Tensor) -> Tensor:
    return mask.detach().clone(memory_format=contiguous_format)


class PruningContainer(BasePruningMethod):
    """Sequence of pruning methods for one parameter; each later one chooses among what the earlier ones left.

    >>> import tdt
    >>> from tdt.nn.utils import prune
    >>> layer = tdt.nn.Linear(4, 1)
    >>> for _ in range(2):
    ...     _ = prune.l1_unstructured(layer, "weight", amount=1)
    >>> int(layer.weight_mask.sum())
    2
    """

    def __init__(self, *args: BasePruningMethod):
        self._pruning_methods: tuple[Any, ...] = ()
        self._tensor_name = args[0]._tensor_name if args else None
        for method in args:
            self.add_pruning_method(method)

    def add_pruning_method(self, method: BasePruningMethod | None) -> None:
        """Add a pruning method.

        Raises:
            TypeError: when `method` is not a pruning method.
            ValueError: when it prunes another parameter.
        """
        if method is not None and not isinstance(method, BasePruningMethod):
            raise TypeError(f"{type(method)} is not a BasePruningMethod subclass")
        if method is not None and method._tensor_name != self._tensor_name:
            raise ValueError(f"Can only add pruning methods acting on the parameter named '{self._tensor_name}' to "
                             f"PruningContainer {self}. Found '{method._tensor_name}'")  # fmt: skip
        self._pruning_methods += (method,)

    def __len__(self) -> int:
        return len(self._pruning_methods)

    def __iter__(self) -> Iterator[BasePruningMethod]:
        return iter(self._pruning_methods)

    def __getitem__(self, idx: int) -> BasePruningMethod:
        return self._pruning_methods[idx]

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Mask of all methods: the former mask, with the last method's on the part that its PRUNING_TYPE selects.

        Raises:
            AttributeError: when a structured method has no `dim`.
            IndexError: when its `dim` is out of range.
            ValueError: when its PRUNING_TYPE is unknown.
        """
        method: Any = self._pruning_methods[-1]
        part: Any
        if method.PRUNING_TYPE == "unstructured":
            part = default_mask == 1
        elif method.PRUNING_TYPE == "structured":
            if not hasattr(method, "dim"):
                raise AttributeError(
                    'Pruning methods of PRUNING_TYPE "structured" need to have the attribute `dim` defined.'
                )
            if method.dim < -t.ndim:
                raise IndexError(f"Index is out of bounds for tensor with dimensions {t.ndim}")
            dim = method.dim % t.ndim
            others = [d for d in range(t.ndim) if d != dim]
            part = _along(dim, default_mask.sum(dim=others) != 0)
        elif method.PRUNING_TYPE == "global":
            part = ...
        else:
            raise ValueError(f"Unrecognized PRUNING_TYPE {method.PRUNING_TYPE}")
        mask = default_mask.to(t.dtype, copy=True)
        mask[part] = method.compute_mask(t[part], default_mask=default_mask[part]).to(mask.dtype)
        return mask


def _along(dim: int, which: Any) -> tuple:
    """The index of the slices `which` along `dim`."""
    return (*[slice(None)] * dim, which)


class Identity(BasePruningMethod):
    """Pruning that keeps every element but adds mask and hook.

    >>> import tdt
    >>> from tdt.nn.utils import prune
    >>> bool(prune.identity(tdt.nn.Linear(2, 1), "weight").weight_mask.all())
    True
    """

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        return default_mask

    @classmethod
    def apply(cls, module: Module, name: str) -> Self:  # type: ignore[override]
        """Add a mask of ones to the parameter `name`; returns the hook."""
        return super().apply(module, name)


class _ByAmount(BasePruningMethod):
    """Prunes an `amount`: a number of entries (int), or a fraction of them (float)."""

    amount: float

    def __init__(self, amount: float):
        if not isinstance(amount, Real):
            raise TypeError(f"Invalid type for amount: {amount}. Must be int or float.")
        if amount < 0 or (amount > 1 and not isinstance(amount, Integral)):
            raise ValueError(f"amount={amount} should either be a float in the range [0, 1] or a non-negative integer")
        self.amount = amount

    def _count(self, size: int) -> int:
        """How many of `size` go."""
        count = int(self.amount) if isinstance(self.amount, Integral) else round(self.amount * size)
        if count > size:
            raise ValueError(f"amount={count} should be smaller than the number of parameters to prune={size}")
        return count


class _Unstructured(_ByAmount):
    """Single entries."""

    PRUNING_TYPE = "unstructured"

    @abstractmethod
    def _worst(self, t: Tensor, count: int) -> Tensor:
        """The places in the flat tensor of those that go."""

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        count, mask = self._count(t.numel()), _copied(default_mask)
        if count:
            mask.view(-1)[self._worst(t, count)] = 0
        return mask


class RandomUnstructured(_Unstructured):
    """Pruning of random elements.

    Args:
        amount: number of elements, or fraction of them as a float in [0, 1].
    Raises:
        TypeError: when `amount` is not a number.
        ValueError: when it is negative, or a float above 1.

    >>> import tdt
    >>> from tdt.nn.utils import prune
    >>> int(prune.random_unstructured(tdt.nn.Linear(4, 1), "weight", amount=0.25).weight_mask.sum())
    3
    """

    def _worst(self, t: Tensor, count: int) -> Tensor:
        return rand_like(t).view(-1).topk(count)[1]

    @classmethod
    def apply(cls, module: Module, name: str, amount: float) -> Self:  # type: ignore[override]
        """Prune random elements of the parameter `name`; returns the hook."""
        return super().apply(module, name, amount=amount)


class L1Unstructured(_Unstructured):
    """Pruning of the elements of least magnitude.

    Args:
        amount: number of elements, or fraction of them as a float in [0, 1].
    Raises:
        TypeError: when `amount` is not a number.
        ValueError: when it is negative, or a float above 1.

    >>> import tdt
    >>> from tdt.nn.utils import prune
    >>> prune.L1Unstructured(amount=1).prune(tdt.tensor([1.0, -3.0, 2.0]))
    tensor([ 0., -3.,  2.])
    """

    def _worst(self, t: Tensor, count: int) -> Tensor:
        return t.abs().reshape(-1).topk(count, largest=False)[1]

    @classmethod
    def apply(cls, module: Module, name: str, amount: float, importance_scores: Tensor | None = None) -> Self:  # type: ignore[override]
        """Prune the elements of least magnitude of the parameter `name`; returns the hook."""
        return super().apply(module, name, amount=amount, importance_scores=importance_scores)


class _Structured(_ByAmount):
    """Whole slices along a dimension."""

    PRUNING_TYPE = "structured"

    def __init__(self, amount: float, dim: int = -1):
        super().__init__(amount)
        self.dim = dim

    @abstractmethod
    def _selected(self, t: Tensor, size: int, count: int) -> Tensor:
        """Which of the `size` slices stay: their numbers, or a mask."""

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        if t.ndim <= 1:
            raise ValueError("Structured pruning can only be applied to multidimensional tensors. "
                             f"Found tensor of shape {t.shape} with {t.ndim} dims")  # fmt: skip
        if self.dim >= t.ndim:
            raise IndexError(f"Invalid index {self.dim} for tensor of size {t.shape}")
        size = t.shape[self.dim]
        count = self._count(size)
        if count == 0:
            return default_mask
        mask = zeros_like(t)
        mask[_along(self.dim % t.ndim, self._selected(t, size, count))] = 1
        return mask * default_mask.to(mask.dtype)


class RandomStructured(_Structured):
    """Pruning of random slices along a dimension.

    Args:
        amount: number of slices, or fraction of them as a float in [0, 1].
        dim: dimension whose slices are pruned.
    Raises:
        TypeError: when `amount` is not a number.
        ValueError: when it is negative, or a float above 1.

    >>> import tdt
    >>> from tdt.nn.utils import prune
    >>> int(prune.random_structured(tdt.nn.Linear(3, 2), "weight", amount=1, dim=0).weight_mask.sum())
    3
    """

    def _selected(self, t: Tensor, size: int, count: int) -> Tensor:
        chance = rand(size)
        return chance > chance.kthvalue(count)[0]

    @classmethod
    def apply(cls, module: Module, name: str, amount: float, dim: int = -1) -> Self:  # type: ignore[override]
        """Prune random slices of the parameter `name`; returns the hook."""
        return super().apply(module, name, amount=amount, dim=dim)


class LnStructured(_Structured):
    """Pruning of the slices of least norm along a dimension.

    Args:
        amount: number of slices, or fraction of them as a float in [0, 1].
        n: degree of the norm: a number, infinity, "fro" or "nuc".
        dim: dimension whose slices are pruned.
    Raises:
        TypeError: when `amount` is not a number.
        ValueError: when it is negative, or a float above 1.

    >>> import tdt
    >>> from tdt.nn.utils import prune
    >>> prune.LnStructured(amount=1, n=2, dim=0).prune(tdt.tensor([[1.0, 1.0], [3.0, 4.0]]))
    tensor([[0., 0.],
            [3., 4.]])
    """

    def __init__(self, amount: float, n: float | Literal["fro", "nuc"], dim: int = -1):
        super().__init__(amount, dim)
        self.n = n

    def _selected(self, t: Tensor, size: int, count: int) -> Tensor:
        others = [d for d in range(t.ndim) if d != self.dim % t.ndim]
        return t.norm(self.n, dim=others).topk(size - count)[1]

    @classmethod
    def apply(  # type: ignore[override]
        cls,
        module: Module,
        name: str,
        amount: float,
        n: float | Literal["fro", "nuc"],
        dim: int,
        importance_scores: Tensor | None = None,
    ) -> Self:
        """Prune the slices of least norm of the parameter `name`; returns the hook."""
        return super().apply(module, name, amount=amount, n=n, dim=dim, importance_scores=importance_scores)


class CustomFromMask(BasePruningMethod):
    """Pruning by a given mask: elements where it is 0.

    Shape: mask of the parameter's shape.

    >>> import tdt
    >>> from tdt.nn.utils import prune
    >>> prune.CustomFromMask(tdt.tensor([0, 1])).prune(tdt.tensor([2.0, 3.0]))
    tensor([0., 3.])
    """

    PRUNING_TYPE = "global"

    def __init__(self, mask: Tensor):
        self.mask = mask

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        if default_mask.shape != self.mask.shape:
            raise AssertionError(
                f"default_mask shape {default_mask.shape} must match self.mask shape {self.mask.shape}"
            )
        return default_mask * self.mask.to(default_mask.dtype)

    @classmethod
    def apply(cls, module: Module, name: str, mask: Tensor) -> Self:  # type: ignore[override]
        """Prune the elements of the parameter `name` where `mask` is 0; returns the hook."""
        return super().apply(module, name, mask=mask)


def identity(module: M, name: str) -> M:
    """Give a parameter a mask of ones. Returns the module.

    >>> from tdt.nn.utils import prune
    >>> from tdt import nn
    >>> list(prune.identity(nn.Linear(1, 1), "weight").state_dict())
    ['bias', 'weight_orig', 'weight_mask']
    """
    Identity.apply(module, name)
    return module


def random_unstructured(module: M, name: str, amount: float) -> M:
    """Prune entries at random: `amount` of them (int), or that fraction (float). Returns the module.

    >>> import tdt
    >>> from tdt.nn.utils import prune
    >>> int((prune.random_unstructured(tdt.nn.Linear(2, 3), "weight", 0.5).weight == 0).sum())
    3
    """
    RandomUnstructured.apply(module, name, amount)
    return module


def l1_unstructured(module: M, name: str, amount: float, importance_scores: Tensor | None = None) -> M:
    """Prune the elements of least magnitude, or of least importance. Returns the module.

    Args:
        amount: number of elements, or fraction of them as a float in [0, 1].
    Shape: importance_scores of the parameter's shape.

    >>> import tdt
    >>> from tdt.nn.utils import prune
    >>> layer = tdt.nn.Linear(2, 1)
    >>> _ = tdt.nn.init.constant_(layer.weight[:, 1], 3.0)
    >>> prune.l1_unstructured(layer, "weight", amount=1).weight_mask
    tensor([[0., 1.]])
    """
    L1Unstructured.apply(module, name, amount=amount, importance_scores=importance_scores)
    return module


def random_structured(module: M, name: str, amount: float, dim: int) -> M:
    """Prune whole slices along `dim` at random. Returns the module; ValueError for a vector.

    >>> import tdt
    >>> from tdt.nn.utils import prune
    >>> prune.random_structured(tdt.nn.Linear(2, 4), "weight", amount=1, dim=0).weight_mask.sum()
    tensor(6.)
    """
    RandomStructured.apply(module, name, amount, dim)
    return module


def ln_structured(module: M, name: str, amount: float, n: float | Literal["fro", "nuc"], dim: int,
                  importance_scores: Tensor | None = None) -> M:  # fmt: skip
    """Prune the slices along `dim` of least norm. Returns the module.

    Args:
        amount: number of slices, or fraction of them as a float in [0, 1].
        n: degree of the norm: a number, infinity, "fro" or "nuc".
    Shape: importance_scores of the parameter's shape, which has at least 2 dimensions.
    Raises:
        ValueError: when the parameter has fewer than 2 dimensions.

    >>> import tdt
    >>> from tdt.nn.utils import prune
    >>> prune.ln_structured(tdt.nn.Linear(2, 4), "weight", amount=0.5, n=2, dim=0).weight_mask.sum()
    tensor(4.)
    """
    LnStructured.apply(module, name, amount, n, dim, importance_scores=importance_scores)
    return module


def custom_from_mask(module: M, name: str, mask: Tensor) -> M:
    """Prune the elements where `mask` is 0. Returns the module.

    Shape: mask of the parameter's shape.

    >>> import tdt
    >>> from tdt.nn.utils import prune
    >>> bool(prune.custom_from_mask(tdt.nn.Linear(1, 2), "bias", tdt.tensor([0, 1])).bias[0] == 0)
    True
    """
    CustomFromMask.apply(module, name, mask)
    return module


def global_unstructured(
    parameters: Iterable[tuple[Any, str]],
    pruning_method: type[BasePruningMethod],
    importance_scores: dict[tuple[Any, str], Tensor] | None = None,
    **kwargs: Any,
) -> None:
    """Prune several parameters, given as (module, name), as if they were one tensor.

    Args:
        pruning_method: class of an unstructured method; `kwargs` are its arguments.
        importance_scores: tensors to prune by, by (module, name).
    Raises:
        TypeError: when `parameters` is not iterable, the scores are not a dict, or the method is not unstructured.

    >>> from tdt.nn.utils import prune
    >>> from tdt import nn
    >>> a, b = nn.Linear(3, 4), nn.Linear(4, 2)
    >>> prune.global_unstructured([(a, "weight"), (b, "weight")], prune.L1Unstructured, amount=0.5)
    >>> int((a.weight == 0).sum() + (b.weight == 0).sum())
    10
    """
    if not isinstance(parameters, Iterable):
        raise TypeError("global_unstructured(): parameters is not an Iterable")
    scores = {} if importance_scores is None else importance_scores
    if not isinstance(scores, dict):
        raise TypeError("global_unstructured(): importance_scores must be of type dict")
    parameters = list(parameters)
    values = [getattr(module, name) for module, name in parameters]
    masks = [
        getattr(module, name + "_mask", ones_like(p)) for (module, name), p in zip(parameters, values, strict=True)
    ]
    container, method = PruningContainer(), pruning_method(**kwargs)
    if method.PRUNING_TYPE != "unstructured":
        raise TypeError('Only "unstructured" PRUNING_TYPE supported for the `pruning_method`. '
                        f"Found method {pruning_method} of type {method.PRUNING_TYPE}")  # fmt: skip
    container.add_pruning_method(method)
    importance = [scores.get(key, value) for key, value in zip(parameters, values, strict=True)]
    mask = container.compute_mask(parameters_to_vector(importance), parameters_to_vector(masks))
    for (module, name), part in zip(parameters, mask.split([p.numel() for p in values]), strict=True):
        custom_from_mask(module, name, part.view_as(getattr(module, name)))


def remove(module: M, name: str) -> M:
    """Make a pruned parameter, with its zeros, an ordinary one again. Returns the module; ValueError if it is not pruned.

    >>> from tdt.nn.utils import prune
    >>> from tdt import nn
    >>> sorted(prune.remove(prune.identity(nn.Linear(1, 1), "weight"), "weight").state_dict())
    ['bias', 'weight']
    """
    missing = f"Parameter '{name}' of module {module} has to be pruned before pruning can be removed"
    remove_pre_hook(module, BasePruningMethod, name, missing, "_tensor_name")
    return module


def is_pruned(module: Module) -> bool:
    """Whether a parameter of the module, or of one below it, is pruned.

    >>> from tdt.nn.utils import prune
    >>> from tdt import nn
    >>> prune.is_pruned(nn.Sequential(prune.identity(nn.Linear(1, 1), "bias")))
    True
    """
    hooks = (hook for part in module.modules() for hook in part._forward_pre_hooks.values())
    return any(isinstance(hook.call, BasePruningMethod) for hook in hooks)
