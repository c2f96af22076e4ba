// Makes the kernels of a source callable from outside, with the array of pointers to arguments that `cuLaunchKernel` takes.
#pragma once

#include "host_cuda.h"

struct HostLaunch {
    unsigned grid[3], block[3];
    unsigned long long shared_bytes;
    int order;
};

extern "C" {
extern char __start_host_shared[] __attribute__((weak, visibility("hidden")));
extern char __stop_host_shared[] __attribute__((weak, visibility("hidden")));
}

namespace host_cuda {

static std::mutex launching;

constexpr int unset_byte = 0xA5;

template <typename... P, std::size_t... I>
void call(void (*kernel)(P...), void **arguments, std::index_sequence<I...>) {
    kernel(*static_cast<std::remove_cv_t<P> *>(arguments[I])...);
}

// The bytes of each parameter, ended by 0.
template <typename... P> const unsigned long long *parameter_bytes(void (*)(P...)) {
    static const unsigned long long bytes[] = {sizeof(P)..., 0};
    return bytes;
}

inline void forget_shared(const HostLaunch &launch) {
    if (__start_host_shared) std::memset(__start_host_shared, unset_byte, __stop_host_shared - __start_host_shared);
    std::memset(dynamic_shared, unset_byte, launch.shared_bytes);
}

// Runs all blocks, one after another. 0, or 1 with what went wrong in `error`.
template <typename... P>
int launch(void (*kernel)(P...), void **arguments, const HostLaunch &launch, char *error, std::size_t error_bytes) {
    const std::lock_guard<std::mutex> one_at_a_time(launching);
    const std::unique_ptr<unsigned char[]> dynamic(new unsigned char[launch.shared_bytes]);
    dynamic_shared = dynamic.get();
    gridDim = {launch.grid[0], launch.grid[1], launch.grid[2]};
    blockDim = {launch.block[0], launch.block[1], launch.block[2]};
    Block block({launch.block[0], launch.block[1], launch.block[2]}, launch.order);
    block.on_enter = [](const Index &index) { threadIdx = index; };
    const std::function<void()> thread = [&] { call(kernel, arguments, std::index_sequence_for<P...>{}); };
    const std::size_t blocks = std::size_t(gridDim.x) * gridDim.y * gridDim.z;
    for (std::size_t count = 0; count < blocks; ++count) {
        const std::size_t number = launch.order == 0 ? count : blocks - 1 - count;
        blockIdx = {unsigned(number % gridDim.x), unsigned(number / gridDim.x % gridDim.y),
                    unsigned(number / gridDim.x / gridDim.y)};
        forget_shared(launch);
        if (block.run(thread)) continue;
        std::snprintf(error, error_bytes, "block (%u, %u, %u): %s", blockIdx.x, blockIdx.y, blockIdx.z,
                      block.error.c_str());
        return 1;
    }
    return 0;
}

}  // namespace host_cuda

#define HOST_KERNEL(name)                                                                                        \
    extern "C" __attribute__((visibility("default"))) int host_launch_##name(                                    \
        void **arguments, const HostLaunch *launch, char *error, unsigned long long error_bytes) {               \
        return host_cuda::launch(name, arguments, *launch, error, error_bytes);                                  \
    }                                                                                                            \
    extern "C" __attribute__((visibility("default"))) const unsigned long long *host_parameter_bytes_##name() {  \
        return host_cuda::parameter_bytes(name);                                                                 \
    }
