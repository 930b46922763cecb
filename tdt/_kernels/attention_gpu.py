"""Attention on a GPU: one launch forward and one backward, in which no weights are stored.

A block has a tile of rows and goes over the tiles of the other side (Dao et al., "FlashAttention", 2022): forward it has queries,
whose largest scores and sums of exponentials it corrects from tile to tile; backward some blocks have queries and others keys,
and make the weights anew. Operands are read where they lie; float16 and bfloat16 are computed in float32, if not by cuDNN.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tdt import _backend
from tdt._kernels import _cuda
from tdt._kernels._cuda import LETTERS, STORED
from tdt._kernels.programs_gpu import MEMORY

WIDEST = 8  # columns of a result that a thread sums for each of its rows

SOURCE = r"""
// A block has 256 threads on a GPU; on a host as many as there are, which do the work of 256.
#ifdef __CUDACC__
enum { ITEMS = 1 };
#define EACH_THREAD if (const int thread = threadIdx.x, item = 0; true)
#else
enum { ITEMS = 256 };
#define EACH_THREAD for (int thread = threadIdx.x, item = 0; thread < 256; thread += blockDim.x, item++)
#endif
// A thread has EACH x EACH scores of a tile, at rows and columns of its own, and EACH x WIDE elements of the result.
enum { TILE = sizeof(real) == 4 ? 64 : 32, EACH = TILE / 16, DEPTH = 16, PANEL = 16 * WIDE };
#define EACH_SCORE \
    EACH_THREAD for (int i = 0, row = thread / 16 * EACH; i < EACH; i++, row++) \
        for (int j = 0, column = thread % 16 * EACH; j < EACH; j++, column++)

struct steps { long long n, h, l, e; };  // of (N, H, L, E) in memory
struct sizes { long long heads, queries, keys, depth, width, causal; };  // depth: of queries and keys; width: of values

struct matrix {  // of one head
    const stored* at; long long l, e, rows, columns;
    __device__ matrix(const stored* x, const steps& s, long long head, const sizes& z, long long rows, long long columns)
        : at(x + head / z.heads * s.n + head % z.heads * s.h), l(s.l), e(s.e), rows(rows), columns(columns) {}
    __device__ real operator()(long long r, long long c) const {
        return r < rows && c < columns ? load(at[r * l + c * e]) : (real)0;
    }
};
// Which scores count (`allowed`), what is added to them, and which weights are not dropped: of one head, or null.
struct masks {
    const bool* allowed; const real* added; const bool* kept;
    steps of_mask, of_kept;
    real factor;
    __device__ masks(const bool* allowed, const real* added, const steps& of_mask, const bool* kept, const steps& of_kept,
                     double factor, long long head, const sizes& z)
        : allowed(allowed), added(added), kept(kept), of_mask(of_mask), of_kept(of_kept), factor((real)factor) {
        const long long n = head / z.heads, h = head % z.heads;
        if (allowed) this->allowed += n * of_mask.n + h * of_mask.h;
        if (added) this->added += n * of_mask.n + h * of_mask.h;
        if (kept) this->kept += n * of_kept.n + h * of_kept.h;
    }
    __device__ bool has(const sizes& z, long long query, long long key) const {
        return query < z.queries && key < z.keys && (!z.causal || key <= query)
            && (!MASKED || !allowed || allowed[query * of_mask.l + key * of_mask.e]);
    }
    __device__ real score(real score, long long query, long long key) const {
        return MASKED && added ? score + added[query * of_mask.l + key * of_mask.e] : score;
    }
    __device__ real keep(long long query, long long key) const {
        return !MASKED || !kept ? (real)1 : kept[query * of_kept.l + key * of_kept.e] ? factor : (real)0;
    }
};

struct tile_memory { real left[DEPTH][TILE + 4], right[DEPTH][TILE + 4], weights[TILE][TILE + 1], values[DEPTH][PANEL]; };

