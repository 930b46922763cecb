"""Module: registration, traversal, states, hooks, copies and printing, as PyTorch's."""

import copy
import os
import pickle
import subprocess
import sys
from collections import OrderedDict

import pytest

import tdt
from tdt import nn
from tests.nn._compare import agree_error, agree_on_program, numbers, torch


def build(lib):
    """A model with most kinds of module, shared parts, buffers and a None."""
    n = lib.nn

    class Block(n.Module):
        def __init__(self):
            super().__init__()
            self.conv = n.Conv2d(3, 4, 3, padding=1, bias=False)
            self.norm = n.BatchNorm2d(4)
            self.act = n.ReLU(inplace=True)
            self.skip = None
            self.scale = n.Parameter(lib.ones(4, 1, 1))
            self.register_buffer("count", lib.zeros(2))
            self.register_buffer("scratch", lib.zeros(2), persistent=False)
            self.register_parameter("nothing", None)

        def forward(self, x):
            return self.act(self.norm(self.conv(x))) * self.scale

    block = Block()
    return n.Sequential(OrderedDict([
        ("body", block), ("again", block), ("pool", n.AdaptiveAvgPool2d(1)), ("flat", n.Flatten()),
        ("heads", n.ModuleList([n.Linear(4, 2), n.Linear(4, 2)])),
        ("table", n.ModuleDict({"a": n.Dropout(0.3), "b": n.Tanh()}))]))  # fmt: skip


PRINTED = """
Linear(3, 4); Linear(3, 4, bias=False); LazyLinear(7); Identity(); Flatten(0, 2); Conv1d(2, 4, 3); Conv2d(1, 32, 3, padding=1)
Conv2d(4, 6, (3, 5), stride=(2, 1), padding=(1, 2), dilation=2, groups=2, bias=False, padding_mode='reflect')
Conv2d(4, 6, 3, padding='same'); Conv3d(1, 2, 3); MaxPool2d(2); MaxPool2d(3, 2, 1, ceil_mode=True); MaxPool1d(2); AvgPool2d(2)
AvgPool1d(3, 2); AdaptiveAvgPool2d((1, None)); AdaptiveAvgPool1d(3); BatchNorm2d(8); BatchNorm1d(3, affine=False, momentum=None)
Dropout(0.2); Dropout(0.5, True); ReLU(); ReLU(True); Sigmoid(); Tanh(); GELU(); GELU('tanh'); SiLU(); LeakyReLU(0.2, True)
ELU(); Softplus(); Softmax(1); Softmax(); LogSoftmax(-1); CrossEntropyLoss(); MSELoss(); NLLLoss(); L1Loss(); Embedding(9, 3)
Embedding(9, 3, padding_idx=2, max_norm=1.5, norm_type=1.0, sparse=True, scale_grad_by_freq=True); LayerNorm((2, 3))
Sequential(); ModuleList(); ModuleDict(); ModuleList([ReLU(), ReLU(), Tanh(), ReLU()])
Sequential(Linear(1, 2), Sequential(ReLU(), Sequential())); ModuleDict({'x': Linear(1, 1)})
"""


@pytest.mark.parametrize("text", [t for line in PRINTED.strip().split("\n") for t in line.split("; ")])
def test_modules_print_as_in_pytorch(text):
    assert repr(eval(text, dict(vars(nn)))) == repr(eval(text, dict(vars(torch.nn))))


def test_a_tree_of_modules_prints_as_in_pytorch():
    assert repr(build(tdt)) == repr(build(torch))


def test_empty_lines_stay_empty_where_a_module_prints_its_children():
    def run(lib):
        kind = type("CaptionedSample", (lib.nn.Module,), {"extra_repr": lambda self: "a\n\nb"})
        return repr(kind()), repr(lib.nn.Sequential(kind(), lib.nn.ReLU()))

    agree_on_program(run)


def test_positional_arguments_of_state_dict_warn():
    def run(lib):
        with pytest.warns(FutureWarning, match="Positional args are being deprecated, use kwargs instead"):
            return list(lib.nn.Linear(1, 1).state_dict({}, "p."))

    agree_on_program(run)


