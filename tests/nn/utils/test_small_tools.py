"""Vectors of parameters, fused layers, modules without initial values, memory formats, and old names, against PyTorch's."""

import copy

import numpy as np
import pytest

import tdt
from tests.nn._compare import agree_error, agree_on_program, near, numbers, of, same_state, torch


def model(lib):
    lib.manual_seed(0)
    return lib.nn.Sequential(lib.nn.Linear(2, 3), lib.nn.Linear(3, 1, bias=False))


def test_parameters_become_a_vector_and_back():
    def run(lib):
        net, utils = model(lib), lib.nn.utils
        vector = utils.parameters_to_vector(net.parameters())
        vector.square().sum().backward()
        utils.vector_to_parameters(lib.arange(float(vector.numel())), net.parameters())
        gradients = [p.grad for p in net.parameters()]
        return vector, gradients, list(net.parameters()), [p.requires_grad for p in net.parameters()]

    agree_on_program(run)


def test_a_parameter_shares_memory_with_the_vector_it_was_read_from():
    layer, vector = tdt.nn.Linear(1, 1), tdt.ones(2)
    tdt.nn.utils.vector_to_parameters(vector, layer.parameters())
    vector.fill_(5)
    assert layer.weight.item() == layer.bias.item() == 5
    agree_error(lambda lib: lib.nn.utils.vector_to_parameters([1.0], model(lib).parameters()))


BEFORE = {
    "linear": lambda nn: (nn.Linear(4, 3), nn.BatchNorm1d(3)),
    "linear without bias": lambda nn: (nn.Linear(4, 3, bias=False), nn.BatchNorm1d(3)),
    "linear to one feature": lambda nn: (nn.Linear(4, 1), nn.BatchNorm1d(1)),
    "conv": lambda nn: (nn.Conv2d(4, 6, 3, groups=2), nn.BatchNorm2d(6)),
    "conv without bias": lambda nn: (nn.Conv1d(4, 2, 2, bias=False), nn.BatchNorm1d(2)),
    "plain batch norm": lambda nn: (nn.Conv1d(4, 2, 2), nn.BatchNorm1d(2, affine=False, eps=1e-2)),
    "transposed": lambda nn: (nn.ConvTranspose2d(4, 3, 2, bias=False), nn.BatchNorm2d(3)),
}


@pytest.mark.parametrize("name", BEFORE)
def test_a_fused_layer_does_what_it_and_its_batch_norm_did(name):
    shape = {"1d": (2, 4, 5), "2d": (2, 4, 5, 5)}.get(type(BEFORE[name](torch.nn)[0]).__name__[-2:], (7, 4))
    layers = [pair for lib in (tdt, torch) for pair in [[m.eval() for m in BEFORE[name](lib.nn)]]]
    random = np.random.default_rng(0)
    for value in layers[1][1].state_dict().values():
        value.copy_(torch.from_numpy(random.random(tuple(value.shape)).astype("float32")))
    for ours, theirs in zip(*layers, strict=True):
        same_state(ours, theirs)
    x, fused = numbers(*shape), []
    for lib, (layer, bn) in zip((tdt, torch), layers, strict=True):
        utils = lib.nn.utils
        if name.startswith("linear"):
            fused.append(utils.fuse_linear_bn_eval(layer, bn))
        else:
            fused.append(utils.fuse_conv_bn_eval(layer, bn, transpose=name == "transposed"))
    near(fused[0].weight, fused[1].weight, "weight")
    near(fused[0].bias, fused[1].bias, "bias")
    assert [p.requires_grad for p in fused[0].parameters()] == [p.requires_grad for p in fused[1].parameters()]
    layer, bn = layers[0]
    near(fused[0](of(tdt, x)), bn(layer(of(tdt, x))), "result")
    assert repr(fused[0]) == repr(fused[1])


