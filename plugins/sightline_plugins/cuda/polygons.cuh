// Which samples a convex polygon covers, as OpenCV's `fillConvexPoly` walks it.
#pragma once

#include "lines.cuh"

struct Offset {
    double x, y;
};

// The corners of a polygon: four points of its own, or offsets from the first of them.
struct Corners {
    Point points[4];
    const Offset *offsets = nullptr;
    int count = 4;

    __device__ __noinline__ Point at(int number) const {
        if (offsets == nullptr) return points[number];
        return {moved(points[0].x, offsets[number].x), moved(points[0].y, offsets[number].y)};
    }

    // Rounded to a whole sample first, and then what is left of it.
    __device__ static Fixed moved(Fixed from, double offset) {
        const double exact = (double)from + offset;
        const Fixed whole = (Fixed)rint(exact / ONE) * ONE;
        return whole + (int)rint(exact - whole);
    }
};

__device__ inline int rounded(Fixed value) { return (int)((value + HALF) >> SHIFT); }

// One of the two ways down a polygon: where it is in the row that the walk has come to, how far it goes with each row,
// in which row it turns, and at which corner.
struct Side {
    Fixed x = -ONE, step = 0;
    int until, corner, direction;
};

// Lets a side turn in the row that the walk has come to: to the next corner that lies in a later row. `unwalked` counts
// the edges of both sides; when there are none left it falls below 0.
__device__ __noinline__ void turn(Side &side, const Corners &corners, int row, int &unwalked) {
    const auto next = [&](int corner) {
        const int following = corner + side.direction;
        return following < corners.count ? following : following - corners.count;
    };
    int from = side.corner, to = next(from);
    while (unwalked-- > 0) {
        const Point start = corners.at(from), end = corners.at(to);
        const int rows = rounded(end.y) - row;
        if (rows > 0) {
            side.x = start.x, side.step = quotient((end.x - start.x) * 2 + rows, 2 * rows);
            side.until = row + rows, side.corner = to;
            return;
        }
        from = to, to = next(to);
    }
}

// Whether a convex polygon covers a sample. The inside of a smooth one is what lies wholly within its sides, since its
// edges are drawn for themselves; it keeps its sides in its last row.
__device__ __noinline__ bool polygon_covers(const Corners &corners, bool is_smooth, Extent extent, int x, int y) {
    int top = 0;
    Point low = corners.at(0), high = low;
    for (int number = 1; number < corners.count; ++number) {
        const Point corner = corners.at(number);
        if (corner.y < low.y) top = number;
        low = {min(low.x, corner.x), min(low.y, corner.y)};
        high = {max(high.x, corner.x), max(high.y, corner.y)};
    }
    const int first = rounded(low.y), last = min(rounded(high.y), extent.height - 1);
    if (y < first || y > last || x < rounded(low.x) - 1 || x > rounded(high.x) + 1) return false;

    Side one, other;
    one.until = other.until = first, one.corner = other.corner = top;
    one.direction = 1, other.direction = corners.count - 1;
    int row = first, unwalked = corners.count;
    for (;;) {
        if (!is_smooth || row < last || row == first) {
            if (row >= one.until) turn(one, corners, row, unwalked);
            if (row >= other.until) turn(other, corners, row, unwalked);
            if (unwalked < 0) return false;
        }
        const int next = min(one.until, other.until);
        if (y < next || y == row) break;
        one.x += one.step * (next - row), other.x += other.step * (next - row);
        row = next;
    }
    const Fixed side = one.x + one.step * (y - row), far_side = other.x + other.step * (y - row);
    const Fixed left = min(side, far_side) + (is_smooth ? ONE - 1 : HALF);
    const Fixed right = max(side, far_side) + (is_smooth ? 0 : HALF);
    return left >> SHIFT <= x && x <= right >> SHIFT;
}