// Rows of a from m0 times rows of b from n0.
__device__ __forceinline__ void dot_rows(tile_memory& s, const matrix& a, long long m0, const matrix& b, long long n0,
                                         real (*sums)[EACH][EACH]) {
    EACH_THREAD for (int i = 0; i < EACH; i++) for (int j = 0; j < EACH; j++) sums[item][i][j] = 0;
    for (long long k0 = 0; k0 < a.columns; k0 += DEPTH) {
        __syncthreads();
        EACH_THREAD for (int e = 0; e < EACH; e++) {
            const int row = thread / DEPTH + 16 * e, k = thread % DEPTH;
            s.left[k][row] = a(m0 + row, k0 + k);
            s.right[k][row] = b(n0 + row, k0 + k);
        }
        __syncthreads();
        EACH_THREAD for (int k = 0; k < DEPTH; k++) {
            const real* l = &s.left[k][thread / 16 * EACH];
            const real* r = &s.right[k][thread % 16 * EACH];
            for (int i = 0; i < EACH; i++)
                for (int j = 0; j < EACH; j++) sums[item][i][j] = fma(l[i], r[j], sums[item][i][j]);
        }
    }
}

// Adds the tile of weights times rows of b from n0, for the columns from c0.
__device__ __forceinline__ void add_product(tile_memory& s, const matrix& b, long long n0, long long c0,
                                            real (*totals)[EACH][WIDE]) {
    for (int k0 = 0; k0 < TILE; k0 += DEPTH) {
        __syncthreads();
        EACH_THREAD for (int j = 0; j < WIDE; j++)
            s.values[thread / 16][thread % 16 + 16 * j] = b(n0 + k0 + thread / 16, c0 + thread % 16 + 16 * j);
        __syncthreads();
        EACH_THREAD for (int k = 0; k < DEPTH; k++)
            for (int i = 0; i < EACH; i++) {
                const real weight = s.weights[thread / 16 * EACH + i][k0 + k];
                for (int j = 0; j < WIDE; j++)
                    totals[item][i][j] = fma(weight, s.values[k][thread % 16 + 16 * j], totals[item][i][j]);
            }
    }
}

__device__ __forceinline__ void put(stored* out, const steps& to, long long head, const sizes& z, long long m0,
                                    long long rows, long long c0, long long columns, const real* factors,
                                    real (*totals)[EACH][WIDE]) {
    stored* at = out + head / z.heads * to.n + head % z.heads * to.h;
    EACH_THREAD for (int i = 0; i < EACH; i++)
        for (int j = 0; j < WIDE; j++) {
            const int row = thread / 16 * EACH + i;
            const long long column = c0 + thread % 16 + 16 * j;
            if (m0 + row >= rows || column >= columns) continue;
            store(at + (m0 + row) * to.l + column * to.e, factors ? totals[item][i][j] * factors[row] : totals[item][i][j]);
        }
}

__device__ __forceinline__ real finite_top(real top) { return top == -INFINITE ? (real)0 : top; }

// norms: for each row the largest score, and 1 over the sum of the exponentials of the scores less it.
extern "C" __global__ void __launch_bounds__(256) attention(
    const stored* q, const stored* k, const stored* v, const bool* allowed, const real* added, const bool* kept, stored* out,
    real* norms, double scaled, double kept_factor, sizes z, steps of_q, steps of_k, steps of_v, steps of_mask, steps of_kept,
    steps to) {
    __shared__ tile_memory s;
    __shared__ real top[TILE], sum[TILE], factor[TILE];
    real sums[ITEMS][EACH][EACH], totals[ITEMS][EACH][WIDE];
    const real scale = (real)scaled;
    const long long panels = (z.width + PANEL - 1) / PANEL, tiles = (z.queries + TILE - 1) / TILE;
    const long long c0 = blockIdx.x % panels * PANEL, head = blockIdx.x / panels / tiles;
    const long long m0 = (tiles - 1 - blockIdx.x / panels % tiles) * TILE;  // those that see most begin first
    const matrix queries(q, of_q, head, z, z.queries, z.depth), keys(k, of_k, head, z, z.keys, z.depth);
    const matrix values(v, of_v, head, z, z.keys, z.width);
    const masks mask(allowed, added, of_mask, kept, of_kept, kept_factor, head, z);
    EACH_THREAD {
        if (thread < TILE) top[thread] = -INFINITE, sum[thread] = 0;
        for (int i = 0; i < EACH; i++) for (int j = 0; j < WIDE; j++) totals[item][i][j] = 0;
    }
    const long long end = z.causal ? min(m0 + TILE, z.keys) : z.keys;
    for (long long n0 = 0; n0 < end; n0 += TILE) {
        dot_rows(s, queries, m0, keys, n0, sums);
        EACH_SCORE {
            const long long query = m0 + row, key = n0 + column;
            const bool counts = mask.has(z, query, key);
            s.weights[row][column] = counts ? mask.score(sums[item][i][j] * scale, query, key) : -INFINITE;
        }
        __syncthreads();
        EACH_THREAD if (thread < TILE) {
            real largest = top[thread];
            for (int c = 0; c < TILE; c++) {
                const real score = s.weights[thread][c];
                if (score > largest || score != score) largest = score;
            }
            factor[thread] = exp(top[thread] - finite_top(largest));
            top[thread] = largest;
        }
        __syncthreads();
        EACH_SCORE s.weights[row][column] = exp(s.weights[row][column] - finite_top(top[row]));
        __syncthreads();
        EACH_THREAD {
            if (thread < TILE) {
                real more = 0;
                for (int c = 0; c < TILE; c++) more += s.weights[thread][c];
                sum[thread] = sum[thread] * factor[thread] + more;
            }
            for (int i = 0; i < EACH; i++)
                for (int j = 0; j < WIDE; j++) totals[item][i][j] *= factor[thread / 16 * EACH + i];
        }
        if (MASKED && kept) {
            __syncthreads();
            EACH_SCORE if (mask.has(z, m0 + row, n0 + column)) s.weights[row][column] *= mask.keep(m0 + row, n0 + column);
        }
        add_product(s, values, n0, c0, totals);
    }
    __syncthreads();
    EACH_THREAD if (thread < TILE) {
        factor[thread] = sum[thread] == 0 ? (real)0 : 1 / sum[thread];
        if (!c0 && m0 + thread < z.queries) {
            real* norm = norms + 2 * (head * z.queries + m0 + thread);
            norm[0] = finite_top(top[thread]), norm[1] = factor[thread];
        }
    }
    __syncthreads();
    put(out, to, head, z, m0, z.queries, c0, z.width, factor, totals);
}

