"""Steps that prepare images: one sample at a time (`step(image)`) or many at once (`step.batch(images)`)."""

from tdt.vision.transforms import functional as functional
from tdt.vision.transforms._base import Compose as Compose
from tdt.vision.transforms._base import Transform as Transform
from tdt.vision.transforms.blur import GaussianBlur as GaussianBlur
from tdt.vision.transforms.choices import Lambda as Lambda
from tdt.vision.transforms.choices import RandomApply as RandomApply
from tdt.vision.transforms.choices import RandomChoice as RandomChoice
from tdt.vision.transforms.choices import RandomOrder as RandomOrder
from tdt.vision.transforms.color import ColorJitter as ColorJitter
from tdt.vision.transforms.color import ConvertImageDtype as ConvertImageDtype
from tdt.vision.transforms.color import Grayscale as Grayscale
from tdt.vision.transforms.color import RandomErasing as RandomErasing
from tdt.vision.transforms.color import RandomGrayscale as RandomGrayscale
from tdt.vision.transforms.color import ToDtype as ToDtype
from tdt.vision.transforms.convert import Normalize as Normalize
from tdt.vision.transforms.convert import PILToTensor as PILToTensor
from tdt.vision.transforms.convert import ToPILImage as ToPILImage
from tdt.vision.transforms.convert import ToTensor as ToTensor
from tdt.vision.transforms.geometry import CenterCrop as CenterCrop
from tdt.vision.transforms.geometry import Pad as Pad
from tdt.vision.transforms.geometry import RandomCrop as RandomCrop
from tdt.vision.transforms.geometry import RandomHorizontalFlip as RandomHorizontalFlip
from tdt.vision.transforms.geometry import RandomRotation as RandomRotation
from tdt.vision.transforms.geometry import RandomVerticalFlip as RandomVerticalFlip
from tdt.vision.transforms.resize import InterpolationMode as InterpolationMode
from tdt.vision.transforms.resize import RandomResizedCrop as RandomResizedCrop
from tdt.vision.transforms.resize import Resize as Resize

__all__ = [
    "CenterCrop", "ColorJitter", "Compose", "ConvertImageDtype", "GaussianBlur", "Grayscale", "InterpolationMode", "Lambda",
    "Normalize", "PILToTensor", "Pad", "RandomApply", "RandomChoice", "RandomCrop", "RandomErasing",
    "RandomGrayscale", "RandomHorizontalFlip", "RandomOrder", "RandomResizedCrop", "RandomRotation",
    "RandomVerticalFlip", "Resize", "ToDtype", "ToPILImage", "ToTensor", "Transform",
]  # fmt: skip
