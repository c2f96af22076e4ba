/* Detections of a frame: which can be used, how certain they are, and which confidence is usual for their detector. */

#include "track/track.h"

#include <math.h>

#define LARGEST_COORDINATE 1e7f
#define SMALLEST_AREA 1.0f
#define USUAL 0.95      /* Certainty of a detection of the usual confidence. */
#define LEAST_USUAL 0.2 /* Usual confidences below count as this, so that noise is not made sure. */
#define MEMORY 2.0      /* Seconds: how fast the usual confidence follows the latest detections. */

/* Make the coordinates of a detection 0 and its confidence -1 if it cannot be used: if they are not finite, or far from
 * any image. */
static void make_safe(Detection *detection) {
    int is_safe = !isnan(detection->confidence);
    for (int place = 0; place < 4; place++)
        is_safe &= fabsf(detection->xyxy[place]) <= LARGEST_COORDINATE;
    for (int place = 0; place < 4 && !is_safe; place++)
        detection->xyxy[place] = 0;
    detection->confidence = is_safe ? smaller(detection->confidence, 1) : -1;
}

/* What confidences are multiplied with to be certainties. `usual` is set by the first detections if it is NaN. */
static float scale_of(const Detection *detection, ptrdiff_t count, double *usual) {
    if (isnan(*usual)) {
        float highest = 0;
        for (ptrdiff_t row = 0; row < count; row++)
            highest = larger(detection[row].confidence, highest);
        if (highest > 0)
            *usual = highest;
    }
    if (!(*usual < USUAL))
        return 1;
    return (float)(USUAL / (*usual > LEAST_USUAL ? *usual : LEAST_USUAL));
}

/* Fill in the rest of `count` detections of which `xyxy`, `confidence` and `class_id` are given. Their band is the
 * number of `limits` (of which there are `bands`, three at most) that their certainty reaches. That is their confidence
 * on the scale of `usual`, or as it is without it (NULL). */
EXPORT void sort_into_bands(Detection *detection, ptrdiff_t count, const float *limits, ptrdiff_t bands,
                            double *usual) {
    for (ptrdiff_t row = 0; row < count; row++)
        make_safe(&detection[row]);
    float scale = usual ? scale_of(detection, count, usual) : 1;
    for (ptrdiff_t row = 0; row < count; row++) {
        Detection *one = &detection[row];
        for (int axis = 0; axis < 2; axis++) {
            one->box[axis] = (one->xyxy[axis] + one->xyxy[2 + axis]) / 2;
            one->box[2 + axis] = one->xyxy[2 + axis] - one->xyxy[axis];
        }
        one->area = larger(larger(one->box[2], 0) * larger(one->box[3], 0), SMALLEST_AREA);
        one->certainty = smaller(one->confidence * scale, 1);
        one->band = 0;
        for (ptrdiff_t band = 0; band < bands; band++)
            one->band += one->certainty >= limits[band];
        one->weight = one->band >= FAIR ? one->certainty : 1;
    }
}

/* Return the value that would be at the middle of `values` (count, at least 1) if they were in order, which changes.
 * C. A. R. Hoare, "Algorithm 65: Find", Communications of the ACM 4 (1961). */
static float median_of(float *values, ptrdiff_t count) {
    ptrdiff_t middle = count / 2, first = 0, last = count - 1;
    while (first < last) {
        float pivot = values[middle];
        ptrdiff_t low = first, high = last;
        while (low <= high) {
            while (values[low] < pivot)
                low++;
            while (pivot < values[high])
                high--;
            if (low <= high) {
                float swapped = values[low];
                values[low++] = values[high];
                values[high--] = swapped;
            }
        }
        if (high < middle)
            first = low;
        if (middle < low)
            last = high;
    }
    return values[middle];
}

/* Move the usual confidence towards the median of those of detections that belong to confirmed tracks, the further the
 * longer the last frame is ago. */
void learn_usual(Adaptive *tracker) {
    double weight = 1 - exp(-seconds_of(tracker->interval_ns) / MEMORY);
    ptrdiff_t count = 0;
    for (ptrdiff_t row = 0; row < tracker->detection_count; row++)
        if (tracker->detection[row].round >= 0 && tracker->detection[row].track_id >= 0)
            tracker->margin[count++] = tracker->detection[row].confidence;
    if (count && !isnan(tracker->usual))
        tracker->usual += weight * (median_of(tracker->margin, count) - tracker->usual);
}
