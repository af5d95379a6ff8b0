// A user of links without messages, for tests of the floor of paths alone (net/paths/link_user.h). One end
// writes numbered cells into the window of the other end, and learns from the floor which of them have
// certainly arrived. After a failure it repeats the others. The other end counts each cell exactly once.
//
// What makes a wrong write visible. A cell lies at the place number % kRing of the window. Each word of it
// follows from its number, its epoch and the place of the word. The counting end wipes a place as soon as it
// has counted its cell, and wipes all places when an epoch is fenced. So at any time each word of a place is
// zero, or the right word of the next cell there in the epoch that runs. A late write of an old epoch, a cell
// that comes twice, and a cell with wrong content leave another word. A cell that is lost, or that the words
// of the floor deny, never ends the count. The credits that come back to the writing end have their epoch,
// too.
//
// Cells go from the end that called connect to the end that was called, because the floor carries words only
// from the latter to the former (ReconcileFrame): an end that does not hear what its peer has counted cannot
// repeat the rest. For cells both ways, the Propose frame must carry the words of the choosing end, and
// LinkUser::words() and reconcile() be asked at both ends. Then FakeEnd takes both halves.
#pragma once

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>

#include "net/device/path_news.h"
#include "net/paths/answerer.h"
#include "net/paths/cells.h"
#include "net/paths/chooser.h"
#include "net/paths/lane.h"
#include "net/paths/link.h"

namespace railwise::net {

// What both ends have: the link, what they expect, and the first thing that was wrong.
class FakeEnd : public LinkMemory, protected LinkUser {
 public:
  Link& link() { return link_; }
  const Link& link() const { return link_; }
  // So many cells shall arrive in all.
  void expect(uint64_t cells) { goal_ = cells; }
  // What breaks the promises of the floor, in words; "": nothing.
  const std::string& problem() const { return problem_; }

  // Tells the other end the next frame: its number.
  void tell() {
    std::array<uint64_t, kUserFrameBytes / sizeof(uint64_t)> numbers;
    numbers.fill(++told_);
    link_.tell(std::as_bytes(std::span<const uint64_t, numbers.size()>(numbers)));
  }
  uint64_t told() const { return told_; }
  // So many frames have come from the other end, each once, in their order.
  uint64_t heard() const { return heard_; }

 protected:
  // Words that the counting end says: up to which cell all are counted, and the latest one of each place.
  static constexpr uint32_t kWords = 1 + CellRing::kPlaces;

  // Nobody writes the begin of a window: the peer's proofs read there (iWARP).
  static constexpr std::size_t kHeadBytes = 64;

  FakeEnd(Direction direction, const Device& device, const ConnectionOptions& options, const CellShape& shape)
      : shape_(shape), link_(direction, *this, *this, device, options) {}
  ~FakeEnd() { link_.close(); }

  int mostRails() const override { return kMaxRails; }
  void onLost() noexcept override {}
  uint64_t largestUnderWay() const override { return shape_.largest > 0 ? shape_.largest : shape_.bytes; }
  Status onFrame(std::span<const std::byte, kUserFrameBytes> bytes) override {
    if (shape_.deaf) return LinkUser::onFrame(bytes);
    ++heard_;
    for (std::size_t at = 0; at < bytes.size(); at += sizeof(uint64_t)) {
      uint64_t number;
      std::memcpy(&number, &bytes[at], sizeof number);
      require(number == heard_,
              "frame " + std::to_string(heard_) + " has the number " + std::to_string(number));
    }
    return Status::success();
  }

