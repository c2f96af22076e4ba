// Suppression of boxes that overlap, by the arithmetic and in the order of `native.c`, for all images of a batch at once.
#include "detections.cuh"

constexpr int MOST_CANDIDATES = 10000;
constexpr int THREADS = 256;

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

__device__ inline double area(const Detection &box) {
    return fmax((double)box.right - box.left, 0.0) * fmax((double)box.bottom - box.top, 0.0);
}

// Intersection over union; 0 where both are empty.
__device__ inline double overlap(const Detection &one, const Detection &other) {
    const double width = fmin((double)one.right, (double)other.right) - fmax((double)one.left, (double)other.left);
    const double height = fmin((double)one.bottom, (double)other.bottom) - fmax((double)one.top, (double)other.top);
    if (width <= 0 || height <= 0) return 0;
    const double shared = width * height, both = area(one) + area(other) - shared;
    return both > 0 ? shared / both : 0;
}

// The candidates that stay, by falling confidence: each one unless it overlaps one that stays by more than `iou` (and
// is of its class, unless `is_agnostic`). One block for each image. `kept_counts` holds for each image how many
// stay, were found, were no finite numbers, and found no room.
extern "C" __global__ void __launch_bounds__(THREADS) suppress(
    const Detection *ranked, const int *counts, int capacity, int room, double iou, int is_agnostic, Detection *kept,
    int most_kept, int *kept_counts) {
    __shared__ bool is_dropped[MOST_CANDIDATES];
    const int image = blockIdx.x, thread = threadIdx.x;
    const int count = min(candidates_of(counts, capacity, image), room);
    ranked += (long long)image * room;
    for (int place = thread; place < count; place += THREADS) is_dropped[place] = false;
    __syncthreads();
    int number = 0;
    for (int place = 0; place < count && number < most_kept; ++place) {
        if (is_dropped[place]) continue;
        const Detection best = ranked[place];
        for (int other = place + 1 + thread; other < count; other += THREADS) {
            if (!is_dropped[other] && (is_agnostic || ranked[other].class_id == best.class_id) &&
                overlap(ranked[other], best) > iou) {
                is_dropped[other] = true;
            }
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
