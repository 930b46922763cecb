"""Steps of steps, parts of images and Pillow's images: torchvision's formulas with PyTorch's draws, and Pillow's pixels."""

from __future__ import annotations

import math

import numpy as np
import pytest
from PIL import Image

import tdt
from tdt.train.config import ConfigError, loads
from tdt.train.config.registry import transforms
from tdt.vision.transforms import (
    CenterCrop,
    ColorJitter,
    Compose,
    GaussianBlur,
    Grayscale,
    InterpolationMode,
    Lambda,
    PILToTensor,
    RandomApply,
    RandomChoice,
    RandomCrop,
    RandomErasing,
    RandomGrayscale,
    RandomHorizontalFlip,
    RandomOrder,
    RandomResizedCrop,
    Resize,
    ToPILImage,
    ToTensor,
)
from tests.helpers import require_torch


def pixels(*shape: int) -> np.ndarray:
    return np.random.RandomState(0).randint(0, 256, shape).astype(np.uint8)


STEPS = [
    RandomResizedCrop(5), RandomResizedCrop((4, 7), scale=(0.5, 1.0), interpolation="bicubic"), RandomGrayscale(0.5),
    GaussianBlur(3),
    RandomApply([RandomHorizontalFlip(), ColorJitter(0.4)], p=0.6), RandomChoice([CenterCrop(4), RandomCrop(4)]),
    RandomOrder([RandomHorizontalFlip(), RandomCrop(5), RandomGrayscale(0.5)]),
]  # fmt: skip


@pytest.mark.parametrize("tensors", [False, True])
@pytest.mark.parametrize("step", STEPS, ids=repr)
def test_a_batch_is_its_images_one_by_one(step, tensors: bool):
    images = pixels(12, 8, 10, 3)
    images = tdt.from_numpy(images.transpose(0, 3, 1, 2).copy()).float() if tensors else images
    step.draw_from(tdt.Generator().manual_seed(3))
    batch = step.batch(images)
    step.draw_from(tdt.Generator().manual_seed(3))
    for one, other in zip(batch, [step(image) for image in images], strict=True):
        assert type(one) is type(other) and one.dtype == other.dtype and one.shape == other.shape
        np.testing.assert_array_equal(np.asarray(one), np.asarray(other))
    assert step.random and len(step.batch(images[:0])) == 0