  void require(bool holds, const std::string& what) {
    if (!holds && problem_.empty()) problem_ = link_.title() + ": " + what;
  }
  bool proves() const { return shape_.proves || !link_.rules.completion_means_arrival; }
  // The work request for bytes of this end's window.
  ibv_send_wr workOf(LaneQueuePair& queue_pair, ibv_sge& sge, const void* from, std::size_t bytes,
                     std::size_t to) const {
    sge = {reinterpret_cast<uint64_t>(from), static_cast<uint32_t>(bytes), queue_pair.window_key};
    ibv_send_wr work = {};
    work.opcode = IBV_WR_RDMA_WRITE;
    work.sg_list = &sge;
    work.num_sge = 1;
    work.wr.rdma.remote_addr = link_.peer_window + to;
    work.wr.rdma.rkey = queue_pair.peer_window_key;
    work.wr_id = workRequestId(queue_pair.index);
    return work;
  }

  const CellShape shape_;
  uint64_t goal_ = 0;
  bool fenced_ = false;  // from onFenced() to onBegun()
  uint64_t told_ = 0;
  uint64_t heard_ = 0;
  std::string problem_;
  Link link_;
};

// The end that called connect: it writes the cells.
class FakeSource final : public FakeEnd {
 public:
  // Where the other end writes its credits.
  static constexpr std::size_t kCreditAt = kHeadBytes;

  FakeSource(const Device& device, const ConnectionOptions& options, int peer_rails, const CellShape& shape)
      : FakeEnd(Direction::kSend, device, options, shape), chooser_(link_, peer_rails, true) {}

  Chooser& chooser() { return chooser_; }
  Status open() {
    RAILWISE_TRY(link_.maker().openWindow());
    return chooser_.openFirst();
  }
  bool done() const { return credited_ >= goal_; }
  // Cells that were sent more than once.
  uint64_t repeated() const { return repeated_; }

  Status progress() {
    RAILWISE_TRY(poll());
    takeCredit();
    if (link_.running()) RAILWISE_TRY(postCells());
    return link_.idle(Waiting::kAcknowledgement);
  }
  // Looks whether the credit is one that can be.
  void verify() { takeCredit(); }

 private:
  struct Cell {
    bool arrived = true;
    bool due = false;  // is to be posted
    uint8_t queue_pair = 0;
    uint64_t position = 0;  // its device has read it when the queue pair has completed so many
  };
  static constexpr std::size_t kCellsAt = kCreditAt + 64;

  QueuePairNeeds needs() const override { return {128, 1, 0, static_cast<uint32_t>(shape_.bytes)}; }
  Result<Window> makeWindow(bool registers) override {
    Result<Window> window = link_.device.windows().take(
        kCellsAt + CellRing::bytesFor(shape_) + ArrivalProof::kReadTargetBytes, registers);
    if (!window.ok()) return window;
    credit_ = window->at<uint64_t>(kCreditAt);
    in_credit_ = 0;  // a link whose old queue pairs cannot be stopped takes another window
    ring_.use(window->at<std::byte>(kCellsAt), shape_);
    return window;
  }
  int postFirstReceives(std::size_t /*queue_pair*/) override { return 0; }
  void onPaired() override {
    require(__atomic_load_n(credit_, __ATOMIC_ACQUIRE) == 0, "a credit has come between two epochs");
  }
  Status poll() override {
    RAILWISE_TRY(link_.poll([this](const ibv_wc& completion) { return onCompletion(completion); }));
    endSample();
    return link_.failure;
  }
  void onFenced() override {
    require(!link_.running(), "fenced while it runs");
    takeCredit();
    for (Cell& cell : cells_) cell.position = 0;
    sampled_ = {};
    unproven_ = 0;
    __atomic_store_n(credit_, 0, __ATOMIC_RELAXED);
    in_credit_ = 0;
    fenced_ = true;
  }
  Status reconcile(const Words& words) override {
    require(fenced_, "words before the fence");
    require(words.count == kWords, std::to_string(words.count) + " words");
    require(words.word[0] >= credited_,
            "cell " + std::to_string(credited_) + " was counted, and is not any more");
    require(words.word[0] < next_, "a cell is counted that was not sent");
    credited_ = std::max(credited_, words.word[0]);
    for (uint64_t number = credited_ + 1; number < next_; ++number) {
      Cell& cell = cellOf(number);
      cell.arrived = words.word[1 + number % CellRing::kPlaces] >= number;
      repeated_ += !cell.arrived && !cell.due ? 1 : 0;
      cell.due = !cell.arrived;
    }
    notePosted();
    return Status::success();
  }
  bool isOpen() override { return credited_ < goal_ || credited_ + 1 < next_; }
  Status onBegun() override {
    require(fenced_ && link_.running(), "an epoch begins that was not fenced");
    fenced_ = false;
    return Status::success();
  }
  bool onNews(uint64_t number) override {
    require(number < next_, "news of a cell that was not sent");
    noteCredit(number);
    return false;
  }
  UnderWay underWay() const override {
    return credited_ + 1 < next_ ? UnderWay{credited_ + 1, shape_.bytes} : UnderWay{};
  }

