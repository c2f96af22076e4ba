// Images taken apart and put together anew: each pixel of the target is looked up in a map of positions in the source.
// The arithmetic is that of OpenCV's `remap` (INTER_LINEAR, BORDER_CONSTANT) on single channels.

constexpr int TILE = 32, ROWS = 8;

struct Samples {
    unsigned char *start;
    long long pitch_bytes;
    int width, height;
};

// One plane of both images. A sample of the target stands for `across` x `down` pixels of it. `border` holds the samples
// around the source, the first in its lowest byte.
struct Sheet {
    Samples source, target;
    int channels, across, down;
    unsigned border;
};

struct Sheets {
    Sheet of[3];
};

// Where the pixels of the target lie in the source, in rows that may be padded.
struct Map {
    const float2 *start;
    long long pitch_bytes;
    int width, height;

    __device__ float2 at(int x, int y) const {
        return reinterpret_cast<const float2 *>(reinterpret_cast<const char *>(start) + y * pitch_bytes)[x];
    }
};

// Where a sample of the target lies in the source's plane: in the middle of where the pixels lie that it stands for.
// Whole numbers are the middles of samples.
__device__ inline float2 position_of(const Map &map, const Sheet &sheet, int x, int y) {
    if (sheet.across == 1 && sheet.down == 1) return map.at(x, y);
    float sum_x = 0, sum_y = 0;
    for (int j = 0; j < sheet.down; ++j) {
        for (int i = 0; i < sheet.across; ++i) {
            const int column = min(x * sheet.across + i, map.width - 1), row = min(y * sheet.down + j, map.height - 1);
            const float2 position = map.at(column, row);
            sum_x += position.x, sum_y += position.y;
        }
    }
    const float count = (float)(sheet.across * sheet.down);
    const float middle_x = sum_x / count + 0.5f, middle_y = sum_y / count + 0.5f;
    return make_float2(middle_x / sheet.across - 0.5f, middle_y / sheet.down - 0.5f);
}

__device__ inline float sample_at(const Sheet &sheet, int x, int y, int channel) {
    const Samples &source = sheet.source;
    if (x < 0 || y < 0 || x >= source.width || y >= source.height) return sheet.border >> (8 * channel) & 0xff;
    return source.start[y * source.pitch_bytes + (long long)x * sheet.channels + channel];
}

// The plane's level at a position, of what is mixed of the four samples around it. A position that is no number lies
// outside.
__device__ inline int level_at(const Sheet &sheet, const float2 &position, int channel) {
    const bool is_near = position.x > -1 && position.x < sheet.source.width && position.y > -1 &&
                         position.y < sheet.source.height;
    if (!is_near) return sheet.border >> (8 * channel) & 0xff;
    const int left = (int)floorf(position.x), top = (int)floorf(position.y);
    const float right = position.x - left, down = position.y - top;
    const float top_left = sample_at(sheet, left, top, channel), bottom_left = sample_at(sheet, left, top + 1, channel);
    const float upper = top_left + right * (sample_at(sheet, left + 1, top, channel) - top_left);
    const float lower = bottom_left + right * (sample_at(sheet, left + 1, top + 1, channel) - bottom_left);
    return __float2int_rn(upper + down * (lower - upper));
}

extern "C" __global__ void dewarp(
    Sheets sheets, const float2 *xy, long long xy_pitch_bytes, int width, int height) {
    const Map map = {xy, xy_pitch_bytes, width, height};
    const Sheet &sheet = sheets.of[blockIdx.z];
    const int x = blockIdx.x * TILE + threadIdx.x;
    if (x >= sheet.target.width) return;
    for (int y = blockIdx.y * TILE + threadIdx.y; y < min(sheet.target.height, (int)(blockIdx.y + 1) * TILE); y += ROWS) {
        const float2 position = position_of(map, sheet, x, y);
        unsigned char *target = sheet.target.start + y * sheet.target.pitch_bytes + (long long)x * sheet.channels;
        for (int channel = 0; channel < sheet.channels; ++channel) {
            target[channel] = level_at(sheet, position, channel);
        }
    }
}
