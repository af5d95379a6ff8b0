#include "net/rma/slots.h"

#include <algorithm>

namespace railwise::net {

uint64_t SignalSlots::addInGpu(const RmaWindow& window, uint64_t address, uint64_t value, uint32_t home,
                               uint32_t brought) {
  std::unique_ptr<Slot>& place = slots_[address];
  if (place == nullptr) place = std::make_unique<Slot>();
  Slot& slot = *place;
  slot.window = &window;
  slot.address = address;
  slot.added += value;
  slot.home = home;
  slot.flush |= brought | stale_;
  ++additions_;
  if (!slot.dirty) {
    slot.dirty = true;
    slot.oldest = additions_;
    dirty_.push_back(&slot);
  }
  return additions_;
}

bool SignalSlots::owes(uint64_t addition) const {
  return std::ranges::any_of(dirty_, [&](const Slot* slot) { return slot->oldest <= addition; });
}

void SignalSlots::mustFlush(uint32_t rails) {
  if (isPlanted(Mistake::kNoFlushOfLeft)) return;
  stale_ |= rails;
  for (Slot* slot : dirty_) {
    slot->flush |= rails;
    slot->clears &= ~rails;
  }
}

std::string SignalSlots::progress() {
  for (std::size_t i = 0; i < dirty_.size();) {
    Slot& slot = *dirty_[i];
    if (std::string problem = advance(slot); !problem.empty()) return problem;
    if (slot.dirty) {
      ++i;
      continue;
    }
    dirty_[i] = dirty_.back();
    dirty_.pop_back();
  }
  return "";
}

// Chooses the rail that writes, and does what comes first: a flush of others, a read, or the write.
void SignalSlots::begin(Slot& slot) {
  const std::optional<std::size_t> rail = loopback_.choose(slot.home);
  if (!rail) return;
  const MemoryHandle& memory = *slot.window->memory;
  slot.operation.failed = false;
  if (const uint32_t others = othersThan(*rail, slot); others != 0) {
    loopback_.flush(others, memory, slot.address, slot.operation);
    slot.covers = others;
    slot.clears = stale_ & others;
    slot.flush &= ~others;  // what comes from now on is flushed once more
    slot.step = Step::kFlush;
    return;
  }
  if ((slot.window->never_reset && slot.known) || isPlanted(Mistake::kAbsoluteThoughReset))
    write(slot, *rail, slot.value + slot.added);
  else if (loopback_.read(*rail, memory, slot.address, slot.operation, &slot.read)) slot.step = Step::kRead;
}

// Rails that cannot be used need no flush: what they have emitted has arrived by now.
void SignalSlots::write(Slot& slot, std::size_t rail, uint64_t value) {
  if (!loopback_.write(rail, value, *slot.window->memory, slot.address, slot.operation)) return;
  slot.covers = slot.flush | uint32_t{1} << rail;
  slot.flush = 0;
  slot.value = value;
  slot.known = true;
  slot.added = 0;
  slot.after = additions_ + 1;
  slot.step = Step::kWrite;
}

void SignalSlots::check(Slot& slot) {
  const std::optional<std::size_t> rail = loopback_.choose(slot.home);
  slot.operation.failed = false;
  if (rail && loopback_.read(*rail, *slot.window->memory, slot.address, slot.operation, &slot.read))
    slot.step = Step::kCheck;
}

std::string SignalSlots::advance(Slot& slot) {
  if (slot.operation.busy()) return "";
  if (slot.window == nullptr) {
    slot.dirty = false;
    return "";
  }
  switch (slot.step) {
    case Step::kIdle:
      begin(slot);
      return "";
    case Step::kFlush:
      slot.step = Step::kIdle;
      if (slot.operation.failed) slot.flush |= slot.covers;
      else stale_ &= ~slot.clears;
      begin(slot);
      return "";
    case Step::kRead: {
      slot.step = Step::kIdle;
      const std::optional<std::size_t> rail = loopback_.choose(slot.home);
      if (!rail || slot.operation.failed || othersThan(*rail, slot) != 0) return "";  // begins again
      slot.before = *slot.read;
      write(slot, *rail, slot.before + slot.added);
      return "";
    }
    case Step::kWrite:
      slot.step = Step::kIdle;
      if (slot.operation.failed) {  // another rail must not write before it has flushed these
        slot.flush |= slot.covers;
        if (!slot.window->never_reset) {
          slot.step = Step::kDoubt;
          check(slot);
        }
        return "";
      }
      slot.dirty = slot.added != 0;
      slot.oldest = slot.after;
      if (slot.dirty) begin(slot);
      return "";
    case Step::kDoubt:
      check(slot);
      return "";
    case Step::kCheck: {
      slot.step = Step::kDoubt;
      if (slot.operation.failed) return "";
      // The write may have been executed, seen, and set back.
      const uint64_t now = *slot.read;
      slot.step = Step::kIdle;
      if (now == slot.before && now == 0)
        return "a signal of " + std::to_string(slot.value - slot.before) + " at address " +
               std::to_string(slot.address) + " may have been added or not: the NIC that wrote it has failed";
      if (now == slot.before) slot.added += slot.value - slot.before;
      slot.dirty = slot.added != 0;
      return "";
    }
  }
  return "";
}

bool SignalSlots::forget(const RmaWindow& window) {
  const bool busy = std::ranges::any_of(dirty_, [&](const Slot* slot) { return slot->window == &window; });
  if (busy) return false;
  std::erase_if(slots_, [&](const auto& each) { return each.second->window == &window; });
  return true;
}

// What is under way still names its slot.
void SignalSlots::abandon(const RmaWindow& window) {
  for (const auto& [address, slot] : slots_) {
    if (slot->window != &window) continue;
    slot->window = nullptr;
    slot->value = slot->added = 0;
    slot->known = false;
  }
}

}  // namespace railwise::net
