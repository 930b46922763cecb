"""Mixed precision: which dtype comes out where, against PyTorch's, and the scaler's arithmetic."""

from __future__ import annotations

import threading
import warnings
from typing import Any

import numpy as np
import pytest

import tdt
from tdt.amp import GradScaler, autocast
from tdt.amp.grad_scaler import multiply
from tests.helpers import require_torch

CASES = """
    F.linear(x,x)|F.linear(x,x,v)|x@x|torch.mm(x,x)|torch.mv(x,v)|torch.dot(v,v)|torch.bmm(b3,b3)|torch.matmul(b3,x)
    torch.addmm(x,x,x)|torch.addmv(v,x,v)|torch.addr(x,v,v)|torch.baddbmm(b3,b3,b3)|torch.addbmm(x,b3,b3)
    torch.outer(v,v)|torch.inner(x,x)|torch.einsum('ij,jk',x,x)|torch.tensordot(x,x,1)|torch.kron(x,x)
    torch.vdot(v,v)|torch.linalg.multi_dot([x,x])|F.conv1d(s1,w1)|F.conv2d(im,w)|F.conv3d(im3,w3)
    F.conv1d(s1.bfloat16(),w1)|F.conv2d(im,w.bfloat16())|F.conv_transpose2d(im.bfloat16(),w.transpose(0,1))|F.conv3d(im3.bfloat16(),w3)
    F.scaled_dot_product_attention(b3.bfloat16(),b3,b3,b3[:,:,:3])|lstm(b3.bfloat16())[0]
    F.scaled_dot_product_attention(b3,b3,b3)|F.prelu(x,v[:1])|F.prelu(xb,v[:1])|torch.cdist(xb,xb)|torch.dist(xb,xb)
    xb.prod()|xb.sum()|xb.mean()|xb.softmax(1)|F.log_softmax(xb,1)|xb.exp()|xb.log()|xb.sigmoid()|F.gelu(xb)
    F.layer_norm(xb,(4,),v,v)|F.layer_norm(xb,(4,))|F.group_norm(im.bfloat16(),2)|F.instance_norm(im.bfloat16())
    xb.norm()|xb.cumsum(0)|xb.cumprod(0)|xb.pow(2)|xb+x|xb*x|x*xb|F.mse_loss(xb,x)|F.mse_loss(xb,xb)
    F.l1_loss(xb,xb)|F.smooth_l1_loss(xb,xb)|F.huber_loss(xb,xb)|F.cross_entropy(xb,lab)|F.nll_loss(xb,lab)
    F.binary_cross_entropy(xb.sigmoid(),xb.sigmoid())|F.binary_cross_entropy_with_logits(xb,xb)|F.kl_div(xb,xb)
    F.soft_margin_loss(xb,xb)|F.hinge_embedding_loss(xb,xb)|F.poisson_nll_loss(xb,xb)
    F.cosine_embedding_loss(xb,xb,v)|F.margin_ranking_loss(xb,xb,xb)|F.triplet_margin_loss(xb,xb,xb)
    F.multi_margin_loss(xb,lab)|F.multilabel_margin_loss(xb,torch.zeros(4,4).long())
    F.ctc_loss(b3.bfloat16().log_softmax(2),torch.tensor([[1],[2],[1],[1]]),torch.tensor([2]*4),torch.tensor([1]*4))
    F.gaussian_nll_loss(xb,xb,xb)|F.cosine_similarity(xb,xb)|F.avg_pool1d(s1.bfloat16(),2)
    F.avg_pool2d(im.bfloat16(),2)|F.avg_pool3d(im3.bfloat16(),2)|F.adaptive_avg_pool2d(im.bfloat16(),2)
    F.adaptive_avg_pool3d(im3.bfloat16(),2)|F.max_pool2d(im.bfloat16(),2)|F.max_pool3d(im3.bfloat16(),2)
    F.adaptive_max_pool3d(im3.bfloat16(),2)|F.interpolate(im.bfloat16(),scale_factor=2)
    F.interpolate(im.bfloat16(),scale_factor=2,mode='bilinear')|torch.cat([x,xb])|torch.stack([x,xb])
    torch.stack([xb,xb])|torch.cat([xb,xb])|torch.trace(xb)|F.linear(d,d)|F.linear(d.float(),x)|d@d
    F.embedding(lab,x)|x.var(0)|xb.var(0)|torch.addcmul(x,xb,xb)|torch.where(x>0.5,x,xb)|torch.linalg.inv(x)
    torch.linalg.norm(xb)|torch.logdet(x@x.T+torch.eye(4))|F.normalize(xb)|xb.logsumexp(1)|F.softplus(xb)
    F.unfold(im.bfloat16(),2)|xb.erf()|xb.median()|xb.quantile(0.5)|torch.polar(v,v)|F.pairwise_distance(xb,xb)
    torch.renorm(xb,2,0,1.)|torch.trapezoid(xb)|xb.std()|F.silu(xb)|torch.lerp(x,x,x)|x.T@x|torch.qr(x)[0]
    torch.linalg.vecdot(x,x)|torch.linalg.vecdot(xb,xb)|F.embedding_bag(lab[None],x)|torch.linalg.matrix_power(x,2)
    x.new_zeros(2)@v[:2]|torch.svd(x)[1]|torch.cholesky(x@x.T+torch.eye(4))|F.conv_transpose2d(im,w.transpose(0,1))
    F.cross_entropy(xb,lab,v)|F.cross_entropy(xb,xb.softmax(1),label_smoothing=0.1)|F.cross_entropy(xb,xb.softmax(1),v)
    F.bilinear(x,x,w4)|F.batch_norm(im.bfloat16(),v[:2],v[2:])|F.grid_sample(im,grid.bfloat16())|lstm(b3)[0]
    lstm(b3)[1][1]|gru(b3)[0]|rnn(b3)[0]|lstm_cell(x)[0]|gru_cell(x)|rnn_cell(x)|mha(b3,b3,b3)[0]|encoder(b3)
    torch.linalg.solve(xb,xb)|torch.linalg.eigvals(xb)|torch.linalg.svd(xb)[1]|torch.linalg.eigh(xb)[0]|torch.geqrf(xb)[1]
    torch.cholesky_inverse(x)|torch.cholesky_solve(xb,x)|torch.linalg.lstsq(xb,xb)[0]|torch.linalg.householder_product(x,v)
    torch.ormqr(xb,v,x)|torch.linalg.matrix_rank(xb)|torch.linalg.tensorinv(xb,1)|torch.pinverse(xb)|torch.linalg.svdvals(xb)
    torch.triangular_solve(xb,x)[0]|torch.linalg.cond(xb)|torch.inverse(xb)|torch.svd_lowrank(x,q=2)[1]
    x.clone().addmm_(x,x)|torch.mm(x,x,out=torch.empty(4,4))"""
