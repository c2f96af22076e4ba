/* The speed of tracks on the ground, with its uncertainty: see speed_fit.py. One track after another, in double precision;
 * sums are in the order of the positions, so results are the same on every processor. */
#include "native/native.h"

#include <math.h>

enum { SAMPLES = 32 };

/* The ground of an area: a homography from pixels to metres, row by row, and how much a pixel of the edges of boxes
 * moves the anchor, squared, across and down. */
typedef struct {
    double matrix[9], spread[2];
} Ground;

/* Of the positions of a track: how many there were, when, and where. The newest is at `count - 1` modulo `SAMPLES`. */
typedef struct {
    int64_t count;
    const int64_t *times;
    const double *points;
} Track;

/* Positions on the ground in metres and seconds, with the inverse covariance of each, which is 0 for one that is not
 * used: `weight` are its entries xx, xy and yy. */
typedef struct {
    double seconds[SAMPLES], x[SAMPLES], y[SAMPLES], xx[SAMPLES], xy[SAMPLES], yy[SAMPLES];
} Places;

typedef struct {
    double xx, xy, yy;
} Symmetric;

static Symmetric inverse_of(Symmetric of) {
    double determinant = of.xx * of.yy - of.xy * of.xy;
    Symmetric inverse = {of.yy / determinant, -of.xy / determinant, of.xx / determinant};
    return inverse;
}

/* Note in `used` (1 or 0) which positions are used for a speed at the time `now`: those in the window, or the last `least`
 * where frames come too slowly for it, in `longest`. Returns how many; 0 where they are too few, or in less than half of
 * the window. */
static int choose(const Track *track, int64_t now, int64_t window, int64_t longest, int least, double *used,
                  double *seconds) {
    int count = 0;
    int64_t span = 0;
    for (int sample = 0; sample < SAMPLES; sample++) {
        int64_t age = now - track->times[sample];
        int64_t number = (track->count - 1 - sample) % SAMPLES;
        number += number < 0 ? SAMPLES : 0;
        int is_used = number < track->count && (age <= window || (number < least && age <= longest));
        used[sample] = is_used;
        seconds[sample] = is_used ? (double)age / -1e9 : 0;
        count += is_used;
        span = is_used && age > span ? age : span;
    }
    return count >= least && span >= window / 2 ? count : 0;
}

/* Take positions to the ground; one that is not used lies at any point that is. */
VECTORISED static void place(const Track *track, const Ground *ground, const double *used, Places *places) {
    const double *matrix = ground->matrix, *points = track->points;
    double across = 1 / ground->spread[0], down = 1 / ground->spread[1];
    ptrdiff_t newest = (ptrdiff_t)((track->count - 1) % SAMPLES);
    double known_x = points[2 * newest], known_y = points[2 * newest + 1];
    for (int sample = 0; sample < SAMPLES; sample++) {
        double own_x = points[2 * sample], own_y = points[2 * sample + 1];
        double x = used[sample] != 0 ? own_x : known_x, y = used[sample] != 0 ? own_y : known_y;
        double scale = 1 / (x * matrix[6] + y * matrix[7] + matrix[8]);
        double place_x = (x * matrix[0] + y * matrix[1] + matrix[2]) * scale;
        double place_y = (x * matrix[3] + y * matrix[4] + matrix[5]) * scale;
        double a = (matrix[0] - place_x * matrix[6]) * scale, b = (matrix[1] - place_x * matrix[7]) * scale;
        double c = (matrix[3] - place_y * matrix[6]) * scale, d = (matrix[4] - place_y * matrix[7]) * scale;
        double weight = 1 / (a * d - b * c);
        weight *= weight * used[sample];
        places->x[sample] = place_x;
        places->y[sample] = place_y;
        places->xx[sample] = (d * d * across + c * c * down) * weight;
        places->xy[sample] = -(b * d * across + a * c * down) * weight;
        places->yy[sample] = (b * b * across + a * a * down) * weight;
    }
}

/* Fit a uniform motion to places by generalised least squares: its `velocity`, the covariance of that for boxes whose
 * edges have the deviation 1, and the sum of the squares of what is left. */
