"""Networks for images under torchvision's names: their layers, state_dict keys and initial values are torchvision's.

tdt fetches no weights. A file of torchvision's is loaded by `model.load_state_dict(tdt.load("resnet18-f37072fd.pth"))`.
"""

from tdt.vision.models._api import get_model as get_model
from tdt.vision.models._api import get_model_builder as get_model_builder
from tdt.vision.models._api import list_models as list_models
from tdt.vision.models._api import weights_enum as __getattr__
from tdt.vision.models.alexnet import *
from tdt.vision.models.lenet import *
from tdt.vision.models.mobilenetv2 import *
from tdt.vision.models.resnet import *
from tdt.vision.models.squeezenet import *
from tdt.vision.models.vgg import *
