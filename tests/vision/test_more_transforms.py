"""Transforms against Pillow, and against torchvision's documented formulas with PyTorch's draws."""

from __future__ import annotations

import colorsys
import math

import numpy as np
import pytest
from PIL import Image

import tdt
from tdt.vision.transforms import (
    CenterCrop,
    ColorJitter,
    Compose,
    ConvertImageDtype,
    Grayscale,
    Pad,
    RandomErasing,
    RandomHorizontalFlip,
    RandomRotation,
    RandomVerticalFlip,
    Resize,
    ToDtype,
    ToTensor,
)
from tests.helpers import require_torch


def pixels(*shape: int) -> np.ndarray:
    return np.random.RandomState(0).randint(0, 256, shape).astype(np.uint8)


FORMS = {
    "grey": lambda images: images[..., 0],
    "colour": lambda images: images,
    "tensor": lambda images: tdt.from_numpy(np.ascontiguousarray(images.transpose(0, 3, 1, 2))),
    "floats": lambda images: tdt.from_numpy(np.ascontiguousarray(images.transpose(0, 3, 1, 2))).float() / 255,
}
STEPS = [
    Resize((5, 9)), Resize(4), CenterCrop((4, 12)), Pad((1, 2)), Grayscale(), RandomHorizontalFlip(), RandomVerticalFlip(),
    RandomRotation(30), RandomRotation(9, "bilinear"),
    ColorJitter(0.4, 0.4, 0.4, 0.1), RandomErasing(0.7), RandomErasing(1.0, value="random"),
]  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("step", STEPS, ids=repr)
def test_a_batch_is_its_images_one_by_one(step, form):
    if isinstance(step, RandomErasing) and form in ("grey", "colour"):
        with pytest.raises(TypeError, match="put ToTensor before it"):
            step(pixels(8, 8))
        return
    images = FORMS[form](pixels(20, 8, 10, 3))
    step.draw_from(tdt.Generator().manual_seed(3))
    batch = step.batch(images)
    step.draw_from(tdt.Generator().manual_seed(3))
    singles = [step(image) for image in images]
    for one, other in zip(batch, singles, strict=True):
        assert type(one) is type(other) and one.dtype == other.dtype and one.shape == other.shape
        np.testing.assert_array_equal(np.asarray(one), np.asarray(other))


@pytest.mark.parametrize("size", [4, (3, 15), 16])
@pytest.mark.parametrize("kind", ["nearest", "bilinear", "bicubic"])
def test_resize_is_pillows(size, kind):
    image = pixels(8, 12, 3)
    target = {4: (4, 6), 16: (16, 24)}.get(size, size)
    expected = Image.fromarray(image).resize(target[::-1], getattr(Image.Resampling, kind.upper()))
    np.testing.assert_array_equal(Resize(size, kind)(Image.fromarray(image)), np.asarray(expected))
    np.testing.assert_array_equal(Resize(size, kind)(image[..., 0]), np.asarray(expected)[..., 0])


def test_resize_of_tensors_is_interpolate_and_max_size_bounds():
    torch = require_torch()
    x = np.random.RandomState(0).rand(2, 3, 9, 12).astype(np.float32)
    expected = torch.nn.functional.interpolate(torch.from_numpy(x), (6, 8), mode="bilinear", antialias=True)
    np.testing.assert_allclose(Resize(6).batch(tdt.from_numpy(x)).numpy(), expected.numpy(), rtol=1e-5, atol=1e-6)
    assert Resize(6, max_size=7)(x[0, 0]).shape == (5, 7)
    with pytest.raises(ValueError, match="max_size goes with one number"):
        Resize((4, 4), max_size=9)
    with pytest.raises(ValueError, match="interpolation 'box'"):
        Resize(4, "box").batch(tdt.from_numpy(x))


