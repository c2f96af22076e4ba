/* A round of matching over several streams at once; cascade.py describes the rounds. Tracks and detections stand stream by
 * stream, and only those of the same stream are pairs. Pairs come stream by stream, each track with all detections. */

#include "track/track.h"

#include <math.h>

enum { LARGEST_SUM, IN_TURN, GREEDY };

/* Scratch for the pairs of a stream: values (pairs), and rows and columns of an assignment, of which there are no more
 * than tracks or detections. */
typedef struct {
    float *value;
    int64_t *column_of;
    AssignmentRow *row;
    AssignmentColumn *column;
} Scratch;

/* The pairs of a stream: similarity (rows, columns), and what is added to it, or NULL. */
typedef struct {
    const float *similarity, *preference;
    ptrdiff_t rows, columns;
} Block;

/* List the pairs of tracks and detections that are open, `rows` and `columns` of each. Return how many there are. */
EXPORT ptrdiff_t list_pairs(const uint8_t *open_track, const int64_t *track_stream, ptrdiff_t tracks,
                            const uint8_t *open_detection, const int64_t *detection_stream, ptrdiff_t detections,
                            int64_t *rows, int64_t *columns) {
    ptrdiff_t count = 0, first = 0;
    for (ptrdiff_t row = 0; row < tracks; row++) {
        while (first < detections && detection_stream[first] < track_stream[row])
            first++;
        if (!open_track[row])
            continue;
        for (ptrdiff_t column = first; column < detections && detection_stream[column] == track_stream[row]; column++)
            if (open_detection[column]) {
                rows[count] = row;
                columns[count++] = column;
            }
    }
    return count;
}

/* Write the overlap of pairs of boxes. */
EXPORT void overlap_pairs(const float *one, const int64_t *rows, const float *other, const int64_t *columns,
                          ptrdiff_t count, float *overlap) {
    for (ptrdiff_t pair = 0; pair < count; pair++)
        overlap_boxes(one + 4 * rows[pair], 1, other + 4 * columns[pair], 1, overlap + pair);
}

/* Let every row take the only column that it has anything in common with. Return whether no column is wanted twice. */
static int take_only(const Block *block, int64_t *column_of, AssignmentColumn *column) {
    for (ptrdiff_t place = 0; place < block->columns; place++)
        column[place].row = -1;
    for (ptrdiff_t row = 0; row < block->rows; row++) {
        column_of[row] = -1;
        for (ptrdiff_t place = 0; place < block->columns; place++) {
            if (!(block->similarity[row * block->columns + place] > 0))
                continue;
            if (column_of[row] >= 0 || column[place].row >= 0)
                return 0;
            column_of[row] = place;
            column[place].row = row;
        }
    }
    return 1;
}

static float value_of(const Block *block, ptrdiff_t place) {
    return block->preference ? block->similarity[place] + block->preference[place] : block->similarity[place];
}

/* Assign as many rows as there can be, with the largest sum of values. */
static void take_largest_sum(const Block *block, int64_t *column_of, const Scratch *scratch) {
    ptrdiff_t rows = block->rows, columns = block->columns;
    if (rows <= columns) {
        for (ptrdiff_t place = 0; place < rows * columns; place++)
            scratch->value[place] = value_of(block, place);
        assign_pairs(scratch->value, rows, columns, -INFINITY, column_of, scratch->row, scratch->column);
        return;
    }
    int64_t *row_of = scratch->column_of + rows;
    for (ptrdiff_t row = 0; row < rows; row++)
        for (ptrdiff_t column = 0; column < columns; column++)
            scratch->value[column * rows + row] = value_of(block, row * columns + column);
    assign_pairs(scratch->value, columns, rows, -INFINITY, row_of, scratch->row, scratch->column);
    for (ptrdiff_t row = 0; row < rows; row++)
        column_of[row] = -1;
    for (ptrdiff_t column = 0; column < columns; column++)
        if (row_of[column] >= 0)
            column_of[row_of[column]] = column;
}

/* Let each row in turn take the most similar column that is left, from `least` on. */
static void take_in_turn(const Block *block, float least, int64_t *column_of, AssignmentColumn *column) {
    for (ptrdiff_t place = 0; place < block->columns; place++)
        column[place].row = -1;
    for (ptrdiff_t row = 0; row < block->rows; row++) {
        const float *similarity = block->similarity + row * block->columns;
        column_of[row] = -1;
        for (ptrdiff_t place = 0; place < block->columns; place++)
            if (column[place].row < 0 && similarity[place] >= least && similarity[place] > 0 &&
                (column_of[row] < 0 || similarity[place] > similarity[column_of[row]]))
                column_of[row] = place;
        if (column_of[row] >= 0)
            column[column_of[row]].row = row;
    }
}

/* Take the most similar pair from `least` on, then the next one among the rest; of equal ones the first. */
static void take_greedily(const Block *block, float least, int64_t *column_of, AssignmentColumn *column) {
    for (ptrdiff_t row = 0; row < block->rows; row++)
        column_of[row] = -1;
    for (ptrdiff_t place = 0; place < block->columns; place++)
        column[place].row = -1;
    for (;;) {
        ptrdiff_t best_row = -1, best_column = -1;
        float best = 0;
        for (ptrdiff_t row = 0; row < block->rows; row++) {
            if (column_of[row] >= 0)
                continue;
            for (ptrdiff_t place = 0; place < block->columns; place++) {
                float similarity = block->similarity[row * block->columns + place];
                if (column[place].row < 0 && similarity >= least && similarity > best) {
                    best = similarity;
                    best_row = row;
                    best_column = place;
                }
            }
        }
        if (best_row < 0)
            return;
        column_of[best_row] = best_column;
        column[best_column].row = best_row;
    }
}

/* Match `count` pairs as `list_pairs` lists them, by their similarity and, for the largest sum, what is preferred
 * beside it (NULL for nothing). Pairs need a similarity of `least`. The numbers of the pairs that match go to `matched`;
 * return how many there are. `column_of` has room for all tracks and detections. */
EXPORT ptrdiff_t match_pairs(const int64_t *rows, const int64_t *track_stream, ptrdiff_t count, const float *similarity,
                             const float *preference, float least, int way, float *value, int64_t *column_of,
                             AssignmentRow *row_scratch, AssignmentColumn *column_scratch, int64_t *matched) {
    const Scratch scratch = {value, column_of, row_scratch, column_scratch};
    ptrdiff_t found = 0;
    for (ptrdiff_t first = 0, end = 0; first < count; first = end) {
        ptrdiff_t columns = 0;
        while (first + columns < count && rows[first + columns] == rows[first])
            columns++;
        while (end < count && track_stream[rows[end]] == track_stream[rows[first]])
            end++;
        const Block block = {similarity + first, preference ? preference + first : 0, (end - first) / columns, columns};
        if (way == IN_TURN)
            take_in_turn(&block, least, column_of, column_scratch);
        else if (way == GREEDY)
            take_greedily(&block, least, column_of, column_scratch);
        else if (preference || !take_only(&block, column_of, column_scratch))
            take_largest_sum(&block, column_of, &scratch);
        for (ptrdiff_t row = 0; row < block.rows; row++) {
            ptrdiff_t pair = first + row * columns + column_of[row];
            if (column_of[row] >= 0 && similarity[pair] >= least)
                matched[found++] = pair;
        }
    }
    return found;
}
