/* The life of the default tracker's tracks: how they begin, move on, are corrected, get ids and end. */

#include "track/track.h"

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

/* Begin a frame at `now_ns`: sort its detections into bands, end the tracks that were last seen before `oldest_ns`, whose ids are
 * in `ended_id` then, and move the others ahead in time. */
EXPORT void begin_frame(Adaptive *tracker, int64_t now_ns, int64_t oldest_ns, double ahead_seconds) {
    tracker->now_ns = now_ns;
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
 * usual confidence by this weight, and drop forgotten tracks. */
EXPORT void end_frame(Adaptive *tracker, double weight) {
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
        learn_usual(tracker, weight);
    drop_forgotten(tracker);
}

/* Track a frame by its boxes alone. `way` is how many seconds boxes are enlarged by in the last round; the rest is as
 * for `begin_frame` and `end_frame`. */
EXPORT void track_frame(Adaptive *tracker, int64_t now_ns, int64_t oldest_ns, double ahead_seconds, float way,
                        double weight) {
    begin_frame(tracker, now_ns, oldest_ns, ahead_seconds);
    match_detections(tracker, way, 0);
    correct_tracks(tracker);
    end_frame(tracker, weight);
}
