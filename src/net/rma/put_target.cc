#include "net/rma/put_target.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

#include "net/paths/lane.h"
#include "net/paths/transport_rules.h"
#include "net/patience.h"

namespace railwise::net {

PutTarget::PutTarget(const Device& device, const ConnectionOptions& options, const EndInfo& request,
                     Owner owner)
    : owner_(owner),
      rank_(request.user_word),
      link_(Direction::kReceive, *this, *this, device, options),
      answerer_(link_, request) {
  shown().kind = record::ConnectionKind::kOneSided;
  shown().one_sided.peer_rank_plus_one = rank_ + 1;
}

Result<std::unique_ptr<PutTarget>> PutTarget::create(const Device& device, const ConnectionOptions& options,
                                                     const EndInfo& request, std::string& refusal,
                                                     Owner owner) {
  std::unique_ptr<PutTarget> made(new PutTarget(device, options, request, owner));
  RAILWISE_TRY(made->link_.maker().openWindow());
  RAILWISE_TRY(made->answerer_.openFirst(request, refusal));
  return made;
}

Result<Window> PutTarget::makeWindow(bool registers) {
  constexpr std::size_t kStagedAt = sizeof(WindowHead);
  constexpr std::size_t kBuffersAt = kStagedAt + kMaxQueuePairs * sizeof(uint64_t);
  const std::size_t buffers = static_cast<std::size_t>(answerer_.mostQueuePairs()) * kReports * kReportBuffer;
  Result<Window> window =
      link_.device.windows().take(kBuffersAt + buffers + ArrivalProof::kReadTargetBytes, registers);
  if (!window.ok()) return window.status();
  window->at<WindowHead>(0)->mark = kWindowMark;
  staged_ = window->at<uint64_t>(kStagedAt);
  buffers_ = window->at<std::byte>(kBuffersAt);
  return window;
}

int PutTarget::postFirstReceives(std::size_t index) {
  if (index >= static_cast<std::size_t>(answerer_.mostQueuePairs())) return ENOMEM;
  int error = 0;
  for (uint32_t first = 0; first < kReports && error == 0; first += kReportList)
    error = postReceives(queuePair(index), first);
  return error;
}

int PutTarget::postReceives(LaneQueuePair& queue_pair, uint32_t first) {
  std::array<ibv_recv_wr, kReportList> works;
  std::array<ibv_sge, kReportList> sges;
  for (uint32_t i = 0; i < kReportList; ++i) {
    sges[i] = {reinterpret_cast<uint64_t>(bufferAt(queue_pair.index, first + i)), kReportBuffer,
               queue_pair.window_key};
    works[i] = {.wr_id = receiveWorkId(first + i, queue_pair.index),
                .next = i + 1 < kReportList ? &works[i + 1] : nullptr,
                .sg_list = &sges[i],
                .num_sge = 1};
  }
  ibv_recv_wr* bad = nullptr;
  const int error = ibv_post_recv(queue_pair.qp, works.data(), &bad);
  queue_pair.rest->receives_posted += error == 0 ? kReportList : 0;
  return error;
}

void PutTarget::onPaired() {
  peer_credits_ = link_.peer_window + sizeof(WindowHead);
  credited_ = {};
  for (const LaneQueuePair& queue_pair : link_.endpoint.queue_pairs) {
    if (queue_pair.rest->used)
      rail_bits_[queue_pair.index] = owner_.loopback.bitOf(link_.endpoint.rails[queue_pair.rail]);
  }
}

// ---- reports

Status PutTarget::onCompletion(const ibv_wc& completion) {
  LaneQueuePair& queue_pair = link_.endpoint.queue_pairs[workQueuePair(completion.wr_id)];
  const bool receive = (completion.wr_id & kReceiveWork) != 0;
  if (completion.status == IBV_WC_SUCCESS) [[likely]] {
    if (receive) return onReport(queue_pair, completion);
    queue_pair.retire(workRequestsEnded(completion.wr_id));
    return Status::success();
  }
  if (receive) ++queue_pair.rest->receives_failed;
  if (!link_.running() && link_.failure.ok()) return Status::success();  // it is lost already
  if (over_ || link_.peerHasEnded()) return Status::success();
  return link_.loseCompletion(queue_pair, completion, receive ? "a receive" : "a credit");
}

Status PutTarget::onReport(LaneQueuePair& queue_pair, const ibv_wc& completion) {
  const auto wrong = [&](const std::string& what) {
    return link_.fail({Code::kRemote, EPROTO},
                      "rank " + std::to_string(rank_) + " has sent " + what + ": it is not to be trusted");
  };
  Report report;
  std::memcpy(&report, bufferAt(queue_pair.index, workBuffer(completion.wr_id)), sizeof report);
  ++queue_pair.consumed;
  ++queue_pair.counts().segments;
  brought_ |= rail_bits_[queue_pair.index];
  if (completion.byte_len != sizeof report) return wrong("a report of another length");
  if (report.epoch != static_cast<uint32_t>(link_.epoch()) && !isPlanted(Mistake::kTakesOldEpoch))
    return wrong("a report of another epoch");
  if (report.stream >= kMostStreams) return wrong("a report of a stream that cannot be");
  if (report.kind != Report::Kind::kSignal && report.kind != Report::Kind::kMark)
    return wrong("a report of no kind");
  if (report.stream >= streams_.size()) streams_.resize(report.stream + std::size_t{1});
  SignalOrder& stream = streams_[report.stream];
  const bool whole = stream.takeNext(report);
  if (!whole) {
    const std::string problem = stream.take(report, queue_pair.index);
    if (!problem.empty()) return wrong(problem);
  }
  if (queue_pair.consumed % kReportList == 0 && link_.running()) {
    owes_credit_ = true;
    const uint32_t first = (queue_pair.consumed / kReportList - 1) % (kReports / kReportList) * kReportList;
    const int error = postReceives(queue_pair, first);
    if (error != 0) RAILWISE_TRY(link_.failPost(queue_pair, "ibv_post_recv", error));
  }
  if (whole) return applyOne(report, rail_bits_[queue_pair.index], rail_bits_[queue_pair.index]);
  apply(report.stream);
  return link_.failure;
}

void PutTarget::apply(uint16_t stream) {
  const auto one = [&](const Report& report, uint8_t home, uint32_t brought) {
    uint32_t rails = 0;
    for (uint32_t left = brought; left != 0; left &= left - 1)
      rails |= rail_bits_[static_cast<std::size_t>(std::countr_zero(left))];
    return applyOne(report, rail_bits_[home], rails).ok();
  };
  while (streams_[stream].applyNext(one)) {
  }
}

Status PutTarget::applyOne(const Report& report, uint32_t home, uint32_t brought) {
  const RmaWindow* const window =
      report.window < owner_.windows.size() ? owner_.windows[report.window].get() : nullptr;
  if (window == nullptr || window->memory == nullptr || !window->holds(report.offset, sizeof(uint64_t)) ||
      (window->address + report.offset) % sizeof(uint64_t) != 0)
    return link_.fail({Code::kRemote, EPROTO}, "rank " + std::to_string(rank_) + " signals offset " +
                                                   std::to_string(report.offset) + " of window " +
                                                   std::to_string(report.window) + ", which is not there");
  const uint64_t write = owner_.slots.add(*window, report.offset, report.value, home, brought);
  if (write != 0) last_write_ = write;
  arrivedUpTo() = arrivedUpTo() + 1;
  numbers().complete = arrivedUpTo();
  return Status::success();
}

// A target that applies no more lets the writer run out of credit.
bool PutTarget::mayCredit() const {
  return std::ranges::none_of(streams_, [](const SignalOrder& stream) {
    return stream.latest() - stream.applied() > kMostUnapplied;
  });
}

Status PutTarget::giveCredits() {
  owes_credit_ = false;
  for (LaneQueuePair& queue_pair : link_.endpoint.queue_pairs) {
    const uint32_t taken = queue_pair.consumed / kReportList * kReportList;
    if (taken == credited_[queue_pair.index]) continue;
    if (queue_pair.sendFree() == 0 || !mayCredit()) {
      owes_credit_ = true;
      continue;
    }
    // A write that the NIC repeats may bring a newer count of its queue pair, which is as true.
    uint64_t* const from = staged_ + queue_pair.index;
    *from = taken;
    ibv_sge sge = {reinterpret_cast<uint64_t>(from), sizeof *from, queue_pair.window_key};
    ibv_send_wr work = {};
    work.wr_id = workRequestId(queue_pair.index);
    work.sg_list = &sge;
    work.num_sge = 1;
    work.opcode = IBV_WR_RDMA_WRITE;
    work.send_flags = sizeof *from <= queue_pair.inline_bytes ? IBV_SEND_INLINE : 0;
    work.wr.rdma.remote_addr = peer_credits_ + queue_pair.index * sizeof(uint64_t);
    work.wr.rdma.rkey = queue_pair.peer_window_key;
    ++queue_pair.posted();
    if (queue_pair.posted() >= queue_pair.unsignalled_until) {
      work.send_flags |= IBV_SEND_SIGNALED;
      work.wr_id |= endsWorkRequests(queue_pair.cover());
    }
    credited_[queue_pair.index] = taken;
    RAILWISE_TRY(link_.post(queue_pair, &work));
    if (!link_.running()) return Status::success();
  }
  return Status::success();
}

Status PutTarget::take(const ibv_wc* completions, int count) {
  RAILWISE_TRY(link_.take(0, completions, count,
                          [this](const ibv_wc& completion) { return onCompletion(completion); }));
  return lookAfter();
}

Status PutTarget::progressSlowly() {
  if (over_) {
    drain();
    return Status::success();
  }
  RAILWISE_TRY(link_.failure);
  if (link_.running()) RAILWISE_TRY(poll());
  return lookAfter();
}

Status PutTarget::lookAfter() {
  if (owes_credit_ && link_.running()) RAILWISE_TRY(giveCredits());
  // NCCL's progress thread may need seconds for as many polls as idle() lets pass between two looks.
  return link_.running() ? link_.idle(Waiting::kPeer) : link_.step(Waiting::kPeer);
}

void PutTarget::onClosed() {
  over_ = true;
  drained_by_ = Deadline::after(Patience::kDataGrace);
}

// The writer's last reports may be here and not polled yet. Stopped queue pairs give all receives back.
void PutTarget::drain() {
  const bool gone = !link_.failure.ok() || !link_.endpoint.anyUsed();
  const bool stopped = gone || link_.endpoint.stop() || drained_by_.passed();
  if (gone) {
    drained_ = true;
    return;
  }
  do {
    link_.completed_since_look = false;
    (void)poll();
  } while (link_.completed_since_look);
  drained_ = stopped;
}

// ---- a failure

// What is complete is applied. What is not comes again. The NICs that are left may still have data on their
// way to the GPU that no later signal would flush.
void PutTarget::onFenced() {
  for (SignalOrder& stream : streams_) stream.forget();
  uint32_t rails = 0;
  for (const uint32_t bit : rail_bits_) rails |= bit;
  owner_.slots.mustFlush(rails);
  brought_ |= rails;
}

Words PutTarget::words() const {
  Words words;
  words.count = static_cast<uint32_t>(streams_.size());
  for (std::size_t i = 0; i < streams_.size(); ++i) words.word[i] = streams_[i].applied();
  return words;
}

Status PutTarget::onBegun() {
  tellAll();
  return Status::success();
}

// ---- windows

void PutTarget::tellAll() {
  for (const std::unique_ptr<RmaWindow>& window : owner_.windows)
    if (window->memory != nullptr || window == owner_.windows.back()) tell(*window);
}

void PutTarget::tell(const RmaWindow& window) {
  RegionFrame frame = {};
  frame.window = window.number;
  frame.epoch = static_cast<uint32_t>(link_.epoch());
  if (window.memory != nullptr) {
    frame.bytes = window.bytes;
    frame.address = window.address;
    for (uint8_t rail = 0; rail < link_.endpoint.rails.size(); ++rail) {
      const Result<MemoryKeys> keys = keysOf(link_.device, link_.endpoint, *window.memory, rail);
      frame.keys[rail] = keys.ok() ? keys->remote : 0;
    }
  }
  link_.tell(std::as_bytes(std::span<RegionFrame, 1>(&frame, 1)));
}

}  // namespace railwise::net
