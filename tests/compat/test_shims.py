"""Modules that programs for PyTorch import and tdt has no work for: what they answer, and what they refuse."""

from __future__ import annotations

import importlib
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import tdt
from tdt import as_torch
from tdt.compat import _aten
from tdt.compat._find import find_module
from tests.helpers import require_torch

ROOT = Path(__file__).parents[2]

# What libraries import, and where PyTorch has it.
IMPORTS = """
import importlib.metadata, importlib.util, sys
import torch
assert torch.jit.script(torch.nn.ReLU()) and torch.utils._pytree.tree_map and torch.fx.wrap and torch.hub.get_dir()
assert torch.futures.Future and torch.library.custom_op and not torch.onnx.is_in_onnx_export()
assert torch._C._get_tracing_state() is None and not torch._dynamo.is_compiling() and torch._assert
assert not torch.compiler.is_compiling() and not hasattr(torch, "_not_there")
import torch.jit, torch.fx, torch._dynamo, torch._dynamo.config, torch.futures, torch.hub, torch.library, torch.onnx
import torch.utils._pytree as pytree, torch.compiler
from torch._C import _log_api_usage_once, ScriptModule
from torch.jit import Final, ScriptModule as Same, is_scripting
from torch.fx import Graph, GraphModule, Node, Proxy, Tracer, symbolic_trace
from torch.utils import _pytree
from torch import jit, fx, SymInt
import tdt
assert _pytree is pytree is torch.utils._pytree is tdt.utils._pytree and jit is tdt.jit is sys.modules["torch.jit"]
assert ScriptModule is Same and importlib.util.find_spec("torch") and not importlib.util.find_spec("flax_not_there")
from packaging.version import Version
assert importlib.metadata.distribution("torch").metadata["Name"] == "torch"
assert Version(importlib.metadata.version("torch")) == Version(torch.__version__)
assert importlib.metadata.version("torchvision") == torch.__version__.replace("2.13", "0.28")
assert "numpy" in {d.metadata["Name"].lower() for d in importlib.metadata.distributions()}
assert importlib.metadata.version("numpy")
print("done")
"""


