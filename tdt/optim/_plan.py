"""How a step is carried out: parameters in few long pieces for NumPy and CuPy, or in a table for a fused kernel.

A step over eight small tensors is eight times the same dozen array operations, and nearly all its time is their call
overhead. So the state of parameters that start together lies in one flat array per name (`Slab`; each parameter's
state is a view of it, an ordinary tensor), gradients are gathered into a flat buffer, and each operation runs once per
`Piece`: a run of neighbours, or a part of one large parameter, whose arrays stay in the cache from the first operation
to the last. Parameters keep their own storage. Every element sees the same operations however it is grouped, so the
grouping never shows in the numbers.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from operator import is_
from typing import TYPE_CHECKING, Any

import numpy as np

from tdt import _backend, _kernels
from tdt._backend.layout import to_front, to_last
from tdt._core.dtype import float64, get_default_dtype
from tdt._core.tensor import Tensor, wrap
from tdt._kernels import Kernel
from tdt._kernels._table import Table

if TYPE_CHECKING:
    from tdt._kernels._references import References

# Elements of a piece: five float32 arrays of it are 640 kB, which a level-two cache holds. A GPU takes all at once.
PIECE = 1 << 15

# Elements of a group that a kernel updates from the first step on. Of smaller ones NumPy, with the same bits, takes the first
# steps: loading the compiler would take as long as some hundreds of them.
LARGE, FIRST_STEPS = 1 << 17, 20

_on_gpu = _kernels.lazy("optim_gpu:Step")

_TABLE_TYPES = (np.dtype(np.float32), np.dtype(np.float64))


def scalar_dtype() -> np.dtype:
    """The dtype of scalar state such as "step": float64 where that is the default dtype, else float32."""
    return np.dtype(np.float64 if get_default_dtype() is float64 else np.float32)


def scalar_dtypes(own: dict, names: Iterable[str]) -> tuple[np.dtype, ...]:
    """The dtype of each of a parameter's scalars: of the state tensor that is there, else `scalar_dtype`."""
    values = (own.get(name) for name in names)
    return tuple(
        value._a.dtype if isinstance(value, Tensor) and value.is_floating_point() else scalar_dtype()
        for value in values
    )


def lies_last(a: Any) -> bool:
    """Whether the channels of images, or weights, lie last: their elements are taken in that order."""
    return a.ndim > 2 and not a.flags.c_contiguous and to_last(a).flags.c_contiguous


class Slab:
    """The state of several parameters of one dtype and device: a flat array, and a row of `scalars`, for each name.

    arrays, scalars: the names of either, with the values before the first step. The parameters' scalars that are there
    already have the same `scalar_dtypes`. pairs: each row of scalars, and as it was when a plan last read or wrote it.
    """

    def __init__(self, params: Sequence[Tensor], arrays: dict[str, float], scalars: dict[str, float], state: dict):
        like = params[0]._a
        xp = _backend.namespace(like)
        self.bounds = [0, *np.cumsum([p._a.size for p in params]).tolist()]
        self.flat = [xp.empty(self.bounds[-1], like.dtype) for _ in arrays]
        self.dtypes = scalar_dtypes(state.get(params[0], {}), scalars)
        self.pairs = [np.empty((2, len(params)), dtype) for dtype in self.dtypes]
        self.scalars = [scalars for scalars, _ in self.pairs]
        self.fresh: list[bool] = []
        for i, p in enumerate(params):
            own = state[p] if arrays or scalars else {}
            self.fresh.append(any(own.get(name) is None for name in arrays))
            self._take_arrays(i, p._a, own, arrays)
            for row, (name, first) in zip(self.scalars, scalars.items(), strict=True):
                row[i] = float(own.get(name, first))
                own[name] = wrap(row[i : i + 1].reshape(()))

    def _take_arrays(self, i: int, like: Any, own: dict, arrays: dict[str, float]) -> None:
        """Move what a parameter has gathered so far here, and make its state views of this slab, in its order of memory."""
        shape, last = like.shape, lies_last(like)
        for flat, (name, first) in zip(self.flat, arrays.items(), strict=True):
            view = flat[self.bounds[i] : self.bounds[i + 1]].reshape(to_last(like).shape if last else shape)
            view = to_front(view) if last else view
            value = own.get(name)
            if value is None:
                view[...] = complex(first, first) if view.dtype.kind == "c" else first
            elif value._a.shape != shape:
                raise RuntimeError(
                    f"The size of the state {name}, {list(value._a.shape)}, must match that of its parameter, "
                    f"{list(shape)}: it was saved with another model"
                )
            else:
                view[...] = value._a
            own[name] = wrap(view)