@pytest.mark.parametrize("size", [(8, 30), (30, 8), (9, 9)])
def test_a_resized_crop_is_where_torchvisions_is(size: tuple[int, int]):
    torch = require_torch()
    h, w = size
    image = Image.fromarray(pixels(h, w, 3))
    for seed in range(10):
        torch.manual_seed(seed)
        box = None
        for _ in range(10):
            area = h * w * torch.empty(1).uniform_(0.3, 1.0).item()
            ends = torch.log(torch.tensor([3 / 4, 4 / 3]))
            ratio = torch.exp(torch.empty(1).uniform_(ends[0].item(), ends[1].item())).item()
            width, height = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
            if width <= w and height <= h:
                top, left = (torch.randint(0, n + 1, (1,)).item() for n in (h - height, w - width))
                box = (left, top, left + width, top + height)
                break
        if box is None:
            height, width = (h, round(h * 4 / 3)) if w > h else (round(w * 4 / 3), w)
            box = ((w - width) // 2, (h - height) // 2, (w - width) // 2 + width, (h - height) // 2 + height)
        tdt.manual_seed(seed)
        cropped = RandomResizedCrop((5, 6), scale=(0.3, 1.0))(image)
        np.testing.assert_array_equal(cropped, image.crop(box).resize((6, 5), Image.Resampling.BILINEAR))


def test_random_apply_and_grayscale_draw_as_torchvision_does():
    torch = require_torch()
    image = pixels(4, 5, 3)
    turned = image[:, ::-1]
    for seed in range(8):
        torch.manual_seed(seed)
        applied = not torch.rand(1) > 0.5
        grey = torch.rand(1) < 0.4
        tdt.manual_seed(seed)
        np.testing.assert_array_equal(RandomApply([RandomHorizontalFlip(1.0)])(image) if not applied else image, image)
        tdt.manual_seed(seed)
        tdt.rand(1)
        np.testing.assert_array_equal(RandomGrayscale(0.4)(image), Grayscale(3)(image) if grey else image)
    assert RandomApply([lambda image: turned], p=1.0)(image) is turned


def test_a_choice_follows_its_weights_and_an_order_takes_every_step_once():
    tdt.manual_seed(0)
    steps = [Lambda(lambda image, i=i: (*image, i)) for i in range(3)]
    chosen = [RandomChoice(steps, p=[3, 0, 1])(())[0] for _ in range(400)]
    assert chosen.count(1) == 0 and 260 < chosen.count(0) < 340
    orders = {RandomOrder(steps)(()) for _ in range(100)}
    assert len(orders) == 6 and all(sorted(order) == [0, 1, 2] for order in orders)
    with pytest.raises(ValueError, match="2 weights for 3 transforms"):
        RandomChoice(steps, p=[1, 2])
    with pytest.raises(TypeError, match="RandomApply: transforms should be a sequence, got ToTensor"):
        RandomApply(ToTensor())


def test_steps_of_tensors_alone_are_combined_to_a_step_of_tensors_alone():
    assert RandomApply([RandomErasing()]).takes_tensors and not RandomApply([RandomHorizontalFlip()]).takes_tensors


def test_a_function_is_a_step():
    step = Compose([ToTensor(), Lambda(lambda image: image * 2)])
    assert step.random
    np.testing.assert_array_equal(step(np.full((2, 2), 3.0)).numpy(), np.full((1, 2, 2), 6.0))
    np.testing.assert_array_equal(step.batch(np.full((4, 2, 2), 3.0)).numpy(), np.full((4, 1, 2, 2), 6.0))
    with pytest.raises(TypeError, match="Argument lambd should be callable, got 'int'"):
        Lambda(3)


@pytest.mark.parametrize(
    ("array", "mode"),
    [(pixels(4, 5, 3), "RGB"), (pixels(4, 5), "L"), (pixels(4, 5, 4), "RGBA"), (pixels(4, 5, 2), "LA"),
     (np.arange(20, dtype=np.int32).reshape(4, 5), "I"), (np.arange(20, dtype=np.int16).reshape(4, 5), "I;16")],
)  # fmt: skip
def test_arrays_and_tensors_round_trip_through_images(array: np.ndarray, mode: str):
    tensor = tdt.from_numpy(np.ascontiguousarray(array if array.ndim == 2 else array.transpose(2, 0, 1)))
    for source in (array, tensor):
        image = ToPILImage()(source)
        assert image.mode == mode and image.size == (5, 4)
        np.testing.assert_array_equal(np.asarray(image), array)
    if array.dtype == np.uint8:
        back = PILToTensor()(ToPILImage()(array))
        assert back.dtype == tdt.uint8 and tdt.equal(back, tensor if tensor.ndim == 3 else tensor[None])


def test_floats_become_bytes_and_what_is_no_image_is_refused():
    floats = np.array([[0.0, 0.5, 1.0]], dtype=np.float32)
    assert list(np.asarray(ToPILImage()(floats))[0]) == [0, 127, 255]
    np.testing.assert_array_equal(np.asarray(ToPILImage("F")(floats)), floats)
    assert ToPILImage("HSV")(pixels(2, 2, 3)).mode == "HSV"
    for source, error, message in (
        ([1], TypeError, "pic should be Tensor or ndarray. Got <class 'list'>"),
        (np.zeros(3), ValueError, "should be 2/3 dimensional. Got 1"),
        (np.zeros((2, 2, 5)), ValueError, "not have > 4 channels. Got 5"),
        (np.zeros((2, 2, 3), np.int32), TypeError, "Input type int32 is not supported"),
    ):
        with pytest.raises(error, match=message):
            ToPILImage()(source)
    with pytest.raises(ValueError, match="3 channels of uint8 have mode RGB or YCbCr or HSV, not L"):
        ToPILImage("L")(pixels(2, 2, 3))


def test_a_filter_is_named_by_a_string_by_a_mode_or_as_pillow_does():
    image = pixels(8, 8, 3)
    for mode in (InterpolationMode.BICUBIC, Image.Resampling.BICUBIC):
        np.testing.assert_array_equal(Resize(3, mode)(image), Resize(3, "bicubic")(image))
    with pytest.raises(
        ValueError, match="interpolation 'sinc' is not one of nearest, nearest-exact, bilinear, bicubic"
    ):
        RandomResizedCrop(3, interpolation="sinc")


CONFIG = ("name: a\ndata: {{train: Digits, augment: [{}], transform: [ToTensor]}}\nmodel: [Flatten, LazyLinear(10)]\n"
          "loss: CrossEntropyLoss\noptimizer: SGD(lr=0.1)\ntrain: {{steps: 1}}\n")  # fmt: skip


@pytest.mark.parametrize(
    "nested",
    [
        "'RandomApply([RandomHorizontalFlip(p=1.0), ColorJitter(0.1)], p=0.9)'",
        "{type: RandomApply, transforms: [RandomHorizontalFlip, 'ColorJitter(0.1)'], p: 0.9}",
    ],
)
def test_a_config_nests_steps(nested: str):
    component = loads(CONFIG.format(nested)).data.augment[0]
    created = transforms.create(component)
    assert isinstance(created, RandomApply) and [type(step) for step in created.transforms] == [
        RandomHorizontalFlip,
        ColorJitter,
    ]
    with pytest.raises(ConfigError, match=r"transforms.0: no transform is called 'Flop'"):
        loads(CONFIG.format("{type: RandomApply, transforms: [Flop]}"))
    with pytest.raises(ConfigError, match="Lambda takes a Python function, and a config holds no code"):
        loads(CONFIG.format("Lambda"))


def test_a_blur_is_scipys_of_the_drawn_width():
    torch = require_torch()
    ndimage = pytest.importorskip("scipy.ndimage")
    image = pixels(9, 12, 3)
    for seed in range(3):
        torch.manual_seed(seed)
        sigma = torch.empty(1).uniform_(0.5, 2.0).item()
        tdt.manual_seed(seed)
        blurred = GaussianBlur((7, 5), sigma=(0.5, 2.0))(image.astype(np.float64))
        bells = [np.exp(-0.5 * (np.arange(-half, half + 1) / sigma) ** 2) for half in (2, 3)]
        expected = image.astype(np.float64)
        for axis, bell in enumerate(bells):
            expected = ndimage.correlate1d(expected, bell / bell.sum(), axis=axis, mode="mirror")
        np.testing.assert_allclose(blurred, expected, rtol=1e-12)
        tdt.manual_seed(seed)
        np.testing.assert_array_equal(GaussianBlur((7, 5), sigma=(0.5, 2.0))(image), np.rint(expected).astype(np.uint8))
    with pytest.raises(ValueError, match="odd and positive"):
        GaussianBlur(4)
    with pytest.raises(ValueError, match="sigma values should be positive"):
        GaussianBlur(3, sigma=(2.0, 1.0))
