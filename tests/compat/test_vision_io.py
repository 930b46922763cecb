"""`torchvision.io`: importable, and refused with what to use."""

from __future__ import annotations

import pytest

from tdt.compat.vision import io

INSTEAD = {"read_image": "pil_loader", "decode_image": "pil_loader", "write_png": "to_pil_image", "read_video": "no videos",
           "VideoReader": "no videos"}  # fmt: skip


@pytest.mark.parametrize("name", INSTEAD)
def test_reading_and_writing_is_refused_with_what_to_use(name: str):
    with pytest.raises(NotImplementedError, match=f"^{name}: tdt .*{INSTEAD[name]}"):
        getattr(io, name)("image.png")


def test_modes_of_reading_are_numbered_as_torchvisions():
    assert [(mode.name, mode.value) for mode in io.ImageReadMode] == [
        ("UNCHANGED", 0), ("GRAY", 1), ("GRAY_ALPHA", 2), ("RGB", 3), ("RGB_ALPHA", 4),
    ]  # fmt: skip
