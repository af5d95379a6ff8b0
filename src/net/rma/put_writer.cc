#include "net/rma/put_writer.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

#include "base/clock.h"
#include "net/paths/transport_rules.h"

namespace railwise::net {
namespace {

using Piece = RmaRequest::Piece;

// Work requests that are posted with one call.
constexpr std::size_t kChain = 16;

std::string rankText(uint32_t rank) { return "rank " + std::to_string(rank); }

}  // namespace

PutWriter::PutWriter(const Device& device, const ConnectionOptions& options, const ListenHandle& handle,
                     RmaStreams& streams, uint32_t rank, DirectPost& direct)
    : streams_(streams),
      rank_(rank),
      direct_(direct),
      link_(Direction::kSend, *this, *this, device, options),
      chooser_(link_, handle.rails, false) {
  openRecord();
}

Result<std::unique_ptr<PutWriter>> PutWriter::create(const Device& device, const ConnectionOptions& options,
                                                     const ListenHandle& handle, RmaStreams& streams,
                                                     uint32_t rank, DirectPost& direct) {
  std::unique_ptr<PutWriter> made(new PutWriter(device, options, handle, streams, rank, direct));
  RAILWISE_TRY(made->link_.maker().openWindow());
  RAILWISE_TRY(made->chooser_.openFirst());
  return made;
}

Result<Window> PutWriter::makeWindow(bool registers) {
  constexpr std::size_t kCreditsAt = sizeof(WindowHead);
  constexpr std::size_t kStagedAt = kCreditsAt + kMaxQueuePairs * sizeof(uint64_t);
  static_assert(kReports * sizeof(Report) % ArrivalProof::kReadTargetBytes == 0, "what follows is aligned");
  const std::size_t staged = static_cast<std::size_t>(chooser_.mostQueuePairs()) * kReports * sizeof(Report);
  Result<Window> window =
      link_.device.windows().take(kStagedAt + staged + ArrivalProof::kReadTargetBytes, registers);
  if (!window.ok()) return window.status();
  window->at<WindowHead>(0)->mark = kWindowMark;
  credits_ = window->at<uint64_t>(kCreditsAt);
  staged_ = window->at<Report>(kStagedAt);
  return window;
}

void PutWriter::onPaired() {
  reports_ = {};
  for (std::deque<Striped>& striped : striped_) striped.clear();
}

// ---- posting

// The lane that ends at a rail of the target that all writers of this stream choose alike: the target then
// writes its signals through that rail, behind their data.
uint8_t PutWriter::homeLane(uint16_t stream) const {
  const std::vector<Lane>& lanes = link_.endpoint.lanes;
  if (lanes.size() == 1) return 0;
  const auto rails = static_cast<uint32_t>(std::max<int>(link_.there.rails, 1));
  const uint32_t wanted = (stream + rank_) % rails;
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    if (link_.endpoint.queue_pairs[lanes[i].queue_pairs[0]].peer_rail == wanted)
      return static_cast<uint8_t>(i);
  }
  return static_cast<uint8_t>((stream + rank_) % lanes.size());
}

PutWriter::Ready PutWriter::isReady(const RmaRequest& request, uint32_t window, uint64_t offset,
                                    uint64_t bytes) {
  const Region* const region = regions_.find(window);
  Clock::time_point& waits_since = streams_[request.stream].waits_since;
  const auto fail = [&](const std::string& what) {
    (void)link_.fail({Code::kInvalidArgument, EINVAL},
                     std::string(request.kind == RmaRequest::Kind::kGet ? "get from " : "put to ") +
                         rankText(rank_) + ": window " + std::to_string(window) + " " + what);
    return Ready::kWrong;
  };
  if (region != nullptr && region->gone) return fail("is deregistered there");
  if (region == nullptr || region->epoch != static_cast<uint32_t>(link_.epoch())) {
    const Clock::time_point now = Clock::now();
    if (region != nullptr || waits_since == Clock::time_point()) {
      waits_since = now;
      return Ready::kWait;
    }
    if (now - waits_since < std::chrono::seconds(link_.config.connect_timeout_s)) return Ready::kWait;
    return fail("was not registered there in RAILWISE_CONNECT_TIMEOUT=" +
                std::to_string(link_.config.connect_timeout_s) +
                " s, or its registration failed: see its log");
  }
  if (!region->holds(offset, bytes))
    return fail("has " + std::to_string(region->bytes) + " bytes there, and offset " +
                std::to_string(offset) + " with " + std::to_string(bytes) + " bytes is beyond them");
  return Ready::kYes;
}

