/* What this x86-64 processor can do. Code that Clang compiles for `VECTORISED` and `__builtin_cpu_supports` asks these
 * symbols, which compilers bring along; those of the package `ziglang` are weak and empty, so every processor would be
 * taken for the oldest one. Their names, the layout and the number of the bit are those of LLVM's compiler-rt
 * (lib/builtins/cpu_model/x86.c). Resolvers call this while the library is loaded: it must not call others. */

#include "native/native.h"

#if defined(__x86_64__) && defined(__linux__) && defined(__clang__)
#include <cpuid.h>

#define HIDDEN __attribute__((visibility("hidden")))

enum { V3 = 97 };

HIDDEN struct {
    unsigned int vendor, type, subtype, features[1];
} __cpu_model;
HIDDEN unsigned int __cpu_features2[3];

static int has(unsigned int bits, unsigned int wanted) { return (bits & wanted) == wanted; }

/* Whether processor and system have what x86-64-v3 asks for: https://gitlab.com/x86-psABIs/x86-64-ABI. */
static int is_v3(void) {
    unsigned int a, b, c, d, low, high;
    if (!__get_cpuid(1, &a, &b, &c, &d) ||
        !has(c, bit_SSE3 | bit_SSSE3 | bit_FMA | bit_CMPXCHG16B | bit_SSE41 | bit_SSE42 | bit_MOVBE | bit_POPCNT |
                    bit_OSXSAVE | bit_AVX | bit_F16C))
        return 0;
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    if (!has(low, 6)) /* The system keeps the registers of SSE and of AVX. */
        return 0;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || !has(b, bit_BMI | bit_AVX2 | bit_BMI2))
        return 0;
    return __get_cpuid(0x80000001, &a, &b, &c, &d) && has(c, bit_LAHF_LM | bit_LZCNT);
}

HIDDEN int __cpu_indicator_init(void) {
    if (is_v3())
        __cpu_features2[(V3 - 32) / 32] |= 1u << (V3 % 32);
    return 0;
}
#endif
