#include "net/rma/slots.h"

#include <algorithm>
#include <bit>

namespace railwise::net {

void SignalSlots::add(const RmaWindow& window, uint64_t offset, uint64_t value, uint32_t home,
                      uint32_t brought) {
  const uint64_t address = window.address + offset;
  if (!window.inGpu()) {
    __atomic_fetch_add(reinterpret_cast<uint64_t*>(address), value, __ATOMIC_ACQ_REL);
    return;
  }
  std::unique_ptr<Slot>& place = slots_[address];
  if (place == nullptr) place = std::make_unique<Slot>();
  Slot& slot = *place;
  slot.window = &window;
  slot.address = address;
  slot.added += value;
  slot.home = home;
  slot.flush |= brought | stale_;
  if (!slot.dirty) {
    slot.dirty = true;
    dirty_.push_back(&slot);
  }
}

void SignalSlots::mustFlush(uint32_t rails) {
  stale_ |= rails;
  for (Slot* slot : dirty_) slot->flush |= rails;
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

// The rail that writes, and what must be flushed before. False: call again.
bool SignalSlots::begin(Slot& slot) {
  const std::optional<std::size_t> rail = loopback_.choose(slot.home);
  if (!rail) return false;
  const MemoryHandle& memory = *slot.window->memory;
  const uint32_t others = slot.flush & ~(uint32_t{1} << *rail) & loopback_.usable();
  slot.operation.failed = false;
  if (others != 0) {
    for (uint32_t left = others; left != 0; left &= left - 1) {
      const auto other = static_cast<std::size_t>(std::countr_zero(left));
      if (!loopback_.read(other, memory, slot.address, slot.operation)) slot.operation.failed = true;
    }
    slot.flushing = others;
    slot.flush &= ~others;  // what comes from now on is flushed once more
    stale_ &= ~others;
    slot.step = Step::kFlush;
    return true;
  }
  slot.flush = 0;  // rails that cannot be used: what they have emitted has arrived by now
  if (!slot.window->never_reset) {
    if (loopback_.read(*rail, memory, slot.address, slot.operation, &slot.read)) slot.step = Step::kRead;
    return slot.step == Step::kRead;
  }
  const uint64_t value = slot.value + slot.added;
  if (!loopback_.write(*rail, value, memory, slot.address, slot.operation)) return false;
  slot.value = value;
  slot.added = 0;
  slot.step = Step::kWrite;
  return true;
}

std::string SignalSlots::advance(Slot& slot) {
  if (slot.operation.busy()) return "";
  const MemoryHandle& memory = *slot.window->memory;
  switch (slot.step) {
    case Step::kIdle:
      (void)begin(slot);
      return "";
    case Step::kFlush:
      if (slot.operation.failed) {
        slot.flush |= slot.flushing;
        stale_ |= slot.flushing;
      }
      slot.step = Step::kIdle;
      (void)begin(slot);
      return "";
    case Step::kRead: {
      slot.step = Step::kIdle;
      if (slot.operation.failed || slot.flush != 0) return "";  // begins again
      const std::optional<std::size_t> rail = loopback_.choose(slot.home);
      slot.before = *slot.read;
      if (!rail || !loopback_.write(*rail, slot.before + slot.added, memory, slot.address, slot.operation))
        return "";
      slot.value = slot.before + slot.added;
      slot.added = 0;
      slot.step = Step::kWrite;
      return "";
    }
    case Step::kWrite:
      slot.step = Step::kIdle;
      if (slot.operation.failed) {
        slot.operation.failed = false;
        const std::optional<std::size_t> rail = loopback_.choose(slot.home);
        const bool again =
            slot.window->never_reset
                ? rail && loopback_.write(*rail, slot.value, memory, slot.address, slot.operation)
                : rail && loopback_.read(*rail, memory, slot.address, slot.operation, &slot.read);
        slot.step = again && !slot.window->never_reset ? Step::kCheck : Step::kWrite;
        slot.operation.failed = !again;
        return "";
      }
      slot.dirty = slot.added != 0;
      if (slot.dirty) (void)begin(slot);
      return "";
    case Step::kCheck: {
      // The write may have been executed, seen, and set back.
      if (slot.operation.failed) {
        slot.step = Step::kWrite;
        return "";
      }
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

}  // namespace railwise::net
