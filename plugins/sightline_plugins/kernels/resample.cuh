// Values between the samples of a plane, by the filters of pre-processing and in their arithmetic, so that the levels are
// the same as on the CPU; `plane_maps.py` has the same record for NumPy and decides which filter is meant.
#pragma once

// LINEAR       the two nearest samples each way, in the whole numbers of OpenCV's `resize`
// WARPED       the same, in the floats of OpenCV's `warpAffine`
// NEAREST      the sample in which the position lies
// CLOSEST      the sample whose middle is closest, of two the even one, by positions as WARPED has them
// AREA         the mean of what lies within the reach
// TRIANGLE     what lies within the reach, weighed less the farther away it is
// ENLARGED     a sample, except where an edge between two lies within the new sample: these by their share of it
enum Filter { LINEAR, WARPED, NEAREST, CLOSEST, AREA, TRIANGLE, ENLARGED };

typedef long long Fixed;  // 1 / 2^32 of a sample

__device__ inline int whole_part(Fixed position) { return (int)(position >> 32); }
__device__ inline float in_samples(Fixed position) { return (float)position * 2.3283064365386963e-10f; }
__device__ inline float fraction(Fixed position) { return (float)(unsigned)position * 2.3283064365386963e-10f; }

// Where a pixel of the network's input lies in a plane, in columns and rows of its samples; a whole number is the middle
// of a sample, for NEAREST its edge. Samples outside of the rectangle are those of its edge.
struct PlaneMap {
    Fixed x_per_column, first_x;
    Fixed y_per_row, first_y;
    int left, top, right, bottom;
    float reach_x, reach_y;
    int filter;
    int unused;
    // WARPED and CLOSEST: positions in the rectangle from columns and rows behind the first ones. Columns from
    // `together` on are computed one by one.
    float warp_x[3], warp_y[3];
    int first_column, first_row, together;
    int unused_too;

    __device__ Fixed x(int column) const { return first_x + x_per_column * column; }
    __device__ Fixed y(int row) const { return first_y + y_per_row * row; }
    __device__ float warped_x(int column, int row) const { return warped(warp_x, column, row); }
    __device__ float warped_y(int column, int row) const { return warped(warp_y, column, row); }
    __device__ int inside_x(int x) const { return min(max(x, left), right - 1); }
    __device__ int inside_y(int y) const { return min(max(y, top), bottom - 1); }

    // What processors that multiply and add at once compute, and the order in which OpenCV lets them.
    __device__ float warped(const float *warp, int column, int row) const {
        const float across = column - first_column, by_row = __fmul_rn(row - first_row, warp[1]);
        return across < together ? __fmaf_rn(across, warp[0], __fadd_rn(by_row, warp[2]))
                                 : __fadd_rn(__fmaf_rn(across, warp[0], by_row), warp[2]);
    }
};

// The values of `N` channels that belong together.
template <int N> struct Values {
    int of[N];
};

// The four samples around a position.
template <int N> struct Corners {
    Values<N> top_left, top_right, bottom_left, bottom_right;

    template <typename Tap> __device__ Corners(const PlaneMap &map, const Tap &tap, int x, int y) {
        const int left = map.inside_x(x), right = map.inside_x(x + 1);
        const int top = map.inside_y(y), bottom = map.inside_y(y + 1);
        top_left = tap(left, top), top_right = tap(right, top);
        bottom_left = tap(left, bottom), bottom_right = tap(right, bottom);
    }

    // Mixed with weights of the right and the lower ones in 1 / 2048.
    __device__ Values<N> mixed(int right, int bottom) const {
        Values<N> result;
        for (int n = 0; n < N; ++n) {
            const int upper = top_left.of[n] * (2048 - right) + top_right.of[n] * right;
            const int lower = bottom_left.of[n] * (2048 - right) + bottom_right.of[n] * right;
            const int sum = (((2048 - bottom) * (upper >> 4)) >> 16) + ((bottom * (lower >> 4)) >> 16);
            result.of[n] = (sum + 2) >> 2;
        }
        return result;
    }

    __device__ Values<N> mixed(float right, float bottom) const {
        Values<N> result;
        for (int n = 0; n < N; ++n) {
            const float upper = __fmaf_rn(right, top_right.of[n] - top_left.of[n], top_left.of[n]);
            const float lower = __fmaf_rn(right, bottom_right.of[n] - bottom_left.of[n], bottom_left.of[n]);
            result.of[n] = __float2int_rn(__fmaf_rn(bottom, __fadd_rn(lower, -upper), upper));
        }
        return result;
    }
};

