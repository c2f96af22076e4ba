/* Suppression, for the other C sources. */
#ifndef SIGHTLINE_NMS_NATIVE_H
#define SIGHTLINE_NMS_NATIVE_H

#include "native/native.h"

typedef struct {
    double left, top, right, bottom, area;
} Box;

/* Rows 0 to count - 1 by falling confidence (not NaN), of equal ones the first first; `scratch` has as many. */
void order_by_confidence(const float *confidence, ptrdiff_t count, int64_t *order, int64_t *scratch);

ptrdiff_t suppress_boxes(const float *xyxy, const int32_t *class_id, ptrdiff_t count, double iou, ptrdiff_t most,
                         int64_t *order, Box *boxes);

#endif