MODULES = {"lstm": "LSTM(4, 4)", "gru": "GRU(4, 4)", "rnn": "RNN(4, 4)", "lstm_cell": "LSTMCell(4, 4)",
           "gru_cell": "GRUCell(4, 4)", "rnn_cell": "RNNCell(4, 4)", "mha": "MultiheadAttention(4, 2)",
           "encoder": "TransformerEncoderLayer(4, 2, 8, 0.0)"}  # fmt: skip


def names(library: Any) -> dict[str, Any]:
    """What the cases speak of, alike in both libraries."""
    rng = np.random.default_rng(0)

    def r(*shape: int) -> Any:
        return library.tensor(rng.random(shape, dtype=np.float32))

    x, v = r(4, 4) + 0.1, r(4) + 0.1
    found = {
        "torch": library, "F": library.nn.functional, "x": x, "xb": x.bfloat16(), "xh": x.half(), "v": v, "d": x.double(),
        "b3": r(2, 4, 4), "im": r(1, 2, 6, 6), "w": r(3, 2, 3, 3), "s1": r(1, 2, 8), "w1": r(3, 2, 3), "w4": r(2, 4, 4),
        "im3": r(1, 2, 4, 4, 4), "w3": r(3, 2, 3, 3, 3), "grid": r(1, 3, 3, 2), "lab": library.tensor([0, 1, 2, 3]),
    }  # fmt: skip
    for name, layer in MODULES.items():
        library.manual_seed(0)
        found[name] = eval(layer, vars(library.nn))
    return found


OURS = names(tdt)


