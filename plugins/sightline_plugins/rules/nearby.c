/* Which places are covered by boxes of a frame or taken by new ones, and who is near: see nearby.py. */
#include "native/native.h"

#include <math.h>

typedef struct {
    double left, top, right, bottom;
} Box;

static double larger(double a, double b) { return a > b ? a : b; }
static double smaller(double a, double b) { return a < b ? a : b; }

/* Which `places` have a box that covers `share` of them. The boxes are in the order of their left edges, and only those
 * are looked at that can reach a place: of the columns of the frame, each as wide as 1 / `columns_of_pixel` and the first
 * one at `origin`, `first` holds the first box that reaches into each. */
EXPORT void mark_covered(ptrdiff_t places, ptrdiff_t boxes, ptrdiff_t columns, const Box *place, const Box *box,
                         const int64_t *first, double origin, double columns_of_pixel, double share, uint8_t *covered) {
    for (ptrdiff_t number = 0; number < places; number++) {
        Box own = place[number];
        double area = larger((own.right - own.left) * (own.bottom - own.top), 1e-9);
        double column = smaller(larger((own.left - origin) * columns_of_pixel, 0), (double)(columns - 1));
        int is_covered = 0;
        for (ptrdiff_t other = first[(ptrdiff_t)column]; other < boxes && box[other].left < own.right; other++) {
            double width = smaller(own.right, box[other].right) - larger(own.left, box[other].left);
            double height = smaller(own.bottom, box[other].bottom) - larger(own.top, box[other].top);
            is_covered |= larger(width, 0) * larger(height, 0) / area >= share;
        }
        covered[number] = (uint8_t)is_covered;
    }
}

/* The intersection over union of two boxes, in single precision as `iou_matrix` of media/boxes.py. */
static float overlap_of(const Box *one, const Box *other) {
    float left = (float)larger(one->left, other->left), right = (float)smaller(one->right, other->right);
    float top = (float)larger(one->top, other->top), bottom = (float)smaller(one->bottom, other->bottom);
    if (right <= left || bottom <= top)
        return 0;
    float common = (right - left) * (bottom - top);
    float own = ((float)one->right - (float)one->left) * ((float)one->bottom - (float)one->top);
    float others = ((float)other->right - (float)other->left) * ((float)other->bottom - (float)other->top);
    float together = own + others - common;
    return together > 0 ? common / together : 0;
}

/* The `place` that each new box takes, of those `free` in its area, and -1 where none overlaps it by `least`: the one
 * that overlaps it most. A place that is taken is free no more. */
EXPORT void take_places(ptrdiff_t boxes, ptrdiff_t places, const int64_t *box_area, const Box *box,
                        const int64_t *place_area, const Box *place, float least, uint8_t *free, int64_t *taken) {
    for (ptrdiff_t number = 0; number < boxes; number++) {
        float most = 0;
        taken[number] = -1;
        for (ptrdiff_t other = 0; other < places; other++) {
            if (place_area[other] != box_area[number] || !free[other])
                continue;
            float overlap = overlap_of(box + number, place + other);
            if (overlap >= least && overlap > most) {
                most = overlap;
                taken[number] = other;
            }
        }
        if (taken[number] >= 0)
            free[taken[number]] = 0;
    }
}

/* Which `points` (x y) are not farther than `reach` heights of a box from the middle of its lower edge. */
EXPORT void mark_near_boxes(ptrdiff_t points, ptrdiff_t boxes, const double *point, const double *reach, const Box *box,
                            uint8_t *near) {
    for (ptrdiff_t number = 0; number < points; number++) {
        near[number] = 0;
        for (ptrdiff_t other = 0; other < boxes && !near[number]; other++) {
            double most = reach[number] * (box[other].bottom - box[other].top);
            double x = point[2 * number] - (box[other].left + box[other].right) / 2;
            double y = point[2 * number + 1] - box[other].bottom;
            near[number] = fabs(x) <= most && fabs(y) <= most && hypot(x, y) <= most;
        }
    }
}

/* Which objects in the same area are not farther apart than its `reach`: the numbers of `first` and `second`, and how far
 * they are `apart`. `order` has the objects area by area. Returns how many pairs there are; the arrays have room for all. */
EXPORT ptrdiff_t close_pairs(ptrdiff_t objects, const int64_t *order, const int64_t *area, const double *places,
                             const double *reach, int64_t *first, int64_t *second, double *apart) {
    ptrdiff_t pairs = 0;
    for (ptrdiff_t one = 0; one < objects; one++)
        for (ptrdiff_t other = one + 1; other < objects && area[order[other]] == area[order[one]]; other++) {
            const double *here = places + 2 * order[one], *there = places + 2 * order[other];
            double distance = hypot(here[0] - there[0], here[1] - there[1]);
            if (distance <= reach[area[order[one]]]) {
                first[pairs] = order[one];
                second[pairs] = order[other];
                apart[pairs++] = distance;
            }
        }
    return pairs;
}
