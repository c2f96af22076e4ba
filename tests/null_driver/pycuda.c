// What pycuda calls beside the calls that Sightline makes: it is linked with the driver, and asks in its own ways.
#include "null_driver.h"

API cuDeviceComputeCapability(int *major, int *minor, CUdevice device) {
    BEGIN("cuDeviceComputeCapability", ANYWHERE, device, 0);
    CHECK(device >= 0 && device < gpu_count(), INVALID_DEVICE);
    gpu_capability(major, minor);
    END(SUCCESS);
}

CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr target, const void *source, size_t bytes, void *stream);
CUresult cuMemcpyDtoHAsync_v2(void *target, CUdeviceptr source, size_t bytes, void *stream);
CUresult cuStreamSynchronize(void *stream);

API cuMemcpyHtoD_v2(CUdeviceptr target, const void *source, size_t bytes) {
    CUresult result = cuMemcpyHtoDAsync_v2(target, source, bytes, 0);
    return result ? result : cuStreamSynchronize(0);
}

API cuMemcpyDtoH_v2(void *target, CUdeviceptr source, size_t bytes) {
    CUresult result = cuMemcpyDtoHAsync_v2(target, source, bytes, 0);
    return result ? result : cuStreamSynchronize(0);
}

CUresult cuCtxDestroy_v2(handle context);

API cuCtxDetach(handle context) { return cuCtxDestroy_v2(context); } // nobody attaches, so the first detaches the last

CUresult cuModuleLoadData(handle *module, const void *image);

API cuModuleLoadDataEx(handle *module, const void *image, unsigned options, int *names, void **values) {
    (void)options, (void)names, (void)values; // where the log goes
    return cuModuleLoadData(module, image);
}

API cuFuncSetBlockShape(void *function, int x, int y, int z) { // every launch says it once more
    BEGIN("cuFuncSetBlockShape", IN_CONTEXT, function, x * y * z);
    CHECK(find(FUNCTION, function), INVALID_HANDLE);
    END(SUCCESS);
}
