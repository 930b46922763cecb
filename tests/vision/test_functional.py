"""Transforms as functions: Pillow's pixels, the steps of the same name, and the kind of image that was given."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image, ImageOps

import tdt
from tdt.vision import transforms
from tdt.vision.transforms import InterpolationMode
from tdt.vision.transforms import functional as F

PIXELS = np.random.RandomState(0).randint(0, 256, (9, 12, 3)).astype(np.uint8)
KINDS = {
    "array": PIXELS,
    "pillow": Image.fromarray(PIXELS),
    "tensor": tdt.from_numpy(PIXELS.transpose(2, 0, 1).copy()),
    "tensors": tdt.from_numpy(np.stack([PIXELS.transpose(2, 0, 1)] * 2)),
}
# A function with arguments, and the same of arrays (H, W, C).
MOVES = [
    (lambda image: F.hflip(image), lambda a: a[:, ::-1]),
    (lambda image: F.vflip(image), lambda a: a[::-1]),
    (lambda image: F.crop(image, 1, 2, 4, 5), lambda a: a[1:5, 2:7]),
    (lambda image: F.crop(image, -2, 9, 5, 6), lambda a: np.pad(a, ((2, 0), (0, 3), (0, 0)))[:5, 9:]),
    (lambda image: F.center_crop(image, [5]), lambda a: a[2:7, 4:9]),
    (lambda image: F.pad(image, [1, 2], 7), lambda a: np.pad(a, ((2, 2), (1, 1), (0, 0)), constant_values=7)),
    (lambda image: F.resize(image, [18, 24], "nearest"), lambda a: a.repeat(2, 0).repeat(2, 1)),
    (lambda image: F.resized_crop(image, 1, 2, 4, 5, (8, 10), "nearest"), lambda a: a[1:5, 2:7].repeat(2, 0).repeat(2, 1)),
    (lambda image: F.adjust_brightness(image, 0.5), lambda a: a // 2),
]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("number", range(len(MOVES)))
def test_pixels_go_where_they_should_and_the_kind_of_image_stays(number: int, kind: str):
    function, expected = MOVES[number]
    image = KINDS[kind]
    output = function(image)
    assert isinstance(output, Image.Image if kind == "pillow" else type(image))
    array = np.asarray(output)
    if kind.startswith("tensor"):
        array = np.moveaxis(array, -3, -1)
    for one in array if kind == "tensors" else [array]:
        np.testing.assert_array_equal(one, expected(PIXELS))


def test_colours_are_pillows_but_for_rounding():
    image = KINDS["pillow"]
    assert F.rgb_to_grayscale(image).mode == "L" and F.to_grayscale(image, 3).mode == "RGB"
    np.testing.assert_allclose(F.rgb_to_grayscale(image), ImageOps.grayscale(image), atol=1)
    np.testing.assert_allclose(
        F.adjust_saturation(image, 0.0), np.asarray(ImageOps.grayscale(image))[..., None].repeat(3, 2), atol=1
    )
    grey = float(np.asarray(ImageOps.grayscale(image), float).mean())
    np.testing.assert_allclose(F.adjust_contrast(image, 0.0), np.full_like(PIXELS, int(grey)), atol=1)
    np.testing.assert_allclose(F.adjust_hue(image, 1 / 3), PIXELS[..., [2, 0, 1]], atol=1)  # red turns green
    with pytest.raises(ValueError, match=r"hue_factor \(0.6\) is not in \[-0.5, 0.5\]"):
        F.adjust_hue(image, 0.6)


def test_conversions_are_those_of_the_steps():
    image = KINDS["pillow"]
    tensor = F.to_tensor(image)
    assert tdt.equal(tensor, transforms.ToTensor()(image)) and tdt.equal(F.pil_to_tensor(image), KINDS["tensor"])
    np.testing.assert_array_equal(
        np.asarray(F.to_pil_image(tensor)), (tensor.numpy().transpose(1, 2, 0) * 255).astype("uint8")
    )
    assert tdt.equal(F.convert_image_dtype(KINDS["tensor"]), tensor)
    normal = transforms.Normalize([0.5] * 3, [0.2] * 3)(tensor)
    assert tdt.equal(F.normalize(tensor, [0.5] * 3, [0.2] * 3), normal)
    assert F.normalize(tensor, [0.5] * 3, [0.2] * 3, inplace=True) is tensor and tdt.equal(tensor, normal)


@pytest.mark.parametrize("kind", KINDS)
def test_sizes_are_reported(kind: str):
    image = KINDS[kind]
    assert transforms.functional.get_dimensions(image) == [3, 9, 12]
    assert F.get_image_size(image) == [12, 9] and F.get_image_num_channels(image) == 3


@pytest.mark.parametrize("mode", list(InterpolationMode))
def test_every_interpolation_mode_resizes_a_pillow_image_as_pillow_does(mode: InterpolationMode):
    image = Image.fromarray(np.arange(64, dtype=np.uint8).reshape(8, 8) * 3)
    name = "NEAREST" if mode is InterpolationMode.NEAREST_EXACT else mode.name
    expected = np.asarray(image.resize((5, 5), Image.Resampling[name]))
    np.testing.assert_array_equal(np.asarray(F.resize(image, [5, 5], mode)), expected)


def test_filters_of_pillow_alone_are_refused_for_tensors():
    x = tdt.arange(16.0).reshape(1, 4, 4)
    exact = tdt.nn.functional.interpolate(x[None], (3, 3), mode="nearest-exact")[0]
    assert F.resize(x, [3, 3], F.InterpolationMode.NEAREST_EXACT).equal(exact)
    with pytest.raises(ValueError, match="interpolation 'lanczos' takes Pillow images and uint8 arrays; for tensors"):
        F.resize(x, [3, 3], F.InterpolationMode.LANCZOS)


def test_v2_transforms_are_those_that_both_versions_have():
    from tdt.compat.vision.transforms import v2

    assert v2.Resize is transforms.Resize
    assert v2.functional.resize is F.resize
    assert v2.functional.InterpolationMode is InterpolationMode