def test_names_of_parameters_buffers_modules_and_states_are_pytorchs():
    ours, theirs = build(tdt), build(torch)
    for method in ("named_parameters", "named_buffers", "named_modules"):
        for options in ({}, {"prefix": "net"}, {"remove_duplicate": False}):
            a, b = ([name for name, _ in getattr(m, method)(**options)] for m in (ours, theirs))
            assert a == b, (method, options)
    assert [n for n, _ in ours.named_parameters(recurse=False)] == [
        n for n, _ in theirs.named_parameters(recurse=False)
    ]
    assert [n for n, _ in ours.named_children()] == [n for n, _ in theirs.named_children()]
    assert list(ours.state_dict()) == list(theirs.state_dict())
    assert list(ours.state_dict(prefix="x.")) == list(theirs.state_dict(prefix="x."))
    assert dict(ours.state_dict()._metadata) == dict(theirs.state_dict()._metadata)
    assert len(list(ours.modules())) == len(list(theirs.modules()))


def test_a_state_goes_out_and_in_bit_for_bit():
    a, b = build(tdt), build(tdt)
    assert str(b.load_state_dict(a.state_dict())) == "<All keys matched successfully>"
    for (_, p), (_, q) in zip(a.state_dict().items(), b.state_dict().items(), strict=True):
        assert p.numpy().tobytes() == q.numpy().tobytes()


def test_a_state_shares_memory_with_the_module():
    layer = nn.Linear(2, 2)
    layer.state_dict()["weight"].fill_(3)
    assert (layer.weight.detach().numpy() == 3).all()
    assert layer.state_dict(keep_vars=True)["weight"] is layer.weight


def wrong_state(lib, change):
    model = lib.nn.Sequential(lib.nn.Linear(2, 3), lib.nn.BatchNorm1d(3))
    state = model.state_dict()
    change(lib, state)
    return model.load_state_dict(state)


@pytest.mark.parametrize("change", [
    lambda lib, s: s.pop("0.bias"), lambda lib, s: s.update({"2.weight": lib.ones(1), "0.extra": lib.ones(1)}),
    lambda lib, s: s.update({"0.weight": lib.ones(4, 3)}), lambda lib, s: s.update({"0.weight": 3}),
    lambda lib, s: (s.pop("1.running_mean"), s.update({"0.weight": lib.ones(2, 2), "x": lib.ones(1)}))],
    ids=["missing", "unexpected", "shape", "type", "all"])  # fmt: skip
def test_a_state_that_does_not_fit_is_refused_with_pytorchs_message(change):
    messages = []
    for lib in (tdt, torch):
        with pytest.raises(RuntimeError) as error:
            wrong_state(lib, change)
        messages.append(str(error.value).replace("torch.", "tdt."))
    assert messages[0] == messages[1]


def test_without_strict_matching_arrays_are_loaded_and_the_others_are_named():
    results = []
    for lib in (tdt, torch):
        model = lib.nn.Linear(2, 2)
        results.append(model.load_state_dict({"weight": lib.ones(2, 2), "other": lib.ones(1)}, strict=False))
        assert model.weight.detach().numpy().tolist() == [[1, 1], [1, 1]]
    assert (results[0].missing_keys, results[0].unexpected_keys) == (
        results[1].missing_keys,
        results[1].unexpected_keys,
    )


def test_assign_takes_the_tensors_of_the_state():
    layer, weight = nn.Linear(2, 2, bias=False), tdt.ones(2, 2, dtype=tdt.float64)
    layer.load_state_dict({"weight": weight}, assign=True)
    assert layer.weight.dtype is tdt.float64
    assert layer.weight.data_ptr() == weight.data_ptr()
    assert isinstance(layer.weight, nn.Parameter)


def test_a_lazy_layer_takes_its_shape_from_a_state():
    lazy, layer = nn.LazyLinear(3), nn.Linear(4, 3)
    lazy.load_state_dict(layer.state_dict())
    x = tdt.from_numpy(numbers(2, 4))
    assert lazy(x).tolist() == layer(x).tolist()
    assert repr(lazy) == repr(layer)


def test_a_lazy_layers_state_is_there_before_its_shapes_are():
    for lib in (tdt, torch):
        lazy, second = lib.nn.LazyLinear(3), lib.nn.LazyLinear(3)
        state = lazy.state_dict()
        assert [*state] == ["weight", "bias"]
        assert {type(value).__name__ for value in state.values()} == {"UninitializedParameter"}
        assert repr(second.load_state_dict(state)) == "<All keys matched successfully>"
        assert tuple(second(lib.ones(1, 2)).shape) == (1, 3)
    agree_error(
        lambda lib: lib.nn.Linear(2, 3).load_state_dict(lib.nn.LazyLinear(3).state_dict()),
        "Can't access the shape of an uninitialized parameter or buffer",
    )