bool PutWriter::isSourceThere(const RmaRequest& request) {
  if (request.bytes == 0 || request.local->memory != nullptr) return true;
  (void)link_.fail({Code::kInvalidUsage, EINVAL},
                   "memory was deregistered before a put or get with " + rankText(rank_) + " was done");
  return false;
}

PutWriter::Ready PutWriter::isReady(const RmaRequest& request) {
  if (!isSourceThere(request)) return Ready::kWrong;
  if (request.bytes > 0) {
    const Ready ready = isReady(request, request.remote_window, request.remote_offset, request.bytes);
    if (ready != Ready::kYes) return ready;
  }
  if (request.number != 0) {
    const Ready ready = isReady(request, request.signal_window, request.signal_offset, sizeof(uint64_t));
    if (ready != Ready::kYes) return ready;
  }
  streams_[request.stream].waits_since = {};
  return Ready::kYes;
}

void PutWriter::addPiece(RmaRequest& request, uint64_t begin, uint64_t end, uint8_t queue_pair,
                         bool reports) {
  request.piece[request.pieces++] = {begin, end, begin, 0, queue_pair, reports, false};
}

bool PutWriter::cut(RmaRequest& request, RmaStream& stream) {
  const bool signals = request.number != 0;
  const std::size_t lanes = link_.endpoint.lanes.size();
  const uint8_t home_lane = homeLane(request.stream);
  const uint8_t home = queuePairOf(home_lane).index;
  request.pieces = 0;
  request.owed = 0;
  if (lanes == 1) [[likely]] {
    if (signals && !hasCredit(home)) return false;
    addPiece(request, 0, request.bytes, home, signals);
    return true;
  }
  const bool striped = request.bytes >= kStripeFrom;
  const bool covers = request.kind == RmaRequest::Kind::kPut;
  std::array<uint64_t, kMaxLanes> begin = {};
  std::array<uint64_t, kMaxLanes> end = {};
  Shares shares;
  if (striped) {
    shares = cutShares(link_.endpoint.loads, request.bytes, request.stream, link_.config.split == "even");
    uint64_t at = 0;
    for (int i = 0; i < shares.count; ++i) {
      const Share& each = shares.share[static_cast<std::size_t>(i)];
      begin[each.lane] = at;
      end[each.lane] = at += each.bytes;
    }
  } else {
    end[home_lane] = request.bytes;
  }
  uint32_t carries = 0;
  for (std::size_t lane = 0; lane < lanes; ++lane)
    carries |= end[lane] > begin[lane] && lane != home_lane ? uint32_t{1} << queuePairOf(lane).index : 0;
  if (signals) {
    request.owed = stream.uncovered | carries;
    if (!hasCredit(home)) return false;
    for (std::size_t lane = 0; lane < lanes; ++lane) {
      const uint8_t index = queuePairOf(lane).index;
      if ((request.owed >> index & 1) != 0 && !hasCredit(index)) return false;
    }
  }
  // The home lane comes last, with the signal behind its data.
  for (std::size_t lane = 0; lane < lanes; ++lane) {
    const uint8_t index = queuePairOf(lane).index;
    const bool owes = (request.owed >> index & 1) != 0;
    if (lane != home_lane && (owes || (carries >> index & 1) != 0))
      addPiece(request, begin[lane], end[lane], index, owes);
  }
  if (signals || end[home_lane] > begin[home_lane])
    addPiece(request, begin[home_lane], end[home_lane], home, signals);
  if (covers) stream.uncovered = signals ? 0 : stream.uncovered | carries;
  if (striped) {
    const uint64_t now = nowNs();
    for (LaneLoad& lane_load : link_.endpoint.loads) lane_load.skipped();
    for (int i = 0; i < shares.count; ++i) {
      const Share& each = shares.share[static_cast<std::size_t>(i)];
      link_.endpoint.loads[each.lane].posted(each.bytes, now);
    }
  }
  return true;
}

