// The end of a connection that is put to: the one that was called. It tells the other end of its windows,
// takes reports, and applies signals in the order of their numbers, each once. docs/develop/rma-protocol.md
// has the protocol. One thread at a time, under the group's lock.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "net/paths/answerer.h"
#include "net/paths/link.h"
#include "net/rma/loopback.h"
#include "net/rma/report.h"
#include "net/rma/signal_order.h"
#include "net/rma/slots.h"
#include "net/rma/window.h"

namespace railwise::net {

class PutTarget final : public LinkMemory, protected LinkUser {
 public:
  // What a target needs of its rank.
  struct Owner {
    const std::vector<std::unique_ptr<RmaWindow>>& windows;  // by number
    Loopback& loopback;
    SignalSlots& slots;
  };

  static Result<std::unique_ptr<PutTarget>> create(const Device& device, const ConnectionOptions& options,
                                                   const EndInfo& request, std::string& refusal, Owner owner);
  ~PutTarget() { link_.close(); }

  Link& link() { return link_; }
  Answerer& answerer() { return answerer_; }
  // The rank at the other end.
  uint32_t rank() const { return rank_; }
  // The other end has closed the connection, and what it has put is taken.
  bool isOver() const { return over_ && drained_; }
  // The connection stands: tells the other end of all windows.
  void begin() { tellAll(); }
  // A window was registered or deregistered.
  void tell(const RmaWindow& window);
  // Rails through which data have come since the last call, as bits of Loopback.
  uint32_t takeBrought() { return std::exchange(brought_, 0); }

  // Takes reports, applies signals, and looks after the link.
  Status progress() {
    if (link_.only_cq == nullptr || over_) [[unlikely]]
      return progressSlowly();
    // Nearly every call finds nothing.
    ibv_wc completions[Link::kPollBatch];
    const int count = ibv_poll_cq(link_.only_cq, Link::kPollBatch, completions);
    if (count == 0 && !owes_credit_ && link_.maySkipIdle()) return Status::success();
    return take(completions, count);
  }

 private:
  static constexpr uint32_t kCreditDepth = 64;

  PutTarget(const Device& device, const ConnectionOptions& options, const EndInfo& request, Owner owner);

  QueuePairNeeds needs() const override {
    return {kCreditDepth, kReports, sizeof(uint64_t), sizeof(uint64_t), true};  // gets read
  }
  int mostRails() const override { return kMaxRails; }
  Result<Window> makeWindow(bool registers) override;
  int postFirstReceives(std::size_t queue_pair) override;
  void onPaired() override;
  void onLost() noexcept override {}
  Status poll() override {
    return link_.poll([this](const ibv_wc& completion) { return onCompletion(completion); });
  }
  void onFenced() override;
  Words words() const override;
  bool isOpen() override { return true; }
  Status onBegun() override;
  bool onNews(uint64_t /*number*/) override { return false; }
  void onClosed() override;
  // put_record.cc has these.
  void onLook() override;
  UnderWay underWay() const override;
  uint64_t largestUnderWay() const override { return 0; }

  std::byte* bufferAt(std::size_t queue_pair, uint32_t buffer) const {
    return buffers_ + (queue_pair * kReports + buffer) * kReportBuffer;
  }
  int postReceives(LaneQueuePair& queue_pair, uint32_t first);
  Status onCompletion(const ibv_wc& completion);
  Status onReport(LaneQueuePair& queue_pair, const ibv_wc& completion);
  void apply(uint16_t stream);
  // `home`, `brought`: as of SignalSlots::add().
  Status applyOne(const Report& report, uint32_t home, uint32_t brought);
  // What progress() does with what it has polled, and where it must not poll by itself.
  Status take(const ibv_wc* completions, int count);
  Status progressSlowly();
  Status lookAfter();
  bool mayCredit() const;
  Status giveCredits();
  void drain();
  void tellAll();

  const Owner owner_;
  const uint32_t rank_;
  bool over_ = false;
  bool drained_ = false;
  bool owes_credit_ = false;  // reports were taken for which no credit is given yet
  Deadline drained_by_ = Deadline::after({});
  std::vector<SignalOrder> streams_;  // up to the highest that has signals
  std::byte* buffers_ = nullptr;
  uint64_t* staged_ = nullptr;  // the latest credit of each queue pair
  uint64_t peer_credits_ = 0;   // address of the writer's credits
  std::array<uint32_t, kMaxQueuePairs> credited_ = {};
  std::array<uint32_t, kMaxQueuePairs> rail_bits_ = {};  // of the loopback, by queue pair
  uint32_t brought_ = 0;
  uint64_t last_write_ = 0;  // SignalSlots' number of the latest signal that a NIC must write; 0: none
  Link link_;
  Answerer answerer_;
};

}  // namespace railwise::net
