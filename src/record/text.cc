// What a snapshot holds, in words, and searches in it.
#include <algorithm>
#include <iterator>
#include <numeric>

#include "record/snapshot.h"

namespace railwise::record {

const Rail* railAt(const Snapshot& snapshot, int place) {
  const bool known = place >= 0 && static_cast<std::size_t>(place) < snapshot.rails.size();
  return known ? &snapshot.rails[static_cast<std::size_t>(place)] : nullptr;
}

const Snapshot* earlierRead(const std::vector<Snapshot>& earlier, const Snapshot& now) {
  const auto found = std::ranges::find_if(earlier, [&](const Snapshot& other) {
    return isOneProcess(other.process, now.process) && other.process.spy == now.process.spy;
  });
  return found != earlier.end() ? &*found : nullptr;
}

const Connection* earlierState(const Snapshot* earlier, const Connection& now) {
  if (earlier == nullptr) return nullptr;
  const auto& all = earlier->connections;  // by slot
  const auto at = std::ranges::lower_bound(all, now.slot, {}, &Connection::slot);
  return at != all.end() && at->slot == now.slot && at->id == now.id ? &*at : nullptr;
}

uint64_t errorSum(const RailCounters& counters) {
  return std::accumulate(std::begin(counters.errors), std::end(counters.errors), uint64_t{0});
}

const char* sideText(Side side) {
  return side == Side::kSender ? "sender" : side == Side::kReceiver ? "receiver" : "listener";
}

const char* endText(ConnectionKind kind, Side side) {
  if (side == Side::kListener) return "listener";
  if (kind == ConnectionKind::kOneSided) return side == Side::kSender ? "put" : "target";
  return side == Side::kSender ? "send" : "receive";
}

const char* unitText(ConnectionKind kind, Side side) {
  if (kind == ConnectionKind::kOneSided) return side == Side::kSender ? "operation" : "signal";
  return side == Side::kReceiver ? "receive" : "message";
}

std::string hostOf(const Process& process) {
  const std::string pid = ":" + std::to_string(process.pid);
  return process.host.ends_with(pid) ? process.host.substr(0, process.host.size() - pid.size())
                                     : process.host;
}

std::string railText(const Rail& rail) { return rail.device + " port " + std::to_string(rail.port); }

std::string durationText(uint64_t since_ns, uint64_t until_ns) {
  const uint64_t ms = until_ns > since_ns ? (until_ns - since_ns) / 1000000 : 0;
  if (ms < 1000) return std::to_string(ms) + " ms";
  if (ms < 120000) return std::to_string(ms / 1000) + "." + std::to_string(ms % 1000 / 100) + " s";
  const uint64_t seconds = ms / 1000;
  if (seconds < 7200) return std::to_string(seconds / 60) + " min";
  return std::to_string(seconds / 3600) + " h " + std::to_string(seconds % 3600 / 60) + " min";
}

}  // namespace railwise::record
