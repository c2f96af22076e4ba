// Makes the kernels of a source callable from outside, with the array of pointers to arguments that `cuLaunchKernel` takes.
#pragma once

#include "host_cuda.h"

namespace host_cuda {

template <typename... P, std::size_t... I>
inline void call(void (*kernel)(P...), void **arguments, std::index_sequence<I...>) {
    kernel(*static_cast<std::remove_cv_t<P> *>(arguments[I])...);
}
template <typename... P> inline void call(void (*kernel)(P...), void **arguments) {
    call(kernel, arguments, std::index_sequence_for<P...>{});
}

// The bytes of each parameter, ended by 0.
template <typename... P> const unsigned long long *parameter_bytes(void (*)(P...)) {
    static const unsigned long long bytes[] = {sizeof(P)..., 0};
    return bytes;
}

}  // namespace host_cuda

#define HOST_KERNEL(name)                                                                                        \
    extern "C" __attribute__((visibility("default"))) int host_launch_##name(                                    \
        void **arguments, const HostLaunch *launch, char *error, unsigned long long error_bytes) {               \
        const host_cuda::Work work{[](void **packed) { host_cuda::call(name, packed); }, arguments};             \
        return host_cuda::run_grid(work, *launch, error, error_bytes);                                           \
    }                                                                                                            \
    extern "C" __attribute__((visibility("default"))) const unsigned long long *host_parameter_bytes_##name() {  \
        return host_cuda::parameter_bytes(name);                                                                 \
    }
