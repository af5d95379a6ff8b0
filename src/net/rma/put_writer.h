// The end of a connection that puts, and that reads from the other end: the one that called connect. It posts
// the operations of its streams, sees them complete, and posts again what a failure has left in doubt.
// docs/develop/rma-protocol.md has the protocol. One thread at a time, under the group's lock.
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
#include "net/paths/lane.h"
#include "net/paths/link.h"
#include "net/rma/mistakes.h"
#include "net/rma/report.h"
#include "net/rma/stream.h"
#include "net/rma/window.h"

namespace railwise::net {

// The streams to one rank. They outlive the attempts to connect to it.
using RmaStreams = std::vector<RmaStream>;

// The data and the report of an operation in one piece, prepared so that only what differs is filled in.
// Plain values of one group.
struct DirectPost {
  static constexpr std::size_t kWorks = 2;

  DirectPost() {
    for (std::size_t i = 0; i < works.size(); ++i) {
      works[i].sg_list = &sges[i];
      works[i].num_sge = 1;
    }
    works[1].opcode = IBV_WR_SEND;
  }
  DirectPost(const DirectPost&) = delete;
  DirectPost& operator=(const DirectPost&) = delete;

  std::array<ibv_sge, kWorks> sges = {};
  std::array<ibv_send_wr, kWorks> works = {};
};

class PutWriter final : public LinkMemory, protected LinkUser {
 public:
  // `streams`: the operations that it posts. `rank`: the other end's. `direct`: for whoever posts just now.
  static Result<std::unique_ptr<PutWriter>> create(const Device& device, const ConnectionOptions& options,
                                                   const ListenHandle& handle, RmaStreams& streams,
                                                   uint32_t rank, DirectPost& direct);
  ~PutWriter() { link_.close(); }

  Link& link() { return link_; }
  Chooser& chooser() { return chooser_; }
  // What the other end has said of its memory.
  const Regions& regions() const { return regions_; }
  // The other end has closed the connection, and nothing was open.
  bool isOver() const { return over_; }

  // An operation was added to a stream, also before the connection stands.
  void noteAdded(RmaRequest::Kind kind) {
    ++open_;
    ++numbers().next;
    if (kind == RmaRequest::Kind::kGet) ++shown().one_sided.gets;
  }
  // What the other end has said of its part of a window in this epoch; null: nothing, or the part does not
  // hold these bytes.
  [[gnu::always_inline]] const Region* reach(uint32_t window, uint64_t offset, uint64_t bytes) const {
    return regions_.reach(window, static_cast<uint32_t>(link_.epoch()), offset, bytes);
  }
  // An operation that waits reaches what it names. *region: where its data are; null: it has none.
  bool reaches(const RmaRequest& request, const Region*& region) const {
    region = nullptr;
    if (request.bytes > 0) {
      region = reach(request.remote_window, request.remote_offset, request.bytes);
      if (region == nullptr || request.local->memory == nullptr) return false;
    }
    return request.number == 0 ||
           reach(request.signal_window, request.signal_offset, sizeof request.signal_value) != nullptr;
  }
  // The next operation of a stream that has a direct queue pair can go there, as a whole and now.
  [[gnu::always_inline]] static bool fitsDirect(const RmaStream& stream, uint64_t bytes, bool signals) {
    return bytes <= stream.direct_bytes && (signals ? stream.uncovered == 0 : bytes > 0);
  }
  [[gnu::always_inline]] bool hasRoom(const LaneQueuePair& queue_pair, bool signals) const {
    return queue_pair.sendFree() >= DirectPost::kWorks && (!signals || hasCredit(queue_pair.index));
  }
  // Posts the next operation of a stream, which fits, has room and reaches `region` (null: no data). `kind`,
  // `signals`: the operation's. Errors: as of postOrWait().
  Status postDirect(RmaStream& stream, const Region* region, RmaRequest::Kind kind, bool signals);
  // Nothing is open, so that nothing completes.
  bool rests() const { return open_ == 0; }
  // Posts what can be posted of a stream; progress() posts the rest. Errors, logged: kInvalidArgument (beyond
  // the end of a part), kRemote, kSystem (the connection has failed).
  Status postOrWait(RmaStream& stream) {
    const Status posted = post(stream);
    waits_ = waits_ || stream.toPost() != nullptr;
    return posted;
  }
  // Takes completions, posts what waits, and looks after the link.
  Status progress() {
    if (link_.only_cq == nullptr) [[unlikely]]
      return progressSlowly();
    ibv_wc completions[Link::kPollBatch];
    const int count = ibv_poll_cq(link_.only_cq, Link::kPollBatch, completions);
    if (count == 0 && !settles_ && !waits_ && link_.maySkipIdle()) return Status::success();
    return take(completions, count);
  }

