// Launches and memory operations in a stream, as the driver has them.
#include <atomic>
#include <chrono>
#include <optional>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "device.h"
#include "errors.h"
#include "event.h"
#include "graph.h"
#include "launch.h"
#include "memory.h"

namespace softgpu {
namespace {

cudaError_t launch(CUfunction function, unsigned blocks, unsigned threads, CUstream handle, void** parameters,
                   void** extra, CUevent begun) {
  cudaError_t error;
  const auto stream = resolveStream(handle, &error);
  if (stream == nullptr) return error;
  Work work;
  error = prepareLaunch(reinterpret_cast<Kernel*>(function), blocks, threads, parameters, extra,
                        stream->device().number, &work);
  if (error != cudaSuccess) return error;
  if (begun != nullptr) {  // the kernel has begun when all before it is done
    const auto event = events().find(begun);
    if (event == nullptr) return cudaErrorInvalidResourceHandle;
    if (error = recordEvent(event, *stream, cudaEventRecordDefault); error != cudaSuccess) return error;
  }
  return submit(*stream, cudaGraphNodeTypeKernel, std::move(work));
}

// The operations that one batch may have, less one (CUDA's limit).
constexpr unsigned kBatchLimit = 256;

// CUDA's >= is cyclic: a counter may wrap around.
template <typename T>
bool fulfilled(T now, T wanted, unsigned condition) {
  switch (condition) {
    case CU_STREAM_WAIT_VALUE_GEQ:
      return static_cast<std::make_signed_t<T>>(now - wanted) >= 0;
    case CU_STREAM_WAIT_VALUE_EQ:
      return now == wanted;
    case CU_STREAM_WAIT_VALUE_AND:
      return (now & wanted) != 0;
    default:
      return static_cast<T>(~(now | wanted)) != 0;
  }
}

// How often a wait for a value looks before it sleeps between looks, and for how long it sleeps then. Another
// process may write the value, so there is nothing to wake the waiting thread.
constexpr int kEagerLooks = 100;
constexpr auto kNap = std::chrono::microseconds(20);

// A flush of remote writes needs nothing: writes of others are seen at once.
constexpr unsigned kConditions = 3;
constexpr unsigned kWaitFlags = kConditions | CU_STREAM_WAIT_VALUE_FLUSH;

// Memory that a device reaches. CUDA refuses managed memory here.
template <typename T>
bool usable(CUdeviceptr address) {
  const std::optional<Allocation> found = findAllocation(reinterpret_cast<const void*>(address));
  return address % sizeof(T) == 0 && found && found->kind != MemoryKind::kManaged;
}

// Empty work: CUDA refuses the operation.
template <typename T>
Work waitValue(CUdeviceptr address, T wanted, unsigned flags) {
  if (!usable<T>(address) || (flags & ~kWaitFlags) != 0) return {};
  return [address, wanted, condition = flags & kConditions] {
    const std::atomic_ref<T> value(*reinterpret_cast<T*>(address));
    for (int looks = 0; !fulfilled(value.load(std::memory_order_acquire), wanted, condition); ++looks) {
      if (looks < kEagerLooks) {
        std::this_thread::yield();
      } else {
        std::this_thread::sleep_for(kNap);
      }
    }
  };
}

// All writes are in order, which CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER would spare a GPU.
template <typename T>
Work writeValue(CUdeviceptr address, T value, unsigned flags) {
  if (!usable<T>(address) || (flags & ~unsigned{CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER}) != 0) return {};
  return [address, value] {
    std::atomic_ref<T>(*reinterpret_cast<T*>(address)).store(value, std::memory_order_release);
  };
}

Work operationWork(const CUstreamBatchMemOpParams& one) {
  switch (one.operation) {
    case CU_STREAM_MEM_OP_WAIT_VALUE_32:
      return waitValue<uint32_t>(one.waitValue.address, one.waitValue.value, one.waitValue.flags);
    case CU_STREAM_MEM_OP_WAIT_VALUE_64:
      return waitValue<uint64_t>(one.waitValue.address, one.waitValue.value64, one.waitValue.flags);
    case CU_STREAM_MEM_OP_WRITE_VALUE_32:
      return writeValue<uint32_t>(one.writeValue.address, one.writeValue.value, one.writeValue.flags);
    case CU_STREAM_MEM_OP_WRITE_VALUE_64:
      return writeValue<uint64_t>(one.writeValue.address, one.writeValue.value64, one.writeValue.flags);
    case CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES:
    case CU_STREAM_MEM_OP_BARRIER:  // operations are in order anyway
      return [] {};
    default:
      return {};
  }
}

// In a capture, one node. The runtime's enumeration has no name for it.
CUresult submitOperations(CUstream handle, Work work) {
  cudaError_t error;
  const auto stream = resolveStream(handle, &error);
  if (stream == nullptr) return driverCode(error);
  if (!work) return CUDA_ERROR_INVALID_VALUE;
  return driverCode(
      submit(*stream, static_cast<cudaGraphNodeType>(CU_GRAPH_NODE_TYPE_BATCH_MEM_OP), std::move(work)));
}

}  // namespace
}  // namespace softgpu

using namespace softgpu;

CUresult cuLaunchKernel(CUfunction function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
                        unsigned int block_x, unsigned int block_y, unsigned int block_z, unsigned int,
                        CUstream stream, void** parameters, void** extra) {
  return driverCode(launch(function, grid_x * grid_y * grid_z, block_x * block_y * block_z, stream,
                           parameters, extra, nullptr));
}

#if CUDA_VERSION >= 11080
CUresult cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction function, void** parameters,
                          void** extra) {
  if (config == nullptr) return CUDA_ERROR_INVALID_VALUE;
  CUevent begun = nullptr;
#if CUDA_VERSION >= 12030
  for (unsigned i = 0; i < config->numAttrs; ++i) {
    if (config->attrs[i].id == CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT)
      begun = config->attrs[i].value.launchCompletionEvent.event;
  }
#endif
  return driverCode(launch(function, config->gridDimX * config->gridDimY * config->gridDimZ,
                           config->blockDimX * config->blockDimY * config->blockDimZ, config->hStream,
                           parameters, extra, begun));
}
#endif

CUresult cuStreamWaitValue32(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned int flags) {
  return submitOperations(stream, waitValue<uint32_t>(address, value, flags));
}

CUresult cuStreamWaitValue64(CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned int flags) {
  return submitOperations(stream, waitValue<uint64_t>(address, value, flags));
}

CUresult cuStreamWriteValue32(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned int flags) {
  return submitOperations(stream, writeValue<uint32_t>(address, value, flags));
}

CUresult cuStreamWriteValue64(CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned int flags) {
  return submitOperations(stream, writeValue<uint64_t>(address, value, flags));
}

// All of them or, if one is refused, none.
CUresult cuStreamBatchMemOp(CUstream stream, unsigned int count, CUstreamBatchMemOpParams* operations,
                            unsigned int flags) {
  if (count >= kBatchLimit || operations == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  std::vector<Work> works;
  for (unsigned i = 0; i < count; ++i) {
    works.push_back(operationWork(operations[i]));
    if (!works.back()) return CUDA_ERROR_INVALID_VALUE;
  }
  return submitOperations(stream, [works = std::move(works)] {
    for (const Work& work : works) work();
  });
}
