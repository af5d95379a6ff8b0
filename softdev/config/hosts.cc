// The stanzas that describe a host: the host itself, its GPUs, NVSwitches and bridges (parser.h).
#include "softdev/config/parser.h"
#include "softdev/config/values.h"

namespace railwise::softdev {
namespace {

constexpr size_t kMaxPciFunctions = 4096;

}  // namespace

// Parses the name, then the keys.
Status ConfigParser::parseHost(std::string_view text, std::string_view separators, const Source& source) {
  const std::string_view word = nextWord(text, separators);
  HostDraft draft;
  if (!parseName(word, 60, &draft.host.name))
    return refuse(source, "host", word, "a name of 1 to 60 letters, digits, '_', '-' or '.'");
  if (!hosts_.empty() && !hosts_.front().config.described)
    return refuse(source, "host", word, "to come before the first device, gpu, nvswitch or bridge");
  for (const Host& other : hosts_) {
    if (other.config.name == draft.host.name) return refuse(source, "host", word, "a name no other host has");
  }
  if (hosts_.size() == kMaxHosts) return refuse(source, "host", word, "at most 256 hosts");
  draft.host.described = true;
  RAILWISE_TRY(eachPair(text, separators, source, [&](std::string_view key, std::string_view value) {
    const auto applied = applyKey(hostKeys(), draft, key, value, source);
    return applied ? *applied : unknownKey(key, keyNames(hostKeys()), source);
  }));
  Host added;
  if (!draft.like.empty()) {
    RAILWISE_TRY(likeHost(added, draft.like, source));
    if (draft.host.cpu.empty()) draft.host.cpu = added.config.cpu;
    if (draft.host.numa_nodes == 0) draft.host.numa_nodes = added.config.numa_nodes;
    if (draft.host.cores == 0) draft.host.cores = added.config.cores;
    draft.host.gpus = std::move(added.config.gpus);
    draft.host.nvswitches = std::move(added.config.nvswitches);
    draft.host.bridges = std::move(added.config.bridges);
  }
  added.config = std::move(draft.host);
  hosts_.push_back(std::move(added));
  unnamed_ = 0;
  return Status::success();
}

// Copies the devices, GPUs, NVSwitches and bridges of another host. GUIDs and GIDs are not copied.
Status ConfigParser::likeHost(Host& host, const std::string& name, const Source& source) const {
  for (const Host& other : hosts_) {
    if (other.config.name != name) continue;
    host = other;
    for (Device& device : host.devices) {
      device.config.guid = 0;  // each host has its own
      for (PortConfig& port : device.config.ports) port.gids.clear();
    }
    return Status::success();
  }
  return refuse(source, "like", name, "the name of a host above");
}

Status ConfigParser::parseFunction(std::string_view kind, std::string_view text, std::string_view separators,
                                   const Source& source) {
  if (!described()) return refuse(source, kind, "", "a host above it (host NAME)");
  const bool is_gpu = kind == "gpu";
  GpuConfig function;
  RAILWISE_TRY(eachPair(text, separators, source, [&](std::string_view key, std::string_view value) {
    PciConfig& place = function;
    if (const auto applied = applyKey(pciKeys(true), place, key, value, source)) return *applied;
    const auto applied = is_gpu ? applyKey(gpuKeys(), function, key, value, source) : std::nullopt;
    const std::string more = is_gpu ? ", " + keyNames(gpuKeys()) : "";
    return applied ? *applied : unknownKey(key, keyNames(pciKeys(true)) + more, source);
  }));
  if (function.busid().empty())
    return refuse(source, "pci", function.pci,
                  "of a " + std::string(kind) + " a place that ends in an address");
  HostConfig& config = host().config;
  std::vector<PciConfig>& list = kind == "bridge" ? config.bridges : config.nvswitches;
  if ((is_gpu ? config.gpus.size() : list.size()) == kMaxPciFunctions)
    return refuse(source, kind, function.pci, "at most 4096 of them");
  for (NvlinkConfig& link : function.nvlinks) link.line = source.line;
  if (is_gpu) {
    config.gpus.push_back(std::move(function));
  } else {
    list.push_back(std::move(function));
  }
  return Status::success();
}

}  // namespace railwise::softdev