  Cell& cellOf(uint64_t number) { return cells_[number % CellRing::kPlaces]; }
  bool isRead(const Cell& cell) const {
    return cell.position == 0 || link_.endpoint.queue_pairs[cell.queue_pair].completed() >= cell.position;
  }
  void notePosted() {
    uint64_t first = credited_ + 1;
    while (first < next_ && !cellOf(first).due) ++first;
    nextPost() = first;
    numbers().next = next_;
  }
  void noteCredit(uint64_t counted) {
    credited_ = std::max(credited_, counted);
    arrivedUpTo() = credited_;
    numbers().complete = credited_;
  }
  // Takes the credit that the device has written: its epoch, and below that the number of cells.
  void takeCredit() {
    const uint64_t word = __atomic_load_n(credit_, __ATOMIC_ACQUIRE);
    if (word == in_credit_) return;
    const uint64_t counted = word & UINT32_MAX;
    require(word >> 32 == link_.epoch(),
            "a credit of epoch " + std::to_string(word >> 32) + " in epoch " + std::to_string(link_.epoch()));
    require(word > in_credit_ && counted < next_, "a credit for " + std::to_string(counted) + " cells");
    in_credit_ = word;
    noteCredit(counted);
  }

  Status postCells() {
    bool blocked = false;
    for (; next_ <= goal_ && next_ <= credited_ + CellRing::kPlaces; ++next_) {
      blocked = !isRead(cellOf(next_));
      if (blocked) break;
      cellOf(next_) = {.arrived = false, .due = true};
    }
    for (uint64_t number = credited_ + 1; number < next_ && link_.running(); ++number) {
      if (!cellOf(number).due) continue;
      const Result<bool> posted = post(number);
      if (!posted.ok()) return posted.status();
      blocked = blocked || !*posted;
      if (!*posted) break;
    }
    notePosted();
    blocked = blocked || next_ > goal_ || next_ > credited_ + CellRing::kPlaces;
    if (!link_.running() || unproven_ == 0 || (!blocked && (!proves() || unproven_ < shape_.cover_every)))
      return Status::success();
    unproven_ = 0;
    return link_.prove(false);
  }

  // False: the queue pair is full.
  Result<bool> post(uint64_t number) {
    const Lane& lane = link_.endpoint.lanes[number % link_.endpoint.lanes.size()];
    const uint64_t turn = number / link_.endpoint.lanes.size() % lane.count;
    LaneQueuePair& queue_pair = link_.endpoint.queue_pairs[lane.queue_pairs[turn]];
    if (queue_pair.sendFree() < 3) return false;
    Cell& cell = cellOf(number);
    ring_.put(number, link_.epoch());
    ibv_sge sge;
    ibv_sge report_sge;
    ibv_send_wr report;
    ibv_send_wr work =
        workOf(queue_pair, sge, ring_.at(number), shape_.bytes, kHeadBytes + ring_.offsetOf(number));
    ++queue_pair.posted();
    if (shape_.reported && link_.rules.has_immediates) {
      work.opcode = link_.rules.report;
      work.imm_data = htonl(static_cast<uint32_t>(number));
    } else if (shape_.reported) {
      report = workOf(queue_pair, report_sge, ring_.at(number), sizeof number, 0);
      report.opcode = link_.rules.report;
      work.next = &report;
      ++queue_pair.posted();
      queue_pair.counts().control_extra += int64_t{sizeof number} - queue_pair.counts().control_each;
    }
    ++unproven_;
    if (!proves() && unproven_ >= shape_.cover_every) {
      work.send_flags = IBV_SEND_SIGNALED;
      work.wr_id |= endsWorkRequests(queue_pair.cover());
      unproven_ = 0;
    }
    cell.queue_pair = queue_pair.index;
    cell.position = queue_pair.posted();
    cell.due = false;
    if (sampled_.position == 0) sampled_ = {queue_pair.index, cell.position, Clock::now()};
    RAILWISE_TRY(link_.post(queue_pair, &work));
    return true;
  }

