// See block.h. Fibers are POSIX contexts on one host thread; they start with swapcontext, and from then on
// change over with _setjmp and _longjmp, which make no system call for the signal mask.
#include "block.h"

#include <setjmp.h>
#include <ucontext.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

namespace cuzk {
namespace host {

ThreadState state;

namespace {

constexpr size_t STACK = 128 * 1024;
constexpr size_t WARP_THREADS = 32;
constexpr size_t GIFT_BYTES = 64;

enum class Waits { NOT, FOR_BLOCK, FOR_WARP, FINISHED };

struct Fiber {
    ucontext_t start;
    jmp_buf resume;
    std::unique_ptr<char[]> stack;
    bool started;
    Waits waits;
    // Exchanges so far: their parity picks the buffer, so that a fast thread's next gift does not
    // overwrite one that others still read.
    uint32_t exchanges;
};

struct Gifts {
    alignas(16) char of[2][WARP_THREADS][GIFT_BYTES];
};

ucontext_t scheduler_start;
jmp_buf scheduler;
size_t running;
std::vector<Fiber> fibers;
std::vector<Gifts> gifts;
void (*kernel_entry)(const void*);
const void* kernel_args;
std::vector<uint64_t> shared;

void run_fiber() {
    kernel_entry(kernel_args);
    fibers[running].waits = Waits::FINISHED;
    _longjmp(scheduler, 1);
}

// Runs a fiber up to where it next waits, or to its end.
void resume(size_t thread) {
    Fiber& fiber = fibers[thread];
    running = thread;
    if (_setjmp(scheduler) != 0) return;
    if (fiber.started) _longjmp(fiber.resume, 1);
    fiber.started = true;
    getcontext(&fiber.start);
    fiber.start.uc_stack.ss_sp = fiber.stack.get();
    fiber.start.uc_stack.ss_size = STACK;
    makecontext(&fiber.start, run_fiber, 0);
    swapcontext(&scheduler_start, &fiber.start);
}

void wait(Waits reason) {
    fibers[running].waits = reason;
    if (_setjmp(fibers[running].resume) == 0) _longjmp(scheduler, 1);
}

// Gives to the warp, waits for all, and returns the 32 gifts.
const char (*give(const void* mine, size_t bytes))[GIFT_BYTES] {
    size_t me = running;
    auto& buffer = gifts[me / WARP_THREADS].of[fibers[me].exchanges++ % 2];
    memcpy(buffer[me % WARP_THREADS], mine, bytes);
    wait(Waits::FOR_WARP);
    return buffer;
}

// Lets a group of fibers go on when all of them wait for the same.
void release(size_t begin, size_t end, Waits reason) {
    for (size_t i = begin; i < end; i++) {
        if (fibers[i].waits != reason) return;
    }
    for (size_t i = begin; i < end; i++) fibers[i].waits = Waits::NOT;
}

// Runs every thread of one block to its end.
const char* run_block(bool descending) {
    size_t n = fibers.size();
    for (Fiber& f : fibers) {
        f.started = false;
        f.waits = Waits::NOT;
        f.exchanges = 0;
    }
    for (;;) {
        size_t finished = 0, ran = 0;
        for (size_t i = 0; i < n; i++) {
            size_t t = descending ? n - 1 - i : i;
            finished += fibers[t].waits == Waits::FINISHED;
            if (fibers[t].waits != Waits::NOT) continue;
            state.thread = dim3{static_cast<uint32_t>(t), 0, 0};
            resume(t);
            ran++;
        }
        if (finished == n) return nullptr;
        if (ran == 0) return "threads of a block met different barriers, or those of a warp different exchanges";
        release(0, n, Waits::FOR_BLOCK);
        for (size_t w = 0; w < n; w += WARP_THREADS) release(w, std::min(w + WARP_THREADS, n), Waits::FOR_WARP);
    }
}

}  // namespace

void barrier() { wait(Waits::FOR_BLOCK); }

void* shared_memory() { return shared.data(); }

void exchange(const void* mine, void* theirs, size_t bytes, uint32_t from) {
    memcpy(theirs, give(mine, bytes)[from], bytes);
}

uint32_t matching(uint32_t value) {
    auto all = give(&value, sizeof value);
    uint32_t mask = 0;
    for (size_t i = 0; i < WARP_THREADS; i++) mask |= uint32_t(memcmp(all[i], &value, sizeof value) == 0) << i;
    return mask;
}

uint32_t ballot(bool value) {
    uint32_t v = value;
    auto all = give(&v, sizeof v);
    uint32_t mask = 0;
    for (size_t i = 0; i < WARP_THREADS; i++) mask |= uint32_t(all[i][0]) << i;
    return mask;
}

const char* launch(void (*kernel)(const void*), const void* args, uint32_t grid_x, uint32_t grid_y,
                   uint32_t threads, size_t shared_bytes, bool descending) {
    if (grid_x == 0 || grid_y == 0 || threads == 0) return "an empty launch";
    if (threads > 1024) return "more than 1024 threads a block";
    kernel_entry = kernel;
    kernel_args = args;
    if (fibers.size() != threads) {
        fibers = std::vector<Fiber>(threads);
        for (Fiber& f : fibers) f.stack.reset(new char[STACK]);
    }
    gifts.resize((threads + WARP_THREADS - 1) / WARP_THREADS);
    state.block_size = dim3{threads, 1, 1};
    state.grid_size = dim3{grid_x, grid_y, 1};
    for (uint32_t y = 0; y < grid_y; y++) {
        for (uint32_t x = 0; x < grid_x; x++) {
            // Shared memory starts undefined: make that visible.
            shared.assign((shared_bytes + 7) / 8, 0xa5a5a5a5a5a5a5a5u);
            state.block = dim3{x, y, 0};
            if (const char* wrong = run_block(descending)) return wrong;
        }
    }
    return nullptr;
}

}  // namespace host
}  // namespace cuzk