@pytest.mark.parametrize("angle", [0, 1, 17.5, 45, 90, 180, 270, -60, 359])
@pytest.mark.parametrize("shape", [(9, 9), (8, 13)])
@pytest.mark.parametrize("center", [None, (2.0, 3.0)])
@pytest.mark.parametrize("kind", ["nearest", "bilinear"])
def test_rotation_is_pillows(angle, shape, center, kind):
    image = pixels(*shape)
    rotated = RandomRotation((angle, angle), kind, center=center, fill=9)(image)
    turned = Image.fromarray(image).rotate(angle, getattr(Image.Resampling, kind.upper()), center=center, fillcolor=9)
    np.testing.assert_array_equal(rotated, np.asarray(turned))


def test_flips_and_rotations_take_pytorchs_draws():
    torch = require_torch()
    images = pixels(30, 5, 5)
    torch.manual_seed(1)
    flipped = [image[:, ::-1] if torch.rand(1) < 0.3 else image for image in images]
    tdt.manual_seed(1)
    np.testing.assert_array_equal(RandomHorizontalFlip(0.3).batch(images), flipped)
    torch.manual_seed(1)
    angles = [float(torch.empty(1).uniform_(-20.0, 20.0)) for _ in images]
    turned = [np.asarray(Image.fromarray(i).rotate(a)) for i, a in zip(images, angles, strict=True)]
    tdt.manual_seed(1)
    np.testing.assert_array_equal(RandomRotation(20).batch(images), turned)
    np.testing.assert_array_equal(RandomVerticalFlip(1.0).batch(images), images[:, ::-1])


def test_center_crop_and_pad_are_slices_and_borders():
    image = pixels(9, 7)
    np.testing.assert_array_equal(CenterCrop((4, 3))(image), image[2:6, 2:5])
    np.testing.assert_array_equal(CenterCrop((4, 10))(image), np.pad(image, ((0, 0), (1, 2)))[2:6])
    np.testing.assert_array_equal(Pad((1, 2, 3, 4), fill=5)(image), np.pad(image, ((2, 4), (1, 3)), constant_values=5))
    np.testing.assert_array_equal(Pad(2, padding_mode="reflect")(image), np.pad(image, 2, "reflect"))
    with pytest.raises(ValueError, match="Pad: padding takes 1, 2 or 4 numbers"):
        Pad((1, 2, 3))
    with pytest.raises(ValueError, match="Pad: padding_mode 'wrap'"):
        Pad(1, padding_mode="wrap")


def test_grayscale_weighs_the_channels():
    image = pixels(6, 5, 3)
    expected = (image.astype(np.float32) @ np.array([0.2989, 0.587, 0.114], np.float32)).astype(np.uint8)
    np.testing.assert_array_equal(Grayscale()(image)[..., 0], expected)
    assert abs(expected.astype(int) - np.asarray(Image.fromarray(image).convert("L"))).max() <= 1
    assert Grayscale(3)(image).shape == (6, 5, 3)
    assert Grayscale(3)(image[..., 0]).shape == (6, 5, 3)
    with pytest.raises(ValueError, match="1 or 3 channels, got 4"):
        Grayscale()(pixels(6, 5, 4))


def test_jitter_draws_order_and_factors_as_torchvision_does():
    torch = require_torch()
    images = np.random.RandomState(0).rand(12, 3, 4, 5).astype(np.float32)

    def grey(x):
        return 0.2989 * x[0] + 0.587 * x[1] + 0.114 * x[2]

    def hue(x, turn):
        turned = [colorsys.hsv_to_rgb((h + turn) % 1, s, v) for h, s, v in
                  (colorsys.rgb_to_hsv(*map(float, rgb)) for rgb in x.reshape(3, -1).T)]  # fmt: skip
        return np.array(turned).T.reshape(x.shape)

    change = [
        lambda x, f: np.clip(f * x, 0, 1),
        lambda x, f: np.clip(f * x + (1 - f) * grey(x).mean(), 0, 1),
        lambda x, f: np.clip(f * x + (1 - f) * grey(x), 0, 1),
        hue,
    ]
    torch.manual_seed(4)
    expected = []
    for x in images.astype(np.float64):
        order = torch.randperm(4)
        factors = [float(torch.empty(1).uniform_(*r)) for r in ((0.5, 1.5), (0.2, 1.8), (0.0, 2.5), (-0.3, 0.3))]
        for i in order:
            x = change[i](x, factors[i])
        expected.append(x)
    tdt.manual_seed(4)
    jittered = ColorJitter(0.5, 0.8, (0.0, 2.5), 0.3).batch(tdt.from_numpy(images))
    np.testing.assert_allclose(jittered.numpy(), np.stack(expected), rtol=0, atol=2e-6)