void PutWriter::fillReport(Report& report, const RmaRequest& request, uint8_t queue_pair) const {
  const bool signal = queue_pair == request.piece[request.pieces - 1].queue_pair;
  report = {};
  report.number = request.number;
  report.epoch = static_cast<uint32_t>(link_.epoch());
  report.stream = request.stream;
  report.kind = signal ? Report::Kind::kSignal : Report::Kind::kMark;
  if (!signal) return;
  report.offset = request.signal_offset;
  report.value = request.signal_value;
  report.window = request.signal_window;
  report.owed = request.owed;
}

std::optional<uint32_t> PutWriter::localKey(const MemoryHandle& memory, LaneQueuePair& queue_pair) {
  if (link_.endpoint.native) [[likely]]
    return memory.keys[queue_pair.rail].local();
  const Result<MemoryKeys> keys = keysOf(link_.device, link_.endpoint, memory, queue_pair.rail);
  if (keys.ok()) return keys->local;
  (void)link_.lose(&queue_pair, keys.status(), link_.endpoint.nameOf(queue_pair) + ": takes no more memory");
  return std::nullopt;
}

Result<bool> PutWriter::postPiece(RmaRequest& request, Piece& piece) {
  LaneQueuePair& queue_pair = link_.endpoint.queue_pairs[piece.queue_pair];
  const bool by_read = !link_.rules.completion_means_arrival && request.kind == RmaRequest::Kind::kPut;
  const uint64_t tail = (piece.reports ? 1 : 0) + (by_read ? 1 : 0);
  const Region* const region = request.bytes > 0 ? regions_.find(request.remote_window) : nullptr;
  while (!piece.posted) {
    std::array<ibv_send_wr, kChain> works;
    std::array<ibv_sge, kChain> sges;
    std::size_t count = 0;
    const uint64_t room = std::min<uint64_t>(queue_pair.sendFree(), kChain);
    const auto next = [&]() -> ibv_send_wr& {
      ibv_send_wr& work = works[count];
      work = {};
      work.wr_id = workRequestId(queue_pair.index);
      work.sg_list = &sges[count];
      work.num_sge = 1;
      if (count > 0) works[count - 1].next = &work;
      ++count;
      ++queue_pair.posted();
      return work;
    };
    while (piece.next < piece.end && count < room) {
      const std::optional<uint32_t> key = localKey(*request.local->memory, queue_pair);
      if (!key) return false;
      const auto bytes = static_cast<uint32_t>(
          std::min<uint64_t>(piece.end - piece.next, queue_pair.rest->max_request_bytes));
      ibv_send_wr& work = next();
      const bool gets = request.kind == RmaRequest::Kind::kGet;
      *work.sg_list = {request.local->address + request.local_offset + piece.next, bytes, *key};
      work.opcode = gets ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE;
      work.wr.rdma.remote_addr = region->address + request.remote_offset + piece.next;
      work.wr.rdma.rkey = region->keys[queue_pair.peer_rail];
      if (!gets && bytes <= queue_pair.inline_bytes && !request.local->inGpu())
        work.send_flags = IBV_SEND_INLINE;
      piece.next += bytes;
      (gets ? queue_pair.counts().got : queue_pair.counts().bytes) += bytes;
    }
    if (piece.next == piece.end && count + tail <= room) {
      if (piece.reports) {
        ibv_send_wr& work = next();
        Report& report = nextReport(queue_pair.index);
        fillReport(report, request, queue_pair.index);
        *work.sg_list = {reinterpret_cast<uint64_t>(&report), sizeof report, queue_pair.window_key};
        work.opcode = IBV_WR_SEND;
        if (sizeof report <= queue_pair.inline_bytes) work.send_flags = IBV_SEND_INLINE;
        queue_pair.counts().control_extra += sizeof report;
      }
      if (by_read) {
        ibv_send_wr& work = next();
        link_.proof.makeRead(work, link_.peer_window, queue_pair.window_key, queue_pair.peer_window_key);
        queue_pair.counts().control_extra += work.sg_list->length;
      }
      piece.posted = true;
    }
    if (count == 0) return false;
    ibv_send_wr& last = works[count - 1];
    if (piece.posted || queue_pair.posted() >= queue_pair.unsignalled_until) {
      last.send_flags |= IBV_SEND_SIGNALED;
      last.wr_id |= endsWorkRequests(queue_pair.cover());
    }
    RAILWISE_TRY(link_.post(queue_pair, works.data()));
    if (!link_.running()) return false;
    if (!piece.posted) continue;
    ++queue_pair.counts().segments;
    piece.due = queue_pair.fullAtWhenDone();
    if (request.bytes >= kStripeFrom && link_.endpoint.lanes.size() > 1)
      striped_[queue_pair.lane].push_back({piece.due, piece.end - piece.begin});
  }
  return true;
}

