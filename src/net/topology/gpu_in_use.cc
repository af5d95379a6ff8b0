#include "net/topology/gpu_in_use.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cctype>

namespace railwise::net {
namespace {

// CUdevice and HIP's device number are int, and both results are enums whose 0 is success.
using GetDevice = int (*)(int* device);
using GetBusId = int (*)(char* text, int bytes, int device);

struct Driver {
  const char* library;
  const char* get_device;
  const char* get_bus_id;
};

constexpr Driver kDrivers[] = {
    {"libcuda.so.1", "cuCtxGetDevice", "cuDeviceGetPCIBusId"},
    {"libamdhip64.so.7", "hipGetDevice", "hipDeviceGetPCIBusId"},
    {"libamdhip64.so.6", "hipGetDevice", "hipDeviceGetPCIBusId"},
    {"libamdhip64.so.5", "hipGetDevice", "hipDeviceGetPCIBusId"},
};

std::string currentGpu(const Driver& driver) {
  void* const library = dlopen(driver.library, RTLD_LAZY | RTLD_NOLOAD);
  if (library == nullptr) return "";
  const auto get_device = reinterpret_cast<GetDevice>(dlsym(library, driver.get_device));
  const auto get_bus_id = reinterpret_cast<GetBusId>(dlsym(library, driver.get_bus_id));
  int device = -1;
  std::array<char, 32> text = {};
  const bool known = get_device != nullptr && get_bus_id != nullptr && get_device(&device) == 0 &&
                     get_bus_id(text.data(), static_cast<int>(text.size()) - 1, device) == 0;
  dlclose(library);  // our reference only
  return known ? text.data() : "";
}

}  // namespace

std::string currentGpu() {
  for (const Driver& driver : kDrivers) {
    if (std::string address = currentGpu(driver); !address.empty()) return address;
  }
  return "";
}

bool gpuLibraryLoaded() {
  for (const Driver& driver : kDrivers) {
    void* const library = dlopen(driver.library, RTLD_LAZY | RTLD_NOLOAD);
    if (library == nullptr) continue;
    dlclose(library);  // our reference only
    return true;
  }
  return false;
}

int gpuInUse(const Config& config, const PathBandwidth& paths, std::span<const RailPort> rails) {
  if (paths.gpus() == 0) return -1;
  if (!config.gpu.empty()) {
    if (const int gpu = paths.findGpu(config.gpu); gpu >= 0) return gpu;
  } else if (const std::string address = currentGpu(); !address.empty()) {
    if (const int gpu = paths.findGpu(address); gpu >= 0) return gpu;
  }
  return paths.nearestGpu(rails);
}

}  // namespace railwise::net
