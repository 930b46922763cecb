"""Layer, group, instance, root-mean-square and response normalisation, beside PyTorch's."""

from __future__ import annotations

import pytest

import tdt
from tests.helpers import require_torch
from tests.nn._compare import agree_error, agree_module, numbers

torch = require_torch()

SHAPES = {1: (2, 3, 5), 2: (2, 3, 4, 5), 3: (2, 3, 2, 4, 3)}


@pytest.mark.parametrize("train", [True, False])
@pytest.mark.parametrize("options", [{}, {"affine": True}, {"affine": True, "bias": False}, {"track_running_stats": True},
                                     {"track_running_stats": True, "momentum": None, "eps": 0.1}], ids=str)  # fmt: skip
@pytest.mark.parametrize("dims", [1, 2, 3])
def test_instance_norm_is_pytorchs(dims, options, train):
    make = lambda lib: getattr(lib.nn, f"InstanceNorm{dims}d")(3, **options)  # noqa: E731
    agree_module(make, numbers(*SHAPES[dims]), train=train, calls=2)
    agree_module(make, numbers(*SHAPES[dims][1:], dtype="float64"), train=train)


@pytest.mark.parametrize("call", [
    lambda lib: lib.nn.InstanceNorm1d(3)(lib.ones(2, 3, 4, 4)),
    lambda lib: lib.nn.InstanceNorm3d(3)(lib.ones(2, 3, 4)),
    lambda lib: lib.nn.InstanceNorm2d(3, affine=True)(lib.ones(2, 4, 4, 4)),
    lambda lib: lib.nn.InstanceNorm2d(3)(lib.ones(2, 3, 1, 1)),
    lambda lib: lib.nn.functional.instance_norm(lib.ones(2, 3, 4), use_input_stats=False),
    lambda lib: lib.nn.functional.instance_norm(lib.ones(2, 3, 4), weight=lib.ones(2)),
])  # fmt: skip
def test_instance_norm_refuses_what_pytorch_refuses(call):
    agree_error(call)


def test_instance_norm_without_affine_warns_of_another_number_of_channels():
    for lib in (tdt, torch):
        with pytest.warns(UserWarning, match=r"input's size at dim=1 does not match num_features"):
            lib.nn.InstanceNorm1d(3)(lib.ones(2, 4, 5))


def test_an_old_state_with_running_statistics_says_why_it_does_not_fit_an_instance_norm():
    for lib in (tdt, torch):
        layer = lib.nn.InstanceNorm2d(3)
        with pytest.raises(RuntimeError, match=r"Unexpected running stats buffer\(s\)") as error:
            layer.load_state_dict({"running_mean": lib.zeros(3), "running_var": lib.ones(3)})
        assert "running_mean" in str(error.value)
