// All connections of a rank. The receiver listens, its handle travels over the bootstrap network, and the
// sender connects. connect and accept are polled round robin until all connections are up, as NCCL's service
// thread does. Call listen(), connect() and close() on the service thread; describe() on any thread.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "perf/collective/link.h"
#include "perf/job/activity.h"
#include "perf/job/wire.h"

namespace railwise::cli {

struct LinkPlan {
  std::vector<int> send_to;
  std::vector<int> receive_from;
  int channels = 1;
  std::size_t slot_bytes = 4096;
  std::vector<int> devices = {0};
  int first_device = 0;  // channel c uses devices[(first_device + c) % devices.size()]
};

class Links {
 public:
  Links(NetContext& net, Activity& activity, const LinkPlan& plan, int ranks);

  Status listen();
  // Block p has this rank's handles for rank p, one per channel. It is empty if rank p sends nothing to this
  // rank.
  std::vector<Bytes> handles() const;
  // Block p of `handles` has rank p's handles for this rank.
  Status connect(const std::vector<Bytes>& handles);
  // Calls deregMr, closeSend and closeRecv for every link.
  Status close();

  SendLink& to(int peer, int channel) { return *find(senders_, send_index_, peer, channel).link; }
  RecvLink& from(int peer, int channel) { return *find(receivers_, receive_index_, peer, channel).link; }
  // Says what the links wait for, e.g. "2 receives from rank 1".
  std::string describe() const;

 private:
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
  int deviceOf(int channel) const {
    return plan_.devices[static_cast<std::size_t>(plan_.first_device + channel) % plan_.devices.size()];
  }
  Status tryConnect(Endpoint<SendLink>& end);
  Status tryAccept(Endpoint<RecvLink>& end);

  NetContext& net_;
  Activity& activity_;
  const LinkPlan plan_;
  Endpoints<SendLink> senders_;
  Endpoints<RecvLink> receivers_;
  std::vector<int> send_index_;  // by rank: index of its first channel; -1: none
  std::vector<int> receive_index_;
};

}  // namespace railwise::cli