def test_train_and_eval_reach_every_module():
    model = build(tdt)
    assert not any(m.training for m in model.eval().modules())
    assert all(m.training for m in model.train().modules())


def test_to_casts_floating_tensors_in_place_and_leaves_integers():
    model = build(tdt)
    weight = model.body.conv.weight
    assert model.to(tdt.float64) is model
    assert weight.dtype is tdt.float64
    assert model.body.norm.num_batches_tracked.dtype is tdt.int64
    assert model.float().body.count.dtype is tdt.float32
    assert model.half().body.scale.dtype is tdt.float16


def test_type_takes_a_dtype_or_its_old_name_and_casts_integers_too():
    def run(lib):
        layer, types = lib.nn.BatchNorm1d(2), []
        for kind in (lib.float64, "torch.HalfTensor", "torch.LongTensor", lib.float32):
            for p in layer.parameters():
                p.requires_grad_(False)
            layer.type(kind)
            types.append([t.type() for t in layer.state_dict().values()])
        return types

    agree_on_program(run)
    agree_error(lambda lib: lib.nn.Linear(1, 1).type("torch.Float"))


def test_channels_last_weights_have_pytorchs_strides():
    strides = []
    for lib in (tdt, torch):
        for layer in (lib.nn.Conv2d(3, 4, 3), lib.nn.Conv2d(1, 4, 3)):
            strides.append(layer.to(memory_format=lib.channels_last).weight.stride())
    assert strides[:2] == strides[2:]


def test_zero_grad_drops_gradients_or_fills_them_with_zeros():
    layer = nn.Linear(2, 2)
    layer(tdt.ones(1, 2)).sum().backward()
    layer.zero_grad(set_to_none=False)
    assert layer.weight.grad.tolist() == [[0, 0], [0, 0]]
    layer.zero_grad()
    assert layer.weight.grad is None


def test_hooks_see_and_replace_arguments_and_results_until_removed():
    for lib in (tdt, torch):
        layer, calls = lib.nn.Identity(), []
        before = layer.register_forward_pre_hook(lambda m, args, calls=calls: calls.append("before") or (args[0] + 1,))
        after = layer.register_forward_hook(lambda m, args, out, calls=calls: calls.append("after") or out * 2)
        first = layer.register_forward_hook(lambda m, args, out, calls=calls: calls.append("first"), prepend=True)
        assert layer(lib.ones(1)).item() == 4
        assert calls == ["before", "first", "after"]
        for handle in (before, after, first):
            handle.remove()
        assert layer(lib.ones(1)).item() == 1
        with layer.register_forward_pre_hook(lambda m, args, kwargs: (args, {}), with_kwargs=True):
            assert layer(lib.ones(1)).item() == 1


def test_a_hook_that_is_always_called_runs_after_an_error():
    class Fails(nn.Module):
        def forward(self, x):
            raise ValueError("the reason")

    layer, calls = Fails(), []
    layer.register_forward_hook(lambda m, args, out: calls.append(out), always_call=True)
    with pytest.raises(ValueError, match="the reason"):
        layer(1)
    assert calls == [None]


def test_a_computed_tensor_is_pickled_as_a_leaf_that_requires_gradients():
    new = pickle.loads(pickle.dumps(tdt.ones(2, requires_grad=True) * 3))
    assert new.is_leaf and new.requires_grad and new.tolist() == [3.0, 3.0]


def test_copies_and_pickles_are_independent_and_equal():
    model = build(tdt)
    x = tdt.from_numpy(numbers(2, 3, 5, 5))
    plain = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU())
    for old, new in (
        (model, copy.deepcopy(model)),
        (plain, copy.deepcopy(plain)),
        (plain, pickle.loads(pickle.dumps(plain))),
    ):
        assert new[0](x).tolist() == old[0](x).tolist()
        for p, q in zip(old.parameters(), new.parameters(), strict=True):
            assert type(q) is nn.Parameter
            assert q.data_ptr() != p.data_ptr()
            assert q.requires_grad
    copied = copy.deepcopy(model)
    assert copied.body is copied.again, "what is shared stays shared"


