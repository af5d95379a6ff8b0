// One-sided traffic of a rank. Each channel is a group of all ranks on a device, as NCCL has one for each of
// its connections: it has the buffers of all ranks as windows, and a signal for each rank that puts.
#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cli/options/message.h"
#include "cli/plugin/plugin_loader.h"
#include "cli/plugin/rma_api.h"
#include "perf/collective/task.h"
#include "perf/collective/traffic.h"
#include "perf/measuring/measuring.h"

namespace railwise::cli {
namespace {

// What a channel does with another rank. Any thread reads it.
struct WindowPeer {
  std::atomic<uint64_t> posted = 0;
  std::atomic<uint64_t> done = 0;
  std::atomic<uint64_t> expected = 0;  // the value that this rank's signal of the peer will have
};

struct WindowChannel {
  explicit WindowChannel(RmaApi& api) : member(api) {}

  // The signal that `rank` adds to here.
  uint64_t signal(int rank) const {
    return std::atomic_ref(reinterpret_cast<uint64_t*>(signals.get())[rank]).load(std::memory_order_acquire);
  }

  RmaMember member;
  alignas(8) std::array<std::byte, NCCL_NET_HANDLE_MAXSIZE> handle = {};
  PageMemory signals;
  void* send_window = nullptr;
  void* receive_window = nullptr;
  void* signal_window = nullptr;
  uint64_t most_under_way = 0;  // operations with each peer
  std::vector<WindowPeer> peers;
};

class Windows final : public Traffic {
 public:
  Windows(RmaApi& api, const RankContext& context, const LinkPlan& plan, Collective collective, int ranks);

  Status listen() override;
  std::vector<Bytes> handles() const override;
  // Blocks until all ranks call it.
  Status connect(const std::vector<Bytes>& handles) override;
  Status addBuffers(std::span<std::byte> send, std::span<std::byte> receive) override;
  Status close() override;

  std::unique_ptr<Task> makeTask(const TaskPlan& plan, int channel, bool waits) override;
  Status progress() override;
  void checkSignals(Wrong& wrong) override;
  std::string describe() const override;

 private:
  std::size_t signalBytes() const;
  Status failed(const WindowChannel& channel);

  RmaApi& api_;
  const RankContext context_;
  const LinkPlan plan_;
  const CollectiveTraits& traits_;
  const int ranks_;
  std::span<std::byte> send_;
  std::span<std::byte> receive_;
  std::deque<WindowChannel> channels_;
};

// NCCL cuts the data of its collectives without a CTA into puts of so many bytes.
constexpr std::size_t kMostOfOnePut = std::size_t{64} << 20;

// So many operations move `bytes` bytes. Without data, one operation may carry its signal alone.
uint64_t operationsFor(std::size_t bytes, bool empty_message) {
  return bytes == 0 ? (empty_message ? 1 : 0) : (bytes + kMostOfOnePut - 1) / kMostOfOnePut;
}

struct WindowTransfer {
  RmaKind kind = RmaKind::kPut;
  int peer = 0;
  RmaPlace mine;
  RmaPlace theirs;
  RmaPlace signal;  // at the peer
  std::size_t bytes = 0;
  uint64_t operations = 0;
};

// Puts to a rank, or reads from it, and waits until the operations are done, the oldest first.
class OperationTask final : public Task {
 public:
  OperationTask(const RankContext& context, WindowChannel& channel, const WindowTransfer& transfer)
      : context_(context),
        channel_(channel),
        transfer_(transfer),
        peer_(channel.peers[static_cast<std::size_t>(transfer.peer)]) {}

  void start() override {
    posted_ = done_ = 0;
    requests_.clear();
  }
  bool done() const override { return done_ == transfer_.operations; }

  Result<bool> advance() override {
    if (context_.gate.closed()) return Status{Code::kRemote};
    bool moved = false;
    while (posted_ < transfer_.operations && peer_.posted - peer_.done < channel_.most_under_way) {
      RAILWISE_TRY(post());
      moved = true;
    }
    while (!requests_.empty() && channel_.member.test(requests_.front())) {
      takeDone();
      moved = true;
    }
    if (channel_.member.failed()) return failed();
    return moved;
  }