@pytest.mark.parametrize("wrong", [
    lambda lib: lib.nn.utils.fuse_conv_bn_eval(lib.nn.Conv1d(1, 1, 1), lib.nn.BatchNorm1d(1)),
    lambda lib: lib.nn.utils.fuse_linear_bn_eval(lib.nn.Linear(1, 3).eval(), lib.nn.BatchNorm1d(2).eval()),
    lambda lib: lib.nn.utils.fuse_linear_bn_eval(
        lib.nn.Linear(1, 1).eval(), lib.nn.BatchNorm1d(1, track_running_stats=False).eval()),
    lambda lib: lib.nn.utils.skip_init(dict),
    lambda lib: lib.nn.utils.skip_init(lib.nn.ReLU),
], ids=["training", "sizes", "statistics", "no module", "no device"])  # fmt: skip
def test_what_cannot_be_fused_or_left_empty_is_refused(wrong):
    agree_error(wrong)


@pytest.mark.parametrize("make", [
    lambda lib: lib.nn.utils.skip_init(lib.nn.Linear, 3, 4, bias=False),
    lambda lib: lib.nn.utils.skip_init(lib.nn.Embedding, 5, 2, padding_idx=1, device="cpu"),
    lambda lib: lib.nn.utils.skip_init(lib.nn.Conv2d, 1, 2, 3, dtype=lib.float64),
    lambda lib: lib.nn.utils.skip_init(lib.nn.BatchNorm1d, 4),
])  # fmt: skip
def test_a_module_built_without_initial_values_draws_none(make):
    def run(lib):
        lib.manual_seed(0)
        module = make(lib)
        kinds = [(k, tuple(v.shape), str(v.dtype).split(".")[1]) for k, v in module.state_dict().items()]
        return kinds, repr(module), [p.requires_grad for p in module.parameters()], lib.rand(2)

    agree_on_program(run)
    loaded = make(tdt)
    state = {k: tdt.ones_like(v) for k, v in loaded.state_dict().items()}
    loaded.load_state_dict(state)
    assert all((v == 1).all() for v in loaded.state_dict().values())


@pytest.mark.parametrize("dims", [2, 3])
def test_convolution_weights_have_pytorchs_memory_layout(dims):
    def run(lib):
        nn, layout = lib.nn, lib.channels_last if dims == 2 else lib.channels_last_3d
        net = nn.Sequential(getattr(nn, f"Conv{dims}d")(3, 4, 2), nn.Sequential(getattr(nn, f"ConvTranspose{dims}d")(4, 5, 2)),
                            getattr(nn, f"Conv{5 - dims}d")(3, 4, 2))  # fmt: skip
        values = [p.detach().clone() for p in net.parameters()]
        convert = getattr(nn.utils, f"convert_conv{dims}d_weight_memory_format")
        assert convert(net, layout) is net
        assert all((a == b).all() for a, b in zip(values, net.parameters(), strict=True))
        return [p.stride() for p in net.parameters()]

    agree_on_program(run)


OLD = ["uniform", "normal", "constant", "eye", "dirac", "xavier_uniform", "xavier_normal", "kaiming_uniform", "kaiming_normal",
       "orthogonal", "sparse"]  # fmt: skip


@pytest.mark.parametrize("name", OLD)
def test_an_old_name_of_an_init_function_warns_and_works(name):
    for lib in (tdt, torch):
        new, old = getattr(lib.nn.init, name + "_"), getattr(lib.nn.init, name)
        args = {"constant": (2.0,), "sparse": (0.5,)}.get(name, ())
        tensor = lib.zeros(3, 4, 3) if name == "dirac" else lib.zeros(3, 4)
        lib.manual_seed(1)
        expected = new(copy.deepcopy(tensor), *args)
        lib.manual_seed(1)
        with pytest.warns(FutureWarning, match=f"`nn.init.{name}` is now deprecated in favor of `nn.init.{name}_`"):
            assert old(tensor, *args) is tensor
        assert tensor.tolist() == expected.tolist()


def test_the_old_name_of_clipping_warns_and_clips():
    for lib in (tdt, torch):
        w = lib.zeros(2, requires_grad=True)
        w.grad = lib.tensor([3.0, 4.0])
        with pytest.warns(FutureWarning, match="clip_grad_norm` is now deprecated in favor of"):
            assert lib.nn.utils.clip_grad_norm(w, 1.0).item() == 5.0
        assert w.grad.norm().item() == pytest.approx(1.0, rel=1e-5)
        with pytest.warns(UserWarning, match="`parameters` is an empty generator, no gradient clipping will occur"):
            lib.nn.utils.clip_grad_norm_((p for p in ()), 1.0)
