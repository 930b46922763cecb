"""What the docstrings of the public callables lack, by the form in CONTRIBUTING.md.

    python -m tests.docstrings                    the number of incomplete docstrings in each room
    python -m tests.docstrings tdt.nn             what is missing in a room
    python -m tests.docstrings tdt/nn/init.py     what is missing in a file or folder

A room is a public namespace. A callable is counted once, in the first room that exports it; a function and the method
of Tensor that calls it are one callable. Methods of public classes need a summary line and `Raises:`, no example.
"""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
import re
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

ROOT = Path(__file__).parents[1]

# Room → the modules whose exports it holds.
ROOMS: dict[str, tuple[str, ...]] = {
    "tdt": ("tdt",),
    "tdt.nn.functional": ("tdt.nn.functional",),
    "tdt.linalg": ("tdt.linalg",),
    "tdt.fft": ("tdt.fft",),
    "tdt.special": ("tdt.special",),
    "tdt.Tensor": (),
    "tdt.nn": ("tdt.nn", "tdt.nn.attention", "tdt.nn.parallel"),
    "tdt.nn.init": ("tdt.nn.init",),
    "tdt.nn.utils": (
        "tdt.nn.utils",
        "tdt.nn.utils.parametrizations",
        "tdt.nn.utils.parametrize",
        "tdt.nn.utils.prune",
        "tdt.nn.utils.rnn",
        "tdt.nn.utils.stateless",
    ),
    "tdt.nn.parameter": ("tdt.nn.parameter",),
    "tdt.optim": ("tdt.optim", "tdt.optim.swa_utils"),
    "tdt.optim.lr_scheduler": ("tdt.optim.lr_scheduler",),
    "tdt.distributions": ("tdt.distributions", "tdt.distributions.constraints", "tdt.distributions.transforms"),
    "tdt.utils.data": ("tdt.utils.data",),
    "tdt.vision": (
        "tdt.vision.transforms",
        "tdt.vision.transforms.functional",
        "tdt.vision.models",
        "tdt.vision.datasets",
        "tdt.vision.ops",
        "tdt.vision.utils",
    ),
    "tdt.text": ("tdt.text.models",),
    "tdt.amp": ("tdt.amp",),
    "tdt.autograd": ("tdt.autograd", "tdt.autograd.functional", "tdt.autograd.graph"),
}

# Methods and layers that come from a paper or a textbook: their docstrings say which.
SOURCED = {
    "tdt": """
        cholesky_solve celu geqrf householder_product igamma lobpcg matrix_exp pca_lowrank rrelu selu stft svd_lowrank""",
    "tdt.nn.functional": """
        alpha_dropout batch_norm celu channel_shuffle cross_entropy ctc_loss dropout elu embedding_bag
        feature_alpha_dropout gelu glu group_norm gumbel_softmax hardswish huber_loss instance_norm layer_norm
        leaky_relu local_response_norm mish pixel_shuffle prelu rms_norm rrelu scaled_dot_product_attention selu silu
        triplet_margin_loss fractional_max_pool2d""",
    "tdt.nn": """
        AdaptiveLogSoftmaxWithLoss AlphaDropout BatchNorm1d BatchNorm2d BatchNorm3d CELU CTCLoss ChannelShuffle
        CosineEmbeddingLoss Dropout Dropout2d ELU FeatureAlphaDropout FractionalMaxPool2d GELU GLU GRU GRUCell GroupNorm
        Hardswish HuberLoss InstanceNorm1d InstanceNorm2d InstanceNorm3d LSTM LSTMCell LayerNorm LeakyReLU
        LocalResponseNorm Mish MultiheadAttention PReLU PixelShuffle RMSNorm RNN RReLU ReLU6 SELU SiLU SmoothL1Loss
        SyncBatchNorm Transformer TransformerDecoderLayer TransformerEncoderLayer TripletMarginLoss""",
    "tdt.nn.init": """
        dirac_ kaiming_normal_ kaiming_uniform_ orthogonal_ sparse_ trunc_normal_ xavier_normal_ xavier_uniform_""",
    "tdt.nn.utils": """
        clip_grad_norm_ orthogonal spectral_norm weight_norm""",
    "tdt.optim": """
        ASGD Adadelta Adafactor Adagrad Adam AdamW Adamax AveragedModel LBFGS Muon NAdam RAdam RMSprop Rprop SGD
        SWALR SparseAdam""",
    "tdt.optim.lr_scheduler": "CosineAnnealingLR CosineAnnealingWarmRestarts CyclicLR OneCycleLR",
    "tdt.distributions": """
        Beta ContinuousBernoulli Dirichlet Gamma Gumbel Kumaraswamy LKJCholesky RelaxedBernoulli RelaxedOneHotCategorical
        VonMises Wishart""",
    "tdt.vision": """
        RandAugment TrivialAugmentWide AutoAugment RandomErasing alexnet mobilenet_v2 resnet18 resnext50_32x4d squeezenet1_0
        vgg11 wide_resnet50_2 MNIST FashionMNIST CIFAR10 CIFAR100 KMNIST EMNIST QMNIST lenet StochasticDepth""",
    "tdt.text": """
        BertModel BertForMaskedLM BertForSequenceClassification DistilBertModel DistilBertForMaskedLM
        DistilBertForSequenceClassification GPT2Model GPT2LMHeadModel GPT2ForSequenceClassification LlamaModel
        LlamaForCausalLM LlamaForSequenceClassification""",
}  # fmt: skip

