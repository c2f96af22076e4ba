// The driver, its GPUs, contexts, and how callers look up functions.
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "null_driver.h"

enum { MOST_NESTED = 64 };
static __thread uint64_t nested[MOST_NESTED];
static __thread int depth;
static bool is_initialized;

struct object *current_context(void) {
    return depth ? find(CONTEXT, (void *)(uintptr_t)nested[depth - 1]) : NULL;
}

void forget_contexts_of_this_thread(void) { depth = 0; }

// --- the driver and its GPUs ---
API cuInit(unsigned flags) {
    BEGIN("cuInit", ANYWHERE, flags, 0);
    is_initialized = true;
    END(gpu_count() ? SUCCESS : 100);
}

API cuDriverGetVersion(int *version) {
    BEGIN("cuDriverGetVersion", ANYWHERE, 0, 0);
    *version = NULL_CUDA_VERSION;
    END(SUCCESS);
}

API cuDeviceGetCount(int *count) {
    BEGIN("cuDeviceGetCount", ANYWHERE, 0, 0);
    CHECK(is_initialized, NOT_INITIALIZED);
    *count = gpu_count();
    END(SUCCESS);
}

API cuDeviceGet(CUdevice *device, int index) {
    BEGIN("cuDeviceGet", ANYWHERE, index, 0);
    CHECK(is_initialized, NOT_INITIALIZED);
    CHECK(index >= 0 && index < gpu_count(), INVALID_DEVICE);
    *device = index;
    END(SUCCESS);
}

API cuDeviceGetName(char *name, int size, CUdevice device) {
    BEGIN("cuDeviceGetName", ANYWHERE, device, 0);
    CHECK(device >= 0 && device < gpu_count(), INVALID_DEVICE);
    snprintf(name, (size_t)size, "Null GPU %d", device);
    END(SUCCESS);
}

API cuDeviceTotalMem_v2(size_t *bytes, CUdevice device) {
    BEGIN("cuDeviceTotalMem", ANYWHERE, device, 0);
    CHECK(device >= 0 && device < gpu_count(), INVALID_DEVICE);
    size_t used;
    *bytes = gpu_memory(&used, device);
    END(SUCCESS);
}

API cuDeviceGetAttribute(int *value, int attribute, CUdevice device) {
    BEGIN("cuDeviceGetAttribute", ANYWHERE, attribute, device);
    CHECK(device >= 0 && device < gpu_count(), INVALID_DEVICE);
    int major, minor;
    gpu_capability(&major, &minor);
    *value = attribute == 75 ? major : attribute == 76 ? minor : attribute == 1 ? 1024 : attribute == 10 ? 32 : 1;
    END(SUCCESS);
}

// --- contexts ---
static struct object *primary(int device) {
    struct object *context = first_of(CONTEXT);
    while (context && !(context->is_primary && context->device == device)) context = context->next;
    return context;
}

API cuDevicePrimaryCtxRetain(handle *context, CUdevice device) {
    BEGIN("cuDevicePrimaryCtxRetain", ANYWHERE, device, 0);
    CHECK(is_initialized, NOT_INITIALIZED);
    CHECK(device >= 0 && device < gpu_count(), INVALID_DEVICE);
    CHECK(!broken(device), broken(device));
    struct object *found = primary(device);
    if (!found) {
        found = add(CONTEXT, NULL, 0);
        found->device = device;
        found->is_primary = true;
    }
    found->retained++;
    *context = handle_of(found);
    END(SUCCESS);
}

API cuDevicePrimaryCtxRelease_v2(CUdevice device) {
    BEGIN("cuDevicePrimaryCtxRelease", ANYWHERE, device, 0);
    struct object *context = primary(device);
    CHECK(context, INVALID_CONTEXT);
    if (!--context->retained) {
        drop_all_of(context);
        drop(context);
    }
    END(SUCCESS);
}

API cuDevicePrimaryCtxReset_v2(CUdevice device) { // what other libraries of a process do to all its users
    BEGIN("cuDevicePrimaryCtxReset", ANYWHERE, device, 0);
    struct object *context = primary(device);
    CHECK(context, SUCCESS);
    drop_all_of(context);
    drop(context);
    END(SUCCESS);
}

API cuDevicePrimaryCtxGetState(CUdevice device, unsigned *flags, int *is_active) {
    BEGIN("cuDevicePrimaryCtxGetState", ANYWHERE, device, 0);
    *flags = 0;
    *is_active = primary(device) != NULL;
    END(SUCCESS);
}

API cuCtxPushCurrent_v2(handle context) {
    BEGIN("cuCtxPushCurrent", ANYWHERE, context, 0);
    CHECK(find(CONTEXT, context), context ? CONTEXT_IS_DESTROYED : INVALID_CONTEXT);
    CHECK(depth < MOST_NESTED, OUT_OF_MEMORY);
    nested[depth++] = (uint64_t)(uintptr_t)context;
    END(SUCCESS);
}