  Status onCompletion(const ibv_wc& completion) {
    LaneQueuePair& queue_pair = link_.endpoint.queue_pairs[workQueuePair(completion.wr_id)];
    if (completion.status == IBV_WC_SUCCESS) {
      queue_pair.retire(workRequestsEnded(completion.wr_id));
      return Status::success();
    }
    if (!link_.running() && link_.failure.ok()) return Status::success();
    if (link_.peerHasEnded() && credited_ + 1 == next_) return Status::success();
    return link_.loseCompletion(queue_pair, completion, "a cell");
  }

  // A short round trip makes the floor notice silence early.
  void endSample() {
    if (sampled_.position == 0 || !link_.running()) return;
    if (link_.endpoint.queue_pairs[sampled_.queue_pair].completed() < sampled_.position) return;
    RoundTrips::ofProcess().note(Clock::now() - sampled_.since);
    sampled_ = {};
  }

  Chooser chooser_;
  CellRing ring_;               // what the cells are written from
  uint64_t* credit_ = nullptr;  // written by the device
  uint64_t in_credit_ = 0;      // what was last seen there
  uint64_t next_ = 1;           // the next new cell
  uint64_t credited_ = 0;       // all cells up to this one are counted
  uint64_t repeated_ = 0;
  uint32_t unproven_ = 0;  // posted since the latest work request that is signalled
  std::array<Cell, CellRing::kPlaces> cells_;
  struct Sample {
    uint8_t queue_pair = 0;
    uint64_t position = 0;  // 0: none
    Clock::time_point since = {};
  };
  Sample sampled_;
};

// The end that was called: it counts the cells.
class FakeTarget final : public FakeEnd {
 public:
  FakeTarget(const Device& device, const ConnectionOptions& options, const EndInfo& request,
             const CellShape& shape)
      : FakeEnd(Direction::kReceive, device, options, shape), answerer_(link_, request) {
    for (uint64_t place = 0; place < CellRing::kPlaces; ++place)
      due_[place] = place == 0 ? CellRing::kPlaces : place;
  }

  Answerer& answerer() { return answerer_; }
  Status open(const EndInfo& request) {
    RAILWISE_TRY(link_.maker().openWindow());
    std::string refusal;
    return answerer_.openFirst(request, refusal);
  }
  uint64_t counted() const { return counted_; }
  bool done() const { return arrivedUpTo() >= goal_; }

  Status progress() {
    RAILWISE_TRY(poll());
    if (link_.running()) RAILWISE_TRY(sendCredit());
    if (++looks_ % 64 == 0) verify();
    return link_.idle(Waiting::kPeer);
  }
  // Looks at every word of the window.
  void verify() {
    for (const uint64_t number : due_) {
      const std::string found = ring_.problem(number, link_.epoch());
      require(found.empty(), found);
    }
  }

 private:
  static constexpr uint32_t kReceives = kPostedReceives;
  static constexpr uint32_t kReplenish = kReceives / 2;
  static constexpr std::size_t kCredits = 64;
  static constexpr uint64_t kCoverCredits = 16;

