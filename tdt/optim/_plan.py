"""How a step is carried out: parameters in few long pieces for NumPy and CuPy, or in a table for a fused kernel.

A step over eight small tensors is eight times the same dozen array operations, and nearly all its time is their call
overhead. So the state of parameters that start together lies in one flat array per name (`Slab`; each parameter's
state is a view of it, an ordinary tensor), gradients are gathered into a flat buffer, and each operation runs once per
`Piece`: a run of neighbours, or a part of one large parameter, whose arrays stay in the cache from the first operation
to the last. Parameters keep their own storage. Every element sees the same operations however it is grouped, so the
grouping never shows in the numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import is_
from typing import Any

import numpy as np

from tdt import _backend, _kernels
from tdt._kernels._table import Table
from tdt._tensor import Tensor, wrap

# Elements of a piece: five float32 arrays of it are 640 kB, which a level-two cache holds. A GPU takes all at once.
PIECE = 1 << 15

_TABLE_TYPES = (np.dtype(np.float32), np.dtype(np.float64))


class Slab:
    """The state of several parameters of one dtype and device: a flat array for each name, and the steps taken."""

    def __init__(self, params: Sequence[Tensor], names: Sequence[str], stepped: bool, state: dict):
        like = params[0]._a
        xp = _backend.namespace(like)
        self.bounds = [0, *np.cumsum([p._a.size for p in params]).tolist()]
        self.flat = [xp.zeros(self.bounds[-1], like.dtype) for _ in names]
        self.steps = np.zeros(len(params), np.float32)
        self.fresh: list[bool] = []
        for i, p in enumerate(params):
            self._take_in(i, p._a.shape, state[p] if names else {}, names, stepped)

    def _take_in(self, i: int, shape: tuple, own: dict, names: Sequence[str], stepped: bool) -> None:
        """Move what a parameter has gathered so far here, and make its state views of this slab."""
        kept = {name: own.get(name) for name in names}
        self.fresh.append(any(value is None for value in kept.values()))
        if stepped:
            self.steps[i] = float(own.get("step", 0))
            own["step"] = wrap(self.steps[i : i + 1].reshape(()))
        for flat, (name, value) in zip(self.flat, kept.items(), strict=True):
            view = flat[self.bounds[i] : self.bounds[i + 1]].reshape(shape)
            if value is not None:
                if value._a.shape != shape:
                    raise RuntimeError(
                        f"The size of the state {name}, {list(value._a.shape)}, must match that of its parameter, "
                        f"{list(shape)}: it was saved with another model"
                    )
                view[...] = value._a
            own[name] = wrap(view)


class Piece:
    """Neighbours in a slab, or a part of one parameter, that are updated together.

    first, last: which of the plan's parameters. state: flat arrays, one for each name. `grad` and `work` are buffers of
    the same size. Complex numbers appear as pairs of real ones in all of these.
    """

    def __init__(self, plan: Plan, first: int, last: int, lo: int, hi: int, part: slice | None):
        slab = plan.homes[first][0]
        self.first, self.last, self.part = first, last, part
        self.targets = [a if part is None else a.reshape(-1)[part] for a in plan.arrays[first:last]]
        self.xp = _backend.namespace(self.targets[0])
        self.real = np.dtype(self.targets[0].real.dtype)
        grad, work = plan.buffers(self.xp, self.targets[0].dtype, hi - lo)
        self._gathered, self.grad, self.work = grad, grad.view(self.real), work.view(self.real)
        self.state = [flat[lo:hi].view(self.real) for flat in slab.flat]
        self.fresh = slab.fresh[plan.homes[first][1]]
        ends = np.cumsum([0] + [a.size for a in self.targets]).tolist()
        self._updates = [work[a:b].reshape(t.shape) for a, b, t in zip(ends, ends[1:], self.targets, strict=False)]

    def gradient(self, grads: list) -> Any:
        """The gradients as one flat array: `self.grad`, or a view of the only one, which must not be written to."""
        if self.last - self.first > 1:
            self.xp.concatenate(grads[self.first : self.last], axis=None, out=self._gathered)
            return self.grad
        flat = grads[self.first].reshape(-1)
        return (flat if self.part is None else flat[self.part]).view(self.real)

    def values(self, out: Any) -> Any:
        """The parameters as one flat array, copied to `out` (`self.grad` or `self.work`)."""
        self.xp.concatenate(self.targets, axis=None, out=out.view(self._gathered.dtype))
        return out

    def decayed(self, g: Any, weight_decay: float) -> Any:
        """The gradient `g` plus that of half of `weight_decay` times the squared norm of the parameters."""
        pull = self.xp.multiply(self.values(self.work), weight_decay, self.work)
        return self.xp.add(g, pull, self.grad)

    def apply(self) -> None:
        """Add what lies in `work` to the parameters."""
        add = self.xp.add
        for target, update in zip(self.targets, self._updates, strict=True):
            add(target, update, target)

    def store(self) -> None:
        """Replace the parameters by what lies in `work`."""
        for target, update in zip(self.targets, self._updates, strict=True):
            target[...] = update


class Plan:
    """How the parameters of a group that have a gradient are updated, for as long as none of their arrays is replaced.

    pieces: what NumPy or CuPy does. tables: (which parameters, `Table`) for a kernel. Made anew when parameters lose or
    gain their gradient, or when state was loaded; `before` lends its slabs.
    """

    def __init__(
        self, live: list[Tensor], names: tuple[str, ...], stepped: bool, state: dict, kernel: str, before: Plan | None
    ):
        self.live, self.names, self.stepped, self.kernels_on = live, names, stepped, _kernels.enabled()
        self.watched = (*names, "step") if stepped else names
        self.arrays = [p._a for p in live]
        self._buffers: dict[tuple, tuple] = {}
        known = {} if before is None or before.names != names else dict(before.places)
        self.places: dict[Tensor, tuple[Slab, int]] = {p: known[p] for p in known if self._is_home(p, known[p], state)}
        self._house([p for p in live if p not in self.places], state)
        self.homes = [self.places[p] for p in live]
        self.state_arrays = [state[p][name]._a for p in live for name in self.watched]
        self.fresh = any(slab.fresh[i] for slab, i in self.homes)  # state that no step has used yet
        self.counted = self._counters()
        self.tables = list(self._make_tables(kernel))
        in_table = {i for rows, _, _ in self.tables for i in rows}
        self.pieces = list(self._make_pieces([i for i in range(len(live)) if i not in in_table]))

    def fits(self, live: list[Tensor], names: tuple[str, ...], state: dict) -> bool:
        """Whether this plan still holds: the same tensors with the same arrays behind them."""
        if len(live) != len(self.live) or names != self.names or self.kernels_on != _kernels.enabled():
            return False
        try:
            now = [state[p][name]._a for p in live for name in self.watched]
        except KeyError:
            return False
        return (
            all(map(is_, live, self.live))
            and all(map(is_, [p._a for p in live], self.arrays))
            and all(map(is_, now, self.state_arrays))
            and not (self.stepped and self._uneven())
        )

    def count(self) -> list[float]:
        """Count this step; the number of steps of each parameter."""
        for counter, picked in self.counted:
            counter[picked] += 1
        return self._steps()

    def settle(self) -> None:
        """Note that the state of every parameter has been used."""
        for slab, i in self.homes:
            slab.fresh[i] = False
        for piece in self.pieces:
            piece.fresh = False
        self.fresh = False

    def _steps(self) -> list[float]:
        return [step for counter, picked in self.counted for step in counter[picked].tolist()]

    def _uneven(self) -> bool:
        """Whether someone set the steps of parameters that share a piece to different numbers."""
        steps = self._steps()
        return any(len(set(steps[piece.first : piece.last])) > 1 for piece in self.pieces)

    def _counters(self) -> list[tuple[np.ndarray, Any]]:
        """The step counters of neighbours in a slab, as (counters, which)."""
        made: list[tuple[np.ndarray, list[int]]] = []
        for slab, i in self.homes:
            if made and made[-1][0] is slab.steps:
                made[-1][1].append(i)
            else:
                made.append((slab.steps, [i]))
        return [(steps, slice(None) if picked == list(range(len(steps))) else picked) for steps, picked in made]

    def buffers(self, xp: Any, dtype: Any, size: int) -> tuple[Any, Any]:
        """Two arrays of `size` elements, the same memory for every piece."""
        key = (xp, dtype)
        if key not in self._buffers:
            whole = [a.size for i, a in enumerate(self.arrays) if a.size <= self._limit(i) or not a.flags.c_contiguous]
            longest = max([min(sum(a.size for a in self.arrays), self._limit(0)), *whole])
            self._buffers[key] = (xp.empty(longest, dtype), xp.empty(longest, dtype))
        grad, work = self._buffers[key]
        return grad[:size], work[:size]

    def _is_home(self, p: Tensor, place: tuple[Slab, int], state: dict) -> bool:
        """Whether the state of `p` still is the part of a slab that was made for it."""
        slab, i = place
        parts = [flat[slab.bounds[i] : slab.bounds[i + 1]] for flat in slab.flat]
        for name, part in zip(self.watched, [*parts, slab.steps[i : i + 1]], strict=False):
            tensor = state.get(p, {}).get(name)
            if not isinstance(tensor, Tensor) or type(tensor._a) is not type(part):
                return False
            if _backend.byte_bounds(tensor._a) != _backend.byte_bounds(part):
                return False
        return all(part.dtype == p._a.dtype and part.size == p._a.size for part in parts)

    def _house(self, homeless: list[Tensor], state: dict) -> None:
        """Make slabs for parameters whose state lies elsewhere or is not there yet."""
        kinds: dict[tuple, list[Tensor]] = {}
        for p in homeless:
            kinds.setdefault((p._a.dtype, p.device), []).append(p)
        for params in kinds.values():
            slab = Slab(params, self.names, self.stepped, state)
            self.places.update((p, (slab, i)) for i, p in enumerate(params))

    def _make_tables(self, kernel: str) -> Iterator[tuple[list[int], Table, Any]]:
        for dtype in _TABLE_TYPES:
            rows = [
                i
                for i, a in enumerate(self.arrays)
                if a.dtype == dtype and type(a) is np.ndarray and a.flags.c_contiguous
            ]
            arrays = [self.arrays[i] for i in rows]
            function = _kernels.find(kernel, "cpu", arrays, {})
            if function is not None:
                columns = [self.state_arrays[k :: len(self.watched)] for k in range(len(self.names))]
                yield rows, Table([arrays, None, *([column[i] for i in rows] for column in columns)]), function

    def _make_pieces(self, chosen: list[int]) -> Iterator[Piece]:
        start = 0
        while start < len(chosen):
            first = chosen[start]
            slab, i = self.homes[first]
            size, end = self.arrays[first].size, start + 1
            while end < len(chosen) and self._joins(chosen, end, size):
                size, end = size + self.arrays[chosen[end]].size, end + 1
            lo = slab.bounds[i]
            if size > self._limit(first) and self.arrays[first].flags.c_contiguous:
                for a in range(0, size, PIECE):
                    b = min(a + PIECE, size)
                    yield Piece(self, first, first + 1, lo + a, lo + b, slice(a, b))
            else:
                yield Piece(self, first, first + end - start, lo, lo + size, None)
            start = end

    def _joins(self, chosen: list[int], k: int, size: int) -> bool:
        """Whether parameter `chosen[k]` is updated together with the one before, in a piece that has `size` so far."""
        before, this = chosen[k - 1], chosen[k]
        (slab, i), (other, j) = self.homes[before], self.homes[this]
        return (
            this == before + 1
            and slab is other
            and j == i + 1
            and size + self.arrays[this].size <= self._limit(this)
            and slab.steps[i] == slab.steps[j]
            and slab.fresh[i] == slab.fresh[j]
        )

    def _limit(self, i: int) -> int:
        return PIECE if type(self.arrays[i]) is np.ndarray else 1 << 62
