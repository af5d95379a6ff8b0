// The end of a connection that puts, and that reads from the other end: the one that called connect. It posts
// the operations of its streams, sees them complete, and posts again what a failure has left in doubt.
// docs/one-sided.md has the protocol. One thread at a time, under the group's lock.
#pragma once

#include <array>
#include <cerrno>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "net/paths/chooser.h"
#include "net/paths/link.h"
#include "net/rma/report.h"
#include "net/rma/stream.h"
#include "net/rma/window.h"

namespace railwise::net {

// The streams to one rank. They outlive the attempts to connect to it.
using RmaStreams = std::vector<RmaStream>;

class PutWriter final : public LinkMemory, protected LinkUser {
 public:
  // `streams`: the operations that it posts. `rank`: the other end's.
  static Result<std::unique_ptr<PutWriter>> create(const Device& device, const ConnectionOptions& options,
                                                   const ListenHandle& handle, RmaStreams& streams,
                                                   uint32_t rank);
  ~PutWriter() { link_.close(); }

  Link& link() { return link_; }
  Chooser& chooser() { return chooser_; }
  // What the other end has said of its memory.
  const Regions& regions() const { return regions_; }
  // The other end has closed the connection, and nothing was open.
  bool isOver() const { return over_; }

  // An operation was added to a stream.
  void noteAdded() { ++numbers().next; }
  // Posts what can be posted of a stream. Errors, logged: kInvalidArgument (beyond the end of a part),
  // kRemote, kSystem (the connection has failed).
  Status post(RmaStream& stream);
  // Takes completions, posts what waits, and looks after the link.
  Status progress();

 private:
  // Work requests of a queue pair.
  static constexpr uint32_t kSendDepth = 128;
  // A put from this size on goes over all lanes.
  static constexpr uint64_t kStripeFrom = kStripeBytes;

  PutWriter(const Device& device, const ConnectionOptions& options, const ListenHandle& handle,
            RmaStreams& streams, uint32_t rank);

  // What the link asks (paths/link_user.h).
  QueuePairNeeds needs() const override { return {kSendDepth, 1, sizeof(Report), 0}; }
  int mostRails() const override { return kMaxRails; }
  Result<Window> makeWindow(bool registers) override;
  // It has room for the reports of so many queue pairs.
  int postFirstReceives(std::size_t queue_pair) override {
    return queue_pair < static_cast<std::size_t>(chooser_.mostQueuePairs()) ? 0 : ENOMEM;
  }
  void onPaired() override;
  void onLost() noexcept override {}
  Status poll() override;
  bool mustStop() const override;
  void onFenced() override;
  Status reconcile(const Words& words) override;
  bool isOpen() override { return anyOpen(); }
  bool needsPath() const override { return anyOpen(); }
  Status onBegun() override { return Status::success(); }
  bool onNews(uint64_t /*number*/) override { return false; }
  Status onFrame(std::span<const std::byte, kUserFrameBytes> bytes) override;
  void onClosed() override { over_ = !anyOpen(); }
  UnderWay underWay() const override;
  uint64_t largestUnderWay() const override;

  bool anyOpen() const;
  // The lane of a stream's reports and of what is small.
  uint8_t homeLane(uint16_t stream) const;
  LaneQueuePair& queuePairOf(std::size_t lane) {
    return link_.endpoint.queue_pairs[link_.endpoint.lanes[lane].queue_pairs[0]];
  }
  bool hasCredit(std::size_t queue_pair) const {
    return reports_[queue_pair] - __atomic_load_n(credits_ + queue_pair, __ATOMIC_ACQUIRE) < kReports;
  }
  // Where the next report of a queue pair is written from. The device has read what was there before, for the
  // target has taken it (credit).
  Report& nextReport(std::size_t queue_pair) {
    return staged_[queue_pair * kReports + reports_[queue_pair]++ % kReports];
  }

  enum class Ready : uint8_t { kYes, kWait, kWrong };
  // Are the peer's parts known, and large enough?
  Ready isReady(const RmaRequest& request);
  Ready isReady(const RmaRequest& request, uint32_t window, uint64_t offset, uint64_t bytes);
  // Cuts a request into pieces. False: there is no credit for its reports.
  bool cut(RmaRequest& request, RmaStream& stream);
  void addPiece(RmaRequest& request, uint64_t begin, uint64_t end, uint8_t queue_pair, bool reports);
  // Posts the pieces of a request. False: a queue is full, or the epoch is lost.
  Result<bool> postPieces(RmaRequest& request);
  Result<bool> postPiece(RmaRequest& request, RmaRequest::Piece& piece);
  void fillReport(Report& report, const RmaRequest& request, uint8_t queue_pair) const;
  std::optional<uint32_t> localKey(const MemoryHandle& memory, LaneQueuePair& queue_pair);

  Status onCompletion(const ibv_wc& completion);
  bool isComplete(const RmaRequest& request) const;
  // The lanes' loads take what has completed.
  void measureLanes();
  // Takes what is done out of the streams.
  void settle();

  RmaStreams& streams_;
  const uint32_t rank_;
  Regions regions_;
  bool over_ = false;
  // Written by the target's device: how many reports of each queue pair it has taken. By index.
  uint64_t* credits_ = nullptr;
  Report* staged_ = nullptr;                           // kReports for each queue pair
  std::array<uint64_t, kMaxQueuePairs> reports_ = {};  // posted in this epoch
  struct Striped {
    uint64_t due;
    uint64_t bytes;
  };
  std::array<std::deque<Striped>, kMaxLanes> striped_;  // by lane: what the lanes' loads wait for
  Clock::time_point waits_since_ = {};                  // for a part that the peer has not registered yet
  Link link_;
  Chooser chooser_;
};

}  // namespace railwise::net
