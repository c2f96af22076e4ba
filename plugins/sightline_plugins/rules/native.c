/* Rules: who is inside polygons, who crosses lines, and how much boxes tremble. One pass over boxes and shapes.
 *
 * Boxes are x1 y1 x2 y2, in order of time. Each belongs to a track, whose state is the row `rows` of a table; a box is
 * `fresh` when its track was not seen before, or not for long: its row then holds nothing. All in double precision, in
 * the order of operations of the plain definitions (geometry.py). */

#include "native/native.h"

#include <math.h>
#include <string.h>

/* Columns of the table of noise. */
enum { BOX = 0, STEP = 4, DURATION = 8, MEAN = 9, SEEN = 10, COLUMNS = 11 };

typedef struct {
    double x, y;
} Point;

static Point anchor_of(const float *box, double across, double down) {
    double left = box[0], top = box[1], right = box[2], bottom = box[3];
    Point point = {left + (right - left) * across, top + (bottom - top) * down};
    return point;
}

/* Note when the track of each box was seen, and whether it is fresh: not seen before (`seen` below 0), or not for
 * `memory` nanoseconds. */
EXPORT void see_tracks(ptrdiff_t boxes, const int64_t *rows, const int64_t *pts_ns, int64_t memory, int64_t *seen,
                       uint8_t *fresh) {
    for (ptrdiff_t box = 0; box < boxes; box++) {
        int64_t *last = seen + rows[box], now = pts_ns[box];
        fresh[box] = *last == INT64_MIN || now - *last > memory || *last - now > memory;
        *last = now;
    }
}

/* The deviation of the edges of each box, by their second differences: see noise.py. */
EXPORT void measure_noise(ptrdiff_t boxes, const float *xyxy, const int64_t *rows, const uint8_t *fresh,
                          const int64_t *pts_ns, double weight, double largest, double first, double uneven,
                          double per_deviation, double *table, double *noise) {
    for (ptrdiff_t box = 0; box < boxes; box++) {
        const float *now = xyxy + 4 * box;
        double *track = table + COLUMNS * rows[box];
        if (fresh[box])
            for (int column = 0; column < COLUMNS; column++)
                track[column] = 0;
        double seconds = ((double)pts_ns[box] - track[SEEN]) / 1e9, before = track[DURATION], mean = track[MEAN];
        double change = 0;
        for (int edge = 0; edge < 4; edge++) {
            double step = now[edge] - track[BOX + edge];
            change += fabs(step - track[STEP + edge]);
            track[STEP + edge] = step;
            track[BOX + edge] = now[edge];
        }
        if (!fresh[box] && before > 0 && seconds < uneven * before && seconds * uneven > before) {
            double size = change / 4, most = largest * mean + first;
            mean += weight * ((size < most ? size : most) - mean);
        }
        track[DURATION] = fresh[box] ? 0 : seconds;
        track[MEAN] = mean;
        track[SEEN] = (double)pts_ns[box];
        noise[box] = mean / per_deviation;
    }
}

/* Whether a polygon holds a point, by the even-odd rule. */
static int contains(const Point *corners, ptrdiff_t count, Point point) {
    int inside = 0;
    Point from = corners[count - 1];
    for (ptrdiff_t corner = 0; corner < count; corner++) {
        Point to = corners[corner];
        if ((from.y > point.y) != (to.y > point.y))
            inside ^= point.x < (to.x - from.x) * (point.y - from.y) / (to.y - from.y) + from.x;
        from = to;
    }
    return inside;
}

/* The distance from a point to the nearest edge of a polygon. */
static double distance_to(const Point *corners, ptrdiff_t count, Point point) {
    double nearest = INFINITY;
    Point from = corners[count - 1];
    for (ptrdiff_t corner = 0; corner < count; corner++) {
        Point to = corners[corner];
        double along_x = to.x - from.x, along_y = to.y - from.y, x = point.x - from.x, y = point.y - from.y;
        double length = along_x * along_x + along_y * along_y;
        double share = (x * along_x + y * along_y) / (length == 0 ? 1 : length);
        share = share < 0 ? 0 : share > 1 ? 1 : share;
        x -= share * along_x;
        y -= share * along_y;
        double square = x * x + y * y;
        nearest = square < nearest ? square : nearest;
        from = to;
    }
    return sqrt(nearest);
}

/* Note in `marks` which of the shapes need an exact look at a box: its anchor is within their bounds. */
VECTORISED static void mark_near(const float *box, ptrdiff_t count, const double *fractions, const double *bounds,
                                 uint8_t *marks) {
    double left = box[0], top = box[1], width = (double)box[2] - box[0], height = (double)box[3] - box[1];
    const double *across = fractions, *down = fractions + count;
    const double *least_x = bounds, *least_y = bounds + count, *most_x = bounds + 2 * count, *most_y = bounds + 3 * count;
    for (ptrdiff_t shape = 0; shape < count; shape++) {
        double x = left + width * across[shape], y = top + height * down[shape];
        marks[shape] = (x >= least_x[shape]) & (x <= most_x[shape]) & (y >= least_y[shape]) & (y <= most_y[shape]);
    }
}