def answer(library: Any, known: dict[str, Any], code: str, dtype: str) -> tuple[Any, Any]:
    """The result's dtype and values, or the error's class."""
    if dtype == "float16":
        code = code.replace("bfloat16()", "half()").replace("xb", "xh")
    library.manual_seed(0)  # svd_lowrank draws numbers
    with library.autocast("cpu", dtype=getattr(library, dtype)), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            value = eval(code, dict(known))
        except RuntimeError as error:
            return type(error).__name__, None
    return str(value.dtype).partition(".")[2], (value.cfloat() if value.is_complex() else value.double()).tolist()


@pytest.fixture(scope="module")
def theirs() -> dict[str, Any]:
    return names(require_torch())


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("code", [code.strip() for code in CASES.replace("\n", "|").split("|") if code.strip()])
def test_a_result_has_pytorchs_dtype(code: str, dtype: str, theirs: dict[str, Any]):
    (ours, values), (other, expected) = answer(tdt, OURS, code, dtype), answer(require_torch(), theirs, code, dtype)
    if "lstm(" in code and other == "RuntimeError":  # PyTorch cannot run it in float16 on every processor
        other = dtype
    assert ours == other
    if expected is not None:
        np.testing.assert_allclose(values, expected, rtol=0.04, atol=0.02)


@pytest.mark.parametrize("grad", [True, False])
def test_repeated_calls_have_the_bits_of_the_first_one(grad: bool):
    """Within a block and outside of it by turns, so that a call is not repeated as one of the other kind."""
    known = OURS | {name: OURS[name].clone().requires_grad_(grad) for name in ("x", "xb", "im", "b3")}
    for code in CASES.replace("\n", "|").split("|"):
        if "F." not in code:  # functions whose calls are remembered
            continue
        found: dict[bool, Any] = {}
        for turn in range(10):
            within = turn % 2 == 0
            with autocast("cpu", enabled=within), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    value = eval(code.strip(), dict(known))
                    result = value.dtype, value.requires_grad, value.detach().numpy().tobytes()
                except (RuntimeError, ValueError) as error:
                    result = type(error)
            assert found.setdefault(within, result) == result, code


def test_training_in_bfloat16_follows_pytorch():
    torch = require_torch()
    losses = []
    for library in (tdt, torch):
        nn = library.nn
        library.manual_seed(0)
        net = nn.Sequential(nn.Linear(8, 16), nn.LayerNorm(16), nn.GELU(), nn.Linear(16, 3))
        optimizer = library.optim.SGD(net.parameters(), lr=0.1)
        x, y = library.randn(32, 8), library.randint(3, (32,))
        found = []
        for _ in range(5):
            optimizer.zero_grad()
            with library.autocast(device_type="cpu", dtype=library.bfloat16):
                loss = nn.functional.cross_entropy(net(x), y)
            assert loss.dtype is library.float32
            loss.backward()
            assert {p.grad.dtype for p in net.parameters()} == {library.float32}
            optimizer.step()
            found.append(loss.item())
        losses.append(found)
    np.testing.assert_allclose(losses[0], losses[1], rtol=2e-3)
    assert losses[0][-1] < losses[0][0]


def test_a_recurrent_network_of_two_layers_trains_in_bfloat16():
    layers = tdt.nn.LSTM(4, 3, num_layers=2)
    x = tdt.randn(5, 2, 4)
    with autocast("cpu"):
        out = layers(x.bfloat16())[0]
    out.float().square().sum().backward()
    expected = layers(x)[0]
    assert out.dtype is tdt.bfloat16
    tdt.testing.assert_close(out.float(), expected, rtol=0.05, atol=0.02)
    assert all(p.grad is not None and p.grad.dtype is tdt.float32 for p in layers.parameters())


