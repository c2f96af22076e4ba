// Where threads wait for one another: barriers, votes and shuffles. Each knows its line, since threads that meet must meet
// in the same one.
#pragma once

#include <cstring>

#include "host_block.h"

#define __syncthreads() host_cuda::barrier(__LINE__, 0)
#define __syncthreads_count(condition) host_cuda::barrier(__LINE__, (condition) ? 1 : 0)
#define __syncthreads_or(condition) (host_cuda::barrier(__LINE__, (condition) ? 1 : 0) != 0)
#define __syncthreads_and(condition) (host_cuda::barrier(__LINE__, (condition) ? 0 : 1) == 0)
#define __syncwarp(...) host_cuda::sync_warp(__LINE__, ##__VA_ARGS__)
#define __ballot_sync(mask, condition) host_cuda::ballot(__LINE__, mask, condition)
#define __any_sync(mask, condition) (host_cuda::ballot(__LINE__, mask, condition) != 0)
#define __all_sync(mask, condition) (host_cuda::ballot(__LINE__, mask, !(condition)) == 0)
#define __shfl_sync(...) host_cuda::shuffle_from(__LINE__, __VA_ARGS__)
#define __shfl_up_sync(...) host_cuda::shuffle_up(__LINE__, __VA_ARGS__)
#define __shfl_down_sync(...) host_cuda::shuffle_down(__LINE__, __VA_ARGS__)
#define __shfl_xor_sync(...) host_cuda::shuffle_xor(__LINE__, __VA_ARGS__)
#define __trap() host_cuda::fail("__trap() in line %d", __LINE__)

namespace host_cuda {

inline void sync_warp(int line, unsigned mask = 0xffffffffu) {
    unsigned present;
    exchange(mask, 0, &present, line);
}

inline unsigned ballot(int line, unsigned mask, bool condition) {
    unsigned present, result = 0;
    const unsigned long long *values = exchange(mask, condition, &present, line);
    for (unsigned lane = 0; lane < warp_threads; ++lane) {
        if ((present >> lane & 1u) && values[lane]) result |= 1u << lane;
    }
    return result;
}

// The value of the lane `from`, or one's own when that lies outside of the group of `width` lanes.
template <typename T> inline T shuffle(int line, unsigned mask, T value, bool inside, unsigned from) {
    static_assert(sizeof(T) <= sizeof(unsigned long long), "lanes exchange up to eight bytes");
    unsigned long long bits = 0;
    std::memcpy(&bits, &value, sizeof value);
    unsigned present;
    const unsigned long long *values = exchange(mask, bits, &present, line);
    if (!inside) return value;
    if (!(present >> from & 1u)) {
        fail("a lane reads from lane %u, which brings no value, line %d", from, line);
    }
    std::memcpy(&value, &values[from], sizeof value);
    return value;
}

inline unsigned own_lane() { return thread_number() % warp_threads; }

template <typename T> inline T shuffle_from(int line, unsigned mask, T value, int from, int width = 32) {
    const unsigned base = own_lane() / width * width;
    return shuffle(line, mask, value, true, base + static_cast<unsigned>(from) % width);
}
template <typename T> inline T shuffle_up(int line, unsigned mask, T value, unsigned by, int width = 32) {
    const unsigned lane = own_lane();
    return shuffle(line, mask, value, lane % width >= by, lane - by);
}
template <typename T> inline T shuffle_down(int line, unsigned mask, T value, unsigned by, int width = 32) {
    const unsigned lane = own_lane();
    return shuffle(line, mask, value, lane % width + by < static_cast<unsigned>(width), lane + by);
}
template <typename T> inline T shuffle_xor(int line, unsigned mask, T value, int with, int width = 32) {
    const unsigned lane = own_lane(), from = lane ^ static_cast<unsigned>(with);
    return shuffle(line, mask, value, from / width <= lane / width, from);
}

}  // namespace host_cuda
