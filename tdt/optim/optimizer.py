"""Optimizer: parameter groups with their options, state per parameter, hooks, and both as a dict."""

from __future__ import annotations

import copy
import warnings
from collections import defaultdict
from collections.abc import Callable
from itertools import chain
from typing import Any

from tdt._core.mode import state
from tdt._core.tensor import Tensor
from tdt.optim._hooks import (  # noqa: F401 (both of PyTorch's functions are offered here)
    Hooks,
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
    with_hooks,
)
from tdt.optim._params import placed, type_name, unpack_params
from tdt.optim._plan import Plan
from tdt.optim._subclass import *  # noqa: F403 (PyTorch has these names here)
from tdt.optim._subclass import Loss, Params, _group_tensors_by_device_and_dtype


class _Required:
    """The default of an option that every parameter group must give."""

    def __repr__(self) -> str:
        return "<required parameter>"


required = _Required()


class Optimizer(Hooks):
    """Base class of optimizers: a subclass writes `step` and passes the default options.

    `param_groups` holds the options that the next step uses, `state` what is accumulated for each parameter.

    Args:
        params: tensors, or (name, tensor) pairs, or dicts with "params" and options of their own.
        defaults: options of groups that do not state them.
    Raises:
        TypeError: when `params` is a tensor or a set, or contains something other than tensors.
        ValueError: when there are no parameters, one is the result of an operation, or one occurs twice.

    >>> import tdt
    >>> class Descent(tdt.optim.Optimizer):
    ...     @tdt.no_grad()
    ...     def step(self):
    ...         for group in self.param_groups:
    ...             for p in group["params"]:
    ...                 p.sub_(p.grad * group["lr"])
    >>> p = tdt.ones(1, requires_grad=True)
    >>> optimizer = Descent([p], {"lr": 0.5})
    >>> p.backward(); optimizer.step(); p.detach()
    tensor([0.5000])
    """

    _group_tensors_by_device_and_dtype = staticmethod(_group_tensors_by_device_and_dtype)
    _scheduled = _opt_called = False  # whether a schedule has this optimizer, and a step was taken since

    def __init__(self, params: Params, defaults: dict[str, Any]) -> None:
        if isinstance(params, Tensor):
            raise TypeError(
                "params argument given to the optimizer should be an iterable of Tensors or dicts, "
                f"but got {type_name(params)}"
            )
        self.defaults = defaults
        self.state: defaultdict[Any, Any] = defaultdict(dict)
        self.param_groups: list[dict[str, Any]] = []
        self._prepare()
        groups: list[Any] = list(params)
        if not groups:
            raise ValueError("optimizer got an empty parameter list")
        for group in groups if isinstance(groups[0], dict) else [{"params": groups}]:
            self.add_param_group(group)

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "step" in vars(cls):
            cls.step = with_hooks(cls.step)  # type: ignore[method-assign]

    profile_hook_step = staticmethod(with_hooks)

    def _patch_step_function(self) -> None:
        """Let the step hooks run, for subclasses that skip `Optimizer.__init__` and call this as PyTorch's do."""
        if not hasattr(type(self).step, "hooked"):
            type(self).step = with_hooks(type(self).step)  # type: ignore[method-assign]

    def _prepare(self) -> None:
        """What an optimizer has besides its state: nothing of it is saved or copied."""
        self._plans: dict[int, Plan] = {}
        for kind in (
            "step_pre",
            "step_post",
            "state_dict_pre",
            "state_dict_post",
            "load_state_dict_pre",
            "load_state_dict_post",
        ):
            self._hooks_of(kind)
        self._patch_step_function()

    def __getstate__(self) -> dict[str, Any]:
        return {"defaults": self.defaults, "state": self.state, "param_groups": self.param_groups}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._prepare()
        self.defaults.setdefault("differentiable", False)

    def __repr__(self) -> str:
        text = f"{type(self).__name__} ("
        for number, group in enumerate(self.param_groups):
            options = [f"    {name}: {group[name]}\n" for name in sorted(group) if name != "params"]
            text += "".join([f"\nParameter Group {number}\n", *options])
        return text + ")"

    def step(self, closure: Callable[[], Loss] | None = None) -> Loss | None:
        """Update every parameter that has a gradient; returns the value of `closure`, which is called first if given.

        Raises:
            NotImplementedError: when a subclass does not write it.
        """
        raise NotImplementedError(f"{type(self).__name__} must define step")

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients, or with `set_to_none=False` fill them with zeros."""
        recording = state.recording
        for group in self.param_groups:
            for p in group["params"]:
                if set_to_none:
                    p._grad = None
                    if recording is not None:
                        recording.gradients.clear(p)
                elif p._grad is not None:
                    if p._grad.grad_fn is not None:
                        p._grad = p._grad.detach()
                    p._grad._a[...] = 0
                    p._grad._st.bump_version()

    # ---- groups

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Optimize more parameters, for instance of layers that were frozen so far.

        Args:
            param_group: "params" and any options that differ from the defaults.
        Raises:
            TypeError: when `param_group` is not a dict, or contains something other than tensors.
            ValueError: when a required option is missing, or a parameter is the result of an operation or in another
                group.
        """
        if not isinstance(param_group, dict):
            raise TypeError(f"param_group must be a dict, but got {type(param_group)}")
        unpack_params(param_group)
        for p in param_group["params"]:
            self._check_param(p)
        for name, default in self.defaults.items():
            if default is required and name not in param_group:
                raise ValueError(f"parameter group didn't specify a value of required optimization parameter {name}")
            param_group.setdefault(name, default)
        if len(set(param_group["params"])) != len(param_group["params"]):
            warnings.warn(
                "optimizer contains a parameter group with duplicate parameters; in future, this will cause an error",
                stacklevel=3,
            )
        registered = {p for group in self.param_groups for p in group["params"]}
        if any(("param_names" in group) != ("param_names" in param_group) for group in self.param_groups):
            kind = "with" if "param_names" in param_group else "without"
            raise ValueError(
                "all optimizer param groups should be with/without names. "
                f"cannot add param group {kind} names to the optimizer"
            )
        if not registered.isdisjoint(param_group["params"]):
            raise ValueError("some parameters appear in more than one parameter group")
        self.param_groups.append(param_group)

    def _check_param(self, p: Any) -> None:
        if not isinstance(p, Tensor):
            raise TypeError(f"optimizer can only optimize Tensors, but one of the params is {type_name(p)}")
        if not (p.is_leaf or p._retains or self.defaults.get("differentiable")):
            raise ValueError("can't optimize a non-leaf Tensor: pass the tensor it was computed from")

    # ---- as a dict

    def state_dict(self) -> dict[str, Any]:
        """{"state": {number: state}, "param_groups": [options and numbers]}, PyTorch's layout.

        Parameters are numbered in the order of the groups. The tensors are the optimizer's own, not copies.
        """
        for hook in self._hooks_of("state_dict_pre").values():
            hook(self)
        every = list(dict.fromkeys(p for group in self.param_groups for p in group["params"]))
        number = {p: i for i, p in enumerate(every)}
        groups = [
            {
                **{name: value for name, value in group.items() if name != "params"},
                "params": [number[p] for p in group["params"]],
            }
            for group in self.param_groups
        ]
        state = {number[key] if isinstance(key, Tensor) else key: value for key, value in self.state.items()}
        packed = {"state": state, "param_groups": groups}
        for hook in self._hooks_of("state_dict_post").values():
            packed = hook(self, packed) or packed
        return packed

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore what `state_dict` returned, here or in PyTorch; dtypes and devices become those of the parameters.

        Raises:
            ValueError: when the numbers of groups, or of parameters in a group, differ.
        """
        state_dict = dict(state_dict)
        for hook in self._hooks_of("load_state_dict_pre").values():
            state_dict = hook(self, state_dict) or state_dict
        saved = copy.deepcopy(state_dict["param_groups"])
        if len(saved) != len(self.param_groups):
            raise ValueError(
                f"loaded state dict has a different number of parameter groups: {len(saved)}, not {len(self.param_groups)}"
            )
        for old, new in zip(self.param_groups, saved, strict=True):
            if len(old["params"]) != len(new["params"]):
                raise ValueError(
                    "loaded state dict contains a parameter group that doesn't match the size of optimizer's group: "
                    f"{len(new['params'])} parameters, not {len(old['params'])}"
                )
        by_number = dict(
            zip(
                chain.from_iterable(group["params"] for group in saved),
                chain.from_iterable(group["params"] for group in self.param_groups),
                strict=True,
            )
        )
        state: defaultdict[Any, Any] = defaultdict(dict)
        for key, value in state_dict["state"].items():
            state[by_number.get(key, key)] = placed(by_number[key], value) if key in by_number else value
        for old, new in zip(self.param_groups, saved, strict=True):
            new["params"] = old["params"]
            if "param_names" in old:
                new.setdefault("param_names", old["param_names"])
        self.__setstate__({"state": state, "param_groups": saved})
        for hook in self._hooks_of("load_state_dict_post").values():
            hook(self)
