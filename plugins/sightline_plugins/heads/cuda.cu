// Heads: from the raw outputs of a network to candidates, by the arithmetic of `infer/heads`, all images of a batch in
// one launch. One thread looks at one box and reads no more of it than its confidence, unless that is high enough.
//
// Rounding is part of the definition: plain arithmetic is that of floats as NumPy does it, functions (exp, tanh, pow)
// are computed in double and rounded once. Outputs in half precision are read as the same numbers in float.
#include "detections.cuh"
#include "half.cuh"

// Where the values of boxes lie in an output: the place of the first one, and how many elements apart images, boxes and
// the values of a box are.
struct Layout {
    long long first, image_step, box_step, value_step;
    int is_half;
};

// The cells of one stride of the input, of which box number `first` is the first one.
struct Grid {
    int columns, rows, stride, first;

    __device__ int cells() const { return columns * rows; }
};

// The values of one box.
struct Values {
    const void *output;
    long long first, step;
    bool is_half;

    __device__ Values(const void *output, const Layout &layout, int image, int box)
        : output(output), first(layout.first + image * layout.image_step + box * layout.box_step),
          step(layout.value_step), is_half(layout.is_half != 0) {}

    __device__ float operator[](int number) const {
        const long long place = first + number * step;
        if (!is_half) return static_cast<const float *>(output)[place];
        return float_from_half(static_cast<const unsigned short *>(output)[place]);
    }
};

struct Best {
    float score;
    int class_id;
};

// The first of the highest scores. A score that is no number makes the best one no number, which passes no limit.
__device__ __noinline__ Best best_class(const Values &values, int first, int classes) {
    Best best = {values[first], 0};
    for (int class_id = 1; class_id < classes && best.score == best.score; ++class_id) {
        const float score = values[first + class_id];
        if (score > best.score || score != score) best = {score, class_id};
    }
    return best;
}

__device__ inline float or_zero(float score) { return score < 0 ? 0 : score; }

// Functions of doubles are long: each is there once.
__device__ __noinline__ double tanh_of(double value) { return tanh(value); }
__device__ __noinline__ double exp_of(double value) { return exp(value); }
__device__ __noinline__ double power_of(double value, double exponent) { return pow(value, exponent); }

__device__ inline float logistic(float score) { return (float)(0.5 + 0.5 * tanh_of((double)score / 2)); }

__device__ inline float exponential(float value) { return (float)exp_of(value); }

__device__ inline Detection around(float x, float y, float width, float height, Best best, int index) {
    const float across = width * 0.5f, down = height * 0.5f;
    return {x - across, y - down, x + across, y + down, best.score, best.class_id, index, 0};
}

__device__ inline int thread_number() { return blockIdx.x * blockDim.x + threadIdx.x; }

extern "C" __global__ void forget(int *counts, int count) {
    if (thread_number() < count) counts[thread_number()] = 0;
}

// Decoded boxes: centre and size in pixels, perhaps objectness, classes.
extern "C" __global__ void decode_table(
    const void *table, Layout layout, int boxes, int classes, int has_objectness, float confidence,
    Detection *detections, int *counts, const float *limits, int capacity, int limit_count) {
    const Finds finds = {detections, counts, limits, capacity, limit_count};
    const int box = thread_number(), image = blockIdx.y;
    if (box >= boxes) return;
    const Values values(table, layout, image, box);
    const float objectness = has_objectness ? values[4] : 1;
    if (has_objectness && !(objectness >= confidence)) return;
    Best best = best_class(values, has_objectness ? 5 : 4, classes);
    if (has_objectness) best.score = objectness * or_zero(best.score);
    if (!(best.score >= confidence)) return;
    keep(finds, image, around(values[0], values[1], values[2], values[3], best, box));
}

// YOLOX: offset of the centre from its cell, logarithm of the size, both in strides, objectness, classes.
extern "C" __global__ void decode_offsets(
    const void *table, Layout layout, Grid grid, int classes, float confidence,
    Detection *detections, int *counts, const float *limits, int capacity, int limit_count) {
    const Finds finds = {detections, counts, limits, capacity, limit_count};
    const int cell = thread_number(), image = blockIdx.y;
    if (cell >= grid.cells()) return;
    const Values values(table, layout, image, grid.first + cell);
    const float objectness = values[4];
    if (!(objectness >= confidence)) return;
    Best best = best_class(values, 5, classes);
    best.score = objectness * or_zero(best.score);
    if (!(best.score >= confidence)) return;
    const float x = (values[0] + cell % grid.columns) * grid.stride;
    const float y = (values[1] + cell / grid.columns) * grid.stride;
    const float width = exponential(values[2]) * grid.stride, height = exponential(values[3]) * grid.stride;
    keep(finds, image, around(x, y, width, height, best, grid.first + cell));
}

