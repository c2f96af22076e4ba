// Whole images from one format to another, at the edges: for people, encoders and other libraries. It follows
// `sightline/media/convert.py`; `convert.py` decides which kernel is meant.
#include "surface.cuh"

// Rows of a 3 x 4 matrix.
struct Matrix {
    float of[12];

    __device__ float row(int number, float a, float b, float c) const {
        const float *factors = of + 4 * number;
        return factors[0] * a + factors[1] * b + factors[2] * c + factors[3];
    }
};

__device__ inline int nearest_level(float value) { return min(max(__float2int_rn(value), 0), 255); }

// Red, green and blue of any other format; a chroma sample counts for all pixels that it covers. One thread a pixel.
extern "C" __global__ void colors_from_planes(Surface source, Matrix rgb_from_yuv, Surface target) {
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= source.width || y >= source.height) return;
    Color color;
    if (source.format == RGB || source.format == BGR) {
        color = color_at(source, x, y);
    } else {
        const float luma = luma_at(source, x, y);
        Chroma chroma = {128, 128};
        if (source.format != GRAY) chroma = chroma_at(source, x >> source.across_shift, y >> source.down_shift);
        int levels[3];
        for (int row = 0; row < 3; ++row) levels[row] = nearest_level(rgb_from_yuv.row(row, luma, chroma.u, chroma.v));
        color = {levels[0], levels[1], levels[2]};
    }
    put_color(target, x, y, color);
}

// Luma, and chroma as the mean of the pixels that a sample covers, those of the image's edge counted again for what
// lies beyond it. One thread a sample of chroma.
extern "C" __global__ void planes_from_colors(Surface source, Matrix yuv_from_rgb, Surface target) {
    const int column = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
    const int across = 1 << target.across_shift, down = 1 << target.down_shift;
    const int left = column * across, top = row * down;
    if (left >= source.width || top >= source.height) return;
    float u = 0, v = 0;
    for (int j = 0; j < down; ++j) {
        for (int i = 0; i < across; ++i) {
            const int x = min(left + i, source.width - 1), y = min(top + j, source.height - 1);
            const Color color = color_at(source, x, y);
            u += yuv_from_rgb.row(1, color.red, color.green, color.blue);
            v += yuv_from_rgb.row(2, color.red, color.green, color.blue);
            const float luma = yuv_from_rgb.row(0, color.red, color.green, color.blue);
            if (x == left + i && y == top + j) put_luma(target, x, y, nearest_level(luma));
        }
    }
    if (target.format == GRAY) return;
    const float share = 1.0f / (across * down);
    put_chroma(target, column, row, {nearest_level(u * share), nearest_level(v * share)});
}

// The same samples in another order, and those of 16 bits as levels of 8. One thread a sample of chroma.
extern "C" __global__ void planes_from_planes(Surface source, Surface target) {
    const int column = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
    const int left = column << source.across_shift, top = row << source.down_shift;
    if (left >= source.width || top >= source.height) return;
    for (int y = top; y < min(top + (1 << source.down_shift), source.height); ++y) {
        for (int x = left; x < min(left + (1 << source.across_shift), source.width); ++x) {
            put_luma(target, x, y, luma_at(source, x, y));
        }
    }
    if (source.format != GRAY) put_chroma(target, column, row, chroma_at(source, column, row));
}
