// CUDA C on a host: what kernels call. Blocks have one thread, or fibers that change at barriers (blocks_on_host.cpp).
struct dim3 { unsigned int x, y, z; };
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
UNARY(fabs) UNARY(sqrt) UNARY(floor) UNARY(ceil) UNARY(trunc) UNARY(rint) UNARY(exp) UNARY(log) UNARY(tanh) UNARY(sin) UNARY(cos)
#undef UNARY
static inline float copysign(float x, float y) { return __builtin_copysignf(x, y); }
static inline double copysign(double x, double y) { return __builtin_copysign(x, y); }
static inline double fmod(double x, double y) { return __builtin_fmod(x, y); }
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

// The block that runs: its threads are so many `fibers`, of which `fiber` is running.
enum { MOST_THREADS = 1024 };
struct block {
    dim3 thread, index, threads, blocks;
    int fiber, fibers;
    double slots[MOST_THREADS];
};
extern "C" void wait_at_barrier(block* here, int which);
extern "C" int run_blocks(block* here, void (*body)(void**), void** words, const unsigned int* sizes, char* memory_of_thread);
static block here;
static dim3 &threadIdx = here.thread, &blockIdx = here.index, &blockDim = here.threads, &gridDim = here.blocks;

static inline void wait_at(int which) {  // 1: a barrier of a warp, 2: of the block
    if (here.fibers != 1) wait_at_barrier(&here, which);
}
static inline void __syncthreads() { wait_at(2); }
static inline void __syncwarp(unsigned int = ~0u) { wait_at(1); }
template <class T> static T from_lane(T value, int lane) {
    const int at = here.fiber, from = at / 32 * 32 + lane;
    __builtin_memcpy(&here.slots[at], &value, sizeof value);
    wait_at(1);
    if (lane >= 0 && lane < 32 && from < here.fibers) __builtin_memcpy(&value, &here.slots[from], sizeof value);
    wait_at(1);
    return value;
}
template <class T> static T __shfl_down_sync(unsigned int, T value, int step) { return from_lane(value, here.fiber % 32 + step); }
template <class T> static T __shfl_xor_sync(unsigned int, T value, int mask) { return from_lane(value, here.fiber % 32 ^ mask); }
template <class T> static T __shfl_sync(unsigned int, T value, int lane) { return from_lane(value, lane); }
