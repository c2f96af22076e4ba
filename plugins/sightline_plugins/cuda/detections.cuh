// What heads find on the device and what suppression works with; `detections.py` has the same record for NumPy.
#pragma once

struct Detection {
    float left, top, right, bottom;
    float confidence;
    int class_id;
    int index;
    int unused;
};

// The counts of an image, one after another.
enum Count { FOUND, INVALID, COUNTS };

// Where the candidates of all images go: `capacity` for each, in any order. `limits` holds the least confidence of
// each class, the last one for classes beyond; null when there are none.
struct Finds {
    Detection *detections;
    int *counts;
    const float *limits;
    int capacity, limit_count;
};

__device__ inline bool is_finite(float value) { return fabsf(value) <= 3.402823466e38f; }

// Keeps a candidate, if its class asks for no more confidence; what is no finite number is only counted, and what there
// is no room for as well.
__device__ inline void keep(const Finds &finds, int image, const Detection &found) {
    int *counts = finds.counts + image * COUNTS;
    const bool is_valid = is_finite(found.left) && is_finite(found.top) && is_finite(found.right) &&
                          is_finite(found.bottom) && is_finite(found.confidence);
    if (!is_valid) {
        atomicAdd(counts + INVALID, 1);
        return;
    }
    if (finds.limits != nullptr && !(found.confidence >= finds.limits[min(found.class_id, finds.limit_count - 1)])) {
        return;
    }
    const int place = atomicAdd(counts + FOUND, 1);
    if (place < finds.capacity) finds.detections[(long long)image * finds.capacity + place] = found;
}