enum { OF_QUERIES, OF_KEYS, OF_VALUES };
struct row_numbers { real top[TILE], inverse[TILE], slope[TILE]; };  // of a tile's queries

// One block's part of the gradient `WHICH`: the tile of its rows, which goes over the tiles of the other side.
template <int WHICH> __device__ __forceinline__ void gradient(
    tile_memory& s, row_numbers& row_of, const matrix& queries, const matrix& keys, const matrix& values,
    const matrix& grads, const matrix& results, const masks& mask, const real* norms, stored* out, const steps& to,
    const sizes& z, real scale, long long head, long long m0, long long c0) {
    real sums[ITEMS][EACH][EACH], slopes[ITEMS][EACH][EACH], totals[ITEMS][EACH][WIDE];
    EACH_THREAD for (int i = 0; i < EACH; i++) for (int j = 0; j < WIDE; j++) totals[item][i][j] = 0;
    const long long begin = z.causal && WHICH != OF_QUERIES ? m0 : 0;
    const long long end = WHICH != OF_QUERIES ? z.queries : z.causal ? min(m0 + TILE, z.keys) : z.keys;
    for (long long n0 = begin; n0 < end; n0 += TILE) {
        if (WHICH != OF_QUERIES || n0 == begin) {
            const long long l0 = WHICH == OF_QUERIES ? m0 : n0;
            __syncthreads();
            if (WHICH != OF_VALUES) EACH_THREAD for (int i = 0; i < EACH; i++) {
                const long long row = thread / 16 * EACH + i;
                real sum = 0;
                for (long long c = thread % 16; c < z.width; c += 16) sum += grads(l0 + row, c) * results(l0 + row, c);
                s.weights[row][thread % 16] = sum;
            }
            __syncthreads();
            EACH_THREAD if (thread < TILE) {
                const bool exists = l0 + thread < z.queries;
                const real* norm = norms + 2 * (head * z.queries + l0 + thread);
                row_of.top[thread] = exists ? norm[0] : (real)0;
                row_of.inverse[thread] = exists ? norm[1] : (real)0;
                // What the gradient of softmax subtracts: the sum of the query's gradient times its result.
                real sum = 0;
                if (WHICH != OF_VALUES) for (int c = 0; c < 16; c++) sum += s.weights[thread][c];
                row_of.slope[thread] = sum;
            }
        }
        if (WHICH == OF_QUERIES) {
            dot_rows(s, queries, m0, keys, n0, sums);
            dot_rows(s, grads, m0, values, n0, slopes);
        } else {
            dot_rows(s, keys, m0, queries, n0, sums);
            if (WHICH == OF_KEYS) dot_rows(s, values, m0, grads, n0, slopes);
        }
        __syncthreads();
        EACH_SCORE {
            const long long query = WHICH == OF_QUERIES ? m0 + row : n0 + column;
            const long long key = WHICH == OF_QUERIES ? n0 + column : m0 + row;
            const int at = WHICH == OF_QUERIES ? row : column;
            real value = 0;
            if (mask.has(z, query, key)) {
                value = exp(mask.score(sums[item][i][j] * scale, query, key) - row_of.top[at]) * row_of.inverse[at];
                const real keep = mask.keep(query, key);
                if (WHICH == OF_VALUES) value *= keep;
                else value *= (slopes[item][i][j] * keep - row_of.slope[at]) * scale;
            }
            s.weights[row][column] = value;
        }
        if (WHICH == OF_QUERIES) add_product(s, keys, n0, c0, totals);
        else if (WHICH == OF_KEYS) add_product(s, queries, n0, c0, totals);
        else add_product(s, grads, n0, c0, totals);
    }
    put(out, to, head, z, m0, WHICH == OF_QUERIES ? z.queries : z.keys, c0, WHICH == OF_VALUES ? z.width : z.depth,
        (const real*)0, totals);
}

