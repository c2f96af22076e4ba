// The brightness of frames at the size at which motion is looked for: luma is resampled by the filters of
// pre-processing, all frames in one launch. It follows `luma.py`; `cuda.py` fills the table and launches.
#include "taps.cuh"

// A frame, and where in `made` the image of its brightness begins, whose rows lie one behind the other.
struct Job {
    Surface from;
    PlaneMap luma;
    long long to;
    int width, height;
};

// A thread makes one sample. `content` is the table of jobs, and from `data` on what they refer to.
extern "C" __global__ void reduce_luma(const unsigned char *__restrict__ content, long long data,
                                       unsigned char *__restrict__ made) {
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    const Job &job = reinterpret_cast<const Job *>(content)[blockIdx.z];
    if (x >= job.width || y >= job.height) return;
    const int level = sample<1>(job.luma, content + data, LumaTap{job.from}, x, y).of[0];
    made[job.to + (long long)y * job.width + x] = (unsigned char)level;
}
