"""Steps that prepare images: one sample at a time (`step(image)`) or many at once (`step.batch(images)`)."""

from tdt.vision.transforms._base import Compose as Compose
from tdt.vision.transforms._base import Transform as Transform
from tdt.vision.transforms.convert import Normalize as Normalize
from tdt.vision.transforms.convert import ToTensor as ToTensor
from tdt.vision.transforms.geometry import RandomCrop as RandomCrop

__all__ = ["Compose", "Normalize", "RandomCrop", "ToTensor", "Transform"]
