// Surfaces as kernels see them, and their samples as levels of 8 bits; `surfaces.py` has the same record for NumPy.
#pragma once

enum Format { NV12, P016, PLANAR_YUV, GRAY, RGB, BGR };

struct Plane {
    unsigned char *start;
    long long pitch_bytes;

    __device__ unsigned char *at(int x, int y) const { return start + y * pitch_bytes + x; }
};

// `across_shift` and `down_shift`: by how many bits chroma is narrower and lower than luma.
struct Surface {
    Plane planes[3];
    int width, height, format;
    int across_shift, down_shift;
    int unused;
};

struct Chroma {
    int u, v;
};

struct Color {
    int red, green, blue;
};

// A sample of 16 bits whose value lies in the upper ones, as a level of 8 bits.
__device__ inline int level_of(unsigned short sample) { return min((sample + 128) >> 8, 255); }

__device__ inline int luma_at(const Surface &surface, int x, int y) {
    const Plane &plane = surface.planes[0];
    if (surface.format != P016) return *plane.at(x, y);
    return level_of(*reinterpret_cast<const unsigned short *>(plane.at(2 * x, y)));
}

// The chroma sample in column x and row y of the chroma planes.
__device__ inline Chroma chroma_at(const Surface &surface, int x, int y) {
    const Plane &plane = surface.planes[1];
    if (surface.format == NV12) {
        const uchar2 both = *reinterpret_cast<const uchar2 *>(plane.at(2 * x, y));
        return {both.x, both.y};
    }
    if (surface.format == P016) {
        const ushort2 both = *reinterpret_cast<const ushort2 *>(plane.at(4 * x, y));
        return {level_of(both.x), level_of(both.y)};
    }
    return {*plane.at(x, y), *surface.planes[2].at(x, y)};
}

__device__ inline Color color_at(const Surface &surface, int x, int y) {
    const unsigned char *pixel = surface.planes[0].at(3 * x, y);
    if (surface.format == RGB) return {pixel[0], pixel[1], pixel[2]};
    return {pixel[2], pixel[1], pixel[0]};
}

__device__ inline void put_luma(const Surface &surface, int x, int y, int level) {
    const Plane &plane = surface.planes[0];
    if (surface.format != P016) *plane.at(x, y) = (unsigned char)level;
    else *reinterpret_cast<unsigned short *>(plane.at(2 * x, y)) = (unsigned short)(level << 8);
}

__device__ inline void put_chroma(const Surface &surface, int x, int y, const Chroma &chroma) {
    const Plane &plane = surface.planes[1];
    if (surface.format == NV12) {
        *reinterpret_cast<uchar2 *>(plane.at(2 * x, y)) = make_uchar2(chroma.u, chroma.v);
    } else if (surface.format == P016) {
        *reinterpret_cast<ushort2 *>(plane.at(4 * x, y)) = make_ushort2(chroma.u << 8, chroma.v << 8);
    } else {
        *plane.at(x, y) = (unsigned char)chroma.u;
        *surface.planes[2].at(x, y) = (unsigned char)chroma.v;
    }
}

__device__ inline void put_color(const Surface &surface, int x, int y, const Color &color) {
    unsigned char *pixel = surface.planes[0].at(3 * x, y);
    pixel[0] = (unsigned char)(surface.format == RGB ? color.red : color.blue);
    pixel[1] = (unsigned char)color.green;
    pixel[2] = (unsigned char)(surface.format == RGB ? color.blue : color.red);
}