 private:
  // Work requests of a queue pair.
  static constexpr uint32_t kSendDepth = 128;
  // A put from this size on goes over all lanes.
  static constexpr uint64_t kStripeFrom = kStripeBytes;

  PutWriter(const Device& device, const ConnectionOptions& options, const ListenHandle& handle,
            RmaStreams& streams, uint32_t rank, DirectPost& direct);

  // What the link asks (paths/link_user.h).
  QueuePairNeeds needs() const override { return {kSendDepth, 1, sizeof(Report), 0}; }
  int mostRails() const override { return kMaxRails; }
  Result<Window> makeWindow(bool registers) override;
  // It has room for the reports of so many queue pairs.
  int postFirstReceives(std::size_t queue_pair) override {
    return queue_pair < static_cast<std::size_t>(chooser_.mostQueuePairs()) ? 0 : ENOMEM;
  }
  void onPaired() override;
  void onLost() noexcept override { closeDirect(); }
  Status poll() override {
    return link_.poll([this](const ibv_wc& completion) { return onCompletion(completion); });
  }
  bool mustStop() const override;
  void onFenced() override;
  Status reconcile(const Words& words) override;
  bool isOpen() override { return anyOpen(); }
  bool needsPath() const override { return anyOpen(); }
  Status onBegun() override { return Status::success(); }
  bool onNews(uint64_t /*number*/) override { return false; }
  Status onFrame(std::span<const std::byte, kUserFrameBytes> bytes) override;
  bool awaitsFrame() const override;
  void onClosed() override {
    closeDirect();
    over_ = !anyOpen();
  }
  // put_record.cc has these.
  void onLook() override;
  UnderWay underWay() const override;
  void openRecord();
  record::WaitsFor waitsFor(const RmaRequest& request) const;
  bool isTold(uint32_t window) const;

  uint64_t largestUnderWay() const override;

  bool anyOpen() const { return open_ != 0; }
  // The next operations of a stream may be posted at once, over its home lane.
  void openDirect(RmaStream& stream, uint16_t number);
  void closeDirect() noexcept {
    for (RmaStream& stream : streams_) stream.direct = nullptr;
  }
  // The lane of a stream's reports and of what is small.
  uint8_t homeLane(uint16_t stream) const;
  LaneQueuePair& queuePairOf(std::size_t lane) {
    return link_.endpoint.queue_pairs[link_.endpoint.lanes[lane].queue_pairs[0]];
  }
  bool hasCredit(std::size_t queue_pair) const {
    const auto taken = static_cast<uint32_t>(__atomic_load_n(credits_ + queue_pair, __ATOMIC_ACQUIRE));
    return reportsUnderWay(reports_[queue_pair], taken) < kReports || isPlanted(Mistake::kIgnoresCredit);
  }
  // Where the next report of a queue pair is written from. The device has read what was there before, for the
  // target has taken it (credit).
  Report& nextReport(std::size_t queue_pair) {
    return staged_[queue_pair * kReports + reports_[queue_pair]++ % kReports];
  }

  enum class Ready : uint8_t { kYes, kWait, kWrong };
  // This rank's part is registered. If not, the link fails.
  bool isSourceThere(const RmaRequest& request);
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

