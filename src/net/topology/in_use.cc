#include "net/topology/in_use.h"

#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>

#include "base/log.h"
#include "sysfs/file_tree.h"

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

std::string gpuDriver(const Config& config) {
  const auto tree = sysfs::makeLiveTree(config.sysfs_root);
  if (const std::string version = sysfs::firstLine(*tree, "/sys/module/nvidia/version"); !version.empty())
    return "NVIDIA " + version;
  const std::string version = sysfs::firstLine(*tree, "/sys/module/amdgpu/version");
  return version.empty() ? "" : "AMD " + version;
}

namespace {

using GetVersion = int (*)(int* version);  // ncclResult_t, of which 0 is success
constexpr const char* kGetVersion = "ncclGetVersion";
constexpr int kFirstOfTwoDigits =
    20000;  // NCCL before 2.9 counted 2708 for 2.7.8; it loads no plugin of ours

std::optional<topo::NcclVersion> releaseFrom(void* function) {
  int code = 0;
  if (function == nullptr || reinterpret_cast<GetVersion>(function)(&code) != 0) return std::nullopt;
  if (code < kFirstOfTwoDigits) return std::nullopt;
  return topo::NcclVersion{code};
}

// Is a library loaded whose file name has "ccl" in it? Looking for one that is not loaded takes dlopen() some
// 40 attempts to open files.
bool mayBeLoaded() {
  const auto named = [](dl_phdr_info* its, std::size_t, void*) {
    return sysfs::baseName(its->dlpi_name).find("ccl.so") != std::string_view::npos ? 1 : 0;
  };
  return dl_iterate_phdr(named, nullptr) != 0;
}

}  // namespace

std::optional<topo::NcclVersion> ncclInUse() {
  if (const auto release = releaseFrom(dlsym(RTLD_DEFAULT, kGetVersion))) return release;
  if (!mayBeLoaded()) return std::nullopt;
  // Python loads libraries so that RTLD_DEFAULT does not see them. A library that is loaded is found by its
  // name, and this never loads it.
  for (const char* name : {"libnccl.so.2", "librccl.so.1"}) {
    void* const library = dlopen(name, RTLD_LAZY | RTLD_NOLOAD);
    if (library == nullptr) continue;
    const auto release = releaseFrom(dlsym(library, kGetVersion));
    dlclose(library);  // our reference only
    if (release) return release;
  }
  return std::nullopt;
}

topo::NcclVersion rulesInUse() {
  const auto release = ncclInUse();
  if (!release) return topo::chooseRules({}).release;
  const topo::NcclChoice choice = topo::rulesFor(*release);
  RAILWISE_INFO(log::kInit | log::kNet, "NICs by the rules of NCCL %s%s%s",
                ncclVersionName(choice.rules).c_str(), choice.doubt.empty() ? "" : ": ",
                choice.doubt.c_str());
  return choice.rules;
}

}  // namespace railwise::net
