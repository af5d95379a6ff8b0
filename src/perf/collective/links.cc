#include "perf/collective/links.h"

#include <cstring>

#include "cli/options/message.h"

namespace railwise::cli {

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

}  // namespace railwise::cli