def test_submodules_parameters_and_buffers_are_found_by_name():
    model = build(tdt)
    assert model.get_submodule("heads.1") is model.heads[1]
    assert model.get_submodule("") is model
    assert model.get_parameter("body.conv.weight") is model.body.conv.weight
    assert model.get_buffer("body.norm.running_mean") is model.body.norm.running_mean
    for call in (lambda m: m.get_submodule("body.none"), lambda m: m.get_submodule("body.scale"),
                 lambda m: m.get_parameter("body.conv"), lambda m: m.get_buffer("body.conv.weight")):  # fmt: skip
        agree_error(lambda lib, call=call: call(build(lib)))


def unready(lib, kind):
    class Early(lib.nn.Module):
        def __init__(self):
            self.part = {"parameter": lambda: lib.nn.Parameter(lib.ones(1)), "module": lambda: lib.nn.ReLU()}[kind]()

    return Early()


MISUSES = {
    "parameter before init": lambda lib: unready(lib, "parameter"),
    "module before init": lambda lib: unready(lib, "module"),
    "tensor as parameter": lambda lib: lib.nn.Linear(1, 1).register_parameter("p", lib.ones(1)),
    "tensor in a parameter's place": lambda lib: setattr(lib.nn.Linear(1, 1), "weight", lib.ones(1)),
    "number in a module's place": lambda lib: setattr(build(lib), "pool", 3),
    "number in a buffer's place": lambda lib: setattr(lib.nn.BatchNorm1d(1), "running_mean", 3),
    "dot in a name": lambda lib: lib.nn.Module().register_parameter("a.b", None),
    "empty name": lambda lib: lib.nn.Module().register_buffer("", None),
    "name taken": lambda lib: lib.nn.Module().register_buffer("forward", None),
    "dot in a module": lambda lib: lib.nn.Module().add_module("a.b", None),
    "not a module": lambda lib: lib.nn.Sequential(3),
    "unknown attribute": lambda lib: lib.nn.Linear(1, 1).wieght,
    "computed parameter": lambda lib: lib.nn.Module().register_parameter("p", computed(lib)),
    "no forward": lambda lib: lib.nn.Module()(1),
    "train by a number": lambda lib: lib.nn.Linear(1, 1).train(1),
    "to an integer type": lambda lib: lib.nn.Linear(1, 1).to(lib.int64),
    "state of the wrong type": lambda lib: lib.nn.Linear(1, 1).load_state_dict([]),
    "index outside": lambda lib: lib.nn.Sequential(lib.nn.ReLU())[1],
    "list plus": lambda lib: lib.nn.Sequential() + [1],
}


def computed(lib):
    x = lib.nn.Parameter(lib.ones(1))
    y = x * 1
    y.__class__ = lib.nn.Parameter
    return y


@pytest.mark.parametrize("name", [n for n in MISUSES if n not in ("computed parameter",)])
def test_misuse_is_refused_as_in_pytorch(name):
    clause = {"number in a module's place": "cannot assign 'int' as child module 'pool'",
              "not a module": "is not a Module subclass",
              "tensor as parameter": "cannot assign", "tensor in a parameter's place": "cannot assign",
              "state of the wrong type": "Expected state_dict to be dict-like", "index outside": "index 1 is out of range",
              "list plus": "add operator supports only objects of Sequential class",
              "to an integer type": "only accepts floating point",
              "no forward": 'is missing the required "forward" function'}  # fmt: skip
    agree_error(MISUSES[name], clause.get(name, ""))


def test_sequential_is_indexed_sliced_and_changed_like_a_list():
    for lib in (tdt, torch):
        n = lib.nn
        model = n.Sequential(n.Linear(1, 2), n.ReLU(), n.Linear(2, 3))
        assert model[-1] is model[2]
        assert [*model[1:]._modules] == ["1", "2"]
        model[1] = n.Tanh()
        model.append(n.Sigmoid()).insert(1, n.Identity())
        model.extend([n.Flatten()])
        kinds = [type(m).__name__ for m in model]
        assert kinds == ["Linear", "Identity", "Tanh", "Linear", "Sigmoid", "Flatten"]
        del model[1]
        assert type(model.pop(0)).__name__ == "Linear"
        assert [*model._modules] == ["0", "1", "2", "3"]
        assert len(model + model) == 8
        assert len(model * 2) == 8


@pytest.mark.parametrize("change", [
    lambda model, nn: model.__delitem__(1), lambda model, nn: model.pop(-1), lambda model, nn: model.__delitem__(slice(2)),
    lambda model, nn: model.insert(3, nn.Tanh()), lambda model, nn: model.append(nn.Tanh())],
    ids=["del", "pop", "del slice", "insert", "append"])  # fmt: skip
