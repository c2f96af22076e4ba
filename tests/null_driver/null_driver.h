// A CUDA driver without a GPU: a `libcuda.so.1` in host memory that counts its calls and fails on request.
//
// state.c     what is live, the log of calls, faults, and the control functions (`null_...`) that tests call
// contexts.c  the driver, its GPUs, contexts, and how callers look up functions
// memory.c    memory, and the copies and fills that are queued on it
// streams.c   streams, events, captures and graphs
// kernels.c   modules and kernels
//
// Work is done at once, in the calling thread, unless its stream is captured. Kernels run if their module is a library
// that `tests/fakes/host_build.py` made; those of a real cubin are counted and not run. One lock protects everything.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef int CUresult;
typedef int CUdevice;
typedef uint64_t CUdeviceptr;
typedef struct object *handle; // what callers get: a number that is never given twice

enum {
    SUCCESS = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, NOT_INITIALIZED = 3, INVALID_DEVICE = 101, INVALID_IMAGE = 200,
    INVALID_CONTEXT = 201, INVALID_HANDLE = 400, ILLEGAL_STATE = 401, NOT_FOUND = 500, NOT_READY = 600,
    ILLEGAL_ADDRESS = 700, CONTEXT_IS_DESTROYED = 709, CAPTURE_UNSUPPORTED = 900, CAPTURE_INVALIDATED = 901,
    CAPTURE_ISOLATION = 905, CAPTURED_EVENT = 907, CAPTURE_WRONG_THREAD = 908,
};

enum kind { CONTEXT, STREAM, EVENT, DEVICE_MEMORY, PINNED_MEMORY, MODULE, FUNCTION, GRAPH, GRAPH_EXEC, KINDS };
enum { MOST_GPUS = 8 };

struct span { // rows of memory
    uint64_t address;
    size_t pitch;
    enum { ON_GPU, PINNED, PAGEABLE } where;
};

struct work { // one piece of what a stream does
    enum { COPY, FILL, KERNEL } what;
    struct span target, source;
    size_t width, rows;
    unsigned char value;
    void *entry; // of a kernel that runs; NULL for one of a cubin
    unsigned grid[3], block[3], shared_bytes;
    void **arguments; // pointers to copies, ended by NULL; NULL for kernels that do not run
    struct work *next;
};

struct object { // what is live; the fields behind `bytes` belong to one kind each
    enum kind kind;
    uint64_t number;        // its handle; of memory, the address
    struct object *context; // whose it is; NULL for contexts
    size_t bytes;
    int device, retained;                      // contexts; a retained one is primary
    bool is_primary, is_recorded, is_stuck;    // contexts; events and streams
    struct object *capture, *captured_on;      // streams: the graph that notes; events: the stream that they are of
    unsigned long capturing_thread;            // streams
    bool is_spoiled;                           // streams: their capture gives no graph
    struct work *first, **end;                 // graphs
    void *image, *library;                     // modules
    struct object *module;                     // functions
    char name[96];                             // functions
    void *entry;                               // functions that run
    unsigned long long *parameter_bytes;       // functions that run
    size_t parameters;                         // functions that run
    struct object *next;
};

// --- state.c ---
enum rule { // what a call needs of its caller
    ANYWHERE = 0,
    IN_CONTEXT = 1,   // a context is current, and its GPU works
    NOT_CAPTURING = 2, // this thread captures nothing: CUDA calls such calls unsafe in a capture
};
CUresult enter(const char *call, int rules, uint64_t first, uint64_t second); // locks; counts, logs, fails on request
CUresult leave(CUresult result);                                              // unlocks; what the call returns
CUresult fault(const char *call);                                             // the code it was asked to fail with
struct object *add(enum kind kind, struct object *context, size_t bytes);
struct object *find(enum kind kind, const void *handle); // NULL for what is not there, or not any more
struct object *memory_at(uint64_t address, size_t bytes, enum kind kind);
struct object *first_of(enum kind kind);
void drop(struct object *object);
void drop_all_of(struct object *context);
handle handle_of(const struct object *object);
void spoil_captures_of_this_thread(void);
void break_gpu(int device, CUresult code);
CUresult broken(int device); // why nothing works there; SUCCESS while all is well
bool hangs(int device);
CUresult wait_while_stuck(struct object *object);
size_t gpu_memory(size_t *used, int device);
int gpu_count(void);
void gpu_capability(int *major, int *minor);

// --- contexts.c ---
struct object *current_context(void); // of this thread; NULL outside
void forget_contexts_of_this_thread(void);

// --- memory.c ---
CUresult run(const struct work *work);

// --- streams.c ---
struct object *stream_of(const void *handle); // NULL for none; CUDA's own streams are one here
CUresult submit(struct object *stream, const struct work *work); // does it, or notes it if the stream is captured
void free_arguments(void **arguments);
void free_works(struct work *first);

// A call of the driver: its name as callers look it up, its rules, and what the log shows of its arguments.
#define API __attribute__((visibility("default"))) CUresult
#define BEGIN(call, rules, first, second)                                                           \
    do {                                                                                            \
        CUresult refused = enter(call, rules, (uint64_t)(uintptr_t)(first), (uint64_t)(uintptr_t)(second)); \
        if (refused) return leave(refused);                                                         \
    } while (0)
#define END(result) return leave(result)
#define CHECK(condition, code)           \
    do {                                 \
        if (!(condition)) END(code);     \
    } while (0)