  std::size_t creditsAt() const { return kHeadBytes + CellRing::bytesFor(shape_); }
  std::size_t reportsAt() const { return creditsAt() + kCredits * sizeof(uint64_t); }

  QueuePairNeeds needs() const override {
    return {kCredits, shape_.reported ? kReceives : 1, 0, sizeof(uint64_t)};
  }
  Result<Window> makeWindow(bool registers) override {
    const std::size_t reports =
        MessageBuffers::bytesFor(link_.rules, sizeof(uint64_t), answerer_.mostQueuePairs());
    Result<Window> window =
        link_.device.windows().take(reportsAt() + reports + ArrivalProof::kReadTargetBytes, registers);
    if (!window.ok()) return window;
    ring_.use(window->at<std::byte>(kHeadBytes), shape_);
    credits_ = window->at<uint64_t>(creditsAt());
    reports_.use(window->at<std::byte>(reportsAt()), sizeof(uint64_t));
    return window;
  }
  int postFirstReceives(std::size_t queue_pair) override {
    if (!shape_.reported) return 0;
    const int error = tryToPostReceives(queue_pair, 0);
    return error == 0 ? tryToPostReceives(queue_pair, kReplenish) : error;
  }
  void onPaired() override {
    for (const uint64_t number : due_)
      require(ring_.empty(number),
              "between two epochs something was written where cell " + std::to_string(number) + " is due");
    credited_ = 0;
    for (const LaneQueuePair& queue_pair : link_.endpoint.queue_pairs) {
      if (!queue_pair.rest->used) continue;
      credit_queue_pair_ = queue_pair.index;
      break;
    }
  }
  Status poll() override {
    RAILWISE_TRY(link_.poll([this](const ibv_wc& completion) {
      onCompletion(completion);
      return Status::success();
    }));
    if (!shape_.reported) takeCells();
    return link_.failure;
  }
  // Nothing writes the window any more. A cell that was not counted is written again as a whole.
  void onFenced() override {
    require(!link_.running(), "fenced while it runs");
    if (!shape_.reported && !fenced_) takeCells();
    verify();
    for (const uint64_t number : due_) ring_.wipe(number);
    fenced_ = true;
  }
  Words words() const override {
    Words words = {.count = kWords, .word = {arrivedUpTo()}};
    for (uint64_t place = 0; place < CellRing::kPlaces; ++place)
      words.word[1 + place] = due_[place] < CellRing::kPlaces ? 0 : due_[place] - CellRing::kPlaces;
    return fenced_ ? words : Words{};
  }
  bool isOpen() override { return !done(); }
  Status onBegun() override {
    require(fenced_ && link_.running(), "an epoch begins that was not fenced");
    fenced_ = false;
    return Status::success();
  }
  bool onNews(uint64_t number) override { return number > arrivedUpTo() + 1; }
  UnderWay underWay() const override {
    return done() ? UnderWay{} : UnderWay{arrivedUpTo() + 1, shape_.bytes};
  }

  bool isCounted(uint64_t number) const { return due_[number % CellRing::kPlaces] > number; }

  int tryToPostReceives(std::size_t index, uint32_t first) {
    LaneQueuePair& queue_pair = link_.endpoint.queue_pairs[index];
    std::array<ibv_recv_wr, kReplenish> chain = {};
    std::array<ibv_sge, kReplenish> sges;
    for (uint32_t i = 0; i < kReplenish; ++i) {
      chain[i].wr_id = receiveWorkId(first + i, index);
      chain[i].next = i + 1 < kReplenish ? &chain[i + 1] : nullptr;
      if (link_.rules.has_immediates) continue;
      sges[i] = reports_.sge(index, first + i, queue_pair.window_key);
      chain[i].sg_list = &sges[i];
      chain[i].num_sge = 1;
    }
    ibv_recv_wr* bad = nullptr;
    const int error = ibv_post_recv(queue_pair.qp, chain.data(), &bad);
    queue_pair.rest->receives_posted += error == 0 ? kReplenish : 0;
    return error;
  }

