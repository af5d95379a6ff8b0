// IPC handles: another process of the user maps the memfd of an allocation.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <map>
#include <mutex>
#include <tuple>

#include "device.h"
#include "errors.h"
#include "memory.h"

namespace softgpu {
namespace {

constexpr char kMagic[8] = "softgpu";

// What the 64 bytes of a handle hold. The inode tells a descriptor that has been reused since.
struct Handle {
  char magic[8];
  int32_t pid;
  int32_t fd;
  uint64_t device;
  uint64_t inode;
  uint64_t bytes;
  uint64_t mapped_bytes;
};
static_assert(sizeof(Handle) <= sizeof(cudaIpcMemHandle_t));

using Inode = std::pair<uint64_t, uint64_t>;

// Opening a handle again gives the same pointer; each opening is closed.
struct Imports {
  std::mutex mutex;
  struct Import {
    void* at;
    unsigned opened;
  };
  std::map<Inode, Import> by_inode;
};

Imports& imports() {
  static auto& all = *new Imports;
  return all;
}

cudaError_t exportMemory(cudaIpcMemHandle_t* out, void* address) {
  const std::optional<Allocation> found = findAllocation(address);
  if (!found || found->kind != MemoryKind::kDevice) return cudaErrorInvalidValue;
  struct stat status = {};
  if (fstat(found->fd, &status) != 0) return cudaErrorUnknown;
  Handle handle = {.pid = getpid(),
                   .fd = found->fd,
                   .device = status.st_dev,
                   .inode = status.st_ino,
                   .bytes = found->bytes,
                   .mapped_bytes = found->mapped_bytes};
  std::memcpy(handle.magic, kMagic, sizeof kMagic);
  *out = {};
  std::memcpy(out, &handle, sizeof handle);
  return cudaSuccess;
}

// Needs the mutex of the imports.
cudaError_t map(const Handle& handle, int device, void** out) {
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%d/fd/%d", handle.pid, handle.fd);
  const int fd = open(path, O_RDWR | O_CLOEXEC);
  if (fd < 0) return cudaErrorMapBufferObjectFailed;
  struct stat status = {};
  const bool right = fstat(fd, &status) == 0 && status.st_dev == handle.device &&
                     status.st_ino == handle.inode &&
                     static_cast<uint64_t>(status.st_size) == handle.mapped_bytes;
  void* const at =
      right ? mmap(nullptr, handle.mapped_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) : MAP_FAILED;
  if (at == MAP_FAILED) {
    close(fd);
    return cudaErrorMapBufferObjectFailed;
  }
  addMapping({.begin = reinterpret_cast<uintptr_t>(at),
              .bytes = handle.bytes,
              .mapped_bytes = handle.mapped_bytes,
              .kind = MemoryKind::kImported,
              .device = device,
              .fd = fd});
  *out = at;
  return cudaSuccess;
}

cudaError_t import(void** out, const cudaIpcMemHandle_t& raw) {
  Handle handle;
  std::memcpy(&handle, &raw, sizeof handle);
  if (std::memcmp(handle.magic, kMagic, sizeof kMagic) != 0) return cudaErrorInvalidValue;
  cudaError_t error;
  const Device* const device = currentDevice(&error);
  if (device == nullptr) return error;
  if (handle.pid == getpid())
    return cudaErrorDeviceUninitialized;  // as CUDA answers in the exporting process
  Imports& all = imports();
  const std::lock_guard lock(all.mutex);
  const Inode inode(handle.device, handle.inode);
  if (const auto found = all.by_inode.find(inode); found != all.by_inode.end()) {
    ++found->second.opened;
    *out = found->second.at;
    return cudaSuccess;
  }
  error = map(handle, device->number, out);
  if (error == cudaSuccess) all.by_inode[inode] = {*out, 1};
  return error;
}

cudaError_t closeImport(void* address) {
  Imports& all = imports();
  {
    const std::lock_guard lock(all.mutex);
    auto found = all.by_inode.begin();
    while (found != all.by_inode.end() && found->second.at != address) ++found;
    if (found == all.by_inode.end()) return cudaErrorInvalidValue;
    if (--found->second.opened != 0) return cudaSuccess;
    all.by_inode.erase(found);
  }
  const std::optional<Allocation> known = findAllocation(address);
  if (known) findDevice(known->device)->synchronize();  // work that is under way may use it
  const std::optional<Allocation> taken = takeAllocation(
      address, [](const Allocation& allocation) { return allocation.kind == MemoryKind::kImported; });
  if (taken) releaseMapping(*taken);
  return cudaSuccess;
}

}  // namespace
}  // namespace softgpu

using namespace softgpu;

cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t* handle, void* address) {
  if (handle == nullptr) return answer(cudaErrorInvalidValue);
  return answer(exportMemory(handle, address));
}

cudaError_t cudaIpcOpenMemHandle(void** out, cudaIpcMemHandle_t handle, unsigned int flags) {
  if (out == nullptr || flags != cudaIpcMemLazyEnablePeerAccess) return answer(cudaErrorInvalidValue);
  return answer(import(out, handle));
}

cudaError_t cudaIpcCloseMemHandle(void* address) { return answer(closeImport(address)); }
