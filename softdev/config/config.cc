#include "softdev/config/config.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <optional>
#include <string>
#include <utility>

#include "base/log.h"
#include "base/process.h"
#include "base/text/words.h"
#include "softdev/config/defaults.h"
#include "softdev/config/machines.h"
#include "softdev/config/parser.h"

namespace railwise::softdev {
namespace {

constexpr std::string_view kInlineSeparators = ",";
// The machine of a text that describes none.
constexpr const char* kDefaultMachine = "default";
constexpr size_t kMaxFileBytes = 4U << 20;

// The parts of a text such as "/etc/lab.conf#B;pacing=on".
struct Reference {
  std::string file;  // "" for inline text
  std::string host;
  std::string_view more;
};

Reference split(std::string_view text) {
  Reference reference;
  if (!text.starts_with('/') && !text.starts_with("./") && !text.starts_with('@')) {
    reference.more = text;
    return reference;
  }
  const size_t end = std::min(text.find(';'), text.size());
  reference.more = text.substr(std::min(end + 1, text.size()));
  text = text.substr(0, end);
  const size_t hash = text.rfind('#');
  if (hash != std::string_view::npos) reference.host = text.substr(hash + 1);
  reference.file = text.substr(0, hash);
  return reference;
}

// The text of a file. Nothing, with errno set, if the file cannot be read.
std::optional<std::string> fileText(const std::string& path) {
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  if (!file) return std::nullopt;
  std::string text(kMaxFileBytes + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (file.gcount() == 0 && file.bad()) return std::nullopt;  // `path` is a folder
  text.resize(static_cast<size_t>(file.gcount()));
  if (text.size() <= kMaxFileBytes) return text;
  errno = EFBIG;
  return std::nullopt;
}

Status parseReference(ConfigParser& parser, const Reference& reference, std::string* name) {
  const bool at = reference.file.starts_with('@');
  *name = reference.file.substr(at ? 1 : 0);
  if (const ShippedMachine* shipped = at ? findMachine(*name) : nullptr; shipped != nullptr)
    return parser.parseText(shipped->text, *name);
  const std::optional<std::string> text = fileText(*name);
  if (text) return parser.parseText(*text, *name);
  const int error = errno != 0 ? errno : ENOENT;
  const bool meant_shipped = at && name->find('/') == std::string::npos;
  if (meant_shipped) {
    const std::optional<std::string> meant = closestMachine(*name);
    RAILWISE_WARN(
        "software device: there is no machine \"%s\"%s%s%s; the machines are %s, and no file has the name",
        name->c_str(), meant ? " (did you mean \"" : "", meant ? meant->c_str() : "", meant ? "\"?)" : "",
        machineNames().c_str());
  } else {
    RAILWISE_WARN("software device: cannot read the configuration file %s: %s", name->c_str(),
                  error == EFBIG ? "larger than 4 MiB" : std::strerror(error));
  }
  return {Code::kInvalidUsage, error};
}

// Each value ends with a byte of its own, so that neighbours do not run together.
class Digest {
 public:
  Digest& add(std::string_view text) {
    value_ = stableHash("\xff", stableHash(text, value_));
    return *this;
  }
  Digest& add(uint64_t number) {
    for (int shift = 0; shift < 64; shift += 8) {
      const char byte = static_cast<char>(number >> shift);
      value_ = stableHash({&byte, 1}, value_);
    }
    return *this;
  }
  Digest& add(int32_t number) { return add(static_cast<uint64_t>(static_cast<uint32_t>(number))); }
  Digest& add(uint32_t number) { return add(uint64_t{number}); }
  Digest& add(bool flag) { return add(uint64_t{flag ? 1U : 0U}); }
  uint64_t value() const { return value_; }

 private:
  uint64_t value_ = stableHash("");
};

void addPci(Digest& digest, const PciConfig& pci) {
  digest.add(pci.pci).add(pci.numa).add(pci.pcie_gen).add(pci.pcie_lanes).add(pci.pcie_mbps);
  digest.add(pci.vendor_id).add(pci.part_id);
}

void addGids(Digest& digest, const std::vector<Gid>& gids) {
  digest.add(uint64_t{gids.size()});
  for (const Gid& gid : gids) {
    digest.add(std::string_view(reinterpret_cast<const char*>(gid.raw), sizeof gid.raw)).add(gid.type);
  }
}

void addPort(Digest& digest, const PortConfig& port) {
  digest.add(port.speed_mbps).add(uint32_t{port.active_width}).add(uint32_t{port.active_speed});
  digest.add(uint32_t{port.link_layer}).add(port.iwarp).add(static_cast<uint32_t>(port.mtu));
  digest.add(port.active).add(port.latency_ns).add(port.rail).add(port.plane).add(port.netdev);
  addGids(digest, port.gids);
}

void addDevice(Digest& digest, const DeviceConfig& device) {
  addPci(digest, device);
  digest.add(device.name).add(device.guid).add(device.pcie_link).add(device.board).add(device.hca_type);
  digest.add(device.max_qp)
      .add(device.max_qp_wr)
      .add(device.max_sge)
      .add(device.max_cqe)
      .add(device.max_inline_bytes);
  digest.add(device.max_message_bytes).add(device.ece).add(device.ece_options).add(device.dmabuf);
  digest.add(device.atomics).add(device.engine).add(device.paced).add(device.adversarial);
  digest.add(static_cast<uint32_t>(device.mover)).add(static_cast<uint32_t>(device.gpudirect));
  digest.add(uint64_t{device.ports.size()});
  for (const PortConfig& port : device.ports) addPort(digest, port);
}

void addGpu(Digest& digest, const GpuConfig& gpu) {
  addPci(digest, gpu);
  digest.add(gpu.sm).add(uint64_t{gpu.nvlinks.size()});
  for (const NvlinkConfig& link : gpu.nvlinks) digest.add(link.target).add(link.count);
}

void addHost(Digest& digest, const HostConfig& host) {
  digest.add(host.described ? host.name : "").add(host.cpu).add(host.numa_nodes).add(host.cores);
  digest.add(uint64_t{host.devices.size()}).add(uint64_t{host.gpus.size()});
  digest.add(uint64_t{host.nvswitches.size()}).add(uint64_t{host.bridges.size()});
  for (const DeviceConfig& device : host.devices) addDevice(digest, device);
  for (const GpuConfig& gpu : host.gpus) addGpu(digest, gpu);
  for (const PciConfig& nvswitch : host.nvswitches) addPci(digest, nvswitch);
  for (const PciConfig& bridge : host.bridges) addPci(digest, bridge);
}

// A number for a configuration: equal for two texts that describe the same machine with the same modes, seed
// and faults. Which host a process plays, and which fabric it is on, do not count. Call it before the machine
// is completed (defaults.h), because the completion gives addresses by the name of the computer.
uint64_t digestOf(const MachineConfig& machine) {
  Digest digest;
  digest.add(machine.seed).add(uint64_t{machine.faults.size()});
  for (const std::string& rule : machine.faults) digest.add(rule);
  for (const HostConfig& host : machine.hosts) addHost(digest, host);
  return digest.value();
}

std::string thisHost() {
  const std::string name = hostName();
  return name.empty() ? "localhost" : name;
}

// Chooses the host of the machine that this process plays: the host after '#' in the text, else
// RAILWISE_HOST, else the key `host`, else the first host.
Status chooseHost(MachineConfig& machine, const std::string& behind_hash, std::string_view variable,
                  const std::string& key, const std::string& file) {
  std::string wanted = key;
  if (!variable.empty()) wanted = variable;
  if (!behind_hash.empty()) wanted = behind_hash;
  if (wanted.empty()) return Status::success();
  std::string names;
  for (size_t i = 0; i < machine.hosts.size(); ++i) {
    if (machine.hosts[i].name == wanted) {
      machine.chosen = i;
      return Status::success();
    }
    names += (i == 0 ? "" : ", ") + machine.hosts[i].name;
  }
  RAILWISE_WARN("software device: %s has no host \"%s\": its hosts are %s",
                file.empty() ? "the configuration" : file.c_str(), wanted.c_str(), names.c_str());
  return {Code::kInvalidUsage, 0};
}

Result<MachineConfig> finish(ConfigParser& parser, const Reference& reference, std::string_view variable,
                             const std::string& file) {
  const std::string key = parser.hostKey().value_or("");
  if (parser.empty()) RAILWISE_TRY(parser.parseText(findMachine(kDefaultMachine)->text, kDefaultMachine));
  Result<MachineConfig> machine = parser.finish();
  if (!machine.ok()) return machine.status();
  machine->digest = digestOf(*machine);
  std::string name = thisHost();
  // A text without hosts describes this computer. The text or the environment may give it another name.
  const bool described = machine->hosts.front().described;
  if (!described) {
    for (const std::string_view other : {std::string_view(key), variable, std::string_view(reference.host)}) {
      if (!other.empty()) name = other;
    }
  }
  RAILWISE_TRY(completeMachine(*machine, name, file));
  if (described) RAILWISE_TRY(chooseHost(*machine, reference.host, variable, key, file));
  return machine;
}

}  // namespace

Result<MachineConfig> parseMachine(const char* text, std::string_view host, std::string_view fabric) {
  const Reference reference = split(text != nullptr ? text : "");
  ConfigParser parser;
  std::string file;
  if (!reference.file.empty()) RAILWISE_TRY(parseReference(parser, reference, &file));
  parser.beginOverrides();
  RAILWISE_TRY(parser.parseLine(reference.more, kInlineSeparators, {}));
  if (!fabric.empty()) RAILWISE_TRY(parser.useFabric(fabric));
  return finish(parser, reference, host, file);
}

Result<MachineConfig> parseMachineText(std::string_view text, const std::string& name,
                                       std::string_view host) {
  ConfigParser parser;
  RAILWISE_TRY(parser.parseText(text, name));
  return finish(parser, {}, host, name);
}

Result<Config> parseConfig(const char* text, std::string_view host, std::string_view fabric) {
  Result<MachineConfig> machine = parseMachine(text, host, fabric);
  if (!machine.ok()) return machine.status();
  HostConfig& played = machine->hosts[machine->chosen];
  Config config;
  config.fabric = std::move(machine->fabric);
  config.fabric_named = machine->fabric_named;
  config.digest = machine->digest;
  config.host = std::move(played.name);
  config.seed = machine->seed;
  config.faults = std::move(machine->faults);
  config.devices = std::move(played.devices);
  return config;
}

}  // namespace railwise::softdev
