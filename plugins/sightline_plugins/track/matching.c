/* The rounds in which the default tracker matches tracks with detections; adaptive.py describes them. */

#include "track/track.h"

#include <math.h>

enum { NO_ROUND = -1, WIDE = 4, ROUNDS };

/* The round that matches a kind of track with a band: confirmed and high; fair and fair; confirmed and low for that
 * track; tentative and fair or high. The kinds are those of `kind_of`. */
static const int8_t ROUND_OF[5][4] = {
    {NO_ROUND, NO_ROUND, 3, 3}, /* tentative */
    {NO_ROUND, 2, 2, 0},        /* tracked */
    {NO_ROUND, NO_ROUND, 2, 0}, /* lost */
    {NO_ROUND, 2, 1, 0},        /* tracked, its detections mostly fair */
    {NO_ROUND, NO_ROUND, 1, 0}, /* lost, the same */
};

static int kind_of(const Adaptive *tracker, const Track *track) {
    int is_fair = track->state != TENTATIVE && track->mean_certainty < tracker->high_confidence;
    return (int)track->state + 2 * is_fair;
}

static float area_of(const float *xyxy) { return larger(xyxy[2] - xyxy[0], 0) * larger(xyxy[3] - xyxy[1], 0); }

/* Intersection over union of boxes given by their corners; 0 where both are empty. */
static float overlap_of(const float *one, const float *other) {
    float width = smaller(one[2], other[2]) - larger(one[0], other[0]);
    float height = smaller(one[3], other[3]) - larger(one[1], other[1]);
    if (!(width > 0 && height > 0))
        return 0;
    float shared = width * height, both = area_of(one) + area_of(other) - shared;
    return both > 0 ? shared / both : 0;
}

/* Write the overlap of each of `rows` boxes with each of `columns` others, (rows, columns). */
EXPORT void overlap_boxes(const float *one, ptrdiff_t rows, const float *other, ptrdiff_t columns, float *overlap) {
    for (ptrdiff_t row = 0; row < rows; row++)
        for (ptrdiff_t column = 0; column < columns; column++)
            overlap[row * columns + column] = overlap_of(one + 4 * row, other + 4 * column);
}

/* The factor of similarity by class and confidence. */
static float weight_of(const Adaptive *tracker, const Track *track, const Detection *detection) {
    return track->class_id == detection->class_id ? detection->weight
                                                  : detection->weight * tracker->class_mismatch_weight;
}

/* How much more similar a pair is than it has to be; 0 or less for none. `support` is added where boxes overlap. */
static float margin_of(const Adaptive *tracker, const Track *track, const Detection *detection, float support) {
    float overlap = overlap_of(track->expected, detection->xyxy);
    if (!(overlap > 0))
        return 0;
    float floor = tracker->floors[kind_of(tracker, track)][detection->band];
    return overlap * weight_of(tracker, track, detection) - floor + support;
}

/* How far the object may have gone since the last frame, in pixels. */
static float way_of(const Adaptive *tracker, const Track *track) {
    return tracker->way * sqrtf(track->filter.covariance[2][0]);
}

/* Like `margin_of`, with boxes that are enlarged on each side by the way that the object may have gone. The overlap is
 * multiplied by how alike their sizes are, to the fourth: enlarging would hide that. */
static float wide_margin_of(const Adaptive *tracker, const Track *track, const Detection *detection, float support) {
    const float *one = track->expected, *other = detection->xyxy;
    float way = way_of(tracker, track), shared = 1, areas[2] = {1, 1}, alike = 1;
    for (int axis = 0; axis < 2; axis++) {
        float side = one[2 + axis] - one[axis], other_side = larger(other[2 + axis] - other[axis], 0);
        float enlarged = larger(way, tracker->least_margin * side);
        float near = larger(one[axis], other[axis]) - enlarged, far = smaller(one[2 + axis], other[2 + axis]) + enlarged;
        shared *= larger(far - near, 0);
        areas[0] *= side + 2 * enlarged;
        areas[1] *= other_side + 2 * enlarged;
        alike *= smaller(side, other_side) / larger(larger(side, other_side), 1e-6f);
    }
    double square = (double)alike * alike;
    float similarity = (float)(square * square) * shared / larger(areas[0] + areas[1] - shared, 1e-6f);
    similarity *= weight_of(tracker, track, detection);
    return (similarity > 0 ? similarity + support : similarity) - tracker->min_similarity_wide;
}

