#include "doctor/log/ranks.h"

#include <algorithm>

namespace railwise::doctor {
namespace {

int largestCommunicator(const Job& job, bool splits_too) {
  int most = 0;
  for (const Process& process : job.processes)
    for (const Init& init : process.inits)
      if (splits_too || !init.split) most = std::max(most, init.ranks);
  return most;
}

std::string rangeText(int first, int last) {
  if (first == last) return std::to_string(first);
  return std::to_string(first) + (last == first + 1 ? ", " : "-") + std::to_string(last);
}

std::string numbersText(std::span<const int> ranks) {
  return rangesText(std::set<int>(ranks.begin(), ranks.end()));
}

// Processes that share a communicator have the same group.
class Groups {
 public:
  explicit Groups(const Job& job) : parent_(job.processes.size()) {
    for (std::size_t i = 0; i < parent_.size(); ++i) parent_[i] = static_cast<int>(i);
    std::map<std::string, int> first;
    for (std::size_t i = 0; i < parent_.size(); ++i)
      for (const Init& init : job.processes[i].inits) {
        const int other = first.emplace(init.communicator, static_cast<int>(i)).first->second;
        parent_[static_cast<std::size_t>(of(static_cast<int>(i)))] = of(other);
      }
  }
  int of(int process) {
    int at = process;
    while (parent_[static_cast<std::size_t>(at)] != at) {
      int& parent = parent_[static_cast<std::size_t>(at)];
      at = parent = parent_[static_cast<std::size_t>(parent)];
    }
    return at;
  }

 private:
  std::vector<int> parent_;
};

}  // namespace

Gaps gapsOf(const std::set<int>& numbers, int size) {
  Gaps gaps;
  int from = 0;
  const auto close = [&](int end) {
    if (end <= from) return;
    gaps.count += static_cast<std::size_t>(end - from);
    gaps.text += (gaps.text.empty() ? "" : ", ") + rangeText(from, end - 1);
  };
  for (auto at = numbers.lower_bound(0); at != numbers.end() && *at < size; ++at) {
    close(*at);
    from = *at + 1;
  }
  close(size);
  return gaps;
}

std::string rangesText(const std::set<int>& numbers) {
  std::string text;
  for (auto at = numbers.begin(); at != numbers.end();) {
    const int first = *at;
    int last = first;
    while (++at != numbers.end() && *at == last + 1) last = *at;
    text += (text.empty() ? "" : ", ") + rangeText(first, last);
  }
  return text;
}

Ranks::Ranks(const Job& job, int expected) : job_(job), ranks_(job.processes.size()) {
  world_ = largestCommunicator(job, false);
  if (world_ == 0) world_ = largestCommunicator(job, true);
  size_ = expected > 0 ? expected : world_;
  Groups groups(job);
  for (std::size_t i = 0; i < job.processes.size(); ++i) {
    const Process& process = job.processes[i];
    std::set<int> ranks;
    for (const Init& init : process.inits)
      if (isWorld(init)) ranks.insert(init.rank);
    if (ranks.empty() && process.hinted_rank >= 0) ranks.insert(process.hinted_rank);
    ranks_[i].assign(ranks.begin(), ranks.end());
    seen_.insert(ranks.begin(), ranks.end());
    for (const int rank : ranks) {
      const auto [other, alone] = process_of_.emplace(rank, static_cast<int>(i));
      if (!alone && groups.of(other->second) != groups.of(static_cast<int>(i)))
        twice_.emplace_back(other->second, static_cast<int>(i));
    }
    if (!ranks.empty() || !process.inits.empty() || !process.network.empty() || process.lines > 1)
      members_.push_back({static_cast<int>(i), process});
  }
}

std::string Ranks::label(int process) const {
  const Process& its = job_.processes[static_cast<std::size_t>(process)];
  const std::span<const int> ranks = of(process);
  if (ranks.empty()) return "process " + its.pid + " (" + its.host + ")";
  return (ranks.size() == 1 ? "rank " : "ranks ") + numbersText(ranks) + " (" + its.host + ")";
}

std::string Ranks::label(const Event& event) const {
  if (event.process >= 0) return label(event.process);
  return event.rank < 0 ? event.host : labelOfRank(event.rank, event.host);
}

std::string Ranks::labelOfRank(int rank, const std::string& otherwise) const {
  const auto process = process_of_.find(rank);
  const std::string& host = process == process_of_.end()
                                ? otherwise
                                : job_.processes[static_cast<std::size_t>(process->second)].host;
  return "rank " + std::to_string(rank) + (host.empty() ? "" : " (" + host + ")");
}

std::size_t Ranks::hosts() const {
  std::set<std::string> hosts;
  int nodes = 0;
  for (const auto& [index, process] : members_) {
    hosts.insert(process.host);
    nodes = std::max(nodes, process.nodes);
  }
  return std::max(hosts.size(), static_cast<std::size_t>(nodes));
}

std::string Ranks::placeText(Place place) const {
  const auto file = static_cast<std::size_t>(place.file);
  if (place.line == 0 || file >= job_.files.size()) return "";
  return job_.files[file].name + ":" + std::to_string(place.line);
}

Seen Ranks::seenAt(int process, const Fact& fact) const {
  return {.device = label(process), .where = placeText(fact.place), .value = fact.value};
}

}  // namespace railwise::doctor