def test_blocks_nest_decorate_and_stay_in_their_thread():
    x = tdt.ones(2, 2)
    with autocast("cpu", dtype=tdt.float16):
        assert (x @ x).dtype is tdt.float16
        with autocast("cpu", enabled=False):
            assert (x @ x).dtype is tdt.float32
            assert not tdt.is_autocast_enabled("cpu")
        with tdt.autocast("cpu"):
            assert tdt.get_autocast_dtype("cpu") is tdt.bfloat16
            assert (x @ x).dtype is tdt.bfloat16
        dtypes: list[Any] = []
        thread = threading.Thread(target=lambda: dtypes.append((x @ x).dtype))
        thread.start()
        thread.join()
        assert dtypes == [tdt.float32]
        assert tdt.is_autocast_cpu_enabled()
        assert (x @ x).dtype is tdt.float16
    assert not tdt.is_autocast_cpu_enabled()

    @autocast("cpu")
    def product():
        return x @ x

    assert product().dtype is tdt.bfloat16
    with pytest.raises(ZeroDivisionError), autocast("cpu"):
        1 / 0
    assert (x @ x).dtype is tdt.float32


def test_a_block_works_inside_the_meta_pass_and_around_it():
    from tdt.autograd._meta import meta, stand_in

    with meta() as counts, autocast("cpu"):
        y = stand_in((2, 3)) @ stand_in((3, 5))
    assert (tuple(y.shape), y.dtype, counts.flops) == ((2, 5), tdt.bfloat16, 30)
    with autocast("cpu"), meta() as counts:
        stand_in((2, 3)) @ stand_in((3, 5))
    assert counts.flops == 30


