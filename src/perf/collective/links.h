// All connections of a rank. The receiver listens, its handle travels over the bootstrap network, and the
// sender connects. connect and accept are polled round robin until all connections are up, as NCCL's service
// thread does. Call listen(), connect() and close() on the service thread; describe() on any thread.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "perf/collective/link.h"
#include "perf/collective/task.h"
#include "perf/collective/traffic.h"
#include "perf/job/activity.h"
#include "perf/job/wire.h"

namespace railwise::cli {

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
