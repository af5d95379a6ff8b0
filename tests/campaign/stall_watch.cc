#include "tests/campaign/stall_watch.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "observe/stuck/job.h"
#include "record/reader.h"
#include "tests/campaign/schedule.h"

namespace railwise::cli {
namespace {

// A stall lasts this long before the records are read first. The second read is as much later as with
// `railwise stuck`, and so the answer concerns a stall of more than 2 s.
constexpr auto kFirstRead = std::chrono::milliseconds(300);
constexpr auto kBetweenReads = std::chrono::seconds(2);
// A fault that struck so shortly before the last data arrived may be what the stall comes from: other
// connections go on for a while.
constexpr auto kBefore = std::chrono::milliseconds(100);

bool isRail(observe::CulpritKind kind) {
  return kind == observe::CulpritKind::kFailedRail || kind == observe::CulpritKind::kSilentRail ||
         kind == observe::CulpritKind::kFailedConnection;
}

std::size_t rankOf(const std::vector<int>& pids, uint32_t pid) {
  return static_cast<std::size_t>(std::find(pids.begin(), pids.end(), static_cast<int>(pid)) - pids.begin());
}

// "h2:4711" for the peer "gpu1:4711", which is rank 2.
std::string peerOnItsHost(const std::string& peer, const std::vector<int>& pids) {
  const std::size_t colon = peer.rfind(':');
  if (colon == std::string::npos) return peer;
  for (std::size_t rank = 0; rank < pids.size(); ++rank)
    if (peer.substr(colon + 1) == std::to_string(pids[rank]))
      return hostName(static_cast<int>(rank)) + peer.substr(colon);
  return peer;
}

}  // namespace

bool namesBroken(const observe::Diagnosis& diagnosis, const std::vector<std::string>& broken) {
  if (diagnosis.culprits.empty()) return false;
  const observe::Culprit& first = diagnosis.culprits.front();
  if (!isRail(first.kind)) return false;
  std::string text = first.name;
  for (const std::string& detail : first.details) text += "\n" + detail;
  // "h2 soft1 port 1", or "h2 soft1" while the connection has no port of it; not "h2 soft12".
  text += "\n";
  return std::any_of(broken.begin(), broken.end(), [&](const std::string& place) {
    const std::size_t slash = place.find('/');
    const std::string name = place.substr(0, slash) + " " + place.substr(slash + 1);
    return text.find(name + " ") != std::string::npos || text.find(name + "\n") != std::string::npos;
  });
}

std::vector<observe::HostFacts> hostsOfRanks(const std::vector<record::Snapshot>& first,
                                             const std::vector<record::Snapshot>& second,
                                             const std::vector<int>& pids) {
  std::vector<observe::HostFacts> hosts;
  for (observe::ProcessFacts& process : observe::factsOfAll(first, second)) {
    process.host = hostName(static_cast<int>(rankOf(pids, process.pid)));
    for (observe::ConnectionFacts& connection : process.connections)
      connection.peer = peerOnItsHost(connection.peer, pids);
    observe::HostFacts& host = hosts.emplace_back();
    host.name = process.host;
    host.processes.push_back(std::move(process));
  }
  return hosts;
}

std::vector<record::Snapshot> StallWatch::read(const std::vector<int>& pids) const {
  std::vector<record::Snapshot> snapshots;
  for (const record::RecordFile& file : record::listRecords(folder_, geteuid())) {
    if (rankOf(pids, file.pid) == pids.size() || file.spy) continue;
    if (auto snapshot = record::readRecord(file.path, geteuid()); snapshot.ok())
      snapshots.push_back(std::move(*snapshot));
  }
  return snapshots;
}

void StallWatch::look(Clock::duration since_traffic, uint64_t received, const std::vector<int>& pids) {
  if (stopped_) return;
  const auto now = Clock::now();
  if (!moved_at_ || received != received_) {
    received_ = received;
    moved_at_ = now;
    read_at_.reset();
    return;
  }
  if (!read_at_) {
    if (now - *moved_at_ < kFirstRead) return;
    read_at_ = now;
    first_ = read(pids);
    return;
  }
  if (now - *read_at_ < kBetweenReads) return;
  judge(since_traffic, pids);
  read_at_.reset();
}

void StallWatch::judge(Clock::duration since_traffic, const std::vector<int>& pids) {
  const std::vector<record::Snapshot> second = read(pids);
  if (second.empty()) return;  // the plugin is not Railwise
  const observe::Job job(hostsOfRanks(first_, second, pids));
  const observe::Diagnosis diagnosis = observe::diagnose(job, {});
  Stall stall;
  stall.at_ms =
      static_cast<int>(std::chrono::duration_cast<std::chrono::milliseconds>(since_traffic).count());
  stall.lasted_ms = static_cast<int>(
      std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - *moved_at_).count());
  stall.verdict = diagnosis.verdict;
  for (const observe::Culprit& culprit : diagnosis.culprits) stall.named.push_back(culprit.name);
  stall.broken = broken_(*moved_at_ - kBefore);
  stall.right = namesBroken(diagnosis, stall.broken);
  stalls_.push_back(std::move(stall));
}

}  // namespace railwise::cli
