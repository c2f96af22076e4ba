// From luma and chroma to red, green and blue, in the integer arithmetic of what converts on the CPU, so that the levels
// are the same; `colors.py` has the same record for NumPy and says where the numbers come from.
#pragma once

#include "surface.cuh"

// `rounded`     rows of a 3 x 4 matrix as whole numbers, the last column with half a level more; `shift` bits are cut
// `stepwise`    factors of luma (less `black`), of v for red, of u and v for green, of u for blue, in 1 / 65536 of what
//               eight levels weigh
// `gray_factor` and `gray_offset` make a level of grey of luma alone
struct Colors {
    int rounded[12];
    int shift;
    int luma, black, red_v, green_u, green_v, blue_u;
    float gray_factor, gray_offset;
};

__device__ inline int clipped_level(int value) { return min(max(value, 0), 255); }

// As OpenCV's `transform`.
__device__ inline Color color_rounded(const Colors &colors, int y, const Chroma &chroma) {
    int levels[3];
    for (int row = 0; row < 3; ++row) {
        const int *factors = colors.rounded + 4 * row;
        const int sum = factors[0] * y + factors[1] * chroma.u + factors[2] * chroma.v + factors[3];
        levels[row] = clipped_level(sum >> colors.shift);
    }
    return {levels[0], levels[1], levels[2]};
}

// As FFmpeg's swscale where pixels share chroma: each product is cut down for itself.
__device__ inline Color color_stepwise(const Colors &colors, int y, const Chroma &chroma) {
    const int luma = ((y * 8 - colors.black) * colors.luma) >> 16;
    const int u = chroma.u * 8 - 1024, v = chroma.v * 8 - 1024;
    const int red = luma + ((v * colors.red_v) >> 16);
    const int green = luma + ((u * colors.green_u) >> 16) + ((v * colors.green_v) >> 16);
    const int blue = luma + ((u * colors.blue_u) >> 16);
    return {clipped_level(red), clipped_level(green), clipped_level(blue)};
}

// As swscale where every pixel has chroma of its own: all is summed up, and cut down once.
__device__ inline Color color_summed(const Colors &colors, int y, const Chroma &chroma) {
    const int luma = (y * 8 - colors.black) * colors.luma + (1 << 15);
    const int u = chroma.u * 8 - 1024, v = chroma.v * 8 - 1024;
    const int red = luma + v * colors.red_v, green = luma + u * colors.green_u + v * colors.green_v;
    const int blue = luma + u * colors.blue_u;
    return {clipped_level(red >> 16), clipped_level(green >> 16), clipped_level(blue >> 16)};
}

__device__ inline int gray_of_luma(const Colors &colors, int y) {
    return clipped_level(__float2int_rn(y * colors.gray_factor + colors.gray_offset));
}

// As OpenCV's `cvtColor`.
__device__ inline int gray_of_color(const Color &color) {
    return (color.red * 9798 + color.green * 19235 + color.blue * 3735 + 16384) >> 15;
}
