// One-sided traffic of a rank. Each channel is a group of all ranks on a device, as NCCL has one for each of
// its connections: it has the buffers of all ranks as windows, and a signal for each rank that puts.
#pragma once

#include <array>
#include <atomic>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cli/plugin/rma_member.h"
#include "perf/collective/traffic.h"
#include "perf/measuring/page_memory.h"

namespace railwise::cli {

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
  // `plugin`: what init of the table has made.
  Windows(RmaApi& api, void* plugin, const RankContext& context, const LinkPlan& plan, Collective collective,
          int ranks);

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
  void* const plugin_;
  const RankContext context_;
  const LinkPlan plan_;
  const CollectiveTraits& traits_;
  const int ranks_;
  std::span<std::byte> send_;
  std::span<std::byte> receive_;
  std::deque<WindowChannel> channels_;
};

}  // namespace railwise::cli