def test_jitter_of_grey_images_and_ranges_that_are_none():
    image = pixels(4, 4)
    np.testing.assert_array_equal(ColorJitter(saturation=0.9, hue=0.4)(image), image)
    np.testing.assert_array_equal(ColorJitter(brightness=(2, 2))(image), np.minimum(image.astype(int) * 2, 255))
    for arguments in ({"brightness": -0.1}, {"hue": 0.6}, {"contrast": (2.0, 1.0)}):
        with pytest.raises(ValueError, match="is no range within"):
            ColorJitter(**arguments)


def test_erasing_takes_torchvisions_draws():
    torch = require_torch()
    images = np.random.RandomState(0).rand(25, 2, 9, 12).astype(np.float32)
    expected = images.copy()
    torch.manual_seed(2)
    low, high = torch.log(torch.tensor((0.3, 3.3))).tolist()
    for image in expected:
        if torch.rand(1) >= 0.6:
            continue
        for _ in range(10):
            area = 108 * torch.empty(1).uniform_(0.02, 0.5).item()
            aspect = torch.exp(torch.empty(1).uniform_(low, high)).item()
            h, w = round(math.sqrt(area * aspect)), round(math.sqrt(area / aspect))
            if h < 9 and w < 12:
                noise = torch.empty([2, h, w]).normal_()
                i, j = (torch.randint(0, n, (1,)).item() for n in (9 - h + 1, 12 - w + 1))
                image[:, i : i + h, j : j + w] = noise
                break
    tdt.manual_seed(2)
    erased = RandomErasing(0.6, scale=(0.02, 0.5), value="random").batch(tdt.from_numpy(images)).numpy()
    np.testing.assert_allclose(erased, expected, rtol=1e-6, atol=1e-6)
    one = RandomErasing(1.0, value=[7, 8])(tdt.zeros(2, 9, 9))
    assert set(np.unique(one[0].numpy())) == {0, 7} and set(np.unique(one[1].numpy())) == {0, 8}
    with pytest.raises(ValueError, match="p, scale and ratio are shares"):
        RandomErasing(scale=(0.5, 0.1))


def test_dtypes_keep_white_white():
    white = tdt.tensor([[[0, 255]]], dtype=tdt.uint8)
    assert ConvertImageDtype()(white).tolist() == [[[0.0, 1.0]]]
    assert ConvertImageDtype(tdt.uint8)(tdt.tensor([[[0.0, 0.5, 1.0]]])).tolist() == [[[0, 127, 255]]]
    assert ConvertImageDtype(tdt.int16)(white).tolist() == [[[0, 255 * 128]]]
    assert ConvertImageDtype(tdt.uint8)(ConvertImageDtype(tdt.int16)(white)).tolist() == white.tolist()


def test_to_dtype_keeps_values_or_scales_them():
    white = tdt.tensor([[[0, 255]]], dtype=tdt.uint8)
    assert ToDtype()(white).tolist() == [[[0.0, 255.0]]] and ToDtype()(tdt.tensor([3])).dtype is tdt.float32
    assert ToDtype(tdt.float64, scale=True)(white).tolist() == [[[0.0, 1.0]]]


def test_steps_after_one_another_take_pillow_images():
    image = Image.fromarray(pixels(40, 30, 3))
    steps = Compose([Resize(16), CenterCrop(12), RandomHorizontalFlip(), ColorJitter(0.1), ToTensor(), RandomErasing()])
    assert steps(image).shape == (3, 12, 12)
