// A libcuda.so.1 without a GPU: "device memory" is a memory file, so that software devices take it as a
// dma-buf. Says on stderr which GPUs were asked for.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <map>

#define FAKE_CUDA extern "C" [[gnu::visibility("default")]] int

namespace {

struct FakeBlock {
  int fd;
  size_t bytes;
};
std::map<unsigned long long, FakeBlock>& blocks() {
  static std::map<unsigned long long, FakeBlock> all;
  return all;
}

}  // namespace

FAKE_CUDA cuInit(unsigned) { return 0; }
FAKE_CUDA cuDeviceGetByPCIBusId(int* device, const char* bus_id) {
  std::fprintf(stderr, "fake CUDA: GPU %s\n", bus_id);
  *device = 0;
  return 0;
}
FAKE_CUDA cuDevicePrimaryCtxRetain(void** context, int) {
  static int only;
  *context = &only;
  return 0;
}
FAKE_CUDA cuDevicePrimaryCtxRelease_v2(int) { return 0; }
FAKE_CUDA cuCtxSetCurrent(void*) { return 0; }
FAKE_CUDA cuMemAlloc_v2(unsigned long long* address, size_t bytes) {
  const int fd = memfd_create("fake GPU", MFD_CLOEXEC);
  if (fd < 0 || ftruncate(fd, static_cast<off_t>(bytes)) != 0) return 2;
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  *address = reinterpret_cast<uint64_t>(memory);
  blocks()[*address] = {fd, bytes};
  return 0;
}
FAKE_CUDA cuMemFree_v2(unsigned long long address) {
  const FakeBlock block = blocks().at(address);
  blocks().erase(address);
  close(block.fd);
  return munmap(reinterpret_cast<void*>(address), block.bytes);
}
FAKE_CUDA cuMemcpyHtoD_v2(unsigned long long to, const void* from, size_t bytes) {
  std::memcpy(reinterpret_cast<void*>(to), from, bytes);
  return 0;
}
FAKE_CUDA cuMemcpyDtoH_v2(void* to, unsigned long long from, size_t bytes) {
  std::memcpy(to, reinterpret_cast<const void*>(from), bytes);
  return 0;
}
FAKE_CUDA cuMemGetHandleForAddressRange(void* handle, unsigned long long address, size_t, int,
                                        unsigned long long) {
  *static_cast<int*>(handle) = dup(blocks().at(address).fd);
  return 0;
}
FAKE_CUDA cuGetErrorName(int, const char** name) {
  *name = "CUDA_ERROR";
  return 0;
}
