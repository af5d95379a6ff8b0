#include "observe/stuck/job.h"

#include <algorithm>

namespace railwise::observe {
namespace {

// An IP address stays whole.
std::string_view withoutDomain(std::string_view host) {
  const bool address = host.find_first_not_of("0123456789.") == std::string_view::npos ||
                       host.find(':') != std::string_view::npos;
  return address ? host : host.substr(0, host.find('.'));
}

std::string_view hostOfPeer(std::string_view peer) { return peer.substr(0, peer.rfind(':')); }

// "gpu2.example.org:4411" as "gpu2:4411": a host may be called by either name.
std::string nameOf(std::string_view host, std::string_view pid) {
  return std::string(withoutDomain(host)) + ":" + std::string(pid);
}

bool isOneProcess(const ProcessFacts& a, const ProcessFacts& b) {
  return a.pid == b.pid && a.process_start == b.process_start && a.boot_id == b.boot_id && a.host == b.host;
}

}  // namespace

Job::Job(std::vector<HostFacts> hosts) : hosts_(std::move(hosts)) {
  for (HostFacts& host : hosts_) {
    for (ProcessFacts& process : host.processes) addProcess(std::move(process));
    host.processes.clear();
  }
  for (int at = 0; at < static_cast<int>(processes_.size()); ++at) {
    const ProcessFacts& own = process(at);
    const auto [found, added] = by_name_.emplace(nameOf(own.host, std::to_string(own.pid)), at);
    // The number of a process that is gone may belong to another one now.
    if (!added && (own.alive || !process(found->second).alive)) found->second = at;
    for (int i = 0; i < static_cast<int>(own.connections.size()); ++i) {
      const uint64_t pair = own.connections[static_cast<std::size_t>(i)].pair_id;
      if (pair != 0) by_pair_[pair].push_back({at, i});
    }
  }
}

// A process may have a record of the plugin and another one of the spy. The plugin knows more.
void Job::addProcess(ProcessFacts process) {
  const auto known = std::find_if(processes_.begin(), processes_.end(),
                                  [&](const ProcessFacts& other) { return isOneProcess(other, process); });
  if (known == processes_.end()) processes_.push_back(std::move(process));
  else if (known->spy && !process.spy) *known = std::move(process);
}

int Job::processNamed(const std::string& peer) const {
  const std::size_t colon = peer.rfind(':');
  if (colon == std::string::npos) return -1;
  const auto found = by_name_.find(nameOf(peer.substr(0, colon), peer.substr(colon + 1)));
  return found == by_name_.end() ? -1 : found->second;
}

// The only connection of `process` that can be the other end of `other`; -1: none, or several.
int Job::connectionTo(int place, End other) const {
  const ConnectionFacts& from = connection(other);
  int only = -1;
  const auto& connections = process(place).connections;
  for (int i = 0; i < static_cast<int>(connections.size()); ++i) {
    const ConnectionFacts& to = connections[static_cast<std::size_t>(i)];
    const bool fits = to.side != from.side && to.side != record::Side::kListener &&
                      (from.pair_id == 0 || to.pair_id == 0) && to.communicator == from.communicator &&
                      processNamed(to.peer) == other.process &&
                      (from.peer_device.empty() || to.device == from.peer_device) &&
                      (to.peer_device.empty() || to.peer_device == from.device);
    if (!fits) continue;
    if (only >= 0) return -1;
    only = i;
  }
  return only;
}

End Job::otherEnd(End end) const {
  const ConnectionFacts& own = connection(end);
  if (own.side == record::Side::kListener) return {};
  if (const auto found = by_pair_.find(own.pair_id); own.pair_id != 0 && found != by_pair_.end()) {
    for (const End other : found->second) {
      const ConnectionFacts& candidate = connection(other);
      if (candidate.side != own.side && candidate.side != record::Side::kListener) return other;
    }
  }
  const int peer = processNamed(own.peer);
  if (peer < 0) return {};
  return {peer, connectionTo(peer, end)};
}

const HostFacts* Job::hostOf(std::string_view peer) const {
  const std::string_view name = withoutDomain(hostOfPeer(peer));
  for (const HostFacts& host : hosts_) {
    std::string_view asked = host.asked;
    if (const std::size_t at = asked.find('@'); at != std::string_view::npos) asked.remove_prefix(at + 1);
    if (withoutDomain(host.name) == name || (!asked.empty() && withoutDomain(asked) == name)) return &host;
  }
  return nullptr;
}

}  // namespace railwise::observe
