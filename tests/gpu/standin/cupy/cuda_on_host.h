// CUDA C on a host: the functions that kernels call, and blocks of one thread, or of fibers that change at barriers.
#include <ucontext.h>
struct dim3 { unsigned int x, y, z; };
static dim3 threadIdx, blockIdx, blockDim, gridDim;
#define __global__
#define __device__
#define __forceinline__ inline
#define __shared__ static
#define __launch_bounds__(n)
#define __grid_constant__

static inline float __int_as_float(int x) { float y; __builtin_memcpy(&y, &x, 4); return y; }
static inline int __float_as_int(float x) { int y; __builtin_memcpy(&y, &x, 4); return y; }
static inline double __longlong_as_double(long long x) { double y; __builtin_memcpy(&y, &x, 8); return y; }
static inline long long __double_as_longlong(double x) { long long y; __builtin_memcpy(&y, &x, 8); return y; }
static inline unsigned int __umulhi(unsigned int a, unsigned int b) { return (unsigned long long)a * b >> 32; }

#define UNARY(name) \
    static inline float name(float x) { return __builtin_##name##f(x); } \
    static inline double name(double x) { return __builtin_##name(x); }
UNARY(fabs) UNARY(sqrt) UNARY(floor) UNARY(ceil) UNARY(trunc) UNARY(rint) UNARY(exp) UNARY(log) UNARY(tanh)
#undef UNARY
static inline float copysign(float x, float y) { return __builtin_copysignf(x, y); }
static inline double copysign(double x, double y) { return __builtin_copysign(x, y); }
static inline float fma(float x, float y, float z) { return __builtin_fmaf(x, y, z); }
static inline double fma(double x, double y, double z) { return __builtin_fma(x, y, z); }
template <class T> static inline T min(T a, T b) { return a < b ? a : b; }
template <class T> static inline T max(T a, T b) { return a > b ? a : b; }
template <class T> static T atomicMax(T* at, T value) { const T old = *at; if (value > old) *at = value; return old; }
template <class T> static T atomicAdd(T* at, T value) { const T old = *at; *at += value; return old; }
static inline void __threadfence() {}
template <class T> static T atomicOr(T* at, T value) { const T old = *at; *at |= value; return old; }

// Float16 as the prelude of kernels has it, by the compiler's own type.
struct half_bits;
static inline float load(half_bits x);
static inline void store(half_bits* at, float x);

// Blocks. A fiber stands for a thread; `waits` is 0 where it runs, 1 at a barrier of its warp, 2 at one of its block.
enum { MOST_THREADS = 1024, STACK = 1 << 18 };
struct fiber { ucontext_t context; int waits; bool done; dim3 id; };
static fiber fibers[MOST_THREADS];
static char* stacks;
static ucontext_t scheduler;
static int current_fiber, fiber_count;
static double slots[MOST_THREADS];
static void (*body_of_block)(void**);
static void** words_of_block;

static void wait_at(int which) {
    if (fiber_count == 1) return;
    fibers[current_fiber].waits = which;
    swapcontext(&fibers[current_fiber].context, &scheduler);
}
static inline void __syncthreads() { wait_at(2); }
static inline void __syncwarp(unsigned int = ~0u) { wait_at(1); }
template <class T> static T from_lane(T value, int lane) {
    const int here = current_fiber, from = here / 32 * 32 + lane;
    __builtin_memcpy(&slots[here], &value, sizeof value);
    wait_at(1);
    if (lane >= 0 && lane < 32 && from < fiber_count) __builtin_memcpy(&value, &slots[from], sizeof value);
    wait_at(1);
    return value;
}
template <class T> static T __shfl_down_sync(unsigned int, T value, int step) { return from_lane(value, current_fiber % 32 + step); }
template <class T> static T __shfl_xor_sync(unsigned int, T value, int mask) { return from_lane(value, current_fiber % 32 ^ mask); }
template <class T> static T __shfl_sync(unsigned int, T value, int lane) { return from_lane(value, lane); }

static void start_fiber() {
    body_of_block(words_of_block);
    fibers[current_fiber].done = true;
    swapcontext(&fibers[current_fiber].context, &scheduler);
}

// Lets the fibers of a warp, or all, go on from the barrier that all of them have reached; false where some have not.
static bool pass_barrier() {
    bool passed = false;
    for (int first = 0; first < fiber_count; first += 32) {
        int waiting = 0, last = first + 32 < fiber_count ? first + 32 : fiber_count;
        for (int k = first; k < last; k++) waiting += !fibers[k].done && fibers[k].waits == 1;
        if (waiting != last - first) continue;
        for (int k = first; k < last; k++) fibers[k].waits = 0;
        passed = true;
    }
    if (passed) return true;
    for (int k = 0; k < fiber_count; k++)
        if (fibers[k].done || fibers[k].waits != 2) return false;
    for (int k = 0; k < fiber_count; k++) fibers[k].waits = 0;
    return true;
}

static bool run_fibers() {
    fiber_count = blockDim.x * blockDim.y * blockDim.z;
    for (int k = 0; k < fiber_count; k++) {
        fiber& f = fibers[k];
        getcontext(&f.context);
        f.context.uc_stack.ss_sp = stacks + (unsigned long)k * STACK;
        f.context.uc_stack.ss_size = STACK;
        f.context.uc_link = 0;
        f.waits = 0;
        f.done = false;
        f.id.x = k % blockDim.x;
        f.id.y = k / blockDim.x % blockDim.y;
        f.id.z = k / (blockDim.x * blockDim.y);
        makecontext(&f.context, start_fiber, 0);
    }
    for (;;) {
        bool ran = false, left = false;
        for (int k = 0; k < fiber_count; k++) {
            if (fibers[k].done) continue;
            left = true;
            if (fibers[k].waits) continue;
            ran = true;
            current_fiber = k;
            threadIdx = fibers[k].id;
            swapcontext(&scheduler, &fibers[k].context);
        }
        if (!left) return true;
        if (!ran && !pass_barrier()) return false;
    }
}

// own: memory for the stacks of all fibers, which kernels share.
static int run_blocks(void (*body)(void**), void** words, const unsigned int* sizes, char* own) {
    stacks = own;
    gridDim = {sizes[0], sizes[1], sizes[2]};
    blockDim = {sizes[3], sizes[4], sizes[5]};
    body_of_block = body;
    words_of_block = words;
    const bool one = sizes[3] * sizes[4] * sizes[5] == 1;
    fiber_count = 1;
    current_fiber = 0;
    threadIdx = {0, 0, 0};
    for (unsigned int z = 0; z < sizes[2]; z++)
        for (unsigned int y = 0; y < sizes[1]; y++)
            for (unsigned int x = 0; x < sizes[0]; x++) {
                blockIdx = {x, y, z};
                if (one) body(words);
                else if (!run_fibers()) return 1;
            }
    return 0;
}