  void onCompletion(const ibv_wc& completion) {
    const std::size_t index = workQueuePair(completion.wr_id);
    LaneQueuePair& queue_pair = link_.endpoint.queue_pairs[index];
    const bool receives = (completion.wr_id & kReceiveWork) != 0;
    if (completion.status != IBV_WC_SUCCESS) {
      queue_pair.rest->receives_failed += receives ? 1 : 0;
      (void)link_.loseCompletion(queue_pair, completion, receives ? "a receive" : "a credit");
    } else if (receives) {
      onReport(index, completion);
    } else {
      queue_pair.retire(workRequestsEnded(completion.wr_id));
    }
  }
  void onReport(std::size_t index, const ibv_wc& completion) {
    const uint32_t buffer = workBuffer(completion.wr_id);
    uint64_t number = ntohl(completion.imm_data);
    if (!link_.rules.has_immediates) number = *reinterpret_cast<const uint64_t*>(reports_.at(index, buffer));
    const bool due = due_[number % CellRing::kPlaces] == number;
    require(due, "cell " + std::to_string(number) + " is reported, where cell " +
                     std::to_string(due_[number % CellRing::kPlaces]) + " is due");
    require(ring_.holds(number, link_.epoch()),
            "cell " + std::to_string(number) + " is reported in epoch " + std::to_string(link_.epoch()) +
                ", and not there: " + ring_.problem(number, link_.epoch()));
    if (due) count(number);
    LaneQueuePair& queue_pair = link_.endpoint.queue_pairs[index];
    if (++queue_pair.consumed % kReplenish != 0) return;
    const int error = tryToPostReceives(index, queue_pair.consumed % kReceives == 0 ? kReplenish : 0);
    if (error != 0) (void)link_.failPost(queue_pair, "ibv_post_recv", error);
  }
  // Takes the cells that are there.
  void takeCells() {
    for (const uint64_t number : due_) {
      if (ring_.holds(number, link_.epoch())) count(number);
    }
  }
  void count(uint64_t number) {
    ++counted_;
    ring_.wipe(number);
    due_[number % CellRing::kPlaces] = number + CellRing::kPlaces;
    while (isCounted(arrivedUpTo() + 1)) arrivedUpTo() = arrivedUpTo() + 1;
    numbers().complete = arrivedUpTo();
  }

  Status sendCredit() {
    const uint64_t counted = arrivedUpTo();
    LaneQueuePair& queue_pair = link_.endpoint.queue_pairs[credit_queue_pair_];
    const bool due = counted >= credited_ + shape_.credit_every || (counted > credited_ && done());
    if (!due || queue_pair.sendFree() < 2) return Status::success();
    uint64_t* const from = credits_ + queue_pair.posted() % kCredits;
    __atomic_store_n(from, link_.epoch() << 32 | counted, __ATOMIC_RELAXED);
    ibv_sge sge;
    ibv_send_wr work = workOf(queue_pair, sge, from, sizeof *from, FakeSource::kCreditAt);
    ++queue_pair.posted();
    credited_ = counted;
    RAILWISE_TRY(link_.post(queue_pair, &work));
    const bool covers = queue_pair.posted() - queue_pair.covered >= kCoverCredits;
    return link_.running() && (covers || done()) ? link_.prove(false) : Status::success();
  }

  Answerer answerer_;
  CellRing ring_;
  uint64_t* credits_ = nullptr;                  // what the credits are written from
  MessageBuffers reports_;                       // iWARP: buffers of the receives
  std::array<uint64_t, CellRing::kPlaces> due_;  // the next cell of each place
  uint64_t counted_ = 0;
  uint64_t credited_ = 0;  // what the other end was told in this epoch
  uint8_t credit_queue_pair_ = 0;
  uint32_t looks_ = 0;
};

}  // namespace railwise::net
