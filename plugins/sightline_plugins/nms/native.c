/* Greedy non-maximum suppression of upright boxes, and the order in which it looks at them. */

#include "nms/native.h"

#include <string.h>

/* Runs of so few rows are sorted by insertion. */
#define SHORT 24

static void insert(const float *confidence, int64_t *order, ptrdiff_t first, ptrdiff_t end) {
    for (ptrdiff_t place = first + 1; place < end; place++) {
        int64_t row = order[place];
        ptrdiff_t hole = place;
        for (; hole > first && confidence[order[hole - 1]] < confidence[row]; hole--)
            order[hole] = order[hole - 1];
        order[hole] = row;
    }
}

static void merge(const float *confidence, const int64_t *from, int64_t *into, ptrdiff_t first, ptrdiff_t middle,
                  ptrdiff_t end) {
    ptrdiff_t left = first, right = middle;
    for (ptrdiff_t place = first; place < end; place++) {
        int takes_right = left == middle || (right < end && confidence[from[right]] > confidence[from[left]]);
        into[place] = takes_right ? from[right++] : from[left++];
    }
}

void order_by_confidence(const float *confidence, ptrdiff_t count, int64_t *order, int64_t *scratch) {
    int64_t *from = order, *into = scratch;
    for (ptrdiff_t row = 0; row < count; row++)
        order[row] = row;
    for (ptrdiff_t first = 0; first < count; first += SHORT)
        insert(confidence, order, first, first + SHORT < count ? first + SHORT : count);
    for (ptrdiff_t run = SHORT; run < count; run *= 2) {
        for (ptrdiff_t first = 0; first < count; first += 2 * run) {
            ptrdiff_t middle = first + run < count ? first + run : count;
            ptrdiff_t end = first + 2 * run < count ? first + 2 * run : count;
            merge(confidence, from, into, first, middle, end);
        }
        int64_t *sorted = into;
        into = from;
        from = sorted;
    }
    if (from != order)
        memcpy(order, from, (size_t)count * sizeof *order);
}

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