 private:
  std::size_t bytesOf(uint64_t operation) const {
    return std::min(kMostOfOnePut, transfer_.bytes - operation * kMostOfOnePut);
  }

  Status post() {
    const uint64_t at = posted_ * kMostOfOnePut;
    RmaPlace mine = transfer_.mine;
    RmaPlace theirs = transfer_.theirs;
    mine.offset += at;
    theirs.offset += at;
    // NCCL gives no windows to a signal alone.
    if (transfer_.bytes == 0) mine = theirs = {};
    void* const request = channel_.member.post(transfer_.kind, mine, bytesOf(posted_), theirs,
                                               static_cast<uint32_t>(transfer_.peer), {transfer_.signal, 1});
    if (request == nullptr) return failed();
    requests_.push_back(request);
    ++posted_;
    ++peer_.posted;
    return Status::success();
  }

  void takeDone() {
    requests_.pop_front();
    // What has a signal is counted by the rank that waits for the signal.
    if (transfer_.kind != RmaKind::kPutSignal)
      context_.received.fetch_add(bytesOf(done_), std::memory_order_relaxed);
    ++done_;
    ++peer_.done;
  }

  Status failed() {
    context_.failure.set(
        channel_.member.error() + textOf(" (%s rank %d)",
                                         transfer_.kind == RmaKind::kGet ? "reads from" : "puts to",
                                         transfer_.peer),
        channel_.member.result());
    return {Code::kRemote};
  }

  const RankContext context_;
  WindowChannel& channel_;
  const WindowTransfer transfer_;
  WindowPeer& peer_;
  uint64_t posted_ = 0;  // in this run
  uint64_t done_ = 0;
  std::deque<void*> requests_;
};

// Waits for the signals of a rank that puts.
class SignalTask final : public Task {
 public:
  SignalTask(const RankContext& context, WindowChannel& channel, int peer, std::size_t bytes,
             uint64_t operations)
      : context_(context), channel_(channel), peer_(peer), bytes_(bytes), operations_(operations) {}

  void start() override {
    WindowPeer& peer = channel_.peers[static_cast<std::size_t>(peer_)];
    expected_ = peer.expected += operations_;
    done_ = operations_ == 0;
  }
  bool done() const override { return done_; }

  Result<bool> advance() override {
    if (context_.gate.closed()) return Status{Code::kRemote};
    const uint64_t value = channel_.signal(peer_);
    const bool moved = value != seen_;
    seen_ = value;
    if (value < expected_) return moved;
    context_.received.fetch_add(bytes_, std::memory_order_relaxed);
    done_ = true;
    return true;
  }

