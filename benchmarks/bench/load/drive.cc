#include "benchmarks/bench/load/drive.h"

#include <algorithm>

#include "cli/options/message.h"

namespace railwise::cli {
namespace {

class Drive {
 public:
  Drive(BenchConnections& connections, const BenchShape& shape, uint64_t messages)
      : senders_(connections.senders),
        receivers_(connections.receivers),
        connections_(connections),
        shape_(shape),
        count_(std::max(senders_.size(), receivers_.size())),
        messages_(messages) {}

  Outcome<void> move() {
    const bool moved = shape_.pattern == BenchPattern::kBatch  ? batch()
                       : shape_.pattern == BenchPattern::kLone ? lone()
                       : shape_.pattern == BenchPattern::kIdle ? idle()
                                                               : operations();
    const std::string& why = error_.empty() ? connections_.error() : error_;
    if (!moved) return Error{why.empty() ? "a call failed, and nobody said why" : why};
    return {};
  }

 private:
  // Call it in each round. False: an end has failed, or nothing has moved for too long.
  bool goesOn(bool moved) {
    if (moved) [[likely]] {
      (void)patience_.lost(true);
      return true;
    }
    if (!connections_.error().empty()) return false;
    if (!patience_.lost(false)) return true;
    error_ = "nothing moves any more";
    return false;
  }

  void begin(std::size_t i, uint64_t messages) {
    if (!receivers_.empty()) receivers_[i].begin(messages);
    if (!senders_.empty()) senders_[i].begin(messages);
  }
  bool pass(std::size_t i) {
    const bool received = !receivers_.empty() && receivers_[i].pass();
    const bool sent = !senders_.empty() && senders_[i].pass();
    return received || sent;
  }
  bool operationDone(std::size_t i) const {
    return (receivers_.empty() || receivers_[i].operationDone()) &&
           (senders_.empty() || senders_[i].operationDone());
  }

  // Each connection either runs its own operations, or waits for all other connections before its next
  // operation (alltoall).
  bool operations() {
    const auto group = static_cast<uint64_t>(shape_.grouped);
    const bool together = shape_.pattern == BenchPattern::kAlltoall;
    const uint64_t length = together ? group
                            : shape_.pattern == BenchPattern::kOps
                                ? group * static_cast<uint64_t>(shape_.steps)
                                : messages_;
    std::vector<uint64_t> left(count_, messages_ - length);
    for (std::size_t i = 0; i < count_; ++i) begin(i, length);
    for (std::size_t working = count_; working > 0;) {
      bool moved = false;
      for (std::size_t i = 0; i < count_; ++i) {
        if (operationDone(i)) continue;
        moved |= pass(i);
        if (!operationDone(i)) continue;
        moved = true;
        if (together || left[i] == 0) {
          --working;
          continue;
        }
        left[i] -= length;
        begin(i, length);
      }
      if (together && working == 0 && left[0] > 0) {
        working = count_;
        left[0] -= length;
        for (std::size_t i = 0; i < count_; ++i) begin(i, length);
      }
      if (!goesOn(moved)) return false;
    }
    return true;
  }

  bool lone() {
    const auto group = static_cast<uint64_t>(shape_.grouped);
    for (uint64_t moved = 0; moved < messages_; moved += group) {
      for (std::size_t i = 0; i < count_; ++i) {
        begin(i, group);
        while (!operationDone(i)) {
          if (!goesOn(pass(i))) return false;
        }
      }
    }
    return true;
  }

  bool batch() {
    const uint64_t end = (receivers_.empty() ? senders_[0].done() : receivers_[0].done()) + messages_;
    for (bool over = false; !over;) {
      bool moved = false;
      over = true;
      for (std::size_t i = 0; i < count_; ++i) {
        if (!receivers_.empty()) moved |= receivers_[i].postAll(end);
        if (!senders_.empty()) moved |= senders_[i].postAll(end);
        if (!receivers_.empty()) moved |= receivers_[i].testAll();
        if (!senders_.empty()) moved |= senders_[i].testAll();
        over = over && (receivers_.empty() || receivers_[i].done() == end) &&
               (senders_.empty() || senders_[i].done() == end);
      }
      if (!goesOn(moved)) return false;
    }
    return true;
  }

  // Every other connection has an open receive; the connections between them have none.
  bool idle() {
    for (std::size_t i = 0; i < count_; i += 2) {
      if (receivers_[i].posted() > receivers_[i].done() || receivers_[i].post()) continue;
      if (connections_.error().empty()) error_ = "irecv made no request before anything was sent";
      return false;
    }
    for (uint64_t round = 0; round < messages_; ++round) {
      for (std::size_t i = 0; i + 1 < count_; i += 2) {
        for (int each = 0; each < 2; ++each) {
          if (!receivers_[i].test() && !senders_[i + 1].post()) continue;
          error_ = "a call that should find nothing found something";
          return false;
        }
      }
    }
    return connections_.error().empty();
  }

  std::deque<BenchSender>& senders_;
  std::deque<BenchReceiver>& receivers_;
  BenchConnections& connections_;
  const BenchShape& shape_;
  const std::size_t count_;
  const uint64_t messages_;
  Patience patience_;
  std::string error_;
};

}  // namespace

void BenchConnections::verify(bool on) {
  for (BenchSender& sender : senders) sender.verify(on);
  for (BenchReceiver& receiver : receivers) receiver.verify(on);
}

std::string BenchConnections::error() const {
  for (const BenchSender& sender : senders) {
    if (!sender.error().empty()) return sender.error();
  }
  for (const BenchReceiver& receiver : receivers) {
    if (!receiver.error().empty()) return receiver.error();
  }
  return "";
}

Outcome<void> moveMessages(BenchConnections& connections, const BenchShape& shape, uint64_t messages) {
  return Drive(connections, shape, messages).move();
}

}  // namespace railwise::cli
