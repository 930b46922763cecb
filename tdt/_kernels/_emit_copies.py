"""Copies of elements with gaps to and from the buffers of an elementwise kernel, and single elements and vectors in memory."""

from __future__ import annotations

from collections.abc import Iterator

from tdt._kernels._emit import Emitter

TOGETHER = 8  # elements that are copied to or from a buffer at a time


class Copies(Emitter):
    """What the functions of an elementwise kernel (`_emit_loops`) read and write memory with."""

    def _moved(self, addresses: list[str], offsets: list[str]) -> list[str]:
        return [self.new(f"getelementptr i8, ptr {a}, i64 {k}") for a, k in zip(addresses, offsets, strict=True)]

    def _first(self, count: str) -> str:
        """The mask of a vector's first elements."""
        count = self.new(f"trunc i64 {count} to i32")
        count = self.new(f"insertelement {self.words} poison, i32 {count}, i64 0")
        count = self.new(f"shufflevector {self.words} {count}, {self.words} poison, {self.words} zeroinitializer")
        places = f"<{', '.join(f'i32 {k}' for k in range(self.width))}>"
        return self.new(f"icmp slt {self.words} {places}, {count}")

    def _spread(self, size: int, address: str) -> str:
        """A vector of one element, as integers of so many bytes."""
        kind = f"i{8 * size}"
        many = f"<{self.width} x {kind}>"
        first = self.new(f"load {kind}, ptr {address}, align {size}")
        first = self.new(f"insertelement {many} poison, {kind} {first}, i64 0")
        return self.new(f"shufflevector {many} {first}, {many} poison, <{self.width} x i32> zeroinitializer")

    def _store(self, size: int, value: str, address: str) -> None:
        self.lines.append(f"  store <{self.width} x i{8 * size}> {value}, ptr {address}, align {size}")

    def _element(self, kind: str, array: str, k: int) -> str:
        """The element `k` of an array of words."""
        slot = self.new(f"getelementptr i64, ptr {array}, i64 {k}")
        return self.new(f"load {kind}, ptr {slot}, align 8")

    def _fill(self, label: str, source: str, step: str, buffer: str, size: int, n: str, then: str) -> Iterator[str]:
        """Copy `n` elements into a buffer and repeat the last one up to a whole vector: what is computed of it is not kept,
        but may not be a number that would raise a floating-point exception of its own."""
        return self._copy(label, source, step, buffer, str(size), size, n, then, padded=True)

    def _copy(
        self, label: str, source: str, step: str, target: str, target_step: str, size: int, n: str, then: str,
        padded: bool = False,
    ) -> Iterator[str]:  # fmt: skip
        kind, name = f"i{8 * size}", f"{label}_copy"
        self.count += 1
        k = self.count
        lines = []
        count = n
        if padded and n == "%m":
            lines += [
                f"  %p{k} = add i64 {n}, {self.width - 1}",
                f"  %padded{k} = and i64 %p{k}, {-self.width}",
                f"  %last{k} = sub i64 {n}, 1",
            ]
            count = f"%padded{k}"
        lines += [
            f"  br label %{name}_enter",
            f"{name}_enter:",
            *self._copy_many(k, name, source, step, target, target_step, size, n),
            f"{name}_rest:",
            f"  %some{k} = icmp slt i64 %whole{k}, {count}",
            f"  br i1 %some{k}, label %{name}, label %{then}",
            f"{name}:",
            f"  %j{k} = phi i64 [ %whole{k}, %{name}_rest ], [ %j_next{k}, %{name} ]",
        ]
        index = f"%j{k}"
        if count != n:
            lines += [
                f"  %in{k}_range = icmp slt i64 %j{k}, {n}",
                f"  %from{k} = select i1 %in{k}_range, i64 %j{k}, i64 %last{k}",
            ]
            index = f"%from{k}"
        lines += [
            f"  %so{k} = mul i64 {index}, {step}",
            f"  %s{k} = getelementptr i8, ptr {source}, i64 %so{k}",
            f"  %e{k} = load {kind}, ptr %s{k}, align {size}",
            f"  %to{k} = mul i64 %j{k}, {target_step}",
            f"  %t{k} = getelementptr i8, ptr {target}, i64 %to{k}",
            f"  store {kind} %e{k}, ptr %t{k}, align {size}",
            f"  %j_next{k} = add i64 %j{k}, 1",
            f"  %j_more{k} = icmp slt i64 %j_next{k}, {count}",
            f"  br i1 %j_more{k}, label %{name}, label %{then}",
        ]
        return iter(lines)

    def _copy_many(
        self, k: int, name: str, source: str, step: str, target: str, target_step: str, size: int, n: str
    ) -> Iterator[str]:
        """The part of `_copy` for `TOGETHER` elements at a time: vectors where they lie side by side."""
        kind, many = f"i{8 * size}", f"<{TOGETHER} x i{8 * size}>"
        yield f"  %whole{k} = and i64 {n}, {-TOGETHER}"
        yield f"  %there{k} = icmp eq i64 {step}, {size}"
        yield f"  %here{k} = icmp eq i64 {target_step}, {size}"
        yield f"  %dense{k} = and i1 %there{k}, %here{k}"
        for u in range(TOGETHER):
            yield f"  %so{k}_{u} = mul i64 {step}, {u}"
            yield f"  %to{k}_{u} = mul i64 {target_step}, {u}"
        yield f"  %several{k} = icmp sgt i64 %whole{k}, 0"
        yield f"  br i1 %several{k}, label %{name}_choose, label %{name}_rest"
        yield f"{name}_choose:"
        yield f"  br i1 %dense{k}, label %{name}_vectors, label %{name}_apart"
        for way in ("vectors", "apart"):
            yield f"{name}_{way}:"
            j = f"%{way}{k}"
            yield f"  {j} = phi i64 [ 0, %{name}_choose ], [ {j}_next, %{name}_{way} ]"
            yield f"  {j}_so = mul i64 {j}, {step}"
            yield f"  {j}_to = mul i64 {j}, {target_step}"
            yield f"  {j}_s = getelementptr i8, ptr {source}, i64 {j}_so"
            yield f"  {j}_t = getelementptr i8, ptr {target}, i64 {j}_to"
            if way == "vectors":
                yield f"  {j}_e = load {many}, ptr {j}_s, align {size}"
                yield f"  store {many} {j}_e, ptr {j}_t, align {size}"
            else:
                for u in range(TOGETHER):
                    yield f"  {j}_s{u} = getelementptr i8, ptr {j}_s, i64 %so{k}_{u}"
                    yield f"  {j}_e{u} = load {kind}, ptr {j}_s{u}, align {size}"
                for u in range(TOGETHER):
                    yield f"  {j}_t{u} = getelementptr i8, ptr {j}_t, i64 %to{k}_{u}"
                    yield f"  store {kind} {j}_e{u}, ptr {j}_t{u}, align {size}"
            yield f"  {j}_next = add i64 {j}, {TOGETHER}"
            yield f"  {j}_more = icmp slt i64 {j}_next, %whole{k}"
            yield f"  br i1 {j}_more, label %{name}_{way}, label %{name}_rest"
