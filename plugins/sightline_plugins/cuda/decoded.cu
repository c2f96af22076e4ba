// Planes of an image as a video decoder gives them to planes of a surface: the right way up, and samples of 16 bits,
// of which the upper `bits` count, as the levels of 8 bits that FFmpeg's converter (swscale) makes of them on the CPU.
// `decoded.py` launches it.

enum Turn { TRANSPOSED = 1, FLIP_X = 2, FLIP_Y = 4 };

// What is added before `shift` bits are cut off, by the place in the image: the ordered dither of swscale.
__device__ inline int dither_at(int x, int y, int shift) {
    const unsigned char of_2[2][2] = {{1, 2}, {3, 0}};
    const unsigned char of_4[4][4] = {{4, 8, 7, 11}, {12, 0, 15, 3}, {6, 10, 5, 9}, {14, 2, 13, 1}};
    return shift == 2 ? of_2[y & 1][x & 1] : of_4[y & 3][x & 3];
}

// A sample of 10 or 12 bits as a level of 8. `is_scaled`: the largest sample becomes the largest level, as in luma of
// full range; else every level is the same number of samples wide.
__device__ inline int level_of(int sample, int x, int y, int shift, bool is_scaled) {
    const int dither = dither_at(x, y, shift);
    if (is_scaled) return (sample - (sample >> 8) + dither) >> shift;
    const int level = (sample + dither) >> shift;
    return level - (level >> 8);
}

// One thread a sample of the target, which has `channels` values, and is `width` x `height` samples large.
extern "C" __global__ void plane_from_decoded(const unsigned char *source, long long source_pitch, int bits,
                                              bool is_scaled, unsigned char *target, long long target_pitch, int width,
                                              int height, int channels, int turn) {
    const int column = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
    if (column >= width || row >= height) return;
    const int across = turn & FLIP_X ? width - 1 - column : column, down = turn & FLIP_Y ? height - 1 - row : row;
    const int x = turn & TRANSPOSED ? down : across, y = turn & TRANSPOSED ? across : down;
    const unsigned char *line = source + y * source_pitch;
    unsigned char *written = target + row * target_pitch + column * channels;
    for (int channel = 0; channel < channels; ++channel) {
        const int place = x * channels + channel;
        if (bits == 8) {
            written[channel] = line[place];
        } else {
            const int sample = reinterpret_cast<const unsigned short *>(line)[place] >> (16 - bits);
            written[channel] = (unsigned char)level_of(sample, x, y, bits - 8, is_scaled);
        }
    }
}
