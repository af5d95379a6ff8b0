#include "net/sender/send_recovery.h"

#include <algorithm>
#include <string>

namespace railwise::net {
namespace {

constexpr uint32_t kWords = 2;

Error lost(uint64_t number) {
  return {"message " + std::to_string(number) +
              " is lost: the peer's device has acknowledged it, and failed before it told the peer of it",
          Code::kRemote};
}

}  // namespace

void SendRecovery::onFenced() {
  messages_.forgetCounters();
  ring_.clear();
  completeArrived();
}

void SendRecovery::onArrived(uint64_t number, bool fenced) {
  noteArrived(number);
  if (fenced) completeArrived();
  else messages_.completeUpTo(std::min<uint64_t>(numbers_.arrivedUpTo(), numbers_.nextPost() - 1));
}

void SendRecovery::noteArrived(uint64_t number) {
  if (number > numbers_.arrivedUpTo()) numbers_.arrivedUpTo() = std::min(number, numbers_.numbers().next - 1);
}

void SendRecovery::completeArrived() {
  const uint64_t arrived = numbers_.arrivedUpTo();
  messages_.completeUpTo(arrived);
  for (Group& group : groups_) {
    if (group.number <= arrived && group.holds(group.number)) group.arrive();
  }
}

Outcome<void> SendRecovery::reconcile(const Words& words) {
  if (words.count != kWords) {
    return Error{"the peer says " + std::to_string(words.count) + " numbers of what has arrived, not " +
                     std::to_string(kWords),
                 Code::kRemote};
  }
  const uint64_t latest = words.word[0];
  const uint64_t later = words.word[1];
  noteArrived(latest);
  const uint64_t arrived = numbers_.arrivedUpTo();
  const uint64_t next = numbers_.numbers().next;
  if (latest != arrived || next - arrived > kSlots + 1U) {
    return Error{"the peer says that receive " + std::to_string(latest) + " is its latest, where receive " +
                     std::to_string(next) + " is the next to be sent to",
                 Code::kRemote};
  }
  completeArrived();
  for (uint64_t number = next - 1; number > arrived; --number) {
    const uint64_t bit = number - arrived - 1;
    Outcome<void> known = reconcileReceive(number, bit < kSlots && (later >> bit & 1) != 0);
    if (!known.ok()) return known;
  }
  // The group that is being matched goes on, without the work requests that were prepared for the old queue
  // pairs.
  Group& open = groups_.of(next);
  if (open.number == next) open.form = SendPath::kSegments;
  numbers_.nextPost() = arrived + 1;
  ring_.lookFrom(arrived + 1);
  return {};
}

Outcome<void> SendRecovery::reconcileReceive(uint64_t number, bool arrived) {
  Group& group = groups_.of(number);
  if (group.holds(number)) {
    if (arrived) group.arrive();
    else if (!group.repeat()) return lost(number);
    return {};
  }
  Message* const message = messages_.find(number);  // it took the fast path
  if (arrived) {
    if (message != nullptr) message->counter = &kAlways;
    return {};
  }
  if (message == nullptr) return lost(number);
  group.repeatAlone(number, *message);
  return {};
}

}  // namespace railwise::net
