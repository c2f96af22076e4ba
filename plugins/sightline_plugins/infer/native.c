/* What happens to the outputs of every model, and to the boxes of every detector. */

#include "nms/native.h"

#include <math.h>
#include <string.h>

/* Whether all numbers are finite. */
VECTORISED static int are_finite(const float *values, ptrdiff_t count) {
    uint32_t wrong = 0;
    for (ptrdiff_t number = 0; number < count; number++) {
        uint32_t bits;
        memcpy(&bits, values + number, sizeof bits);
        wrong |= (bits & 0x7f800000u) == 0x7f800000u;
    }
    return !wrong;
}

EXPORT int all_finite(const float *values, ptrdiff_t count) { return are_finite(values, count); }

/* Which candidates become objects, and where the network's input lies in the frame. `limits` (classes + 1,) are the
 * least confidences of the classes, `wanted` (classes + 1,) is nonzero for those that become objects, the last of each
 * for classes beyond; both may be NULL. */
typedef struct {
    double iou;
    int64_t most, most_candidates, classes;
    const float *limits;
    const uint8_t *wanted;
    float scale[2], shift[2], size[2];
    int32_t class_agnostic;
    int32_t invalid;
} BoxRules;

static int64_t place_of(const BoxRules *rules, int32_t class_id) {
    return class_id < 0 || class_id > rules->classes ? rules->classes : class_id;
}

static float moved(const BoxRules *rules, float edge, int axis) {
    float found = edge * rules->scale[axis] + rules->shift[axis];
    found = found > 0 ? found : 0;
    return found < rules->size[axis] ? found : rules->size[axis];
}

/* Keep of the candidates in `rows` those that are wanted and in the frame. Boxes in the frame (N, 4), confidences (N,) and
 * classes (N,), one after the other, go to `found`. Return N. */
static ptrdiff_t place_rows(const BoxRules *rules, const float *xyxy, const float *confidence, const int32_t *class_id,
                            const int64_t *order, ptrdiff_t count, int64_t *rows, float *found) {
    ptrdiff_t kept = 0;
    for (ptrdiff_t place = 0; place < count; place++) {
        int64_t row = order[place];
        const float *box = xyxy + 4 * row;
        if (rules->wanted && !rules->wanted[place_of(rules, class_id[row])])
            continue;
        if (moved(rules, box[2], 0) > moved(rules, box[0], 0) && moved(rules, box[3], 1) > moved(rules, box[1], 1))
            rows[kept++] = row;
    }
    for (ptrdiff_t place = 0; place < kept; place++) {
        int64_t row = rows[place];
        for (int edge = 0; edge < 4; edge++)
            found[4 * place + edge] = moved(rules, xyxy[4 * row + edge], edge % 2);
        found[4 * kept + place] = confidence[row];
        memcpy(found + 5 * kept + place, class_id + row, sizeof *class_id);
    }
    return kept;
}

/* Keep of `count` candidates that are not suppressed those that are wanted and in the frame; `rows` and `found` as in
 * `select_boxes`. */
EXPORT ptrdiff_t place_boxes(const BoxRules *rules, const float *xyxy, const float *confidence, const int32_t *class_id,
                             ptrdiff_t count, int64_t *rows, float *found) {
    for (ptrdiff_t row = 0; row < count; row++)
        rows[row] = row;
    return place_rows(rules, xyxy, confidence, class_id, rows, count, rows, found);
}

/* Select from `count` candidates those that are finite, above their limits, not suppressed, in the frame and wanted, by
 * falling confidence. Their rows go to `rows`; boxes in the frame (N, 4), confidences (N,) and classes (N,), one after
 * the other, to `found` (6 * count). The number N is returned, and that of candidates that are not finite noted in
 * `rules->invalid`. `scratch` has room for 5 doubles and 2 integers of 64 bits for each candidate, `most_candidates`
 * of the most confident ones are looked at. */
EXPORT ptrdiff_t select_boxes(BoxRules *rules, const float *xyxy, const float *confidence, const int32_t *class_id,
                              ptrdiff_t count, int64_t *rows, float *found, Box *scratch) {
    int64_t *order = (int64_t *)(scratch + count), *more = order + count;
    ptrdiff_t valid = 0;
    float *sure = found; /* confidences of the valid ones, until `found` is written */
    rules->invalid = 0;
    for (ptrdiff_t row = 0; row < count; row++) {
        const float *box = xyxy + 4 * row;
        if (!isfinite(box[0]) || !isfinite(box[1]) || !isfinite(box[2]) || !isfinite(box[3]) ||
            !isfinite(confidence[row])) {
            rules->invalid++;
            continue;
        }
        if (rules->limits && !(confidence[row] >= rules->limits[place_of(rules, class_id[row])]))
            continue;
        sure[valid] = confidence[row];
        rows[valid++] = row;
    }
    order_by_confidence(sure, valid, order, more);
    for (ptrdiff_t place = 0; place < valid; place++)
        order[place] = rows[order[place]];
    if (valid > rules->most_candidates)
        valid = (ptrdiff_t)rules->most_candidates;
    if (rules->iou < 1 && valid > 1)
        valid = suppress_boxes(xyxy, rules->class_agnostic ? NULL : class_id, valid, rules->iou, rules->most, order,
                               scratch);
    else if (valid > rules->most)
        valid = (ptrdiff_t)rules->most;
    return place_rows(rules, xyxy, confidence, class_id, order, valid, rows, found);
}