API cuCtxPopCurrent_v2(handle *context) {
    BEGIN("cuCtxPopCurrent", ANYWHERE, 0, 0);
    CHECK(depth, INVALID_CONTEXT);
    struct object *popped = current_context();
    depth--;
    CHECK(popped, CONTEXT_IS_DESTROYED);
    if (context) *context = handle_of(popped);
    END(SUCCESS);
}

API cuCtxSetCurrent(handle context) {
    BEGIN("cuCtxSetCurrent", ANYWHERE, context, 0);
    CHECK(!context || find(CONTEXT, context), CONTEXT_IS_DESTROYED);
    if (depth) depth--;
    if (context) nested[depth++] = (uint64_t)(uintptr_t)context;
    END(SUCCESS);
}

API cuCtxGetCurrent(handle *context) {
    BEGIN("cuCtxGetCurrent", ANYWHERE, 0, 0);
    struct object *current = current_context();
    *context = current ? handle_of(current) : NULL;
    END(SUCCESS);
}

API cuCtxGetDevice(CUdevice *device) {
    BEGIN("cuCtxGetDevice", IN_CONTEXT, 0, 0);
    *device = current_context()->device;
    END(SUCCESS);
}

API cuCtxSynchronize(void) {
    BEGIN("cuCtxSynchronize", IN_CONTEXT | NOT_CAPTURING, 0, 0);
    struct object *context = current_context(), *stream = first_of(STREAM);
    CUresult result = SUCCESS;
    while (stream && !result) {
        bool is_stuck = stream->context == context && stream->is_stuck && hangs(context->device);
        if (is_stuck) result = wait_while_stuck(stream); // unlocks meanwhile
        stream = is_stuck ? first_of(STREAM) : stream->next;
    }
    END(result);
}

API cuCtxCreate_v2(handle *context, unsigned flags, CUdevice device) {
    BEGIN("cuCtxCreate", ANYWHERE, flags, device);
    CHECK(device >= 0 && device < gpu_count() && depth < MOST_NESTED, INVALID_DEVICE);
    struct object *made = add(CONTEXT, NULL, 0);
    made->device = device;
    nested[depth++] = made->number;
    *context = handle_of(made);
    END(SUCCESS);
}

API cuCtxCreate_v4(handle *context, void *parameters, unsigned flags, CUdevice device) {
    (void)parameters;
    return cuCtxCreate_v2(context, flags, device);
}

API cuCtxDestroy_v2(handle context) {
    BEGIN("cuCtxDestroy", ANYWHERE, context, 0);
    struct object *found = find(CONTEXT, context);
    CHECK(found && !found->is_primary, INVALID_CONTEXT);
    if (found == current_context()) depth--;
    drop_all_of(found);
    drop(found);
    END(SUCCESS);
}

// --- functions by name, and the names of errors; these calls are neither counted nor logged ---
API cuGetProcAddress_v2(const char *name, void **function, int version, uint64_t flags, int *status) {
    static const char *const suffixes[] = {"", "_v2", "WithFlags"};
    (void)flags;
    char exported[128];
    *function = NULL;
    if (!strcmp(name, "cuCtxCreate") && version >= 12050) *function = (void *)cuCtxCreate_v4;
    Dl_info self;
    void *library = dladdr((void *)cuInit, &self) ? dlopen(self.dli_fname, RTLD_LAZY | RTLD_NOLOAD) : NULL;
    for (size_t i = 0; library && !*function && i < sizeof suffixes / sizeof *suffixes; i++) {
        snprintf(exported, sizeof exported, "%s%s", name, suffixes[i]);
        *function = dlsym(library, exported);
    }
    if (library) dlclose(library);
    if (status) *status = *function ? 0 : 1;
    return *function ? SUCCESS : NOT_FOUND;
}

// NVIDIA's own libraries ask for tables that are not public. NVRTC looks for this function in every libcuda.so.1 that
// it can load, and calls it whether it is there or not.
API cuGetExportTable(const void **table, const void *uuid) {
    (void)uuid;
    return *table = NULL, NOT_FOUND;
}

API cuGetProcAddress(const char *name, void **function, int version, uint64_t flags) {
    return cuGetProcAddress_v2(name, function, version, flags, NULL);
}

API cuGetErrorName(CUresult code, const char **name) {
    static const struct { CUresult code; const char *name; } known[] = {
        {SUCCESS, "CUDA_SUCCESS"}, {INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE"}, {100, "CUDA_ERROR_NO_DEVICE"},
        {OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY"}, {NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED"},
        {INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE"}, {INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT"},
        {INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE"}, {NOT_FOUND, "CUDA_ERROR_NOT_FOUND"},
        {ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS"}, {719, "CUDA_ERROR_LAUNCH_FAILED"},
        {999, "CUDA_ERROR_UNKNOWN"},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i].code == code) return *name = known[i].name, SUCCESS;
    return *name = NULL, INVALID_VALUE;
}

API cuGetErrorString(CUresult code, const char **text) { return cuGetErrorName(code, text); }
