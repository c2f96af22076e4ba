// Scale the brightness of a frame; one thread per sample.
extern "C" __global__ void dim(unsigned char *luma, long long pitch_bytes, int width, int height, float factor) {
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < width && y < height) luma[y * pitch_bytes + x] = static_cast<unsigned char>(luma[y * pitch_bytes + x] * factor);
}
