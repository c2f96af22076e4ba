/* What the C sources of trackers share. */
#ifndef SIGHTLINE_TRACK_H
#define SIGHTLINE_TRACK_H

#include "native/native.h"

/* Scratch of a row of an assignment. `potential` is its dual value. */
typedef struct {
    double potential;
} AssignmentRow;

/* Scratch of a column of an assignment: its dual value, how far it is from the row that is being added, the row before
 * it on the shortest path, the row that it is assigned to (-1 for none), and whether its distance is final. */
typedef struct {
    double potential, distance;
    int64_t from, row, is_final;
} AssignmentColumn;

_Static_assert(sizeof(AssignmentRow) == 8 && sizeof(AssignmentColumn) == 40, "the scratch space of association.py");

/* See assignment.c. */
void assign_pairs(const float *value, ptrdiff_t rows, ptrdiff_t columns, double alone, int64_t *column_of,
                  AssignmentRow *row_scratch, AssignmentColumn *column_scratch);

#endif
