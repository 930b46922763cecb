"""Audio summaries."""

from __future__ import annotations

import io
import warnings
import wave

import numpy as np
from tensorboard.compat.proto.summary_pb2 import Summary

from tdt.utils.tensorboard.summary._arrays import Array, as_array


def audio(tag: str, tensor: Array, sample_rate: int = 44100) -> Summary:
    """A summary of the sound `tensor`, shape (L) or with more dimensions of size 1, as a WAV file of 16 bits.

    Values lie in [-1, 1]; beyond, they are cut with a warning. sample_rate: samples a second.
    Raises ValueError where more than one dimension is not 1.

    >>> import numpy as np
    >>> from tdt.utils.tensorboard.summary._audio import audio
    >>> audio("beep", np.zeros(441)).value[0].audio.length_frames
    441
    """
    samples = np.atleast_1d(as_array(tensor).squeeze())
    if samples.ndim != 1:
        raise ValueError(f"sound {tag!r} must have one dimension, samples; got shape {samples.shape}")
    if samples.size and np.abs(samples).max() > 1:
        warnings.warn(f"sound {tag!r} goes beyond [-1, 1] and is cut there", stacklevel=2)
        samples = samples.clip(-1, 1)
    file = io.BytesIO()
    with wave.open(file, "wb") as wav:
        wav.setnchannels(1)
        wav.setsampwidth(2)
        wav.setframerate(sample_rate)
        wav.writeframes((samples * np.iinfo(np.int16).max).astype("<i2").tobytes())
    proto = Summary.Audio(
        sample_rate=sample_rate,
        num_channels=1,
        length_frames=samples.size,
        encoded_audio_string=file.getvalue(),
        content_type="audio/wav",
    )
    return Summary(value=[Summary.Value(tag=tag, audio=proto)])
