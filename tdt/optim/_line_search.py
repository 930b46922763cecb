"""How far to go along a direction: the line search of strong Wolfe conditions (Nocedal and Wright, 2006, section 3.5)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

DECREASE, CURVATURE = 1e-4, 0.9  # the conditions' constants, for quasi-Newton methods
SHORT = 1e-9  # an interval in which no parameter moves further is not divided


class Point(NamedTuple):
    """Where a line was looked at: `t` along it, the loss, its gradient, and its slope along the line."""

    t: float
    loss: float
    gradient: Any
    slope: float


def strong_wolfe(
    evaluate: Callable[[float], Point], start: Point, t: float, longest: float, most: int
) -> tuple[Point, int]:
    """The first point found that is clearly lower and flatter than `start`, or else the lowest; and the number of calls.

    t: the first guess. longest: by how much the direction changes a parameter at most. most: calls, besides the first.
    """
    before, new, calls = start, evaluate(t), 0
    while calls < most:
        if _too_high(new, start) or (calls > 1 and new.loss >= before.loss):
            break
        if _is_flat(new, start):
            return new, calls + 1
        if new.slope >= 0:
            break
        step = new.t - before.t
        before, new = new, evaluate(_lowest(before, new, new.t + 0.01 * step, new.t * 10))
        calls += 1
    else:
        before = start
    return _zoom(evaluate, start, [before, new], longest, most, calls)


def _zoom(
    evaluate: Callable[[float], Point], start: Point, ends: list[Point], longest: float, most: int, calls: int
) -> tuple[Point, int]:
    """Shrink an interval that holds a good point until one is found."""
    low, high = _by_loss(ends)
    slow = False  # whether the last guess was close to an end already
    while calls < most:
        left, right = sorted(end.t for end in ends)
        if (right - left) * longest < SHORT:
            break
        t, margin = _lowest(ends[0], ends[1], left, right), 0.1 * (right - left)
        near = min(right - t, t - left) < margin
        if near and (slow or t >= right or t <= left):
            t, near = (right - margin if abs(t - right) < abs(t - left) else left + margin), False
        slow = near
        new = evaluate(t)
        calls += 1
        if _too_high(new, start) or new.loss >= ends[low].loss:
            ends[high] = new
            low, high = _by_loss(ends)
            continue
        if _is_flat(new, start):
            return new, calls + 1
        if new.slope * (ends[high].t - ends[low].t) >= 0:
            ends[high] = ends[low]
        ends[low] = new
    return ends[low], calls + 1


def _too_high(new: Point, start: Point) -> bool:
    return new.loss > start.loss + DECREASE * new.t * start.slope


def _is_flat(new: Point, start: Point) -> bool:
    return abs(new.slope) <= -CURVATURE * start.slope


def _by_loss(ends: list[Point]) -> tuple[int, int]:
    return (0, 1) if ends[0].loss <= ends[1].loss else (1, 0)


def _lowest(a: Point, b: Point, least: float, most: float) -> float:
    """Where the cubic through both points, with their slopes, is lowest, kept within bounds; else the middle of these."""
    if a.t > b.t:
        a, b = b, a
    bend = a.slope + b.slope - 3 * (a.loss - b.loss) / (a.t - b.t)
    square = bend**2 - a.slope * b.slope
    if square < 0 or math.isnan(square):
        return (least + most) / 2
    root = math.sqrt(square)
    divisor = b.slope - a.slope + 2 * root
    if divisor == 0:
        return (least + most) / 2
    return min(max(b.t - (b.t - a.t) * ((b.slope + root - bend) / divisor), least), most)
