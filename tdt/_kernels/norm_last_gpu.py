"""Batch norm of channels-last images on a GPU, whose values lie in rows of all channels: a block has a part of 32 channels.

The kernels take what those of `norm_gpu` take, whose source comes before, and have the same bits.
"""

from __future__ import annotations

COLUMNS, FEWEST = 32, 16  # channels of a block, and channels that an array must have

SOURCE = (
    f"enum {{ COLUMNS = {COLUMNS}, LONGEST = 1024 }};\n"
    + r"""
// In channels-last memory neighbours are of other channels: a block goes over a part of 32 channels, the threads of a warp over
// these. A thread adds up what a warp does of one channel in other memory, in the same order: so the sums have the same bits.
#define EACH_LINE for (int k = threadIdx.x, column = k % COLUMNS, line = k / COLUMNS; k < LONGEST; \
                       k += blockDim.x, column = k % COLUMNS, line = k / COLUMNS)

// The sum of what `of` gives for each lane, as a warp adds it up by shuffles: lanes in the order of its tree, with a sum a level.
template <class T, class Of> __device__ __forceinline__ T over_lanes(const Of& of) {
    T sums[5], sum;
#pragma unroll 1
    for (int i = 0; i < 32; i++) {
        sum = of((i & 1) << 4 | (i & 2) << 2 | (i & 4) | (i & 8) >> 2 | i >> 4);
        bool complete = true;
#pragma unroll
        for (int level = 0; level < 5; level++) {
            if (complete && i >> level & 1) sum = sums[level] + sum;
            else if (complete) sums[level] = sum, complete = false;
        }
    }
    return sum;
}

template <class T> struct sums_of_columns {
    T lines[LONGEST / COLUMNS][COLUMNS + 1], totals[COLUMNS];
    // totals: of each of `count` columns the sum of what `of` gives for the column and each of 1,024 threads.
    template <class Of> __device__ __forceinline__ void add_up(long long count, const Of& of) {
        __syncthreads();
        EACH_LINE if (column < count)
            lines[line][column] = over_lanes<T>([&](int lane) { return of(column, line * 32 + lane); });
        __syncthreads();
        for (int column = threadIdx.x; column < count; column += blockDim.x) {
            T total = lines[0][column];
            for (int line = 1; line < LONGEST / COLUMNS; line++) total = total + lines[line][column];
            totals[column] = total;
        }
        __syncthreads();
    }
};

template <class T> struct two {
    T first, second;
    __device__ two operator+(const two& other) const { return {first + other.first, second + other.second}; }
};

// Where a block's part begins in dense channels-last memory: `count` channels from c0 on, in rows of all channels.
struct columns {
    long long c0, part, from, size, count;
    __device__ columns(const sizes& z, long long first, long long here)
        : c0((first + blockIdx.x % here) * COLUMNS), part(blockIdx.x / here), from(part * PART * z.channels + c0),
          size(min(z.count - part * PART, (long long)PART)), count(min((long long)COLUMNS, z.channels - c0)) {}
};
#define EACH_COLUMN for (int column = threadIdx.x; column < at.count; column += blockDim.x)
#define EACH_ROW for (long long k = thread, place = k * z.channels + column; k < at.size; \
                      k += LONGEST, place += LONGEST * z.channels)

extern "C" __global__ void __launch_bounds__(1024) batch_statistics_last(
    const stored* x, real* mean, real* rstd, real* var, real* running_mean, real* running_var, long long* batches, real* parts,
    unsigned int* tickets, sizes z, steps x_at, double eps, double momentum, long long first) {
    __shared__ sums_of_columns<real> sums;
    __shared__ sums_of_columns<double> joined;
    __shared__ real middle[COLUMNS];
    const long long here = gridDim.x / z.parts;
    const columns at(z, first, here);
    const stored* from = x + at.from;
    real* own = parts + at.c0 * z.parts * 2;
    sums.add_up(at.count, [&](int column, int thread) {
        long_sum<real> values;
        EACH_ROW values += load(from[place]);
        return values.value();
    });
    EACH_COLUMN middle[column] = sums.totals[column] / (real)at.size;
    sums.add_up(at.count, [&](int column, int thread) {
        long_sum<real> around;
        EACH_ROW { const real value = load(from[place]) - middle[column]; around += value * value; }
        return around.value();
    });
    EACH_COLUMN {
        real* of_part = own + 2 * (column * z.parts + at.part);
        of_part[0] = middle[column], of_part[1] = sums.totals[column];
    }
    if (!is_last_of(tickets + blockIdx.x % here, (unsigned int)z.parts)) return;
    const auto found_of = [&](int column) -> found_in_parts {
        return {own + 2 * column * z.parts, z.count, z.parts, LONGEST};
    };
    __shared__ double total[COLUMNS];
    joined.add_up(at.count, [&](int column, int thread) { return found_of(column).sum(thread); });
    EACH_COLUMN total[column] = joined.totals[column] / (double)z.count;
    joined.add_up(at.count, [&](int column, int thread) { return found_of(column).deviations(thread, total[column]); });
    const statistics found = {mean, rstd, var, running_mean, running_var, batches};
    EACH_COLUMN found.put_joined(at.c0 + column, total[column], joined.totals[column], z.count, eps, momentum);
}

extern "C" __global__ void __launch_bounds__(1024) batch_normalised_last(
    const stored* x, const real* w, const real* b, stored* out, const real* mean, const real* rstd, sizes z, steps x_at) {
    const columns at(z, 0, gridDim.x / z.parts);
    EACH_LINE if (column < at.count) {
        const long long c = at.c0 + column;
        const real sum = mean[c], scale = w ? rstd[c] * w[c] : rstd[c], shift = b ? b[c] : (real)0;
        for (long long row = line; row < at.size; row += LONGEST / COLUMNS) {
            const long long place = at.from + row * z.channels + column;
            store(out + place, (load(x[place]) - sum) * scale + shift);
        }
    }
}

extern "C" __global__ void __launch_bounds__(1024) batch_norm_sums_last(
    const stored* g, const stored* x, const real* mean, const real* rstd, real* gw, real* gb, real* parts, unsigned int* tickets,
    sizes z, steps x_at, steps g_at, long long first) {
    __shared__ sums_of_columns<two<real>> sums;
    const long long here = gridDim.x / z.parts;
    const columns at(z, first, here);
    const stored *from = x + at.from, *grads = g + at.from;
    real* own = parts + at.c0 * z.parts * 2;
    sums.add_up(at.count, [&](int column, int thread) {
        long_sum<real> slopes, products;
        const real middle = mean[at.c0 + column];
        EACH_ROW {
            const real slope = load(grads[place]);
            slopes += slope;
            products += slope * (load(from[place]) - middle);
        }
        return two<real>{slopes.value(), products.value()};
    });
    EACH_COLUMN {
        real* of_part = own + 2 * (column * z.parts + at.part);
        of_part[0] = sums.totals[column].first, of_part[1] = sums.totals[column].second;
    }
    if (!is_last_of(tickets + blockIdx.x % here, (unsigned int)z.parts)) return;
    __shared__ sums_of_columns<two<double>> joined;
    joined.add_up(at.count, [&](int column, int thread) {
        const found_in_parts all = {own + 2 * column * z.parts, z.count, z.parts, LONGEST};
        return two<double>{all.sums(thread, 0), all.sums(thread, 1)};
    });
    EACH_COLUMN {
        const long long c = at.c0 + column;
        gw[c] = (real)joined.totals[column].second * rstd[c], gb[c] = (real)joined.totals[column].first;
    }
}

extern "C" __global__ void __launch_bounds__(1024) batch_norm_slopes_last(
    const stored* g, const stored* x, const real* w, const real* mean, const real* rstd, const real* g_mean, const real* g_rstd,
    stored* gx, const real* gw, const real* gb, sizes z, steps x_at, steps g_at) {
    const columns at(z, 0, gridDim.x / z.parts);
    EACH_LINE if (column < at.count) {
        const long long c = at.c0 + column;
        const slope_of slope(c, w, mean, rstd, gw[c], gb[c], g_mean, g_rstd, z.count);
        for (long long row = line; row < at.size; row += LONGEST / COLUMNS) {
            const long long place = at.from + row * z.channels + column;
            store(gx + place, slope(load(g[place]), load(x[place])));
        }
    }
}
"""
)
