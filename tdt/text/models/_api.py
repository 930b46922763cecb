"""What all text models share: settings as in a Hugging Face `config.json`, initial weights, masks."""

from __future__ import annotations

import inspect
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import tdt
from tdt import Tensor, nn
from tdt._did_you_mean import closest
from tdt.nn import functional as F

Setting = bool | int | float | str | Mapping[str, bool | int | float | str] | None
Head = Literal["language_model", "classification"]

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": F.gelu,
    "gelu_new": lambda x: F.gelu(x, approximate="tanh"),
    "gelu_pytorch_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "relu": F.relu,
    "silu": F.silu,
    "swish": F.silu,
    "tanh": F.tanh,
}


def of_head(head: Head, default: Any) -> Any:
    """A field that only models with this head have as an argument."""
    return field(default=default, metadata={"head": head})


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Base of a family's settings, named as in its Hugging Face `config.json`.

    Args:
        vocab_size: number of tokens.
        hidden_size, n_embd, dim: width of the vector of each position.
        num_hidden_layers, n_layer, n_layers: number of blocks.
        num_attention_heads, n_head, n_heads: number of attention heads.
        intermediate_size, n_inner, hidden_dim: width between the two linear layers of a block.
        hidden_act, activation_function, activation: activation function of a block's linear layers, by its
            name in a `config.json`.
        max_position_embeddings, n_positions: most tokens of a sequence.
        hidden_dropout_prob, resid_pdrop, dropout: probability that an element of a block's output is zeroed in training.
        attention_probs_dropout_prob, attn_pdrop, attention_dropout: probability that an attention weight is zeroed in training.
        layer_norm_eps, layer_norm_epsilon, rms_norm_eps: added to the denominators of norms.
        initializer_range: standard deviation of the initial weights.
        pad_token_id: number of the token that fills up short sequences.
        mask_padding: without an attention_mask, attend to no token `pad_token_id`.
        tie_word_embeddings: whether the output layer uses the weights of the embedding.
        num_labels: number of classes.
        class_dim: dimension of the vocabulary in the result: -1, or 1 as CrossEntropyLoss expects it.
    """

    model_type: ClassVar[str]
    aliases: ClassVar[dict[str, str]] = {}  # another name of Hugging Face's → the field
    required: ClassVar[dict[str, Setting]] = {}  # settings that are no fields, and the only value that is supported

    class_dim: int = field(default=-1, metadata={"head": "language_model"})

    def __post_init__(self) -> None:
        for part in fields(self):
            value = getattr(self, part.name)
            if part.type == "int" and part.name != "class_dim" and (type(value) is not int or value < 1):
                raise ValueError(f"{part.name} is a positive integer, got {value!r}")
            if part.type == "float" and (isinstance(value, bool) or not isinstance(value, int | float)):
                raise ValueError(f"{part.name} is a number, got {value!r}")
            if part.name in ("activation", "activation_function", "hidden_act"):
                activation(value)
        if self.class_dim not in (-1, 1):
            raise ValueError(f"class_dim is -1 or 1, got {self.class_dim!r}")

    @classmethod
    def read(cls, source: Mapping[str, Any] | str | os.PathLike[str]) -> Self:
        """The settings of a dictionary or of the file `config.json`; keys that change no result are ignored."""
        where, found = "config", source
        if not isinstance(found, Mapping):
            where = str(source)
            found = _read_json(Path(where))
        kind = found.get("model_type", cls.model_type)
        if kind != cls.model_type:
            raise ValueError(f"{where}: is of a model of type {kind!r}, not {cls.model_type!r}")
        for key, only in cls.required.items():
            if found.get(key, only) != only:
                raise ValueError(f"{where}: {key}={found[key]!r} is not supported, only {only!r}")
        known = {cls.aliases.get(key, key): value for key, value in found.items()}
        if "id2label" in found and "num_labels" not in found:
            known["num_labels"] = len(found["id2label"])
        try:
            names = {part.name for part in fields(cls)}
            return cls(**{key: value for key, value in cls.adapted(known).items() if key in names})
        except ValueError as error:
            raise ValueError(f"{where}: {error}") from None

    @classmethod
    def adapted(cls, found: dict[str, Any]) -> dict[str, Any]:
        """The settings of a file by the names of the fields."""
        return found


class TextModel(nn.Module):
    """Base of text models: built from settings, whose names are those of Hugging Face's `config.json`."""

    settings_class: ClassVar[type[Settings]]
    config: Any  # an instance of settings_class
    head: ClassVar[Head | None] = None
    tied: ClassVar[tuple[str, str] | None] = None  # module whose weight is that of another one, and that one
    __signature__: ClassVar[inspect.Signature]
    described_by: ClassVar[tuple[type[Settings]]]  # whose docstring describes the arguments

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "settings_class" in vars(cls) or hasattr(cls, "settings_class"):
            keyword = inspect.Parameter.KEYWORD_ONLY
            parameters = [
                inspect.Parameter(part.name, keyword, default=part.default, annotation=part.type)
                for part in cls._fields()
            ]
            cls.__signature__ = inspect.Signature(parameters)
            cls.described_by = (cls.settings_class,)

    @classmethod
    def _fields(cls) -> list[Field[Any]]:
        """The fields of the settings that this model has as arguments."""
        parts = fields(cls.settings_class)
        assert all(part.default is not MISSING for part in parts)
        return [part for part in parts if part.metadata.get("head", cls.head) == cls.head]

    def __init__(self, **settings: Setting) -> None:
        super().__init__()
        names = [part.name for part in self._fields()]
        for name in settings:
            if name not in names:
                near = closest(name, names)
                advice = f"; did you mean {near!r}?" if near else f"; it takes {', '.join(names)}"
                raise TypeError(f"{type(self).__name__}: has no argument {name!r}{advice}")
        try:
            self.config = self.settings_class(**settings)  # type: ignore[arg-type]
        except ValueError as error:
            raise ValueError(f"{type(self).__name__}: {error}") from None
        self._build()
        self.reset_parameters()

    @classmethod
    def from_config(cls, config: Mapping[str, Any] | str | os.PathLike[str], **settings: Setting) -> Self:
        """A model with the settings of a Hugging Face configuration.

        Args:
            config: a dictionary, or the path of a `config.json`.
            settings: arguments of the constructor that take precedence.
        Raises:
            ValueError: the configuration is of another model, or has a setting that is not supported.

        >>> from tdt.text.models import GPT2Model
        >>> GPT2Model.from_config({"vocab_size": 9, "n_embd": 8, "n_layer": 2, "n_head": 2, "n_positions": 4}).config.n_layer
        2
        """
        found = asdict(cls.settings_class.read(config))
        return cls(**{part.name: found[part.name] for part in cls._fields()} | settings)

    @classmethod
    def part(cls, config: Settings) -> Self:
        """This model as a part of one with these settings, which initialises it."""
        model = cls.__new__(cls)
        nn.Module.__init__(model)
        model.config = config
        model._build()
        return model

    def _build(self) -> None:
        """Make the submodules from `self.config`."""
        raise NotImplementedError

    def _tie(self) -> None:
        """Make the output layer's weight that of the embedding, if the settings say so."""
        if self.tied is not None and self.config.tie_word_embeddings:
            target, source = (self.get_submodule(name) for name in self.tied)
            target.register_parameter("weight", source.get_parameter("weight"))

    def reset_parameters(self) -> None:
        """Initialise the weights: normal with deviation `initializer_range`, biases 0, norms 1."""
        deviation = self.config.initializer_range
        for module in self.modules():
            weight, bias = getattr(module, "weight", None), getattr(module, "bias", None)
            if isinstance(module, nn.LayerNorm | nn.RMSNorm):
                module.reset_parameters()
                continue
            if isinstance(weight, Tensor):
                nn.init.normal_(weight, std=deviation)
            if isinstance(bias, Tensor):
                nn.init.zeros_(bias)
            if isinstance(module, nn.Embedding) and module.padding_idx is not None:
                with tdt.no_grad():
                    module.weight[module.padding_idx] = 0

    def extra_repr(self) -> str:
        """Nothing: the submodules say it."""
        return ""


