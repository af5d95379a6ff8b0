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
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "cli/plugin/net_api.h"
#include "perf/collective/traffic.h"
#include "perf/job/activity.h"
#include "perf/job/wire.h"
#include "perf/measuring/page_memory.h"

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

 protected:
  // Allocates the slots. registerMemory() registers them with the plugin.
  Link(NetContext& net, int peer, std::size_t slot_bytes, void* comm);
  ~Link() = default;
  Status registerMemory();
  Status deregisterMemory();
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
  Status open() { return registerMemory(); }
  Status close();

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
  Status open() { return registerMemory(); }
  Status close();

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

// All connections of a rank. The receiver listens, its handle travels over the bootstrap network, and the
// sender connects. connect and accept are polled round robin until all connections are up, as NCCL's service
// thread does. Call listen(), connect() and close() on the service thread; describe() on any thread.

class Links final : public Traffic {
 public:
  Links(NetApi& api, const RankContext& context, Activity& activity, const LinkPlan& plan, int ranks);

  Status listen() override;
  // A block has a handle for each channel. It is empty if that rank sends nothing to this rank.
  std::vector<Bytes> handles() const override;
  Status connect(const std::vector<Bytes>& handles) override;
  // Data pass through the slots of the links.
  Status addBuffers(std::span<std::byte>, std::span<std::byte>) override { return Status::success(); }
  // Calls deregMr, closeSend and closeRecv for every link.
  Status close() override;

  std::unique_ptr<Task> makeTask(const TaskPlan& plan, int channel, bool waits) override;
  std::string describe() const override;

 private:
  SendLink* to(int peer, int channel) {
    return peer < 0 ? nullptr : find(senders_, send_index_, peer, channel).link.get();
  }
  RecvLink* from(int peer, int channel) {
    return peer < 0 ? nullptr : find(receivers_, receive_index_, peer, channel).link.get();
  }
  using Handle = std::array<std::byte, NCCL_NET_HANDLE_MAXSIZE>;
  template <typename LinkType>
  struct Endpoint {
    int peer = 0;
    int channel = 0;
    // Must stay until the connection is up, because plugins keep state in a sender's handle.
    Handle handle = {};
    void* listen_comm = nullptr;
    std::unique_ptr<LinkType> link;
    std::atomic<bool> up = false;
  };
  template <typename LinkType>
  using Endpoints = std::vector<std::unique_ptr<Endpoint<LinkType>>>;

  template <typename List>
  static typename List::value_type::element_type& find(const List& list, const std::vector<int>& index,
                                                       int peer, int channel) {
    const int first = index[static_cast<std::size_t>(peer)];
    return *list[static_cast<std::size_t>(first) + static_cast<std::size_t>(channel)];
  }
  template <typename LinkType>
  void addEndpoints(Endpoints<LinkType>& list, std::vector<int>& index, const std::vector<int>& peers);
  Status tryConnect(Endpoint<SendLink>& end);
  Status tryAccept(Endpoint<RecvLink>& end);

  NetContext net_;
  Activity& activity_;
  const LinkPlan plan_;
  std::vector<const TransferTask*> last_tasks_;  // by channel
  Endpoints<SendLink> senders_;
  Endpoints<RecvLink> receivers_;
  std::vector<int> send_index_;  // by rank: index of its first channel; -1: none
  std::vector<int> receive_index_;
};

}  // namespace railwise::cli
