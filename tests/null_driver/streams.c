// Streams, events, captures and graphs.
#include <pthread.h>
#include <stdlib.h>

#include "null_driver.h"

// --- work ---
struct object *stream_of(const void *wanted) {
    static struct object of_cuda;
    if ((uintptr_t)wanted > 2) return find(STREAM, wanted);
    of_cuda = (struct object){.kind = STREAM, .context = current_context(), .number = (uintptr_t)wanted};
    return &of_cuda;
}

void spoil_captures_of_this_thread(void) {
    for (struct object *stream = first_of(STREAM); stream; stream = stream->next)
        if (stream->capture && stream->capturing_thread == pthread_self()) stream->is_spoiled = true;
}

static CUresult spoiled(struct object *stream, CUresult code) {
    stream->is_spoiled = true;
    return code;
}

CUresult submit(struct object *stream, const struct work *work) {
    int device = stream->context->device;
    if (stream->capture) {
        if (stream->is_spoiled) return CAPTURE_INVALIDATED;
        struct work *noted = malloc(sizeof *noted);
        if (!noted) abort();
        *noted = *work;
        noted->next = NULL;
        *stream->capture->end = noted;
        stream->capture->end = &noted->next;
        return SUCCESS;
    }
    if (hangs(device)) return stream->is_stuck = true, SUCCESS;
    CUresult failed = fault("work"), result = failed ? failed : run(work);
    if (result) break_gpu(device, result);
    return SUCCESS; // whoever asks next hears of it
}

void free_arguments(void **arguments) {
    for (void **argument = arguments; argument && *argument; argument++) free(*argument);
    free(arguments);
}

void free_works(struct work *work) {
    for (struct work *next; work; work = next) {
        next = work->next;
        free_arguments(work->arguments);
        free(work);
    }
}

// --- streams ---
API cuStreamCreate(handle *stream, unsigned flags) {
    BEGIN("cuStreamCreate", IN_CONTEXT, flags, 0);
    *stream = handle_of(add(STREAM, current_context(), 0));
    END(SUCCESS);
}

API cuStreamCreateWithPriority(handle *stream, unsigned flags, int priority) {
    BEGIN("cuStreamCreateWithPriority", IN_CONTEXT, flags, priority);
    *stream = handle_of(add(STREAM, current_context(), 0));
    END(SUCCESS);
}

API cuStreamDestroy_v2(void *stream) {
    BEGIN("cuStreamDestroy", IN_CONTEXT, stream, 0);
    struct object *found = find(STREAM, stream);
    CHECK(found, INVALID_HANDLE);
    if (found->capture) drop(found->capture);
    drop(found);
    END(SUCCESS);
}

static CUresult check_outside(struct object *stream) { // of a capture
    if (!stream) return INVALID_HANDLE;
    return stream->capture ? spoiled(stream, CAPTURE_UNSUPPORTED) : SUCCESS;
}

API cuStreamSynchronize(void *stream) {
    BEGIN("cuStreamSynchronize", IN_CONTEXT | NOT_CAPTURING, stream, 0);
    struct object *found = stream_of(stream);
    CUresult result = check_outside(found);
    END(result ? result : wait_while_stuck(found));
}

API cuStreamQuery(void *stream) {
    BEGIN("cuStreamQuery", IN_CONTEXT | NOT_CAPTURING, stream, 0);
    struct object *found = stream_of(stream);
    CUresult result = check_outside(found);
    END(result ? result : found->is_stuck && hangs(found->context->device) ? NOT_READY : SUCCESS);
}

API cuStreamGetCtx(void *stream, handle *context) {
    BEGIN("cuStreamGetCtx", ANYWHERE, stream, 0);
    struct object *found = stream_of(stream);
    CHECK(found && found->context, INVALID_HANDLE);
    *context = handle_of(found->context);
    END(SUCCESS);
}

API cuStreamWaitEvent(void *stream, void *event, unsigned flags) {
    BEGIN("cuStreamWaitEvent", IN_CONTEXT, stream, event);
    (void)flags;
    struct object *found = stream_of(stream), *point = find(EVENT, event);
    CHECK(found && point, INVALID_HANDLE);
    struct object *origin = point->captured_on ? find(STREAM, handle_of(point->captured_on)) : NULL;
    if (found->capture != (origin ? origin->capture : NULL)) // a stream that joins a capture: nobody here means that
        END(spoiled(found->capture ? found : origin, CAPTURE_ISOLATION));
    if (point->is_stuck && hangs(found->context->device)) found->is_stuck = true;
    END(SUCCESS);
}

// --- events ---
API cuEventCreate(handle *event, unsigned flags) {
    BEGIN("cuEventCreate", IN_CONTEXT, flags, 0);
    *event = handle_of(add(EVENT, current_context(), 0));
    END(SUCCESS);
}

