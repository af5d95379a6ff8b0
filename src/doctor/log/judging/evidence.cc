#include "doctor/log/judging/evidence.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>

#include "base/pci.h"
#include "base/text/words.h"
#include "doctor/log/reading/line.h"

namespace railwise::doctor {
namespace {

std::string nameOf(const Nic& nic) { return std::string(firstWord(nic.name, ":")); }

// "10.0.0.2" of "... peer 10.0.0.2<41000> ..."; the address without the interface's name behind '%'.
std::string_view addressIn(std::string_view text) {
  const std::size_t bracket = text.find('<');
  if (bracket == std::string_view::npos) return {};
  return text.substr(0, bracket).substr(text.substr(0, bracket).find_last_of(" (=") + 1);
}

// What follows one of the keys, which releases write differently.
std::string valueAfter(std::string_view text, std::initializer_list<std::string_view> keys) {
  for (const std::string_view key : keys) {
    std::string_view value = after(text, key);
    if (value.data() == nullptr) continue;
    while (value.starts_with(' ')) value.remove_prefix(1);
    return std::string(firstWord(value, " ,;)\n"));
  }
  return "";
}

// Of the NIC, as the kernel's drivers write it: "mlx5_core 0000:18:00.0: ...".
std::string_view pciAddressIn(std::string_view text) {
  for (std::size_t at = 0; at + kBusIdLength <= text.size(); ++at)
    if (const std::string_view word = text.substr(at, kBusIdLength); isBusId(word)) return word;
  return {};
}

std::string addressOfGid(const std::string& gid) {
  constexpr std::string_view kMapped = "::ffff:";
  return gid.starts_with(kMapped) ? gid.substr(kMapped.size()) : gid;
}

}  // namespace

bool isVirtualInterface(std::string_view name) {
  static constexpr std::string_view kPrefixes[] = {
      "veth", "docker", "br-", "cali",   "flannel", "cni",   "virbr",        "usb",    "tap",  "tun",
      "lo",   "vxlan",  "lxc", "cilium", "kube",    "dummy", "nodelocaldns", "podman", "vmnet"};
  return std::ranges::any_of(kPrefixes, [&](std::string_view prefix) { return name.starts_with(prefix); });
}

std::string subnetOf(const std::string& gid) {
  const std::string address = addressOfGid(gid);
  if (address.find('.') != std::string::npos) return address.substr(0, address.rfind('.')) + ".0/24";
  in6_addr bytes = {};
  if (inet_pton(AF_INET6, address.c_str(), &bytes) != 1 || IN6_IS_ADDR_LINKLOCAL(&bytes)) return "";
  std::fill(bytes.s6_addr + 8, bytes.s6_addr + 16, uint8_t{0});
  std::array<char, INET6_ADDRSTRLEN> text = {};
  return std::string(inet_ntop(AF_INET6, &bytes, text.data(), text.size())) + "/64";
}

Evidence::Evidence(const Job& job) : job_(job) {
  for (const Process& process : job.processes) {
    names_of_hosts_.insert(process.host);
    if (!process.version.value.empty()) versions_.emplace(firstWord(process.version.value, "+"));
    for (const auto& [name, fact] : process.settings) settings_.emplace(name, &fact);
    for (const Interface& interface : process.interfaces) {
      const auto [known, first] = owners_.try_emplace(interface.address, Owner{process.host, interface.name});
      if (!first && known->second.host != process.host) known->second.host.clear();
    }
  }
  for (const Event& event : job.events) {
    if (event.of_network) network_events_[event.process].push_back(&event);
    if (event.process >= 0 && event.kind == EventKind::kCause)
      hosts_with_cause_.insert(job.processes[static_cast<std::size_t>(event.process)].host);
  }
  findInterface();
  findNics();
}

std::string Evidence::hostOf(std::string_view address) const {
  const auto owner = owners_.find(address);
  return owner == owners_.end() ? "" : owner->second.host;
}

std::string Evidence::interfaceOf(std::string_view address) const {
  const auto owner = owners_.find(address);
  return owner == owners_.end() ? "" : owner->second.interface;
}

const std::vector<const Event*>& Evidence::networkEvents(int process) const {
  static const std::vector<const Event*> kNone;
  const auto its = network_events_.find(process);
  return its == network_events_.end() ? kNone : its->second;
}

const Fact* Evidence::setting(const std::string& name) const {
  const auto its = settings_.find(name);
  return its == settings_.end() ? nullptr : its->second;
}

void Evidence::findInterface() {
  std::map<std::string, std::set<std::string>> hosts_of;  // by interface
  std::set<std::string> hosts;
  std::vector<std::string> order;
  for (const Process& process : job_.processes) {
    hosts.insert(process.host);
    for (const Interface& interface : process.interfaces) {
      if (isVirtualInterface(interface.name) || interface.address.starts_with("fe80:")) continue;
      if (hosts_of[interface.name].empty()) order.push_back(interface.name);
      hosts_of[interface.name].insert(process.host);
    }
  }
  for (const std::string& name : order)
    if (common_interface_.empty() && hosts_of[name].size() == hosts.size()) common_interface_ = name;
}

void Evidence::findNics() {
  std::map<std::string, std::vector<std::string>> of_host;
  std::map<std::string, std::size_t> layers;
  for (const Process& process : job_.processes) {
    if (process.nics.empty() || of_host.count(process.host) > 0) continue;
    std::vector<std::string>& names = of_host[process.host];
    std::set<std::string> kinds;
    for (const Nic& nic : process.nics) {
      names.push_back(nameOf(nic));
      kinds.insert(nic.link);
      ++layers[nic.link];
    }
    if (kinds == std::set<std::string>{"IB"}) nics_.only_ib = process.host;
    if (kinds == std::set<std::string>{"RoCE"}) nics_.only_roce = process.host;
    nics_.mixed = nics_.mixed || (kinds.count("IB") > 0 && kinds.count("RoCE") > 0);
    if (names.size() > nics_.number_most) nics_.most = process.host, nics_.number_most = names.size();
    if (nics_.few.empty() || names.size() < nics_.number_few)
      nics_.few = process.host, nics_.number_few = names.size();
  }
  if (of_host.empty()) return;
  const auto hasAll = [&](const std::string& name) {
    return std::ranges::all_of(
        of_host, [&](const auto& host) { return std::ranges::find(host.second, name) != host.second.end(); });
  };
  const std::vector<std::string>& few = of_host[nics_.few];
  for (const std::string& name : of_host[nics_.most]) {
    if (hasAll(name)) nics_.common.push_back(name);
    if (std::ranges::find(few, name) == few.end()) nics_.missing.push_back(name);
  }
  if (nics_.number_few == nics_.number_most) nics_.few.clear();
  const auto most =
      std::ranges::max_element(layers, [](const auto& a, const auto& b) { return a.second < b.second; });
  std::set<std::string> names;
  for (const Process& process : job_.processes)
    for (const Nic& nic : process.nics)
      if (nic.link == most->first) names.insert(nameOf(nic));
  nics_.of_most.assign(names.begin(), names.end());
}

Situation::Situation(const Evidence& all, int index, const Event* its) : evidence(all), event(its) {
  if (index >= 0) process = &all.job().processes[static_cast<std::size_t>(index)];
  if (event != nullptr) {
    line = event->line.value;
    for (const Fact& also : event->also) line += "\n" + also.value;
  } else {
    for (const Event* const other : all.networkEvents(index)) line += other->line.value + "\n";
  }
  local_gid = valueAfter(line, {"localGids", "localGid", "local GID ", "local_gid"});
  // "local GID index 3, local GID ::ffff:10.0.0.1"
  if (local_gid == "index") local_gid = valueAfter(line.substr(line.rfind("local GID ")), {"local GID "});
  remote_gid = valueAfter(line, {"remoteGids", "remoteGid", "remote GID ", "remote_gid"});
  findPeer();
  findNames();
}

void Situation::findPeer() {
  const std::string_view address = addressIn(line);
  const std::string_view plain = firstWord(address, "%");
  peer_host = evidence.hostOf(address);
  if (peer_host.empty()) peer_host = evidence.hostOf(plain);
  // NCCL writes names of hosts too: "remote peer node-0.default.svc<41234>".
  const std::string_view name = firstWord(plain, ".");
  for (const std::string_view written : {plain, name})
    if (peer_host.empty() && evidence.isHost(written)) peer_host = written;
  std::string_view interface = after(address, "%");
  peer_interface = evidence.interfaceOf(address);
  if (interface.empty()) interface = peer_interface;
  if (!interface.empty() && (isVirtualInterface(interface) || address.starts_with("fe80:")))
    bad_interface = interface;
  if (!bad_interface.empty() || !interface.empty() || process == nullptr) return;
  for (const Interface& its : process->interfaces)
    if (isVirtualInterface(its.name) || its.address.starts_with("fe80:")) bad_interface = its.name;
}

const Fact* Situation::setting(const std::string& name) const {
  if (process != nullptr)
    if (const auto its = process->settings.find(name); its != process->settings.end()) return &its->second;
  return evidence.setting(name);
}

void Situation::findNames() {
  const auto name = [&](const char* key, const std::string& value) { names_[key] = value; };
  const Evidence::Nics& nics = evidence.nics();
  std::string nic = valueAfter(line, {" hca ", "on dev ", "open device ", "devName="});
  if (nic.empty() && process != nullptr && process->nics.size() == 1) nic = process->nics.front().name;
  name("nic", std::string(firstWord(nic, ":")));
  name("PCI_address", std::string(pciAddressIn(line)));
  name("interface", evidence.commonInterface());
  name("bad_interface", bad_interface);
  name("peer", peer_host);
  name("local_address", addressOfGid(local_gid));
  name("remote_address", addressOfGid(remote_gid));
  name("nics_common", joined(nics.common, ","));
  name("nics_of_most", joined(nics.of_most, ","));
  name("host_few", nics.few);
  name("few", std::to_string(nics.number_few));
  name("host_most", nics.most);
  name("many", std::to_string(nics.number_most));
  name("missing", joined(nics.missing));
  const Fact* const chosen = setting("NCCL_SOCKET_IFNAME");
  name("ifname", chosen == nullptr ? "" : chosen->value);
  const Process none, &its = process == nullptr ? none : *process;
  name("host", its.host);
  name("nics_used", joined(its.nics, ",", nameOf));
  const std::string& version = its.version.value.empty() ? evidence.job().version.value : its.version.value;
  name("version", process == nullptr ? "" : std::string(firstWord(version, "+")));
}

std::string Situation::named(std::string_view text) const {
  std::string result;
  while (!text.empty()) {
    const std::string_view plain = firstWord(text, "{");
    result += plain;
    text.remove_prefix(plain.size());
    const std::size_t end = text.find('}');
    const std::string_view key = end == std::string_view::npos ? "" : text.substr(1, end - 1);
    const auto known = names_.find(key);
    if (known == names_.end()) {  // a brace of the log's own
      result += text.substr(0, 1);
      text.remove_prefix(std::min<std::size_t>(1, text.size()));
      continue;
    }
    std::string placeholder = "<" + std::string(key) + ">";
    std::ranges::replace(placeholder, '_', ' ');
    result += known->second.empty() ? placeholder : known->second;
    text.remove_prefix(end + 1);
  }
  return result;
}

}  // namespace railwise::doctor
