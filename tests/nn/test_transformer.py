"""Multi-head attention and the Transformer are PyTorch's beyond the module database: masks, hints, padding, refusals."""

import warnings

import numpy as np
import pytest

import tdt
from tests.helpers import require_torch
from tests.nn._compare import agree, agree_error, agree_module, near, numbers, same_state

torch = require_torch()

QUERY, KEY = numbers(4, 3, 8), numbers(5, 3, 8, seed=1)
PADDING = np.arange(5) >= np.array([[5], [3], [2]])
FORWARD = np.triu(np.ones((4, 5), dtype=bool), 2)


@pytest.fixture(autouse=True)
def _no_advice():
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "enable_nested_tensor|The PyTorch API of nested tensors", UserWarning)
        yield


def run(lib, module, *args, **how):
    """The module's result as a tuple without None."""
    output = module(*args, **how)
    return tuple(t for t in output if t is not None) if isinstance(output, tuple) else output


@pytest.mark.parametrize("need", [{}, {"average_attn_weights": False}, {"need_weights": False}], ids=str)
@pytest.mark.parametrize("options", [{}, {"add_bias_kv": True}, {"add_zero_attn": True, "bias": False}], ids=str)
def test_masks_of_multihead_attention_are_pytorchs(options, need):
    for mask in (FORWARD, np.broadcast_to(FORWARD, (6, 4, 5)).copy(), numbers(4, 5, seed=3)):
        for padding in (None, PADDING):
            layers = {}

            def call(lib, q, kv, m, *p, layers=layers):
                if lib not in layers:
                    lib.manual_seed(1)
                    layers[lib] = lib.nn.MultiheadAttention(8, 2, **options)
                p = None if not p else p[0] if p[0].dtype == m.dtype else lib.zeros(3, 5).masked_fill(p[0], -np.inf)
                return run(lib, layers[lib], q, kv, kv, key_padding_mask=p, attn_mask=m, **need)

            agree(call, QUERY, KEY, mask, *([] if padding is None else [padding]))
            for p, q in zip(layers[tdt].parameters(), layers[torch].parameters(), strict=True):
                near(p.grad, q.grad, "gradient of a parameter")


@pytest.mark.parametrize(
    "options", [{"kdim": 6, "vdim": 7}, {"kdim": 6, "vdim": 7, "batch_first": True, "bias": False}]
)
def test_attention_to_other_widths_is_pytorchs(options):
    class Call:
        def __init__(self, lib):
            self.layer = lib.nn.MultiheadAttention(8, 4, **options)

    calls = {}

    def call(lib, *t):
        lib.manual_seed(4)
        calls.setdefault(lib, Call(lib))
        return calls[lib].layer(*t)

    agree(call, numbers(3, 3, 8), numbers(3, 3, 6), numbers(3, 3, 7))
    agree(call, numbers(4, 8), numbers(5, 6), numbers(5, 7))


def test_static_keys_and_values_take_the_place_of_projected_ones():
    def call(lib, x, w, k, v):
        F = lib.nn.functional
        return F.multi_head_attention_forward(x, x, x, 8, 2, w, None, None, None, True, 0.0, w[:8], None, static_k=k,
                                              static_v=v)  # fmt: skip

    agree(call, QUERY, numbers(24, 8), numbers(6, 7, 4), numbers(6, 7, 4, seed=2))
    for shape in ((5, 7, 4), (6, 7, 3)):
        agree_error(lambda lib, s=shape: call(lib, lib.ones(4, 3, 8), lib.ones(24, 8), lib.ones(*s), lib.ones(*s)))


def test_dropped_weights_of_heads_are_pytorchs_for_a_seed():
    for need in (True, False):

        def call(lib, x, need=need):
            lib.manual_seed(3)
            layer = lib.nn.MultiheadAttention(8, 2, dropout=0.4)
            return run(lib, layer, x, x, x, need_weights=need)

        agree(call, QUERY)


def test_merged_masks_are_pytorchs():
    def call(lib, x, mask, padding):
        layer = lib.nn.MultiheadAttention(8, 2)
        merged, kind = layer.merge_masks(mask, padding, x)
        kinds.append((kind, layer.merge_masks(None, padding, x)[1], layer.merge_masks(None, None, x)))
        return merged, layer.merge_masks(lib.zeros(6, 4, 4), None, x)[0], layer.merge_masks(None, padding, x)[0]

    kinds: list = []
    agree(call, numbers(3, 4, 8), numbers(4, 4), numbers(3, 4))
    assert kinds[0] == kinds[1]