def test_what_libraries_import_is_there_in_the_place_of_pytorchs():
    done = subprocess.run(
        [sys.executable, "-m", "tdt.as_torch", "-c", IMPORTS], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    assert done.stdout == "done\n", done.stderr


@pytest.mark.parametrize("module", ["jit", "fx", "_dynamo", "futures", "hub", "library", "onnx", "compiler"])
def test_the_names_are_pytorchs(module: str):
    require_torch()
    ours, theirs = (
        importlib.import_module(str(as_torch.find_module(module))),
        importlib.import_module(f"torch.{module}"),
    )
    names = set(getattr(ours, "__all__", ())) or {name for name, value in vars(ours).items()
                                                  if getattr(value, "__module__", "") == ours.__name__}  # fmt: skip
    assert names
    assert not {name for name in names if not hasattr(theirs, name)} - {"CustomOpDef"}


class Gate(tdt.nn.Module):
    @tdt.jit.unused
    def unused(self):
        return 1

    @tdt.jit.ignore(drop=True)
    def dropped(self):
        return 2

    @tdt.jit.export
    def forward(self, x):
        return x if tdt.jit.is_scripting() else x * self.unused() * self.dropped()


def test_what_is_scripted_or_traced_runs_as_it_is():
    gate, x = Gate(), tdt.ones(2)
    assert tdt.jit.script(gate) is gate and tdt.jit.trace(gate, x) is gate and gate(x).tolist() == [2, 2]
    assert tdt.jit.script(Gate) is Gate and tdt.jit.freeze(gate.eval()) is gate
    calls = []
    assert tdt.jit.trace(calls.append, (3,)) == calls.append and calls == [3]

    @tdt.jit.script_if_tracing
    @tdt.jit.script
    def double(n: int) -> int:
        return n * 2

    assert double(2) == 4 and tdt.jit.wait(tdt.jit.fork(double, 3)) == 6
    assert tdt.jit.annotate(list[int], [1]) == [1] and tdt.jit.isinstance([1], list)
    with pytest.raises(RuntimeError, match="eval mode"):
        tdt.jit.freeze(gate.train())


@pytest.mark.parametrize(
    ("call", "name", "advice"),
    [
        (lambda: tdt.jit.save(Gate(), "gate.pt"), "jit.save", "state_dict"),
        (lambda: tdt.jit.load("gate.pt"), "jit.load", "state_dict"),
        (lambda: tdt.jit.ScriptModule().save("gate.pt"), "ScriptModule.save", "state_dict"),
        (lambda: tdt.fx.symbolic_trace(Gate()), "fx.symbolic_trace", "forward hooks"),
        (lambda: tdt.fx.Tracer(), "fx.Tracer", "forward hooks"),
        (lambda: type("Own", (tdt.fx.GraphModule,), {})(), "fx.GraphModule", "forward hooks"),
        (lambda: tdt.hub.load("pytorch/vision", "resnet18"), "hub.load", "source='local'"),
        (lambda: tdt.ops.load_library("ops.so"), "ops.load_library", "autograd.Function"),
    ],
)  # fmt: skip
def test_what_needs_a_compiler_or_the_network_is_refused_with_the_reason(call, name, advice):
    with pytest.raises(NotImplementedError, match=rf"^{name}: tdt .*{advice}"):
        call()


@pytest.mark.parametrize("name", ["save", "code", "graph"])
def test_a_scripted_module_reports_why_it_has_no_compiled_form(name):
    with pytest.raises(AttributeError, match=rf"'Gate' object has no attribute '{name}'; tdt compiles no .*state_dict"):
        getattr(tdt.jit.script(Gate()), name)


def test_the_compilers_marks_change_nothing():
    def function():
        return 1

    dynamo, compiler = tdt._dynamo, tdt.compiler
    marks = [dynamo.disable, dynamo.disable(recursive=False), dynamo.allow_in_graph, dynamo.optimize("inductor"),
             compiler.disable, compiler.allow_in_graph, compiler.set_stance("force_eager"), tdt.fx.wrap]  # fmt: skip
    assert all(mark(function) is function for mark in marks)
    with compiler.set_stance("default"), dynamo.config.patch(cache_size_limit=64, invented=1):
        assert dynamo.config.cache_size_limit == 64
    assert dynamo.config.cache_size_limit == 8 and not hasattr(dynamo.config, "invented")
    assert dynamo.mark_dynamic(tdt.ones(1), 0) is None and dynamo.reset() is None and compiler.list_backends() == []
    assert isinstance(function, dynamo.OptimizedModule) is False


def test_jit_reports_that_python_cannot_be_compiled():
    from tdt.compat._dynamo import testing

    assert tdt._dynamo.is_dynamo_supported() is False
    with pytest.raises(NotImplementedError, match="does not compile Python"):
        testing.CompileCounter()


def test_a_future_is_pytorchs():
    torch = require_torch()
    for futures in (tdt.futures, torch.futures):
        future, order = futures.Future(), []
        future.add_done_callback(lambda f: order.append(f.value()))
        after = future.then(lambda f: f.wait() + 1)
        failed = future.then(lambda f: 1 / 0)
        both = futures.collect_all([future, after])
        assert not future.done() and not both.done()
        threading.Timer(0.01, future.set_result, [1]).start()
        assert after.wait() == 2 and order == [1] and futures.wait_all([future, after]) == [1, 2]
        assert [f.wait() for f in both.wait()] == [1, 2] and futures.collect_all([]).wait() == []
        with pytest.raises((RuntimeError, ZeroDivisionError), match="division by zero"):
            failed.wait()
        with pytest.raises(RuntimeError):
            future.set_result(2)
        with pytest.raises(RuntimeError):
            futures.Future().value()
        with pytest.raises(AssertionError):
            futures.Future().set_exception("no exception")


def scaled_by_an_operator(library) -> tuple:
    def scaled(x: library.Tensor, factor: float) -> library.Tensor:
        return x.sin() * factor

    scaled.__annotations__ = {"x": library.Tensor, "factor": float, "return": library.Tensor}
    operator = library.library.custom_op("tdt_tests::scaled", scaled, mutates_args=())
    operator.register_fake(lambda x, factor: library.empty_like(x))

    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(inputs[0])
        ctx.factor = inputs[1]

    def backward(ctx, grad):
        return grad * ctx.saved_tensors[0].cos() * ctx.factor, None

    operator.register_autograd(backward, setup_context=setup_context)
    x = library.tensor([0.5, 2.0], requires_grad=True)
    y = library.ops.tdt_tests.scaled(x, 3.0)
    y.sum().backward()
    return operator(x, 1.0).tolist(), y.tolist(), x.grad.tolist()


def test_a_custom_operator_has_its_gradient_and_its_place_in_ops():
    torch = require_torch()
    for got, want in zip(scaled_by_an_operator(tdt), scaled_by_an_operator(torch), strict=True):
        assert got == pytest.approx(want, rel=1e-6)


def test_the_operators_of_a_library_need_a_kernel():
    fragment = tdt.library.Library("tdt_tests", "FRAGMENT")
    fragment.define("halved(Tensor x) -> Tensor")
    with pytest.raises(NotImplementedError, match="no kernel registered for operator tdt_tests::halved"):
        tdt.ops.tdt_tests.halved(tdt.ones(1))
    fragment.impl("halved", lambda x: x / 2, "CPU")
    assert tdt.ops.tdt_tests.halved(tdt.ones(1)).item() == 0.5 and not hasattr(tdt.ops.tdt_tests, "missing")


def internal_operators(library) -> list:
    aten, x = library.ops.aten, library.arange(12.0).view(3, 4)
    rows = library.tensor([2, 0])
    results = [
        aten.add.Tensor(x, x, alpha=2), aten.sum.dim_IntList(x, [1], True), aten.mul_(x.clone(), 3.0), aten.slice(x, 1, 1, 4, 2),
        aten.slice.Tensor(x, -2, 1), aten.index.Tensor(x, [None, rows]), aten.index(x, [rows, rows]), aten.linalg_vector_norm(x),
        aten._to_copy.default(x, dtype=library.int64), aten._softmax.default(x, 1, False), aten.view.default(x, [4, 3]),
        aten.gelu(x), aten.special_erf(x), aten.alias(x), aten.clone.default(x), aten.fft_fft.default(x).real,
    ]  # fmt: skip
    names = [
        repr(aten.add),
        str(aten.add.Tensor),
        repr(aten.add.Tensor),
        aten.add.Tensor.name(),
        aten.add.default.name(),
    ]
    same = [aten.add.Tensor is aten.add.Tensor, aten.add.Tensor.overloadpacket is aten.add, aten.sym_size.int(x, 1)]
    shared = [aten.alias(x).data_ptr() == x.data_ptr(), aten._to_copy(x).data_ptr() == x.data_ptr()]
    missing = [
        hasattr(library.ops.aten, "no_such_op"),
        hasattr(library.ops.aten, "__len__"),
        hasattr(aten.add, "_schema"),
    ]
    return [(r.tolist(), str(r.dtype).rpartition(".")[2]) for r in results] + names + same + shared + missing


def test_ops_aten_holds_the_functions_by_their_internal_names():
    torch = require_torch()
    for got, want in zip(internal_operators(tdt), internal_operators(torch), strict=True):
        if isinstance(want, tuple):
            assert np.allclose(got[0], want[0], rtol=1e-5) and got[1] == want[1]
        else:
            assert got == want


def operators_with_other_arguments(library) -> list:
    aten, x = library.ops.aten, library.arange(12.0).view(3, 4) / 12
    y, rows, whole = x.flip(0), library.tensor([2, 0, 3]), library.arange(32.0).view(1, 2, 4, 4).sin()
    signs, logs = (y > 0.5) * 2.0 - 1, x.log_softmax(1)
    losses = [
        loss
        for reduction in range(3)
        for loss in (
            aten.mse_loss(x, y, reduction), aten.l1_loss(x, y, reduction), aten.soft_margin_loss(x, signs, reduction),
            aten.smooth_l1_loss(x, y, reduction, 0.1), aten.smooth_l1_loss.default(x, y, reduction),
            aten.huber_loss(x, y, reduction, 0.1), aten.binary_cross_entropy(x, y, y, reduction), aten.mse_loss(x, y),
            aten.nll_loss(logs, rows, None, reduction, 2), aten.nll_loss2d(whole, rows[:1].expand(1, 4, 4) % 2, None, reduction),
            aten.cross_entropy_loss(x, rows, None, reduction, 0, 0.1), aten.mse_loss(x, y, reduction=reduction),
            aten.multi_margin_loss(x, rows, 2, 0.5, None, reduction),
            aten.multilabel_margin_loss(x, signs.long().clamp(-1, 0), reduction),
        )
    ]  # fmt: skip
    pooled, places = aten.adaptive_max_pool2d(whole, [2, 2])
    unpooled = (
        aten.max_unpool2d(pooled, places, [4, 4]),
        aten.max_unpool3d(pooled, places, [2, 4, 4], [1, 1, 1], [0, 0, 0]),
    )
    columns = aten.im2col(whole, [2, 2], [1, 1], [0, 0], [2, 2])
    images = aten.col2im(columns, [4, 4], [2, 2], [1, 1], [0, 0], [2, 2])
    more = aten.elu(x - 0.5, 0.5, 2.0, 3.0), aten.elu(x - 0.5, 0.5), aten.unfold(x, 1, 2, 2)
    return [*losses, pooled, places, *unpooled, columns, images, *more]


def test_operators_of_aten_take_and_return_what_pytorchs_do():
    torch = require_torch()
    for got, want in zip(operators_with_other_arguments(tdt), operators_with_other_arguments(torch), strict=True):
        assert got.shape == want.shape and np.allclose(got, want, rtol=1e-5, atol=1e-6)


def test_private_functions_that_libraries_call_compute_what_pytorchs_do():
    torch = require_torch()
    for library in (tdt, torch):
        rows, columns = library.tensor([0, 0, 2, 3, 3]), library.tensor([1, 3, 0, 2, 4])
        starts = library._convert_indices_from_coo_to_csr(rows, 5)
        assert starts.dtype is library.int64 and starts.tolist() == [0, 2, 2, 3, 5, 5]
        assert library._convert_indices_from_coo_to_csr(rows, 4, out_int32=True).dtype is library.int32
        both = library._convert_indices_from_csr_to_coo(starts, columns)
        assert both.tolist() == [rows.tolist(), columns.tolist()]
        turned = library._convert_indices_from_csr_to_coo(starts, columns, out_int32=True, transpose=True)
        assert turned.dtype is library.int32 and turned.tolist() == [columns.tolist(), rows.tolist()]
    drawn = []
    for library in (tdt, torch):
        library.manual_seed(3)
        drawn.append(library.distributions.utils._standard_normal((2, 3), library.float32, library.device("cpu")))
    assert np.allclose(drawn[0].numpy(), drawn[1].numpy(), rtol=1e-6)


def test_submodules_of_distributed_are_attributes_and_rpc_is_refused_when_called():
    assert tdt.distributed.device_mesh.__name__.endswith("device_mesh") and not hasattr(tdt.distributed, "nothing")
    rpc = tdt.distributed.rpc
    assert not rpc.is_available() and isinstance(rpc.RRef, type)
    with pytest.raises(NotImplementedError, match="collectives"):
        rpc.init_rpc("worker")


def test_the_settings_of_printing_are_attributes():
    printing = find_module("_tensor_str")
    options, body = importlib.import_module(printing).PRINT_OPTS, importlib.import_module(printing)._tensor_str
    assert options.threshold == 1000 and options.precision == 4
    options.precision = 2
    try:
        assert body(tdt.tensor([1 / 3, 2.0]), 0) == "[0.33, 2.00]" and str(tdt.tensor([1 / 3])) == "tensor([0.33])"
    finally:
        tdt.set_printoptions(profile="default")
    assert options.precision == 4


def test_the_old_context_of_attention_kernels_sets_its_flags():
    cuda = tdt.backends.cuda
    with pytest.warns(FutureWarning, match="sdpa_kernel"), cuda.sdp_kernel(enable_flash=False, enable_cudnn=False):
        flags = [
            cuda.flash_sdp_enabled(),
            cuda.cudnn_sdp_enabled(),
            cuda.math_sdp_enabled(),
            cuda.mem_efficient_sdp_enabled(),
        ]
    assert flags == [False, False, True, True] and cuda.flash_sdp_enabled() and cuda.cudnn_sdp_enabled()


def test_the_hub_serves_local_folders_and_files_that_are_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    code = 'from helper_of_the_hub import SIZE\n\ndef net(n=1):\n    """A net."""\n    return [SIZE] * n\n'
    (tmp_path / "hubconf.py").write_text(code, encoding="utf-8")
    (tmp_path / "helper_of_the_hub.py").write_text("SIZE = 7\n", encoding="utf-8")
    hub, folder = tdt.hub, str(tmp_path)
    assert (
        hub.load(folder, "net", n=2, source="local") == [7, 7] and hub.help(folder, "net", source="local") == "A net."
    )
    assert hub.list(folder, source="local") == ["net"] and folder not in sys.path
    with pytest.raises(RuntimeError, match="Cannot find callable missing in hubconf"):
        hub.load(folder, "missing", source="local")
    monkeypatch.setenv("TORCH_HOME", folder)
    assert hub.get_dir() == str(tmp_path / "hub")
    url = "https://example.org/weights/net-1234.pth"
    with pytest.raises(FileNotFoundError, match=f"download {url} to {tmp_path}/hub/checkpoints/net-1234.pth"):
        hub.load_state_dict_from_url(url)
    (tmp_path / "hub" / "checkpoints").mkdir(parents=True)
    tdt.save({"w": tdt.ones(2)}, tmp_path / "hub" / "checkpoints" / "net-1234.pth")
    assert hub.load_state_dict_from_url(url)["w"].tolist() == [1, 1]


def test_a_missing_name_of_the_cpp_module_raises_an_error_that_names_it():
    with pytest.raises(AttributeError, match="module 'torch._C' of tdt has no attribute '_not_there'"):
        tdt._C._not_there  # noqa: B018


def test_overloads_of_operators_are_pytorchs():
    torch = require_torch()
    schemas = torch._C._jit_get_all_schemas()
    names = {schema.name.removeprefix("aten::") for schema in schemas if schema.name.startswith("aten::")}
    held = {name: packet for name in names if (packet := _aten.operator(name)) and name not in _aten.INTERNAL}
    assert len(held) > 800
    for name, packet in held.items():
        assert set(packet.overloads()) == set(getattr(torch.ops.aten, name).overloads()), name
    with pytest.raises(AttributeError, match="'aten.add' has no overload name 'anything'"):
        _ = tdt.ops.aten.add.anything


def operators_of_images(library) -> list:
    aten, x = library.ops.aten, library.arange(64.0).view(1, 2, 4, 8).sin()
    line, volume = x[0], x.view(1, 2, 2, 4, 4)
    return [
        aten.upsample_nearest1d(line, [5]), aten.upsample_nearest2d(x, [6, 5]), aten.upsample_nearest3d(volume, [3, 5, 2]),
        aten.upsample_nearest2d(x, [10, 20], 2.5, 2.5), aten.upsample_nearest2d.vec(x, None, [2.0, 1.5]),
        aten.upsample_linear1d(line, [5], True), aten.upsample_linear1d(line, [12], False, 1.5),
        aten.upsample_bilinear2d(x, [6, 5], False), aten.upsample_bilinear2d(x, [6, 12], True, 1.5, 1.5),
        aten.upsample_bilinear2d(x, [9, 18], False, scales_h=2.3, scales_w=2.3),
        aten.upsample_bilinear2d.vec(x, None, False, [2.3, 2.3]), aten.upsample_bilinear2d.vec(x, [6, 5], False, None),
        aten.upsample_bicubic2d(x, [6, 5], True), aten.upsample_trilinear3d(volume, [3, 5, 2], False),
        aten.reflection_pad1d(line, [1, 2]), aten.reflection_pad2d(x, [1, 2, 0, 3]), aten.replication_pad1d(line, [1, 2]),
        aten.replication_pad2d(x, [1, 2, 0, 3]), aten.replication_pad3d(volume, [1, 2, 0, 3, 1, 0]),
        aten.reflection_pad3d(volume, [1, 2, 0, 3, 1, 0]), *aten.native_dropout(x, 0.25, False),
        aten.affine_grid_generator(library.ones(1, 2, 3), [1, 2, 3, 4], False), aten.log_sigmoid(x), aten.lift_fresh(x),
        aten.silu_(x.clone()), aten.mish_(x.clone()), aten.hardswish_(x.clone()), aten.hardsigmoid_(x.clone()),
        aten.relu6_(x.clone()), aten.copy(x, x + 1), aten.zero(x), x,
    ]  # fmt: skip


def test_operators_of_images_take_the_arguments_of_pytorchs():
    for got, want in zip(operators_of_images(tdt), operators_of_images(require_torch()), strict=True):
        assert got.shape == tuple(want.shape) and np.allclose(got, want, rtol=1e-5, atol=1e-6)


def test_native_dropout_scales_what_its_mask_selects():
    tdt.manual_seed(0)
    x = tdt.ones(1000)
    scaled, mask = tdt.ops.aten.native_dropout(x, 0.25, True)
    assert tdt.equal(scaled, mask / 0.75) and 0.7 < mask.float().mean() < 0.8
    assert not tdt.ops.aten.native_dropout(x, 1.0, True)[0].any()
    drawn = tdt.ops.aten.uniform(x, 2.0, 3.0)
    assert bool(((drawn >= 2) & (drawn < 3)).all()) and bool((x == 1).all())
