"""Modules that programs for PyTorch import and tdt has no work for: what they answer, and what they refuse."""

from __future__ import annotations

import importlib
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import tdt
from tdt import as_torch
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
