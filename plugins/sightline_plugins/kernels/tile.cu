// Many images in one: surfaces of any sizes and formats, each resized into a rectangle of the target, all in one launch.
#include "resample.cuh"
#include "surface.cuh"

// A surface and the rectangle of the target that it fills, on whole samples of chroma. The maps count from the
// rectangle's corner, in pixels and in the target's chroma samples. `yuv` are rows of a 3 x 4 matrix between levels, where
// colours are written in another way than in the target (`is_converted`).
struct Tile {
    Surface surface;
    PlaneMap luma, chroma;
    float yuv[12];
    int left, top, width, height;
    int is_converted, unused;
};

// Luma or chroma of a surface.
struct Tap {
    const Surface &surface;
    bool is_chroma;

    __device__ Values<2> operator()(int x, int y) const {
        if (!is_chroma) return {{luma_at(surface, x, y), 0}};
        const Chroma chroma = chroma_at(surface, x, y);
        return {{chroma.u, chroma.v}};
    }
};

__device__ __noinline__ Values<2> levels_at(
    const Tile &tile, const unsigned char *data, bool is_chroma, int column, int row) {
    const PlaneMap &map = is_chroma ? tile.chroma : tile.luma;
    const Tap tap = {tile.surface, is_chroma};
    return is_averaging(map) ? averaged<2>(map, data, tap, column, row) : resampled<2>(map, data, tap, column, row);
}

__device__ inline int converted(const float *row, int luma, const Chroma &chroma) {
    return min(max(__float2int_rn(row[0] * luma + row[1] * chroma.u + row[2] * chroma.v + row[3]), 0), 255);
}

// One thread for each chroma sample of the target, and the pixels that belong to it; a tile in each layer of the grid.
// `content` is the table of tiles, and from `start` on what they refer to.
extern "C" __global__ void fill_tiles(const unsigned char *content, long long start, Surface target) {
    const Tile &tile = reinterpret_cast<const Tile *>(content)[blockIdx.z];
    const unsigned char *data = content + start;
    const int column = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
    const int across = 1 << target.across_shift, down = 1 << target.down_shift;
    if (column * across >= tile.width || row * down >= tile.height) return;
    Chroma chroma = {128, 128};
    if (tile.surface.format != GRAY) {
        const Values<2> levels = levels_at(tile, data, true, column, row);
        chroma = {levels.of[0], levels.of[1]};
    }
    for (int y = row * down; y < min((row + 1) * down, tile.height); ++y) {
        for (int x = column * across; x < min((column + 1) * across, tile.width); ++x) {
            const int luma = levels_at(tile, data, false, x, y).of[0];
            put_luma(target, tile.left + x, tile.top + y, tile.is_converted ? converted(tile.yuv, luma, chroma) : luma);
        }
    }
    if (target.format == GRAY) return;
    if (tile.is_converted) {
        chroma = {converted(tile.yuv + 4, 0, chroma), converted(tile.yuv + 8, 0, chroma)};
    }
    put_chroma(target, tile.left / across + column, tile.top / down + row, chroma);
}

// Gives all of a surface one colour. One thread for each chroma sample, as above.
extern "C" __global__ void fill_surface(Surface target, int luma, int u, int v) {
    const int column = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
    const int across = 1 << target.across_shift, down = 1 << target.down_shift;
    if (column * across >= target.width || row * down >= target.height) return;
    for (int y = row * down; y < min((row + 1) * down, target.height); ++y) {
        for (int x = column * across; x < min((column + 1) * across, target.width); ++x) put_luma(target, x, y, luma);
    }
    if (target.format != GRAY) put_chroma(target, column, row, {u, v});
}
