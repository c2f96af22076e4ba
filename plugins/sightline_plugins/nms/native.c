/* Greedy non-maximum suppression of upright boxes. */

#include "native/native.h"

typedef struct {
    double left, top, right, bottom, area;
} Box;

static double overlap(const Box *one, const Box *other) {
    double width = (one->right < other->right ? one->right : other->right) -
                   (one->left > other->left ? one->left : other->left);
    double height = (one->bottom < other->bottom ? one->bottom : other->bottom) -
                    (one->top > other->top ? one->top : other->top);
    if (width <= 0 || height <= 0)
        return 0;
    double shared = width * height, both = one->area + other->area - shared;
    return both > 0 ? shared / both : 0;
}

/* Keep boxes (x1 y1 x2 y2) that overlap none before them by more than `iou`, in the order of `order`, and only those
 * of the same class unless `class_id` is NULL. Rows of the first `most` that stay are moved to the front of `order`;
 * their number is returned. `boxes` is scratch space for `count` of them. */
EXPORT ptrdiff_t suppress_boxes(const float *xyxy, const int32_t *class_id, ptrdiff_t count, double iou, ptrdiff_t most,
                                int64_t *order, Box *boxes) {
    ptrdiff_t kept = 0;
    for (ptrdiff_t place = 0; place < count && kept < most; place++) {
        int64_t row = order[place];
        const float *edge = xyxy + 4 * row;
        Box box = {edge[0], edge[1], edge[2], edge[3], 0};
        double width = box.right - box.left, height = box.bottom - box.top;
        box.area = (width > 0 ? width : 0) * (height > 0 ? height : 0);
        ptrdiff_t other = 0;
        while (other < kept && ((class_id && class_id[order[other]] != class_id[row]) ||
                                !(overlap(&box, &boxes[other]) > iou)))
            other++;
        if (other < kept)
            continue;
        order[kept] = row;
        boxes[kept++] = box;
    }
    return kept;
}
