#include "doctor/pair/measuring/gpu_memory.h"

#include <unistd.h>

#include <map>
#include <utility>

#include "base/dynamic_library.h"

namespace railwise::doctor::pair {
namespace {

// CUDA's driver API in our own declarations (cuda.h of CUDA 12): a result of 0 is success.
using CuResult = int;
using CuDevice = int;
using CuContext = void*;
using CuAddress = unsigned long long;
constexpr int kDmaBufHandle = 1;  // CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD
// cuMemGetHandleForAddressRange takes whole pages only; blocks of this size are aligned to it.
constexpr std::size_t kGpuPage = std::size_t{2} << 20;

struct CudaDriver {
  CuResult (*init)(unsigned flags);
  CuResult (*device_of)(CuDevice* device, const char* bus_id);
  CuResult (*retain)(CuContext* context, CuDevice device);
  CuResult (*release)(CuDevice device);
  CuResult (*set_current)(CuContext context);
  CuResult (*allocate)(CuAddress* address, std::size_t bytes);
  CuResult (*free)(CuAddress address);
  CuResult (*to_gpu)(CuAddress to, const void* from, std::size_t bytes);
  CuResult (*from_gpu)(void* to, CuAddress from, std::size_t bytes);
  CuResult (*error_name)(CuResult result, const char** name);
  // Null before CUDA 11.7.
  CuResult (*handle_for)(void* handle, CuAddress address, std::size_t bytes, int type,
                         unsigned long long flags);

  std::string nameOf(CuResult result) const {
    const char* name = nullptr;
    if (error_name(result, &name) == 0 && name != nullptr) return name;
    return "error " + std::to_string(result);
  }
};

class CudaBlock final : public GpuBlock {
 public:
  CudaBlock(const CudaDriver& driver, CuContext context, CuAddress address, std::size_t bytes)
      : driver_(driver), context_(context), address_(address) {
    if (driver.handle_for == nullptr || driver.handle_for(&fd_, address, bytes, kDmaBufHandle, 0) != 0)
      fd_ = -1;
  }
  ~CudaBlock() override {
    if (fd_ >= 0) close(fd_);
    if (driver_.set_current(context_) == 0) (void)driver_.free(address_);
  }
  CudaBlock(const CudaBlock&) = delete;
  CudaBlock& operator=(const CudaBlock&) = delete;

  uint64_t address() const override { return address_; }
  int dmaBuf() const override { return fd_; }
  bool write(std::size_t offset, const void* from, std::size_t bytes) override {
    return driver_.set_current(context_) == 0 && driver_.to_gpu(address_ + offset, from, bytes) == 0;
  }
  bool read(std::size_t offset, void* to, std::size_t bytes) const override {
    return driver_.set_current(context_) == 0 && driver_.from_gpu(to, address_ + offset, bytes) == 0;
  }

 private:
  const CudaDriver& driver_;
  const CuContext context_;
  const CuAddress address_;
  int fd_ = -1;
};

class CudaGpus final : public GpuDriver {
 public:
  CudaGpus(DynamicLibrary library, CudaDriver driver) : library_(std::move(library)), driver_(driver) {}
  ~CudaGpus() override {
    for (const auto& [bus_id, used] : used_) (void)driver_.release(used.device);
  }
  CudaGpus(const CudaGpus&) = delete;
  CudaGpus& operator=(const CudaGpus&) = delete;

  Outcome<std::unique_ptr<GpuBlock>> allocate(const std::string& bus_id, std::size_t bytes) override {
    const std::size_t whole = (bytes + kGpuPage - 1) / kGpuPage * kGpuPage;
    const auto used = use(bus_id);
    if (!used.ok()) return used.failure();
    CuAddress address = 0;
    CuResult result = driver_.set_current(used->context);
    if (result == 0) result = driver_.allocate(&address, whole);
    if (result != 0) return Error{"GPU " + bus_id + ": no memory: " + driver_.nameOf(result)};
    return std::unique_ptr<GpuBlock>(std::make_unique<CudaBlock>(driver_, used->context, address, whole));
  }

 private:
  struct Used {
    CuDevice device = 0;
    CuContext context = nullptr;
  };

  Outcome<Used> use(const std::string& bus_id) {
    if (const auto known = used_.find(bus_id); known != used_.end()) return known->second;
    Used used;
    CuResult result = driver_.device_of(&used.device, bus_id.c_str());
    if (result == 0) result = driver_.retain(&used.context, used.device);
    if (result != 0) return Error{"GPU " + bus_id + " cannot be used: " + driver_.nameOf(result)};
    used_[bus_id] = used;
    return used;
  }

  DynamicLibrary library_;
  const CudaDriver driver_;
  std::map<std::string, Used> used_;
};

}  // namespace

Outcome<std::unique_ptr<GpuDriver>> GpuDriver::open() {
  // A driver that is unloaded while its threads run would crash.
  auto library = DynamicLibrary::open({"libcuda.so.1"}, DynamicLibrary::Unload::kNever);
  if (!library.ok()) return Error{"no libcuda.so.1"};
  CudaDriver driver = {};
  bool complete = true;
  const auto find = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(library->symbol(name));
    complete = complete && function != nullptr;
  };
  find(driver.init, "cuInit");
  find(driver.device_of, "cuDeviceGetByPCIBusId");
  find(driver.retain, "cuDevicePrimaryCtxRetain");
  find(driver.release, "cuDevicePrimaryCtxRelease_v2");
  find(driver.set_current, "cuCtxSetCurrent");
  find(driver.allocate, "cuMemAlloc_v2");
  find(driver.free, "cuMemFree_v2");
  find(driver.to_gpu, "cuMemcpyHtoD_v2");
  find(driver.from_gpu, "cuMemcpyDtoH_v2");
  find(driver.error_name, "cuGetErrorName");
  if (!complete) return Error{"libcuda.so.1 lacks functions of CUDA 11"};
  find(driver.handle_for, "cuMemGetHandleForAddressRange");
  if (const CuResult result = driver.init(0); result != 0)
    return Error{"libcuda.so.1: cuInit: " + driver.nameOf(result)};
  return std::unique_ptr<GpuDriver>(std::make_unique<CudaGpus>(std::move(*library), driver));
}

}  // namespace railwise::doctor::pair
