/* What the C sources of trackers share. Layouts are those of tracks.py, kalman.py and adaptive_memory.py. */
#ifndef SIGHTLINE_TRACK_H
#define SIGHTLINE_TRACK_H

#include "native/native.h"

/* A Kalman filter of a box: centre, width and height, and their velocity per second; and variance of position,
 * covariance of position and velocity, variance of velocity, each of the centre, and of width and height. */
typedef struct {
    float mean[2][4];
    float covariance[3][2];
} Filter;

/* Noise of a filter, each for the centre, and for width and height: kalman.py says in which units. */
typedef struct {
    double measurement[2], position_diffusion[2], velocity_diffusion[2], initial_velocity[2], doubt;
} MotionModel;

enum { FORGOTTEN = -1, TENTATIVE, TRACKED, LOST };

/* A track of the default tracker. `expected` are the corners where this frame expects its box, `detection` the row of
 * the detection that it has in this frame (-1 for none), `row` its own row before tracks were forgotten. */
typedef struct {
    Filter filter;
    float area, confidence, evidence, mean_certainty;
    float expected[4];
    int64_t class_id, track_id, state, seen_ns, number, detection, row;
} Track;

enum { IGNORED, LOW, FAIR, HIGH };

/* A detection: its corners, and centre, width and height, in pixels. `overlap` is the IoU with the box where its track
 * was expected (NaN for none), `track` the row of the track, `round` the round that matched them (-1 for none). */
typedef struct {
    float xyxy[4], box[4];
    float confidence, certainty, area, weight, overlap;
    int64_t class_id, band, track, round, number, track_id;
} Detection;

/* Scratch of a row of an assignment: its dual value. */
typedef struct {
    double potential;
} AssignmentRow;

/* Scratch of a column of an assignment: its dual value, how far it is from the row that is being added, the row before
 * it on the shortest path, the row that it is assigned to (-1 for none), and whether its distance is final. */
typedef struct {
    double potential, distance;
    int64_t from, row, is_final;
} AssignmentColumn;

/* A default tracker. Arrays have room for so many tracks, detections and pairs; what they point to belongs to the caller.
 * `last_pts_ns` is the time of the last update, `moved_ns` that for which tracks are where they are expected (both
 * `NEVER` before there was any); `now_ns` is the sum of all intervals. Options are those of adaptive_options.py. */
typedef struct {
    Track *track;
    Detection *detection;
    float *margin;
    int64_t *open_track, *column_of, *ended_id, *open_detection;
    AssignmentRow *row_scratch;
    AssignmentColumn *column_scratch;
    int64_t track_room, detection_room, margin_room;
    int64_t track_count, detection_count, ended_count, next_id, next_number;
    int64_t now_ns, interval_ns, last_pts_ns, moved_ns, max_lost_ns;
    int64_t has_begun, is_calibrated;
    double usual; /* Confidence of objects that the detector finds steadily; NaN before anything was tracked. */
    float way;    /* Seconds by which boxes are enlarged in the last round: those since the last frame, times `way_margin`. */
    float limits[3], floors[5][4];
    float class_mismatch_weight, least_margin, min_similarity_wide;
    float high_confidence, high_threshold, new_track_threshold, min_hits;
    double way_margin;
    MotionModel motion;
} Adaptive;

#define NEVER INT64_MIN

_Static_assert(sizeof(Filter) == 56 && sizeof(MotionModel) == 72, "the layouts of kalman.py");
_Static_assert(sizeof(Track) == 144 && sizeof(Detection) == 104, "the layouts of tracks.py");
_Static_assert(sizeof(AssignmentRow) == 8 && sizeof(AssignmentColumn) == 40, "the scratch space of association.py");
_Static_assert(sizeof(Adaptive) == 408, "the layout of adaptive_memory.py");

/* Each is described where it is defined. */
void assign_pairs(const float *value, ptrdiff_t rows, ptrdiff_t columns, double alone, int64_t *column_of,
                  AssignmentRow *row_scratch, AssignmentColumn *column_scratch);
void initiate_filter(Filter *filter, const float *box, float area, const MotionModel *model);
void correct_filter(Filter *filter, const float *box, float confidence, float area, const MotionModel *model);
void corners_of(const Filter *filter, float *xyxy);
void sort_into_bands(Detection *detection, ptrdiff_t count, const float *limits, ptrdiff_t bands, double *usual);
void overlap_boxes(const float *one, ptrdiff_t rows, const float *other, ptrdiff_t columns, float *overlap);
void match_detections(Adaptive *tracker, const float *support);
void learn_usual(Adaptive *tracker);

/* Step of filters through time: how it changes means and covariances. */
typedef struct {
    float seconds, twice, square, diffusion[3][2];
} Step;

Step step_of(const MotionModel *model, double seconds);
void predict_filter(Filter *filter, float area, const Step *step);

static inline double seconds_of(int64_t duration_ns) { return (double)duration_ns * 1e-9; }
static inline float larger(float one, float other) { return one > other ? one : other; }
static inline float smaller(float one, float other) { return one < other ? one : other; }

#endif
