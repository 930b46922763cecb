"""Tensor (an array with an autograd edge), Storage (shared memory and version counter) and View (relation to the base)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tdt import _backend
from tdt._backend.device import as_device, device
from tdt._core import dtype as _dtype
from tdt._core.dtype import BY_NUMPY
from tdt._core.mode import relation_read, state
from tdt._core.size import Size

_FLOAT32 = _dtype.float32.np
DETACHED = "detached"  # of a storage's `inference`
LEAF = ("leaf", 0)  # the edge of a leaf tensor that requires a gradient


class Storage:
    """The state that a tensor shares with all its views.

    `version` counts in-place writes. `inference`: whether it was created in inference mode; DETACHED if it was detached from
    such a tensor outside that mode: it may be written to, but not saved for backward. `whole`: the array whose bytes are the
    storage, if that array is a part of a larger one that the caller owns; else None.
    """

    version = 0
    inference: bool | str = False
    whole: Any = None

    def bump_version(self) -> None:
        """Count an in-place write, so that a backward pass that saved the values before it is refused."""
        self.version += 1


class View:
    """How a tensor is a view of another tensor, its `base`.

    `source`: the View of the tensor that the view op was called on, None if that tensor is the base itself. `step`: the
    view op, its attributes and the output number. `version`: that of the storage when the tensor's edge was last up to
    date; a write through the base or another view makes the edge stale. `creation_meta`: how the view was created, "",
    "no_grad", "multi" (an op with several views) or "inference", which decides whether in-place writes are allowed.
    `base_array`: the base's array when the view was created; in-place view ops such as `t_` replace the base's array.
    """

    __slots__ = ("base", "source", "step", "version", "creation_meta", "base_array")

    def __init__(
        self, base: Tensor, source: View | None, step: tuple, version: int, creation_meta: str, base_array: Any
    ):
        self.base, self.source, self.step = base, source, step
        self.version, self.creation_meta, self.base_array = version, creation_meta, base_array


class Tensor:
    """An n-dimensional array with automatic differentiation. Created by `tdt.tensor`, `tdt.zeros`, … and by every op.

    >>> import tdt
    >>> x = tdt.tensor([1.0, 2.0], requires_grad=True)
    >>> (x * x).sum().backward()
    >>> x.grad
    tensor([2., 4.])
    """

    __slots__ = ("_a", "_st", "_edge", "_view", "_grad", "__dict__", "__weakref__")
    _a: Any  # the array: NumPy's or CuPy's, a MetaArray or a SparseCOO
    _st: Storage  # shared with all views of the same memory
    _edge: (
        tuple[Any, int] | None
    )  # where the gradient goes: (node, output number), LEAF, or None if it does not require one
    _view: View | None  # None unless the tensor is a view
    _grad: Tensor | None
    _hooks: dict | None = None  # of `register_hook` on a leaf; those of computed tensors belong to their node
    _post_hooks: dict | None = None  # of `register_post_accumulate_grad_hook`
    _node_hooks: Any = None  # NodeHooks of a leaf's AccumulateGrad, which is created on each access
    _retains = False  # whether `retain_grad` was called
    _begin_with: Callable[..., None]  # for the first tensor of a subclass: `tdt._core.torch_function._begin_with`
    _fill: Callable[..., None]  # implementation of the legacy constructor: `tdt._core.legacy_constructor.fill`
    __array_priority__ = 1000  # makes NumPy call Tensor's reflected operators for `array + tensor`
    __hash__ = object.__hash__

    def __new__(cls, *args: Any, dtype: Any = None, device: Any = None) -> Tensor:
        """Legacy constructor: `Tensor(2, 3)` is an uninitialised tensor of that shape, `Tensor([1, 2])` has those values."""
        tensor = object.__new__(cls)
        if cls is not Tensor:
            Tensor._begin_with(cls)
        tensor._a, tensor._st, tensor._edge, tensor._view, tensor._grad = _EMPTY, Storage(), None, None, None
        if args or dtype or device is not None or _dtype.get_default_dtype() is not _dtype.float32:
            first = args[0] if len(args) == 1 else None
            kind = first.dtype if isinstance(first, Tensor) else _dtype.as_dtype(dtype or _dtype.get_default_dtype())
            Tensor._fill(tensor, args, kind, as_device(device))
        return tensor

    @property
    def shape(self) -> Size:
        """Sizes of the dimensions."""
        return Size(self._a.shape)

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return self._a.ndim

    @property
    def dtype(self) -> _dtype.dtype:
        """Data type of the elements."""
        kind = self._a.dtype
        if kind is _FLOAT32:  # a lookup takes as long as all the rest
            return _dtype.float32
        found = BY_NUMPY.get(kind)
        return _dtype.of(kind) if found is None else found

    @property
    def device(self) -> device:
        """Device that holds the elements."""
        return _backend.device_of(self._a)

    @property
    def is_cuda(self) -> bool:
        """Whether the elements are on a GPU."""
        return _backend.device_of(self._a).type == "cuda"

    @property
    def _version(self) -> int:
        if self._st.inference is True:
            raise RuntimeError("Inference tensors do not track version counter. clone() gives a normal tensor.")
        relation_read("Tensor._version")
        return self._st.version

    def is_inference(self) -> bool:
        """Whether the tensor was created in inference mode, or detached from one that was.

        >>> import tdt
        >>> tdt.zeros(1).is_inference()
        False
        """
        return bool(self._st.inference)

    @property
    def itemsize(self) -> int:
        """Number of bytes per element."""
        return self._a.itemsize

    @property
    def nbytes(self) -> int:
        """Number of bytes of all elements."""
        return self._a.size * self._a.itemsize

    def size(self, dim: int | None = None) -> Any:
        """The shape, or the size of dimension `dim`.

        >>> import tdt
        >>> tdt.zeros(2, 3).size(), tdt.zeros(2, 3).size(1)
        (tdt.Size([2, 3]), 3)
        """
        return self.shape if dim is None else self._a.shape[check_dim(dim, self._a.ndim)]

    def dim(self) -> int:
        """Number of dimensions.

        >>> import tdt
        >>> tdt.zeros(2, 3).dim()
        2
        """
        return self._a.ndim

    def numel(self) -> int:
        """Number of elements.

        >>> import tdt
        >>> tdt.zeros(2, 3).nelement()
        6
        """
        return self._a.size

    nelement = numel
    ndimension = dim

    def element_size(self) -> int:
        """Number of bytes per element.

        >>> import tdt
        >>> tdt.zeros(1).element_size()
        4
        """
        return self._a.itemsize

    def stride(self, dim: int | None = None) -> Any:
        """Distance in elements between neighbours along each dimension, or along `dim`.

        Dimensions of size 1 may have another stride than in PyTorch; the stride has no effect.

        >>> import tdt
        >>> tdt.zeros(2, 3).stride()
        (3, 1)
        """
        strides = tuple(s // self._a.itemsize for s in _backend.strides(self._a))
        return strides if dim is None else strides[check_dim(dim, self._a.ndim)]

    def is_floating_point(self) -> bool:
        """Whether the elements are real floating-point numbers.

        >>> import tdt
        >>> tdt.zeros(1).is_floating_point()
        True
        """
        return self.dtype.is_floating_point

    def is_complex(self) -> bool:
        """Whether the elements are complex numbers.

        >>> import tdt
        >>> tdt.zeros(1).is_complex()
        False
        """
        return self.dtype.is_complex

    def is_signed(self) -> bool:
        """Whether the dtype can represent negative numbers.

        >>> import tdt
        >>> tdt.zeros(1, dtype=tdt.uint8).is_signed()
        False
        """
        return self.dtype.is_signed


_EMPTY = np.empty(0, np.float32)
_new = object.__new__


def wrap(array: Any) -> Tensor:
    """Wrap `array` in a tensor that shares its memory and does not require a gradient."""
    t = _new(Tensor)
    t._a = array
    t._st = Storage()
    t._edge = t._view = t._grad = None
    return t


def wrap_new(array: Any) -> Tensor:
    """`wrap`, of the memory of a new tensor: in inference mode it is noted as created there."""
    t = wrap(array)
    if state.inference:
        t._st.inference = True
    return t


def alias(array: Any, edge: tuple | None, storage: Storage | None = None) -> Tensor:
    """Wrap `array` in a tensor with the given autograd edge, and storage if given."""
    t = _new(Tensor)
    t._a = array
    t._st = Storage() if storage is None else storage
    t._edge = edge
    t._view = t._grad = None
    return t


def check_dim(dim: int, ndim: int) -> int:
    """`dim` counted from the front; IndexError outside [-ndim, ndim), where a 0-d tensor counts as 1-d."""
    n = ndim or 1
    if not -n <= dim < n:
        raise IndexError(f"Dimension out of range (expected to be in range of [{-n}, {n - 1}], but got {dim})")
    return dim % n
