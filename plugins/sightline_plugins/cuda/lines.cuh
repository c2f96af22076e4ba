// Which samples a line of one sample's width touches, and how much: the arithmetic of OpenCV's `line`, asked sample by
// sample instead of walked along, so that each thread answers for its own.
#pragma once

// Coordinates count from the middle of samples, with 16 bits of fraction.
typedef long long Fixed;
constexpr int SHIFT = 16;
constexpr Fixed ONE = 1 << SHIFT, HALF = ONE / 2;

struct Point {
    Fixed x, y;
};

struct Extent {
    int width, height;
};

// How much of a smooth line's colour a sample takes, by its distance from the middle of the line in 1 / 32, and how wide
// the line is across rows or columns, by its slope in 1 / 32.
struct Smoothness {
    unsigned char by_distance[64];
    unsigned char by_slope[32];
};

// A division of 64 bits is long: it is there once.
__device__ __noinline__ Fixed quotient(Fixed a, Fixed b) { return a / b; }

// a * b / c; the product wraps where it leaves 64 bits.
__device__ inline Fixed scaled(Fixed a, Fixed b, Fixed c) {
    return quotient((Fixed)((unsigned long long)a * (unsigned long long)b), c);
}

// Whether a sample lies so near a line that it may be touched: what is asked first, since it costs little.
__device__ inline bool is_near(const Point &a, const Point &b, int x, int y) {
    const Fixed left = min(a.x, b.x) >> SHIFT, top = min(a.y, b.y) >> SHIFT;
    const Fixed right = max(a.x, b.x) >> SHIFT, bottom = max(a.y, b.y) >> SHIFT;
    return x >= left - 3 && x <= right + 3 && y >= top - 3 && y <= bottom + 3;
}

// Cuts a line to 0 .. right and 0 .. bottom; false when nothing is left of it. An end that is cut moves the line for the
// cuts after it: the order of the cuts is part of the result.
__device__ __noinline__ bool clip_line(Point &a, Point &b, Fixed right, Fixed bottom) {
    if (right < 0 || bottom < 0) return false;
    const auto off_rows = [&](const Point &point) { return (point.y < 0) + (point.y > bottom) * 2; };
    const auto off_columns = [&](const Point &point) { return (point.x < 0) + (point.x > right) * 2; };
    const auto to_row = [&](Point &point, Fixed row) {
        point.x += scaled(row - point.y, b.x - a.x, b.y - a.y);
        point.y = row;
    };
    const auto to_column = [&](Point &point, Fixed column) {
        point.y += scaled(column - point.x, b.y - a.y, b.x - a.x);
        point.x = column;
    };
    if ((off_rows(a) & off_rows(b)) || (off_columns(a) & off_columns(b))) return false;
    if (off_rows(a)) to_row(a, a.y < 0 ? 0 : bottom);
    if (off_rows(b)) to_row(b, b.y < 0 ? 0 : bottom);
    if (off_columns(a) & off_columns(b)) return false;
    if (off_columns(a)) to_column(a, a.x < 0 ? 0 : right);
    if (off_columns(b)) to_column(b, b.x < 0 ? 0 : right);
    return true;
}

// A line as it is walked: along x from left to right, rows and columns swapped where it is steep; `step` is how far it
// goes in y for each 1 in x.
struct Course {
    Point from, to;
    Fixed step;
    bool is_steep;

    __device__ Course(Point a, Point b) {
        is_steep = llabs(b.x - a.x) <= llabs(b.y - a.y);
        from = is_steep ? Point{a.y, a.x} : a;
        to = is_steep ? Point{b.y, b.x} : b;
        if (to.x < from.x) {
            const Point first = from;
            from = to;
            to = first;
        }
        step = quotient((to.y - from.y) * ONE, (to.x - from.x) | 1);
    }
};

