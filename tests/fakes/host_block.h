// What the threads of a block ask of whoever runs them (`host_fibres.cpp`).
#pragma once

#include <cstddef>

struct HostLaunch {
    unsigned grid[3], block[3];
    unsigned long long shared_bytes;
    int order;
};

namespace host_cuda {

constexpr unsigned warp_threads = 32;

struct Index {
    unsigned x, y, z;
};
struct Extent {
    unsigned x = 1, y = 1, z = 1;
};

// One thread's work: a kernel and its arguments.
struct Work {
    void (*call)(void **arguments);
    void **arguments;
};

// Runs all blocks, one after another. 0, or 1 with what went wrong in `error`.
int run_grid(const Work &work, const HostLaunch &launch, char *error, std::size_t error_bytes);

// Ends the launch with that message.
[[noreturn]] __attribute__((format(printf, 1, 2))) void fail(const char *format, ...);

// Waits for all threads of the block that have not ended; how much they counted together.
int barrier(int line, int counted);

// Brings a value and waits for those of all lanes in the mask that have not ended; the values by lane, and in `present`
// which lanes brought one.
const unsigned long long *exchange(unsigned mask, unsigned long long value, unsigned *present, int line);

// The running thread's number in its block.
unsigned thread_number();

// The launch's dynamic shared memory.
void *shared_memory();

}  // namespace host_cuda

extern host_cuda::Index threadIdx, blockIdx;
extern host_cuda::Extent blockDim, gridDim;
