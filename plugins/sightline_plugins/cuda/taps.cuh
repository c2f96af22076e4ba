// Samples of a surface as the filters of `resample.cuh` take them.
#pragma once

#include "resample.cuh"
#include "surface.cuh"

struct LumaTap {
    const Surface &surface;

    __device__ Values<1> operator()(int x, int y) const { return {{luma_at(surface, x, y)}}; }
};

struct ChromaTap {
    const Surface &surface;

    __device__ Values<2> operator()(int x, int y) const {
        const Chroma chroma = chroma_at(surface, x, y);
        return {{chroma.u, chroma.v}};
    }
};

template <int N, typename Tap>
__device__ inline Values<N> sample(const PlaneMap &map, const unsigned char *data, const Tap &tap, int x, int y) {
    return is_averaging(map) ? averaged<N>(map, data, tap, x, y) : resampled<N>(map, data, tap, x, y);
}
