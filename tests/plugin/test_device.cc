#include "tests/plugin/test_device.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string_view>

#include "base/text/name_selection.h"
#include "tests/one_device.h"

namespace railwise::test {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void quit(const std::string& text) {
  std::fprintf(stderr, "%s\n", text.c_str());
  std::exit(2);
}

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value != nullptr ? value : "";
}

std::string firstLine(const fs::path& file) {
  std::ifstream stream(file);
  std::string line;
  std::getline(stream, line);
  return line;
}

uint64_t guidOf(std::string text) {  // 34b0:95ff:fe18:41e6
  std::erase(text, ':');
  return std::strtoull(text.c_str(), nullptr, 16);
}

std::vector<RealDevice> findRealDevices() {
  const std::string hca = variable("NCCL_IB_HCA");
  const auto selection = parsePortSelection(hca);
  if (!selection) quit("NCCL_IB_HCA=" + hca + " is not a list of devices");
  std::vector<RealDevice> found;
  std::error_code none;
  for (const auto& device : fs::directory_iterator("/sys/class/infiniband", none)) {
    const std::string name = device.path().filename();
    for (const auto& port : fs::directory_iterator(device.path() / "ports", none)) {
      const int number = std::atoi(port.path().filename().c_str());
      if (!choosePort(*selection, name, number).selected) continue;
      if (firstLine(port.path() / "state") != "4: ACTIVE") continue;
      found.push_back({name, number, firstLine(device.path() / "node_type").starts_with("4:"),
                       guidOf(firstLine(device.path() / "sys_image_guid")),
                       static_cast<int>(std::atof(firstLine(port.path() / "rate").c_str()) * 1000)});
    }
  }
  if (found.empty())
    quit("RAILWISE_TEST_DEVICE=verbs: no active port in /sys/class/infiniband that NCCL_IB_HCA=" + hca +
         " chooses");
  std::ranges::sort(found, {}, [](const RealDevice& each) { return std::pair(each.name, each.port); });
  if (std::ranges::any_of(found, [&](const RealDevice& each) { return each.iwarp != found[0].iwarp; }))
    quit("RAILWISE_TEST_DEVICE=verbs: NCCL_IB_HCA=" + hca +
         " chooses RoCE and iWARP, which never reach each other");
  return found;
}

bool readMode() {
  const std::string mode = variable("RAILWISE_TEST_DEVICE");
  if (mode.empty() || mode == "software") return false;
  if (mode == "verbs") return true;
  quit("RAILWISE_TEST_DEVICE=" + mode + " is not known: software or verbs");
}

}  // namespace

bool onRealDevices() {
  static const bool real = readMode();
  return real;
}

const std::vector<RealDevice>& realDevices() {
  static const std::vector<RealDevice> found =
      onRealDevices() ? findRealDevices() : std::vector<RealDevice>();
  return found;
}

bool onIwarp() { return onRealDevices() && realDevices().front().iwarp; }

int deviceCount(int software) { return onRealDevices() ? static_cast<int>(realDevices().size()) : software; }

std::vector<std::string> deviceNames(int software) {
  std::vector<std::string> names;
  for (const RealDevice& device : realDevices()) names.push_back(device.name);
  for (int i = 0; !onRealDevices() && i < software; ++i) names.push_back("soft" + std::to_string(i));
  return names;
}

void useDevice(const std::string& software) {
  if (onRealDevices()) {
    (void)realDevices();  // there are some
    setenv("RAILWISE_DEVICE", "verbs", 1);
    setenv("NCCL_SOCKET_IFNAME", "lo", 0);
    setenv("RAILWISE_FUSE_PLACELESS", "1", 0);  // Soft-RoCE on a veth is in no PCI tree
    return;
  }
  const std::string device =
      "software:fabric=test" + std::to_string(getpid()) + "," + oneDeviceAtLeast(software);
  setenv("RAILWISE_DEVICE", device.c_str(), 1);
  setenv("NCCL_SOCKET_IFNAME", "lo", 1);
  setenv("RAILWISE_FUSE_PLACELESS", "1", 0);  // these devices are in no PCI tree
}

}  // namespace railwise::test
