/* Frames that one call works on; frames_together.py makes what it gets. */
#ifndef SIGHTLINE_TRACK_FRAMES_H
#define SIGHTLINE_TRACK_FRAMES_H

#include "native/native.h"

/* Of each frame: the address of what is kept of its stream, which may be that of an earlier frame; the row behind its last
 * detection; and its time. */
typedef struct {
    const int64_t *kept, *end, *pts_ns;
} Frames;

/* The frames in `columns` (3, count). */
static inline Frames frames_of(const int64_t *columns, ptrdiff_t count) {
    Frames frames = {columns, columns + count, columns + 2 * count};
    return frames;
}

static inline void *kept_of(const Frames *frames, ptrdiff_t frame) { return (void *)(intptr_t)frames->kept[frame]; }

/* The row of the first detection of a frame. */
static inline int64_t first_row(const Frames *frames, ptrdiff_t frame) { return frame ? frames->end[frame - 1] : 0; }

#endif
