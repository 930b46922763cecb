"""Small programs about graphs and hooks that print the same in PyTorch and in tdt."""

from __future__ import annotations

import textwrap
import warnings

import numpy as np
import pytest

import tdt
from tests.helpers import require_torch

torch = require_torch()

PROGRAMS = {
    "hooks run in the order they came, each on what the one before gave": """
        x = torch.tensor([1.0, 2.0], requires_grad=True)
        x.register_hook(lambda g: show("a", g) or g * 2)
        x.register_hook(lambda g: show("b", g))
        h = x.register_hook(lambda g: g + 1)
        (x * x).sum().backward(); show(x.grad)
        h.remove(); x.grad = None
        (x * x).sum().backward(); show(x.grad)
    """,
    "hooks on views and on what is written to": """
        x = torch.ones(4, requires_grad=True)
        y = x * 2
        v = y[:2]
        v.register_hook(lambda g: show("v", g))
        y.register_hook(lambda g: show("y before", g))
        y.mul_(3)
        y.register_hook(lambda g: show("y after", g))
        (y.sum() + v.sum()).backward(); show(x.grad)
    """,
    "retain_grad on views, leaves and after in-place": """
        x = torch.ones(3, requires_grad=True)
        x.retain_grad(); show(x.retains_grad)
        y = x * 2; y.retain_grad(); y.retain_grad()
        z = y[1:]; z.retain_grad()
        z.mul_(4)
        y.sum().backward(); show(x.grad, y.grad, z.grad, y.retains_grad, z.retains_grad)
    """,
    "post accumulate hooks": """
        x = torch.ones(2, requires_grad=True)
        def step(p):
            show("step", p.grad, p is x); p.grad = None
        h = x.register_post_accumulate_grad_hook(step)
        (x * 3).sum().backward(); show(x.grad)
        (x * 3).sum().backward(inputs=[x]); show(x.grad)
        show(torch.autograd.grad((x * 3).sum(), x))
        h.remove()
        (x * 3).sum().backward(); show(x.grad)
        expect(lambda: (x * 2).register_post_accumulate_grad_hook(step))
        expect(lambda: torch.ones(2).register_hook(step))
    """,
    "node hooks and pre-hooks": """
        x = torch.tensor([1.0, 2.0], requires_grad=True)
        y = x.exp(); z = y * 2
        y.grad_fn.register_prehook(lambda gs: show("pre", gs) or (gs[0] * 10,))
        y.grad_fn.register_hook(lambda gi, go: show("post", gi, go) or (gi[0] + 1,))
        z.register_hook(lambda g: show("tensor", g))
        z.grad_fn.register_prehook(lambda gs: show("z pre", gs))
        z.sum().backward(); show(x.grad)
    """,
    "hooks on the node of a leaf": """
        x = torch.ones(2, requires_grad=True)
        acc = (x * 2).grad_fn.next_functions[0][0]
        show(acc.name(), acc.variable is x)
        acc.register_prehook(lambda gs: show("pre", gs) or (gs[0] * 5,))
        acc.register_hook(lambda gi, go: show("post", gi, go, x.grad))
        x.register_hook(lambda g: show("tensor", g))
        x.register_post_accumulate_grad_hook(lambda p: show("accumulated", p.grad))
        (x * 3).sum().backward(); show(x.grad)
        show(torch.autograd.grad((x * 3).sum(), x))
    """,
    "a node hook that returns too much": """
        x = torch.ones(2, requires_grad=True); y = x.exp()
        y.grad_fn.register_hook(lambda gi, go: (gi[0], gi[0]))
        expect(lambda: y.sum().backward())
    """,
    "captured before the pre-hooks": """
        x = torch.ones(2, dtype=torch.float64, requires_grad=True); y = x.exp(); z = y.sin()
        y.register_hook(lambda g: g * 2)
        y.grad_fn.register_prehook(lambda gs: show("pre") or (gs[0] * 100,))
        show(torch.autograd.grad(z.sum(), y, retain_graph=True))
        show(torch.autograd.grad(z.sum(), [y, x], retain_graph=True))
        w = x * 2; w.sum().backward(inputs=[w]); show(w.grad, x.grad, w.retains_grad)
    """,
    "hooks on several tensors": """
        a, b, c = (torch.tensor([float(i)], requires_grad=True) for i in range(3))
        h = torch.autograd.graph.register_multi_grad_hook((a, b, c), lambda gs: show("all", gs))
        any_ = torch.autograd.graph.register_multi_grad_hook((a, b), lambda g: show("any", g), mode="any")
        y = a * b
        y.sum().backward(retain_graph=True)
        (y * c).sum().backward(retain_graph=True)
        y.sum().backward(inputs=[a], retain_graph=True)
        y.sum().backward(retain_graph=True)
        h.remove(); any_.remove()
        y.sum().backward()
        expect(lambda: torch.autograd.graph.register_multi_grad_hook((a,), show, mode="some"))
    """,
    "gradient edges": """
        x = torch.tensor([1.0, 2.0], requires_grad=True); y = x.exp()
        e = torch.autograd.graph.get_gradient_edge(y); l = torch.autograd.graph.get_gradient_edge(x)
        show(e.output_nr, e.node.name(), l.node.name())
        show(torch.autograd.grad((y * 3).sum(), e, retain_graph=True), torch.autograd.grad((y * 3).sum(), l, retain_graph=True))
        show(torch.autograd.grad(e, x, torch.ones(2), retain_graph=True))
        expect(lambda: torch.autograd.graph.get_gradient_edge(torch.ones(2)))
        torch.autograd.backward(e, torch.ones(2)); show(x.grad)
    """,
    "saved tensors pass through hooks": """
        packed = []
        def pack(t):
            packed.append(tuple(t.shape)); return t.detach().numpy()
        def unpack(a):
            show("unpack"); return torch.from_numpy(a) * 1
        x = torch.tensor([1.0, 2.0], requires_grad=True)
        with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
            y = x.exp()
        y.sum().backward(); show(packed, x.grad)
        with torch.autograd.graph.saved_tensors_hooks(lambda t: t * 2, lambda t: t):
            with torch.autograd.graph.saved_tensors_hooks(lambda t: t * 10, lambda t: t):
                z = x * x
            w = x * x
        show(torch.autograd.grad(z.sum(), x), torch.autograd.grad(w.sum(), x))
        with torch.autograd.graph.save_on_cpu():
            v = (x * x).sin()
        show(torch.autograd.grad(v.sum(), x))
        def disabled():
            with torch.autograd.graph.disable_saved_tensors_hooks("no hooks here"):
                with torch.autograd.graph.save_on_cpu():
                    pass
        expect(disabled, words=True)
        def wrong():
            with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: 3):
                (x * x).sum().backward()
        expect(wrong)
        def changed():
            with torch.autograd.graph.saved_tensors_hooks(lambda t: t.mul_(2), lambda t: t):
                (x * x).sum().backward()
        expect(changed)
    """,
    "saved tensors of a Function pass through hooks too": """
        class Square(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                y = x * x
                ctx.save_for_backward(x, None, y)
                return y
            @staticmethod
            def backward(ctx, g):
                x, nothing, y = ctx.saved_tensors
                show(nothing, x.requires_grad, y.requires_grad)
                return 2 * x * g
        x = torch.tensor([1.0, 2.0], requires_grad=True)
        with torch.autograd.graph.saved_tensors_hooks(lambda t: t * 2, lambda t: t + 1):
            y = Square.apply(x)
        y.sum().backward(); show(x.grad)
        y = Square.apply(x)
        show(y.grad_fn.name(), len(y.grad_fn.saved_tensors), y.grad_fn.saved_tensors[0] is x, y.grad_fn.needs_input_grad)
        y.sum().backward()
        expect(lambda: y.grad_fn.saved_tensors)
    """,
    "in-place writes with hooks on what is saved": """
        x = torch.tensor([1.0, 2.0], requires_grad=True)
        with torch.autograd.graph.saved_tensors_hooks(lambda t: t.clone(), lambda t: t):
            y = (x * 1).exp_()
            z = y.sin()
            y.mul_(5)
        (y.sum() + z.sum()).backward(); show(x.grad)
    """,
    "mutation of what is saved, allowed": """
        with torch.autograd.graph.allow_mutation_on_saved_tensors():
            a = torch.ones(2, 3, requires_grad=True)
            b = a.clone(); out = (b**2).sum(); b.sin_()
            out.backward(); show(a.grad, b)
    """,
    "anomaly mode": """
        import traceback
        x = torch.tensor([0.0, 4.0], requires_grad=True)
        show(torch.is_anomaly_enabled())
        with torch.autograd.detect_anomaly():
            show(torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled())
            y = x.sqrt()
            show("traceback_" in y.grad_fn.metadata)
            expect(lambda: (y * 0).sum().backward(), words=True)
        with torch.autograd.detect_anomaly(check_nan=False):
            show(torch.is_anomaly_check_nan_enabled())
            (x.sqrt() * 0).sum().backward(); show(x.grad)
        show(torch.is_anomaly_enabled())
        with torch.autograd.set_detect_anomaly(True):
            with torch.autograd.set_detect_anomaly(False):
                show(torch.is_anomaly_enabled())
            show(torch.is_anomaly_enabled())
        show(torch.is_anomaly_enabled())
        torch.autograd.set_detect_anomaly(True); show(torch.is_anomaly_enabled())
        torch.autograd.set_detect_anomaly(False); show(torch.is_anomaly_enabled())
    """,
    "what a Function may mark": """
        class F(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x, k=2):
                big = x > 1
                ctx.mark_non_differentiable(big)
                ctx.k = k
                return x * k, big
            @staticmethod
            def backward(ctx, g, unused):
                show(unused is None, ctx.needs_input_grad)
                return g * ctx.k, None
        x = torch.tensor([1.0, 2.0], requires_grad=True)
        y, big = F.apply(x); show(y, big, y.requires_grad, big.requires_grad, y.grad_fn.name())
        y.sum().backward(); show(x.grad)
        class Dirty(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                x.mul_(3); ctx.mark_dirty(x); return x
            @staticmethod
            def backward(ctx, g):
                return g * 3
        z = x * 1; w = Dirty.apply(z); show(w is z, z._version)
        w.sum().backward(); show(x.grad)
        expect(lambda: Dirty.apply(x))
        class Lazy(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.set_materialize_grads(False); return x * 1, x * 2
            @staticmethod
            def backward(ctx, a, b):
                show(a, b); return b
        Lazy.apply(x)[1].sum().backward()
    """,
    "a Function with setup_context, defaults and keyword arguments": """
        class Power(torch.autograd.Function):
            @staticmethod
            def forward(x, n=3):
                return x**n
            @staticmethod
            def setup_context(ctx, inputs, output):
                x, n = inputs
                show(len(inputs), n); ctx.save_for_backward(x); ctx.n = n
            @staticmethod
            def backward(ctx, g):
                (x,) = ctx.saved_tensors
                return g * ctx.n * x ** (ctx.n - 1), None
        x = torch.tensor([2.0], requires_grad=True)
        Power.apply(x).sum().backward(); show(x.grad)
        Power.apply(x, n=2).sum().backward(); show(x.grad)
        class Twice(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x * 2
            @staticmethod
            def vjp(ctx, g):
                return g * 2
        Twice.apply(x).sum().backward(); show(x.grad)
        class Wrong(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x, n):
                return x * n
            @staticmethod
            def backward(ctx, g):
                return g, g
        expect(lambda: Wrong.apply(x, 2).sum().backward(), words=True)
        class Fewer(Wrong):
            @staticmethod
            def backward(ctx, g):
                return g
        expect(lambda: Fewer.apply(x, 2).sum().backward(), words=True)
        class Neither(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x * 2
        expect(lambda: Neither.apply(x).sum().backward())
        expect(lambda: torch.autograd.Function.forward(x))
    """,
    "a Function that writes to a view of what was written to": """
        class Dirty(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                x.mul_(2); ctx.mark_dirty(x); return x
            @staticmethod
            def backward(ctx, g):
                return g * 2
        a = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
        p = a * 1; v = p[:]; v[1:].zero_()
        w = Dirty.apply(v); show(w.tolist(), p.tolist(), w._version)
        (w * w).sum().backward(); show(a.grad)
        show(Dirty.apply(a.detach().clone())._version)
    """,
    "hooks on a view that was made under no_grad": """
        a = torch.ones(2, requires_grad=True)
        with torch.no_grad(): v = a.view(2)
        v.register_hook(lambda g: show("never", g)); v.retain_grad(); show(v.requires_grad, v.is_leaf)
        (v * a).sum().backward(); show(a.grad)
    """,
    "backward into computed inputs runs their nodes": """
        a = torch.ones(2, requires_grad=True); y = a.exp(); z = y * 2
        y.grad_fn.register_hook(lambda gi, go: show("ran", go)); z.sum().backward(inputs=[y]); show(y.grad, a.grad)
    """,
    "once differentiable": """
        from torch.autograd.function import once_differentiable
        class F(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.save_for_backward(x); return x * x
            @staticmethod
            @once_differentiable
            def backward(ctx, g):
                (x,) = ctx.saved_tensors
                return 2 * g * x
        x = torch.tensor([2.0], requires_grad=True)
        (g,) = torch.autograd.grad(F.apply(x), x, create_graph=True)
        show(g)
        g2 = torch.autograd.grad(F.apply(x) * x, x, create_graph=True)[0]
        expect(lambda: g2.sum().backward(), words=True)
    """,
    "versions": """
        x = torch.ones(3); show(x._version)
        x.add_(1); y = x[1:]; y.zero_(); show(x._version, y._version, x.detach()._version, x.data._version)
        x.data.add_(1); show(x._version)
        with torch.no_grad(): x.mul_(2)
        show(x._version); x.copy_(torch.ones(3)); x[0] = 5; show(x._version)
        torch.autograd.graph.increment_version(x); show(x._version)
        w = torch.ones(3, requires_grad=True); z = w * 1; s = z.exp(); s.add_(1)
        expect(lambda: s.sum().backward())
        z = w.exp(); t = z[:1].sin(); z.mul_(2)
        expect(lambda: t.sum().backward())
        expect(lambda: w.add_(1)); expect(lambda: w[0].add_(1)); expect(lambda: w.detach_().add_(1) * 0)
    """,
    "requires_grad and its kin": """
        x = torch.ones(2); show(x.requires_grad, x.is_leaf, x.grad_fn, x.output_nr)
        show(x.requires_grad_() is x, x.requires_grad, x.requires_grad_(False).requires_grad)
        x.requires_grad = True; y = x * 2
        show(y.is_leaf, y.output_nr, torch.stack([x, x]).unbind()[1].output_nr)
        expect(lambda: setattr(y, "requires_grad", False)); expect(lambda: y.requires_grad_(False))
        show(y.requires_grad_().requires_grad)
        expect(lambda: torch.arange(3).requires_grad_()); expect(lambda: setattr(torch.arange(3), "requires_grad", True))
        show(y.detach().requires_grad, y.detach_() is y, y.is_leaf, y.requires_grad)
        expect(lambda: (x * 2)[0].detach_())
        expect(lambda: setattr(x, "grad", torch.ones(3))); expect(lambda: setattr(x, "grad", torch.ones(2).double()))
        expect(lambda: setattr(x, "grad", 3)); expect(lambda: setattr(x, "grad", x))
        x.grad = torch.ones(2); show(x.grad); del x.grad; show(x.grad)
        expect(lambda: setattr(x, "is_leaf", True)); expect(lambda: setattr(x, "grad_fn", None))
        expect(lambda: (x * 2).numpy()); expect(lambda: float(x)); show(float((x * 2)[0]))
    """,
    "forms of backward and grad": """
        x = torch.tensor([1.0, 2.0], requires_grad=True); y = x * x
        expect(lambda: y.backward()); expect(lambda: y.backward(torch.ones(3))); expect(lambda: x.detach().sum().backward())
        torch.autograd.backward([y.sum(), (y * 2).sum()]); show(x.grad)
        (x * x).backward([torch.ones(2)]); (x * x).backward((torch.ones(2),)); show(x.grad)
        expect(lambda: y.sum().backward())
        x.grad = None; y = x * x
        torch.autograd.backward([y, y], [torch.ones(2), torch.tensor([1.0, 0.0])]); show(x.grad)
        expect(lambda: torch.autograd.backward((x * x).sum(), inputs=[])); expect(lambda: torch.autograd.grad((x * x).sum(), []))
        expect(lambda: torch.autograd.grad((x * x).sum(), [x, 3]))
        expect(lambda: torch.autograd.grad((x * x).sum(), torch.ones(2)))
        show(torch.autograd.grad((x * x).sum(), [x, torch.ones(1, requires_grad=True)], allow_unused=True))
        show(torch.autograd.grad((x * x).sum(), [x, torch.ones(1, requires_grad=True)], materialize_grads=True))
        expect(lambda: torch.autograd.grad((x * x).sum(), x, allow_unused=False, materialize_grads=True))
        show(torch.autograd.grad(x * x, x, torch.eye(2), is_grads_batched=True))
        (g,) = torch.autograd.grad((x**3).sum(), x, create_graph=True); show(g.requires_grad, torch.autograd.grad(g.sum(), x))
        x.sum().backward(torch.tensor(3.0), retain_graph=True, create_graph=True, inputs=[x]); show(x.grad)
        l = torch.tensor(2.0, requires_grad=True); l.backward(); show(l.grad, torch.autograd.grad(l, l))
        x.backward(torch.ones(2)); show(x.grad)
    """,
    "grad modes": """
        x = torch.ones(2, requires_grad=True)
        with torch.no_grad():
            y = x * 2; show(y.requires_grad, torch.is_grad_enabled())
            with torch.enable_grad(): show((x * 2).requires_grad)
            with torch.set_grad_enabled(True): show((x * 2).requires_grad)
            show((x * 2).requires_grad)
        torch.set_grad_enabled(False); show((x * 2).requires_grad); torch.set_grad_enabled(True)
        @torch.no_grad()
        def f(x): return x * 2
        @torch.set_grad_enabled(False)
        def g(x): return x * 2
        show(f(x).requires_grad, g(x).requires_grad, torch.is_grad_enabled())
        with torch.inference_mode():
            z = x * 2; show(z.requires_grad, z.is_inference(), torch.is_inference_mode_enabled())
            z.add_(1)
        expect(lambda: z._version); expect(lambda: z.requires_grad_()); expect(lambda: x * z); expect(lambda: z.add_(1))
        show((z + 1).is_inference(), z.clone().is_inference(), (z.clone() * x).requires_grad)
        with torch.inference_mode(False): show(torch.is_inference_mode_enabled())
        with torch.no_grad():
            w = x.view(2); show(w.requires_grad)
        @torch.inference_mode()
        def h(x): return x * 2
        show(h(x).is_inference())
        with torch.inference_mode():
            with torch.enable_grad(): show((x * 2).requires_grad)
            v = torch.ones(2, requires_grad=True); show(v.requires_grad, v.is_inference())
    """,
    "what nodes keep": """
        x = torch.tensor([1.0, 2.0], requires_grad=True); y = torch.tensor([3.0, 4.0])
        n = (x * y).grad_fn; show(n._saved_other, n._saved_self, n.name(), n.metadata)
        n = x.exp().grad_fn; show(n._saved_result)
        n = (x**3).grad_fn; show(n._saved_exponent, n._saved_self is x)
        show([type(f).__name__ == "NoneType" or f.name() for f, _ in (x * y + x.exp()).grad_fn.next_functions])
        expect(lambda: n._saved_nothing)
        z = x.exp(); z.sum().backward(); expect(lambda: z.grad_fn._saved_result)
        show(repr(x.exp()), repr(torch.nn.functional.celu(x)), repr(torch.nn.functional.selu(x)), repr(x.t()), repr(x[0]))
        show(isinstance(n, torch.autograd.graph.Node), hasattr(n, "register_hook"))
        n.metadata["mine"] = 3; show(n.metadata)
    """,
    "Variable": """
        from torch.autograd import Variable
        x = torch.ones(2); v = Variable(x, requires_grad=True); show(v, v is x, v.data_ptr() == x.data_ptr())
        show(isinstance(x, Variable), isinstance(3, Variable), Variable(v * 2), Variable(torch.ones(1), volatile=True))
        expect(lambda: Variable([1.0])); (v * v).sum().backward(); show(v.grad, v.grad.data, v.data)
    """,
    "backward inside a hook and inside backward": """
        x = torch.tensor([2.0], requires_grad=True); w = torch.tensor([3.0], requires_grad=True)
        def hook(g):
            with torch.enable_grad():
                (w * w).sum().backward()
            return g * 2
        y = x * 3; y.register_hook(hook); y.sum().backward(); show(x.grad, w.grad)
        class Inner(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.save_for_backward(x); return x * x
            @staticmethod
            def backward(ctx, g):
                x = ctx.saved_tensors[0].detach().requires_grad_()
                with torch.enable_grad():
                    (x * x).sum().backward()
                return x.grad * g
        Inner.apply(x).sum().backward(); show(x.grad)
    """,
}