static Symmetric fit(const Places *places, double *velocity, double *squares) {
    double origin_x = places->x[0], origin_y = places->y[0];
    Symmetric moment[3] = {{0, 0, 0}, {0, 0, 0}, {0, 0, 0}};
    double pull[2] = {0, 0}, turn[2] = {0, 0};
    for (int sample = 0; sample < SAMPLES; sample++) {
        double time = places->seconds[sample], x = places->x[sample] - origin_x, y = places->y[sample] - origin_y;
        double xx = places->xx[sample], xy = places->xy[sample], yy = places->yy[sample];
        double pull_x = xx * x + xy * y, pull_y = xy * x + yy * y;
        moment[0].xx += xx;
        moment[0].xy += xy;
        moment[0].yy += yy;
        moment[1].xx += time * xx;
        moment[1].xy += time * xy;
        moment[1].yy += time * yy;
        moment[2].xx += time * time * xx;
        moment[2].xy += time * time * xy;
        moment[2].yy += time * time * yy;
        pull[0] += pull_x;
        pull[1] += pull_y;
        turn[0] += time * pull_x;
        turn[1] += time * pull_y;
    }
    /* The velocity alone, without the place at the time 0: `first` is moment[1] times the inverse of moment[0]. */
    Symmetric inverse = inverse_of(moment[0]), one = moment[1];
    double first[4] = {one.xx * inverse.xx + one.xy * inverse.xy, one.xx * inverse.xy + one.xy * inverse.yy,
                       one.xy * inverse.xx + one.yy * inverse.xy, one.xy * inverse.xy + one.yy * inverse.yy};
    Symmetric rest = {moment[2].xx - (first[0] * one.xx + first[1] * one.xy),
                      moment[2].xy - (first[0] * one.xy + first[1] * one.yy),
                      moment[2].yy - (first[2] * one.xy + first[3] * one.yy)};
    Symmetric covariance = inverse_of(rest);
    double turn_x = turn[0] - (first[0] * pull[0] + first[1] * pull[1]);
    double turn_y = turn[1] - (first[2] * pull[0] + first[3] * pull[1]);
    double across = covariance.xx * turn_x + covariance.xy * turn_y;
    double down = covariance.xy * turn_x + covariance.yy * turn_y;
    double pull_x = pull[0] - (one.xx * across + one.xy * down), pull_y = pull[1] - (one.xy * across + one.yy * down);
    double start_x = origin_x + inverse.xx * pull_x + inverse.xy * pull_y;
    double start_y = origin_y + inverse.xy * pull_x + inverse.yy * pull_y;
    *squares = 0;
    for (int sample = 0; sample < SAMPLES; sample++) {
        double x = places->x[sample] - start_x - places->seconds[sample] * across;
        double y = places->y[sample] - start_y - places->seconds[sample] * down;
        *squares += places->xx[sample] * x * x + 2 * places->xy[sample] * x * y + places->yy[sample] * y * y;
    }
    velocity[0] = across;
    velocity[1] = down;
    return covariance;
}

/* Student's t of a quantile `z` of the normal distribution (Abramowitz and Stegun, 26.7.5). */
static double student(double z, double degrees) {
    double square = z * z, inverse = 1 / degrees;
    double first = z * (square + 1) / 4, second = z * ((5 * square + 16) * square + 3) / 96;
    double third = z * (((3 * square + 19) * square + 17) * square - 15) / 384;
    return z + inverse * (first + inverse * (second + inverse * third));
}

/* The speed of each of some tracks now, and its uncertainty, both NaN where positions are too few.
 *
 * `rows` are those of the tracks in the table (`counts`, `times`, `points`), `areas` the numbers of their areas, which have
 * a `ground`, a `window` and the `longest` that it may become. `noise` is the deviation of the edges of the boxes; `prior`,
 * `least_variance`, `slow` and `quantile` are the constants of speed_fit.py. */
EXPORT void fit_speeds(ptrdiff_t tracks, int64_t now, int64_t least, const int64_t *rows, const int64_t *areas,
                       const int64_t *counts, const int64_t *times, const double *points, const Ground *grounds,
                       const int64_t *windows, const int64_t *longest, const double *noise, double prior,
                       double least_variance, double slow, double quantile, double *speeds, double *uncertainties) {
    for (ptrdiff_t number = 0; number < tracks; number++) {
        ptrdiff_t row = (ptrdiff_t)rows[number], area = (ptrdiff_t)areas[number];
        Track track = {counts[row], times + SAMPLES * row, points + 2 * SAMPLES * row};
        Places places;
        double used[SAMPLES], velocity[2], squares;
        int count = choose(&track, now, windows[area], longest[area], (int)least, used, places.seconds);
        if (!count) {
            speeds[number] = uncertainties[number] = NAN;
            continue;
        }
        place(&track, grounds + area, used, &places);
        Symmetric covariance = fit(&places, velocity, &squares);
        double degrees = 2.0 * count - 4, own = squares / degrees;
        double blended = (prior * noise[number] * noise[number] + squares) / (prior + degrees);
        double variance = own > blended ? own : blended;
        variance = variance > least_variance ? variance : least_variance;
        double speed = hypot(velocity[0], velocity[1]), length = speed == 0 ? 1 : speed;
        double x = velocity[0] / length, y = velocity[1] / length;
        double along = (covariance.xx * x * x + 2 * covariance.xy * x * y + covariance.yy * y * y) * variance;
        double total = (covariance.xx + covariance.yy) * variance;
        speeds[number] = speed;
        uncertainties[number] = sqrt(speed * speed > slow * total ? along : total) * student(quantile, degrees);
    }
}