class _Buffers:
    """Two arrays of at most `longest` elements for each device and dtype: the same memory for all pieces of a plan.

    They are made when they are first needed: kernels need none.
    """

    def __init__(self, longest: int):
        self._longest = longest
        self._arrays: dict[tuple, tuple] = {}

    def __call__(self, like: Any, dtype: Any, size: int) -> tuple[Any, Any]:
        """Two arrays of `size` elements on the device of `like`."""
        key = (_backend.device_of(like), dtype)
        if key not in self._arrays:
            with _backend.on_gpu_of(like):
                xp = _backend.namespace(like)
                self._arrays[key] = (xp.empty(self._longest, dtype), xp.empty(self._longest, dtype))
        grad, work = self._arrays[key]
        return grad[:size], work[:size]


class Piece:
    """Neighbours in a slab, or a part of one parameter, that are updated together.

    first, last: which of the plan's parameters. Complex numbers appear as pairs of real ones in what it hands out, and
    numbers of two bytes as float32: a step is computed in that and rounded once.
    """

    def __init__(self, plan: Plan, first: int, last: int, lo: int, hi: int, part: slice | None):
        slab = plan.homes[first][0]
        self.first, self.last, self.part = first, last, part
        self.targets = [a if part is None else a.reshape(-1)[part] for a in plan.arrays[first:last]]
        self.xp = _backend.namespace(self.targets[0])
        self.narrow = self.targets[0].dtype.itemsize == 2
        dtype = np.dtype(np.float32) if self.narrow else self.targets[0].dtype
        self.real = np.empty(0, dtype).real.dtype
        self._buffers, self._kind, self._size = plan.buffers, dtype, hi - lo
        self._state = [flat[lo:hi] if self.narrow else flat[lo:hi].view(self.real) for flat in slab.flat]
        self.whole_state = slab.flat, lo
        self.step: Any = None  # what updates the piece on a GPU by one kernel, once it is made
        self.takes_kernel = self.xp is not np and _kernels.enabled() and self.targets[0].dtype.kind != "c"
        self.takes_kernel = self.takes_kernel and all(a.flags.c_contiguous for a in self.targets)

    @functools.cached_property
    def _flat(self) -> tuple[Any, Any]:
        """Memory for the gradients and for the values or updates of all parameters, one after the other."""
        return self._buffers(self.targets[0], self._kind, self._size)

    @functools.cached_property
    def _real(self) -> tuple[Any, Any]:
        """The same as real numbers."""
        grad, work = self._flat
        return grad.view(self.real), work.view(self.real)

    @functools.cached_property
    def _updates(self) -> list:
        """The second, by parameter."""
        ends = np.cumsum([0] + [a.size for a in self.targets]).tolist()
        return [self._flat[1][a:b].reshape(t.shape) for a, b, t in zip(ends, ends[1:], self.targets, strict=False)]

    def update_at_once(self, change: Callable[..., Any], grads: list, numbers: tuple, options: dict[str, Any],
                       renewed: Callable[[], list] | None = None, skips: Any = None) -> bool:  # fmt: skip
        """Update on a GPU by a kernel generated from the formula `change`; False where there is none.

        renewed, skips: in a CUDA graph, what gives the numbers and options of a replay, as of `optim_gpu.Step`.
        """
        if not self.takes_kernel:
            return False
        if self.step is None:
            self.step = _on_gpu(change)
        return self.step(self.targets, self.dense(grads), *self.whole_state, numbers, options, renewed, skips)

    def gradient(self, grads: list) -> Any:
        """The gradients as one flat array; it may be a view of the only one, which must not be written to."""
        if self.last - self.first > 1:
            self.xp.concatenate(grads[self.first : self.last], axis=None, out=self._flat[0])
            return self._real[0]
        flat = grads[self.first].reshape(-1)
        flat = flat if self.part is None else flat[self.part]
        return flat.astype(self.real) if self.narrow else flat.view(self.real)

    def dense(self, grads: list) -> list:
        """The gradients, contiguous."""
        return [g if g.flags.c_contiguous else self.xp.ascontiguousarray(g) for g in grads[self.first : self.last]]

    def values(self) -> Any:
        """The parameters as one flat array, there until `apply`."""
        self.xp.concatenate(self.targets, axis=None, out=self._flat[1])
        return self._real[1]

    def state(self) -> list:
        """A flat array for each name, for a step to write to; `keep` takes it back."""
        return [a.astype(self.real) for a in self._state] if self.narrow else self._state

    def keep(self, state: list) -> None:
        """Note what a step has written to the arrays of `state`."""
        if self.narrow:
            for own, new in zip(self._state, state, strict=True):
                own[...] = new

    def apply(self, change: Any) -> None:
        """Add a flat array to the parameters."""
        if len(self.targets) == 1 and not self.narrow:
            (target,) = self.targets
            target += change.view(target.dtype).reshape(target.shape)
            return
        self._real[1][...] = change
        for target, update in zip(self.targets, self._updates, strict=True):
            self.xp.add(target, update, target)


