#include "topo/search/vain_attempts.h"

#include <algorithm>

namespace railwise::topo {
namespace {

constexpr std::size_t kFirstSlots = 1024;

bool goesTheSameWay(const VainAttempt& known, SearchLimits limits, Candidates& candidates) {
  if (!known.noted.intra.holdFor(limits.type_intra) || !known.noted.inter.holdFor(limits.type_inter))
    return false;
  const PathType type_inter = limits.type_inter;
  limits.type_intra = known.limits.type_intra;
  limits.type_inter = known.limits.type_inter;
  if (!known.noted.cross_nic) limits.cross_nic = known.limits.cross_nic;
  // The farthest type also says which NETs an attempt tries.
  return limits == known.limits &&
         (type_inter == limits.type_inter || candidates.equalNets(type_inter, limits.type_inter));
}

}  // namespace

const VainAttempt* VainAttempts::find(const SearchLimits& limits, int hops, Candidates& candidates) const {
  const auto found = std::find_if(attempts_.begin(), attempts_.end(), [&](const VainAttempt& known) {
    return known.hops == hops && goesTheSameWay(known, limits, candidates);
  });
  return found == attempts_.end() ? nullptr : &*found;
}

void KnownStages::clear() {
  count_ = 0;
  if (++generation_ != 0) return;
  slots_.clear();  // the first generation would come again
  generation_ = 1;
}

std::size_t KnownStages::slotOf(uint64_t stage) const {
  const std::size_t mask = slots_.size() - 1;
  std::size_t at = stage & mask;
  while (slots_[at].generation == generation_ && slots_[at].stage != stage) at = (at + 1) & mask;
  return at;
}

std::optional<KnownStages::Outcome> KnownStages::find(uint64_t stage) const {
  if (count_ == 0) return std::nullopt;
  const Slot& slot = slots_[slotOf(stage)];
  if (slot.generation != generation_) return std::nullopt;
  return Outcome{slot.steps, slot.least_hops};
}

void KnownStages::add(uint64_t stage, const Outcome& outcome) {
  if (2 * (count_ + 1) > slots_.size()) grow();
  Slot& slot = slots_[slotOf(stage)];
  if (slot.generation != generation_) ++count_;
  slot = {stage, generation_, static_cast<uint16_t>(outcome.steps), outcome.least_hops};
}

void KnownStages::grow() {
  std::vector<Slot> old(slots_.empty() ? kFirstSlots : 2 * slots_.size());
  old.swap(slots_);
  for (const Slot& slot : old)
    if (slot.generation == generation_) slots_[slotOf(slot.stage)] = slot;
}

}  // namespace railwise::topo