 private:
  const RankContext context_;
  WindowChannel& channel_;
  const int peer_;
  const std::size_t bytes_;
  const uint64_t operations_;
  uint64_t expected_ = 0;
  uint64_t seen_ = 0;
  bool done_ = false;
};

uint64_t signalOffset(int rank) { return static_cast<uint64_t>(rank) * sizeof(uint64_t); }

Windows::Windows(RmaApi& api, const RankContext& context, const LinkPlan& plan, Collective collective,
                 int ranks)
    : api_(api), context_(context), plan_(plan), traits_(traitsOf(collective)), ranks_(ranks) {
  for (int channel = 0; channel < plan_.channels; ++channel) {
    channels_.emplace_back(api);
    channels_.back().peers = std::vector<WindowPeer>(static_cast<std::size_t>(ranks));
  }
}

Status Windows::failed(const WindowChannel& channel) {
  context_.failure.set(channel.member.error(), channel.member.result());
  return {Code::kRemote};
}

std::size_t Windows::signalBytes() const { return roundUp(signalOffset(ranks_), kPage); }

Status Windows::listen() {
  for (int i = 0; i < plan_.channels; ++i) {
    WindowChannel& channel = channels_[static_cast<std::size_t>(i)];
    channel.signals = allocatePages(signalBytes());
    if (channel.signals == nullptr) {
      context_.failure.set(textOf("no memory for %zu bytes of signals", signalBytes()));
      return {Code::kRemote};
    }
    NetProperties properties;
    const int device = plan_.deviceOf(i);
    if (const ncclResult_t result = api_.getProperties(device, &properties); result != ncclSuccess)
      return context_.failed(textOf("getProperties(%d)", device), result);
    channel.most_under_way = static_cast<uint64_t>(std::max(properties.max_recvs, 1)) * NCCL_NET_MAX_REQUESTS;
    if (!channel.member.listen(device, channel.handle.data())) return failed(channel);
  }
  return Status::success();
}

std::vector<Bytes> Windows::handles() const {
  Bytes all;
  for (const WindowChannel& channel : channels_)
    all.insert(all.end(), channel.handle.begin(), channel.handle.end());
  return std::vector<Bytes>(static_cast<std::size_t>(ranks_), all);
}

Status Windows::connect(const std::vector<Bytes>& handles) {
  for (const Bytes& block : handles) {
    if (block.size() == channels_.size() * NCCL_NET_HANDLE_MAXSIZE) continue;
    context_.failure.set(textOf("a rank sent %zu bytes of handles", block.size()));
    return {Code::kRemote};
  }
  for (std::size_t i = 0; i < channels_.size(); ++i) {
    std::vector<decltype(WindowChannel::handle)> of_ranks(handles.size());
    std::vector<void*> pointers;
    for (std::size_t rank = 0; rank < handles.size(); ++rank) {
      std::memcpy(of_ranks[rank].data(), handles[rank].data() + i * NCCL_NET_HANDLE_MAXSIZE,
                  NCCL_NET_HANDLE_MAXSIZE);
      pointers.push_back(of_ranks[rank].data());
    }
    if (!channels_[i].member.join(pointers, context_.rank)) return failed(channels_[i]);
  }
  return Status::success();
}

Status Windows::addBuffers(std::span<std::byte> send, std::span<std::byte> receive) {
  send_ = send;
  receive_ = receive;
  for (WindowChannel& channel : channels_) {
    channel.send_window = channel.member.add(send.data(), send.size(), 0);
    channel.receive_window = channel.member.add(receive.data(), receive.size(), 0);
    channel.signal_window = channel.member.add(channel.signals.get(), signalBytes(), kRmaSignalFlags);
    if (channel.member.failed()) return failed(channel);
  }
  return Status::success();
}

Status Windows::close() {
  for (WindowChannel& channel : channels_) {
    if (!channel.member.close()) return failed(channel);
  }
  return Status::success();
}

std::unique_ptr<Task> Windows::makeTask(const TaskPlan& plan, int number, bool /*waits*/) {
  const Transfer& transfer = plan.transfer;
  if (transfer.to < 0 && transfer.from < 0) return std::make_unique<TransferTask>(plan, nullptr, nullptr);
  WindowChannel& channel = channels_[static_cast<std::size_t>(number)];
  const std::size_t element = elementBytes(plan.type);
  const std::size_t block = plan.block * element;
  const std::size_t first = plan.part.first * element;
  const std::size_t bytes = plan.part.count * element;
  const uint64_t operations = operationsFor(bytes, plan.empty_message);
  const int peer = std::max(transfer.to, transfer.from);
  const bool gets = traits_.manner == Manner::kGets;
  if (gets ? transfer.from < 0 : transfer.to < 0) {
    // The peer's half of the transfer moves the data.
    if (traits_.manner != Manner::kSignalledPuts) return nullptr;
    return std::make_unique<SignalTask>(context_, channel, peer, bytes, operations);
  }
  const auto offset_of = [&](int its, int first_block) {
    return static_cast<std::size_t>(its - first_block) * block + first;
  };
  const int from_block = transfer.steps.front().block;
  WindowTransfer its;
  its.peer = peer;
  its.bytes = bytes;
  its.operations = operations;
  its.signal = {channel.signal_window, signalOffset(context_.rank)};
  if (gets) {
    its.kind = RmaKind::kGet;
    its.mine = {channel.receive_window, offset_of(from_block, plan.output.first_block)};
    its.theirs = {channel.send_window, first};
  } else {
    its.kind = traits_.manner == Manner::kPuts ? RmaKind::kPut : RmaKind::kPutSignal;
    const bool in_place =
        plan.input.data >= receive_.data() && plan.input.data < receive_.data() + receive_.size();
    const auto begin = static_cast<uint64_t>(plan.input.data - (in_place ? receive_ : send_).data());
    its.mine = {in_place ? channel.receive_window : channel.send_window,
                begin + offset_of(from_block, plan.input.first_block)};
    // Where all ranks have a block, this rank's is the one that it puts.
    its.theirs = {channel.receive_window,
                  offset_of(traits_.output == Blocks::kOfRanks ? context_.rank : 0, 0)};
  }
  return std::make_unique<OperationTask>(context_, channel, its);
}

Status Windows::progress() {
  if (context_.gate.closed()) return {Code::kRemote};
  for (WindowChannel& channel : channels_) {
    if (!channel.member.progress()) return failed(channel);
  }
  return Status::success();
}

void Windows::checkSignals(Wrong& wrong) {
  for (std::size_t i = 0; i < channels_.size(); ++i) {
    for (int rank = 0; rank < ranks_; ++rank) {
      WindowPeer& peer = channels_[i].peers[static_cast<std::size_t>(rank)];
      const uint64_t found = channels_[i].signal(rank);
      const uint64_t expected = peer.expected.exchange(found);
      if (found == expected || wrong.count++ > 0) continue;
      wrong.index = signalOffset(rank);
      wrong.expected = std::to_string(expected);
      wrong.got =
          textOf("%llu (rank %d adds to it, channel %zu)", static_cast<unsigned long long>(found), rank, i);
    }
  }
}

std::string Windows::describe() const {
  WaitedFor waited_for;
  for (int rank = 0; rank < ranks_; ++rank) {
    uint64_t operations = 0;
    uint64_t signals = 0;
    for (const WindowChannel& channel : channels_) {
      const WindowPeer& peer = channel.peers[static_cast<std::size_t>(rank)];
      operations += peer.posted - peer.done;
      const uint64_t found = channel.signal(rank);
      if (peer.expected > found) signals += peer.expected - found;
    }
    const auto number = [](uint64_t value) { return static_cast<unsigned long long>(value); };
    if (operations > 0)
      waited_for.add(textOf("%llu put(s) or get(s) with rank %d", number(operations), rank));
    if (signals > 0) waited_for.add(textOf("%llu signal(s) of rank %d", number(signals), rank));
  }
  return waited_for.text();
}

class RmaTableInUse final : public LoadedTable<RmaApi> {
 public:
  RmaTableInUse(LoadedRma loaded, Collective collective)
      : LoadedTable(std::move(loaded)), collective_(collective) {}
  Outcome<int> start(uint64_t comm_id) override {
    auto devices = startRma(api(), comm_id);
    if (devices.ok() && traitsOf(collective_).manner == Manner::kGets && !api().canGet())
      return Error{textOf("plugin %s: ncclRmaPlugin_v%d has no iget, which perf %s needs", api().name(),
                          api().version(), collectiveName(collective_))};
    return devices;
  }
  std::unique_ptr<Traffic> makeTraffic(const RankContext& context, Activity& /*activity*/,
                                       const LinkPlan& plan, int ranks) override {
    return std::make_unique<Windows>(api(), context, plan, collective_, ranks);
  }

 private:
  const Collective collective_;
};

}  // namespace

Outcome<std::unique_ptr<PluginTable>> openRmaTable(const PluginOptions& options, Collective collective) {
  auto loaded = loadRma(options);
  if (!loaded.ok()) return loaded.failure();
  return std::unique_ptr<PluginTable>(std::make_unique<RmaTableInUse>(std::move(*loaded), collective));
}

}  // namespace railwise::cli
