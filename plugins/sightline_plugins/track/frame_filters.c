/* Filters that take one step a frame, of tracks of the literature; motion.py describes them. Means are (N, 2, 4), and
 * covariances (N, 3, columns), where one column stands for all four coordinates. Their rows may lie apart. */

#include "native/native.h"

/* Where a row of an array begins. */
static double *row_of(const Array *array, int64_t row) { return (double *)(array->data + row * array->strides[0]); }

/* Sides do not become shorter than `least_side`. */
static void keep_sides(double *mean, double least_side) {
    for (int place = 2; place < 4; place++)
        if (mean[place] < least_side)
            mean[place] = least_side;
}

/* Move the filters in `rows` (count), or the first `count` ones (NULL), by a frame. `gained` (count or 1, 2, columns) is
 * the variance that position and velocity gain, with as many `gained_rows`. */
EXPORT void move_filters(const Array *means, const Array *covariances, const int64_t *rows, ptrdiff_t count,
                         const double *gained, ptrdiff_t gained_rows, double least_side) {
    intptr_t columns = covariances->shape[2];
    for (ptrdiff_t place = 0; place < count; place++) {
        int64_t row = rows ? rows[place] : place;
        double *mean = row_of(means, row), *position = row_of(covariances, row);
        double *both = position + columns, *velocity = both + columns;
        const double *noise = gained + (gained_rows > 1 ? 2 * columns * place : 0);
        for (int coordinate = 0; coordinate < 4; coordinate++)
            mean[coordinate] += mean[4 + coordinate];
        for (intptr_t column = 0; column < columns; column++) {
            position[column] += 2 * both[column] + velocity[column] + noise[column];
            both[column] += velocity[column];
            velocity[column] += noise[columns + column];
        }
        keep_sides(mean, least_side);
    }
}

/* Correct the filters in `rows` (count) by the positions (count, 4) of detections, whose variance is `noise`
 * (count or 1, columns), with as many `noise_rows`. */
EXPORT void correct_rows(const Array *means, const Array *covariances, const int64_t *rows, ptrdiff_t count,
                         const double *positions, const double *noise, ptrdiff_t noise_rows, double least_side) {
    intptr_t columns = covariances->shape[2];
    for (ptrdiff_t place = 0; place < count; place++) {
        double *mean = row_of(means, rows[place]), *position = row_of(covariances, rows[place]);
        double *both = position + columns, *velocity = both + columns, gain[2][4];
        const double *variance = noise + (noise_rows > 1 ? columns * place : 0);
        for (intptr_t column = 0; column < columns; column++) {
            double whole = position[column] + variance[column];
            gain[0][column] = position[column] / whole;
            gain[1][column] = both[column] / whole;
            velocity[column] -= gain[1][column] * both[column];
            both[column] -= gain[0][column] * both[column];
            position[column] -= gain[0][column] * position[column];
        }
        for (int coordinate = 0; coordinate < 4; coordinate++) {
            intptr_t column = columns == 1 ? 0 : coordinate;
            double surprise = positions[4 * place + coordinate] - mean[coordinate];
            mean[coordinate] += gain[0][column] * surprise;
            mean[4 + coordinate] += gain[1][column] * surprise;
        }
        keep_sides(mean, least_side);
    }
}
