// The sends of a connection: what NCCL holds as its requests, and which of them the next isend takes. Plain
// values of one connection; one thread at a time.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <type_traits>

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

// As many messages as were ever open at once, rounded up to a power of two. Memory behind them is never
// touched: most connections need a sixteenth of what the contract with NCCL allows.
class SendMessages {
 public:
  static constexpr std::size_t kCount = kOutstandingSends;
  static constexpr uint32_t kAtFirst = 16;

  explicit SendMessages(Connection* owner) : owner_(owner) { makeUpTo(kAtFirst); }
  SendMessages(const SendMessages&) = delete;
  SendMessages& operator=(const SendMessages&) = delete;

  Message& operator[](std::size_t index) { return first()[index]; }
  // From now on there are so many.
  void makeUpTo(uint32_t count) {
    for (; count_ < count; ++count_) {
      Message* const made = std::construct_at(first() + count_);
      made->connection = owner_;
      made->count = 1;
    }
  }

  // A message to this receive that NCCL has not back; null: there is none.
  Message* find(uint64_t number) {
    const auto is = [&](const Message& it) { return it.kind == Request::Kind::kSend && it.number == number; };
    const auto found = std::ranges::find_if(all(), is);
    return found != all().end() ? &*found : nullptr;
  }
  bool anyOpen() const {
    return std::ranges::any_of(all(), [](const Message& it) { return it.isOpen(); });
  }
  // The oldest receive before `next` with an open message, and the bytes of its open messages.
  UnderWay underWay(uint64_t next) const {
    UnderWay found;
    for (const Message& message : all()) {
      if (!message.isOpen() || message.number >= next) continue;
      if (found.oldest != 0 && message.number > found.oldest) continue;
      if (message.number != found.oldest) found = {message.number, 0};
      found.bytes += message.bytes;
    }
    return found;
  }
  uint64_t largestOpen() const {
    uint64_t largest = 0;
    for (const Message& message : all()) {
      if (message.isOpen()) largest = std::max<uint64_t>(largest, message.bytes);
    }
    return largest;
  }

  // Nothing completes a message any more but complete(), or a queue pair that it is posted to again.
  void forgetCounters() {
    for (Message& message : all()) message.counter = &kNever;
  }
  // The receiver says that all receives up to `number` are complete.
  void completeUpTo(uint64_t number) {
    for (Message& message : all()) {
      if (message.kind == Request::Kind::kSend && message.number <= number) message.counter = &kAlways;
    }
  }

 private:
  Message* first() { return reinterpret_cast<Message*>(memory_.data()); }
  std::span<Message> all() { return {first(), count_}; }
  std::span<const Message> all() const { return const_cast<SendMessages*>(this)->all(); }

  Connection* const owner_;
  uint32_t count_ = 0;
  alignas(Message) std::array<std::byte, kCount * sizeof(Message)> memory_;  // not initialized
};
static_assert(std::is_trivially_destructible_v<Message>);

// Which message the next isend takes. The messages [0..mask] are taken in turn; a message that is still in
// use is skipped. When all of these messages are in use, the mask grows: a small mask keeps the messages in
// the cache.
struct MessageTurn {
  uint32_t next = 0;
  uint32_t mask = SendMessages::kAtFirst - 1;

  // The next message, which may still be in use.
  Message& peek(SendMessages& messages) const { return messages[next & mask]; }
  // Makes a free message the next one and returns it. Null: all are in use.
  Message* findFree(SendMessages& messages) {
    for (;; mask = 2 * mask + 1) {
      messages.makeUpTo(mask + 1);
      for (uint32_t tries = 0; tries <= mask; ++tries, ++next) {
        if (peek(messages).kind == Request::Kind::kFree) return &peek(messages);
      }
      if (mask + 1 == SendMessages::kCount) return nullptr;
    }
  }
};

}  // namespace railwise::net
