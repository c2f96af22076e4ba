/* The life of the default tracker's tracks: how they begin, move on, are corrected, get ids and end. */

#include "track/frames.h"
#include "track/track.h"

#include <string.h>

#define LONGEST_NS (UINT64_C(1) << 59) /* A longer time counts as this, so that sums of times fit. */
#define MOST_KEPT 1000000             /* Values for pairs, above which their memory is released when it is not needed. */
#define EVIDENCE_PER_CERTAINTY 1.35f
#define LEAST_EVIDENCE 0.1f
#define ROUNDING 1e-3         /* Tolerance of sums of evidence. */
#define CERTAINTY_MEMORY 0.2f /* Weight of the latest detection in a track's mean certainty. */

/* Keep only tracks whose state is not `FORGOTTEN`, in their order; `row` of each is where it was. */
static void drop_forgotten(Adaptive *tracker) {
    ptrdiff_t kept = 0;
    for (ptrdiff_t row = 0; row < tracker->track_count; row++) {
        if (tracker->track[row].state == FORGOTTEN)
            continue;
        if (kept != row)
            tracker->track[kept] = tracker->track[row];
        tracker->track[kept++].row = row;
    }
    tracker->track_count = kept;
}

/* The time from `since_ns` to `pts_ns`; 0 where it runs backward, or where there is none. */
static int64_t time_between(int64_t since_ns, int64_t pts_ns) {
    if (since_ns == NEVER || pts_ns <= since_ns)
        return 0;
    uint64_t passed_ns = (uint64_t)pts_ns - (uint64_t)since_ns;
    return (int64_t)(passed_ns < LONGEST_NS ? passed_ns : LONGEST_NS);
}

/* The time from the last update to `pts_ns`. */
EXPORT int64_t elapsed_ns(const Adaptive *tracker, int64_t pts_ns) { return time_between(tracker->last_pts_ns, pts_ns); }

/* How far tracks have to be moved to be where they are expected at `pts_ns`. */
EXPORT int64_t ahead_ns(const Adaptive *tracker, int64_t pts_ns) { return time_between(tracker->moved_ns, pts_ns); }

/* How long a track may go unseen: at least two frames, so that slow streams keep tracks at all. */
EXPORT int64_t longest_lost_ns(const Adaptive *tracker) {
    int64_t frames_ns = 2 * tracker->interval_ns;
    return tracker->max_lost_ns > frames_ns ? tracker->max_lost_ns : frames_ns;
}

/* Begin the frame at `pts_ns`: sort its detections into bands, end the tracks that were not seen for too long, whose ids
 * are in `ended_id` then, and move the others ahead in time. */
EXPORT void begin_frame(Adaptive *tracker, int64_t pts_ns) {
    int64_t interval_ns = elapsed_ns(tracker, pts_ns);
    double ahead_seconds = seconds_of(ahead_ns(tracker, pts_ns));
    int64_t oldest_ns = tracker->now_ns + interval_ns - longest_lost_ns(tracker);
    tracker->last_pts_ns = tracker->moved_ns = pts_ns;
    tracker->interval_ns = interval_ns;
    tracker->now_ns += interval_ns;
    sort_into_bands(tracker->detection, tracker->detection_count, tracker->limits, 3,
                    tracker->is_calibrated ? &tracker->usual : 0);
    Step step = step_of(&tracker->motion, ahead_seconds);
    tracker->ended_count = 0;
    for (ptrdiff_t row = 0; row < tracker->track_count; row++) {
        Track *track = &tracker->track[row];
        if (track->seen_ns < oldest_ns) {
            if (track->state != TENTATIVE)
                tracker->ended_id[tracker->ended_count++] = track->track_id;
            track->state = FORGOTTEN;
        } else if (ahead_seconds > 0) {
            predict_filter(&track->filter, track->area, &step);
        }
    }
    drop_forgotten(tracker);
}

/* The evidence of a detection of this certainty, 0.1 to 1, which `min_hits` counts. */
static float evidence_of(const Adaptive *tracker, float certainty) {
    float evidence = 1 - (tracker->high_threshold - certainty) * EVIDENCE_PER_CERTAINTY;
    return smaller(larger(evidence, LEAST_EVIDENCE), 1);
}

/* Whether a track of this evidence is confirmed. */
static int is_enough(const Adaptive *tracker, float evidence) {
    return evidence >= (float)(tracker->min_hits - ROUNDING);
}

/* Correct a track by its detection. */
static void see(const Adaptive *tracker, Track *track, const Detection *detection) {
    correct_filter(&track->filter, detection->box, detection->certainty, detection->area, &tracker->motion);
    track->area = detection->area;
    track->confidence = detection->confidence;
    track->class_id = detection->class_id;
    track->seen_ns = tracker->now_ns;
    track->mean_certainty += CERTAINTY_MEMORY * (detection->certainty - track->mean_certainty);
    if (track->state != TENTATIVE) {
        track->state = TRACKED;
        return;
    }
    track->evidence += evidence_of(tracker, detection->certainty);
    if (is_enough(tracker, track->evidence))
        track->state = TRACKED;
}

