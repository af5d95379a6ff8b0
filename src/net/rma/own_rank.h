// What a rank asks of its own memory: puts to itself, and flushes. NCCL puts 8 bytes to itself to make
// visible to the GPU what all NICs have brought (rma_proxy_progress.cc, NCCL 2.30.7). So a put into the
// memory of a GPU first flushes each NIC that has brought something. One operation after the other. Threads:
// the group's lock.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "net/rma/loopback.h"
#include "net/rma/slots.h"
#include "net/rma/stream.h"
#include "net/rma/window.h"

namespace railwise::net {

class OwnRank {
 public:
  OwnRank(Loopback& loopback, SignalSlots& slots, const std::vector<std::unique_ptr<RmaWindow>>& windows)
      : loopback_(loopback), slots_(slots), windows_(windows) {}

  // kSelfPut, or kFlush of what `local` names.
  void add(RmaRequest& request) { open_.push_back(&request); }
  // Rails that have brought something, as bits of Loopback.
  void brought(uint32_t rails) { unflushed_ |= rails; }
  bool busy() const { return !open_.empty(); }
  void progress();
  // Is something open that reads or writes the window?
  bool uses(const RmaWindow& window) const {
    return std::ranges::any_of(open_, [&](const RmaRequest* request) { return uses(window, *request); });
  }
  bool uses(const RmaWindow& window, const RmaRequest& request) const {
    return request.local == &window || (request.bytes > 0 && request.remote_window == window.number) ||
           (request.number != 0 && request.signal_window == window.number);
  }
  // Drops what is open.
  template <typename Which>
  void drop(Which&& which) {
    if (!open_.empty() && which(*open_.front())) step_ = Step::kBegin;
    std::erase_if(open_, [&](RmaRequest* request) { return which(*request); });
  }

 private:
  enum class Step : uint8_t { kBegin, kFlush, kCopy };

  bool copy(RmaRequest& request);
  void finish(RmaRequest& request);

  Loopback& loopback_;
  SignalSlots& slots_;
  const std::vector<std::unique_ptr<RmaWindow>>& windows_;
  std::deque<RmaRequest*> open_;
  Loopback::Operation operation_;
  Step step_ = Step::kBegin;
  uint64_t copied_ = 0;
  uint32_t copied_over_ = 0;  // rails, as bits of Loopback
  uint32_t unflushed_ = 0;
  uint32_t flushing_ = 0;
};

}  // namespace railwise::net
