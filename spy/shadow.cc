#include "spy/shadow.h"

#include <algorithm>
#include <ctime>
#include <mutex>
#include <set>

#include "base/files.h"
#include "base/log.h"
#include "base/text/words.h"
#include "spy/inner.h"
#include "spy/registry.h"
#include "spy/spy.h"

namespace railwise::spy {
namespace {

// NCCL numbers devices from 0 without gaps, those of makeVDevice behind the others.
constexpr int kMostDevices = 64;
constexpr std::size_t kMostNamed = 3;

struct Shadow {
  std::mutex mutex;
  std::set<std::string> devices;
  std::vector<std::string> lines;
};
Shadow& shadow() {
  static Shadow& it = *new Shadow;
  return it;
}

// The first line of a file of the port in /sys; "": there is none, as for a device that is not an RDMA NIC.
std::string portFile(const Device& device, const char* file) {
  const auto text = wholeFile(inner().config.sysfs_root + "/sys/class/infiniband/" + device.name + "/ports/" +
                              std::to_string(device.port) + "/" + file);
  return text.ok() ? std::string(trimmed(*text)) : "";
}

// "4: ACTIVE"
bool isActive(const std::string& port_state) { return port_state.starts_with("4"); }

std::string portName(const Device& device) { return device.name + " port " + std::to_string(device.port); }

// The other NICs that the plugin has offered, of the same link, whose ports are active now.
std::vector<std::string> otherActive(const Device& device) {
  std::set<std::string> names;
  const std::string link = portFile(device, "link_layer");
  for (int index = 0; index < kMostDevices; ++index) {
    const auto other = Registry::get().device(index);
    if (!other || (other->name == device.name && other->port == device.port)) continue;
    if (isActive(portFile(*other, "state")) && portFile(*other, "link_layer") == link)
      names.insert(other->name == device.name ? portName(*other) : other->name);
  }
  return {names.begin(), names.end()};
}

std::string answer(const Device& device, const std::string& port_state) {
  if (port_state.empty()) return "its port is not in /sys, so what Railwise would have done is not known";
  if (isActive(port_state))
    return "its port is active now: what failed is not known, nor what Railwise would have done";
  const std::string port = "its port was down (" + port_state + "); ";
  const std::vector<std::string> others = otherActive(device);
  if (others.empty())
    return port +
           "no other NIC was active: Railwise would have failed too, unless the port came up again in time";
  return port + firstItems(others, kMostNamed) +
         (others.size() == 1 ? " was active: Railwise would have gone on over it"
                             : " were active: Railwise would have gone on over them") +
         ", if the peer has a NIC that they reach";
}

std::string clockText() {
  const std::time_t now = std::time(nullptr);
  std::tm local = {};
  char text[16] = "";
  if (localtime_r(&now, &local) != nullptr) (void)std::strftime(text, sizeof text, "%H:%M:%S", &local);
  return text;
}

}  // namespace

void shadowFailure(const Device& device, const std::string& connection, const char* function,
                   ncclResult_t result) {
  if (pluginName() == "Railwise") return;                              // it has done what it does
  if (result != ncclSystemError && result != ncclRemoteError) return;  // no fault of a NIC
  const std::lock_guard lock(shadow().mutex);
  if (!shadow().devices.insert(portName(device)).second) return;
  const std::string line = clockText() + " " + function + " of " + connection + " failed with " +
                           std::to_string(static_cast<int>(result)) + ": " +
                           answer(device, portFile(device, "state"));
  shadow().lines.push_back(line);
  RAILWISE_INFO(log::kNet, "shadow: %s", line.c_str());
}

std::vector<std::string> shadowLines() {
  const std::lock_guard lock(shadow().mutex);
  return shadow().lines;
}

}  // namespace railwise::spy