Result<bool> PutWriter::postPieces(RmaRequest& request) {
  for (uint8_t i = 0; i < request.pieces; ++i) {
    if (request.piece[i].posted) continue;
    const Result<bool> posted = postPiece(request, request.piece[i]);
    if (!posted.ok() || !*posted) return posted;
  }
  return true;
}

Status PutWriter::post(RmaStream& stream) {
  while (RmaRequest* const request = stream.toPost()) {
    if (!link_.running()) return link_.failure;
    const bool signals = request->number != 0;
    if (stream.direct != nullptr && request->state == RmaRequest::State::kWaiting && !request->certain &&
        fitsDirect(stream, request->bytes, signals)) {
      if (!hasRoom(*stream.direct, signals)) return Status::success();
      const Region* region = nullptr;
      if (!reaches(*request, region) && isReady(*request) != Ready::kYes) return link_.failure;
      stream.waits_since = {};
      RAILWISE_TRY(postDirect(stream, region, request->kind, signals));
      continue;
    }
    if (!request->certain) {
      if (request->state == RmaRequest::State::kWaiting) {
        const Ready ready = isReady(*request);
        if (ready != Ready::kYes) return link_.failure;
        if (!cut(*request, stream)) return Status::success();
        request->state = RmaRequest::State::kPosting;
      } else if (!isSourceThere(*request)) {
        return link_.failure;
      }
      const Result<bool> posted = postPieces(*request);
      if (!posted.ok()) return posted.status();
      if (!*posted) return link_.failure;
    }
    stream.posted();
    nextPost() = nextPost() + 1;
    settles_ = true;  // also what needs no completion
    if (stream.direct == nullptr) openDirect(stream, request->stream);
  }
  return Status::success();
}

Status PutWriter::postWaiting() {
  waits_ = false;
  for (RmaStream& stream : streams_) RAILWISE_TRY(postOrWait(stream));
  return Status::success();
}

void PutWriter::openDirect(RmaStream& stream, uint16_t number) {
  if (!link_.endpoint.native || !link_.rules.completion_means_arrival) return;
  LaneQueuePair& queue_pair = queuePairOf(homeLane(number));
  const uint64_t one_piece = link_.endpoint.lanes.size() == 1 ? UINT32_MAX : kStripeFrom - 1;
  stream.direct_bytes = std::min<uint64_t>(queue_pair.rest->max_request_bytes, one_piece);
  stream.direct = &queue_pair;
}

// ---- what comes back

Status PutWriter::take(const ibv_wc* completions, int count) {
  RAILWISE_TRY(link_.take(0, completions, count,
                          [this](const ibv_wc& completion) { return onCompletion(completion); }));
  return goOn();
}

Status PutWriter::progressSlowly() {
  RAILWISE_TRY(link_.failure);
  if (!link_.running()) return link_.step(waitingFor());
  RAILWISE_TRY(poll());
  return goOn();
}

Status PutWriter::goOn() {
  if (settles_) settle();
  if (waits_) RAILWISE_TRY(postWaiting());
  return link_.running() ? link_.idle(waitingFor()) : link_.step(waitingFor());
}

Status PutWriter::onErrorCompletion(const ibv_wc& completion) {
  const LaneQueuePair& queue_pair = link_.endpoint.queue_pairs[workQueuePair(completion.wr_id)];
  if (!link_.running() && link_.failure.ok()) return Status::success();  // it is lost already
  if (link_.peerHasEnded() && !anyOpen()) return Status::success();
  return link_.loseCompletion(queue_pair, completion, "a put");
}