def result_and_warnings(call: Any) -> tuple[str, str, list[str]]:
    """The error's class and first words, and those of the warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        kind = words = ""
        try:
            call()
        except (ValueError, RuntimeError, AssertionError) as error:
            kind, words = type(error).__name__, str(error)[:20]
    return kind, words, [f"{w.category.__name__} {str(w.message)[:20]}" for w in caught]


@pytest.mark.skipif(tdt.cuda.is_available(), reason="says what happens without a GPU")
@pytest.mark.parametrize("code", [
    "autocast('cuda')", "autocast(3)", "autocast('cpu', dtype=float32)", "autocast('nowhere')",
    "amp.GradScaler()", "amp.GradScaler('cuda', enabled=False)", "cuda.amp.GradScaler()", "cuda.amp.autocast()",
    "cuda.amp.GradScaler(enabled=False)", "amp.GradScaler('cpu', growth_factor=1.0)",
    "amp.GradScaler('cpu', backoff_factor=1.0)", "amp.GradScaler('cpu').update()",
    "amp.GradScaler('cpu').load_state_dict({})", "amp.GradScaler('cpu').scale(3)",
])  # fmt: skip
def test_warnings_and_errors_are_pytorchs(code: str):
    torch = require_torch()
    ours = result_and_warnings(lambda: eval(code, vars(tdt) | {"amp": tdt.amp, "cuda": tdt.cuda}))
    theirs = result_and_warnings(lambda: eval(code, vars(torch)))
    assert ours == theirs


def test_the_scaler_follows_pytorchs_through_overflow_and_growth():
    torch = require_torch()
    results = []
    for library in (tdt, torch):
        w = library.nn.Parameter(library.tensor([1.0, 2.0]))
        optimizer = library.optim.SGD([w], lr=0.1)
        scaler = library.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=2)
        found = []
        for factor in (1.0, float("inf"), 2.0, 0.5, 1.0, float("nan"), 1.0):
            optimizer.zero_grad()
            scaler.scale((w * factor).sum()).backward()
            if factor == 2.0:
                scaler.unscale_(optimizer)
                library.nn.utils.clip_grad_norm_([w], 1.0)
            scaler.step(optimizer)
            scaler.update()
            found.append((scaler.get_scale(), w.tolist(), scaler.state_dict()))
        for wrong in (lambda: (scaler.scale(w.sum()).backward(), scaler.step(optimizer), scaler.step(optimizer)),
                      lambda: scaler.unscale_(optimizer)):  # fmt: skip
            found.append(result_and_warnings(wrong)[:2])
        scaler.update(new_scale=8.0)
        again = library.amp.GradScaler("cpu")
        again.load_state_dict(scaler.state_dict())
        found.append((again.get_scale(), again.get_growth_interval(), again.is_enabled()))
        results.append(found)
    assert str(results[0]) == str(results[1])


def test_a_scaler_that_is_off_passes_everything_on():
    w = tdt.nn.Parameter(tdt.ones(1))
    optimizer = tdt.optim.SGD([w], lr=0.5)
    scaler = GradScaler("cpu", enabled=False)
    loss = (w * 2).sum()
    assert scaler.scale(loss) is loss
    loss.backward()
    scaler.unscale_(optimizer)
    scaler.step(optimizer)
    scaler.update()
    assert (w.tolist(), scaler.get_scale(), scaler.state_dict(), scaler.is_enabled()) == ([0.0], 1.0, {}, False)


def test_a_users_autograd_function_casts_its_inputs_and_runs_backward_alike():
    calls = []

    class Product(tdt.autograd.Function):
        @staticmethod
        @tdt.amp.custom_fwd(device_type="cpu", cast_inputs=tdt.float32)
        def forward(ctx, a, b):
            ctx.save_for_backward(a, b)
            calls.append((a.dtype, tdt.is_autocast_enabled("cpu")))
            return a @ b

        @staticmethod
        @tdt.amp.custom_bwd(device_type="cpu")
        def backward(ctx, g):
            a, b = ctx.saved_tensors
            calls.append((g.dtype, tdt.is_autocast_enabled("cpu")))
            return g @ b.T, a.T @ g

    x = tdt.ones(2, 2, requires_grad=True)
    with autocast("cpu"):
        Product.apply(x.bfloat16(), x).sum().backward()
    assert calls == [(tdt.float32, False), (tdt.float32, False)]
    assert x.grad.tolist() == [[4.0, 4.0], [4.0, 4.0]]


WEIGHTED = {
    "linear": ((6, 5), (4, 5), lambda x, w, b: tdt.nn.functional.linear(x, w, b)),
    "conv2d": ((2, 3, 6, 6), (4, 3, 3, 3), lambda x, w, b: tdt.nn.functional.conv2d(x, w, b, padding=1)),
}


@pytest.mark.parametrize("name", WEIGHTED)
def test_weights_stay_float32_where_bfloat16_is_computed_in_float32(name: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("tdt._kernels._dots.available", lambda: "")
    *shapes, function = WEIGHTED[name]
    x, w, b = (tdt.randn(shape).requires_grad_() for shape in (*shapes, (4,)))
    low = x.detach().bfloat16().requires_grad_()
    with autocast("cpu"):
        out = function(low, w, b)
    expected = function(low.detach().float(), w, b)
    assert out.dtype is tdt.bfloat16 and tdt.equal(out, expected.bfloat16())
    g = tdt.randn(out.shape).bfloat16()
    ours = tdt.autograd.grad(out, (low, w, b), g)
    assert [t.dtype for t in ours] == [tdt.bfloat16, tdt.float32, tdt.float32]
    tdt.testing.assert_close(ours[1:], tdt.autograd.grad(expected, (w, b), g.float()))


@pytest.mark.parametrize("name", WEIGHTED)
@pytest.mark.parametrize("instructions", ["", "emulated-amx"])
def test_second_derivatives_under_autocast(name: str, instructions: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("tdt._kernels._dots.available", lambda: instructions)
    *shapes, function = WEIGHTED[name]
    found = []
    for low in (True, False):
        tdt.manual_seed(0)
        x, w, b = (tdt.randn(shape).requires_grad_() for shape in (*shapes, (4,)))
        with autocast("cpu", enabled=low):
            loss = function(x, w, b).float().square().sum()
        gx, gw = tdt.autograd.grad(loss, (x, w), create_graph=True)
        (gx.square().sum() + gw.square().sum()).backward()
        found.append((gx, gw, x.grad, w.grad))
    for ours, expected in zip(*found, strict=True):
        assert ours.dtype is tdt.float32
        tdt.testing.assert_close(ours, expected, rtol=0.05, atol=0.05 * expected.abs().max().item())


def uses_of_one_weight(library: Any, **settings: Any) -> tuple[bool, Any]:
    """Whether two products share the cast of a weight, and the weight's gradient."""
    rng = np.random.default_rng(0)
    w, x = (library.tensor(rng.standard_normal((8, 8)).astype(np.float32)) for _ in range(2))
    w.requires_grad_()
    with library.autocast("cpu", **settings):
        first, second = library.mm(x, w), library.mm(x * 3, w)
    (first.float().sum() + second.float().sum()).backward()
    return first.grad_fn.next_functions[1][0] is second.grad_fn.next_functions[1][0], w.grad.tolist()


