// What one look of the watch reads of a tree.
#include "base/text/words.h"
#include "doctor/watch/watch.h"
#include "sysfs/rdma_devices.h"

namespace railwise::doctor {
namespace {

constexpr std::string_view kClass = "/sys/class/infiniband/";

std::optional<int64_t> counterAt(const sysfs::FileTree& tree, const std::string& path) {
  const auto number = numberIn<int64_t>(sysfs::firstLine(tree, path));
  return number && *number >= 0 ? number : std::nullopt;
}

// The interface of an Ethernet port: what its GID table names first, else the only one of the function.
std::string interfaceOf(const sysfs::FileTree& tree, const std::string& port, const std::string& function) {
  std::string name = sysfs::firstLine(tree, port + "/gid_attrs/ndevs/0");
  if (!name.empty() || function.empty()) return name;
  const std::vector<std::string> names = tree.list(function + "/net");
  return names.size() == 1 ? names[0] : "";
}

void readCounters(const sysfs::FileTree& tree, const std::string& folder, const std::string& function,
                  SeenPort& port) {
  const bool ethernet = sysfs::firstLine(tree, folder + "/link_layer") == "Ethernet";
  const std::string interface = ethernet ? interfaceOf(tree, folder, function) : "";
  port.went_down = ethernet ? counterAt(tree, "/sys/class/net/" + interface + "/carrier_down_count")
                            : counterAt(tree, folder + "/counters/link_downed");
  for (const WatchRule& rule : watchRules()) {
    if (rule.kind != WatchKind::kCounter) continue;
    if (const auto value = counterAt(tree, folder + "/" + rule.source)) port.counters[rule.source] = *value;
  }
}

}  // namespace

Look lookAt(const sysfs::FileTree& tree, int64_t time, bool counters) {
  Look look{
      .time = time, .boot = sysfs::firstLine(tree, "/proc/sys/kernel/random/boot_id"), .counters = counters};
  for (const std::string& device : tree.list(kClass)) {
    const std::string function = sysfs::rdmaPlace(tree, device).path;
    if (!function.empty() && tree.exists(function + "/physfn"))
      continue;  // a virtual function, given away and taken back
    for (const int number : sysfs::rdmaPorts(tree, device)) {
      const std::string folder = std::string(kClass) + device + "/ports/" + std::to_string(number);
      SeenPort port{.name = device + "/" + std::to_string(number),
                    .bdf = std::string(sysfs::baseName(function))};
      port.state = sysfs::firstLine(tree, folder + "/state");
      if (port.state.empty()) continue;  // the device is about to go, or to come
      port.active = port.state.starts_with("4");
      if (counters) readCounters(tree, folder, function, port);
      look.ports.push_back(std::move(port));
    }
  }
  return look;
}

}  // namespace railwise::doctor
