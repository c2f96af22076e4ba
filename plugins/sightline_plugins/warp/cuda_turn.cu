// Images that are turned, scaled and shifted, all of a batch in one launch. It follows `turn` of `remap.py`, in the
// arithmetic of OpenCV's `warpAffine`; `cuda_turn.py` fills the table and launches.
#include "taps.cuh"

// An image, and the one that is made of it in the same format (8 bits) and size. What is beyond the rectangle of a map
// is its edge: that of the plane, which is repeated then, or one pixel around it, which is black.
struct Job {
    Surface from, to;
    PlaneMap luma, chroma;
    int chroma_wh[2];
    int black, unused;
};

__device__ inline bool is_in(int x, int y, int width, int height) { return x >= 0 && y >= 0 && x < width && y < height; }

struct FramedLuma {
    const Job &job;

    __device__ Values<1> operator()(int x, int y) const {
        if (!is_in(x, y, job.from.width, job.from.height)) return {{job.black}};
        return LumaTap{job.from}(x, y);
    }
};

struct FramedChroma {
    const Job &job;

    __device__ Values<2> operator()(int x, int y) const {
        if (!is_in(x, y, job.chroma_wh[0], job.chroma_wh[1])) return {{128, 128}};
        return ChromaTap{job.from}(x, y);
    }
};

template <int N, typename Tap>
__device__ inline Values<N> moved(const PlaneMap &map, const Tap &tap, int column, int row) {
    const float across = map.warped_x(column, row), down = map.warped_y(column, row);
    const int x = __float2int_rd(across), y = __float2int_rd(down);
    return Corners<N>(map, tap, x, y).mixed(across - x, down - y);
}

// A thread makes one sample of luma, and one of chroma where there is one in its column and row.
extern "C" __global__ void turn_images(const unsigned char *__restrict__ jobs) {
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    const Job &job = reinterpret_cast<const Job *>(jobs)[blockIdx.z];
    if (x >= job.to.width || y >= job.to.height) return;
    put_luma(job.to, x, y, moved<1>(job.luma, FramedLuma{job}, x, y).of[0]);
    if (x >= job.chroma_wh[0] || y >= job.chroma_wh[1]) return;
    const Values<2> chroma = moved<2>(job.chroma, FramedChroma{job}, x, y);
    put_chroma(job.to, x, y, {chroma.of[0], chroma.of[1]});
}