def test_names_in_a_sequential_after_a_change_are_pytorchs(change):
    names = []
    for lib in (tdt, torch):
        model = lib.nn.Sequential(OrderedDict((name, lib.nn.Linear(2, 2)) for name in "abc"))
        change(model, lib.nn)
        names.append([name for name, _ in model.named_modules()])
    assert names[0] == names[1]


def test_the_three_forms_of_sequential_hold_the_same():
    layers = [nn.Linear(2, 2), nn.ReLU()]
    byname = nn.Sequential()
    for name, layer in zip("ab", layers, strict=True):
        byname.add_module(name, layer)
    ordered = nn.Sequential(OrderedDict(zip("ab", layers, strict=True)))
    x = tdt.from_numpy(numbers(3, 2))
    results = [m(x).tolist() for m in (nn.Sequential(*layers), byname, ordered)]
    assert results[0] == results[1] == results[2]
    assert [*byname.state_dict()] == [*ordered.state_dict()] == ["a.weight", "a.bias"]


def test_module_list_and_dict_behave_like_a_list_and_a_dict():
    parts = nn.ModuleList([nn.ReLU()])
    parts += [nn.Tanh()]
    parts.insert(0, nn.Identity())
    assert [type(m).__name__ for m in parts] == ["Identity", "ReLU", "Tanh"]
    assert isinstance(parts[1:], nn.ModuleList)
    assert len(parts + [nn.ReLU()]) == 4
    table = nn.ModuleDict({"a": nn.ReLU()})
    table["b"] = nn.Linear(1, 1)
    table.update([("c", nn.Tanh())])
    assert list(table) == ["a", "b", "c"]
    assert "b" in table
    assert type(table.pop("a")).__name__ == "ReLU"
    assert [n for n, _ in table.named_parameters()] == ["b.weight", "b.bias"]


@pytest.mark.parametrize(
    "kind, size", [("Linear", (3, 3)), ("Conv1d", (3, 3, 1)), ("LayerNorm", (3,)), ("BatchNorm1d", (3,))]
)
def test_a_layer_computes_with_a_weight_that_its_class_defines_as_a_property(kind, size):
    for lib in (tdt, torch):
        base = getattr(lib.nn, kind)
        halved = type(
            "Halved", (base,), {"weight": property(lambda self, like=base: 0.5 * like.__getattr__(self, "weight"))}
        )
        args = size[:1] if kind.endswith("Norm") or kind.startswith("Batch") else size
        plain, layer = base(*args).eval(), halved(*args).eval()
        layer.load_state_dict(plain.state_dict())
        x = lib.ones(2, 3, 4) if kind == "Conv1d" else lib.tensor([[1.0, 2.0, 4.0]])
        with lib.no_grad():
            plain.weight.mul_(0.5)
            assert lib.allclose(plain(x), layer(x))


def test_a_layer_computes_with_the_attributes_that_its_class_computes():
    class Halved(nn.Linear):
        def __getattr__(self, name):
            found = super().__getattr__(name)
            return 0.5 * found if name == "weight" else found

    layer, x = Halved(2, 3, bias=False), tdt.ones(4, 2)
    assert tdt.equal(layer(x), x @ (0.5 * layer._parameters["weight"]).t())


def test_apply_visits_children_before_their_parent():
    visited = []
    nn.Sequential(nn.Linear(1, 1), nn.ReLU()).apply(lambda m: visited.append(type(m).__name__))
    assert visited == ["Linear", "ReLU", "Sequential"]


VALUES = {
    "nothing": lambda lib: None,
    "number": lambda lib: 3,
    "tensor": lambda lib: lib.ones(2),
    "parameter": lambda lib: lib.nn.Parameter(lib.ones(2)),
    "buffer": lambda lib: lib.nn.Buffer(lib.ones(2)),
    "passing buffer": lambda lib: lib.nn.Buffer(lib.ones(2), persistent=False),
    "module": lambda lib: lib.nn.ReLU(),
}


