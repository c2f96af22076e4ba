// Frames at the size of their tiles: planes of luma and chroma are resampled by the filters of pre-processing, all frames
// in one launch. It follows `canvas.py`; `cuda.py` fills the table and launches.
#include "taps.cuh"

// A frame, and the smaller one that is made of it, in the same format (8 bits). Rows and columns of the maps are those
// of the planes of `to`.
struct Job {
    Surface from, to;
    PlaneMap luma, chroma;
};

// A thread makes one sample of luma, and one of chroma where there is one in its column and row. `content` is the table
// of jobs, and from `data` on what they refer to.
extern "C" __global__ void shrink(const unsigned char *__restrict__ content, long long data) {
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    const Job &job = reinterpret_cast<const Job *>(content)[blockIdx.z];
    const unsigned char *lists = content + data;
    if (x >= job.to.width || y >= job.to.height) return;
    put_luma(job.to, x, y, sample<1>(job.luma, lists, LumaTap{job.from}, x, y).of[0]);
    if (x >= job.to.width >> 1 || y >= job.to.height >> 1) return;
    const Values<2> chroma = sample<2>(job.chroma, lists, ChromaTap{job.from}, x, y);
    put_chroma(job.to, x, y, {chroma.of[0], chroma.of[1]});
}
