// Making parts of images unrecognisable: the means of a few cells take the place of the samples. The arithmetic is that
// of OpenCV's `resize` (INTER_AREA down to the cells, INTER_LINEAR or INTER_NEAREST up again), sum by sum in its order.

constexpr int THREADS = 128, MOST_CELLS = 64, MOST_CHANNELS = 3;
constexpr int TILE = 32, ROWS = 8;

enum Method { BLUR, PIXELATE, FILL };

// A rectangle of a plane that is hidden. `x_down`, `y_down` are how many samples a cell is wide and high, `x_up`, `y_up`
// how many cells a sample is. `cover` is where the bits of what is hidden begin in the data, a bit for each pixel of the
// image in rows of `cover_pitch` bits, or -1 where all is hidden; a sample has `across` x `down` pixels of the image.
// `means` is where the means of the cells begin in the data, channel by channel.
struct Part {
    unsigned char *start;
    long long pitch_bytes;
    double x_down, y_down, x_up, y_up;
    long long cover, means;
    int width, height, channels;
    int cells_wide, cells_high;
    int method;
    unsigned ink;
    int cover_pitch, across, down;
};

// How much of a sample lies in a cell, of the cell's size: the first and the last one lie in it in part.
struct Span {
    int first, last;
    float first_share, share, last_share;

    __device__ Span(int cell, double cell_size, int samples) {
        const double start = cell * cell_size, end = start + cell_size;
        const double size = fmin(cell_size, samples - start);
        const int stop = min((int)floor(end), samples - 1);
        const int whole = min((int)ceil(start), stop);
        share = (float)(1.0 / size);
        const bool starts_before = whole - start > 1e-3, ends_after = end - stop > 1e-3;
        first = starts_before ? whole - 1 : whole;
        last = ends_after ? stop : stop - 1;
        first_share = starts_before ? (float)((whole - start) / size) : share;
        last_share = ends_after ? (float)(fmin(fmin(end - stop, 1.0), size) / size) : share;
        if (first == last && ends_after && !starts_before) first_share = last_share;
    }
    __device__ float of(int sample) const {
        return sample == first ? first_share : sample == last ? last_share : share;
    }
};

__device__ inline bool is_whole(double scale) { return fabs(scale - rint(scale)) < 2.220446049250313e-16; }

// The sum of a row of a cell, of whole numbers where `is_exact`.
__device__ inline float row_sum(const Part &part, const Span &columns, int y, int channel, bool is_exact) {
    const unsigned char *row = part.start + y * part.pitch_bytes + channel;
    float sum = 0;
    int whole = 0;
    for (int x = columns.first; x <= columns.last; ++x) {
        const int sample = row[(long long)x * part.channels];
        if (is_exact) whole += sample;
        else sum += sample * columns.of(x);
    }
    return is_exact ? __int_as_float(whole) : sum;
}

__device__ inline int mean_of_whole(long long sum, const Part &part) {
    const int across = (int)rint(part.x_down), down = (int)rint(part.y_down);
    if (across == 2 && down == 2 && part.channels != 2) return (int)((sum + 2) >> 2);
    return __float2int_rn((float)sum * (float)(1.0 / (across * down)));
}

