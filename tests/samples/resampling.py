"""Samples of resampling."""

from tdt._ops.nn._resampling import Axis
from tests.samples._sample import by_torch, call, samples, x

MODES = {"mean": ("area",) * 3, "linear": ("linear", "bilinear", "trilinear"), "cubic": (None, "bicubic")}


def by_interpolate(torch, a, axes):
    """`axes` are of one kind, have their corners aligned or not, and none is turned."""
    kind, dims = axes[0].kind, len(axes)
    size = [axis.outside if axis else n for axis, n in zip(axes, a.shape[2:], strict=True)]
    mode = MODES.get(kind.split()[0], (kind,) * dims)[dims - 1]
    align = None if mode in ("area", "nearest", "nearest-exact") else axes[0].align_corners
    antialias = kind.endswith("antialias")
    return torch.nn.functional.interpolate(a, size, None, mode, align, antialias=antialias)


samples(
    "resample",
    by_torch(by_interpolate),
    call(x(2, 3, 4), axes=(Axis(4, 7, "linear"),)),
    call(x(2, 2, 3, 4), axes=(Axis(3, 6, "nearest"), Axis(4, 3, "nearest"))),
    call(x(2, 5, 6, 4).transpose(0, 3, 1, 2), axes=(Axis(5, 8, "cubic", None, True), Axis(6, 3, "cubic", None, True))),
    call(x(1, 2, 5, 7), axes=(Axis(5, 3, "linear antialias"), Axis(7, 4, "linear antialias"))),
    call(x(1, 2, 2, 3, 2), axes=(Axis(2, 3, "linear"), None, Axis(2, 5, "linear"))),
    call(x(0, 2, 3), axes=(Axis(3, 2, "nearest-exact"),)),
    call(x(1, 2, 5), axes=(Axis(5, 3, "mean"),)),
)