@pytest.mark.parametrize("first", VALUES)
@pytest.mark.parametrize("second", [*VALUES, "gone"])
def test_attributes_move_between_kinds_as_in_pytorch(first, second):
    accounts = []
    for lib in (tdt, torch):
        layer, error = lib.nn.Linear(2, 2), None
        layer.extra = VALUES[first](lib)
        try:
            if second == "gone":
                del layer.extra
            else:
                layer.extra = VALUES[second](lib)
        except (TypeError, KeyError) as raised:
            error = (type(raised), str(raised).replace("tdt.", "torch."))
        kinds = [list(dict(named())) for named in (layer.named_parameters, layer.named_buffers, layer.named_children)]
        accounts.append((kinds, list(layer.state_dict()), hasattr(layer, "extra"), repr(layer), error))
    assert accounts[0] == accounts[1]


def test_a_buffer_is_a_tensor_that_copies_and_pickles_with_its_module():
    module = nn.Module()
    module.running = nn.Buffer(tdt.tensor([1.0, 2.0]), persistent=False)
    assert isinstance(module.running, tdt.Tensor)
    assert not module.running.requires_grad
    for copied in (copy.deepcopy(module), pickle.loads(pickle.dumps(module)), module.double()):
        assert copied.running.tolist() == [1.0, 2.0]
        assert list(copied.state_dict()) == []
    assert nn.Buffer().shape == torch.nn.Buffer().shape


@pytest.mark.parametrize("set_it", [
    lambda m, n: m.set_submodule("0", n.Tanh()), lambda m, n: m.set_submodule("1.0", n.Tanh()),
    lambda m, n: m.set_submodule("new", n.Tanh()), lambda m, n: m.set_submodule("1.new", n.Tanh()),
])  # fmt: skip
def test_a_module_anywhere_in_the_tree_is_replaced_by_name(set_it):
    models = [n.Sequential(n.Linear(1, 2), n.Sequential(n.ReLU())) for n in (nn, torch.nn)]
    for model, n in zip(models, (nn, torch.nn), strict=True):
        set_it(model, n)
    assert repr(models[0]) == repr(models[1])


@pytest.mark.parametrize("wrong", [
    lambda lib: lib.nn.Linear(1, 2).set_submodule("", lib.nn.ReLU()),
    lambda lib: lib.nn.Linear(1, 2).set_submodule("a.b", lib.nn.ReLU()),
    lambda lib: lib.nn.Linear(1, 2).set_submodule("a", lib.nn.ReLU(), strict=True),
    lambda lib: lib.nn.Linear(1, 2).set_submodule("weight", lib.nn.ReLU()),
    lambda lib: lib.nn.Linear(1, 2).set_submodule("a", 3),
])  # fmt: skip
def test_a_module_is_not_registered_where_pytorch_refuses_it(wrong):
    agree_error(wrong)


@pytest.mark.parametrize("kind", ["UninitializedParameter", "UninitializedBuffer"])
def test_a_tensor_without_a_shape_refuses_what_needs_one(kind):
    for use in ("numel", "dim", "stride", "tolist", "clone", "sum", "zero_", "item", "__len__", "__bool__"):
        with pytest.raises(ValueError, match=f"Attempted to use an uninitialized parameter in .*{use}"):
            getattr(getattr(tdt.nn, kind)(), use)()
        with pytest.raises(ValueError, match="Attempted to use an uninitialized parameter"):
            getattr(getattr(torch.nn, kind)(), use)()
    with pytest.raises(ValueError, match="Attempted to use an uninitialized parameter in __add__"):
        getattr(tdt.nn, kind)() + 1
    assert getattr(tdt.nn, kind)().double().dtype is tdt.float64
    agree_error(lambda lib: getattr(lib.nn, kind)().shape)
    agree_error(lambda lib: getattr(lib.nn, kind)().share_memory_())
    assert repr(pickle.loads(pickle.dumps(nn.LazyLinear(2)))) == repr(nn.LazyLinear(2))


def test_a_buffer_without_a_shape_lives_in_a_module_until_it_has_one():
    def run(lib):
        module = lib.nn.Module()
        module.running = lib.nn.UninitializedBuffer(dtype=lib.float32)
        module.aside = lib.nn.UninitializedBuffer(persistent=False)
        results = [[n for n, _ in module.named_buffers()], repr(module.running)]
        for same in (module, module.double(), module.to(lib.float16)):
            results += [repr(same.running), str(same.running.dtype).split(".")[1], same.running.requires_grad]
        buffer = module.running
        buffer.materialize((2, 3), dtype=lib.int64)
        buffer.fill_(4)
        return [*results, module.running is buffer, buffer, list(module.state_dict())]

    agree_on_program(run)
    lazy = nn.Module()
    lazy.running = nn.UninitializedBuffer(persistent=True)
    for copied in (copy.deepcopy(lazy), pickle.loads(pickle.dumps(lazy))):
        assert repr(list(copied.state_dict().items())) == "[('running', <UninitializedBuffer>)]"