// The mean of one cell of a part: block (cell, part). Threads sum up rows, then one thread for each channel sums up the
// rows in their order.
extern "C" __global__ void __launch_bounds__(THREADS) average(
    unsigned char *content, long long parts_start, long long data_start) {
    __shared__ float sums[MOST_CHANNELS][THREADS];
    const Part part = reinterpret_cast<const Part *>(content + parts_start)[blockIdx.y];
    const int cell = blockIdx.x, thread = threadIdx.x;
    if (part.method == FILL || cell >= part.cells_wide * part.cells_high) return;
    const bool is_exact = is_whole(part.x_down) && is_whole(part.y_down);
    const Span columns(cell % part.cells_wide, part.x_down, part.width);
    const Span rows(cell / part.cells_wide, part.y_down, part.height);
    float sum = 0;
    long long whole = 0;
    for (int first = rows.first; first <= rows.last; first += THREADS) {
        const int own = first + thread, end = min(first + THREADS - 1, rows.last);
        for (int channel = 0; channel < part.channels && own <= end; ++channel) {
            sums[channel][thread] = row_sum(part, columns, own, channel, is_exact);
        }
        __syncthreads();
        for (int y = first; y <= end && thread < part.channels; ++y) {
            const float of_row = sums[thread][y - first];
            if (is_exact) whole += __float_as_int(of_row);
            else sum += rows.of(y) * of_row;
        }
        __syncthreads();
    }
    if (thread < part.channels) {
        const int mean = is_exact ? mean_of_whole(whole, part) : __float2int_rn(sum);
        content[data_start + part.means + cell * MOST_CHANNELS + thread] = min(max(mean, 0), 255);
    }
}

// Between which two cells a sample lies, and how much it takes of the second, in 1 / 2048.
struct Between {
    int first, second, share;

    __device__ Between(int sample, double cells_of_sample, int cells) {
        const float position = (float)((sample + 0.5) * cells_of_sample - 0.5);
        const int cell = (int)floorf(position);
        share = __float2int_rn((position - cell) * 2048);
        first = min(max(cell, 0), cells - 1), second = min(max(cell + 1, 0), cells - 1);
    }
};

__device__ inline int mixed(const Part &part, const unsigned char *means, const Between &x, const Between &y, int channel) {
    const auto mean = [&](int column, int row) {
        return (int)means[(row * part.cells_wide + column) * MOST_CHANNELS + channel];
    };
    const int upper = mean(x.first, y.first) * (2048 - x.share) + mean(x.second, y.first) * x.share;
    const int lower = mean(x.first, y.second) * (2048 - x.share) + mean(x.second, y.second) * x.share;
    return ((((2048 - y.share) * (upper >> 4)) >> 16) + ((y.share * (lower >> 4)) >> 16) + 2) >> 2;
}

// Whether any of the image's pixels that belong to a sample is hidden.
__device__ inline bool is_hidden(const Part &part, const unsigned char *data, int x, int y) {
    if (part.cover < 0) return true;
    for (int row = y * part.down; row < (y + 1) * part.down; ++row) {
        for (int column = x * part.across; column < (x + 1) * part.across; ++column) {
            const long long bit = (long long)row * part.cover_pitch + column;
            if (data[part.cover + bit / 8] >> (7 - bit % 8) & 1) return true;
        }
    }
    return false;
}

// Puts what hides them in the place of the samples; one part in each layer of the grid.
extern "C" __global__ void hide(const unsigned char *content, long long parts_start, long long data_start) {
    const Part &part = reinterpret_cast<const Part *>(content + parts_start)[blockIdx.z];
    const unsigned char *data = content + data_start;
    const int x = blockIdx.x * TILE + threadIdx.x;
    if (x >= part.width) return;
    const unsigned char *means = data + part.means;
    for (int y = blockIdx.y * TILE + threadIdx.y; y < min(part.height, (int)(blockIdx.y + 1) * TILE); y += ROWS) {
        if (!is_hidden(part, data, x, y)) continue;
        unsigned char *sample = part.start + y * part.pitch_bytes + (long long)x * part.channels;
        const Between across(x, part.x_up, part.cells_wide), down(y, part.y_up, part.cells_high);
        const int column = min((int)floor(x * part.x_up), part.cells_wide - 1);
        const int row = min((int)floor(y * part.y_up), part.cells_high - 1);
        for (int channel = 0; channel < part.channels; ++channel) {
            if (part.method == BLUR) sample[channel] = mixed(part, means, across, down, channel);
            else if (part.method == FILL) sample[channel] = part.ink >> (8 * channel) & 0xff;
            else sample[channel] = means[(row * part.cells_wide + column) * MOST_CHANNELS + channel];
        }
    }
}
