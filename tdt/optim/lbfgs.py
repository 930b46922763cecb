"""LBFGS: a quasi-Newton method for losses without noise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tdt._core.creation import zeros_like
from tdt._core.mode import enable_grad, no_grad
from tdt._core.tensor import Tensor
from tdt._ops.elementwise.complex_numbers import view_as_real
from tdt._ops.shape.join import cat
from tdt.optim._line_search import Point, strong_wolfe
from tdt.optim._params import check_rates, number
from tdt.optim.optimizer import Optimizer, Params


class LBFGS(Optimizer):
    """L-BFGS: quasi-Newton steps, the inverse Hessian estimated from the last `history_size` steps.

    One `step(closure)` takes several iterations, each along -H g by `lr` or a line search.
    There is one parameter group. Complex parameters are pairs of real ones. State is kept under the first parameter:
    counts,
    direction "d" and step "t", the histories "old_dirs", "old_stps" and "ro", "H_diag", "prev_flat_grad", "prev_loss".
    It
    takes as much memory as 2 · history_size copies of the parameters.

    Args:
        max_iter: largest number of iterations of a step.
        max_eval: largest number of calls of the closure in a step; None stands for 1.25 · max_iter.
        tolerance_grad: a step ends when no gradient is above it.
        tolerance_change: a step ends when neither a parameter nor the loss changes by more.
        line_search_fn: "strong_wolfe", or None for the fixed step `lr`.
    Raises:
        ValueError: when there are several parameter groups or `lr` is out of range.
    Source: Nocedal, 1980; Liu and Nocedal, "On the Limited Memory BFGS Method for Large Scale Optimization", 1989.

    >>> import tdt
    >>> p = tdt.tensor([3.0, -2.0], requires_grad=True)
    >>> optimizer = tdt.optim.LBFGS([p], line_search_fn="strong_wolfe")
    >>> def closure():
    ...     optimizer.zero_grad()
    ...     loss = (tdt.tensor([1.0, 10.0]) * (p - 1) ** 2).sum()
    ...     loss.backward()
    ...     return loss
    >>> first = optimizer.step(closure)
    >>> bool((p.detach() - 1).abs().max() < 1e-4)
    True
    """

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 1,
        max_iter: int = 20,
        max_eval: int | None = None,
        tolerance_grad: float = 1e-7,
        tolerance_change: float = 1e-9,
        history_size: int = 100,
        line_search_fn: str | None = None,
    ) -> None:
        check_rates(lr=lr)
        defaults = {
            "lr": lr,
            "max_iter": max_iter,
            "max_eval": max_iter * 5 // 4 if max_eval is None else max_eval,
            "tolerance_grad": tolerance_grad,
            "tolerance_change": tolerance_change,
            "history_size": history_size,
            "line_search_fn": line_search_fn,
        }
        super().__init__(params, defaults)
        if len(self.param_groups) != 1:
            raise ValueError("LBFGS doesn't support per-parameter options (parameter groups)")

    @no_grad()
    def step(self, closure: Callable[[], Tensor | float]) -> Tensor | float:  # type: ignore[override]
        """Iterate until an end condition holds; returns the loss at the start.

        Args:
            closure: computes the loss and the gradients anew and returns the loss.
        Raises:
            AssertionError: when there are several parameter groups.
        """
        if len(self.param_groups) != 1:
            raise AssertionError(f"Expected exactly one param_group, but got {len(self.param_groups)}")
        (group,), closure = self.param_groups, enable_grad()(closure)
        state = self.state[group["params"][0]]
        state.setdefault("func_evals", 0)
        state.setdefault("n_iter", 0)
        start = closure()
        loss, gradient, calls = float(start), self._gradient(), 1
        state["func_evals"] += 1
        if _largest(gradient) <= group["tolerance_grad"]:
            return start
        for iteration in range(group["max_iter"]):
            state["n_iter"] += 1
            d = self._direction(state, gradient, group["history_size"])
            lr, slope = number(group["lr"]), float(gradient.dot(d))
            t = lr * min(1.0, 1 / float(gradient.abs().sum())) if state["n_iter"] == 1 else lr
            state.update(d=d, t=t, prev_flat_grad=gradient, prev_loss=loss)
            if slope > -group["tolerance_change"]:
                break
            last = iteration + 1 == group["max_iter"]
            before = Point(0.0, loss, gradient, slope)
            t, loss, gradient, called = self._move(closure, before, t, d, group["max_eval"] - calls, last)
            state["t"] = t
            calls += called
            state["func_evals"] += called
            if last or calls >= group["max_eval"] or _largest(gradient) <= group["tolerance_grad"]:
                break
            if _largest(d * t) <= group["tolerance_change"] or abs(loss - before.loss) < group["tolerance_change"]:
                break
        return start

    def _direction(self, state: dict[str, Any], gradient: Any, size: int) -> Any:
        """-H g, after the last step has entered the history; `size` steps are kept."""
        if state["n_iter"] == 1:
            state.update(old_dirs=[], old_stps=[], ro=[], H_diag=1)
            return -gradient
        y, s = gradient - state["prev_flat_grad"], state["d"] * number(state["t"])
        ys = float(y.dot(s))
        if ys > 1e-10:  # else the curvature is none that a minimum has
            for name, value in {"old_dirs": y, "old_stps": s, "ro": 1 / ys}.items():
                state[name] = [*state[name], value][-size:]
            state["H_diag"] = ys / float(y.dot(y))
        past = list(zip(state["old_dirs"], state["old_stps"], map(number, state["ro"]), strict=True))
        d, weights = -gradient, []
        for y, s, ro in reversed(past):
            weights.append(float(s.dot(d)) * ro)
            d = d - y * weights[-1]
        d = d * number(state["H_diag"])
        for (y, s, ro), weight in zip(past, reversed(weights), strict=True):
            d = d + s * (weight - float(y.dot(d)) * ro)
        return d

    def _move(
        self, closure: Callable[[], Any], before: Point, t: float, d: Any, calls: int, last: bool
    ) -> tuple[float, float, Any, int]:
        """Go along `d`: by `t`, or as far as a line search finds good with so many calls of `closure`.

        Returns how far it went, the loss and the gradient there (those before, after the `last` move without a search: a
        stochastic loss is another one in the next step), and the calls made.
        """
        search = self.param_groups[0]["line_search_fn"]
        if search is None:
            self._add(d * t)
            return (t, before.loss, before.gradient, 0) if last else (t, float(closure()), self._gradient(), 1)
        if search != "strong_wolfe":
            raise RuntimeError(f"only 'strong_wolfe' is supported as line_search_fn, got {search!r}")
        params = self.param_groups[0]["params"]
        start = [p.clone() for p in params]

        def evaluate(t: float) -> Point:
            self._add(d * t)
            loss, gradient = float(closure()), self._gradient()
            for p, value in zip(params, start, strict=True):
                p.copy_(value)
            return Point(t, loss, gradient, float(gradient.dot(d)))

        best, evaluations = strong_wolfe(evaluate, before, t, _largest(d), calls)
        self._add(d * best.t)
        return best.t, best.loss, best.gradient, evaluations

    def _gradient(self) -> Any:
        """All gradients as one vector, zeros where there is none."""
        return cat([_real(_dense(p)).reshape(-1) for p in self.param_groups[0]["params"]])

    def _add(self, change: Any) -> None:
        """Add a vector to all parameters."""
        first = 0
        for p in self.param_groups[0]["params"]:
            real = _real(p)
            real.add_(change[first : first + real.numel()].reshape(real.shape))
            first += real.numel()


def _dense(p: Any) -> Any:
    g = p._grad
    if g is None:
        return zeros_like(p)
    return g.to_dense() if g.is_sparse else g


def _real(x: Any) -> Any:
    return view_as_real(x) if x.is_complex() else x


def _largest(x: Any) -> float:
    return float(x.abs().max())