SECTION = re.compile(r"^(Args|Shape|Returns|Yields|Raises|Source):(.*)$")
TENSOR = re.compile(
    r"^(Tensor|Parameter|TensorLike|ArrayLike)$|^(Sequence|list|tuple)\[Tensor(, (Tensor|\.\.\.))*\]$|^tuple\[.*\bTensor\b.*\]$"
)
POINTER = re.compile(r"^(see|as|like|same as|alias (of|for))?\s*`+[\w.()]+`*( in place| in-place)?\.?$", re.IGNORECASE)
ALIAS = re.compile(r"^Alias of `([\w.]+)`\.$")


@dataclass(frozen=True)
class Entry:
    """A public callable: the room that counts it, its public name, and the function or class behind it."""

    room: str
    name: str
    value: Any
    is_method: bool = False

    @property
    def doc(self) -> str:
        return inspect.getdoc(self.value) or ""

    @property
    def place(self) -> str:
        """The file and line of the definition, relative to the root of the project."""
        code = getattr(self.value, "__code__", None)
        file = code.co_filename if code else sys.modules[self.value.__module__].__file__
        line = code.co_firstlineno if code else getattr(class_node(self.value), "lineno", 1)
        return f"{Path(str(file)).relative_to(ROOT)}:{line}"


def statements(node: ast.AST) -> Iterator[ast.AST]:
    """The statements in a node, in any depth."""
    for block in ("body", "orelse", "finalbody", "handlers", "cases"):
        for child in getattr(node, block, ()):
            yield child
            yield from statements(child)


@functools.cache
def tree(file: str) -> dict[tuple[str, int], ast.AST]:
    """The functions and classes of a file: name and first line, decorators included, → its node."""
    found: dict[tuple[str, int], ast.AST] = {}
    if not Path(file).exists():  # made by dataclass or namedtuple
        return found
    for node in statements(ast.parse(Path(file).read_text(encoding="utf-8"))):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found[node.name, min([node.lineno, *(d.lineno for d in node.decorator_list)])] = node
    return found


def function_node(function: FunctionType) -> ast.AST | None:
    code = function.__code__
    return tree(code.co_filename).get((code.co_name, code.co_firstlineno))


def class_node(cls: type) -> ast.AST | None:
    file = getattr(sys.modules.get(cls.__module__), "__file__", None)
    nodes = tree(file) if file else {}
    return next((n for (name, _), n in nodes.items() if name == cls.__name__ and isinstance(n, ast.ClassDef)), None)


def raised(function: object) -> set[str]:
    """The exception classes that a function's own body raises."""
    function = inspect.unwrap(function) if callable(function) else function
    node = function_node(function) if isinstance(function, FunctionType) else None
    names = set()
    for part in statements(node) if node else ():
        if isinstance(part, ast.Raise) and part.exc is not None:
            error = part.exc.func if isinstance(part.exc, ast.Call) else part.exc
            name = error.attr if isinstance(error, ast.Attribute) else getattr(error, "id", "")
            if name[:1].isupper():
                names.add(name)
    return names


