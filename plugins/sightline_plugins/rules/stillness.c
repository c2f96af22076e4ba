/* Since when tracks stand still: see stillness.py. */
#include "native/native.h"

#include <math.h>

typedef struct {
    double x, y;
} Point;

static int is_beyond(Point point, Point other, double reach) { return hypot(point.x - other.x, point.y - other.y) > reach; }

/* Take the positions of tracks that are seen `now`, each with its `reach`, into their rows of a table; `moved` is when each
 * that has moved left its place, and -1 for those that stand. An object has moved when it was away for `blink`
 * nanoseconds; its place is the mean of its positions in the first `settling` ones. */
EXPORT void keep_places(ptrdiff_t tracks, int64_t now, int64_t blink, int64_t settling, const int64_t *rows,
                        const uint8_t *is_new, const Point *points, const double *reach, Point *places, int64_t *samples,
                        int64_t *since, int64_t *away, Point *next_places, int64_t *next, int64_t *moved) {
    for (ptrdiff_t number = 0; number < tracks; number++) {
        ptrdiff_t row = (ptrdiff_t)rows[number];
        Point point = points[number], *place = places + row;
        moved[number] = -1;
        if (is_new[number]) {
            *place = point;
            since[row] = now;
        }
        if (!is_beyond(point, *place, reach[number])) {
            away[row] = -1;
            if (now - since[row] < settling) {
                double share = 1.0 / (double)++samples[row];
                place->x += share * (point.x - place->x);
                place->y += share * (point.y - place->y);
            }
            continue;
        }
        if (away[row] < 0 || is_beyond(point, next_places[row], reach[number])) {
            next_places[row] = point;
            next[row] = now;
        }
        if (away[row] < 0)
            away[row] = now;
        if (now - away[row] < blink)
            continue;
        moved[number] = away[row];
        *place = next_places[row];
        since[row] = next[row];
        samples[row] = 1;
        away[row] = -1;
    }
}