/* Which boxes have their anchor `inside` each polygon (boxes x polygons): the arrays are those of `judge_zones`. */
EXPORT void inside_each(ptrdiff_t boxes, ptrdiff_t polygons, const float *xyxy, const double *fractions,
                        const Point *corners, const int64_t *first, const double *bounds, uint8_t *inside) {
    for (ptrdiff_t box = 0; box < boxes; box++) {
        uint8_t *own = inside + polygons * box;
        mark_near(xyxy + 4 * box, polygons, fractions, bounds, own);
        for (ptrdiff_t polygon = 0; polygon < polygons; polygon++)
            if (own[polygon]) {
                Point point = anchor_of(xyxy + 4 * box, fractions[polygon], fractions[polygons + polygon]);
                ptrdiff_t count = first[polygon + 1] - first[polygon];
                own[polygon] = (uint8_t)contains(corners + first[polygon], count, point);
            }
    }
}

/* Which boxes are `inside` each zone (boxes x zones), and which of those may have `entered`.
 *
 * Zone z has the corners first[z] to first[z + 1] - 1. Its `bounds` (4 x zones) hold every point that is inside or within
 * its margin; `fractions` (2 x zones) are those of its anchor. Who is inside stays so within the fixed `margins` (pixels)
 * outside. Where `widths` is above 0 (the margin is that many deviations of the box), a track that came or went stays
 * where it is until it is farther from the edge than that: `inside_now` and `unsettled` (rows of the table x zones) hold
 * what was reported of it, and whether it is still that near. */
EXPORT void judge_zones(ptrdiff_t boxes, ptrdiff_t zones, const float *xyxy, const int64_t *rows, const uint8_t *fresh,
                        const double *noise, const double *fractions, const Point *corners, const int64_t *first,
                        const double *bounds, const double *margins, const double *widths, uint8_t *inside_now,
                        uint8_t *unsettled, uint8_t *inside, uint8_t *entered) {
    for (ptrdiff_t box = 0; box < boxes; box++) {
        uint8_t *was = inside_now + zones * rows[box], *open = unsettled + zones * rows[box];
        uint8_t *stay = inside + zones * box, *enter = entered + zones * box;
        if (fresh[box]) {
            memset(was, 0, (size_t)zones);
            memset(open, 0, (size_t)zones);
        }
        mark_near(xyxy + 4 * box, zones, fractions, bounds, stay);
        for (ptrdiff_t zone = 0; zone < zones; zone++) {
            enter[zone] = 0;
            if (!(stay[zone] | was[zone] | open[zone]))
                continue;
            Point point = anchor_of(xyxy + 4 * box, fractions[zone], fractions[zones + zone]);
            const Point *own = corners + first[zone];
            ptrdiff_t count = first[zone + 1] - first[zone];
            int now = contains(own, count, point), stays = 0;
            if (!fresh[box] && widths[zone] > 0 && (now != was[zone] || open[zone])) {
                double width = widths[zone] * noise[box];
                int is_far = width <= 0 || distance_to(own, count, point) > width;
                if (open[zone] && !is_far)
                    now = was[zone];
                open[zone] = !is_far && (now != was[zone] || open[zone]);
            }
            if (!now && margins[zone] > 0)
                stays = distance_to(own, count, point) < margins[zone];
            was[zone] = enter[zone] = (uint8_t)now;
            stay[zone] = (uint8_t)(now | stays);
        }
    }
}

/* Cross product of a segment (x1 y1 x2 y2, each of all lines) and the way from its beginning to a point. */
static double side_of(const double *segments, ptrdiff_t lines, ptrdiff_t line, Point point) {
    double x = segments[line], y = segments[lines + line];
    return (segments[2 * lines + line] - x) * (point.y - y) - (segments[3 * lines + line] - y) * (point.x - x);
}

/* Whether a step meets a segment, ends included; `cross_before` and `cross_now` are the sides of both its ends. */
static int meets(const double *segments, ptrdiff_t lines, ptrdiff_t line, Point before, Point now, double cross_before,
                 double cross_now) {
    double apart = cross_before - cross_now;
    if (!(cross_before * cross_now <= 0) || apart == 0)
        return 0;
    double start_x = segments[line], start_y = segments[lines + line], share = cross_before / apart;
    double along_x = segments[2 * lines + line] - start_x, along_y = segments[3 * lines + line] - start_y;
    double x = before.x + share * (now.x - before.x) - start_x, y = before.y + share * (now.y - before.y) - start_y;
    double position = x * along_x + y * along_y;
    return position >= 0 && position <= along_x * along_x + along_y * along_y;
}