def sections(doc: str) -> dict[str, str]:
    """The sections of a docstring by title: the rest of the title's line and the indented lines below it."""
    found: dict[str, str] = {}
    title = ""
    for line in doc.splitlines():
        if match := SECTION.match(line):
            title = match[1]
            found[title] = match[2].strip()
        elif title and (line.startswith(" ") or not line):
            found[title] += "\n" + line
        else:
            title = ""
    return {title: text.strip("\n") for title, text in found.items()}


def takes_tensors(function: object) -> bool:
    """Whether the annotations name a tensor, or a tuple or sequence of them, as parameter or result."""
    annotations = getattr(inspect.unwrap(function) if callable(function) else function, "__annotations__", {})
    parts = [part.strip() for text in annotations.values() for part in str(text).split(" | ")]
    return any(TENSOR.match(part) for part in parts)


def own_functions(cls: type) -> list[object]:
    """The constructor, `forward` and `__call__` of a class, where they are written in Python."""
    found = (getattr(cls, name, None) for name in ("__init__", "forward", "__call__"))
    return [f for f in found if isinstance(f, FunctionType) and not is_base(f)]


def is_base(function: FunctionType) -> bool:
    """Whether it is `Module.forward` or such, which every layer inherits."""
    return function.__qualname__.split(".")[0] in ("Module", "Distribution", "Dataset", "Tensor", "Function")


def needs_shape(entry: Entry) -> bool:
    if not isinstance(entry.value, type):
        return takes_tensors(entry.value)
    if issubclass(entry.value, BaseException) or entry.room in ("tdt.optim", "tdt.optim.lr_scheduler"):
        return False
    return any(takes_tensors(f) for f in own_functions(entry.value))


def missing(entry: Entry) -> list[str]:
    """What the docstring of a public callable lacks, in words; nothing where it is complete."""
    doc = entry.doc
    if not doc:
        return ["docstring"]
    if exempt(entry):
        return []
    lacks = []
    summary = " ".join(doc.split("\n\n")[0].split())
    if POINTER.match(summary) or len(re.findall(r"\w+", summary)) < 3:
        lacks.append("summary line")
    found = sections(doc)
    is_class = isinstance(entry.value, type)
    errors = set().union(*map(raised, own_functions(entry.value) if is_class else [entry.value]))
    inherited = entry.is_method and not entry.value.__doc__
    if not inherited:
        stated = set(re.findall(r"^\s*(\w+(?:, \w+)*):", found.get("Raises", ""), re.MULTILINE))
        stated = {name for names in stated for name in names.split(", ")}
        lacks += [f"Raises: {name}" for name in sorted(errors - stated)]
    if entry.is_method:
        return lacks
    if ">>>" not in doc:
        lacks.append("example")
    if needs_shape(entry) and not found.get("Shape"):
        lacks.append("Shape:")
    if entry.name.rpartition(".")[2] in SOURCED.get(entry.room, "").split() and not found.get("Source"):
        lacks.append("Source:")
    return lacks


def exempt(entry: Entry) -> bool:
    """An in-place form whose other form has a docstring, or an alias that names what it is an alias of."""
    namespace, _, name = entry.name.rpartition(".")
    plain = name.removesuffix("_")
    alias = ALIAS.match(entry.doc)
    target = alias[1].rpartition(".")[2] if alias else plain
    if not alias and (plain == name or name.startswith("__")):
        return False
    homes = [resolve(namespace), importlib.import_module("tdt"), importlib.import_module("tdt.nn.functional")]
    others = [getattr(home, target, None) for home in homes]
    values = (inspect.unwrap(other) for other in others if callable(other))
    return any(value is not entry.value and value.__doc__ for value in values)


