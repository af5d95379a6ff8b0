#include "topo/search/known_stages.h"

namespace railwise::topo {
namespace {

constexpr std::size_t kFirstSlots = 1024;

}  // namespace

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