/* Whether a track takes part in a round: in the last one, unless it is tentative and has no way to speak of. */
static int takes_part(const Adaptive *tracker, const Track *track, int round) {
    if (round == WIDE) {
        float side = smaller(track->expected[2] - track->expected[0], track->expected[3] - track->expected[1]);
        return track->state != TENTATIVE || way_of(tracker, track) > tracker->least_margin * side;
    }
    const int8_t *round_of = ROUND_OF[kind_of(tracker, track)];
    return round_of[LOW] == round || round_of[FAIR] == round || round_of[HIGH] == round;
}

/* The bands that take part in a round, lowest and highest. */
static const int8_t BANDS[ROUNDS][2] = {{HIGH, HIGH}, {FAIR, FAIR}, {LOW, FAIR}, {FAIR, HIGH}, {HIGH, HIGH}};

/* Write the rows of the tracks and detections that take part in a round and are not matched yet, their numbers to
 * `rows` and `columns`. */
static void list_open(Adaptive *tracker, int round, ptrdiff_t *rows, ptrdiff_t *columns) {
    *rows = *columns = 0;
    for (ptrdiff_t column = 0; column < tracker->detection_count; column++) {
        const Detection *detection = &tracker->detection[column];
        if (detection->track < 0 && detection->band >= BANDS[round][0] && detection->band <= BANDS[round][1])
            tracker->open_detection[(*columns)++] = column;
    }
    for (ptrdiff_t row = 0; *columns && row < tracker->track_count; row++)
        if (tracker->track[row].detection < 0 && takes_part(tracker, &tracker->track[row], round))
            tracker->open_track[(*rows)++] = row;
}

/* The margin of the pair of a track and a detection, in a round. */
static float margin_in_round(const Adaptive *tracker, int64_t row, int64_t column, int round, const float *support) {
    const Track *track = &tracker->track[row];
    const Detection *detection = &tracker->detection[column];
    float added = support ? support[row * tracker->detection_count + column] : 0;
    if (round == WIDE)
        return wide_margin_of(tracker, track, detection, added);
    if (ROUND_OF[kind_of(tracker, track)][detection->band] != round)
        return 0;
    return margin_of(tracker, track, detection, added);
}

/* Match what earlier rounds left over. */
static void match_round(Adaptive *tracker, int round, const float *support) {
    ptrdiff_t rows, columns;
    list_open(tracker, round, &rows, &columns);
    if (!rows || !columns)
        return;
    for (ptrdiff_t row = 0; row < rows; row++)
        for (ptrdiff_t column = 0; column < columns; column++)
            tracker->margin[row * columns + column] =
                margin_in_round(tracker, tracker->open_track[row], tracker->open_detection[column], round, support);
    assign_pairs(tracker->margin, rows, columns, 0, tracker->column_of, tracker->row_scratch, tracker->column_scratch);
    for (ptrdiff_t row = 0; row < rows; row++) {
        if (tracker->column_of[row] < 0)
            continue;
        Track *track = &tracker->track[tracker->open_track[row]];
        track->detection = tracker->open_detection[tracker->column_of[row]];
        Detection *detection = &tracker->detection[track->detection];
        detection->track = tracker->open_track[row];
        detection->round = round;
        detection->overlap = overlap_of(track->expected, detection->xyxy);
    }
}

/* Match the detections of the frame with the tracks, round by round. In the last round, boxes are enlarged by the
 * deviation of their velocity times `way`. `support` (tracks x detections, or NULL) is added to the similarity of pairs
 * that overlap. */
EXPORT void match_detections(Adaptive *tracker, const float *support) {
    tracker->way = (float)(tracker->way_margin * seconds_of(tracker->interval_ns));
    for (ptrdiff_t row = 0; row < tracker->track_count; row++) {
        tracker->track[row].detection = -1;
        corners_of(&tracker->track[row].filter, tracker->track[row].expected);
    }
    for (ptrdiff_t column = 0; column < tracker->detection_count; column++) {
        tracker->detection[column].track = tracker->detection[column].round = -1;
        tracker->detection[column].overlap = NAN;
    }
    for (int round = 0; round < ROUNDS; round++)
        match_round(tracker, round, support);
}
