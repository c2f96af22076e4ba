// Suppression of boxes that overlap, by the arithmetic and in the order of `infer/nms/greedy.py`, for all images of a
// batch at once.
#include "detections.cuh"

constexpr int MOST_CANDIDATES = 10000;
constexpr int THREADS = 256;
constexpr float LARGEST = 3.402823466e38f;

__device__ inline bool goes_before(const Detection &one, const Detection &other) {
    return one.confidence > other.confidence || (one.confidence == other.confidence && one.index < other.index);
}

__device__ inline int candidates_of(const int *counts, int capacity, int image) {
    return min(counts[image * COUNTS + FOUND], capacity);
}

// Puts the candidates of each image in order, the most confident first and of equal ones the lowest index first; at
// most `room` of each. Each thread counts how many candidates go before its own.
extern "C" __global__ void rank(
    const Detection *detections, const int *counts, int capacity, Detection *ranked, int room) {
    const int image = blockIdx.y, count = candidates_of(counts, capacity, image);
    const int own = blockIdx.x * blockDim.x + threadIdx.x;
    if (own >= count) return;
    detections += (long long)image * capacity;
    const Detection mine = detections[own];
    int place = 0;
    for (int other = 0; other < count; ++other) place += goes_before(detections[other], mine);
    if (place < room) ranked[(long long)image * room + place] = mine;
}

// A box as OpenCV's NMSBoxes sees it, moved to where its class has its own room.
struct Box {
    double x, y, width, height;

    __device__ Box(const Detection &from, double room) {
        const double shift = from.class_id * room;
        x = from.left + shift, y = from.top;
        width = (from.right + shift) - x, height = from.bottom - y;
    }
    __device__ double area() const { return width * height; }
    __device__ bool is_empty() const { return width <= 0 || height <= 0; }
};

// Intersection over union; two boxes without any area count as one.
__device__ inline float overlap(const Box &one, const Box &other) {
    const double areas = one.area() + other.area();
    if (areas <= 2.220446049250313e-16) return 1;
    double shared = 0;
    if (!one.is_empty() && !other.is_empty()) {
        const double left = fmax(one.x, other.x), top = fmax(one.y, other.y);
        const Box &first = one.x < other.x ? one : other, &second = one.x < other.x ? other : one;
        const Box &upper = one.y < other.y ? one : other, &lower = one.y < other.y ? other : one;
        const double width = fmin(first.width - (left - first.x), second.width);
        const double height = fmin(upper.height - (top - upper.y), lower.height);
        if (width > 0 && height > 0) shared = width * height;
    }
    return 1.0f - (float)(1.0 - shared / (areas - shared));
}

// How much room a class needs so that its boxes overlap those of no other class. All threads of the block ask.
__device__ inline double room_of_class(const Detection *ranked, int count, float *lowest, float *highest) {
    const int thread = threadIdx.x;
    lowest[thread] = LARGEST, highest[thread] = -LARGEST;
    for (int place = thread; place < count; place += THREADS) {
        const Detection own = ranked[place];
        lowest[thread] = fminf(lowest[thread], fminf(fminf(own.left, own.top), fminf(own.right, own.bottom)));
        highest[thread] = fmaxf(highest[thread], fmaxf(fmaxf(own.left, own.top), fmaxf(own.right, own.bottom)));
    }
    __syncthreads();
    for (int half = THREADS / 2; half > 0; half /= 2) {
        if (thread < half) {
            lowest[thread] = fminf(lowest[thread], lowest[thread + half]);
            highest[thread] = fmaxf(highest[thread], highest[thread + half]);
        }
        __syncthreads();
    }
    return (double)highest[0] - (double)lowest[0] + 1;
}

// The candidates that stay, by falling confidence: each one unless it overlaps one that stays by more than `iou` (and
// is of its class, unless `is_agnostic`). One block for each image. `kept_counts` holds for each image how many
// stay, were found, were no finite numbers, and found no room.
extern "C" __global__ void __launch_bounds__(THREADS) suppress(
    const Detection *ranked, const int *counts, int capacity, int room, float iou, int is_agnostic, Detection *kept,
    int most_kept, int *kept_counts) {
    __shared__ bool is_dropped[MOST_CANDIDATES];
    __shared__ float lowest[THREADS], highest[THREADS];
    const int image = blockIdx.x, thread = threadIdx.x;
    const int count = min(candidates_of(counts, capacity, image), room);
    ranked += (long long)image * room;
    for (int place = thread; place < count; place += THREADS) is_dropped[place] = false;
    const double shift = is_agnostic ? 0 : room_of_class(ranked, count, lowest, highest);
    __syncthreads();
    int number = 0;
    for (int place = 0; place < count && number < most_kept; ++place) {
        if (is_dropped[place]) continue;
        const Box best(ranked[place], shift);
        for (int other = place + 1 + thread; other < count; other += THREADS) {
            if (!is_dropped[other] && overlap(Box(ranked[other], shift), best) > iou) is_dropped[other] = true;
        }
        if (thread == 0) kept[(long long)image * most_kept + number] = ranked[place];
        ++number;
        __syncthreads();
    }
    if (thread == 0) {
        int *told = kept_counts + image * 4;
        told[0] = number;
        told[1] = counts[image * COUNTS + FOUND];
        told[2] = counts[image * COUNTS + INVALID];
        told[3] = max(told[1] - capacity, 0);
    }
}