class Plan:
    """How the parameters of a group that have a gradient are updated, for as long as none of their arrays is replaced.

    pieces: what NumPy or CuPy does. tables: (which parameters, `Table`) for a kernel. Made anew when parameters lose or
    gain their gradient, or when state was loaded; `before` lends its slabs. is_read: whether the scalars that are known are
    those in memory, as far as steps have written them.
    """

    def __init__(
        self,
        live: list[Tensor],
        arrays: dict[str, float],
        scalars: dict[str, float],
        state: dict,
        kernel: Kernel | None,
        before: Plan | None,
    ):
        self.live, self.arrays_at_first, self.scalars_at_first = live, arrays, scalars
        self.kernel, self.kernels_on = kernel, _kernels.enabled()
        self.steps: int = 0 if before is None else before.steps
        self.watched = (*arrays, *scalars)
        self.own_arrays = [p._a for p in live]
        self.last = [lies_last(a) for a in self.own_arrays]
        self.arrays: list = self.ordered(self.own_arrays)
        self.on_cpu = any(type(a) is np.ndarray for a in self.arrays)  # some have a kernel after `FIRST_STEPS`
        whole = [a.size for i, a in enumerate(self.arrays) if a.size <= self._limit(i) or not a.flags.c_contiguous]
        self.buffers = _Buffers(max([min(sum(a.size for a in self.arrays), self._limit(0)), *whole]))
        known = {} if before is None or before.watched != self.watched else dict(before.places)
        self.places: dict[Tensor, tuple[Slab, int]] = {p: known[p] for p in known if self._is_home(p, known[p], state)}
        self._house([p for p in live if p not in self.places], state)
        self.homes: list[tuple[Slab, int]] = [self.places[p] for p in live]
        self.state_arrays = [state[p][name]._a for p in live for name in self.watched]
        self._runs = self._neighbours()
        self._rows = [(pair[:, picked], k) for slab, picked, *_ in self._runs for k, pair in enumerate(slab.pairs)]
        self._fresh = True  # whether a slab may hold state that no step has used yet
        self._now: list[tuple]
        self._read_scalars()
        self.tables = list(self._make_tables())
        in_table = {i for rows, _, _ in self.tables for i in rows}
        self.pieces = list(self._make_pieces([i for i in range(len(live)) if i not in in_table]))

    def fits(self, live: list[Tensor], arrays: dict, scalars: dict, state: dict) -> bool:
        """Whether this plan still holds: the same tensors with the same arrays behind them."""
        if len(live) != len(self.live) or (*arrays, *scalars) != self.watched:
            return False
        return (
            all(map(is_, live, self.live))
            and all(map(is_, [p._a for p in live], self.own_arrays))
            and self.holds(state)
            and self._even()
        )

    def holds(self, state: dict) -> bool:
        """Whether the state is where it was, and kernels are switched on as they were. Reads the scalars."""
        try:
            now = [state[p][name]._a for p in self.live for name in self.watched]
        except KeyError:
            return False
        return all(map(is_, now, self.state_arrays)) and self.reads()

    def reads(self) -> bool:
        """Whether kernels are switched on as they were. Reads the scalars."""
        if self._fresh or not self.is_read or any(row.tobytes() != known.tobytes() for (row, known), _ in self._rows):
            self._read_scalars()
        return self.kernels_on == _kernels.enabled() and (
            self.steps != FIRST_STEPS or bool(self.tables) or not self.on_cpu
        )

    def ordered(self, arrays: list) -> list:
        """Arrays of the parameters' shapes, with their dimensions as the parameters have them in memory."""
        if not any(self.last):
            return arrays
        return [to_last(a) if last else a for a, last in zip(arrays, self.last, strict=True)]

    def restores_fresh(self) -> Callable[[], None]:
        """What lets state that no step has used yet, as it is now, be such again, whatever steps are taken until then."""
        fresh, slabs = self._fresh, [(slab.fresh, [*slab.fresh]) for slab, *_ in self._runs]

        def restore() -> None:
            self._fresh, self.is_read = fresh, False
            for now, before in slabs:
                now[:] = before

        return restore

    def advance(self, step: Callable[..., tuple[tuple, tuple]]) -> list[tuple]:
        """Count a step; returns its numbers. step: as of `next_numbers`."""
        numbers, keep = self.next_numbers(step)
        keep()
        return numbers

    @property
    def counts_alone(self) -> bool:
        """Whether the numbers of a step depend on how many were taken, and on nothing else of those before."""
        return not self._fresh and {*self.scalars_at_first} <= {"step"}

    def count_fewer(self, fewer: int) -> None:
        """Let so many steps that were counted not have been taken, where `counts_alone`."""
        for (row, _), _ in self._rows:
            row -= fewer
        self.is_read = False

    def next_numbers(
        self, step: Callable[..., tuple[tuple, tuple]], fewer: int = 0
    ) -> tuple[list[tuple], Callable[[], None]]:
        """The numbers of each parameter for the next step, or one for all where those are equal, and what counts it.

        step: `step(dtypes, fresh, *scalars)` gives (the scalars after this step, numbers). dtypes: of the scalars. fresh: whether
        the parameter's arrays are as they were made. fewer: steps that were counted and not taken, where `counts_alone`.
        """
        now = self._now
        if fewer:
            now = [(dtypes, fresh, *[count - fewer for count in counts]) for dtypes, fresh, *counts in now]
        if len(now) == 1 and not self._fresh:
            after, numbers = step(*now[0])
            return [numbers], partial(self._keep_all, after)
        known = {values: step(*values) for values in dict.fromkeys(now)}
        steps = [known[values] for values in now]
        return [numbers for _, numbers in steps], partial(self._keep_each, steps * (len(self.live) // len(steps)))

    def numbers_of(self, numbers: list[tuple], rows: Sequence[int]) -> list[tuple]:
        """Of what `next_numbers` gave, the numbers of some parameters, or one for all."""
        return numbers if len(numbers) == 1 else [numbers[i] for i in rows]

    def _keep_all(self, after: tuple) -> None:
        """Let all parameters have these scalars."""
        self.steps += 1
        for pair, k in self._rows:
            pair.fill(after[k])
        dtypes, fresh, *_ = self._now[0]
        self._now = [(dtypes, fresh, *[pair.item(0) for pair, _ in self._rows[: len(after)]])]

    def _keep_each(self, steps: list[tuple]) -> None:
        """Let the parameters have the first of these: (scalars, numbers) of each."""
        self.steps += 1
        for slab, picked, first, last in self._runs:
            for row, values in zip(
                slab.scalars, zip(*(after for after, _ in steps[first:last]), strict=True), strict=True
            ):
                row[picked] = values
            if self._fresh:
                slab.fresh[picked] = [False] * (last - first)
        self._fresh = self.is_read = False

    def refer(self, references: References) -> None:
        """Name the scalars, as they were when they were read."""
        for (row, known), _ in self._rows:
            references.array(row, known)

    def _read_scalars(self) -> None:
        self._now, self.is_read = self._read(), True
        for (row, known), _ in self._rows:
            known[...] = row

    def _read(self) -> list[tuple]:
        """The scalars' dtypes, freshness and scalars of each parameter, or once for all where those are equal."""
        if not (self._fresh or self.scalars_at_first):
            return [((), False)]
        found: list[tuple] = []
        for slab, picked, first, last in self._runs:
            columns, count = [slab.fresh[picked], *[row[picked].tolist() for row in slab.scalars]], last - first
            for column in columns:
                if column.count(column[0]) != count:
                    break
            else:
                found += [(slab.dtypes, *[column[0] for column in columns])] * count
                continue
            found += [(slab.dtypes, *values) for values in zip(*columns, strict=True)]
        return found[:1] if found.count(found[0]) == len(found) else found

    def _even(self) -> bool:
        """Whether parameters that share a piece still have the same scalars: someone may have set them."""
        now = self._now
        return len(now) == 1 or all(len(set(now[piece.first : piece.last])) == 1 for piece in self.pieces)

    def _neighbours(self) -> list[tuple[Slab, slice, int, int]]:
        """Parameters that follow each other in a slab too, as (slab, where in it, first, last)."""
        runs: list[tuple[Slab, slice, int, int]] = []
        for k, (slab, i) in enumerate(self.homes):
            if runs and runs[-1][0] is slab and runs[-1][1].stop == i:
                runs[-1] = (slab, slice(runs[-1][1].start, i + 1), runs[-1][2], k + 1)
            else:
                runs.append((slab, slice(i, i + 1), k, k + 1))
        return runs

    def _is_home(self, p: Tensor, place: tuple[Slab, int], state: dict) -> bool:
        """Whether the state of `p` still is the part of a slab that was made for it."""
        slab, i = place
        parts = [flat[slab.bounds[i] : slab.bounds[i + 1]] for flat in slab.flat]
        for name, part in zip(self.watched, [*parts, *(row[i : i + 1] for row in slab.scalars)], strict=True):
            tensor = state.get(p, {}).get(name)
            if not isinstance(tensor, Tensor) or type(tensor._a) is not type(part):
                return False
            if _backend.byte_bounds(tensor._a) != _backend.byte_bounds(part):
                return False
        if any(lies_last(state[p][name]._a) != lies_last(p._a) for name in self.arrays_at_first):
            return False
        return all(part.dtype == p._a.dtype and part.size == p._a.size for part in parts)

    def _house(self, homeless: list[Tensor], state: dict) -> None:
        """Make slabs for parameters whose state lies elsewhere or is not there yet."""
        kinds: dict[tuple, list[Tensor]] = {}
        for p in homeless:
            dtypes = scalar_dtypes(state.get(p, {}), self.scalars_at_first)
            kinds.setdefault((p._a.dtype, p.device, dtypes), []).append(p)
        for params in kinds.values():
            with _backend.on_gpu_of(params[0]._a):
                slab = Slab(params, self.arrays_at_first, self.scalars_at_first, state)
            self.places.update((p, (slab, i)) for i, p in enumerate(params))

    def _make_tables(self) -> Iterator[tuple[list[int], Table, Any]]:
        for dtype in _TABLE_TYPES:
            rows = [
                i
                for i, a in enumerate(self.arrays)
                if a.dtype == dtype and type(a) is np.ndarray and a.flags.c_contiguous
            ]
            arrays = [self.arrays[i] for i in rows]
            waits = self.steps < FIRST_STEPS and sum(a.size for a in arrays) < LARGE
            if self.kernel and not waits and self.kernel.when(arrays, {}):
                columns = [self.state_arrays[k :: len(self.watched)] for k in range(len(self.arrays_at_first))]
                yield (
                    rows,
                    Table([arrays, None, *([column[i] for i in rows] for column in columns)]),
                    self.kernel.function,
                )

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
            and all(row[i] == row[j] for row in slab.scalars)
            and slab.fresh[i] == slab.fresh[j]
        )

    def _limit(self, i: int) -> int:
        return PIECE if type(self.arrays[i]) is np.ndarray else 1 << 62
