// Memory, and the copies and fills that are queued on it.
#include <stdlib.h>
#include <string.h>

#include "null_driver.h"

// --- allocations ---
static CUresult allocate(enum kind kind, uint64_t *address, size_t bytes) {
    struct object *context = current_context();
    size_t used, all = gpu_memory(&used, context->device);
    if (!bytes) return INVALID_VALUE;
    if (kind == DEVICE_MEMORY && (used > all || bytes > all - used)) return OUT_OF_MEMORY;
    *address = add(kind, context, bytes)->number;
    return SUCCESS;
}

static CUresult release(enum kind kind, uint64_t address) {
    struct object *memory = find(kind, (void *)(uintptr_t)address);
    if (!memory) return INVALID_VALUE;
    drop(memory);
    return SUCCESS;
}

API cuMemAlloc_v2(CUdeviceptr *address, size_t bytes) {
    BEGIN("cuMemAlloc", IN_CONTEXT | NOT_CAPTURING, bytes, 0);
    END(allocate(DEVICE_MEMORY, address, bytes));
}

API cuMemFree_v2(CUdeviceptr address) {
    BEGIN("cuMemFree", IN_CONTEXT | NOT_CAPTURING, address, 0);
    END(release(DEVICE_MEMORY, address));
}

API cuMemHostAlloc(void **address, size_t bytes, unsigned flags) {
    BEGIN("cuMemHostAlloc", IN_CONTEXT | NOT_CAPTURING, bytes, flags);
    uint64_t found = 0;
    CUresult result = allocate(PINNED_MEMORY, &found, bytes);
    *address = (void *)(uintptr_t)found;
    END(result);
}

API cuMemFreeHost(void *address) {
    BEGIN("cuMemFreeHost", IN_CONTEXT | NOT_CAPTURING, address, 0);
    END(release(PINNED_MEMORY, (uint64_t)(uintptr_t)address));
}

API cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes) {
    BEGIN("cuMemGetInfo", IN_CONTEXT, 0, 0);
    size_t used;
    *total_bytes = gpu_memory(&used, current_context()->device);
    *free_bytes = *total_bytes - used;
    END(SUCCESS);
}

API cuPointerGetAttribute(void *value, int attribute, CUdeviceptr address) {
    BEGIN("cuPointerGetAttribute", ANYWHERE, attribute, address);
    struct object *memory = memory_at(address, 1, DEVICE_MEMORY);
    CHECK(memory && (attribute == 3 || attribute == 9), INVALID_VALUE); // its address, and the number of its GPU
    if (attribute == 3)
        *(CUdeviceptr *)value = address;
    else
        *(int *)value = memory->context->device;
    END(SUCCESS);
}

// --- work on memory ---
static bool is_there(const struct span *span, size_t width, size_t rows) {
    size_t bytes = (span->pitch ? span->pitch : width) * (rows - 1) + width;
    return span->where == PAGEABLE || memory_at(span->address, bytes, span->where == PINNED ? PINNED_MEMORY : DEVICE_MEMORY);
}

static unsigned char *row(const struct span *span, size_t y) {
    return (unsigned char *)(uintptr_t)span->address + y * span->pitch;
}

static CUresult run_kernel(const struct work *work) {
    struct { // as `host_build.py` has it
        unsigned grid[3], block[3];
        unsigned long long shared_bytes;
        int order;
    } launch = {.shared_bytes = work->shared_bytes};
    char error[1024];
    if (!work->entry) return SUCCESS; // of a cubin: counted, not run
    memcpy(launch.grid, work->grid, sizeof launch.grid);
    memcpy(launch.block, work->block, sizeof launch.block);
    int (*entry)(void **, void *, char *, unsigned long long) = work->entry;
    return entry(work->arguments, &launch, error, sizeof error) ? 719 : SUCCESS;
}

CUresult run(const struct work *work) { // memory that is not there any more is what a GPU finds out too late
    if (work->what == KERNEL) return run_kernel(work);
    if (!is_there(&work->target, work->width, work->rows)) return ILLEGAL_ADDRESS;
    if (work->what == COPY && !is_there(&work->source, work->width, work->rows)) return ILLEGAL_ADDRESS;
    for (size_t y = 0; y < work->rows; y++) {
        if (work->what == FILL)
            memset(row(&work->target, y), work->value, work->width);
        else
            memmove(row(&work->target, y), row(&work->source, y), work->width);
    }
    return SUCCESS;
}

