// Lines of any width with round ends, as OpenCV's `polylines` draws them, piece by piece.
#pragma once

#include "lines.cuh"
#include "pixel.cuh"
#include "polygons.cuh"

// A piece of a line, `width` samples wide. Bits 1 and 2 of `round_ends` say which of its ends are round.
struct Stroke {
    Point points[2];
    int width, round_ends;
    bool is_smooth;
    unsigned ink;
};

// What strokes of one width have in common. Round ends are circles: with steps the half width of each row from the
// middle on, else a polygon of `corners` around the point.
struct Pen {
    const Smoothness *smooth;
    const unsigned char *half_widths;
    const Offset *corners;
    int radius, corner_count;
};

// The corners of a thick line without its ends; false for a line from a point to itself.
__device__ inline bool bar_of(const Stroke &stroke, Corners &corners) {
    const Point a = stroke.points[0], b = stroke.points[1];
    const double across = (a.x - b.x) * (1.0 / ONE), down = (b.y - a.y) * (1.0 / ONE);
    const double length = across * across + down * down;
    if (length <= 2.220446049250313e-16) return false;
    const double half = (stroke.width + stroke.width % 2) * (double)HALF / sqrt(length);
    const Fixed x = (int)rint(down * half), y = (int)rint(across * half);
    corners.points[0] = {a.x + x, a.y + y}, corners.points[1] = {a.x - x, a.y - y};
    corners.points[2] = {b.x - x, b.y - y}, corners.points[3] = {b.x + x, b.y + y};
    return true;
}

__device__ __noinline__ void draw_edge(
    Pixel &pixel, Point from, Point to, const Stroke &stroke, const Pen &pen, Extent extent, int x, int y) {
    if (!stroke.is_smooth) {
        if (steps_touch(from, to, extent, x, y)) pixel.fill(stroke.ink);
    } else if (const int share = smooth_line_at(from, to, *pen.smooth, extent, x, y)) {
        pixel.mix(stroke.ink, share);
        pixel.mix(stroke.ink, share);
    }
}

__device__ __noinline__ void draw_polygon(
    Pixel &pixel, const Corners &corners, const Stroke &stroke, const Pen &pen, Extent extent, int x, int y) {
    Point from = corners.at(corners.count - 1);
    for (int number = 0; number < corners.count; ++number) {
        const Point to = corners.at(number);
        draw_edge(pixel, from, to, stroke, pen, extent, x, y);
        from = to;
    }
    if (polygon_covers(corners, stroke.is_smooth, extent, x, y)) pixel.fill(stroke.ink);
}

__device__ __noinline__ void draw_round_end(
    Pixel &pixel, Point at, const Stroke &stroke, const Pen &pen, Extent extent, int x, int y) {
    const int across = abs(x - rounded(at.x)), down = abs(y - rounded(at.y));
    if (max(across, down) > pen.radius + 3) return;
    if (stroke.is_smooth) {
        draw_polygon(pixel, {{at}, pen.corners, pen.corner_count}, stroke, pen, extent, x, y);
    } else if (down <= pen.radius && across <= pen.half_widths[down]) {
        pixel.fill(stroke.ink);
    }
}

// What becomes of the sample in column x and row y when a piece is drawn over it.
__device__ __noinline__ void draw_stroke(Pixel &pixel, const Stroke &stroke, const Pen &pen, Extent extent, int x, int y) {
    const Point a = stroke.points[0], b = stroke.points[1];
    if (stroke.width > 1) {
        Corners bar;
        if (bar_of(stroke, bar)) draw_polygon(pixel, bar, stroke, pen, extent, x, y);
        if (stroke.round_ends & 1) draw_round_end(pixel, a, stroke, pen, extent, x, y);
        if (stroke.round_ends & 2) draw_round_end(pixel, b, stroke, pen, extent, x, y);
    } else if (stroke.is_smooth) {
        draw_edge(pixel, a, b, stroke, pen, extent, x, y);
    } else {
        Point from = {rounded(a.x), rounded(a.y)}, to = {rounded(b.x), rounded(b.y)};
        const bool is_seen = clip_line(from, to, extent.width - 1, extent.height - 1);
        if (is_seen && whole_line_touches(from.x, from.y, to.x, to.y, x, y)) pixel.fill(stroke.ink);
    }
}
