// Numbers of half precision as their 16 bits, without CUDA's header, which not every machine has.
#pragma once

__device__ inline unsigned short half_from_float(float value) {
#ifdef __CUDA_ARCH__
    unsigned short bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return bits;
#else
    return host_bits<unsigned short>(static_cast<_Float16>(value));
#endif
}

__device__ inline float float_from_half(unsigned short bits) {
#ifdef __CUDA_ARCH__
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return value;
#else
    return static_cast<float>(host_bits<_Float16>(bits));
#endif
}