// The gradients of queries, keys and values: some blocks for each. `first`: the block with which those of keys begin, `second`:
// with which those of values do.
extern "C" __global__ void __launch_bounds__(256) attention_vjp(
    const stored* g, const stored* q, const stored* k, const stored* v, const bool* allowed, const real* added, const bool* kept,
    const stored* out, const real* norms, stored* gq, stored* gk, stored* gv, double scaled, double kept_factor, long long first,
    long long second, sizes z, steps of_g, steps of_q, steps of_k, steps of_v, steps of_mask, steps of_kept, steps of_out,
    steps to_q, steps to_k, steps to_v) {
    __shared__ tile_memory s;
    __shared__ row_numbers row_of;
    const bool of_queries = blockIdx.x < first, of_values = blockIdx.x >= second;
    const long long block = of_queries ? blockIdx.x : of_values ? blockIdx.x - second : blockIdx.x - first;
    const long long panels = ((of_values ? z.width : z.depth) + PANEL - 1) / PANEL;
    const long long tiles = ((of_queries ? z.queries : z.keys) + TILE - 1) / TILE;
    const long long c0 = block % panels * PANEL, m0 = block / panels % tiles * TILE, head = block / panels / tiles;
    const matrix queries(q, of_q, head, z, z.queries, z.depth), keys(k, of_k, head, z, z.keys, z.depth);
    const matrix values(v, of_v, head, z, z.keys, z.width), grads(g, of_g, head, z, z.queries, z.width);
    const matrix results(out, of_out, head, z, z.queries, z.width);
    const masks mask(allowed, added, of_mask, kept, of_kept, kept_factor, head, z);
#define GRADIENT(which, to, lie) \
    gradient<which>(s, row_of, queries, keys, values, grads, results, mask, norms, to, lie, z, (real)scaled, head, m0, c0)
    if (of_queries) GRADIENT(OF_QUERIES, gq, to_q);
    else if (of_values) GRADIENT(OF_VALUES, gv, to_v);
    else GRADIENT(OF_KEYS, gk, to_k);
}
""".replace("INFINITE", "(real)__int_as_float(0x7F800000)")


@functools.cache
def _kernel(name: str, dtype: Any, width: int, masked: bool) -> tuple[Callable[..., None], int, int]:
    """(The kernel, rows of a tile, columns of a panel) for results with so many columns.

    masked: whether there is a mask, or dropped weights. Without, these take no registers.
    """
    letter = LETTERS[dtype]
    wide = min(1 << math.ceil(math.log2(-(-width // 16))), WIDEST)
    kinds = f"typedef {STORED[letter]} stored;\ntypedef {'double' if letter == 'd' else 'float'} real;\n"
    tile = 32 if letter == "d" else 64
    return _cuda.compiled(SOURCE, name, f"{kinds}enum {{ WIDE = {wide}, MASKED = {int(masked)} }};\n"), tile, 16 * wide


def in_heads(x: Any) -> Any:
    """(*, L, E) as (N, H, L, E)."""
    return x[(None,) * (4 - x.ndim)] if x.ndim <= 4 else x.reshape(-1, *x.shape[-3:])


def _steps(x: Any) -> Any:
    return _cuda.struct(tuple([s // x.itemsize for s in in_heads(x).strides]))


def like(x: Any) -> Any:
    """Memory for a result of the shape of x: in its order if that has the last dimension in a row, else contiguous."""
    ordered = x.strides[-1] == x.itemsize and 0 not in x.strides
    return MEMORY.empty_like(x) if ordered and x.ndim <= 4 else MEMORY.empty(x.shape, x.dtype)


def _sizes(q: Any, v: Any, causal: bool) -> Any:
    heads = q.shape[-3] if q.ndim > 2 else 1
    return _cuda.struct((heads, *q.shape[-2:-1], *v.shape[-2:-1], q.shape[-1], v.shape[-1], int(causal)))


def _blocks(x: Any, tile: int, panel: int) -> int:
    return math.prod(x.shape[:-2]) * -(-x.shape[-2] // tile) * -(-x.shape[-1] // panel)


def _masks(q: Any, k: Any, mask: Any, keep: Any) -> tuple[list[Any], list[Any]]:
    """([mask of bools, mask of numbers, weights that are kept], how the masks and the kept weights lie); any may be None."""
    xp, shape = _backend.gpu(), (*q.shape[:-1], k.shape[-2])
    if mask is not None and mask.dtype != np.bool_:
        mask = mask.astype(np.float64 if q.dtype == np.float64 else np.float32, copy=False)
    found = [None if x is None else whole(xp.broadcast_to(x, shape)) for x in (mask, keep)]
    is_bool = mask is not None and mask.dtype == np.bool_
    lie = [_cuda.struct((0, 0, 0, 0)) if x is None else _steps(x) for x in found]
    return [found[0] if is_bool else None, None if is_bool else found[0], found[1]], lie


def room(q: Any, v: Any) -> Any:
    """Memory for a result without dropped weights."""
    shape = *q.shape[:-1], v.shape[-1]
    return like(q) if q.ndim == 4 and q.shape == shape else MEMORY.empty(shape, q.dtype)


def attention(q: Any, k: Any, v: Any, mask: Any = None, keep: Any = None, *, causal: bool, scale: float,
              dropped: float = 0.0, out: Any = None) -> tuple[Any, Any]:  # fmt: skip
    """(softmax(scale q kᵀ + mask) v; the rows' largest scores and inverse sums, (*, L, 2)). Arguments: of the op.

    out: memory for the result.
    """
    masks, lie = _masks(q, k, mask, keep)
    q, k, v = (whole(x) for x in (q, k, v))
    if out is None:
        out = room(q, v) if keep is None else MEMORY.empty((*q.shape[:-1], v.shape[-1]), q.dtype)
    norms = MEMORY.empty((*q.shape[:-1], 2), np.float64 if q.dtype == np.float64 else np.float32)
    kernel, tile, panel = _kernel("attention", q.dtype, v.shape[-1], any(x is not None for x in masks))
    numbers = float(scale), 1 / (1 - dropped), _sizes(q, v, causal), *(_steps(x) for x in (q, k, v)), *lie, _steps(out)
    kernel((_blocks(out, tile, panel),), (256,), (q, k, v, *masks, out, norms, *numbers))
    return out, norms


def attention_vjp(g: Any, q: Any, k: Any, v: Any, mask: Any, keep: Any, out: Any, norms: Any, *, needs: tuple, causal: bool,
                  scale: float, dropped: float) -> tuple[Any, ...]:  # fmt: skip
    """The gradients of q, k and v that are needed."""
    masks, lie = _masks(q, k, mask, keep)
    g, q, k, v, out = (whole(x) for x in (g, q, k, v, out))
    kernel, tile, panel = _kernel(
        "attention_vjp", q.dtype, max(q.shape[-1], v.shape[-1]), any(x is not None for x in masks)
    )
    grads = [like(x) if need else None for x, need in zip((q, k, v), needs, strict=True)]
    first, second, third = (0 if x is None else _blocks(x, tile, panel) for x in grads)
    all_lie = (*(_steps(x) for x in (g, q, k, v)), *lie, *(_steps(q if x is None else x) for x in (out, *grads)))
    numbers = float(scale), 1 / (1 - dropped), first, first + second, _sizes(q, v, causal), *all_lie
    kernel((first + second + third,), (256,), (g, q, k, v, *masks, out, norms, *grads, *numbers))
    return tuple(grads)


def whole(x: Any) -> Any:
    """x, or a copy whose leading dimensions are one in memory, where there are more than two."""
    return x if x.ndim <= 4 else _backend.gpu().ascontiguousarray(x)
