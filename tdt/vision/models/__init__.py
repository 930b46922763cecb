"""Networks for images under torchvision's names: their layers, state_dict keys and initial values are torchvision's.

tdt fetches no weights. A file of torchvision's is loaded by `model.load_state_dict(tdt.load("resnet18-f37072fd.pth"))`, and
in a config by `weights: {from: resnet18-f37072fd.pth}`.
"""

from tdt.vision.models._api import get_model as get_model
from tdt.vision.models._api import get_model_builder as get_model_builder
from tdt.vision.models._api import list_models as list_models
from tdt.vision.models._api import weights_enum as __getattr__
from tdt.vision.models.alexnet import *
from tdt.vision.models.convnext import *
from tdt.vision.models.densenet import *
from tdt.vision.models.efficientnet import *
from tdt.vision.models.lenet import *
from tdt.vision.models.mobilenetv2 import *
from tdt.vision.models.mobilenetv3 import *
from tdt.vision.models.resnet import *
from tdt.vision.models.squeezenet import *
from tdt.vision.models.swin_transformer import *
from tdt.vision.models.vgg import *
from tdt.vision.models.vision_transformer import *
