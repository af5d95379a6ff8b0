// What NCCL's host code expects of its device code, beside the kernels: tables, and functions that are in
// NCCL's .cu files.
#include "tables.h"

#include <cstddef>
#include <cstdio>
#include <cstdlib>

#include "checks.h"       // NCCL's
#include "collectives.h"  // NCCL's
#include "device.h"       // NCCL's
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 28, 0)
#include "sym_kernels.h"  // NCCL's
#elif NCCL_VERSION_CODE >= NCCL_VERSION(2, 27, 0)
#include "symmetric.h"  // NCCL's
#endif
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 31, 0)
#include "diagnostics/p2p.h"  // NCCL's
#endif

#include "alloc.h"  // NCCL's

namespace {

char kernel_name;
char one_rank_kernel_name;

}  // namespace

namespace kernels {

const void* const kKernel = &kernel_name;
const void* const kOneRankKernel = &one_rank_kernel_name;

}  // namespace kernels

#define TIMES_4(x) x, x, x, x
#define TIMES_16(x) TIMES_4(x), TIMES_4(x), TIMES_4(x), TIMES_4(x)
#define TIMES_64(x) TIMES_16(x), TIMES_16(x), TIMES_16(x), TIMES_16(x)
#define TIMES_256(x) TIMES_64(x), TIMES_64(x), TIMES_64(x), TIMES_64(x)
#define TIMES_1024(x) TIMES_256(x), TIMES_256(x), TIMES_256(x), TIMES_256(x)
#define TIMES_4096(x) TIMES_1024(x), TIMES_1024(x), TIMES_1024(x), TIMES_1024(x)
#define COUNT_4(n) n, n + 1, n + 2, n + 3
#define COUNT_16(n) COUNT_4(n), COUNT_4(n + 4), COUNT_4(n + 8), COUNT_4(n + 12)
#define COUNT_64(n) COUNT_16(n), COUNT_16(n + 16), COUNT_16(n + 32), COUNT_16(n + 48)
#define COUNT_256(n) COUNT_64(n), COUNT_64(n + 64), COUNT_64(n + 128), COUNT_64(n + 192)
#define COUNT_1024(n) COUNT_256(n), COUNT_256(n + 256), COUNT_256(n + 512), COUNT_256(n + 768)

int const ncclDevKernelCount = 1;
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 28, 0) && !defined(RCCL)
void* ncclDevKernelList[] = {&kernel_name, nullptr};
#else
void* const ncclDevKernelList[] = {&kernel_name, nullptr};
#endif
int const ncclDevFuncRowToId[kernels::kFunctionRows] = {COUNT_1024(0), COUNT_1024(1024), COUNT_1024(2048),
                                                        COUNT_1024(3072)};
void* const ncclDevKernelForFunc[kernels::kFunctionRows] = {TIMES_4096(&kernel_name)};
bool const ncclDevKernelForFuncIsSpecialized[kernels::kFunctionRows] = {};
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 28, 0)
int ncclDevKernelRequirements[] = {0};
#endif

namespace {

[[maybe_unused]] ncclResult_t noKernel(const char* purpose) {
  std::fprintf(stderr, "software GPU: no kernel for NCCL's %s\n", purpose);
  return ncclInvalidUsage;
}

// NCCL takes whatever it is given for a symmetric kernel, and launches it.
[[maybe_unused, noreturn]] void noSymmetricKernel() {
  std::fputs(
      "software GPU: no kernel for NCCL's symmetric memory, which it uses where NVLink joins all GPUs\n",
      stderr);
  std::abort();
}

}  // namespace

// No symmetric kernels: they are device code of their own.
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 28, 0)
int const ncclSymkKernelCount = 0;
#ifdef RCCL
void* const ncclSymkKernelList[] = {nullptr};
#else
void* ncclSymkKernelList[] = {nullptr};
#endif
int ncclSymkKernelRequirements[] = {0};
#elif NCCL_VERSION_CODE >= NCCL_VERSION(2, 27, 0)
int const ncclSymKernelCount = 0;
void* const ncclSymKernelList[] = {nullptr};

void* ncclSymGetKernelPtr(ncclSymKernelId, int, ncclDataType_t) { noSymmetricKernel(); }
#endif
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 29, 7)
int ncclSymkKernelMaxDynamicSmem[] = {0};

int ncclSymkGetKernelIndex(ncclSymkKernelId, int, ncclDataType_t) { noSymmetricKernel(); }
#elif NCCL_VERSION_CODE >= NCCL_VERSION(2, 28, 0) && !defined(RCCL)
void* ncclSymkGetKernelPtr(ncclSymkKernelId, int, ncclDataType_t) { noSymmetricKernel(); }
#endif
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 31, 0)
void* ncclSymkKernelListProfile[] = {nullptr};
#endif

#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 31, 0)
// What NCCL_RUN_DIAGNOSTICS=1 tries between GPUs of a host.
ncclResult_t ncclDiagP2pInitSlots(ncclDiagP2pSlot*, const int*, int, int, cudaStream_t) {
  return noKernel("diagnostics");
}
ncclResult_t ncclDiagP2pRemoteWrite(const ncclDiagP2pRemoteOp*, int, cudaStream_t) {
  return noKernel("diagnostics");
}
ncclResult_t ncclDiagP2pVerifyWrites(ncclDiagP2pSlot*, int, cudaStream_t) { return noKernel("diagnostics"); }
ncclResult_t ncclDiagP2pRemoteRead(const ncclDiagP2pRemoteOp*, int, uint64_t*, cudaStream_t) {
  return noKernel("diagnostics");
}
#endif

// A communicator of one rank reduces nothing: it copies, and multiplies if the reduction says so.
ncclResult_t ncclLaunchOneRank(void* destination, void const* source, size_t count,
                               ncclDevRedOpFull reduction, ncclDataType_t type, cudaStream_t stream) {
  if (reduction.op != ncclDevPreMulSum) {
    if (destination == source) return ncclSuccess;
    const size_t bytes = count * static_cast<size_t>(ncclTypeSize(type));
    return cudaMemcpyAsync(destination, source, bytes, cudaMemcpyDefault, stream) == cudaSuccess
               ? ncclSuccess
               : ncclUnhandledCudaError;
  }
  auto type_number = static_cast<int>(type);
  void* arguments[] = {&destination, &source, &count, &reduction.scalarArg, &reduction.scalarArgIsPtr,
                       &type_number};
  const cudaError_t error = cudaLaunchKernel(kernels::kOneRankKernel, dim3(1), dim3(1), arguments, 0, stream);
  return error == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}
