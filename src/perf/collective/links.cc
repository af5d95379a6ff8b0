// All connections of a rank. The receiver listens, its handle travels over the bootstrap network, and the
// sender connects. connect and accept are polled round robin until all connections are up, as NCCL's service
// thread does. Call listen(), connect() and close() on the service thread; describe() on any thread.
#include <array>
#include <atomic>
#include <cstddef>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cli/options/message.h"
#include "cli/plugin/plugin_loader.h"
#include "perf/collective/link.h"
#include "perf/collective/task.h"
#include "perf/collective/traffic.h"
#include "perf/job/wire.h"
#include "perf/job/worker.h"

namespace railwise::cli {
namespace {

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

template <typename LinkType>
void Links::addEndpoints(Endpoints<LinkType>& list, std::vector<int>& index, const std::vector<int>& peers) {
  for (const int peer : peers) {
    index[static_cast<std::size_t>(peer)] = static_cast<int>(list.size());
    for (int channel = 0; channel < plan_.channels; ++channel) {
      list.push_back(std::make_unique<Endpoint<LinkType>>());
      list.back()->peer = peer;
      list.back()->channel = channel;
    }
  }
}

Links::Links(NetApi& api, const RankContext& context, Activity& activity, const LinkPlan& plan, int ranks)
    : net_{context, api},
      activity_(activity),
      plan_(plan),
      last_tasks_(static_cast<std::size_t>(plan.channels)),
      send_index_(static_cast<std::size_t>(ranks), -1),
      receive_index_(static_cast<std::size_t>(ranks), -1) {
  addEndpoints(senders_, send_index_, plan_.send_to);
  addEndpoints(receivers_, receive_index_, plan_.receive_from);
}

Status Links::listen() {
  for (const auto& end : receivers_) {
    const ncclResult_t result =
        net_.api.listen(plan_.deviceOf(end->channel), end->handle.data(), &end->listen_comm);
    if (result != ncclSuccess)
      return net_.failed(textOf("listen on device %d", plan_.deviceOf(end->channel)), result);
  }
  return Status::success();
}

std::vector<Bytes> Links::handles() const {
  std::vector<Bytes> blocks(receive_index_.size());
  for (const auto& end : receivers_) {
    Bytes& block = blocks[static_cast<std::size_t>(end->peer)];
    block.insert(block.end(), end->handle.begin(), end->handle.end());
  }
  return blocks;
}

Status Links::connect(const std::vector<Bytes>& handles) {
  for (const auto& end : senders_) {
    const Bytes& block = handles[static_cast<std::size_t>(end->peer)];
    if (block.size() != sizeof(Handle) * static_cast<std::size_t>(plan_.channels)) {
      net_.failure.set(textOf("rank %d sent %zu bytes of handles", end->peer, block.size()));
      return {Code::kRemote};
    }
    std::memcpy(end->handle.data(), block.data() + sizeof(Handle) * static_cast<std::size_t>(end->channel),
                sizeof(Handle));
  }
  IdleWait wait(true);  // peers may take long to start
  std::size_t missing = senders_.size() + receivers_.size();
  while (missing > 0) {
    if (net_.gate.closed()) return {Code::kRemote};
    const std::size_t before = missing;
    for (const auto& end : senders_) {
      if (end->up) continue;
      RAILWISE_TRY(tryConnect(*end));
      if (end->up) --missing;
    }
    for (const auto& end : receivers_) {
      if (end->up) continue;
      RAILWISE_TRY(tryAccept(*end));
      if (end->up) --missing;
    }
    if (missing == before) {
      wait.idle();
    } else {
      wait.moved();
    }
  }
  return Status::success();
}

Status Links::tryConnect(Endpoint<SendLink>& end) {
  void* comm = nullptr;
  const int device = plan_.deviceOf(end.channel);
  const ncclResult_t result = net_.api.connect(device, end.handle.data(), &comm);
  if (result != ncclSuccess)
    return net_.failed(textOf("connect to rank %d on device %d", end.peer, device), result);
  if (comm == nullptr) return Status::success();  // not connected yet
  end.link = std::make_unique<SendLink>(net_, end.peer, plan_.slot_bytes, comm);
  RAILWISE_TRY(end.link->open());
  end.up = true;
  activity_.tick();
  return Status::success();
}

Status Links::tryAccept(Endpoint<RecvLink>& end) {
  void* comm = nullptr;
  const ncclResult_t accepted = net_.api.accept(end.listen_comm, &comm);
  if (accepted != ncclSuccess) return net_.failed(textOf("accept from rank %d", end.peer), accepted);
  if (comm == nullptr) return Status::success();
  end.link = std::make_unique<RecvLink>(net_, end.peer, plan_.slot_bytes, comm);
  RAILWISE_TRY(end.link->open());
  const ncclResult_t closed = net_.api.closeListen(end.listen_comm);
  if (closed != ncclSuccess) return net_.failed("closeListen", closed);
  end.up = true;
  activity_.tick();
  return Status::success();
}

std::unique_ptr<Task> Links::makeTask(const TaskPlan& plan, int channel, bool waits) {
  const TransferTask*& last = last_tasks_[static_cast<std::size_t>(channel)];
  auto task = std::make_unique<TransferTask>(plan, to(plan.transfer.to, channel),
                                             from(plan.transfer.from, channel), waits ? last : nullptr);
  last = task.get();
  return task;
}

Status Links::close() {
  for (const auto& end : senders_) RAILWISE_TRY(end->link->close());
  for (const auto& end : receivers_) RAILWISE_TRY(end->link->close());
  return Status::success();
}

std::string Links::describe() const {
  WaitedFor waited_for;
  // The endpoints are sorted by peer, so all channels of a peer make one item of the text.
  const auto add_all = [&](const auto& list, const char* request, const char* connection,
                           const char* preposition) {
    const auto channels = static_cast<std::size_t>(plan_.channels);
    for (std::size_t first = 0; first < list.size(); first += channels) {
      uint64_t outstanding = 0;
      int down = 0;
      for (std::size_t i = first; i < first + channels; ++i) {
        if (!list[i]->up) {
          ++down;
        } else {
          outstanding += list[i]->link->outstanding();
        }
      }
      const int peer = list[first]->peer;
      if (down > 0) waited_for.add(textOf("%d %s %s rank %d", down, connection, preposition, peer));
      if (outstanding > 0)
        waited_for.add(textOf("%llu %s %s rank %d", static_cast<unsigned long long>(outstanding), request,
                              preposition, peer));
    }
  };
  add_all(receivers_, "receive(s)", "accept(s)", "from");
  add_all(senders_, "send(s)", "connect(s)", "to");
  return waited_for.text();
}

class NetTableInUse final : public LoadedTable<NetApi> {
 public:
  using LoadedTable::LoadedTable;
  Outcome<int> start(uint64_t comm_id) override { return startPlugin(api(), comm_id); }
  std::unique_ptr<Traffic> makeTraffic(const RankContext& context, Activity& activity, const LinkPlan& plan,
                                       int ranks) override {
    return std::make_unique<Links>(api(), context, activity, plan, ranks);
  }
};

}  // namespace

Outcome<std::unique_ptr<PluginTable>> openNetTable(const PluginOptions& options) {
  auto loaded = loadPlugin(options);
  if (!loaded.ok()) return loaded.failure();
  return std::unique_ptr<PluginTable>(std::make_unique<NetTableInUse>(std::move(*loaded)));
}

}  // namespace railwise::cli
