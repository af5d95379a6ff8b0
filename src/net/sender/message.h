// The sends of a connection: what NCCL holds as its requests, and which of them the next isend takes. Plain
// values of one connection; one thread at a time.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "net/connection/request.h"
#include "net/device/memory.h"
#include "net/paths/lane.h"
#include "net/paths/link_user.h"

namespace railwise::net {

// One send.
struct alignas(64) Message : Request {
  uint64_t address = 0;
  const MemoryHandle* memory = nullptr;
  void* profiler = nullptr;  // NCCL's handle for events, or null; not set on the fast path

  // Becomes NCCL's request. What completes it is not known yet, or known to the caller.
  void begin(uint64_t receive, uint64_t from, uint32_t size, const MemoryHandle* its_memory) {
    address = from;
    memory = its_memory;
    kind = Kind::kSend;
    bytes = size;
    number = receive;
  }
  void completeAt(const uint64_t& its_counter, uint64_t at) {
    counter = &its_counter;
    due = at;
  }
  // Complete with the work requests that `queue_pair` has posted so far.
  void completeWith(const LaneQueuePair& queue_pair) {
    completeAt(queue_pair.full_at, queue_pair.fullAtWhenDone());
  }
  bool isOpen() const { return kind == Kind::kSend && !complete(); }
};
static_assert(sizeof(Message) == 64, "one cache line");

class SendMessages {
 public:
  static constexpr std::size_t kCount = kOutstandingSends;

  explicit SendMessages(Connection* owner) {
    for (Message& message : messages_) {
      message.connection = owner;
      message.count = 1;
    }
  }
  Message& operator[](std::size_t index) { return messages_[index]; }

  // A message to this receive that NCCL has not back; null: there is none.
  Message* find(uint64_t number) {
    const auto is = [&](const Message& it) { return it.kind == Request::Kind::kSend && it.number == number; };
    const auto found = std::find_if(messages_.begin(), messages_.end(), is);
    return found != messages_.end() ? &*found : nullptr;
  }
  bool anyOpen() const {
    return std::any_of(messages_.begin(), messages_.end(), [](const Message& it) { return it.isOpen(); });
  }
  // The oldest receive before `next` with an open message, and the bytes of its open messages. Messages from
  // `used` on have never been taken.
  UnderWay underWay(uint64_t next, std::size_t used) const {
    UnderWay found;
    for (std::size_t i = 0; i < used; ++i) {
      const Message& message = messages_[i];
      if (!message.isOpen() || message.number >= next) continue;
      if (found.oldest != 0 && message.number > found.oldest) continue;
      if (message.number != found.oldest) found = {message.number, 0};
      found.bytes += message.bytes;
    }
    return found;
  }
  uint64_t largestOpen() const {
    uint64_t largest = 0;
    for (const Message& message : messages_) {
      if (message.isOpen()) largest = std::max<uint64_t>(largest, message.bytes);
    }
    return largest;
  }

  // Nothing completes a message any more but complete(), or a queue pair that it is posted to again.
  void forgetCounters() {
    for (Message& message : messages_) message.counter = &kNever;
  }
  // The receiver says that all receives up to `number` are complete.
  void completeUpTo(uint64_t number) {
    for (Message& message : messages_) {
      if (message.kind == Request::Kind::kSend && message.number <= number) message.counter = &kAlways;
    }
  }

 private:
  std::array<Message, kCount> messages_;
};

// Which message the next isend takes. The messages [0..mask] are taken in turn; a message that is still in
// use is skipped. When all of these messages are in use, the mask grows: a small mask keeps the messages in
// the cache.
struct MessageTurn {
  uint32_t next = 0;
  uint32_t mask = 15;

  // The next message, which may still be in use.
  Message& peek(SendMessages& messages) const { return messages[next & mask]; }
  // Makes a free message the next one and returns it. Null: all are in use.
  Message* findFree(SendMessages& messages) {
    for (;; mask = 2 * mask + 1) {
      for (uint32_t tries = 0; tries <= mask; ++tries, ++next) {
        if (peek(messages).kind == Request::Kind::kFree) return &peek(messages);
      }
      if (mask + 1 == SendMessages::kCount) return nullptr;
    }
  }
};

}  // namespace railwise::net
