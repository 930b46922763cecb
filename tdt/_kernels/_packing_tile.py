"""The register tile (`_tile`) that packs the right operand's lines while it computes its own rows: the others read the panel.

To pack them before takes as long as twelve products of each element, which few rows do not make up for.
"""

from __future__ import annotations

from typing import Any

from tdt._kernels._native import linked
from tdt._kernels._tile import FUNCTION, WORDS, Emitter, Shape

AHEAD = 24  # lines by which b is fetched in advance: a processor does not foresee lines in pages of their own


def packing_address(left: str, shape: Shape) -> int:
    """The address of a tile's function, as `_tile.address` gives it, with one word more: where the panel is written.

    Line k of b is at b + k · `step`; of its columns only those that exist are read, and the panel is filled up with zeros.
    """
    name = f"packing_{left}_{'x'.join(map(str, shape))}"
    return linked(name, [FUNCTION], lambda: PackingEmitter(left, shape, False, False).module)[0]


class PackingEmitter(Emitter):
    """Writes the function."""

    words = (*WORDS, "panel")

    def _finish(self) -> None:
        self.ahead = self.builder.mul(self.line, self.number(AHEAD))
        self._either(self._all)

    def _all(self, masks: list[Any]) -> None:
        self.masks = masks
        self._end(self.sums(), masks)

    def _rights(self) -> list[Any]:
        return [self.values["b"], self.values["panel"]]

    def line_at(self, rights: list[Any]) -> tuple[list[Any], list[Any]]:
        b, panel = rights
        lines = [self.read(b, self.item * v * self.width, mask) for v, mask in enumerate(self.masks)]
        for v, line in enumerate(lines):
            self.write(line, panel, self.item * v * self.width)
        self.fetch(self.builder.add(b, self.ahead))
        size = self.number(self.item * self.shape.columns)
        return lines, [self.builder.add(b, self.line), self.builder.add(panel, size)]