@pytest.mark.parametrize("settings", [{}, {"cache_enabled": False}], ids=str)
def test_a_parameter_is_cast_once_in_a_block(settings: dict[str, bool]):
    shared, gradient = uses_of_one_weight(tdt, **settings)
    theirs = uses_of_one_weight(require_torch(), **settings)
    assert shared is theirs[0] is settings.get("cache_enabled", True)
    np.testing.assert_allclose(gradient, theirs[1], rtol=2e-2, atol=2e-2)


def test_a_cast_is_forgotten_where_it_no_longer_holds():
    w, x = tdt.ones(4, 4, requires_grad=True), tdt.ones(4, 4)
    with autocast("cpu"):
        with tdt.no_grad():
            tdt.mm(x, w)
        first = tdt.mm(x, w)
        assert first.requires_grad
        with autocast("cpu", dtype=tdt.float16):
            assert tdt.mm(x, w).dtype is tdt.float16
        with tdt.no_grad():
            w.mul_(2)
        assert tdt.mm(x, w)[0, 0] == 8
        before = tdt.mm(x, w).grad_fn.next_functions[1][0]
        assert tdt.mm(x, w).grad_fn.next_functions[1][0] is before
        tdt.clear_autocast_cache()
        assert tdt.mm(x, w).grad_fn.next_functions[1][0] is not before
    with autocast("cpu"):
        assert tdt.mm(x, w).grad_fn.next_functions[1][0] is not before


def test_ops_that_autocast_leaves_alone_record_views_and_writes_as_ever():
    found = []
    for enabled in (True, False):
        x = tdt.ones(3, 4, requires_grad=True)
        with tdt.autocast("cpu", enabled=enabled):
            y = x * 2
            y[1].mul_(3)
            parts = y.t().chunk(2)
            loss = (tdt.tanh(parts[0]) * parts[1]).sum()
            with tdt.no_grad():
                view = x[0]
                fixed = y.sum()
            assert not fixed.requires_grad and view._view.creation_meta == "no_grad"
        loss.backward()
        found.append(x.grad.tolist())
    assert found[0] == found[1]


@pytest.mark.parametrize("shape", [(), (33,)])
@pytest.mark.parametrize("name", ["float16", "bfloat16", "float32", "float64"])
def test_gradients_have_the_same_bits_whether_a_tensor_or_a_number_multiplies_them(name: str, shape: tuple[int, ...]):
    values = tdt.randn(shape, generator=tdt.Generator().manual_seed(0)).to(getattr(tdt, name))
    for factor in (1 / 3, 0.1, 199 / 55, 2.0**-16):
        own, other = values.clone(), values.clone()
        multiply([own], factor)
        multiply([other], tdt.tensor(factor, dtype=tdt.float64))
        assert tdt.equal(own, other) and own.dtype == other.dtype == values.dtype


@pytest.mark.parametrize("name", ["mm", "matmul", "bmm", "addmm", "baddbmm", "addbmm"])
def test_what_is_written_into_a_tensor_is_not_cast(name: str):
    """As PyTorch: `out=` and methods that write in place do without autocast."""
    torch, rng = require_torch(), np.random.default_rng(0)
    shapes: Any = [(3, 3)] * (name.startswith(("add", "badd"))) + [(3, 3)] * 2
    if "bmm" in name:
        shapes = [(1, 3, 3) if k or name != "addbmm" else (3, 3) for k in range(len(shapes))]
    arrays = [rng.standard_normal(shape).astype(np.float32) for shape in shapes]
    found = []
    for t in torch, tdt:
        tensors = [t.from_numpy(a.copy()) for a in arrays]
        out = t.zeros(tuple(tensors[0].shape))
        with t.autocast("cpu", dtype=t.bfloat16):
            assert getattr(t, name)(*tensors, out=out) is out
            if len(tensors) > 2:
                getattr(tensors[0], name + "_")(*tensors[1:])
        found.append((out.numpy(), tensors[0].numpy()))
    for own, expected in zip(found[1], found[0], strict=True):
        np.testing.assert_allclose(own, expected, rtol=1e-5, atol=1e-6)
