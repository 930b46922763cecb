"""Resampling beside PyTorch's: every mode, size and scale, dtype and memory format."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import tdt
from tests.helpers import require_torch
from tests.nn._compare import agree, agree_error, agree_module, numbers

torch = require_torch()

PLACES = {"linear": 1, "bilinear": 2, "bicubic": 2, "lanczos": 2, "trilinear": 3}
FLOAT_ONLY = (("linear", "uint8"), ("trilinear", "uint8"))
SIZES = [{"size": n} for n in (2, 3, 7, 10)] + [
    {"scale_factor": s, "recompute_scale_factor": again} for s in (2, 0.5, 1.05, 2.7, 0.3) for again in (None, True)
]
CASES = [
    (mode, dims, align, antialias)
    for mode in ("nearest", "nearest-exact", "linear", "bilinear", "bicubic", "lanczos", "trilinear")
    for dims in ((PLACES[mode],) if mode in PLACES else (1, 2, 3))
    for align in ((False, True) if mode in PLACES and mode != "lanczos" else (None,))
    for antialias in {"bilinear": (False, True), "bicubic": (False, True), "lanczos": (True,)}.get(mode, (False,))
]


@pytest.mark.parametrize(
    ("mode", "dims", "align", "antialias", "kind"),
    [(*case, kind) for case in CASES for kind in ("float64", "float32", "uint8") if (case[0], kind) not in FLOAT_ONLY],
)
def test_values_and_memory_format_are_pytorchs(mode, dims, align, antialias, kind):
    shape = (2, 3, *(5, 7, 5)[:dims])
    x = (
        np.random.default_rng(0).integers(0, 256, shape).astype(kind)
        if kind == "uint8"
        else numbers(*shape, dtype=kind)
    )
    for how, last in itertools.product(SIZES, (False, True) if dims == 2 else (False,)):
        found = []
        for lib in (tdt, torch):
            t = lib.from_numpy(x)
            t = t.contiguous(memory_format=lib.channels_last) if last else t
            found.append(lib.nn.functional.interpolate(t, mode=mode, align_corners=align, antialias=antialias, **how))
        assert found[0].stride() == found[1].stride(), how
        ours, theirs = (t.numpy().astype("float64") for t in found)
        rounding = {"float64": 1e-13, "float32": 4e-6, "uint8": 0}[kind]
        np.testing.assert_allclose(ours, theirs, rtol=rounding, atol=rounding, err_msg=str(how))


@pytest.mark.parametrize("dims", [1, 2, 3])
def test_nearest_places_follow_a_scale_that_happens_to_double_a_size(dims):
    x = numbers(2, 3, *(2, 2, 3)[3 - dims :])
    found = [lib.nn.functional.interpolate(lib.from_numpy(x), scale_factor=2.3).tolist() for lib in (tdt, torch)]
    assert found[0] == found[1]


@pytest.mark.parametrize(("mode", "dims", "align", "antialias"), CASES)
def test_gradients_are_pytorchs_and_right_to_second_order(mode, dims, align, antialias):
    how = {"mode": mode, "align_corners": align, "antialias": antialias}
    shape = (2, 2, *(5, 4, 3)[:dims])
    for size in (1, 3, 8):
        agree(lambda lib, x: lib.nn.functional.interpolate(x, size, **how), numbers(*shape, dtype="float64"))
    small = tdt.from_numpy(numbers(1, 1, *(3, 2, 2)[:dims], dtype="float64")).requires_grad_()
    assert tdt.autograd.gradgradcheck(lambda x: tdt.nn.functional.interpolate(x, 3, **how), small)


def test_means_of_an_image_keep_its_memory_format_and_a_nan_to_its_own_cell():
    x = numbers(2, 3, 5, 7)
    x[0, 1, 2, 2] = np.nan
    for size in ((3, 4), (5, 3), (2, 0)):
        found = []
        for lib in (tdt, torch):
            t = lib.from_numpy(x).contiguous(memory_format=lib.channels_last)
            found.append(lib.nn.functional.adaptive_avg_pool2d(t, size))
        ours, theirs = found
        assert tuple(ours.stride()) == tuple(theirs.stride()) or not theirs.numel()
        np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=1e-5, atol=1e-6)


def test_area_is_an_adaptive_mean():
    agree(lambda lib, x: lib.nn.functional.interpolate(x, scale_factor=0.6, mode="area"), numbers(2, 3, 7))
    agree(lambda lib, x: lib.nn.functional.interpolate(x, (3, 9), mode="area"), numbers(2, 3, 7, 5))
    agree(lambda lib, x: lib.nn.functional.interpolate(x, 2, mode="area"), numbers(2, 3, 4, 5, 4))


def test_non_finite_values_reach_what_depends_on_them():
    x = numbers(1, 1, 5, 6)
    x[0, 0, 1, 2], x[0, 0, 3, 4] = np.nan, np.inf
    for mode in ("nearest", "bilinear", "bicubic"):
        agree(lambda lib, t: lib.nn.functional.interpolate(t.detach(), size=(9, 11), mode=mode), x)


@pytest.mark.parametrize("call", [
    lambda f, lib: f(lib.ones(1, 1, 4)),
    lambda f, lib: f(lib.ones(1, 1, 4), 3, 2.0),
    lambda f, lib: f(lib.ones(1, 1, 4), 3, align_corners=True),
    lambda f, lib: f(lib.ones(1, 1, 4), 3, mode="bilinear"),
    lambda f, lib: f(lib.ones(1, 1, 4, 4), 3, mode="trilinear"),
    lambda f, lib: f(lib.ones(1, 1, 4, 4, 4), 3, mode="linear"),
    lambda f, lib: f(lib.ones(1, 1, 4, 4), 3, recompute_scale_factor=True),
])  # fmt: skip
def test_contradictory_arguments_are_refused_with_pytorchs_message(call):
    agree_error(lambda lib: call(lib.nn.functional.interpolate, lib))


@pytest.mark.parametrize(("call", "clause"), [
    (lambda f, lib: f(lib.ones(1, 1, 4, 4), (3, 3, 3)), "Input and output must have the same number of spatial dimensions"),
    (lambda f, lib: f(lib.ones(1, 1, 4, 4), scale_factor=(2.0,)), "Input and scale_factor must have the same number of"),
    (lambda f, lib: f(lib.ones(1, 1, 4, 4), (2.5, 3)), "expected size to be one of int or"),
    (lambda f, lib: f(lib.ones(1, 1, 4, 4), 0), "Input and output sizes should be greater than 0"),
    (lambda f, lib: f(lib.ones(1, 1, 4), 3, antialias=True), "Anti-alias option is restricted to bilinear, bicubic, and"),
    (lambda f, lib: f(lib.ones(1, 1, 4, 4), 3, mode="lanczos"), "Lanczos mode requires antialias=True"),
    (lambda f, lib: f(lib.ones(1, 4), 3), "Got 2D input, but nearest mode needs 3D or 4D or 5D input"),
    (lambda f, lib: f(lib.ones(1, 1, 4), 3, mode="round"), "unknown mode 'round'"),
    (lambda f, lib: f(lib.ones(1, 1, 4, dtype=lib.int64), 3), "not implemented for"),
    (lambda f, lib: f(lib.ones(1, 1, 4, dtype=lib.uint8), 3, mode="linear"), "not implemented for"),
])  # fmt: skip
def test_bad_arguments_are_refused_with_pytorchs_class(call, clause):
    agree_error(lambda lib: call(lib.nn.functional.interpolate, lib), clause)


def test_the_layers_are_pytorchs():
    agree_module(lambda lib: lib.nn.Upsample(scale_factor=(2, 1.5), mode="bilinear", recompute_scale_factor=True),
                 numbers(2, 3, 4, 5))  # fmt: skip
    agree_module(lambda lib: lib.nn.Upsample(size=7), numbers(2, 3, 4))
    agree_module(lambda lib: lib.nn.UpsamplingNearest2d(scale_factor=3), numbers(2, 3, 4, 5))
    agree_module(lambda lib: lib.nn.UpsamplingBilinear2d(size=(7, 3)), numbers(2, 3, 4, 5))


@pytest.mark.parametrize("name", ["upsample", "upsample_nearest", "upsample_bilinear"])
def test_the_former_names_warn_and_do_the_same(name):
    with pytest.warns(UserWarning, match=f"{name}. is deprecated"):
        agree(lambda lib, x: getattr(lib.nn.functional, name)(x, scale_factor=2), numbers(2, 3, 4, 5))
