#include "net/paths/epoch_plan.h"

#include <algorithm>
#include <tuple>

namespace railwise::net {
namespace {

// The first `count` rails of an end.
EndInfo firstRails(const EndInfo& end, int count) {
  EndInfo first = end;
  first.rails = static_cast<uint8_t>(std::min<int>(end.rails, count));
  return first;
}

uint8_t placeIn(std::vector<uint8_t>& used, uint8_t rail) {
  const auto found = std::find(used.begin(), used.end(), rail);
  const auto place = static_cast<uint8_t>(found - used.begin());
  if (found == used.end()) used.push_back(rail);
  return place;
}

void addLane(EpochPlan& plan, uint8_t local_rail, const RailPair& pair) {
  const uint8_t from = placeIn(plan.local, local_rail);
  const uint8_t to = placeIn(plan.remote, pair.listener_rail);
  plan.lanes.push_back({from, to, pair.connector_gid, pair.listener_gid});
}

// Rails of the connection's own devices.
std::optional<EpochPlan> ownRails(const EndInfo& local, const EndInfo& remote, int subnet_prefix_bits,
                                  const PathMemory& memory, Clock::time_point now, Purpose purpose) {
  if (local.rails == 0 || remote.rails == 0) return std::nullopt;
  const int lanes = std::max(local.rails, remote.rails);
  const auto allowed = [&](int from, int to) {
    const RailPath path = pathOf(local.rail[from], remote.rail[to]);
    if (purpose == Purpose::kGoBack) return memory.freeAt(path) <= now;
    return !memory.doubtful(path, now) && memory.doubts(path, now) == 0;
  };
  const auto pairs = pairRails(local, remote, lanes, subnet_prefix_bits, allowed);
  EpochPlan plan;
  for (int lane = 0; lane < lanes; ++lane) {
    const auto& pair = pairs[static_cast<std::size_t>(lane)];
    if (pair) addLane(plan, static_cast<uint8_t>(lane % local.rails), *pair);
  }
  if (plan.lanes.empty()) return std::nullopt;
  return plan;
}

}  // namespace

RailPath pathOf(const RailInfo& local, const RailInfo& remote) {
  const auto name = [](const RailInfo& rail) {
    return fieldText(rail.device) + " port " + std::to_string(rail.port);
  };
  return {name(local), name(remote)};
}

const PathMemory::Entry* PathMemory::find(const RailPath& path) const {
  const auto found = entries_.find(path);
  return found != entries_.end() ? &found->second : nullptr;
}

bool PathMemory::doubtful(const Entry& entry, Clock::time_point now) {
  return !entry.free && now - entry.last <= Patience::kPathForgets;
}

bool PathMemory::doubtful(const RailPath& path, Clock::time_point now) const {
  const Entry* entry = find(path);
  return entry != nullptr && doubtful(*entry, now);
}

bool PathMemory::dear(const RailPath& path, Clock::time_point now) const {
  const Entry* entry = find(path);
  return entry != nullptr && doubtful(*entry, now) && entry->cost != FailureCost::kNone;
}

int PathMemory::doubts(const RailPath& path, Clock::time_point now) const {
  const Entry* its = find(path);
  const Clock::time_point since = its != nullptr ? its->worked : Clock::time_point();
  return static_cast<int>(std::count_if(entries_.begin(), entries_.end(), [&](const auto& known) {
    const bool common = known.first.first == path.first || known.first.second == path.second;
    return common && known.first != path && known.second.last > since && doubtful(known.second, now);
  }));
}

void PathMemory::failed(const RailPath& path, FailureCost cost, Clock::time_point now) {
  Entry& entry = entries_[path];
  if (now - entry.last > Patience::kPathForgets) entry.failures = 0;
  ++entry.failures;
  entry.cost = cost;
  entry.last = now;
  entry.free = entry.proven = false;
}

void PathMemory::worked(const RailPath& path, Clock::time_point now) {
  Entry& entry = entries_[path];
  entry.free = entry.proven = true;  // but the next failure counts on
  entry.worked = now;
}

void PathMemory::carried(const RailPath& path, Clock::time_point since) {
  Entry& entry = entries_[path];
  if (entry.failures > 0 && entry.last >= since) return;  // it failed in this epoch
  entry.proven = true;
  entry.free = entry.free || entry.failures == 0;
}

bool PathMemory::proven(const RailPath& path) const {
  const Entry* entry = find(path);
  return entry != nullptr && entry->proven;
}

Clock::time_point PathMemory::freeAt(const RailPath& path) const {
  const Entry* entry = find(path);
  if (entry == nullptr || entry->free) return {};
  return entry->last + patience_.pathPause(entry->failures);
}

Clock::time_point PathMemory::desperateAt(const RailPath& path) const {
  const Entry* entry = find(path);
  if (entry == nullptr || entry->free) return {};
  return entry->last + patience_.onlyPathPause(entry->failures);
}

PlanAnswer planEpoch(const Offer& local, const Offer& remote, int most_remote, int subnet_prefix_bits,
                     const PathMemory& memory, Clock::time_point now, Purpose purpose) {
  const EndInfo own = firstRails(local.end, local.native);
  const EndInfo its = firstRails(remote.end, std::min(remote.native, most_remote));
  if (auto plan = ownRails(own, its, subnet_prefix_bits, memory, now, purpose)) return {plan, {}};
  struct Choice {
    bool doubtful;
    bool dear;
    Clock::time_point free;
    int doubts;
    bool unproven;
    int rank;
    uint8_t from;
    RailPair pair;
    Clock::time_point desperate;
  };
  std::optional<Choice> best;
  for (int from = 0; from < local.end.rails; ++from) {
    for (int to = 0; to < remote.end.rails; ++to) {
      EndInfo one = firstRails(local.end, 1);
      one.rail[0] = local.end.rail[from];
      EndInfo other = firstRails(remote.end, 1);
      other.rail[0] = remote.end.rail[to];
      const auto pair = pairRails(one, other, 1, subnet_prefix_bits)[0];
      if (!pair) continue;
      const RailPath path = pathOf(one.rail[0], other.rail[0]);
      // All paths that may be tried now are equal.
      const Clock::time_point free = std::max(memory.freeAt(path), now);
      const bool doubtful = purpose == Purpose::kGoOn && memory.doubtful(path, now);
      const int doubts = purpose == Purpose::kGoOn ? memory.doubts(path, now) : 0;
      const bool unproven = purpose == Purpose::kGoOn && !memory.proven(path);
      const bool dear = purpose == Purpose::kGoOn && memory.dear(path, now);
      Choice choice = {doubtful,
                       dear,
                       free,
                       doubts,
                       unproven,
                       from + to,
                       static_cast<uint8_t>(from),
                       *pair,
                       memory.desperateAt(path)};
      choice.pair.listener_rail = static_cast<uint8_t>(to);
      const auto order = [now](const Choice& c) {
        return std::tuple(c.doubtful, c.free > now, c.dear, c.free, c.doubts, c.unproven, c.rank);
      };
      if (!best || order(choice) < order(*best)) best = choice;
    }
  }
  if (!best) return {std::nullopt, Clock::time_point::max()};
  if (best->free > now && best->desperate > now) return {std::nullopt, best->desperate};
  EpochPlan plan;
  addLane(plan, best->from, best->pair);
  return {plan, {}};
}

bool better(const EpochPlan& plan, const EpochPlan& than, int native_local, int native_remote) {
  const auto strangers = [&](const EpochPlan& of) {
    return std::count_if(of.local.begin(), of.local.end(),
                         [&](uint8_t rail) { return rail >= native_local; }) +
           std::count_if(of.remote.begin(), of.remote.end(),
                         [&](uint8_t rail) { return rail >= native_remote; });
  };
  const auto rails = [](const EpochPlan& of) { return of.local.size() + of.remote.size(); };
  if (strangers(plan) != strangers(than)) return strangers(plan) < strangers(than);
  return rails(plan) > rails(than);
}

}  // namespace railwise::net