@pytest.mark.parametrize(("call", "clause"), [
    (lambda lib: lib.nn.MultiheadAttention(0, 2), ""),
    (lambda lib: lib.nn.MultiheadAttention(8, 2)(*[lib.ones(4, 3, 8)] * 2, lib.ones(4, 8)), ""),
    (lambda lib: lib.nn.MultiheadAttention(8, 2)(*[lib.ones(8)] * 3), ""),
    (lambda lib: lib.nn.MultiheadAttention(8, 2)(*[lib.ones(4, 3, 6)] * 3), ""),
    (lambda lib: lib.nn.MultiheadAttention(8, 2)(*[lib.ones(4, 3, 8)] * 3, is_causal=True), "Need attn_mask"),
    (lambda lib: lib.nn.MultiheadAttention(8, 2)(*[lib.ones(4, 3, 8)] * 3, attn_mask=lib.ones(3, 4)), ""),
    (lambda lib: lib.nn.MultiheadAttention(8, 2)(*[lib.ones(4, 3, 8)] * 3, attn_mask=lib.ones(5, 4, 4)), ""),
    (lambda lib: lib.nn.MultiheadAttention(8, 2)(*[lib.ones(4, 3, 8)] * 3, attn_mask=lib.ones(4)), ""),
    (lambda lib: lib.nn.MultiheadAttention(8, 2)(*[lib.ones(4, 8)] * 3, attn_mask=lib.ones(3, 4, 4)), ""),
    (lambda lib: lib.nn.MultiheadAttention(8, 2)(*[lib.ones(4, 3, 8)] * 3, lib.ones(3, 5)), ""),
    (lambda lib: lib.nn.MultiheadAttention(8, 2)(*[lib.ones(4, 3, 8)] * 3, lib.ones(4)), ""),
    (lambda lib: lib.nn.TransformerEncoderLayer(8, 2, activation="tanh"), ""),
    (lambda lib: lib.nn.Transformer(8, 2, 1, 1, 8)(lib.ones(4, 3, 8), lib.ones(4, 3, 7)), "the feature number of src"),
    (lambda lib: lib.nn.Transformer(8, 2, 1, 1, 8)(lib.ones(4, 3, 8), lib.ones(4, 2, 8)), "the batch number of src"),
])  # fmt: skip
def test_what_pytorch_refuses_is_refused_with_its_message(call, clause):
    agree_error(call, clause)


def test_masks_of_integers_are_refused():
    agree_error(lambda lib: lib.nn.MultiheadAttention(8, 2)(*[lib.ones(4, 3, 8)] * 3, attn_mask=lib.ones(4, 4).long()),
                "only bool and floating types of attn_mask are supported")  # fmt: skip


def causal(lib, n):
    return lib.nn.Transformer.generate_square_subsequent_mask(n)


@pytest.mark.parametrize("options", [{}, {"batch_first": True, "norm_first": True, "activation": "gelu"}], ids=str)
def test_a_transformer_with_all_masks_is_pytorchs(options):
    src, tgt = numbers(5, 3, 8), numbers(4, 3, 8, seed=1)
    if options:
        src, tgt = src.transpose(1, 0, 2).copy(), tgt.transpose(1, 0, 2).copy()

    class Masked:
        def __init__(self, lib):
            lib.manual_seed(2)
            self.model, self.lib = lib.nn.Transformer(8, 2, 2, 2, 16, 0.2, **options), lib

        def __call__(self, src, tgt):
            lib = self.lib
            lib.manual_seed(6)
            padding = lib.tensor(PADDING.tolist())
            return self.model(src, tgt, lib.zeros(5, 5, dtype=lib.bool), causal(lib, 4), None, padding, None, padding)

    models = {lib: Masked(lib) for lib in (tdt, torch)}
    for train in (True, False):
        for each in models.values():
            each.model.train(train)
            each.model.zero_grad()
        agree(lambda lib, *t: models[lib](*t), src, tgt)
        for (name, p), q in zip(models[tdt].model.named_parameters(), models[torch].model.parameters(), strict=True):
            near(p.grad, q.grad, f"gradient of {name}")


def test_a_causal_mask_is_found_and_a_hint_is_followed():
    layers = {lib: lib.nn.TransformerEncoder(lib.nn.TransformerEncoderLayer(8, 2, 16, 0.0), 2) for lib in (tdt, torch)}
    same_state(layers[tdt], layers[torch])
    x = numbers(5, 3, 8)
    for hint in (None, True, False):
        agree(lambda lib, x, hint=hint: layers[lib](x, causal(lib, 5), is_causal=hint), x)
    hints = []
    attend = tdt.nn.functional.multi_head_attention_forward

    def spy(*args, **how):
        hints.append(how["is_causal"])
        return attend(*args, **how)

    tdt.nn.functional.multi_head_attention_forward = spy
    try:
        layers[tdt](tdt.from_numpy(x), causal(tdt, 5))
    finally:
        tdt.nn.functional.multi_head_attention_forward = attend
    assert hints == [True, True]


@pytest.mark.parametrize("nested", [True, False])
@pytest.mark.parametrize("padding", [PADDING, PADDING[:, ::-1].copy()], ids=["behind", "before"])
def test_padding_in_evaluation_is_zeros_where_pytorch_nests(nested, padding):
    encoders = {}
    for lib in (tdt, torch):
        layer = lib.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
        encoders[lib] = lib.nn.TransformerEncoder(layer, 2, lib.nn.LayerNorm(8), enable_nested_tensor=nested).eval()
    same_state(encoders[tdt], encoders[torch])
    x = numbers(3, 5, 8)
    with tdt.no_grad(), torch.no_grad():
        ours, theirs = (
            encoders[lib](lib.from_numpy(x), src_key_padding_mask=lib.from_numpy(padding)) for lib in (tdt, torch)
        )
    near(ours, theirs, "result without gradients")
    agree(lambda lib, x, p: encoders[lib](x, src_key_padding_mask=p), x, padding)


def test_the_causal_mask_is_pytorchs():
    for how in ({}, {"dtype": "float64"}):
        a, b = (lib.nn.Transformer.generate_square_subsequent_mask(
                    4, **{k: getattr(lib, v) for k, v in how.items()}) for lib in (tdt, torch))  # fmt: skip
        np.testing.assert_array_equal(a.numpy(), b.numpy())
        assert str(a.dtype)[4:] == str(b.dtype)[6:]


def test_layers_with_a_module_as_activation_are_pytorchs():
    agree_module(lambda lib: lib.nn.TransformerEncoderLayer(8, 2, 16, 0.0, lib.nn.SiLU(), norm_first=True), QUERY)
    agree_module(lambda lib: lib.nn.TransformerEncoderLayer(8, 2, 16, 0.0, batch_first=True), numbers(4, 8))
