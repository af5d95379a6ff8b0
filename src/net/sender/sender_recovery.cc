// What a failure means for messages, at the sender: which have arrived, and which are sent again. The floor
// of paths says when (paths/link_user.h). docs/transport.md has the protocol.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "net/profiler.h"
#include "net/sender/send_connection.h"

namespace railwise::net {

// From now on only the receiver's word counts, also for what the peer's device has acknowledged: the peer may
// not have seen it.
void SendConnection::onFenced() {
  for (Message& message : messages_) message.counter = &kNever;
  for (const SegmentEvent& event : events_) profiler::stop(event.event);
  events_.clear();
  chain_.clear();
  sample_at_ = numbers().next;
  batch_.drop();
  ring_.clear();
  completeArrived();
}

// Is some message not complete, or has NCCL something to send?
bool SendConnection::isOpen() {
  const auto open = [](const Message& message) {
    return message.kind == Request::Kind::kSend && !message.complete();
  };
  return std::exchange(wants_to_send_, false) || std::any_of(messages_.begin(), messages_.end(), open);
}

Message* SendConnection::messageOf(uint64_t number) {
  const auto found = std::find_if(messages_.begin(), messages_.end(), [&](const Message& message) {
    return message.kind == Request::Kind::kSend && message.number == number;
  });
  return found != messages_.end() ? &*found : nullptr;
}

Status SendConnection::failLost(uint64_t number) {
  return link_.fail(
      {Code::kRemote, EIO},
      "message " + std::to_string(number) +
          " is lost: the peer's device has acknowledged it, and failed before it told the peer of it");
}

Status SendConnection::reconcileReceive(uint64_t number, bool arrived) {
  Group& group = groups_.of(number);
  const bool grouped = group.holds(number);  // or the message took the fast path
  Message* const message = grouped ? nullptr : messageOf(number);
  if (arrived) {
    if (grouped) group.arrive();
    else if (message != nullptr) message->counter = &kAlways;
    return Status::success();
  }
  if (grouped) return group.repeat() ? Status::success() : failLost(number);
  if (message == nullptr) return failLost(number);
  group.repeatAlone(number, *message);
  return Status::success();
}

// All receives up to `number` are complete. In any phase that completes messages that are posted: their
// acknowledgements may never come. Between two epochs it frees their slots, too: nothing goes over the old
// queue pairs any more.
bool SendConnection::onNews(uint64_t number) {
  onArrived(number);
  if (link_.hasLeft()) completeArrived();
  else completeMessages(std::min<uint64_t>(arrivedUpTo(), nextPost() - 1));
  return false;
}

void SendConnection::completeMessages(uint64_t up_to) {
  for (Message& message : messages_) {
    if (message.kind == Request::Kind::kSend && message.number <= up_to) message.counter = &kAlways;
  }
}

// Completes the groups whose receives have arrived, after the queue pairs are torn down.
void SendConnection::completeArrived() {
  completeMessages(arrivedUpTo());
  for (Group& group : groups_) {
    if (group.number <= arrivedUpTo() && group.holds(group.number)) group.arrive();
  }
}

// Completes the messages that the receiver has. Its words: all receives up to the first number are complete,
// and of the following ones those whose bit is set in the second one. The other messages will be sent again,
// in order, when the receiver has written their clear-to-sends once more.
Status SendConnection::reconcile(const Words& words) {
  onArrived(words.first);
  const uint64_t arrived = arrivedUpTo();
  if (words.first != arrived || numbers().next - arrived > kSlots + 1U)
    return link_.fail({Code::kRemote, 0}, "the peer says that receive " + std::to_string(words.first) +
                                              " is its latest, where receive " +
                                              std::to_string(numbers().next) + " is the next to be sent to");
  completeArrived();
  for (uint64_t number = numbers().next - 1; number > arrived; --number) {
    const uint64_t bit = number - arrived - 1;
    RAILWISE_TRY(reconcileReceive(number, bit < kSlots && (words.second >> bit & 1) != 0));
  }
  // The group that is being matched goes on, without the work requests that were prepared for the old queue
  // pairs.
  Group& open = groups_.of(numbers().next);
  if (open.number == numbers().next) open.form = SendPath::kSegments;
  nextPost() = arrived + 1;
  ring_.lookFrom(arrived + 1);
  return Status::success();
}

Status SendConnection::onBegun() {
  for (uint64_t number = nextPost(); number < numbers().next; ++number) {
    const auto slot = static_cast<uint32_t>(number % kSlots);
    Group& group = groups_.at(slot);
    if (group.number == number && group.state == SlotState::kRepeat) plan(group, slot);
  }
  setFastPath(nextPost() == numbers().next);
  fast_path_closed_ = link_.degraded();
  needs_slow_test_ = true;
  return Status::success();
}

// The local key of a message's memory through the rail of a queue pair. Memory that is not yet registered
// with a standby rail is registered now.
Result<uint32_t> SendConnection::localKey(const Message& message, const LaneQueuePair& queue_pair) {
  if (link_.endpoint.native) [[likely]]
    return message.memory->keys[queue_pair.rail].local();
  const Result<MemoryKeys> keys = keysOf(link_.device, link_.endpoint, *message.memory, queue_pair.rail);
  if (keys.ok()) return keys->local;
  RAILWISE_TRY(link_.lose(&queue_pair, keys.status(),
                          link_.endpoint.nameOf(queue_pair) +
                              ": memory cannot be registered: " + std::strerror(keys.status().sys_errno)));
  return keys.status();
}

// A connection that always has something to send never waits, so isend must look for better paths.
Status SendConnection::lookAround() {
  RAILWISE_TRY(link_.failure);
  if (!link_.running()) {
    wants_to_send_ = true;
    return link_.idle(Waiting::kPeer);
  }
  constexpr uint32_t kLookMask = 0x3f;
  return (++looks_ & kLookMask) != 0 && !link_.bell.raised() && !chooser_.triesPath()
             ? Status::success()
             : link_.step(Waiting::kAcknowledgement);
}

}  // namespace railwise::net
