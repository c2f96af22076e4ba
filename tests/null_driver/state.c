// What is live, the log of calls, faults, and the control functions.
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "null_driver.h"

#define CONTROL __attribute__((visibility("default")))
#define POISON 0xDE

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

static struct gpu {
    CUresult broken;
    bool hangs;
} gpus[MOST_GPUS];
static int gpus_shown = 1, major_shown = 9, minor_shown = 0;
static size_t memory_shown = (size_t)8 << 30;
static struct object *live[KINDS];
static long live_count[KINDS], orphans[KINDS];
static uint64_t next_number = 0x10000;

enum { MOST_NAMES = 128, MOST_FAULTS = 16 };
static const char *names[MOST_NAMES];
static long counts[MOST_NAMES];
static int name_count;
static struct entry {
    int name;
    CUresult result;
    uint64_t first, second;
} *entries;
static long entry_count, entry_room;
static __thread long my_entry;
static struct fault {
    char call[48]; // empty: any call
    long in, times;
    CUresult code;
} faults[MOST_FAULTS];

// --- the log, and faults ---
static int name_index(const char *call) {
    for (int i = 0; i < name_count; i++)
        if (!strcmp(names[i], call)) return i;
    if (name_count == MOST_NAMES) abort();
    names[name_count] = call;
    return name_count++;
}

static void note(const char *call, uint64_t first, uint64_t second) {
    if (entry_count == entry_room) {
        entry_room = entry_room ? 2 * entry_room : 1024;
        entries = realloc(entries, (size_t)entry_room * sizeof *entries);
        if (!entries) abort();
    }
    my_entry = entry_count++;
    entries[my_entry] = (struct entry){name_index(call), SUCCESS, first, second};
    counts[entries[my_entry].name]++;
}

CUresult fault(const char *call) {
    CUresult code = SUCCESS;
    for (struct fault *one = faults; one < faults + MOST_FAULTS; one++) {
        if (!one->times || strcmp(one->call[0] || !strcmp(call, "work") ? one->call : call, call)) continue;
        if (one->in > 1) {
            one->in--;
        } else if (!code) {
            code = one->code;
            if (one->times > 0) one->times--;
        }
    }
    return code;
}

static bool leaves_nothing_usable(CUresult code) { // errors of kernels and hardware; every later call gives them, too
    return code == 46 || code == 214 || code == 700 || code == 702 || code == 710 || (code >= 714 && code <= 720);
}

CUresult enter(const char *call, int rules, uint64_t first, uint64_t second) {
    pthread_mutex_lock(&lock);
    note(call, first, second);
    struct object *context = current_context();
    CUresult code = fault(call);
    if (code) {
        if (context && leaves_nothing_usable(code)) break_gpu(context->device, code);
        return code;
    }
    if (rules & IN_CONTEXT) {
        if (!context) return INVALID_CONTEXT;
        if (gpus[context->device].broken) return gpus[context->device].broken;
    }
    if (rules & NOT_CAPTURING) {
        for (struct object *stream = live[STREAM]; stream; stream = stream->next)
            if (stream->capture && stream->capturing_thread == pthread_self()) {
                spoil_captures_of_this_thread();
                return CAPTURE_UNSUPPORTED;
            }
    }
    return SUCCESS;
}

CUresult leave(CUresult result) {
    if (my_entry < entry_count) entries[my_entry].result = result;
    pthread_mutex_unlock(&lock);
    return result;
}

// --- what is live ---
struct object *add(enum kind kind, struct object *context, size_t bytes) {
    struct object *object = calloc(1, sizeof *object);
    if (!object) abort();
    *object = (struct object){.kind = kind, .context = context, .bytes = bytes, .next = live[kind]};
    object->number = next_number += 16;
    if (kind == DEVICE_MEMORY || kind == PINNED_MEMORY) {
        void *memory = NULL;
        if (posix_memalign(&memory, 4096, bytes)) abort();
        object->number = (uint64_t)(uintptr_t)memset(memory, POISON, bytes);
    }
    object->end = &object->first;
    live[kind] = object;
    live_count[kind]++;
    return object;
}

struct object *find(enum kind kind, const void *wanted) {
    struct object *object = live[kind];
    while (object && object->number != (uint64_t)(uintptr_t)wanted) object = object->next;
    return object;
}

struct object *memory_at(uint64_t address, size_t bytes, enum kind kind) {
    for (struct object *object = live[kind]; object; object = object->next)
        if (address >= object->number && address - object->number <= object->bytes &&
            bytes <= object->bytes - (address - object->number))
            return object;
    return NULL;
}

struct object *first_of(enum kind kind) { return live[kind]; }

handle handle_of(const struct object *object) { return (handle)(uintptr_t)object->number; }

