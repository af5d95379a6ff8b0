#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

#include "softgpu/checks.h"

namespace softgpu {
namespace {

// The child opens the handle that it reads, checks and changes the memory, and says by its exit status how
// far it came.
int openInChild(int from) {
  cudaIpcMemHandle_t handle;
  if (read(from, &handle, sizeof handle) != sizeof handle) return 1;
  void* first = nullptr;
  void* second = nullptr;
  if (cudaIpcOpenMemHandle(&first, handle, cudaIpcMemLazyEnablePeerAccess) != cudaSuccess) return 2;
  if (cudaIpcOpenMemHandle(&second, handle, cudaIpcMemLazyEnablePeerAccess) != cudaSuccess || second != first)
    return 3;
  int value = 0;
  if (cudaMemcpy(&value, first, sizeof value, cudaMemcpyDeviceToHost) != cudaSuccess || value != 41) return 4;
  ++value;
  if (cudaMemcpy(first, &value, sizeof value, cudaMemcpyHostToDevice) != cudaSuccess) return 5;
  cudaPointerAttributes attributes = {};
  (void)cudaPointerGetAttributes(&attributes, first);
  if (attributes.type != cudaMemoryTypeDevice) return 6;
  cudaIpcMemHandle_t again;
  if (cudaIpcGetMemHandle(&again, first) == cudaSuccess) return 7;  // only the owner exports
  if (cudaFree(first) == cudaSuccess) return 8;
  if (cudaIpcCloseMemHandle(first) != cudaSuccess) return 9;
  (void)cudaPointerGetAttributes(&attributes, first);
  if (attributes.type != cudaMemoryTypeDevice) return 10;  // opened twice
  if (cudaIpcCloseMemHandle(first) != cudaSuccess) return 11;
  if (cudaIpcCloseMemHandle(first) == cudaSuccess) return 12;
  return 0;
}

TEST(SoftgpuIpc, AnotherProcessSeesTheMemory) {
  int pipe_ends[2];
  ASSERT_EQ(0, pipe(pipe_ends));
  const pid_t child = fork();  // before the parent uses CUDA
  if (child == 0) _exit(openInChild(pipe_ends[0]));
  int* const at = onDevice<int>(100);
  *at = 41;
  cudaIpcMemHandle_t handle;
  ASSERT_CUDA(cudaIpcGetMemHandle(&handle, at));
  ASSERT_EQ(static_cast<ssize_t>(sizeof handle), write(pipe_ends[1], &handle, sizeof handle));
  int status = -1;
  ASSERT_TRUE(eventually([&] { return waitpid(child, &status, WNOHANG) == child; }));
  EXPECT_EQ(0, status) << "step " << WEXITSTATUS(status);
  EXPECT_EQ(42, *at);
}

TEST(SoftgpuIpc, AHandleOfFreedMemoryOpensNothing) {
  int pipe_ends[2];
  ASSERT_EQ(0, pipe(pipe_ends));
  const pid_t child = fork();
  if (child == 0) {
    cudaIpcMemHandle_t handle;
    void* at = nullptr;
    if (read(pipe_ends[0], &handle, sizeof handle) != sizeof handle) _exit(1);
    _exit(cudaIpcOpenMemHandle(&at, handle, cudaIpcMemLazyEnablePeerAccess) == cudaErrorMapBufferObjectFailed
              ? 0
              : 2);
  }
  int* const at = onDevice<int>(100);
  cudaIpcMemHandle_t handle;
  ASSERT_CUDA(cudaIpcGetMemHandle(&handle, at));
  ASSERT_CUDA(cudaFree(at));
  (void)onDevice<int>(100);  // has the descriptor now
  ASSERT_EQ(static_cast<ssize_t>(sizeof handle), write(pipe_ends[1], &handle, sizeof handle));
  int status = -1;
  ASSERT_TRUE(eventually([&] { return waitpid(child, &status, WNOHANG) == child; }));
  EXPECT_EQ(0, status);
}

TEST(SoftgpuIpc, RefusesWhatIsNoHandleOfAnother) {
  cudaIpcMemHandle_t handle;
  std::memset(&handle, 0x55, sizeof handle);
  void* at = nullptr;
  EXPECT_EQ(cudaErrorInvalidValue, cudaIpcOpenMemHandle(&at, handle, cudaIpcMemLazyEnablePeerAccess));
  int own = 0;
  EXPECT_EQ(cudaErrorInvalidValue, cudaIpcGetMemHandle(&handle, &own));
  ASSERT_CUDA(cudaIpcGetMemHandle(&handle, onDevice<int>(1)));
  EXPECT_EQ(cudaErrorDeviceUninitialized, cudaIpcOpenMemHandle(&at, handle, cudaIpcMemLazyEnablePeerAccess));
}

}  // namespace
}  // namespace softgpu
