// CUDA C++ for a host compiler: as much of the language as our kernels use, so that a machine without a GPU can test
// what they compute. Included before the source; `host_launch.h` makes its kernels callable.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#include "host_block.h"

#define __global__
#define __device__
#define __host__
#define __constant__ static
#define __forceinline__ inline
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __grid_constant__
// Under the sanitizer each array keeps a forbidden zone around it; otherwise all lie together and are filled with a
// pattern before each block.
#if defined(__SANITIZE_ADDRESS__)
#define __shared__ static
#else
#define __shared__ static __attribute__((section("host_shared")))
#endif

using dim3 = host_cuda::Extent;
using uint3 = host_cuda::Index;

constexpr int warpSize = 32;

#define HOST_VECTOR(type, name, bytes)                                                                \
    struct alignas(2 * bytes) name##2 { type x, y; };                                                 \
    struct name##3 { type x, y, z; };                                                                 \
    struct alignas(4 * bytes) name##4 { type x, y, z, w; };                                           \
    inline name##2 make_##name##2(type x, type y) { return {x, y}; }                                  \
    inline name##3 make_##name##3(type x, type y, type z) { return {x, y, z}; }                       \
    inline name##4 make_##name##4(type x, type y, type z, type w) { return {x, y, z, w}; }
HOST_VECTOR(unsigned char, uchar, 1)
HOST_VECTOR(unsigned short, ushort, 2)
HOST_VECTOR(short, short, 2)
HOST_VECTOR(int, int, 4)
HOST_VECTOR(float, float, 4)
#undef HOST_VECTOR
struct alignas(8) uint2 { unsigned x, y; };
struct alignas(16) uint4 { unsigned x, y, z, w; };
inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }

template <typename A, typename B> inline std::common_type_t<A, B> min(A a, B b) {
    return std::min<std::common_type_t<A, B>>(a, b);
}
template <typename A, typename B> inline std::common_type_t<A, B> max(A a, B b) {
    return std::max<std::common_type_t<A, B>>(a, b);
}

template <typename To, typename From> inline To host_bits(From from) {
    static_assert(sizeof(To) == sizeof(From), "the bits of one type as another");
    To to;
    std::memcpy(&to, &from, sizeof to);
    return to;
}
inline int __float_as_int(float x) { return host_bits<int>(x); }
inline unsigned __float_as_uint(float x) { return host_bits<unsigned>(x); }
inline float __int_as_float(int x) { return host_bits<float>(x); }
inline float __uint_as_float(unsigned x) { return host_bits<float>(x); }
inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __clz(int x) { return x == 0 ? 32 : __builtin_clz(static_cast<unsigned>(x)); }
template <typename T> inline T __ldg(const T *address) { return *address; }

inline int __float2int_rn(float x) { return static_cast<int>(std::nearbyintf(x)); }
inline int __float2int_rd(float x) { return static_cast<int>(std::floor(x)); }
inline int __float2int_rz(float x) { return static_cast<int>(x); }
inline unsigned __float2uint_rn(float x) { return static_cast<unsigned>(std::nearbyintf(x)); }
inline float __int2float_rn(int x) { return static_cast<float>(x); }
inline float __saturatef(float x) { return x > 0 ? (x < 1 ? x : 1.0f) : 0.0f; }
inline float __expf(float x) { return std::exp(x); }
inline float __fdividef(float a, float b) { return a / b; }
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fmaf_rn(float a, float b, float c) { return std::fma(a, b, c); }
inline float rsqrtf(float x) { return 1.0f / std::sqrt(x); }

template <typename T> struct host_same { using type = T; };
template <typename T> using HostSame = typename host_same<T>::type;
template <typename T> inline T host_exchanged(T *address, T value) {
    const T old = *address;
    *address = value;
    return old;
}
#define HOST_ATOMIC(name, result)                                        \
    template <typename T> inline T name(T *address, HostSame<T> value) { \
        return host_exchanged<T>(address, static_cast<T>(result));       \
    }
HOST_ATOMIC(atomicAdd, *address + value)
HOST_ATOMIC(atomicSub, *address - value)
HOST_ATOMIC(atomicMax, std::max(*address, value))
HOST_ATOMIC(atomicMin, std::min(*address, value))
HOST_ATOMIC(atomicOr, *address | value)
HOST_ATOMIC(atomicAnd, *address & value)
HOST_ATOMIC(atomicExch, value)
#undef HOST_ATOMIC
template <typename T> inline T atomicCAS(T *address, HostSame<T> expected, HostSame<T> value) {
    return host_exchanged<T>(address, *address == expected ? value : *address);
}

#include "host_waiting.h"
