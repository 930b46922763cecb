"""Transforms against their definitions; random ones against PyTorch's draws, taken as torchvision takes them."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

import tdt
from tdt.vision.transforms import Compose, Normalize, RandomCrop, ToTensor, Transform
from tests.helpers import require_torch


def pixels(*shape: int, dtype: type = np.uint8) -> np.ndarray:
    return np.random.RandomState(0).randint(0, 256, shape).astype(dtype)


def equal(tensor, array) -> None:
    np.testing.assert_array_equal(tensor.numpy() if isinstance(tensor, tdt.Tensor) else tensor, array)


def test_to_tensor_scales_bytes_and_moves_channels_first():
    image = pixels(5, 4, 3)
    output = ToTensor()(image)
    assert output.dtype == tdt.float32
    equal(output, (image / np.float32(255)).transpose(2, 0, 1))
    assert output.is_contiguous()


def test_to_tensor_keeps_other_dtypes_and_their_values():
    image = pixels(5, 4, dtype=np.float64)
    output = ToTensor()(image)
    assert output.dtype == tdt.float64
    equal(output, image[None])


def test_to_tensor_takes_pillow_images():
    image = pixels(5, 4, 3)
    equal(ToTensor()(Image.fromarray(image)), ToTensor()(image).numpy())


def test_to_tensor_refuses_what_is_no_image():
    with pytest.raises(ValueError, match=r"expected arrays \(H, W\) or \(H, W, C\), got ndarray of shape \(3,\)"):
        ToTensor()(np.zeros(3))
    with pytest.raises(ValueError, match="got Tensor"):
        ToTensor()(tdt.zeros(1, 3, 3))


def test_normalize_subtracts_and_divides_per_channel():
    x = pixels(2, 3, 4, 4, dtype=np.float32)
    output = Normalize(mean=[1.0, 2.0, 3.0], std=(4.0, 5.0, 6.0)).batch(tdt.from_numpy(x))
    mean, std = (np.array(v, np.float32).reshape(3, 1, 1) for v in ([1, 2, 3], [4, 5, 6]))
    equal(output, (x - mean) / std)
    assert output.dtype == tdt.float32


def test_normalize_refuses_zero_std_and_integers():
    with pytest.raises(ValueError, match="std must not be 0"):
        Normalize(0.5, [1.0, 0.0])
    with pytest.raises(TypeError, match="floating-point"):
        Normalize(0.5, 0.5)(tdt.zeros(1, 2, 2, dtype=tdt.int64))
    with pytest.raises(TypeError, match="put ToTensor before it"):
        Normalize(0.5, 0.5)(np.zeros((2, 2)))


def windows(image: np.ndarray, crop: np.ndarray) -> bool:
    """Whether `crop` is a window of `image` (both (H, W))."""
    h, w = crop.shape
    places = np.lib.stride_tricks.sliding_window_view(image, (h, w)).reshape(-1, h, w)
    return bool((places == crop).all((1, 2)).any())


@pytest.mark.parametrize("layout", ["array", "channels", "tensor"])
def test_random_crop_cuts_a_window_of_every_layout(layout: str):
    images = pixels(20, 7, 6) + 1
    padded = np.pad(images, ((0, 0), (1, 1), (2, 2)))
    batches = {"array": images, "channels": np.stack([images, images], -1), "tensor": tdt.from_numpy(images[:, None])}
    cropped = RandomCrop((5, 4), padding=(2, 1)).batch(batches[layout])
    cropped = cropped.numpy() if layout == "tensor" else cropped
    assert cropped.shape == {"array": (20, 5, 4), "channels": (20, 5, 4, 2), "tensor": (20, 1, 5, 4)}[layout]
    flat = {"array": cropped, "channels": cropped[..., 1], "tensor": cropped[:, 0] if layout == "tensor" else None}[
        layout
    ]
    assert all(windows(image, crop) for image, crop in zip(padded, flat, strict=True))
    assert len({image.tobytes() for image in flat}) > 10


@pytest.mark.parametrize("sides", [3, (3,), (1, 2), (4, 0, 2, 1)])
def test_padding_is_left_top_right_bottom(sides):
    left, top, right, bottom = {3: (3,) * 4, (3,): (3,) * 4, (1, 2): (1, 2, 1, 2)}.get(sides, sides)
    image = pixels(6, 5)
    size = (6 + top + bottom, 5 + left + right)
    equal(RandomCrop(size, padding=sides, fill=7)(image),
          np.pad(image, ((top, bottom), (left, right)), constant_values=7))  # fmt: skip


@pytest.mark.parametrize("mode", ["edge", "reflect", "symmetric"])
def test_padding_modes(mode: str):
    image = pixels(6, 5)
    equal(RandomCrop((10, 9), padding=2, padding_mode=mode)(image), np.pad(image, 2, mode=mode))


def test_pad_if_needed_adds_what_is_missing_on_both_sides():
    image = pixels(6, 5) + 1
    crop = RandomCrop((6, 8), pad_if_needed=True)(image)
    assert crop.shape == (6, 8)
    assert windows(np.pad(image, ((0, 0), (3, 3))), crop)


@pytest.mark.parametrize("size", [(8, 8), (8, 6), (10, 7)])
def test_a_batch_gets_the_places_that_pytorch_draws_for_single_images(size):
    torch = require_torch()
    images = pixels(16, 8, 8)
    padded = np.pad(images, ((0, 0), (1, 1), (1, 1)))
    torch.manual_seed(3)
    expected = []
    for image in padded:  # torchvision's get_params, in its order
        top = torch.randint(0, 10 - size[0] + 1, (1,)).item()
        left = torch.randint(0, 10 - size[1] + 1, (1,)).item()
        expected.append(image[top : top + size[0], left : left + size[1]])
    tdt.manual_seed(3)
    equal(RandomCrop(size, padding=1).batch(images), np.stack(expected))
    tdt.manual_seed(3)
    equal(np.stack([RandomCrop(size, padding=1)(image) for image in images]), np.stack(expected))


def test_a_crop_of_the_whole_image_draws_nothing():
    tdt.manual_seed(0)
    before = tdt.get_rng_state().numpy().copy()
    image = pixels(8, 8)
    equal(RandomCrop(8)(image), image)
    equal(tdt.get_rng_state(), before)


def test_random_steps_of_a_compose_draw_from_its_generator():
    images = pixels(8, 8, 8)
    augment = Compose([RandomCrop(8, padding=1), RandomCrop(6)])
    assert augment.random
    results = []
    for _ in range(2):
        augment.draw_from(tdt.Generator().manual_seed(5))
        results.append(augment.batch(images))
        RandomCrop(8, padding=1).batch(images)  # another stream
    equal(results[0], results[1])
    assert not np.array_equal(augment.batch(images), results[0])


def test_crops_that_do_not_fit_are_named():
    with pytest.raises(ValueError, match=r"window \(9, 9\) is larger than the image \(8, 8\)"):
        RandomCrop(9)(pixels(8, 8))
    with pytest.raises(ValueError, match="padding takes 1, 2 or 4 numbers"):
        RandomCrop(9, padding=(1, 2, 3))(pixels(8, 8))
    with pytest.raises(ValueError, match="padding_mode 'wrap'"):
        RandomCrop(9, padding_mode="wrap")


def test_compose_runs_steps_in_order_and_a_batch_like_the_images_one_by_one():
    images = pixels(5, 8, 8)
    prepare = Compose([ToTensor(), Normalize(0.5, 0.5)])
    assert not prepare.random
    batch = prepare.batch(images).numpy()
    equal(batch, ((images / np.float32(255))[:, None] - np.float32(0.5)) / np.float32(0.5))
    for image, expected in zip(images, batch, strict=True):
        equal(prepare(image), expected)


def test_compose_takes_plain_callables_for_single_images_only():
    both = Compose([np.flipud, ToTensor()])
    image = pixels(4, 4)
    equal(both(image), ToTensor()(np.flipud(image)).numpy())
    assert both.random
    with pytest.raises(TypeError, match="takes one image only; derive it from Transform"):
        both.batch(image[None])


def test_an_own_transform_needs_batch_only():
    class Flip(Transform):
        def batch(self, images):
            return images[:, :, ::-1]

    image = pixels(4, 5)
    equal(Flip()(image), image[:, ::-1])


@pytest.mark.parametrize(
    ("mean", "std", "message"), [([0.1, 0.2], 1.0, "mean has 2"), (0.5, [1.0, 2.0, 3.0], "std has 3")]
)
def test_normalize_adds_no_channels(mean, std, message: str):
    with pytest.raises(ValueError, match=f"Normalize: {message} numbers for 1 channels"):
        Normalize(mean, std)(tdt.zeros(1, 4, 4))
