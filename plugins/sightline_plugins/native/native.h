/* What all C sources share. Sources include it as "native/native.h"; see native/__init__.py for what they may do. */
#ifndef SIGHTLINE_NATIVE_H
#define SIGHTLINE_NATIVE_H

#include <stddef.h>
#include <stdint.h>

/* A function that Python calls. */
#define EXPORT __attribute__((visibility("default")))

/* An array of NumPy as `described` hands it over: the struct of its array interface protocol. */
typedef struct {
    int two, dimensions;
    char kind;
    int item_bytes, flags;
    intptr_t *shape, *strides;
    uint8_t *data;
    void *description;
} Array;

/* Where instructions of x86-64 may be used. Tests define PLAIN to run what other processors run. */
#if defined(__x86_64__) && !defined(PLAIN)
#define X86_64
#endif

/* A loop that is compiled for newer x86-64 processors as well; the system chooses when the library is loaded. */
#if defined(X86_64) && defined(__linux__)
#define VECTORISED __attribute__((target_clones("arch=x86-64-v3", "default")))
#else
#define VECTORISED
#endif

#endif
