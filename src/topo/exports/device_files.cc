#include "topo/exports/device_files.h"

#include <algorithm>
#include <charconv>
#include <set>

namespace railwise::topo {
namespace {

constexpr int kFirstRenderMinor = 128;  // of the kernel's DRM

// 4 of "mlx5_4"; -1: the name does not end with a number.
int numberAtEnd(const std::string& name) {
  const std::size_t last = name.find_last_not_of("0123456789");
  int number = -1;
  if (last != std::string::npos) std::from_chars(name.data() + last + 1, name.data() + name.size(), number);
  return number;
}

}  // namespace

std::string gpuDeviceFile(bool amd, int dev, const std::string& render_node) {
  if (!amd) return "/dev/nvidia" + std::to_string(dev);
  return "/dev/dri/" +
         (render_node.empty() ? "renderD" + std::to_string(kFirstRenderMinor + dev) : render_node);
}

std::vector<NicFile> nicFiles(const HostView& host, const DeviceFacts& facts, bool* assumed) {
  std::vector<NicFile> files;
  std::set<int> numbers;
  for (std::size_t nic = 0; nic < host.nics.size(); ++nic) {
    for (const NicPort& port : host.nics[nic].ports) {
      const auto known = [&](const NicFile& file) { return file.device == port.device; };
      if (port.port == 0 || std::any_of(files.begin(), files.end(), known)) continue;
      files.push_back({.device = port.device, .path = "", .nic = static_cast<int>(nic)});
      numbers.insert(numberAtEnd(port.device));
    }
  }
  const bool all_told = std::all_of(
      files.begin(), files.end(), [&](const NicFile& file) { return facts.uverbs.count(file.device) != 0; });
  *assumed = !all_told;
  const bool by_name = numbers.count(-1) == 0 && numbers.size() == files.size();
  for (std::size_t i = 0; i < files.size(); ++i)
    files[i].path =
        "/dev/infiniband/" +
        (all_told ? facts.uverbs.at(files[i].device)
                  : "uverbs" + std::to_string(by_name ? numberAtEnd(files[i].device) : static_cast<int>(i)));
  return files;
}

}  // namespace railwise::topo