// The mean of a distribution over 0, 1 .. bins - 1 that is given as raw scores; a single one is the number itself.
__device__ __noinline__ float mean_of(const Values &values, int first, int bins) {
    if (bins == 1) return values[first];
    float most = values[first];
    for (int bin = 1; bin < bins; ++bin) most = fmaxf(most, values[first + bin]);
    double sum = 0, mean = 0;
    for (int bin = 0; bin < bins; ++bin) sum += exp_of((double)values[first + bin] - (double)most);
    for (int bin = 0; bin < bins; ++bin) {
        mean += bin * (double)(float)(exp_of((double)values[first + bin] - (double)most) / sum);
    }
    return (float)mean;
}

// Distributions of how far the four sides are from the middle of the cell, in strides; class scores, perhaps logits.
extern "C" __global__ void decode_distances(
    const void *sides, Layout sides_layout, const void *scores, Layout scores_layout, Grid grid, int bins, int classes,
    int are_logits, float limit,
    Detection *detections, int *counts, const float *limits, int capacity, int limit_count) {
    const Finds finds = {detections, counts, limits, capacity, limit_count};
    const int cell = thread_number(), image = blockIdx.y;
    if (cell >= grid.cells()) return;
    Best best = best_class(Values(scores, scores_layout, image, cell), 0, classes);
    if (!(best.score >= limit)) return;
    const Values values(sides, sides_layout, image, cell);
    const float x = cell % grid.columns + 0.5f, y = cell / grid.columns + 0.5f;
    if (are_logits) best.score = logistic(best.score);
    keep(finds, image,
         {(x - mean_of(values, 0, bins)) * grid.stride, (y - mean_of(values, bins, bins)) * grid.stride,
          (x + mean_of(values, 2 * bins, bins)) * grid.stride, (y + mean_of(values, 3 * bins, bins)) * grid.stride,
          best.score, best.class_id, grid.first + cell, 0});
}

constexpr int MOST_ANCHORS = 8;

// How a version of YOLO makes boxes of its maps: width and height of each anchor, how far centres leave their cells.
struct Anchors {
    float sizes[2 * MOST_ANCHORS];
    float scale, excess;
    int count, is_squared, are_scores_logits, are_boxes_logits;
    long long step;
};

// YOLOv3, v4, v5 and v7: for each anchor of a cell x, y, width, height, objectness, classes.
extern "C" __global__ void decode_anchors(
    const void *map, Layout layout, Grid grid, Anchors anchors, int classes, float limit, float confidence,
    Detection *detections, int *counts, const float *limits, int capacity, int limit_count) {
    const Finds finds = {detections, counts, limits, capacity, limit_count};
    const int number = thread_number(), image = blockIdx.y;
    if (number >= grid.cells() * anchors.count) return;
    const int anchor = number / grid.cells(), cell = number % grid.cells();
    Values values(map, layout, image, cell);
    values.first += anchor * anchors.step;
    float objectness = values[4];
    if (!(objectness >= limit)) return;
    Best best = best_class(values, 5, classes);
    if (anchors.are_scores_logits) objectness = logistic(objectness), best.score = logistic(best.score);
    best.score = objectness * best.score;
    if (!(best.score >= confidence)) return;
    float box[4];
    for (int side = 0; side < 4; ++side) {
        const bool is_logit = anchors.are_boxes_logits && (side < 2 || anchors.is_squared);
        box[side] = is_logit ? logistic(values[side]) : values[side];
    }
    const int place[2] = {cell % grid.columns, cell / grid.columns};
    for (int side = 0; side < 2; ++side) {
        box[side] = (float)(((double)(box[side] * anchors.scale - anchors.excess) + place[side]) * grid.stride);
        const float twice = 2 * box[2 + side];
        const float size = anchors.is_squared ? twice * twice : exponential(box[2 + side]);
        box[2 + side] = size * anchors.sizes[2 * anchor + side];
    }
    keep(finds, image, around(box[0], box[1], box[2], box[3], best, grid.first + number));
}

// FastestDet: objectness, tanh of the centre's offset, logistic size as shares of the image, classes.
extern "C" __global__ void decode_fastestdet(
    const void *map, Layout layout, Grid grid, int classes, int width, int height, float limit, float confidence,
    Detection *detections, int *counts, const float *limits, int capacity, int limit_count) {
    const Finds finds = {detections, counts, limits, capacity, limit_count};
    const int cell = thread_number(), image = blockIdx.y;
    if (cell >= grid.cells()) return;
    const Values values(map, layout, image, cell);
    const double objectness = values[0];
    if (!(values[0] >= limit)) return;
    Best best = best_class(values, 5, classes);
    best.score = (float)(power_of(objectness, 0.6) * power_of(or_zero(best.score), 0.4));
    if (!(best.score >= confidence)) return;
    const double x = (cell % grid.columns + tanh_of(values[1])) / grid.columns * width;
    const double y = (cell / grid.columns + tanh_of(values[2])) / grid.rows * height;
    const double across = 1 / (1 + exp_of(-(double)values[3])) * width;
    const double down = 1 / (1 + exp_of(-(double)values[4])) * height;
    keep(finds, image, around((float)x, (float)y, (float)across, (float)down, best, grid.first + cell));
}
