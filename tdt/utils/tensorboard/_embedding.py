"""Files of an embedding for TensorBoard's projector: points, labels, images and a config."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from google.protobuf import text_format
from PIL import Image
from tensorboard.plugins.projector.projector_config_pb2 import EmbeddingInfo, ProjectorConfig

from tdt._files import replace_file
from tdt.utils.tensorboard.summary._arrays import as_array
from tdt.utils.tensorboard.summary._image import encoded, grid

_CONFIG = "projector_config.pbtxt"


def write_embedding(
    log_dir: Path, mat: Any, metadata: Sequence[Any] | None, label_img: Any, step: int, tag: str,
    metadata_header: Sequence[str] | None,
) -> None:  # fmt: skip
    """Write `<step>/<tag>/` under `log_dir`, and name it in the projector's config, which keeps what it names already.

    Raises ValueError where `mat` has not two dimensions, or labels or images are not as many as points.
    """
    points = as_array(mat)
    if points.ndim != 2:
        raise ValueError(f"embedding {tag!r} must have shape (points, dimensions), got {points.shape}")
    for name, values in (("metadata", metadata), ("label_img", label_img)):
        if values is not None and len(values) != len(points):
            raise ValueError(f"embedding {tag!r} has {len(points)} points, but {name} is for {len(values)}")
    if metadata_header and metadata is not None and len(metadata_header) != len(metadata[0]):
        raise ValueError(f"metadata_header names {len(metadata_header)} columns, but metadata has {len(metadata[0])}")
    folder = f"{step:05d}/{_encoded(tag)}"
    (log_dir / folder).mkdir(parents=True, exist_ok=True)
    info = EmbeddingInfo(tensor_name=f"{tag}:{step:05d}", tensor_path=f"{folder}/tensors.tsv")
    replace_file(log_dir / info.tensor_path, _table(points.tolist()))
    if metadata is not None:
        info.metadata_path = f"{folder}/metadata.tsv"
        rows = [metadata_header, *metadata] if metadata_header else [[label] for label in metadata]
        replace_file(log_dir / info.metadata_path, _table(rows))
    if label_img is not None:
        images = as_array(label_img)
        info.sprite.image_path = f"{folder}/sprite.png"
        info.sprite.single_image_dim.extend([images.shape[3], images.shape[2]])
        replace_file(log_dir / info.sprite.image_path, _sprite(images))
    config = _known(log_dir / _CONFIG, but=info.tensor_name)
    config.embeddings.append(info)
    replace_file(log_dir / _CONFIG, text_format.MessageToString(config).encode())


def _known(path: Path, but: str) -> ProjectorConfig:
    """The existing projector config without the embedding `but`, which is being replaced."""
    config = ProjectorConfig()
    if path.exists():
        text_format.Parse(path.read_text(), config)
        remaining = [info for info in config.embeddings if info.tensor_name != but]
        del config.embeddings[:]
        config.embeddings.extend(remaining)
    return config


def _encoded(tag: str) -> str:
    """`tag` as a folder name: path separators are escaped."""
    return "".join(f"%{ord(letter):02x}" if letter in "%/\\" else letter for letter in tag)


def _table(rows: Sequence[Sequence[Any]]) -> bytes:
    return "".join("\t".join(_cell(item) for item in row) + "\n" for row in rows).encode()


def _cell(item: Any) -> str:
    """`item` as text without tabs and line breaks."""
    return re.sub(r"[\t\r\n]", " ", str(item))


def _sprite(images: np.ndarray) -> bytes:
    """All images in one square sprite PNG."""
    drawn = grid(images, columns=math.ceil(len(images) ** 0.5))
    square = np.zeros((3, drawn.shape[2], drawn.shape[2]))
    square[:, : drawn.shape[1]] = drawn
    picture = Image.fromarray((square.transpose(1, 2, 0) * 255).clip(0, 255).astype(np.uint8))
    return encoded(*square.shape[1:], 3, picture, format="PNG").encoded_image_string