def _read_json(path: Path) -> Mapping[str, Any]:
    try:
        found = json.loads(path.expanduser().read_bytes())
    except ValueError as error:
        raise ValueError(f"{path}: is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise ValueError(f"{path}: is not a configuration: it holds no mapping")
    return found


def activation(name: str) -> Callable[[Tensor], Tensor]:
    """The activation function of a name in a `config.json`. ValueError if there is none."""
    if name not in ACTIVATIONS:
        raise ValueError(f"no activation is called {name!r}; known: {', '.join(ACTIVATIONS)}")
    return ACTIVATIONS[name]


def key_mask(
    model: TextModel, input_ids: Tensor, attention_mask: Tensor | None, mask_padding: bool = False
) -> Tensor | None:
    """The mask of tokens that may be attended to, as bool (n, 1, 1, length); None if all may.

    mask_padding: without an `attention_mask`, those that are not the model's `pad_token_id`.

    Raises:
        ValueError: `input_ids` is not (n, length), or the mask is of another shape.
    """
    if input_ids.ndim != 2:
        raise ValueError(f"{type(model).__name__}: takes tokens (n, length), got {tuple(input_ids.shape)}")
    if attention_mask is None:
        return (input_ids != model.config.pad_token_id)[:, None, None, :] if mask_padding else None
    if attention_mask.shape != input_ids.shape:
        shapes = f"{tuple(attention_mask.shape)}, but input_ids {tuple(input_ids.shape)}"
        raise ValueError(f"{type(model).__name__}: attention_mask is of shape {shapes}")
    return attention_mask.bool()[:, None, None, :]


def check_length(model: nn.Module, end: int, most: int, name: str) -> None:
    """Raise ValueError if a sequence is longer than the model's positions."""
    if end > most:
        raise ValueError(f"{type(model).__name__}: the sequence has {end} tokens, but {name} is {most}")


def split_heads(x: Tensor, heads: int) -> Tensor:
    """(n, length, heads · width) → (n, heads, length, width)."""
    n, length, _ = x.shape
    return x.reshape(n, length, heads, -1).transpose(1, 2)


def join_heads(x: Tensor) -> Tensor:
    """(n, heads, length, width) → (n, length, heads · width)."""
    n, heads, length, width = x.shape
    return x.transpose(1, 2).reshape(n, length, heads * width)


def last_token(logits: Tensor, input_ids: Tensor, pad_token_id: int | None) -> Tensor:
    """The logits (n, labels) at the last token of each sequence that is no padding, of (n, length, labels).

    Raises:
        ValueError: several sequences, and no `pad_token_id` to find their ends by.
    """
    if pad_token_id is None:
        if len(input_ids) != 1:
            raise ValueError("a batch of several sequences needs pad_token_id, which marks the padding at their ends")
        return logits[:, -1]
    places = tdt.arange(input_ids.shape[1], device=input_ids.device) * (input_ids != pad_token_id)
    return logits[tdt.arange(len(input_ids), device=input_ids.device), places.argmax(-1)]


def with_classes(logits: Tensor, class_dim: int) -> Tensor:
    """Logits (n, length, vocab_size) with the vocabulary in dimension `class_dim`."""
    return logits.transpose(1, 2) if class_dim == 1 else logits
