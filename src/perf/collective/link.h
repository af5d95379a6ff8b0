// One direction of one connection, with NCCL's eight slots of registered staging memory. It does what the
// GPU's kernel and the proxy thread do in NCCL. The slots of a SendLink are filled in order and sent with
// isend. A RecvLink posts irecvs ahead and returns the arrived messages in order. Counters only grow; slot =
// counter % kSlots.
//
// The service thread creates and closes a link. The progress thread polls and fills it. Any thread may call
// outstanding().
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/status.h"
#include "cli/plugin/net_api.h"
#include "perf/collective/traffic.h"
#include "perf/measuring/measuring.h"

namespace railwise::cli {

inline constexpr std::size_t kSlots = 8;  // NCCL_STEPS

// What all links of a rank share.
struct NetContext : RankContext {
  NetApi& api;
};

class Link {
 public:
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  int peer() const { return peer_; }
  std::size_t slotBytes() const { return slot_bytes_; }
  // Registers the slots with the plugin.
  Status open();

 protected:
  // Allocates the slots.
  Link(NetContext& net, int peer, std::size_t slot_bytes, void* comm);
  ~Link() = default;
  // Deregisters the slots, and ends the connection by `end`. `call`: its name, for messages.
  Status closeBy(ncclResult_t (NetApi::*end)(void*), const char* call);
  std::byte* slot(uint64_t step) const { return memory_.get() + step % kSlots * slot_bytes_; }

  NetContext& net_;
  const int peer_;
  const std::size_t slot_bytes_;
  void* const comm_;
  const PageMemory memory_;
  void* mhandle_ = nullptr;
  // As in NCCL, a slot keeps its previous request until the next call.
  std::array<void*, kSlots> requests_ = {};
};

class SendLink final : public Link {
 public:
  SendLink(NetContext& net, int peer, std::size_t slot_bytes, void* comm)
      : Link(net, peer, slot_bytes, comm) {}
  Status close() { return closeBy(&NetApi::closeSend, "closeSend to"); }

  bool slotFree() const { return staged_ - done_ < kSlots; }
  std::byte* nextSlot() const { return slot(staged_); }
  // Marks the next slot as filled with `bytes` bytes to send. A message of 0 bytes is sent too.
  void stage(std::size_t bytes) { sizes_[staged_++ % kSlots] = bytes; }
  bool idle() const { return done_ == staged_; }
  // Calls isend and test. True: a message was posted or completed. kRemote: the gate is closed.
  Result<bool> poll();
  // The number of requests that are not complete. Any thread may call it.
  uint64_t outstanding() const { return posted_ - done_; }

 private:
  std::array<std::size_t, kSlots> sizes_ = {};
  uint64_t staged_ = 0;
  std::atomic<uint64_t> posted_ = 0;  // atomic because of outstanding()
  std::atomic<uint64_t> done_ = 0;
};

class RecvLink final : public Link {
 public:
  RecvLink(NetContext& net, int peer, std::size_t slot_bytes, void* comm)
      : Link(net, peer, slot_bytes, comm) {}
  Status close() { return closeBy(&NetApi::closeRecv, "closeRecv from"); }

  // Announces `messages` more messages, so that irecvs may be posted for them.
  void expect(uint64_t messages) { expected_ += messages; }
  bool arrived() const { return consumed_ < arrived_; }
  std::span<const std::byte> message() const { return {slot(consumed_), sizes_[consumed_ % kSlots]}; }
  void consume() { ++consumed_; }
  // Calls irecv and test. True: a receive was posted or completed. kRemote: the gate is closed.
  Result<bool> poll();
  uint64_t outstanding() const { return posted_ - arrived_; }
  // Notes a failure such as "a message of 8 bytes from rank 1 instead of 16".
  Status wrongSize(std::size_t expected);

 private:
  std::array<std::size_t, kSlots> sizes_ = {};
  uint64_t expected_ = 0;
  uint64_t consumed_ = 0;
  std::atomic<uint64_t> posted_ = 0;
  std::atomic<uint64_t> arrived_ = 0;
};

}  // namespace railwise::cli
