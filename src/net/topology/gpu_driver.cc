#include "net/topology/gpu_driver.h"

#include "sysfs/file_tree.h"

namespace railwise::net {

std::string gpuDriver(const Config& config) {
  const auto tree = sysfs::makeLiveTree(config.sysfs_root);
  if (const std::string version = sysfs::firstLine(*tree, "/sys/module/nvidia/version"); !version.empty())
    return "NVIDIA " + version;
  const std::string version = sysfs::firstLine(*tree, "/sys/module/amdgpu/version");
  return version.empty() ? "" : "AMD " + version;
}

}  // namespace railwise::net
