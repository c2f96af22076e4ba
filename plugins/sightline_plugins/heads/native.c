/* Decoding of outputs that have few candidates in many cells. */

#include "native/native.h"

#include <math.h>

/* The best class of a cell, and its value, at least 0; NaN where a class is NaN. `values` are `step` apart. */
static double best_class(const float *values, ptrdiff_t classes, ptrdiff_t step, int32_t *best) {
    double most = 0;
    float highest = -INFINITY;
    *best = 0;
    for (ptrdiff_t number = 0; number < classes; number++) {
        float value = values[number * step];
        if (isnan(value))
            return NAN;
        if (value > highest) {
            highest = value;
            *best = (int32_t)number;
        }
    }
    return highest > most ? highest : most;
}

/* FastestDet: candidates of a map (5 + classes, rows, columns) with a score from `confidence` on, for an input of
 * `width` x `height`; `likely` is the objectness from which that is possible. Up to rows * columns of them are written
 * to xyxy (N, 4), scores and class_id; their number is returned. */
EXPORT ptrdiff_t decode_fastestdet(const float *map, ptrdiff_t classes, ptrdiff_t rows, ptrdiff_t columns, float likely,
                                   float confidence, float width, float height, float *xyxy, float *scores,
                                   int32_t *class_id) {
    ptrdiff_t cells = rows * columns, count = 0;
    for (ptrdiff_t cell = 0; cell < cells; cell++) {
        if (!(map[cell] >= likely))
            continue;
        double sure = best_class(map + 5 * cells + cell, classes, cells, &class_id[count]);
        float score = (float)(pow(map[cell], 0.6) * pow(sure, 0.4));
        if (!(score >= confidence))
            continue;
        float x = (float)(((double)(cell % columns) + tanh(map[cells + cell])) / (double)columns * width);
        float y = (float)(((double)(cell / columns) + tanh(map[2 * cells + cell])) / (double)rows * height);
        float half_width = (float)(1 / (1 + exp(-map[3 * cells + cell])) * width) * 0.5f;
        float half_height = (float)(1 / (1 + exp(-map[4 * cells + cell])) * height) * 0.5f;
        float *box = xyxy + 4 * count;
        box[0] = x - half_width;
        box[1] = y - half_height;
        box[2] = x + half_width;
        box[3] = y + half_height;
        scores[count++] = score;
    }
    return count;
}