/* A box as its upper left corner and its size. */
typedef struct {
    double left, top, width, height;
} Extent;

static Extent extent_of(const float *box) {
    Extent extent = {box[0], box[1], (double)box[2] - box[0], (double)box[3] - box[1]};
    return extent;
}

/* `side_of` the anchor of a box. */
static inline double side_of_box(Extent box, const double *segments, const double *fractions, ptrdiff_t lines,
                                 ptrdiff_t line) {
    double start_x = segments[line], start_y = segments[lines + line];
    double along_x = segments[2 * lines + line] - start_x, along_y = segments[3 * lines + line] - start_y;
    double x = box.left + box.width * fractions[line], y = box.top + box.height * fractions[lines + line];
    return along_x * (y - start_y) - along_y * (x - start_x);
}

/* Note in `marks` at which lines something happens to a track: it is not, as before, on the `sides` it was on. */
VECTORISED static void mark_turns(const float *before, const float *now, ptrdiff_t lines, const double *fractions,
                                  const double *segments, const double *near, const int8_t *sides, uint8_t *marks) {
    Extent from = extent_of(before), to = extent_of(now);
    for (ptrdiff_t line = 0; line < lines; line++) {
        double cross = side_of_box(to, segments, fractions, lines, line), side = sides[line];
        double former = side_of_box(from, segments, fractions, lines, line);
        marks[line] = !((cross * side > near[line]) & (former * side > 0));
    }
}

/* Note in `marks` at which lines a step is on both sides, or on the line: it may meet the segment. */
VECTORISED static void mark_steps(const float *before, const float *now, ptrdiff_t lines, const double *fractions,
                                  const double *segments, uint8_t *marks) {
    Extent from = extent_of(before), to = extent_of(now);
    for (ptrdiff_t line = 0; line < lines; line++) {
        double cross = side_of_box(to, segments, fractions, lines, line);
        marks[line] = cross * side_of_box(from, segments, fractions, lines, line) <= 0;
    }
}

/* Which boxes have stepped, from the one `before` (boxes x 4), over or onto which segments (boxes x lines), ends included.
 * A step that begins on a line does not count: the one that led there did, and who appeared there has crossed nothing. */
EXPORT void steps_meet(ptrdiff_t boxes, ptrdiff_t lines, const float *before, const float *xyxy, const double *fractions,
                       const double *segments, uint8_t *met) {
    for (ptrdiff_t box = 0; box < boxes; box++) {
        const float *former = before + 4 * box, *now = xyxy + 4 * box;
        uint8_t *own = met + lines * box;
        mark_steps(former, now, lines, fractions, segments, own);
        for (ptrdiff_t line = 0; line < lines; line++)
            if (own[line]) {
                Point from = anchor_of(former, fractions[line], fractions[lines + line]);
                Point to = anchor_of(now, fractions[line], fractions[lines + line]);
                double cross = side_of(segments, lines, line, to), before_it = side_of(segments, lines, line, from);
                own[line] = before_it != 0 && meets(segments, lines, line, from, to, before_it, cross);
            }
    }
}

/* The sign of the side that each box has reached by crossing each line (boxes x lines), or 0.
 *
 * A side is strict when it is farther from the line than `near` (the margin times the line's length). `segments` (4 x
 * lines) and `fractions` (2 x lines) hold each coordinate of all lines. The table holds, by row, the last box (4), and by
 * line the last strict `side`, whether a step since then `met` the segment, and, for a track that crossed and is not yet
 * farther from the line than `widths` deviations of its box, the side that it reached (`unsettled`): the next crossing
 * counts when it is. */
