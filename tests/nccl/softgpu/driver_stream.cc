// Launches and memory operations in a stream, as the driver has them.
#include <atomic>
#include <chrono>
#include <thread>
#include <type_traits>
#include <utility>

#include "device.h"
#include "errors.h"
#include "event.h"
#include "graph.h"
#include "launch.h"

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
      return ~(now | wanted) != 0;
  }
}

// How often a wait for a value looks before it sleeps between looks, and for how long it sleeps then. Another
// process may write the value, so there is nothing to wake the waiting thread.
constexpr int kEagerLooks = 100;
constexpr auto kNap = std::chrono::microseconds(20);

template <typename T>
Work waitValue(CUdeviceptr address, T wanted, unsigned flags) {
  return [address, wanted, condition = flags & 3U] {
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

template <typename T>
Work writeValue(CUdeviceptr address, T value) {
  return [address, value] {
    std::atomic_ref<T>(*reinterpret_cast<T*>(address)).store(value, std::memory_order_release);
  };
}

CUresult submitOperation(CUstream handle, Work work) {
  cudaError_t error;
  const auto stream = resolveStream(handle, &error);
  if (stream == nullptr) return driverCode(error);
  return driverCode(submit(*stream, cudaGraphNodeTypeKernel, std::move(work)));
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
  return submitOperation(stream, waitValue<uint32_t>(address, value, flags));
}

CUresult cuStreamWaitValue64(CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned int flags) {
  return submitOperation(stream, waitValue<uint64_t>(address, value, flags));
}

CUresult cuStreamWriteValue32(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned int) {
  return submitOperation(stream, writeValue<uint32_t>(address, value));
}

CUresult cuStreamWriteValue64(CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned int) {
  return submitOperation(stream, writeValue<uint64_t>(address, value));
}

CUresult cuStreamBatchMemOp(CUstream stream, unsigned int count, CUstreamBatchMemOpParams* operations,
                            unsigned int) {
  for (unsigned i = 0; i < count; ++i) {
    const CUstreamBatchMemOpParams& one = operations[i];
    CUresult result = CUDA_SUCCESS;
    switch (one.operation) {
      case CU_STREAM_MEM_OP_WAIT_VALUE_32:
        result = cuStreamWaitValue32(stream, one.waitValue.address, one.waitValue.value, one.waitValue.flags);
        break;
      case CU_STREAM_MEM_OP_WAIT_VALUE_64:
        result =
            cuStreamWaitValue64(stream, one.waitValue.address, one.waitValue.value64, one.waitValue.flags);
        break;
      case CU_STREAM_MEM_OP_WRITE_VALUE_32:
        result = cuStreamWriteValue32(stream, one.writeValue.address, one.writeValue.value, 0);
        break;
      case CU_STREAM_MEM_OP_WRITE_VALUE_64:
        result = cuStreamWriteValue64(stream, one.writeValue.address, one.writeValue.value64, 0);
        break;
      case CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES:  // writes of others are seen at once
      case CU_STREAM_MEM_OP_BARRIER:              // operations are in order anyway
        break;
      default:
        return driverCode(notSupported("cuStreamBatchMemOp of this operation"));
    }
    if (result != CUDA_SUCCESS) return result;
  }
  return CUDA_SUCCESS;
}