def test_members_of_the_tree_are_found_by_a_function_of_the_module():
    def run(lib):
        model = lib.nn.Sequential(lib.nn.Linear(1, 2), lib.nn.ReLU())
        return [n for n, _ in model._named_members(lambda m: m._parameters.items(), prefix="p")]

    agree_on_program(run)


SHARED = """
import os, tdt
model = tdt.nn.Sequential(tdt.nn.Conv2d(2, 3, 2).to(memory_format=tdt.channels_last), tdt.nn.BatchNorm2d(3))
strides, values = model[0].weight.stride(), [p.detach().clone() for p in model.parameters()]
assert model.share_memory() is model
assert model[0].weight.stride() == strides and all((p == v).all() for p, v in zip(model.parameters(), values))
if not (child := os.fork()):
    model[0].weight.data.fill_(7.0), model[1].running_mean.fill_(5.0)
    os._exit(0)
os.waitpid(child, 0)
print(model[0].weight.mean().item(), model[1].running_mean.mean().item(), model[0].weight.requires_grad)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked on POSIX alone")
def test_a_module_in_shared_memory_is_changed_by_a_forked_process():
    done = subprocess.run([sys.executable, "-c", SHARED], capture_output=True, text=True)
    assert done.stdout == "7.0 5.0 True\n", done.stderr
    agree_error(lambda lib: lib.nn.LazyLinear(2).share_memory())


def test_a_module_that_cannot_be_moved_reports_it():
    for move in ("xpu", "ipu", "mtia"):
        with pytest.raises(RuntimeError, match="Expected one of cpu, cuda, meta device type"):
            getattr(nn.Linear(1, 1), move)()


@pytest.mark.parametrize("kind", [nn.Parameter, nn.Buffer])
def test_a_parameter_or_buffer_of_a_non_tensor_is_refused(kind):
    with pytest.raises(TypeError, match=rf"{kind.__name__} expects a Tensor, got list: make one with tensor"):
        kind([1.0])


class Scaled(tdt.Tensor):
    """A class of a user's."""


def test_a_parameter_of_a_tensor_of_another_class_has_that_class():
    parameter = nn.Parameter(tdt.ones(2).as_subclass(Scaled))
    buffer = nn.Buffer(tdt.zeros(2).as_subclass(Scaled), persistent=False)
    assert type(parameter) is type(buffer) is type(parameter + 1) is Scaled
    assert isinstance(parameter, nn.Parameter) and not isinstance(parameter, nn.Buffer)
    assert isinstance(buffer, nn.Buffer) and not isinstance(buffer, nn.Parameter)
    assert not isinstance(parameter + 1, nn.Parameter)
    assert not isinstance(parameter, nn.UninitializedParameter)
    assert repr(parameter) == "Parameter(Scaled([1., 1.], requires_grad=True))"
    with pytest.raises(TypeError, match="persistent"):
        nn.Buffer(tdt.zeros(2).as_subclass(Scaled), False)


def test_a_module_trains_and_copies_parameters_of_other_classes():
    module = nn.Module()
    module.weight = nn.Parameter(tdt.ones(2).as_subclass(Scaled))
    module.mean = nn.Buffer(tdt.zeros(2).as_subclass(Scaled), persistent=False)
    module = copy.deepcopy(module)
    assert list(dict(module.named_parameters())) == ["weight"] and list(dict(module.named_buffers())) == ["mean"]
    assert list(module.state_dict()) == ["weight"]
    optimizer = tdt.optim.SGD(module.parameters(), lr=0.5)
    (module.weight * tdt.tensor([1.0, 2.0])).sum().backward()
    optimizer.step()
    assert type(module.weight) is Scaled and module.weight.tolist() == [0.5, 0.0]


def test_a_class_whose_detach_returns_plain_tensors_makes_no_parameter():
    class Lost(tdt.Tensor):
        def detach(self):
            return tdt.ones(1)

    with pytest.raises(RuntimeError, match="instance of type Lost requires that detach"):
        nn.Parameter(tdt.ones(1).as_subclass(Lost))
