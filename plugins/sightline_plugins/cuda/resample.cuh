// Values between the samples of a plane, by the filters of pre-processing and in their arithmetic, so that the levels are
// the same as on the CPU; `plane_maps.py` has the same record for NumPy and decides which filter is meant.
#pragma once

// LINEAR       the two nearest samples each way, in the whole numbers of OpenCV's `resize`
// WARPED       the same, in the floats of OpenCV's `warpAffine`
// CLOSEST      the sample whose middle is closest, of two the even one, by positions as WARPED has them
// LISTED       as LINEAR, of samples and by weights that are listed for each column and row
// AVERAGED     a weighed sum along each row, then of rows, in the whole numbers of swscale, of what is listed, too
enum Filter { LINEAR, WARPED, CLOSEST, LISTED, AVERAGED };

typedef long long Fixed;  // 1 / 2^32 of a sample

__device__ inline float in_samples(Fixed position) { return (float)position * 2.3283064365386963e-10f; }

// Where a pixel of the network's input lies in a plane, in columns and rows of its samples; a whole number is the middle
// of a sample. Samples outside of the rectangle are those of its edge.
struct PlaneMap {
    Fixed x_per_column, first_x;
    Fixed y_per_row, first_y;
    int left, top, right, bottom;
    int filter;
    // The column and row of the input from which all others than LINEAR count.
    int first_column, first_row;
    // WARPED and CLOSEST: positions in the rectangle. Columns from `together` on are computed one by one.
    int together;
    float warp_x[3], warp_y[3];
    // LISTED and AVERAGED: where in the launch's data the lists are, and how many taps they have.
    int across, down, taps_across, taps_down;

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

// Which samples of an axis make one of the resized plane, and with which weights.
struct Reach {
    int first;
    const short *weights;

    __device__ Reach(const unsigned char *data, int place, int taps, int number) {
        const unsigned char *start = data + place + (long long)number * (4 + 2 * taps);
        first = *reinterpret_cast<const int *>(start);
        weights = reinterpret_cast<const short *>(start + 4);
    }
};

// As swscale averages: 15 bits of what is summed up along rows, half a level more for rounding, and whole levels.
template <int N, typename Tap>
__device__ __noinline__ Values<N> averaged(
    const PlaneMap &map, const unsigned char *data, const Tap &tap, int column, int row) {
    const Reach across(data, map.across, map.taps_across, column - map.first_column);
    const Reach down(data, map.down, map.taps_down, row - map.first_row);
    int sums[N];
    for (int n = 0; n < N; ++n) sums[n] = 1 << 18;
#pragma unroll 1
    for (int j = 0; j < map.taps_down; ++j) {
        if (down.weights[j] == 0) continue;
        int along[N] = {};
#pragma unroll 1
        for (int i = 0; i < map.taps_across; ++i) {
            const int weight = across.weights[i];
            if (weight == 0) continue;
            const int x = map.inside_x(map.left + across.first + i), y = map.inside_y(map.top + down.first + j);
            const Values<N> values = tap(x, y);
            for (int n = 0; n < N; ++n) along[n] += weight * values.of[n];
        }
        for (int n = 0; n < N; ++n) sums[n] += down.weights[j] * min(along[n] >> 7, 32767);
    }
    Values<N> result;
    for (int n = 0; n < N; ++n) result.of[n] = min(max(sums[n] >> 19, 0), 255);
    return result;
}

__device__ inline bool is_averaging(const PlaneMap &map) { return map.filter == AVERAGED; }

// A position between samples: how far behind the middle of the one at (x, y) it lies, of the distance to the next.
struct Between {
    int x, y;
    float right, bottom;

    // A position that is counted from the rectangle's edge.
    __device__ Between(const PlaneMap &map, float across, float down) {
        x = __float2int_rd(across), y = __float2int_rd(down);
        right = across - x, bottom = down - y;
        x += map.left, y += map.top;
    }

    __device__ Between(const PlaneMap &map, const Reach &across, const Reach &down)
        : x(map.left + across.first), y(map.top + down.first), right(across.weights[1] / 2048.0f),
          bottom(down.weights[1] / 2048.0f) {}
};

__device__ inline Between place_of(const PlaneMap &map, const unsigned char *data, int column, int row) {
    if (map.filter == LISTED) {
        return {map, {data, map.across, 2, column - map.first_column}, {data, map.down, 2, row - map.first_row}};
    }
    if (map.filter == WARPED) return {map, map.warped_x(column, row), map.warped_y(column, row)};
    const Fixed left = (Fixed)map.left << 32, top = (Fixed)map.top << 32;
    return {map, in_samples(map.x(column) - left), in_samples(map.y(row) - top)};
}

// The plane's values at a pixel of the network's input, by one of the filters that do not average. `tap(x, y)` are those
// of a sample inside the map's rectangle.
template <int N, typename Tap>
__device__ inline Values<N> resampled(
    const PlaneMap &map, const unsigned char *data, const Tap &tap, int column, int row) {
    if (map.filter == CLOSEST) {
        const int x = __float2int_rn(map.warped_x(column, row)), y = __float2int_rn(map.warped_y(column, row));
        return tap(map.inside_x(map.left + x), map.inside_y(map.top + y));
    }
    const Between place = place_of(map, data, column, row);
    const Corners<N> corners(map, tap, place.x, place.y);
    if (map.filter == WARPED) return corners.mixed(place.right, place.bottom);
    return corners.mixed(__float2int_rn(place.right * 2048), __float2int_rn(place.bottom * 2048));
}
