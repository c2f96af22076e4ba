/* One-to-one assignment with the largest sum of values, by shortest augmenting paths.
 *
 * R. Jonker and A. Volgenant, "A shortest augmenting path algorithm for dense and sparse linear assignment problems",
 * Computing 38 (1987), without its initialisation: rows are added one by one, and each takes the cheapest way to a free
 * column, along which rows that have a column exchange it. A row may also end without a column: a column of its own,
 * which costs `-alone` and which no other row can take, so that only the rows and columns that compete are searched. */

#include "track/track.h"

#include <math.h>

/* Shorten the distances of columns by the way over `row`, which is at `reached`. Return the nearest column whose
 * distance is not final, -1 for none. */
static ptrdiff_t scan_row(const float *value, ptrdiff_t columns, double alone, int64_t row, double reached,
                          double potential, AssignmentColumn *column) {
    ptrdiff_t nearest = -1;
    for (ptrdiff_t place = columns - 1; place >= 0; place--) {
        AssignmentColumn *other = &column[place];
        if (other->is_final)
            continue;
        if (value[place] > alone) {
            double distance = reached - value[place] - potential - other->potential;
            if (distance < other->distance) {
                other->distance = distance;
                other->from = row;
            }
        }
        if (other->distance < (nearest < 0 ? INFINITY : column[nearest].distance))
            nearest = place;
    }
    return nearest;
}

/* Change the potentials after a path of length `shortest` was found for `added`, so that assigned pairs cost 0. */
static void change_potentials(ptrdiff_t columns, int64_t added, double shortest, AssignmentRow *row,
                              AssignmentColumn *column) {
    row[added].potential += shortest;
    for (ptrdiff_t place = 0; place < columns; place++)
        if (column[place].is_final) {
            column[place].potential += column[place].distance - shortest;
            row[column[place].row].potential += shortest - column[place].distance;
        }
}

/* Give `place` (-1 for none) to the row before it on the path, and so on to the row that was added. */
static void exchange(ptrdiff_t place, int64_t row, int64_t added, int64_t *column_of, AssignmentColumn *column) {
    for (;;) {
        if (place >= 0) {
            row = column[place].from;
            column[place].row = row;
        }
        ptrdiff_t before = column_of[row];
        column_of[row] = place;
        if (row == added)
            return;
        place = before;
    }
}

/* Add a row to the assignment. */
static void add_row(const float *value, ptrdiff_t columns, double alone, int64_t added, int64_t *column_of,
                    AssignmentRow *row, AssignmentColumn *column) {
    for (ptrdiff_t place = 0; place < columns; place++) {
        column[place].distance = INFINITY;
        column[place].is_final = 0;
    }
    int64_t current = added, leaving = -1;
    double reached = 0, least = INFINITY;
    for (;;) {
        double alone_here = reached - alone - row[current].potential;
        if (alone_here < least) {
            least = alone_here;
            leaving = current;
        }
        ptrdiff_t nearest = scan_row(value + current * columns, columns, alone, current, reached,
                                     row[current].potential, column);
        if (nearest < 0 || column[nearest].distance >= least) {
            if (leaving >= 0) {
                change_potentials(columns, added, least, row, column);
                exchange(-1, leaving, added, column_of, column);
            }
            return;
        }
        reached = column[nearest].distance;
        if (column[nearest].row < 0) {
            change_potentials(columns, added, reached, row, column);
            exchange(nearest, -1, added, column_of, column);
            return;
        }
        column[nearest].is_final = 1;
        current = column[nearest].row;
    }
}

/* Write to `column_of` (rows) the column of each row, -1 for none, so that the sum of `value` (rows x columns) over the
 * pairs, and of `alone` over the rows without a column, is the largest. Pairs worth `alone` or less, or NaN, never
 * match. With `alone` minus infinity as many rows as there can be have a column; there must not be more rows than
 * columns then. Of rows or columns that are equally good the last one is taken: the younger track. The scratch spaces are for so many rows and columns. */
EXPORT void assign_pairs(const float *value, ptrdiff_t rows, ptrdiff_t columns, double alone, int64_t *column_of,
                         AssignmentRow *row_scratch, AssignmentColumn *column_scratch) {
    for (ptrdiff_t place = 0; place < columns; place++) {
        column_scratch[place].potential = 0;
        column_scratch[place].row = -1;
    }
    for (ptrdiff_t row = 0; row < rows; row++) {
        row_scratch[row].potential = 0;
        column_of[row] = -1;
    }
    for (ptrdiff_t row = rows - 1; row >= 0; row--)
        add_row(value, columns, alone, row, column_of, row_scratch, column_scratch);
}
