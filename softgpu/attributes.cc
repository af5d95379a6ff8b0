#include "attributes.h"

namespace softgpu {
namespace {

// Figures of NVIDIA's data centre GPU of a compute capability (CUDA's programming guide and data sheets).
struct Generation {
  int sm;  // the first that has them
  int multiprocessors;
  int shared_bytes_optin;
  int l2_bytes;
};

constexpr Generation kGenerations[] = {
    {100, 148, 227 << 10, 126 << 20}, {90, 132, 227 << 10, 50 << 20}, {86, 84, 99 << 10, 6 << 20},
    {80, 108, 163 << 10, 40 << 20},   {75, 40, 64 << 10, 4 << 20},    {70, 80, 96 << 10, 6 << 20},
    {0, 56, 48 << 10, 4 << 20},
};

const Generation& generation(int sm) {
  for (const Generation& each : kGenerations) {
    if (sm >= each.sm) return each;
  }
  return kGenerations[std::size(kGenerations) - 1];
}

}  // namespace

std::optional<int> deviceAttribute(const Device& device, int attribute) {
  const GpuDescription& gpu = device.gpu;
  const Generation& figures = generation(gpu.sm);
  switch (attribute) {
    case cudaDevAttrMaxThreadsPerBlock:
      return 1024;
    case cudaDevAttrMaxBlockDimX:
      return 1024;
    case cudaDevAttrMaxBlockDimY:
      return 1024;
    case cudaDevAttrMaxBlockDimZ:
      return 64;
    case cudaDevAttrMaxGridDimX:
      return 2147483647;
    case cudaDevAttrMaxGridDimY:
      return 65535;
    case cudaDevAttrMaxGridDimZ:
      return 65535;
    case cudaDevAttrMaxSharedMemoryPerBlock:
      return 48 << 10;
    case cudaDevAttrTotalConstantMemory:
      return 64 << 10;
    case cudaDevAttrWarpSize:
      return 32;
    case cudaDevAttrMaxRegistersPerBlock:
      return 65536;
    case cudaDevAttrClockRate:
      return 1500000;
    case cudaDevAttrGpuOverlap:
      return 1;
    case cudaDevAttrMultiProcessorCount:
      return figures.multiprocessors;
    case cudaDevAttrKernelExecTimeout:
      return 0;
    case cudaDevAttrIntegrated:
      return 0;
    case cudaDevAttrCanMapHostMemory:
      return 1;
    case cudaDevAttrComputeMode:
      return cudaComputeModeDefault;
    case cudaDevAttrConcurrentKernels:
      return 1;
    case cudaDevAttrEccEnabled:
      return 1;
    case cudaDevAttrPciBusId:
      return static_cast<int>(gpu.pciBus());
    case cudaDevAttrPciDeviceId:
      return static_cast<int>(gpu.pciSlot());
    case cudaDevAttrPciDomainId:
      return static_cast<int>(gpu.pciDomain());
    case cudaDevAttrTccDriver:
      return 0;
    case cudaDevAttrMemoryClockRate:
      return 2600000;
    case cudaDevAttrGlobalMemoryBusWidth:
      return 5120;
    case cudaDevAttrL2CacheSize:
      return figures.l2_bytes;
    case cudaDevAttrMaxThreadsPerMultiProcessor:
      return 2048;
    case cudaDevAttrAsyncEngineCount:
      return 3;
    case cudaDevAttrUnifiedAddressing:
      return 1;
    case cudaDevAttrComputeCapabilityMajor:
      return gpu.sm / 10;
    case cudaDevAttrComputeCapabilityMinor:
      return gpu.sm % 10;
    case cudaDevAttrStreamPrioritiesSupported:
      return 1;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
      return figures.shared_bytes_optin + (1 << 10);
    case cudaDevAttrMaxRegistersPerMultiprocessor:
      return 65536;
    case cudaDevAttrManagedMemory:
      return 1;
    case cudaDevAttrIsMultiGpuBoard:
      return 0;
    case cudaDevAttrMultiGpuBoardGroupID:
      return device.number;
    case cudaDevAttrHostNativeAtomicSupported:
      return 0;
    case cudaDevAttrPageableMemoryAccess:
      return 0;
    case cudaDevAttrConcurrentManagedAccess:
      return 1;
    case cudaDevAttrCanUseHostPointerForRegisteredMem:
      return 1;
    case cudaDevAttrCooperativeLaunch:
      return 1;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      return figures.shared_bytes_optin;
    case cudaDevAttrHostRegisterSupported:
      return 1;
    case cudaDevAttrPageableMemoryAccessUsesHostPageTables:
      return 0;
    case cudaDevAttrDirectManagedMemAccessFromHost:
      return 0;
    case cudaDevAttrMaxBlocksPerMultiprocessor:
      return 32;
    case cudaDevAttrMemoryPoolsSupported:
      return 1;
    case cudaDevAttrMemoryPoolSupportedHandleTypes:
      return 0;
    // Memory is the process' own, so a NIC reaches it, every write is seen in order, and a flush is free.
    case cudaDevAttrGPUDirectRDMASupported:
      return 1;
    case cudaDevAttrGPUDirectRDMAFlushWritesOptions:
      return cudaFlushGPUDirectRDMAWritesOptionHost | cudaFlushGPUDirectRDMAWritesOptionMemOps;
    case cudaDevAttrGPUDirectRDMAWritesOrdering:
      return cudaGPUDirectRDMAWritesOrderingNone;
    case CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED:
      return 1;
    // Virtual memory management (cuMem), shared by file descriptors; no fabric handles, no multicast.
    case CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
      return 1;
    case CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED:
      return 1;
    case CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED:
      return 1;
    case 141:
      return 1;  // CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, CUDA 12.8
    case 143:
      return 0;  // CU_DEVICE_ATTRIBUTE_HOST_NUMA_MULTINODE_IPC_SUPPORTED, CUDA 12.8
    // Operations on memory in a stream. Writes of others are seen at once, so a flush is free.
    case 92:   // CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_MEM_OPS
    case 93:   // CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS of version 1
    case 94:   // CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR of version 1
    case 98:   // CU_DEVICE_ATTRIBUTE_CAN_FLUSH_REMOTE_WRITES
    case 122:  // CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS
    case 123:  // CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR
      return 1;
    case 128:
      return 0;  // CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED, CUDA 12.4
    case 132:
      return 0;  // CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED, CUDA 12.1
    case cudaDevAttrClusterLaunch:
      return gpu.sm >= 90 ? 1 : 0;
    case 125:  // cudaDevAttrIpcEventSupport, CUDA 12.0
      return 0;
    case 126:
      return 1;  // cudaDevAttrMemSyncDomainCount, CUDA 12.0
    case 130:
      return 0;  // cudaDevAttrNumaConfig, CUDA 12.2: the GPU's memory is no NUMA node
    case 131:
      return -1;  // cudaDevAttrNumaId, CUDA 12.2
    case 133:
      return 0;  // cudaDevAttrMpsEnabled, CUDA 12.3
    case 134:
      return gpu.numa;  // cudaDevAttrHostNumaId, CUDA 12.2
    default:
      return std::nullopt;
  }
}

}  // namespace softgpu