static CUresult transfer(void *stream, struct span target, struct span source, size_t width, size_t rows) {
    struct work copy = {.what = COPY, .target = target, .source = source, .width = width, .rows = rows};
    if (!width || !rows) return SUCCESS;
    if (rows > 1 && (target.pitch < width || source.pitch < width)) return INVALID_VALUE;
    if (!is_there(&target, width, rows) || !is_there(&source, width, rows)) return INVALID_VALUE;
    struct object *found = stream_of(stream);
    return found ? submit(found, &copy) : INVALID_HANDLE;
}

static CUresult fill(void *stream, struct span target, unsigned char value, size_t width, size_t rows) {
    struct work work = {.what = FILL, .target = target, .width = width, .rows = rows, .value = value};
    if (!width || !rows) return SUCCESS;
    if (rows > 1 && target.pitch < width) return INVALID_VALUE;
    if (!is_there(&target, width, rows)) return INVALID_VALUE;
    struct object *found = stream_of(stream);
    return found ? submit(found, &work) : INVALID_HANDLE;
}

static struct span on_host(const void *address) {
    uint64_t at = (uint64_t)(uintptr_t)address;
    return (struct span){at, 0, memory_at(at, 1, PINNED_MEMORY) ? PINNED : PAGEABLE};
}

static struct span on_gpu(CUdeviceptr address) { return (struct span){address, 0, ON_GPU}; }

static struct span anywhere(CUdeviceptr address) { // with pinned memory only; CUDA would take any
    return (struct span){address, 0, memory_at(address, 1, PINNED_MEMORY) ? PINNED : ON_GPU};
}

struct copied { // one end of CUDA_MEMCPY2D
    size_t x, y;
    unsigned memory_type;
    const void *host;
    CUdeviceptr device;
    void *array;
    size_t pitch;
};

static bool span_of(const struct copied *end, struct span *span) {
    size_t offset = end->y * end->pitch + end->x;
    *span = end->memory_type == 1 ? on_host((const char *)end->host + offset) : on_gpu(end->device + offset);
    span->pitch = end->pitch;
    return end->memory_type == 1 || end->memory_type == 2;
}

struct copy2d { // CUDA_MEMCPY2D
    struct copied source, target;
    size_t width, rows;
};

API cuMemcpy2DAsync_v2(const struct copy2d *copy, void *stream) {
    BEGIN("cuMemcpy2DAsync", IN_CONTEXT, copy->width * copy->rows, stream);
    struct span source, target;
    CHECK(span_of(&copy->source, &source) && span_of(&copy->target, &target), INVALID_VALUE);
    END(transfer(stream, target, source, copy->width, copy->rows));
}

API cuMemcpyAsync(CUdeviceptr target, CUdeviceptr source, size_t bytes, void *stream) {
    BEGIN("cuMemcpyAsync", IN_CONTEXT, bytes, stream);
    END(transfer(stream, anywhere(target), anywhere(source), bytes, 1));
}

API cuMemcpyHtoDAsync_v2(CUdeviceptr target, const void *source, size_t bytes, void *stream) {
    BEGIN("cuMemcpyHtoDAsync", IN_CONTEXT, bytes, stream);
    END(transfer(stream, on_gpu(target), on_host(source), bytes, 1));
}

API cuMemcpyDtoHAsync_v2(void *target, CUdeviceptr source, size_t bytes, void *stream) {
    BEGIN("cuMemcpyDtoHAsync", IN_CONTEXT, bytes, stream);
    END(transfer(stream, on_host(target), on_gpu(source), bytes, 1));
}

API cuMemcpyDtoDAsync_v2(CUdeviceptr target, CUdeviceptr source, size_t bytes, void *stream) {
    BEGIN("cuMemcpyDtoDAsync", IN_CONTEXT, bytes, stream);
    END(transfer(stream, on_gpu(target), on_gpu(source), bytes, 1));
}

API cuMemsetD8Async(CUdeviceptr target, unsigned char value, size_t bytes, void *stream) {
    BEGIN("cuMemsetD8Async", IN_CONTEXT, bytes, stream);
    END(fill(stream, on_gpu(target), value, bytes, 1));
}

API cuMemsetD2D8Async(CUdeviceptr target, size_t pitch, unsigned char value, size_t width, size_t rows, void *stream) {
    BEGIN("cuMemsetD2D8Async", IN_CONTEXT, width * rows, stream);
    END(fill(stream, (struct span){target, pitch, ON_GPU}, value, width, rows));
}