/* Begin a track with a detection that matches none. The first ones of a stream need no more evidence. */
static void begin_track(Adaptive *tracker, ptrdiff_t column, int is_first) {
    const Detection *detection = &tracker->detection[column];
    Track *track = &tracker->track[tracker->track_count++];
    initiate_filter(&track->filter, detection->box, detection->area, &tracker->motion);
    track->area = detection->area;
    track->confidence = detection->confidence;
    track->evidence = evidence_of(tracker, detection->certainty) + (is_first ? tracker->min_hits - 1 : 0);
    track->mean_certainty = detection->certainty;
    corners_of(&track->filter, track->expected);
    track->class_id = detection->class_id;
    track->track_id = -1;
    track->state = is_enough(tracker, track->evidence) ? TRACKED : TENTATIVE;
    track->seen_ns = tracker->now_ns;
    track->number = tracker->next_number++;
    track->detection = column;
}

/* Give every track its next state, those with a detection by it, and begin tracks with the detections that have none.
 * Tracks that are confirmed now have no id yet. */
EXPORT void correct_tracks(Adaptive *tracker) {
    for (ptrdiff_t row = 0; row < tracker->track_count; row++) {
        Track *track = &tracker->track[row];
        if (track->detection >= 0)
            see(tracker, track, &tracker->detection[track->detection]);
        else
            track->state = track->state == TENTATIVE ? FORGOTTEN : LOST;
    }
    int is_first = !tracker->has_begun;
    for (ptrdiff_t column = 0; column < tracker->detection_count; column++) {
        Detection *detection = &tracker->detection[column];
        if (detection->track >= 0 || detection->band < FAIR || detection->certainty < tracker->new_track_threshold)
            continue;
        detection->track = tracker->track_count;
        begin_track(tracker, column, is_first);
        tracker->has_begun = 1;
    }
}

/* End a frame: give new ids to confirmed tracks that have none, write numbers and ids to the detections, learn the
 * usual confidence, and drop forgotten tracks. */
EXPORT void end_frame(Adaptive *tracker) {
    for (ptrdiff_t row = 0; row < tracker->track_count; row++)
        if (tracker->track[row].state == TRACKED && tracker->track[row].track_id < 0)
            tracker->track[row].track_id = tracker->next_id++;
    for (ptrdiff_t column = 0; column < tracker->detection_count; column++) {
        Detection *detection = &tracker->detection[column];
        const Track *track = detection->track < 0 ? 0 : &tracker->track[detection->track];
        detection->number = track ? track->number : -1;
        detection->track_id = track ? track->track_id : -1;
    }
    if (tracker->is_calibrated)
        learn_usual(tracker);
    drop_forgotten(tracker);
}

/* Whether the arrays of a tracker hold what a frame of so many detections needs, and not much more than that. */
static int has_room(const Adaptive *tracker, int64_t detections) {
    int64_t pairs = tracker->track_count * detections;
    int is_wasteful = tracker->margin_room > MOST_KEPT && pairs <= MOST_KEPT;
    return detections <= tracker->detection_room && tracker->track_count + detections <= tracker->track_room &&
           pairs <= tracker->margin_room && !is_wasteful;
}

/* Track a frame by its boxes (count, 4) alone, and write the ids (count) of their tracks. */
static void track_frame(Adaptive *tracker, int64_t pts_ns, ptrdiff_t count, const float *xyxy, const float *confidence,
                        const int64_t *class_id, int64_t *track_id) {
    for (ptrdiff_t row = 0; row < count; row++) {
        Detection *detection = &tracker->detection[row];
        memcpy(detection->xyxy, xyxy + 4 * row, sizeof detection->xyxy);
        detection->confidence = confidence[row];
        detection->class_id = class_id[row];
    }
    tracker->detection_count = count;
    begin_frame(tracker, pts_ns);
    match_detections(tracker, 0);
    correct_tracks(tracker);
    end_frame(tracker);
    for (ptrdiff_t row = 0; row < count; row++)
        track_id[row] = tracker->detection[row].track_id;
}

/* Track frames by their boxes alone: number `first` and those after it of `columns` (`Frames`), `count` in all. Each
 * detection has a box, a confidence, a class, and the id of its track, which is written. Return the number of the first
 * frame whose tracker lacks room, or `count`. */
EXPORT ptrdiff_t track_frames(const int64_t *columns, ptrdiff_t first, ptrdiff_t count, const float *xyxy,
                              const float *confidence, const int64_t *class_id, int64_t *track_id) {
    Frames frames = frames_of(columns, count);
    for (ptrdiff_t frame = first; frame < count; frame++) {
        Adaptive *tracker = kept_of(&frames, frame);
        int64_t row = first_row(&frames, frame), detections = frames.end[frame] - row;
        if (!has_room(tracker, detections))
            return frame;
        track_frame(tracker, frames.pts_ns[frame], detections, xyxy + 4 * row, confidence + row, class_id + row,
                    track_id + row);
    }
    return count;
}
