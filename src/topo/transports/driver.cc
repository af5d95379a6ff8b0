#include "topo/transports/driver.h"

#include <algorithm>
#include <cstdlib>

namespace railwise::topo {
namespace {

// The first driver branch with CUDA 12.
constexpr int kDriverOfCuda12 = 525;

// The index of a GPU in the answers; -1: it is not there.
int indexOf(const Machine& machine, const Node& gpu) {
  if (machine.gpu_answers == nullptr || gpu.host != machine.graph->localHost()) return -1;
  for (const gpu::Device& device : machine.gpu_answers->gpus)
    if (gpu::isWhole(device) && !device.busid.empty() && device.busid == gpu.busid) return device.index;
  return -1;
}

}  // namespace

bool driverOffersCumem(const Machine& machine) {
  if (machine.gpu_answers == nullptr) return true;
  const auto& gpus = machine.gpu_answers->gpus;
  return std::none_of(gpus.begin(), gpus.end(), [](const gpu::Device& device) {
    const int branch = std::atoi(device.driver.c_str());
    return device.vendor == gpu::Vendor::kNvidia && branch > 0 && branch < kDriverOfCuda12;
  });
}

std::string whyDriverForbidsP2p(const Machine& machine, const Node& from, const Node& to) {
  const int a = indexOf(machine, from);
  const int b = indexOf(machine, to);
  if (a < 0 || b < 0 || a == b) return "";
  for (const gpu::PeerStatus& peer : machine.gpu_answers->peers)
    if (peer.from == a && peer.to == b && !peer.allowed)
      return peer.reason.empty() ? "not supported" : peer.reason;
  return "";
}

std::string nvlinkDomain(const Machine& machine) {
  if (machine.gpu_answers == nullptr) return "";
  for (const gpu::Device& device : machine.gpu_answers->gpus)
    if (device.fabric_state == "completed" &&
        device.fabric_cluster.find_first_not_of("0-") != std::string::npos)
      return device.fabric_cluster;
  return "";
}

}  // namespace railwise::topo