  Status onCompletion(const ibv_wc& completion) {
    if (completion.status != IBV_WC_SUCCESS) [[unlikely]]
      return onErrorCompletion(completion);
    link_.endpoint.queue_pairs[workQueuePair(completion.wr_id)].retire(workRequestsEnded(completion.wr_id));
    settles_ = true;
    return Status::success();
  }
  Status onErrorCompletion(const ibv_wc& completion);
  Status post(RmaStream& stream);
  // Posts what waits in any stream.
  Status postWaiting();
  Waiting waitingFor() const { return anyOpen() ? Waiting::kAcknowledgement : Waiting::kPeer; }
  // What progress() does with what it has polled, and where it must not poll by itself.
  Status take(const ibv_wc* completions, int count);
  Status progressSlowly();
  // Goes on with what has completed and with what waits.
  Status goOn();
  bool isComplete(const RmaRequest& request) const;
  // The lanes' loads take what has completed.
  void measureLanes();
  // Takes what is done out of the streams.
  void settle();

  RmaStreams& streams_;
  const uint32_t rank_;
  DirectPost& direct_;
  Regions regions_;
  bool over_ = false;
  bool settles_ = false;  // something has completed since settle()
  bool waits_ = true;     // a stream may have something to post
  uint64_t open_ = 0;     // operations that are not done
  // Written by the target's device: how many reports of each queue pair it has taken, in the low half of a
  // word. By index.
  uint64_t* credits_ = nullptr;
  Report* staged_ = nullptr;                           // kReports for each queue pair
  std::array<uint32_t, kMaxQueuePairs> reports_ = {};  // posted in this epoch
  struct Striped {
    uint64_t due;
    uint64_t bytes;
  };
  std::array<std::deque<Striped>, kMaxLanes> striped_;  // by lane: what the lanes' loads wait for
  Link link_;
  Chooser chooser_;
};

[[gnu::always_inline]] inline Status PutWriter::postDirect(RmaStream& stream, const Region* region,
                                                           RmaRequest::Kind kind, bool signals) {
  DirectPost& direct = direct_;
  RmaRequest& request = *stream.toPost();
  LaneQueuePair& queue_pair = *stream.direct;
  ibv_send_wr* first = &direct.works[1];
  if (region != nullptr) {
    first = &direct.works[0];
    const MemoryHandle& memory = *request.local->memory;
    const auto bytes = static_cast<uint32_t>(request.bytes);
    direct.sges[0] = {request.local->address + request.local_offset, bytes,
                      memory.keys[queue_pair.rail].local()};
    const bool gets = kind == RmaRequest::Kind::kGet;
    const bool copied = !gets && bytes <= queue_pair.inline_bytes && memory.kind == MemoryKind::kHost;
    first->wr_id = workRequestId(queue_pair.index);
    first->opcode = gets ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE;
    first->send_flags = copied ? IBV_SEND_INLINE : 0;
    first->wr.rdma.remote_addr = region->address + request.remote_offset;
    first->wr.rdma.rkey = region->keys[queue_pair.peer_rail];
    first->next = signals ? &direct.works[1] : nullptr;
    ++queue_pair.posted();
    (gets ? queue_pair.counts().got : queue_pair.counts().bytes) += bytes;
  }
  ibv_send_wr& last = direct.works[signals ? 1 : 0];
  if (signals) {
    request.owed = 0;
    Report& report = nextReport(queue_pair.index);
    report = {.number = request.number,
              .offset = request.signal_offset,
              .value = request.signal_value,
              .window = request.signal_window,
              .owed = 0,
              .epoch = static_cast<uint32_t>(link_.epoch()),
              .stream = request.stream,
              .kind = Report::Kind::kSignal,
              .reserved = 0};
    direct.sges[1] = {reinterpret_cast<uint64_t>(&report), sizeof report, queue_pair.window_key};
    last.wr_id = workRequestId(queue_pair.index);
    last.send_flags = sizeof report <= queue_pair.inline_bytes ? IBV_SEND_INLINE : 0;
    ++queue_pair.posted();
    queue_pair.counts().control_extra += sizeof report;
  }
  last.send_flags |= IBV_SEND_SIGNALED;
  last.wr_id |= endsWorkRequests(queue_pair.cover());
  ++queue_pair.counts().segments;
  request.pieces = 1;
  request.piece[0].queue_pair = queue_pair.index;
  request.piece[0].due = queue_pair.fullAtWhenDone();
  stream.posted();
  nextPost() = nextPost() + 1;
  return link_.post(queue_pair, first);
}

}  // namespace railwise::net