EXPORT void cross_lines(ptrdiff_t boxes, ptrdiff_t lines, const float *xyxy, const int64_t *rows, const uint8_t *fresh,
                        const double *noise, const double *fractions, const double *segments, const double *near,
                        const double *lengths, const double *widths, float *last, int8_t *side, uint8_t *met,
                        int8_t *unsettled, int8_t *crossed) {
    for (ptrdiff_t box = 0; box < boxes; box++) {
        const float *now = xyxy + 4 * box;
        float *before = last + 4 * rows[box];
        int8_t *sides = side + lines * rows[box], *open = unsettled + lines * rows[box], *signs = crossed + lines * box;
        uint8_t *has_met = met + lines * rows[box];
        if (fresh[box]) {
            memset(sides, 0, (size_t)lines);
            memset(open, 0, (size_t)lines);
            memset(has_met, 0, (size_t)lines);
            memcpy(before, now, 4 * sizeof *now);
        }
        mark_turns(before, now, lines, fractions, segments, near, sides, (uint8_t *)signs);
        for (ptrdiff_t line = 0; line < lines; line++) {
            if (!(signs[line] | has_met[line] | open[line]))
                continue;
            Point point = anchor_of(now, fractions[line], fractions[lines + line]);
            Point former = anchor_of(before, fractions[line], fractions[lines + line]);
            double cross = side_of(segments, lines, line, point), cross_before = side_of(segments, lines, line, former);
            int8_t reached = fabs(cross) > near[line] ? (cross > 0 ? 1 : -1) : 0, sign = 0;
            has_met[line] |= (uint8_t)meets(segments, lines, line, former, point, cross_before, cross);
            if (reached) {
                sign = has_met[line] && reached == -sides[line] ? reached : 0;
                sides[line] = reached;
                has_met[line] = 0;
            }
            if (sign || open[line]) {
                double distance = cross / lengths[line];
                int is_far = fabs(distance) > widths[line] * noise[box];
                if (!open[line]) {
                    open[line] = is_far ? 0 : sign;
                } else {
                    int8_t other = (int8_t)-open[line];
                    sign = is_far && other * distance > 0 ? other : 0;
                    open[line] = is_far ? 0 : open[line];
                }
            }
            signs[line] = sign;
        }
        memcpy(before, now, 4 * sizeof *now);
    }
}

/* Extremes of a path, in order of time: a ring. `next` is the time of the position after it. */
enum { MOST_EXTREMES = 20, STEPS_OF_A_SIDE = 16 };

typedef struct {
    int64_t first, count;
    struct {
        int64_t time, value, next;
    } at[MOST_EXTREMES];
} Extremes;

/* What is known of the path of one object: see standing.py. The lowest and the highest of x, then of y. */
typedef struct {
    int64_t since, last;
    Extremes extremes[4];
} Standing;

static void drop_first(Extremes *extremes) {
    extremes->first = (extremes->first + 1) % MOST_EXTREMES;
    extremes->count--;
}

static ptrdiff_t last_of(const Extremes *extremes) {
    return (ptrdiff_t)((extremes->first + extremes->count - 1) % MOST_EXTREMES);
}

static void append(Extremes *extremes, int64_t now, int64_t value) {
    if (extremes->count == MOST_EXTREMES)
        drop_first(extremes);
    extremes->count++;
    ptrdiff_t last = last_of(extremes);
    extremes->at[last].time = extremes->at[last].next = now;
    extremes->at[last].value = value;
}

/* Since when (`since`, nanoseconds) each of some objects has stood, with its position now: the anchor of the box of that
 * number in an area with `fractions` (areas x 2), of which only the path of its `spans` counts. `rows` are those of the
 * objects in `table` and `sides`; `table` has a `since` of INT64_MIN where an object is new. */
EXPORT void stand(ptrdiff_t objects, int64_t now, const int64_t *rows, const int64_t *boxes, const int64_t *areas,
                  const float *xyxy, const double *fractions, const double *sides, const int64_t *spans, Standing *table,
                  int64_t *since) {
    for (ptrdiff_t object = 0; object < objects; object++) {
        Standing *own = table + rows[object];
        const double *anchor = fractions + 2 * areas[object];
        Point point = anchor_of(xyxy + 4 * boxes[object], anchor[0], anchor[1]);
        int64_t oldest = now - spans[areas[object]];
        oldest = own->last < oldest ? own->last : oldest;
        own->since = own->since == INT64_MIN ? now : own->since;
        for (int axis = 0; axis < 2; axis++) {
            double position = axis ? point.y : point.x;
            int64_t value = (int64_t)rint(position * STEPS_OF_A_SIDE / sides[rows[object]]);
            Extremes *lowest = own->extremes + 2 * axis, *highest = lowest + 1;
            for (Extremes *extremes = lowest; extremes <= highest; extremes++) {
                if (extremes->count)
                    extremes->at[last_of(extremes)].next = now;
                while (extremes->count && extremes->at[extremes->first].time < oldest)
                    drop_first(extremes);
            }
            while (lowest->count && highest->count) {
                int64_t low = lowest->at[lowest->first].value, high = highest->at[highest->first].value;
                if ((value > high ? value : high) - (value < low ? value : low) <= STEPS_OF_A_SIDE)
                    break;
                int is_low = lowest->at[lowest->first].time < highest->at[highest->first].time;
                Extremes *earlier = is_low ? lowest : highest;
                int64_t next = earlier->at[earlier->first].next;
                own->since = next > own->since ? next : own->since;
                drop_first(earlier);
            }
            while (lowest->count && lowest->at[last_of(lowest)].value >= value)
                lowest->count--;
            while (highest->count && highest->at[last_of(highest)].value <= value)
                highest->count--;
            append(lowest, now, value);
            append(highest, now, value);
        }
        own->last = now;
        since[object] = own->since;
    }
}