// Whether a line between whole samples touches a sample (Bresenham's algorithm from left to right).
__device__ inline bool whole_line_touches(int x_from, int y_from, int x_to, int y_to, int x, int y) {
    const bool is_backward = x_to < x_from;
    const int left = is_backward ? x_to : x_from, start = is_backward ? y_to : y_from;
    const int across = abs(x_to - x_from), change = is_backward ? y_from - y_to : y_to - y_from;
    const int down = abs(change), aside = change < 0 ? start - y : y - start;
    const bool is_steep = down > across;
    const int longer = is_steep ? down : across, shorter = is_steep ? across : down;
    const int walked = is_steep ? aside : x - left, turned = is_steep ? x - left : aside;
    if (walked < 0 || walked > longer) return false;
    return longer == 0 ? turned == 0 : turned == quotient(2LL * shorter * walked + longer - 1, 2LL * longer);
}

// Whether a line with steps touches a sample, as it is drawn along the edges of polygons.
__device__ __noinline__ bool steps_touch(Point a, Point b, Extent extent, int x, int y) {
    if (!is_near(a, b, x, y)) return false;
    if (!clip_line(a, b, extent.width * ONE - 1, extent.height * ONE - 1)) return false;
    const Course course(a, b);
    const Fixed column = course.is_steep ? y : x, row = course.is_steep ? x : y;
    if (column == (course.to.x + HALF) >> SHIFT && row == (course.to.y + HALF) >> SHIFT) return true;
    const Fixed walked = column - ((course.from.x + HALF) >> SHIFT);
    if (walked < 0 || walked > (course.to.x - course.from.x) >> SHIFT) return false;
    return row == (course.from.y + HALF + walked * course.step) >> SHIFT;
}

// How wide a smooth line is in a column of its course, in 1 / 256: less in the two first and the two last ones, by where
// in them the line starts and ends (in 1 / 128, of which 4 bits count).
__device__ inline int width_in_column(int width, int start, int end, Fixed from_start, Fixed to_end) {
    const int first = min((int)from_start, 2), last = min((int)to_end, 2);
    if (first == 2 && last == 2) return width;
    if (first == 0 && last == 0) return 0;
    int share;
    if (last == 2) share = ((0x78 - start) | 4) + 128 * first;
    else if (first == 2) share = (end | 4) + 128 * last;
    else share = (first && last ? end - start + 128 : (end - start) & 0x78) | 4;
    return (share * width >> 8) & 0x1ff;
}

// How much of its colour a smooth line gives to a sample, of 256; it gives it twice.
__device__ __noinline__ int smooth_line_at(Point a, Point b, const Smoothness &smooth, Extent extent, int x, int y) {
    if (!is_near(a, b, x, y)) return 0;
    if (!clip_line(a, b, extent.width * ONE - 1, extent.height * ONE - 1)) return 0;
    const Course course(a, b);
    const Fixed column = course.is_steep ? y : x, row = course.is_steep ? x : y;
    const Fixed first = course.from.x >> SHIFT, last = (course.to.x + ONE) >> SHIFT;
    if (column < first || column > last) return 0;
    const Fixed start = course.from.y + (course.step * -(course.from.x & (ONE - 1)) >> SHIFT) + HALF;
    const Fixed middle = start + (column - first) * course.step;
    const Fixed line = row - (middle >> SHIFT) + 1;
    if (line < 0 || line > 2) return 0;
    int slope = (course.step >> (SHIFT - 5)) & 0x3f;
    if (course.step < 0) slope ^= 0x3f;
    const int width = width_in_column(
        slope & 0x20 ? 256 : smooth.by_slope[slope], (course.from.x >> (SHIFT - 7)) & 0x78,
        (course.to.x >> (SHIFT - 7)) & 0x78, column - first, last - column);
    const int place = (middle >> (SHIFT - 5)) & 31;
    const int distance = line == 0 ? place + 32 : line == 1 ? place : 63 - place;
    return (width * smooth.by_distance[distance] >> 8) & 0xff;
}
