// See block.h. Fibers are POSIX contexts on one host thread; they start with swapcontext, and from then on
// change over with _setjmp and _longjmp, which make no system call for the signal mask.
#include "block.h"

#include <setjmp.h>
#include <ucontext.h>

#include <cstdlib>
#include <memory>
#include <vector>

namespace cuzk {
namespace host {

ThreadState state;

namespace {

constexpr size_t STACK = 128 * 1024;

struct Fiber {
    ucontext_t start;
    jmp_buf resume;
    std::unique_ptr<char[]> stack;
    bool started, finished;
};

ucontext_t scheduler_start;
jmp_buf scheduler;
Fiber* running;
void (*kernel_entry)(const void*);
const void* kernel_args;
std::vector<uint64_t> shared;

void run_fiber() {
    kernel_entry(kernel_args);
    running->finished = true;
    _longjmp(scheduler, 1);
}

// Runs a fiber up to its next barrier, or its end.
void resume(Fiber& fiber) {
    running = &fiber;
    if (_setjmp(scheduler) != 0) return;
    if (fiber.started) _longjmp(fiber.resume, 1);
    fiber.started = true;
    getcontext(&fiber.start);
    fiber.start.uc_stack.ss_sp = fiber.stack.get();
    fiber.start.uc_stack.ss_size = STACK;
    makecontext(&fiber.start, run_fiber, 0);
    swapcontext(&scheduler_start, &fiber.start);
}

// Runs every thread of one block to its end; false where some end while others wait at a barrier.
bool run_block(std::vector<Fiber>& fibers, bool descending) {
    size_t n = fibers.size();
    for (Fiber& f : fibers) f.started = f.finished = false;
    for (;;) {
        size_t finished = 0;
        for (size_t i = 0; i < n; i++) {
            size_t t = descending ? n - 1 - i : i;
            state.thread = dim3{static_cast<uint32_t>(t), 0, 0};
            resume(fibers[t]);
            finished += fibers[t].finished;
        }
        if (finished == n) return true;
        if (finished != 0) return false;
    }
}

}  // namespace

void barrier() {
    if (_setjmp(running->resume) == 0) _longjmp(scheduler, 1);
}

void* shared_memory() {
    return shared.data();
}

const char* launch(void (*kernel)(const void*), const void* args, uint32_t grid_x, uint32_t grid_y,
                   uint32_t threads, size_t shared_bytes, bool descending) {
    if (grid_x == 0 || grid_y == 0 || threads == 0) return "an empty launch";
    if (threads > 1024) return "more than 1024 threads a block";
    kernel_entry = kernel;
    kernel_args = args;
    std::vector<Fiber> fibers(threads);
    for (Fiber& f : fibers) f.stack.reset(new char[STACK]);
    state.block_size = dim3{threads, 1, 1};
    state.grid_size = dim3{grid_x, grid_y, 1};
    for (uint32_t y = 0; y < grid_y; y++) {
        for (uint32_t x = 0; x < grid_x; x++) {
            // Shared memory starts undefined: make that visible.
            shared.assign((shared_bytes + 7) / 8, 0xa5a5a5a5a5a5a5a5u);
            state.block = dim3{x, y, 0};
            if (!run_block(fibers, descending)) return "threads of a block met different barriers";
        }
    }
    return nullptr;
}

}  // namespace host
}  // namespace cuzk
