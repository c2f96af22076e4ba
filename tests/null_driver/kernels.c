// Modules and kernels.
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "null_driver.h"

#define HOST_LIBRARY "null driver: " // how an image begins that is the path of a library for this machine

static size_t size_of_cubin(const unsigned char *image) { // an ELF file ends with the last of its tables and sections
    uint64_t sections, at, bytes, size = 0;
    uint16_t count;
    if (memcmp(image, "\177ELF\2", 5)) return 0;
    memcpy(&sections, image + 40, 8);
    memcpy(&count, image + 60, 2);
    for (unsigned i = 0; i < count; i++) {
        uint32_t type;
        memcpy(&type, image + sections + 64 * i + 4, 4);
        memcpy(&at, image + sections + 64 * i + 24, 8);
        memcpy(&bytes, image + sections + 64 * i + 32, 8);
        if (type != 8 && at + bytes > size) size = at + bytes;
    }
    return sections + 64 * (uint64_t)count > size ? sections + 64 * (uint64_t)count : size;
}

API cuModuleLoadData(handle *module, const void *image) {
    BEGIN("cuModuleLoadData", IN_CONTEXT | NOT_CAPTURING, image, 0);
    const char *path = image;
    bool is_library = !strncmp(path, HOST_LIBRARY, strlen(HOST_LIBRARY));
    void *library = is_library ? dlopen(path + strlen(HOST_LIBRARY), RTLD_NOW | RTLD_LOCAL) : NULL;
    size_t bytes = is_library ? 0 : size_of_cubin(image);
    CHECK(library || bytes, INVALID_IMAGE);
    struct object *made = add(MODULE, current_context(), bytes);
    made->library = library; // stays loaded
    if (bytes && (made->image = malloc(bytes))) memcpy(made->image, image, bytes);
    *module = handle_of(made);
    END(SUCCESS);
}

API cuModuleUnload(void *module) {
    BEGIN("cuModuleUnload", IN_CONTEXT | NOT_CAPTURING, module, 0);
    struct object *found = find(MODULE, module);
    CHECK(found, INVALID_HANDLE);
    for (struct object *function = first_of(FUNCTION), *next; function; function = next) {
        next = function->next;
        if (function->module == found) drop(function);
    }
    drop(found);
    END(SUCCESS);
}

API cuModuleGetFunction(handle *function, void *module, const char *name) {
    BEGIN("cuModuleGetFunction", IN_CONTEXT, module, 0);
    struct object *found = find(MODULE, module);
    CHECK(found, INVALID_HANDLE);
    char symbol[160] = "host_launch_";
    size_t length = strlen(name) + 1;
    CHECK(length < sizeof found->name, NOT_FOUND);
    strcpy(symbol + strlen(symbol), name);
    void *entry = found->library ? dlsym(found->library, symbol) : NULL;
    CHECK(entry || (found->image && memmem(found->image, found->bytes, name, length)), NOT_FOUND);
    struct object *made = add(FUNCTION, found->context, 0);
    made->module = found;
    made->entry = entry;
    strcpy(made->name, name);
    strcpy(strcpy(symbol, "host_parameter_bytes_") + strlen("host_parameter_bytes_"), name);
    unsigned long long *(*sizes)(void) = entry ? dlsym(found->library, symbol) : NULL;
    made->parameter_bytes = sizes ? sizes() : NULL;
    for (unsigned long long *size = made->parameter_bytes; size && *size; size++) made->parameters++;
    *function = handle_of(made);
    END(SUCCESS);
}

static void **copied_arguments(const struct object *kernel, void **arguments) {
    const unsigned long long *sizes = kernel->parameter_bytes;
    void **copies = calloc(kernel->parameters + 1, sizeof *copies);
    if (!copies) abort();
    for (size_t i = 0; i < kernel->parameters; i++) {
        if (!(copies[i] = malloc(sizes[i]))) abort();
        memcpy(copies[i], arguments[i], sizes[i]);
    }
    return copies;
}

// Arguments that lie in one buffer, each aligned to its size: CU_LAUNCH_PARAM_BUFFER_POINTER, as pycuda gives them.
static void **copied_from_buffer(const struct object *kernel, void **extra) {
    const unsigned long long *sizes = kernel->parameter_bytes;
    void **pointers = calloc(kernel->parameters + 1, sizeof *pointers);
    if (!pointers) abort();
    for (size_t i = 0, at = 0; i < kernel->parameters; at += sizes[i++]) {
        size_t aligned = sizes[i] < 8 ? sizes[i] : 8;
        at = (at + aligned - 1) / aligned * aligned;
        pointers[i] = (char *)extra[1] + at;
    }
    void **copies = copied_arguments(kernel, pointers);
    free(pointers);
    return copies;
}

API cuLaunchKernel(void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                   unsigned block_y, unsigned block_z, unsigned shared_bytes, void *stream, void **arguments,
                   void **extra) {
    BEGIN("cuLaunchKernel", IN_CONTEXT, function, stream);
    struct object *kernel = find(FUNCTION, function), *found = stream_of(stream);
    CHECK(kernel && found && kernel->context == found->context, INVALID_HANDLE);
    CHECK(!(extra && arguments) && grid_x && grid_y && grid_z && block_x && block_y && block_z, INVALID_VALUE);
    CHECK((uint64_t)block_x * block_y * block_z <= 1024, INVALID_VALUE);
    struct work launch = {.what = KERNEL, .entry = kernel->entry, .shared_bytes = shared_bytes};
    memcpy(launch.grid, (unsigned[]){grid_x, grid_y, grid_z}, sizeof launch.grid);
    memcpy(launch.block, (unsigned[]){block_x, block_y, block_z}, sizeof launch.block);
    if (kernel->entry) launch.arguments = extra ? copied_from_buffer(kernel, extra) : copied_arguments(kernel, arguments);
    CUresult result = submit(found, &launch);
    if (!found->capture || result) free_arguments(launch.arguments);
    END(result);
}
