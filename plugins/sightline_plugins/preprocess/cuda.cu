// Pre-processing: surfaces of any sizes and formats to the inputs of a network, all in one launch. It follows
// `infer/pixels/preprocess.py`; `preprocess.py` fills the table and launches.
#include "color.cuh"
#include "half.cuh"
#include "taps.cuh"

// PLANES       luma and chroma are resampled, then converted
// STEPWISE     every sample is converted as swscale does it, then red, green and blue are resampled
// SUMMED       the same, as swscale does it where every pixel has chroma of its own
// LUMA         luma is resampled, and is grey
// COLORS       red, green and blue are there, and are resampled
enum Conversion { PLANES, STEPWISE, SUMMED, LUMA, COLORS };

// A part of a surface and where it goes: the rectangle of the input's image number `slot`, half-open; around it is
// padding. A negative `slot` is nowhere.
struct Job {
    Surface surface;
    PlaneMap luma, chroma;
    Colors colors;
    int left, top, right, bottom;
    int slot, conversion;
};

enum Element { FLOAT32, FLOAT16, UINT8, INT8 };

// The network's input. An element is (level - mean) * factor, of whole numbers the nearest plus `zero_point`.
struct Tensor {
    int width, height, channels;
    int element, is_interleaved, is_reversed;
    float mean[3], factor[3];
    int pad[3];
    int zero_point;

    __device__ void put(void *start, int slot, int x, int y, int channel, int level) const {
        const long long image = (long long)slot * channels * width * height;
        const long long pixel = (long long)y * width + x;
        const long long place = image + (is_interleaved ? pixel * channels + channel
                                                          : (long long)channel * width * height + pixel);
        const float value = (level - mean[channel]) * factor[channel];
        if (element == FLOAT32) {
            static_cast<float *>(start)[place] = value;
        } else if (element == FLOAT16) {
            static_cast<unsigned short *>(start)[place] = half_from_float(value);
        } else {
            const int least = element == UINT8 ? 0 : -128;
            const int whole = min(max(__float2int_rn(value) + zero_point, least), least + 255);
            static_cast<unsigned char *>(start)[place] = (unsigned char)whole;
        }
    }
};

// A pixel of the image as red, green and blue; a chroma sample counts for all pixels that it covers.
struct ColorTap {
    const Job &job;

    __device__ Values<3> operator()(int x, int y) const {
        const Color color = job.conversion == COLORS ? color_at(job.surface, x, y) : converted(x, y);
        return {{color.red, color.green, color.blue}};
    }

    __device__ Color converted(int x, int y) const {
        const Surface &surface = job.surface;
        const Chroma chroma = chroma_at(surface, x >> surface.across_shift, y >> surface.down_shift);
        const int luma = luma_at(surface, x, y);
        return job.conversion == STEPWISE ? color_stepwise(job.colors, luma, chroma)
                                          : color_summed(job.colors, luma, chroma);
    }
};

// Whatever an average is made of: luma, chroma, or the colours of pixels.
struct AnyTap {
    const Job &job;
    bool is_chroma;

    __device__ Values<3> operator()(int x, int y) const {
        if (job.conversion != PLANES && job.conversion != LUMA) return ColorTap{job}(x, y);
        if (!is_chroma) return {{luma_at(job.surface, x, y), 0, 0}};
        const Chroma chroma = chroma_at(job.surface, x, y);
        return {{chroma.u, chroma.v, 0}};
    }
};

__device__ inline int luma_of(const Job &job, const unsigned char *data, int x, int y) {
    if (is_averaging(job.luma)) return averaged<3>(job.luma, data, AnyTap{job, false}, x, y).of[0];
    return resampled<1>(job.luma, data, LumaTap{job.surface}, x, y).of[0];
}

__device__ inline Chroma chroma_of(const Job &job, const unsigned char *data, int x, int y) {
    if (is_averaging(job.chroma)) {
        const Values<3> values = averaged<3>(job.chroma, data, AnyTap{job, true}, x, y);
        return {values.of[0], values.of[1]};
    }
    const Values<2> values = resampled<2>(job.chroma, data, ChromaTap{job.surface}, x, y);
    return {values.of[0], values.of[1]};
}

__device__ inline Color color_of(const Job &job, const unsigned char *data, int x, int y) {
    const Values<3> values = is_averaging(job.luma) ? averaged<3>(job.luma, data, AnyTap{job, false}, x, y)
                                                    : resampled<3>(job.luma, data, ColorTap{job}, x, y);
    return {values.of[0], values.of[1], values.of[2]};
}

// The colour of a pixel of the network's input.
__device__ inline Color prepared(const Job &job, const unsigned char *data, int x, int y) {
    if (job.conversion == PLANES) return color_rounded(job.colors, luma_of(job, data, x, y), chroma_of(job, data, x, y));
    if (job.conversion != LUMA) return color_of(job, data, x, y);
    const int gray = gray_of_luma(job.colors, luma_of(job, data, x, y));
    return {gray, gray, gray};
}

// A thread makes the pixels of a column that lie `gridDim.y * blockDim.y` rows apart. `content` is the table of jobs,
// and from `data` on what they refer to.
extern "C" __global__ void preprocess(
    const unsigned char *__restrict__ content, long long data, void *__restrict__ out, Tensor tensor) {
    const int x = blockIdx.x * blockDim.x + threadIdx.x;
    if (x >= tensor.width) return;
    const Job &job = reinterpret_cast<const Job *>(content)[blockIdx.z];
    if (job.slot < 0) return;
#pragma unroll 1
    for (int y = blockIdx.y * blockDim.y + threadIdx.y; y < tensor.height; y += gridDim.y * blockDim.y) {
        const bool is_inside = x >= job.left && x < job.right && y >= job.top && y < job.bottom;
        int levels[3] = {tensor.pad[0], tensor.pad[1], tensor.pad[2]};
        if (is_inside) {
            const Color color = prepared(job, content + data, x, y);
            levels[0] = tensor.is_reversed ? color.blue : color.red;
            levels[1] = color.green;
            levels[2] = tensor.is_reversed ? color.red : color.blue;
            if (tensor.channels == 1) levels[0] = job.conversion == LUMA ? color.red : gray_of_color(color);
        }
        for (int channel = 0; channel < tensor.channels; ++channel) {
            tensor.put(out, job.slot, x, y, channel, levels[channel]);
        }
    }
}
