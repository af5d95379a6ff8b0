// What a vendor's library, a recording or a file may say of GPUs, and cannot be: see sanitize() in
// gpu/json.h.
#include <algorithm>
#include <cmath>

#include "base/text/printable.h"
#include "gpu/json.h"
#include "gpu/vendor.h"

namespace railwise::gpu {
namespace {

// Beyond it a figure is a mistake: NVLink 5 has 900 GB/s over all links of a GPU.
constexpr double kMaxGbPerSecond = 100'000;
constexpr int kMaxLinkWidth = 1024;
constexpr std::size_t kMaxRemarks = 64;
constexpr std::size_t kMaxText = 4096;
constexpr std::size_t kMaxAddress = 16;  // "00000000:0f:00.0"
constexpr const char* kArchitectureCharacters =
    "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.:+-_";

// Texts go to terminals and into files: no control characters, nothing that is not UTF-8.
void cleanText(std::string& text) {
  text.erase(text.find_last_not_of(" \t\r\n") + 1);
  text = withoutControls(cleanUtf8(text.substr(0, kMaxText)));
}

// Addresses and architectures get into XML attributes and are compared with names in /sys.
bool hasOnly(const std::string& text, const char* characters) {
  return text.find_first_not_of(characters) == std::string::npos;
}

// Removes what is no PCI address.
void cleanAddress(std::string& busid, const std::string& of, std::vector<std::string>& wrong) {
  if (hasOnly(busid, "0123456789abcdef:.") && busid.size() <= kMaxAddress) return;
  wrong.push_back("'" + busid + "' is said to be the PCI address of " + of);
  busid.clear();
}

void cleanDevice(Device& device, int position, int devices, std::vector<std::string>& wrong) {
  for (std::string* text :
       {&device.model, &device.architecture, &device.busid, &device.uuid, &device.driver, &device.firmware,
        &device.partition, &device.fabric_cluster, &device.fabric_state, &device.health.throttle_reason})
    cleanText(*text);
  const std::string gpu = "GPU " + std::to_string(position);
  cleanAddress(device.busid, gpu, wrong);
  if (!hasOnly(device.architecture, kArchitectureCharacters)) {
    wrong.push_back("'" + device.architecture + "' is said to be the architecture of " + gpu);
    device.architecture.clear();
  }
  device.index = position;
  device.rank = std::max(device.rank, -1);
  if (device.parent < -1 || device.parent >= devices || device.parent == position) device.parent = -1;
  if (!std::isfinite(device.share) || device.share <= 0 || device.share > 1) device.share = 1;
  if (device.numa < -1 || device.numa > 65535) device.numa = -1;
  // No GPU has a PiB.
  if (device.memory_bytes > uint64_t{1} << 50) {
    wrong.push_back(gpu + " is said to have " + std::to_string(device.memory_bytes) + " bytes of memory");
    device.memory_bytes = 0;
  }
  if (device.memory_used_bytes.value_or(0) > device.memory_bytes) device.memory_used_bytes.reset();
  if (const int percent = device.utilisation_percent.value_or(0); percent < 0 || percent > 100)
    device.utilisation_percent.reset();
  if (device.processes.value_or(0) < 0) device.processes.reset();
}

}  // namespace

void sanitize(GpuTopology& topology, const std::string& name) {
  std::vector<std::string> wrong;
  if (topology.gpus.size() > kMaxDevices) {
    wrong.push_back("there are said to be " + std::to_string(topology.gpus.size()) + " GPUs");
    topology.gpus.resize(kMaxDevices);
  }
  const int devices = static_cast<int>(topology.gpus.size());
  for (int i = 0; i < devices; ++i) cleanDevice(topology.gpus[i], i, devices, wrong);

  std::erase_if(topology.links, [&](Link& link) {
    cleanText(link.to_busid);
    cleanAddress(link.to_busid, "a link's other end", wrong);
    const bool there = link.from >= 0 && link.from < devices && link.to >= -1 && link.to < devices;
    if (!there || link.from == link.to) {
      wrong.push_back("a link goes from GPU " + std::to_string(link.from) + " to GPU " +
                      std::to_string(link.to) + (there ? " itself" : ", and there is no such GPU"));
      return true;
    }
    if (link.width < 0 || link.width > kMaxLinkWidth || !std::isfinite(link.gb_per_s) || link.gb_per_s < 0 ||
        link.gb_per_s > kMaxGbPerSecond) {
      wrong.push_back("a link of GPU " + std::to_string(link.from) + " is said to be " +
                      std::to_string(link.width) + " wide with " + std::to_string(link.gb_per_s) + " GB/s");
      return true;
    }
    return false;
  });
  std::erase_if(topology.peers, [&](PeerStatus& peer) {
    cleanText(peer.reason);
    return peer.from < 0 || peer.from >= devices || peer.to < 0 || peer.to >= devices || peer.from == peer.to;
  });
  std::erase_if(topology.nics, [&](topology::GpuNic& nic) {
    cleanText(nic.name);
    return nic.gpu < 0 || nic.gpu >= devices || !std::isfinite(nic.gb_per_s);
  });
  for (std::string& remark : topology.remarks) cleanText(remark);
  for (const std::string& text : wrong)
    topology.remarks.push_back(name + " gave a wrong answer, which is left out here: " + text);
  if (topology.remarks.size() > kMaxRemarks) {
    const std::size_t more = topology.remarks.size() - kMaxRemarks;
    topology.remarks.resize(kMaxRemarks);
    topology.remarks.push_back(name + ": and " + std::to_string(more) + " remarks more");
  }
}

}  // namespace railwise::gpu
