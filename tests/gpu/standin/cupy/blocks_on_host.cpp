// Runs the blocks of kernels, whose threads are fibers. Follows cuda_on_host.h, and is compiled once for all kernels.
// Fibers change by longjmp: swapcontext, which begins them, would ask the system twice for each change.
#undef _FORTIFY_SOURCE  // whose longjmp refuses to leave a stack for another
#include <setjmp.h>
#include <ucontext.h>

// `waits` is 0 where a fiber runs, 1 at a barrier of its warp, 2 at one of its block. One that is done waits for the next block.
struct fiber { jmp_buf at; bool begun, done; int waits; dim3 id; };
enum { STACK = 1 << 18 };
struct memory {
    char stacks[MOST_THREADS][STACK];
    fiber fibers[MOST_THREADS];
    jmp_buf scheduler;
    block* here;
    void (*body)(void**);
    void** words;
};
static thread_local memory* own;  // of the thread that called run_blocks

extern "C" unsigned long bytes_of_memory() { return sizeof(memory); }

static void pause(memory& all, fiber& f) {
    if (!_setjmp(f.at)) _longjmp(all.scheduler, 1);
}

// Lets others run until all that the barrier is for have come to it.
extern "C" void wait_at_barrier(block* here, int which) {
    fiber& f = own->fibers[here->fiber];
    f.waits = which;
    pause(*own, f);
}

static void run_fiber() {
    memory& all = *own;
    fiber& f = all.fibers[all.here->fiber];
    for (;;) {
        all.body(all.words);
        f.done = true;
        pause(all, f);
    }
}

static void go_on(memory& all, int number) {
    fiber& f = all.fibers[number];
    if (_setjmp(all.scheduler)) return;
    if (f.begun) _longjmp(f.at, 1);
    f.begun = true;
    ucontext_t start;
    getcontext(&start);
    start.uc_stack.ss_sp = all.stacks[number];
    start.uc_stack.ss_size = STACK;
    start.uc_link = 0;
    makecontext(&start, run_fiber, 0);
    setcontext(&start);
}

// Lets the fibers of a warp, or all, go on from the barrier that all of them have reached; false where some have not.
static bool pass_barrier(fiber* fibers, int count) {
    bool passed = false;
    for (int first = 0; first < count; first += 32) {
        int waiting = 0, last = first + 32 < count ? first + 32 : count;
        for (int k = first; k < last; k++) waiting += !fibers[k].done && fibers[k].waits == 1;
        if (waiting != last - first) continue;
        for (int k = first; k < last; k++) fibers[k].waits = 0;
        passed = true;
    }
    if (passed) return true;
    for (int k = 0; k < count; k++)
        if (fibers[k].done || fibers[k].waits != 2) return false;
    for (int k = 0; k < count; k++) fibers[k].waits = 0;
    return true;
}

static bool run_fibers(memory& all) {
    block& here = *all.here;
    fiber* fibers = all.fibers;
    const dim3 size = here.threads;
    for (int k = 0; k < here.fibers; k++) {
        fiber& f = fibers[k];
        f.waits = 0;
        f.done = false;
        f.id.x = k % size.x;
        f.id.y = k / size.x % size.y;
        f.id.z = k / (size.x * size.y);
    }
    for (;;) {
        bool ran = false, left = false;
        for (int k = 0; k < here.fibers; k++) {
            if (fibers[k].done) continue;
            left = true;
            if (fibers[k].waits) continue;
            ran = true;
            here.fiber = k;
            here.thread = fibers[k].id;
            go_on(all, k);
        }
        if (!left) return true;
        if (!ran && !pass_barrier(fibers, here.fibers)) break;
    }
    for (int k = 0; k < here.fibers; k++) fibers[k].begun = false;
    return false;
}

// 1 where a barrier is left that not all reach. memory: so many bytes as bytes_of_memory() says, the calling thread's, first 0.
extern "C" int run_blocks(block* here, void (*body)(void**), void** words, const unsigned int* sizes, char* memory_of_thread) {
    memory& all = *(own = (memory*)memory_of_thread);
    all.here = here;
    all.body = body;
    all.words = words;
    here->blocks = {sizes[0], sizes[1], sizes[2]};
    here->threads = {sizes[3], sizes[4], sizes[5]};
    here->fibers = sizes[3] * sizes[4] * sizes[5];
    here->fiber = 0;
    here->thread = {0, 0, 0};
    for (unsigned int z = 0; z < sizes[2]; z++)
        for (unsigned int y = 0; y < sizes[1]; y++)
            for (unsigned int x = 0; x < sizes[0]; x++) {
                here->index = {x, y, z};
                if (here->fibers == 1) body(words);
                else if (!run_fibers(all)) return 1;
            }
    return 0;
}