void drop(struct object *object) {
    struct object **place = &live[object->kind];
    while (*place != object) place = &(*place)->next;
    *place = object->next;
    live_count[object->kind]--;
    if (object->kind == DEVICE_MEMORY || object->kind == PINNED_MEMORY)
        free(memset((void *)(uintptr_t)object->number, POISON, object->bytes));
    free_works(object->first);
    free(object->image);
    free(object);
    pthread_cond_broadcast(&changed); // whoever waits for it
}

void drop_all_of(struct object *context) {
    bool is_broken = gpus[context->device].broken;
    for (int kind = CONTEXT + 1; kind < KINDS; kind++)
        for (struct object *object = live[kind], *next; object; object = next) {
            next = object->next;
            if (object->context != context) continue;
            if (!is_broken && kind != FUNCTION) orphans[kind]++;
            drop(object);
        }
}

// --- broken and hanging GPUs ---
void break_gpu(int device, CUresult code) {
    if (!gpus[device].broken) gpus[device].broken = code;
    pthread_cond_broadcast(&changed);
}

CUresult broken(int device) { return gpus[device].broken; }
bool hangs(int device) { return gpus[device].hangs; }

CUresult wait_while_stuck(struct object *object) {
    enum kind kind = object->kind;
    void *number = handle_of(object);
    int device = object->context->device;
    long entry = my_entry;
    while (object && object->is_stuck && gpus[device].hangs && !gpus[device].broken) {
        pthread_cond_wait(&changed, &lock);
        object = find(kind, number);
    }
    my_entry = entry;
    return gpus[device].broken;
}

size_t gpu_memory(size_t *used, int device) {
    *used = 0;
    for (struct object *object = live[DEVICE_MEMORY]; object; object = object->next)
        if (object->context->device == device) *used += object->bytes;
    return memory_shown;
}

int gpu_count(void) { return gpus_shown; }

void gpu_capability(int *major, int *minor) {
    *major = major_shown;
    *minor = minor_shown;
}

// --- control: for tests; not calls of CUDA ---
CONTROL void null_reset(int gpu_number, uint64_t memory_bytes, int capability) {
    pthread_mutex_lock(&lock);
    for (int kind = KINDS - 1; kind >= 0; kind--)
        while (live[kind]) drop(live[kind]);
    forget_contexts_of_this_thread();
    memset(gpus, 0, sizeof gpus);
    memset(faults, 0, sizeof faults);
    memset(orphans, 0, sizeof orphans);
    memset(counts, 0, sizeof counts);
    entry_count = 0;
    gpus_shown = gpu_number < MOST_GPUS ? gpu_number : MOST_GPUS;
    memory_shown = memory_bytes;
    major_shown = capability / 10;
    minor_shown = capability % 10;
    pthread_mutex_unlock(&lock);
}

// The `in`-th call of that name from now on fails, and those behind it, `times` in all (-1: from then on all).
CONTROL void null_fail(const char *call, long in, CUresult code, long times) {
    pthread_mutex_lock(&lock);
    struct fault *free_one = faults;
    while (free_one < faults + MOST_FAULTS - 1 && free_one->times) free_one++;
    *free_one = (struct fault){.in = in, .times = times, .code = code};
    strncpy(free_one->call, call, sizeof free_one->call - 1);
    pthread_mutex_unlock(&lock);
}

CONTROL void null_break(int device, CUresult code) {
    pthread_mutex_lock(&lock);
    break_gpu(device, code);
    pthread_mutex_unlock(&lock);
}

CONTROL void null_hang(int device, int hang) { // what is recorded or queued meanwhile is never done
    pthread_mutex_lock(&lock);
    gpus[device].hangs = hang;
    for (int kind = STREAM; !hang && kind <= EVENT; kind++)
        for (struct object *object = live[kind]; object; object = object->next)
            if (object->context->device == device) object->is_stuck = false;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

CONTROL long null_entries(void) { return entry_count; }
CONTROL const char *null_entry(long index, int *result, uint64_t *first, uint64_t *second) {
    pthread_mutex_lock(&lock); // the log may move
    struct entry entry = entries[index];
    pthread_mutex_unlock(&lock);
    *result = entry.result;
    *first = entry.first;
    *second = entry.second;
    return names[entry.name];
}

CONTROL const char *null_count(int index, long *count) { // NULL behind the last name
    *count = index < name_count ? counts[index] : 0;
    return index < name_count ? names[index] : NULL;
}

CONTROL long null_live(int kind) { return live_count[kind]; }
CONTROL long null_orphans(int kind) { return orphans[kind]; }
CONTROL uint64_t null_live_bytes(int kind) {
    uint64_t bytes = 0;
    pthread_mutex_lock(&lock);
    for (struct object *object = live[kind]; object; object = object->next) bytes += object->bytes;
    pthread_mutex_unlock(&lock);
    return bytes;
}

__attribute__((constructor)) static void configure(void) { // for child processes
    const char *number = getenv(GPUS_VARIABLE);
    if (number) gpus_shown = atoi(number) < MOST_GPUS ? atoi(number) : MOST_GPUS;
}