// What the next sample takes of an enlarged one: of the step from this to the next pixel, what lies behind the edge.
__device__ inline float share(Fixed position, Fixed step) {
    return max(1 - (1 - fraction(position)) / in_samples(step), 0.0f);
}

__device__ inline float weight_at(float distance, float reach, bool is_triangle) {
    if (is_triangle) return max(1 - fabsf(distance) / reach, 0.0f);
    return min(max(reach + 0.5f - fabsf(distance), 0.0f), 1.0f);
}

// The mean of what a filter reaches, weighed as AREA or TRIANGLE says.
template <int N, typename Tap>
__device__ __noinline__ Values<N> averaged(const PlaneMap &map, const Tap &tap, int column, int row) {
    const Fixed x = map.x(column), y = map.y(row);
    const bool is_triangle = map.filter == TRIANGLE;
    const int far_x = (int)ceilf(map.reach_x) + 1, far_y = (int)ceilf(map.reach_y) + 1;
    float sums[N] = {}, total = 0;
#pragma unroll 1
    for (int j = -far_y; j <= far_y; ++j) {
        const float weight_y = weight_at(j - fraction(y), map.reach_y, is_triangle);
        if (weight_y == 0) continue;
#pragma unroll 1
        for (int i = -far_x; i <= far_x; ++i) {
            const float weight = weight_y * weight_at(i - fraction(x), map.reach_x, is_triangle);
            if (weight == 0) continue;
            const Values<N> values = tap(map.inside_x(whole_part(x) + i), map.inside_y(whole_part(y) + j));
            for (int n = 0; n < N; ++n) sums[n] += weight * values.of[n];
            total += weight;
        }
    }
    Values<N> result;
    for (int n = 0; n < N; ++n) result.of[n] = __float2int_rd(sums[n] / total + 0.5f);
    return result;
}

__device__ inline bool is_averaging(const PlaneMap &map) { return map.filter == AREA || map.filter == TRIANGLE; }

// A position between samples: how far behind the middle of the one at (x, y) it lies, of the distance to the next.
struct Between {
    int x, y;
    float right, bottom;

    // Counted from the rectangle's edge.
    __device__ Between(const PlaneMap &map, float across, float down) {
        x = __float2int_rd(across), y = __float2int_rd(down);
        right = across - x, bottom = down - y;
        x += map.left, y += map.top;
    }
};

// The plane's values at a pixel of the network's input, by one of the filters that do not average. `tap(x, y)` are those
// of a sample inside the map's rectangle.
template <int N, typename Tap>
__device__ inline Values<N> resampled(const PlaneMap &map, const Tap &tap, int column, int row) {
    const Fixed x = map.x(column), y = map.y(row);
    const bool is_warped = map.filter == WARPED || map.filter == CLOSEST;
    const float across = is_warped ? map.warped_x(column, row) : in_samples(x - ((Fixed)map.left << 32));
    const float down = is_warped ? map.warped_y(column, row) : in_samples(y - ((Fixed)map.top << 32));
    if (map.filter == CLOSEST) {
        return tap(map.inside_x(map.left + __float2int_rn(across)), map.inside_y(map.top + __float2int_rn(down)));
    }
    if (map.filter == NEAREST) return tap(map.inside_x(whole_part(x)), map.inside_y(whole_part(y)));
    Between place(map, across, down);
    if (map.filter == ENLARGED) {
        place.x = whole_part(x), place.right = share(x, map.x_per_column);
        place.y = whole_part(y), place.bottom = share(y, map.y_per_row);
    }
    const Corners<N> corners(map, tap, place.x, place.y);
    if (is_warped) return corners.mixed(place.right, place.bottom);
    return corners.mixed(__float2int_rn(place.right * 2048), __float2int_rn(place.bottom * 2048));
}
