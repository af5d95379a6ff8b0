// One end of a NIC pair: a reliable queue pair, memory that the other end writes, and memory to write from.
// An endpoint that has failed keeps the reason and does nothing more. One thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "base/clock.h"
#include "base/socket.h"
#include "doctor/pair/measuring/open_end.h"
#include "doctor/pair/measuring/plan.h"
#include "doctor/pair/measuring/wire.h"
#include "verbs/cm/connection_manager.h"
#include "verbs/queue_pair.h"

namespace railwise::doctor::pair {

// The value that the probe leaves in the other end's signal word, and the one that ends the latency test.
inline constexpr uint64_t kProbeSignal = uint64_t{1} << 40;
inline constexpr uint64_t kStopSignal = uint64_t{1} << 41;

class Endpoint {
 public:
  // `bytes`: of the largest write. `window`: writes that may be outstanding. `listens`: on iWARP, this end is
  // called by the other one. Never null: see error().
  static std::unique_ptr<Endpoint> open(const OpenNic& nic, const Config& config, std::size_t gid,
                                        std::size_t bytes, uint32_t window, bool listens);

  QueueAddress address() const;
  // `gid`: the position in `nic.gids`.
  void connect(const NicFacts& nic, std::size_t gid, const QueueAddress& remote);

  // The first failure, "": none.
  const std::string& error() const { return error_; }
  void fail(std::string error);

  // False: it cannot be posted; error() says why.
  bool writeData(std::size_t bytes);
  bool writeSignal(uint64_t number);
  // How many writes have completed since the last call; negative: one has failed, error() says how.
  int poll();
  uint32_t outstanding() const { return outstanding_; }
  // What the other end's writeSignal() has left here.
  uint64_t signal() const;

  // The data are numbers that differ in every word and in every queue pair. Did the first `bytes` arrive as
  // the other end wrote them?
  void fillData();
  bool dataArrived(std::size_t bytes) const;
  std::size_t bytes() const { return bytes_; }

 private:
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  Endpoint(const OpenNic& nic, const Config& config, std::size_t bytes) noexcept
      : nic_(nic), config_(config), bytes_(bytes) {}
  bool make(std::size_t gid, uint32_t window, bool listens);
  bool findCmAddress(bool listens);
  void connectByCm();
  void callByCm();
  bool answerByCm();
  bool makeHostMemory();
  bool makeGpuMemory();
  bool makeQueuePair(uint32_t window);
  bool post(uint64_t from, const ibv_mr& region, std::size_t bytes, uint64_t to, uint32_t key);
  const ibv_mr& dataRegion() const { return gpu_region_ != nullptr ? *gpu_region_ : *region_; }
  uint64_t dataAddress() const {
    return gpu_ != nullptr ? gpu_->address() : reinterpret_cast<uint64_t>(memory_.get());
  }
  ibv_qp* queuePair() const { return connection_ != nullptr ? connection_->qp() : queue_.qp.get(); }
  std::byte* signals() const { return memory_.get() + 2 * bytes_; }

  const OpenNic& nic_;
  const Config& config_;
  const std::size_t bytes_;
  std::string error_;
  verbs::Gid gid_;
  // The data to send, the data that arrive, and a cache line for each direction of signals. The data may lie
  // in the memory of a GPU instead.
  std::unique_ptr<std::byte, Free> memory_;
  verbs::Mr region_;
  std::unique_ptr<GpuBlock> gpu_;
  verbs::Mr gpu_region_;
  verbs::Cq completions_;
  verbs::QueuePair queue_;  // before it belongs to connection_
  // On iWARP.
  SocketAddress cm_address_;
  std::optional<verbs::CmListener> cm_listener_;
  std::unique_ptr<verbs::CmConnection> connection_;
  QueueAddress remote_;
  uint32_t outstanding_ = 0;  // posted, not completed
};

// The measurements (measure.cc): how far writes get, bandwidth, latency. Each ends by itself, whatever the
// other end does. One thread.

// An endpoint, and where its results go. Endpoints with an error are left out.
struct Lane {
  Endpoint* endpoint;
  Half* half;
};

// A write that is not acknowledged for so long is lost. The queue pair mostly says so earlier.
inline constexpr Clock::duration kProbeLimit = std::chrono::seconds(2);
// Bandwidth and latency: a rail on which nothing completes for so long has stopped.
inline constexpr Clock::duration kStallLimit = std::chrono::seconds(2);
inline constexpr uint32_t kWindow = 16;                            // writes outstanding on a lane
inline constexpr std::size_t kProbeBytes = std::size_t{64} << 10;  // more than any MTU

// Writes 8 bytes and then 64 KiB (or Endpoint::bytes(), if that is less) on all lanes at once.
void probe(std::span<const Lane> lanes);

// Writes of Endpoint::bytes() on all lanes at once for `time`, 16 outstanding on each. The result goes to
// half->*rate, GB/s, if it is more than what is there.
void measureBandwidth(std::span<const Lane> lanes, Clock::duration time, double Half::*rate);

// Ping-pong with 8 bytes for `time`. One end leads, the other follows.
void leadLatency(const Lane& lane, Clock::duration time);
void followLatency(const Lane& lane);

}  // namespace railwise::doctor::pair
