"""Grids of images against torchvision's definition, written as loops."""

from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image

import tdt
from tdt.vision.utils import make_grid, save_image


def images(*shape: int) -> np.ndarray:
    return np.random.RandomState(0).uniform(-1, 3, shape).astype(np.float32)


def grid_by_hand(batch: np.ndarray, nrow: int, padding: int, value: float) -> np.ndarray:
    n, c, h, w = batch.shape
    columns = min(nrow, n)
    rows = (n + columns - 1) // columns
    out = np.full((c, rows * (h + padding) + padding, columns * (w + padding) + padding), value, batch.dtype)
    for i in range(n):
        for y in range(h):
            for x in range(w):
                out[:, padding + i // columns * (h + padding) + y, padding + i % columns * (w + padding) + x] = batch[
                    i, :, y, x
                ]
    return out


@pytest.mark.parametrize(("count", "nrow", "padding", "value"), [(7, 3, 2, 0.0), (2, 8, 0, 0.5), (4, 2, 1, -1.0)])
def test_a_grid_has_each_image_in_its_place(count, nrow, padding, value):
    batch = images(count, 3, 4, 5)
    grid = make_grid(tdt.from_numpy(batch), nrow, padding, pad_value=value)
    np.testing.assert_array_equal(grid.numpy(), grid_by_hand(batch, nrow, padding, value))
    listed = make_grid([tdt.from_numpy(image) for image in batch], nrow=nrow, padding=padding, pad_value=value)
    assert tdt.equal(listed, grid)


def test_one_channel_becomes_three_and_one_image_has_no_border():
    batch = images(3, 1, 4, 5)
    np.testing.assert_array_equal(
        make_grid(tdt.from_numpy(batch)).numpy(), grid_by_hand(np.repeat(batch, 3, 1), 8, 2, 0.0)
    )
    for one in (batch[0, 0], batch[0], batch[:1]):
        np.testing.assert_array_equal(make_grid(tdt.from_numpy(one)).numpy(), np.repeat(batch[0], 3, 0))


def test_values_are_normalised_over_all_images_by_each_or_by_a_range():
    batch = images(3, 3, 4, 5)
    unchanged, tensor = batch.copy(), tdt.from_numpy(batch)
    low, high = batch.min(), batch.max()
    np.testing.assert_allclose(
        make_grid(tensor, padding=0, normalize=True).numpy(),
        grid_by_hand((batch - low) / (high - low), 8, 0, 0),
        rtol=1e-6,
    )
    least, most = batch.min((1, 2, 3), keepdims=True), batch.max((1, 2, 3), keepdims=True)
    each = make_grid(tensor, padding=0, normalize=True, scale_each=True).numpy()
    np.testing.assert_allclose(each, grid_by_hand((batch - least) / (most - least), 8, 0, 0), rtol=1e-6, atol=1e-7)
    ranged = make_grid(tensor, padding=0, normalize=True, value_range=(0, 2)).numpy()
    np.testing.assert_allclose(ranged, grid_by_hand(np.clip(batch, 0, 2) / 2, 8, 0, 0), rtol=1e-6)
    np.testing.assert_array_equal(batch, unchanged)
    flat = make_grid(tdt.full((2, 3, 2, 2), 7.0), padding=0, normalize=True)
    assert (flat == 0).all()  # no division by zero


def test_what_are_no_images_is_refused():
    with pytest.raises(TypeError, match="got a list containing <class 'int'>"):
        make_grid([1])
    with pytest.raises(TypeError, match="tensor or list of tensors expected, got <class 'numpy.ndarray'>"):
        make_grid(images(2, 3, 4, 4))
    with pytest.raises(TypeError, match="value_range has to be a tuple"):
        make_grid(tdt.zeros(2, 3, 4, 4), normalize=True, value_range=[0, 1])
    with pytest.raises(ValueError, match=r"got shape \[2\]"):
        make_grid(tdt.zeros(2))


def test_a_saved_grid_is_read_back_as_rounded_pixels(tmp_path):
    batch = images(5, 3, 4, 6)
    values = tdt.from_numpy(batch).requires_grad_()
    save_image(values, tmp_path / "grid.png", nrow=2, pad_value=0.25)
    expected = np.clip(grid_by_hand(batch, 2, 2, 0.25) * 255 + np.float32(0.5), 0, 255).astype(np.uint8)
    np.testing.assert_array_equal(np.asarray(Image.open(tmp_path / "grid.png")), expected.transpose(1, 2, 0))
    file = io.BytesIO()
    save_image(values, file, format="png", nrow=2, pad_value=0.25)
    assert file.getvalue() == (tmp_path / "grid.png").read_bytes()