def resolve(name: str) -> object:
    """The module or class of a dotted name."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        home, _, last = name.rpartition(".")
        return getattr(resolve(home), last)


def exports(module: ModuleType) -> list[str]:
    if module.__name__ == "tdt":
        from tdt import _public

        return [name for name in vars(_public) if name[0] != "_"]
    return list(getattr(module, "__all__", [name for name in vars(module) if name[0] != "_"]))


def is_ours(value: object) -> bool:
    return isinstance(value, (FunctionType, type)) and (value.__module__ or "").startswith("tdt")


def belongs(value: Any, module: ModuleType) -> bool:
    """Whether a value is defined in a module without `__all__`, or in one of its submodules."""
    return bool(value.__module__ == module.__name__ or value.__module__.startswith(f"{module.__name__}."))


def walk_module(room: str, module: ModuleType) -> Iterator[Entry]:
    listed = hasattr(module, "__all__")
    for name in exports(module):
        value = getattr(module, name)
        value = inspect.unwrap(value) if callable(value) else value
        if not is_ours(value) or not (listed or module.__name__ == "tdt" or belongs(value, module)):
            continue
        own = getattr(module, value.__name__, None)
        if callable(own) and inspect.unwrap(own) is value:
            name = value.__name__  # not that of an alias
        yield Entry(room, f"{module.__name__}.{name}", value)
        if isinstance(value, type):
            yield from walk_class(room, value)


def walk_class(room: str, cls: type) -> Iterator[Entry]:
    """The public methods of a class, and those that it inherits from private classes of tdt."""
    if any(base.__name__ == "Tensor" for base in cls.__mro__):
        return  # a room of its own
    for base in cls.__mro__:
        if not base.__module__.startswith("tdt"):
            continue
        for name, value in vars(base).items():
            function = value.__func__ if isinstance(value, (classmethod, staticmethod)) else value
            function = inspect.unwrap(function) if isinstance(function, FunctionType) else function
            if name[0] != "_" and name != "forward" and isinstance(function, FunctionType) and is_ours(function):
                yield Entry(room, f"{room}.{base.__name__}.{name}", inherits(function, cls, name), is_method=True)


def inherits(function: FunctionType, cls: type, name: str) -> FunctionType:
    """The function, or the nearest one of the same name along the classes that has a docstring for it."""
    if function.__doc__:
        return function
    candidates = (vars(base).get(name) for base in cls.__mro__)
    return next((f for f in candidates if isinstance(f, FunctionType) and f.__doc__), function)


def walk_tensor(room: str) -> Iterator[Entry]:
    """The public methods of Tensor, by the function behind each."""
    tensor = importlib.import_module("tdt").Tensor
    for name in dir(tensor):
        value = inspect.getattr_static(tensor, name)
        value = value.__func__ if isinstance(value, (classmethod, staticmethod)) else value
        value = inspect.unwrap(value) if callable(value) else value
        if name[0] != "_" and isinstance(value, FunctionType) and is_ours(value):
            yield Entry(room, f"tdt.Tensor.{name}", value)


@functools.cache
def entries() -> tuple[Entry, ...]:
    """Every public callable once, room by room."""
    found: dict[object, Entry] = {}
    for room, modules in ROOMS.items():
        for module in modules:
            for entry in walk_module(room, importlib.import_module(module)):
                found.setdefault(entry.value, entry)
        if room == "tdt.Tensor":
            for entry in walk_tensor(room):
                found.setdefault(entry.value, entry)
    return tuple(found.values())


def incomplete(room: str) -> dict[Entry, list[str]]:
    """The callables of a room whose docstrings lack something."""
    return {entry: lacks for entry in entries() if entry.room == room and (lacks := missing(entry))}


def main(arguments: list[str]) -> int:
    if not arguments:
        total = 0
        for room in ROOMS:
            count = len(incomplete(room))
            total += count
            print(f"{count:5d} of {sum(entry.room == room for entry in entries()):4d}  {room}")
        print(f"{total:5d} of {len(entries()):4d}  together")
        return 0
    if set(arguments) & {"-h", "--help"}:
        print(textwrap.dedent(__doc__ or ""))
        return 0
    for requested in arguments:
        path = requested.removeprefix("./").rstrip("/")
        for room in ROOMS:
            for entry, lacks in incomplete(room).items():
                if requested == room or entry.place.startswith((f"{path}:", f"{path}/")):
                    print(f"{entry.place}: {entry.name}: {', '.join(lacks)}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