def run(lib, source: str) -> list[str]:
    """What the program shows."""
    lines: list[str] = []

    def show(*values):
        lines.append(" ".join(str(v) for v in values).replace("tdt.", "torch."))

    def expect(function, words=False):
        try:
            lines.append(f"no error: {function()}")
        except Exception as error:  # noqa: BLE001 (the error is the answer that is compared)
            lines.append(f"{type(error).__name__} {str(error) if words else ''}".strip())

    code = textwrap.dedent(source).replace("from torch", f"from {lib.__name__}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exec(compile(code, "<program>", "exec"), {"torch": lib, "show": show, "expect": expect})
    return lines


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_shows_what_it_shows_in_pytorch(name):
    assert run(tdt, PROGRAMS[name]) == run(torch, PROGRAMS[name])


@pytest.mark.parametrize("name", ["tanh", "sigmoid"])
def test_a_layer_s_gradient_is_a_graph_of_as_many_nodes_as_pytorchs(name):
    weight, array = (np.random.default_rng(k).standard_normal((4, 3)).astype(np.float32) for k in range(2))
    results = []
    for lib in (tdt, torch):
        x, w = (lib.from_numpy(a.copy()).requires_grad_() for a in (array, weight))
        y = getattr(lib, name)(lib.nn.functional.linear(x, w, lib.ones(4)))
        (slope,) = lib.autograd.grad(y.sum(), x, create_graph=True)
        (second,) = lib.autograd.grad((slope**2).sum(), x, create_graph=True)
        (second * x).sum().backward()
        nodes = [slope.grad_fn]
        while nodes[-1].next_functions and nodes[-1].next_functions[0][0] is not None:
            nodes.append(nodes[-1].next_functions[0][0])
        results.append(
            ([node.name() for node in nodes][:2], slope.tolist(), second.tolist(), x.grad.tolist(), w.grad.tolist())
        )
    names, *values = zip(*results, strict=True)
    assert names[0] == names[1] == ["MmBackward0", f"{name.title()}BackwardBackward0"]
    for ours, theirs in values:
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)
