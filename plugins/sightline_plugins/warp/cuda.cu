// Images whose pixels come from elsewhere in others, all of a batch in one launch. It follows `remap.py`: bilinear by
// places of 1/32 pixel, in the arithmetic of OpenCV's `remap`; `cuda.py` fills the table and launches.
#include "surface.cuh"

// An image, and the one that is made of it in the same format (8 bits). For both kinds of planes, `whole` and `part` say
// where the maps begin: whole pixels (x, y), and which of the 32 x 32 places within one.
struct Job {
    Surface from, to;
    long long luma_whole, luma_part, chroma_whole, chroma_part;
    int from_chroma_wh[2], to_chroma_wh[2];
    int black, unused;
};

struct Place {
    int x, y, right, down;
};

__device__ inline Place place_at(const unsigned char *maps, long long whole, long long part, int index) {
    const short2 pixel = reinterpret_cast<const short2 *>(maps + whole)[index];
    const int within = reinterpret_cast<const unsigned short *>(maps + part)[index];
    return {pixel.x, pixel.y, within & 31, within >> 5};
}

__device__ inline bool is_in(int x, int y, int width, int height) { return x >= 0 && y >= 0 && x < width && y < height; }

// Four samples, the left and the right one above, and those below, by how far the place lies to the right and down.
__device__ inline int mixed(const Place &place, int above, int above_right, int below, int below_right) {
    const int left = 32 - place.right, up = 32 - place.down;
    const int sum = above * left * up + above_right * place.right * up + below * left * place.down +
                    below_right * place.right * place.down;
    return (sum + 512) >> 10;
}

__device__ inline int luma_or_black(const Job &job, int x, int y) {
    return is_in(x, y, job.from.width, job.from.height) ? luma_at(job.from, x, y) : job.black;
}

__device__ inline Chroma chroma_or_none(const Job &job, int x, int y) {
    if (!is_in(x, y, job.from_chroma_wh[0], job.from_chroma_wh[1])) return {128, 128};
    return chroma_at(job.from, x, y);
}

// A thread makes one sample of luma, and one of chroma where there is one in its column and row. `jobs` is the table,
// `maps` what it refers to.
extern "C" __global__ void remap_images(const unsigned char *__restrict__ jobs,
                                        const unsigned char *__restrict__ maps) {
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    const Job &job = reinterpret_cast<const Job *>(jobs)[blockIdx.z];
    if (x >= job.to.width || y >= job.to.height) return;
    const Place luma = place_at(maps, job.luma_whole, job.luma_part, y * job.to.width + x);
    put_luma(job.to, x, y,
             mixed(luma, luma_or_black(job, luma.x, luma.y), luma_or_black(job, luma.x + 1, luma.y),
                   luma_or_black(job, luma.x, luma.y + 1), luma_or_black(job, luma.x + 1, luma.y + 1)));
    if (x >= job.to_chroma_wh[0] || y >= job.to_chroma_wh[1]) return;
    const Place place = place_at(maps, job.chroma_whole, job.chroma_part, y * job.to_chroma_wh[0] + x);
    const Chroma a = chroma_or_none(job, place.x, place.y), b = chroma_or_none(job, place.x + 1, place.y);
    const Chroma c = chroma_or_none(job, place.x, place.y + 1), d = chroma_or_none(job, place.x + 1, place.y + 1);
    put_chroma(job.to, x, y, {mixed(place, a.u, b.u, c.u, d.u), mixed(place, a.v, b.v, c.v, d.v)});
}
