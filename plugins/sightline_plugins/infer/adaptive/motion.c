/* Which cells of an image have changed since the detector ran: see motion.py. */
#include "native/native.h"

enum { LEVELS = 256, APART = 4 };

/* The upper median of `count` values from -255 to 255, of which each is counted 255 places on. */
static int median(const int32_t counted[2 * LEVELS], ptrdiff_t count) {
    ptrdiff_t left = count / 2 + 1;
    int value = 0;
    for (; value < 2 * LEVELS - 1; value++) {
        left -= counted[value];
        if (left <= 0)
            break;
    }
    return value - (LEVELS - 1);
}

VECTORISED static ptrdiff_t mark(ptrdiff_t cells, const uint8_t *now, const uint8_t *at_run, int shared, int most,
                                 uint8_t *changed) {
    int32_t count = 0;
    for (ptrdiff_t cell = 0; cell < cells; cell++) {
        int expected = at_run[cell] + shared;
        expected = expected < 0 ? 0 : expected > 255 ? 255 : expected;
        int difference = now[cell] - expected;
        changed[cell] = (uint8_t)(difference > most || -difference > most);
        count += changed[cell];
    }
    return count;
}

/* Compare cells (height, width), at least one, with those of the image before, and of the last run. The median difference
 * of every fourth cell with the image before is the noise, which follows by a tenth; that with the last run is a change
 * that all cells share. Write which cells have changed by more than `least` grey levels and `noises` times the noise, and
 * return how many. */
EXPORT ptrdiff_t compare_cells(ptrdiff_t height, ptrdiff_t width, const uint8_t *now, const uint8_t *before,
                               const uint8_t *at_run, double least, double noises, double *noise, uint8_t *changed) {
    int32_t trembling[2 * LEVELS] = {0}, since_run[2 * LEVELS] = {0};
    ptrdiff_t count = 0;
    for (ptrdiff_t row = 0; row < height; row += APART)
        for (ptrdiff_t cell = row * width; cell < (row + 1) * width; cell += APART, count++) {
            int difference = now[cell] - before[cell];
            trembling[LEVELS - 1 + (difference < 0 ? -difference : difference)]++;
            since_run[LEVELS - 1 + now[cell] - at_run[cell]]++;
        }
    *noise += (median(trembling, count) - *noise) * 0.1;
    double most = *noise * noises > least ? *noise * noises : least;
    return mark(height * width, now, at_run, median(since_run, count), (int)most, changed);
}
