/* The class of tracks, by the votes of their detections; class_votes.py describes them.
 *
 * The votes of a stream are rows in order of track and class, so those of a track for classes of one origin lie beside
 * each other. Tracks that begin have the highest ids, so that their rows mostly come last. */

#include "track/frames.h"

#include <string.h>

#define CLASS_BITS 20
#define KEPT 0.95   /* What a vote is still worth one detection of the track later. */
#define LEAST 1e-3  /* What a vote counts at least. */
#define REMEMBERED_NS INT64_C(60000000000)
#define NO_TRACK (-1)

typedef struct {
    int64_t track_id, class_id, seen_ns;
    double weight;
} Vote;

/* The votes of a stream; the rows belong to the caller. */
typedef struct {
    Vote *vote;
    int64_t count, room;
} Votes;

_Static_assert(sizeof(Vote) == 32 && sizeof(Votes) == 24, "the layouts of class_votes.py");

/* The origin of a class: what detected it. */
static int64_t origin_of(int64_t class_id) { return class_id >> CLASS_BITS; }

/* Whether a vote is one for a track, and a class of this origin. */
static int is_of(const Vote *vote, int64_t track_id, int64_t origin) {
    return vote->track_id == track_id && origin_of(vote->class_id) == origin;
}

/* The first row of a track and an origin, or where it would be. */
static int64_t find(const Votes *votes, int64_t track_id, int64_t origin) {
    int64_t first = 0, last = votes->count;
    while (first < last) {
        int64_t middle = first + (last - first) / 2;
        const Vote *vote = &votes->vote[middle];
        int is_before = vote->track_id != track_id ? vote->track_id < track_id : origin_of(vote->class_id) < origin;
        if (is_before)
            first = middle + 1;
        else
            last = middle;
    }
    return first;
}

/* Drop the votes of tracks that were not seen for long. */
static void forget(Votes *votes, int64_t pts_ns) {
    int64_t kept = 0;
    for (int64_t row = 0; row < votes->count; row++) {
        int64_t seen_ns = votes->vote[row].seen_ns;
        uint64_t ago = pts_ns > seen_ns ? (uint64_t)pts_ns - (uint64_t)seen_ns : (uint64_t)seen_ns - (uint64_t)pts_ns;
        if (ago <= REMEMBERED_NS)
            votes->vote[kept++] = votes->vote[row];
    }
    votes->count = kept;
}

/* The class with most weight among the rows of a track and an origin from `row` on; of equal ones the lowest. */
static int64_t leader_of(const Votes *votes, int64_t row) {
    const Vote *best = &votes->vote[row];
    int64_t origin = origin_of(best->class_id);
    for (int64_t other = row + 1; other < votes->count && is_of(&votes->vote[other], best->track_id, origin); other++)
        if (votes->vote[other].weight > best->weight)
            best = &votes->vote[other];
    return best->class_id;
}

/* Count a vote for the class of a track, for which there is room; return the class that leads then. */
static int64_t vote_for(Votes *votes, int64_t track_id, int64_t class_id, double weight, int64_t pts_ns) {
    int64_t origin = origin_of(class_id), first = find(votes, track_id, origin);
    if (first == votes->count || !is_of(&votes->vote[first], track_id, origin)) {
        forget(votes, pts_ns);
        first = find(votes, track_id, origin);
    }
    int64_t row = first;
    Vote *own = 0;
    for (int64_t next = first; next < votes->count && is_of(&votes->vote[next], track_id, origin); next++) {
        Vote *vote = &votes->vote[next];
        vote->weight *= KEPT;
        vote->seen_ns = pts_ns;
        if (vote->class_id == class_id)
            own = vote;
        if (vote->class_id < class_id)
            row = next + 1;
    }
    if (!own) {
        own = &votes->vote[row];
        memmove(own + 1, own, (size_t)(votes->count++ - row) * sizeof *own);
        Vote begun = {track_id, class_id, pts_ns, 0};
        *own = begun;
    }
    own->weight += weight < LEAST ? LEAST : weight;
    return leader_of(votes, first);
}

/* Count the votes of the detections on frames: number `first` and those after it of `columns` (`Frames`), `count` in all.
 * Write to `leading` the class that leads for the track of each detection; those without a track keep theirs. Return the
 * number of the first frame whose votes have no room for as many rows as it has detections, or `count`. */
EXPORT ptrdiff_t vote_frames(const int64_t *columns, ptrdiff_t first, ptrdiff_t count, const int64_t *track_id,
                             const int64_t *class_id, const float *confidence, int64_t *leading) {
    Frames frames = frames_of(columns, count);
    for (ptrdiff_t frame = first; frame < count; frame++) {
        Votes *votes = kept_of(&frames, frame);
        int64_t row = first_row(&frames, frame), pts_ns = frames.pts_ns[frame];
        if (votes->count + frames.end[frame] - row > votes->room)
            return frame;
        for (; row < frames.end[frame]; row++) {
            double weight = confidence[row];
            leading[row] = track_id[row] == NO_TRACK ? class_id[row]
                                                     : vote_for(votes, track_id[row], class_id[row], weight, pts_ns);
        }
    }
    return count;
}

/* Write to `leading` (count) the class that leads for each track among the classes of this origin; where nobody voted,
 * the class given. */
EXPORT void lead_tracks(const Votes *votes, ptrdiff_t count, const int64_t *track_id, const int64_t *class_id,
                        int64_t *leading) {
    for (ptrdiff_t track = 0; track < count; track++) {
        int64_t row = find(votes, track_id[track], origin_of(class_id[track]));
        int is_known = row < votes->count && is_of(&votes->vote[row], track_id[track], origin_of(class_id[track]));
        leading[track] = is_known ? leader_of(votes, row) : class_id[track];
    }
}
