/* Constant-velocity Kalman filter of boxes, in closed form; kalman.py describes it. Lengths are pixels, times seconds. */

#include "track/track.h"

#include <math.h>

/* Return how a step of so many seconds changes filters. */
Step step_of(const MotionModel *model, double seconds) {
    Step step = {(float)seconds, (float)(2 * seconds), (float)(seconds * seconds), {{0}}};
    for (int group = 0; group < 2; group++) {
        double velocity = model->velocity_diffusion[group];
        step.diffusion[0][group] = (float)(model->position_diffusion[group] * seconds +
                                           velocity * (seconds * seconds * seconds) / 3);
        step.diffusion[1][group] = (float)(velocity * (seconds * seconds) / 2);
        step.diffusion[2][group] = (float)(velocity * seconds);
    }
    return step;
}

/* Move a filter of a box of this area ahead by a step. */
void predict_filter(Filter *filter, float area, const Step *step) {
    for (int place = 0; place < 4; place++)
        filter->mean[0][place] += filter->mean[1][place] * step->seconds;
    for (int group = 0; group < 2; group++) {
        float position = filter->covariance[0][group], both = filter->covariance[1][group],
              velocity = filter->covariance[2][group];
        filter->covariance[0][group] =
            position + step->twice * both + step->square * velocity + step->diffusion[0][group] * area;
        filter->covariance[1][group] = both + step->seconds * velocity + step->diffusion[1][group] * area;
        filter->covariance[2][group] = velocity + step->diffusion[2][group] * area;
    }
}

/* Begin a filter at a box (centre, width and height), with its velocity unknown. */
void initiate_filter(Filter *filter, const float *box, float area, const MotionModel *model) {
    for (int place = 0; place < 4; place++) {
        filter->mean[0][place] = box[place];
        filter->mean[1][place] = 0;
    }
    for (int group = 0; group < 2; group++) {
        float position = (float)model->measurement[group], velocity = (float)model->initial_velocity[group];
        filter->covariance[0][group] = position * position * area;
        filter->covariance[1][group] = 0;
        filter->covariance[2][group] = velocity * velocity * area;
    }
}

/* Correct a filter by a box (centre, width and height) that was seen with this confidence. */
void correct_filter(Filter *filter, const float *box, float confidence, float area, const MotionModel *model) {
    float doubt = ((float)(1 + model->doubt) - (float)model->doubt * confidence) * area;
    float gain[2][2];
    for (int group = 0; group < 2; group++) {
        float deviation = (float)model->measurement[group];
        float position = filter->covariance[0][group], both = filter->covariance[1][group];
        float whole = position + deviation * deviation * doubt;
        gain[0][group] = position / whole;
        gain[1][group] = both / whole;
        filter->covariance[0][group] -= gain[0][group] * position;
        filter->covariance[1][group] -= gain[0][group] * both;
        filter->covariance[2][group] -= gain[1][group] * both;
    }
    for (int place = 0; place < 4; place++) {
        float surprise = box[place] - filter->mean[0][place];
        filter->mean[0][place] += gain[0][place / 2] * surprise;
        filter->mean[1][place] += gain[1][place / 2] * surprise;
    }
}

/* Write the corners of a filter's box; sides that shrank below 0 are 0. */
void corners_of(const Filter *filter, float *xyxy) {
    for (int axis = 0; axis < 2; axis++) {
        float half = larger(filter->mean[0][2 + axis], 0) / 2;
        xyxy[axis] = filter->mean[0][axis] - half;
        xyxy[2 + axis] = filter->mean[0][axis] + half;
    }
}

/* The same for `count` filters: areas (count) and confidences (count), boxes (count, 4). */
EXPORT void initiate_filters(Filter *filter, ptrdiff_t count, const float *box, const float *area,
                             const MotionModel *model) {
    for (ptrdiff_t row = 0; row < count; row++)
        initiate_filter(&filter[row], box + 4 * row, area[row], model);
}

EXPORT void predict_filters(Filter *filter, ptrdiff_t count, const float *area, double seconds,
                            const MotionModel *model) {
    Step step = step_of(model, seconds);
    for (ptrdiff_t row = 0; row < count; row++)
        predict_filter(&filter[row], area[row], &step);
}

EXPORT void correct_filters(Filter *filter, ptrdiff_t count, const float *box, const float *confidence,
                            const float *area, const MotionModel *model) {
    for (ptrdiff_t row = 0; row < count; row++)
        correct_filter(&filter[row], box + 4 * row, confidence[row], area[row], model);
}

/* Write the corners (count, 4) of filters' boxes, and to `overlap` (count) their intersection over union with
 * themselves, moved by one standard deviation of their centre. */
EXPORT void expect_boxes(const Filter *filter, ptrdiff_t count, float *xyxy, float *overlap) {
    for (ptrdiff_t row = 0; row < count; row++) {
        corners_of(&filter[row], xyxy + 4 * row);
        float width = larger(filter[row].mean[0][2], 0), height = larger(filter[row].mean[0][3], 0);
        float deviation = sqrtf(filter[row].covariance[0][0]);
        float shared = larger(width - deviation, 0) * larger(height - deviation, 0);
        overlap[row] = shared / larger(2 * (width * height) - shared, 1e-6f);
    }
}
