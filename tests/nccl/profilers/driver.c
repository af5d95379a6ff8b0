/* libcuda.so.1 for NCCL's Inspector on the software GPU, whose functions of the driver are behind the CUDA
 * runtime: those that the Inspector looks up. profilers_test.py compiles it. */
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <stddef.h>

static void* find(const char* name) {
  void* found = NULL;
  enum cudaDriverEntryPointQueryResult result = cudaDriverEntryPointSymbolNotFound;
  return cudaGetDriverEntryPointByVersion(name, &found, CUDART_VERSION, cudaEnableDefault, &result) ==
                 cudaSuccess
             ? found
             : NULL;
}

CUresult cuGetErrorString(CUresult error, const char** text) {
  CUresult (*call)(CUresult, const char**) = find("cuGetErrorString");
  return call != NULL ? call(error, text) : CUDA_ERROR_NOT_FOUND;
}

CUresult cuDeviceGet(CUdevice* device, int index) {
  CUresult (*call)(CUdevice*, int) = find("cuDeviceGet");
  return call != NULL ? call(device, index) : CUDA_ERROR_NOT_FOUND;
}

#undef cuDeviceGetUuid
CUresult cuDeviceGetUuid(CUuuid* uuid, CUdevice device) {
  CUresult (*call)(CUuuid*, CUdevice) = find("cuDeviceGetUuid");
  return call != NULL ? call(uuid, device) : CUDA_ERROR_NOT_FOUND;
}