API cuEventDestroy_v2(void *event) {
    BEGIN("cuEventDestroy", IN_CONTEXT, event, 0);
    struct object *found = find(EVENT, event);
    CHECK(found, INVALID_HANDLE);
    drop(found);
    END(SUCCESS);
}

API cuEventRecord(void *event, void *stream) {
    BEGIN("cuEventRecord", IN_CONTEXT, event, stream);
    struct object *point = find(EVENT, event), *found = stream_of(stream);
    CHECK(point && found && point->context == found->context, INVALID_HANDLE);
    point->captured_on = found->capture ? found : NULL;
    point->is_stuck = !found->capture && (found->is_stuck || hangs(found->context->device));
    END(found->is_spoiled ? CAPTURE_INVALIDATED : SUCCESS);
}

API cuEventQuery(void *event) {
    BEGIN("cuEventQuery", IN_CONTEXT | NOT_CAPTURING, event, 0);
    struct object *point = find(EVENT, event);
    CHECK(point, INVALID_HANDLE);
    CHECK(!point->captured_on, CAPTURED_EVENT);
    END(point->is_stuck && hangs(point->context->device) ? NOT_READY : SUCCESS);
}

API cuEventSynchronize(void *event) {
    BEGIN("cuEventSynchronize", IN_CONTEXT | NOT_CAPTURING, event, 0);
    struct object *point = find(EVENT, event);
    CHECK(point, INVALID_HANDLE);
    CHECK(!point->captured_on, CAPTURED_EVENT);
    END(wait_while_stuck(point));
}

// --- captures and graphs ---
API cuStreamBeginCapture_v2(void *stream, int mode) {
    BEGIN("cuStreamBeginCapture", IN_CONTEXT, stream, mode);
    struct object *found = find(STREAM, stream);
    CHECK((uintptr_t)stream > 2, CAPTURE_UNSUPPORTED);
    CHECK(found, INVALID_HANDLE);
    CHECK(!found->capture, ILLEGAL_STATE);
    found->capture = add(GRAPH, found->context, 0);
    found->capturing_thread = pthread_self();
    END(SUCCESS);
}

API cuStreamIsCapturing(void *stream, int *state) {
    BEGIN("cuStreamIsCapturing", IN_CONTEXT, stream, 0);
    struct object *found = stream_of(stream);
    CHECK(found, INVALID_HANDLE);
    *state = !found->capture ? 0 : found->is_spoiled ? 2 : 1;
    END(SUCCESS);
}

API cuStreamEndCapture(void *stream, handle *graph) { // a capture is over, also when this fails
    CUresult refused = enter("cuStreamEndCapture", IN_CONTEXT, (uintptr_t)stream, 0);
    struct object *found = find(STREAM, stream);
    *graph = NULL;
    CHECK(found, refused ? refused : INVALID_HANDLE);
    CHECK(found->capture, refused ? refused : ILLEGAL_STATE);
    CHECK(found->capturing_thread == pthread_self(), CAPTURE_WRONG_THREAD);
    struct object *noted = found->capture;
    if (!refused && found->is_spoiled) refused = CAPTURE_INVALIDATED;
    found->capture = NULL;
    found->is_spoiled = false;
    if (refused) drop(noted);
    else *graph = handle_of(noted);
    END(refused);
}

API cuGraphInstantiateWithFlags(handle *exec, void *graph, uint64_t flags) {
    BEGIN("cuGraphInstantiate", IN_CONTEXT, graph, flags);
    struct object *noted = find(GRAPH, graph);
    CHECK(noted, INVALID_HANDLE);
    struct object *made = add(GRAPH_EXEC, noted->context, 0);
    made->first = noted->first; // a graph is instantiated once here, and then destroyed
    noted->first = NULL;
    *exec = handle_of(made);
    END(SUCCESS);
}

API cuGraphLaunch(void *exec, void *stream) {
    BEGIN("cuGraphLaunch", IN_CONTEXT, exec, stream);
    struct object *graph = find(GRAPH_EXEC, exec), *found = stream_of(stream);
    CHECK(graph && found, INVALID_HANDLE);
    CHECK(!found->capture, spoiled(found, CAPTURE_UNSUPPORTED));
    for (struct work *work = graph->first; work; work = work->next) submit(found, work);
    END(SUCCESS);
}

static CUresult destroy(enum kind kind, void *wanted) {
    struct object *found = find(kind, wanted);
    if (!found) return INVALID_HANDLE;
    drop(found);
    return SUCCESS;
}

API cuGraphDestroy(void *graph) {
    BEGIN("cuGraphDestroy", ANYWHERE, graph, 0);
    END(destroy(GRAPH, graph));
}

API cuGraphExecDestroy(void *exec) {
    BEGIN("cuGraphExecDestroy", ANYWHERE | NOT_CAPTURING, exec, 0);
    END(destroy(GRAPH_EXEC, exec));
}
