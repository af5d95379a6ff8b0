// What RCCL's host code calls of HIP's driver and of ROCm SMI, on the software GPU.
#include <rccl_host.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "entry_point.h"
#include "rocm_smi_wrap.h"  // RCCL's

hipError_t hipMemGetAddressRange(hipDeviceptr_t* begin, size_t* bytes, hipDeviceptr_t pointer) {
  return rccl::addressRange(begin, bytes, pointer);
}

#undef CUresult
CUresult cuCtxGetCurrent(CUcontext* context) {
  return rccl::driverFunction<CUresult(CUcontext*)>("cuCtxGetCurrent")(context);
}

rsmi_status_t rsmi_init(uint64_t) { return RSMI_STATUS_SUCCESS; }

rsmi_status_t rsmi_dev_firmware_version_get(uint32_t, rsmi_fw_block_t, uint64_t* version) {
  *version = 180;  // RCCL refuses an older one than 177 on an MI300X
  return RSMI_STATUS_SUCCESS;
}

// ---- in place of RCCL's misc/rocm_smi_wrap.cc

ncclResult_t rocm_smi_init() { return ncclSuccess; }

ncclResult_t rocm_smi_getNumDevice(uint32_t* count) {
  int number = 0;
  if (cudaGetDeviceCount(&number) != cudaSuccess) return ncclUnhandledCudaError;
  *count = static_cast<uint32_t>(number);
  return ncclSuccess;
}

ncclResult_t rocm_smi_getDevicePciBusIdString(uint32_t device, char* bus_id, size_t bytes) {
  return cudaDeviceGetPCIBusId(bus_id, static_cast<int>(bytes), static_cast<int>(device)) == cudaSuccess
             ? ncclSuccess
             : ncclUnhandledCudaError;
}

ncclResult_t rocm_smi_getDeviceIndexByPciBusId(const char* bus_id, uint32_t* device) {
  int number = 0;
  if (cudaDeviceGetByPCIBusId(&number, bus_id) != cudaSuccess) return ncclInternalError;
  *device = static_cast<uint32_t>(number);
  return ncclSuccess;
}

// SOFTGPU_XGMI=1: xGMI between all GPUs of a host; else RCCL joins them by PCIe.
ncclResult_t rocm_smi_getLinkInfo(int, int, RSMI_IO_LINK_TYPE* type, int* hops, int* count) {
  const char* const wanted = std::getenv("SOFTGPU_XGMI");
  const bool xgmi = wanted != nullptr && std::strcmp(wanted, "1") == 0;
  *type = xgmi ? RSMI_IOLINK_TYPE_XGMI : RSMI_IOLINK_TYPE_PCIEXPRESS;
  *hops = xgmi ? 1 : 2;
  *count = 1;
  return ncclSuccess;
}