void PutWriter::measureLanes() {
  bool measurable = false;
  for (std::size_t lane = 0; lane < link_.endpoint.lanes.size(); ++lane) {
    const uint64_t full_at = queuePairOf(lane).full_at;
    LaneLoad& lane_load = link_.endpoint.loads[lane];
    for (; !striped_[lane].empty() && striped_[lane].front().due <= full_at; striped_[lane].pop_front())
      lane_load.completed(striped_[lane].front().bytes);
    measurable = measurable || lane_load.measurable();
  }
  if (!measurable) return;
  const uint64_t now = nowNs();
  for (LaneLoad& lane_load : link_.endpoint.loads) lane_load.measure(now);
}

bool PutWriter::isComplete(const RmaRequest& request) const {
  if (request.certain) return true;
  if (request.state != RmaRequest::State::kPosted) return false;
  for (uint8_t i = 0; i < request.pieces; ++i) {
    const Piece& piece = request.piece[i];
    if (link_.endpoint.queue_pairs[piece.queue_pair].full_at < piece.due) return false;
  }
  return true;
}

void PutWriter::settle() {
  if (link_.endpoint.lanes.size() > 1) measureLanes();
  for (RmaStream& stream : streams_) {
    while (!stream.empty() && isComplete(*stream.first())) {
      (void)stream.take();
      ++numbers().complete;
      --open_;
    }
    if (!isPlanted(Mistake::kDoneOutOfOrder)) continue;
    for (RmaRequest* request = stream.first(); request != nullptr; request = request->next) {
      if (isComplete(*request)) request->state = RmaRequest::State::kDone;
    }
  }
  settles_ = false;
}

bool PutWriter::mustStop() const {
  for (const RmaStream& stream : streams_) {
    for (const RmaRequest* request = stream.first(); request != nullptr; request = request->next) {
      if (request->kind == RmaRequest::Kind::kGet && request->pieces > 0) return true;
    }
  }
  return false;
}

uint64_t PutWriter::largestUnderWay() const {
  uint64_t largest = 0;
  for (const RmaStream& stream : streams_) {
    for (const RmaRequest* request = stream.first(); request != stream.toPost(); request = request->next)
      largest = std::max(largest, request->bytes);
    if (stream.toPost() != nullptr) largest = std::max(largest, stream.toPost()->bytes);
  }
  return largest;
}

// ---- a failure

// Completions that are owed will not come. Until the other end says how far it has come, nothing is certain
// that is not done.
void PutWriter::onFenced() {
  for (RmaStream& stream : streams_) stream.again();
  waits_ = true;
  for (std::size_t i = 0; i < kMaxQueuePairs; ++i) __atomic_store_n(credits_ + i, 0, __ATOMIC_RELAXED);
  for (std::deque<Striped>& striped : striped_) striped.clear();
  reports_ = {};
}

// Number `i` of the words is how many signals of stream `i` the other end has applied.
Status PutWriter::reconcile(const Words& words) {
  for (std::size_t i = 0; i < streams_.size(); ++i) {
    RmaStream& stream = streams_[i];
    const uint64_t applied = i < words.count ? words.word[i] : 0;
    if (applied > stream.lastSignal())
      return link_.fail({Code::kRemote, EPROTO}, rankText(rank_) + " has applied signal " +
                                                     std::to_string(applied) + ", which was not put");
    if (applied < stream.doneSignal())
      return link_.fail(
          {Code::kRemote, EIO},
          "signal " + std::to_string(applied + 1) + " to " + rankText(rank_) +
              " is lost: its NIC has acknowledged the signal, and failed before it told the rank");
    stream.applied(applied);
  }
  settle();
  return Status::success();
}

// ---- what the other end says

// What it has not said of a window may be held up on the way.
bool PutWriter::awaitsFrame() const {
  return std::ranges::any_of(streams_, [this](const RmaStream& stream) {
    return stream.toPost() != nullptr && waitsFor(*stream.toPost()) == record::WaitsFor::kWindow;
  });
}

Status PutWriter::onFrame(std::span<const std::byte, kUserFrameBytes> bytes) {
  RegionFrame frame;
  std::memcpy(&frame, bytes.data(), sizeof frame);
  if (frame.window >= kMostNumbers)
    return link_.fail({Code::kRemote, EPROTO}, rankText(rank_) + " has more windows than can be");
  regions_.take(frame);
  return Status::success();
}

}  // namespace railwise::net
