"""Networks for tokens under Hugging Face transformers' names: arguments, state_dict keys and results are transformers'.

tdt fetches no weights. Those of a file `model.safetensors` are loaded by `model.load_state_dict(...)`, and in a config by
`weights: {from: model.safetensors}`.
"""

from tdt.text.models.bert import *
from tdt.text.models.distilbert import *
from tdt.text.models.gpt2 import *
from tdt.text.models.llama import *
