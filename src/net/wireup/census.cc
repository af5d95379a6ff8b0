#include "net/wireup/census.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "base/log.h"
#include "net/patience.h"
#include "record/writer.h"

namespace railwise::net {
namespace {

// A job of a thousand ranks has a thousand peers. So many are named.
constexpr std::size_t kMostNamed = 8;

std::string ranksText(std::size_t count, const char* what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

}  // namespace

Census& Census::ofProcess() {
  static auto& census = *new Census;  // NCCL's threads may still be running at exit
  return census;
}

Census::Entry::Entry(Census& census, std::string peer, std::string heard) : census_(census) {
  const std::lock_guard lock(census_.mutex_);
  if (census_.coming_.empty()) {
    census_.up_ = 0;
    census_.warned_ = false;
  }
  place_ = census_.coming_.insert(census_.coming_.end(), {std::move(peer), std::move(heard), Clock::now()});
}

Census::Entry::~Entry() {
  if (!waits_) return;
  const std::lock_guard lock(census_.mutex_);
  census_.coming_.erase(place_);
}

void Census::Entry::note(std::string heard) {
  const std::lock_guard lock(census_.mutex_);
  if (waits_) place_->heard = std::move(heard);
}

void Census::Entry::up() {
  if (!std::exchange(waits_, false)) return;
  const std::lock_guard lock(census_.mutex_);
  census_.coming_.erase(place_);
  ++census_.up_;
}

std::string Census::warningAt(Clock::time_point now, Clock::duration after) {
  const std::lock_guard lock(mutex_);
  if (after == Clock::duration() || warned_ || coming_.empty() || now - last_look_ < Patience::kCensus)
    return "";
  last_look_ = now;
  if (now - coming_.front().since < after) return "";  // the front is the oldest
  warned_ = true;
  const std::size_t all = up_ + coming_.size();
  return std::to_string(up_) + " of " + std::to_string(all) + " connections are up after " +
         std::to_string(
             std::chrono::duration_cast<std::chrono::seconds>(now - coming_.front().since).count()) +
         " s; waiting for: " + waitingFor();
}

// "host7 (3 ranks: nothing heard), host9 (1 rank: the call failed: ...), 2 peers that have not called yet"
std::string Census::waitingFor() const {
  std::map<std::pair<std::string, std::string>, std::vector<std::string>>
      groups;  // ranks by host and what was heard
  std::size_t listeners = 0;
  for (const Entry::Coming& each : coming_) {
    if (each.peer.empty()) {
      ++listeners;
      continue;
    }
    const std::string host = each.peer.substr(0, each.peer.rfind(':'));
    std::vector<std::string>& ranks = groups[{host, each.heard}];
    if (std::find(ranks.begin(), ranks.end(), each.peer) == ranks.end()) ranks.push_back(each.peer);
  }
  std::string text;
  std::size_t named = 0;
  for (const auto& [key, ranks] : groups) {
    if (++named > kMostNamed) break;
    text += (text.empty() ? "" : ", ") + key.first + " (" + ranksText(ranks.size(), "rank") + ": " +
            key.second + ")";
  }
  if (groups.size() > kMostNamed) text += " and " + std::to_string(groups.size() - kMostNamed) + " more";
  if (listeners > 0)
    text += (text.empty() ? "" : ", ") + ranksText(listeners, "peer") + " that " +
            (listeners == 1 ? "has" : "have") + " not called yet";
  return text;
}

void warnOfSlowConnect(int slow_connect_s) {
  const std::string text = Census::ofProcess().warningAt(Clock::now(), std::chrono::seconds(slow_connect_s));
  if (text.empty()) return;
  record::noteEvent(record::EventKind::kSlowConnect, text);
  RAILWISE_WARN("%s (RAILWISE_SLOW_CONNECT=%d s; `railwise stuck` shows it live)", text.c_str(),
                slow_connect_s);
}

}  // namespace railwise::net
