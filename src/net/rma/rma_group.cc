#include "net/rma/rma_group.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <new>
#include <string>

#include "base/log.h"

namespace railwise::net {
namespace {

// The listening socket is looked at on one of so many calls: a look is a system call.
constexpr uint32_t kLooks = 64;
// A connection that has nothing open completes nothing, and is looked after on one of so many calls.
constexpr uint32_t kLooksAtRest = 16;
// A test of a request that is not done drives the whole group on one of so many calls.
constexpr uint32_t kTestsOfAll = 8;
constexpr std::size_t kRequestsAtOnce = 256;

Status invalid() { return {Code::kInvalidArgument, EINVAL}; }

// A write of a signal must not overtake the data before it.
MemoryOrder orderOf(uint64_t flags) {
  return (flags & kRmaStrongOrder) != 0 ? MemoryOrder::kStrict : MemoryOrder::kMayRelax;
}

}  // namespace

RmaGroup::RmaGroup(RmaNet& owner, const Device& device, const ConnectionOptions& options,
                   std::unique_ptr<ManyListener<PutTarget>> listener, std::vector<ListenHandle> handles,
                   int rank)
    : owner_(owner),
      device_(device),
      rank_(rank),
      handles_(std::move(handles)),
      options_(options),
      loopback_(device, options.config, options.standbys),
      listener_(std::move(listener)),
      peers_(handles_.size()) {
  options_.user_word = static_cast<uint32_t>(rank);
}

// Connections end before what they use.
RmaGroup::~RmaGroup() {
  Attendant::leave(std::move(attendant_), *this);
  listener_.reset();
  peers_.clear();
  targets_.clear();
  for (const std::unique_ptr<RmaWindow>& window : windows_) {
    if (window->memory != nullptr) device_.memory().release(window->memory);
  }
}

// ---- contexts

Result<RmaContext*> RmaGroup::createContext(int contexts, int traffic_class) {
  const std::lock_guard lock(mutex_);
  std::vector<uint16_t> streams;
  for (uint16_t stream = 0; stream < kMostStreams && streams.size() < static_cast<std::size_t>(contexts);
       ++stream) {
    if ((streams_in_use_ >> stream & 1) == 0) streams.push_back(stream);
  }
  if (streams.size() < static_cast<std::size_t>(contexts)) {
    RAILWISE_WARN("createContext: %d contexts on %s: a group has %u, and %d are in use", contexts,
                  device_.name(), kMostStreams, std::popcount(streams_in_use_));
    return invalid();
  }
  std::unique_ptr<RmaContext> made(new RmaContext(*this, std::move(streams)));
  RmaContext* const context = contexts_.emplace_back(std::move(made)).get();
  for (const uint16_t stream : context->streams_) streams_in_use_ |= uint64_t{1} << stream;
  if (traffic_class >= 0) options_.traffic_class = traffic_class;
  return context;
}

void RmaContext::destroy(RmaContext* context) {
  RmaGroup& group = context->group_;
  if (group.inForkedChild()) return;  // ends with its group
  const std::lock_guard lock(group.mutex_);
  (void)group.progress();
  group.abandonStreams(*context);
  for (const uint16_t stream : context->streams_) group.streams_in_use_ &= ~(uint64_t{1} << stream);
  std::erase_if(group.contexts_, [&](const auto& each) { return each.get() == context; });
}

// The operations of a context that is destroyed may still be read from its memory by a NIC, and their signals
// cannot be taken back: a connection that has such operations ends.
void RmaGroup::abandonStreams(const RmaContext& context) {
  const auto of_context = [&](const RmaRequest& request) { return request.context == &context; };
  own_.drop(of_context);
  for (const uint32_t rank : ranks_in_use_) {
    Peer& peer = *peers_[rank];
    bool open = false;
    for (RmaStream& stream : peer.streams) {
      open = open || (!stream.empty() && of_context(*stream.first()));
    }
    if (!open) continue;
    (void)orFail([&] {
      if (peer.writer != nullptr)
        peer.writer->link().abandon("the context was destroyed with operations open");
      return Status::success();
    });
    peer.writer.reset();
    peer.connector.reset();
    for (RmaStream& stream : peer.streams) stream = {};
    if (!failure_.ok()) continue;
    (void)orFail([&] {
      return fail({Code::kRemote, ECANCELED},
                  "a context was destroyed with operations open to rank " + std::to_string(rank));
    });
  }
}

bool RmaContext::failed() const { return group_.has_failed_.load(std::memory_order_relaxed); }

// ---- windows

Result<RmaWindow*> RmaGroup::registerMemory(uint64_t address, std::size_t bytes, MemoryKind kind,
                                            uint64_t flags) {
  return add(device_.memory().acquire(address, bytes, kind, orderOf(flags)), {address, bytes}, flags, false);
}

Result<RmaWindow*> RmaGroup::registerDmaBuf(uint64_t address, std::size_t bytes, uint64_t offset, int fd,
                                            uint64_t flags) {
  return add(device_.memory().acquireDmaBuf(address, bytes, offset, fd, orderOf(flags)), {address, bytes},
             flags, true);
}

// The number of a window is all that the ranks agree on, so one that this rank cannot register takes its
// number too. Only what NCCL could not register as a dma-buf it registers once more, at once.
Result<RmaWindow*> RmaGroup::add(Result<MemoryHandle*> memory, const Part& part, uint64_t flags,
                                 bool dma_buf) {
  const std::lock_guard lock(mutex_);
  const std::optional<Part> tried = std::exchange(tried_, std::nullopt);
  const bool again = tried && tried->address == part.address && tried->bytes == part.bytes;
  if (tried && !again) addWindow({}, nullptr);
  const Status refused = memory.ok() ? refusal(**memory) : memory.status();
  if (refused.ok()) {
    RmaWindow& window = addWindow(part, *memory);
    window.never_reset = (flags & kRmaNeverReset) != 0;
    RAILWISE_TRY(failure_);
    return &window;
  }
  if (memory.ok()) device_.memory().release(*memory);
  if (dma_buf && !again) tried_ = part;
  else addWindow({}, nullptr);
  return refused;
}

Status RmaGroup::refusal(const MemoryHandle& memory) {
  // Signals in it, and what makes data visible to the GPU, go through a queue pair of a NIC that is connected
  // to itself. iWARP lets no TCP connection reach itself.
  if (memory.kind != MemoryKind::kHost && device_.rails().front().port.iwarp) {
    RAILWISE_WARN("%s: one-sided communication over iWARP reaches no GPU memory: set NCCL_NET_GDR_LEVEL=LOC",
                  device_.name());
    return {Code::kInvalidUsage, EOPNOTSUPP};
  }
  if (live_ < kMostWindows && windows_.size() < kMostNumbers) return Status::success();
  RAILWISE_WARN("%s: %zu windows are registered, after %zu in all: no more than %zu, and %zu in all, can be",
                device_.name(), live_, windows_.size(), kMostWindows, kMostNumbers);
  return {Code::kInvalidUsage, ENOSPC};
}

// Takes the next number, and tells all peers. `memory` null: nothing is there.
RmaWindow& RmaGroup::addWindow(const Part& part, MemoryHandle* memory) {
  try {
    windows_.push_back(std::make_unique<RmaWindow>());
  } catch (const std::bad_alloc&) {
    if (memory != nullptr) device_.memory().release(memory);
    throw;
  }
  RmaWindow& window = *windows_.back();
  static_cast<Part&>(window) = part;
  window.memory = memory;
  window.group = memory == nullptr ? nullptr : this;
  if (memory != nullptr) ++live_;
  window.number = static_cast<uint32_t>(windows_.size() - 1);
  (void)tellOf(window);
  return window;
}

void RmaGroup::deregister(RmaWindow* window) {
  if (inForkedChild()) return;
  const std::lock_guard lock(mutex_);
  if (window->memory == nullptr) return;
  (void)orFail([&] {
    for (const Deadline deadline = Deadline::after(Patience::kStall);
         (!slots_.forget(*window) || own_.uses(*window)) && !deadline.passed();) {
      loopback_.poll();
      (void)slots_.progress();
      own_.progress();
    }
    if (!own_.uses(*window)) return Status::success();
    own_.drop([&](const RmaRequest& request) { return own_.uses(*window, request); });
    return fail({Code::kInvalidUsage, EINVAL},
                "memory was deregistered before a put to the own rank was done");
  });
  slots_.abandon(*window);
  MemoryHandle* const memory = std::exchange(window->memory, nullptr);
  --live_;
  window->group = nullptr;
  (void)tellOf(*window);
  device_.memory().release(memory);
}

// Tells all peers of a window. A peer that heard nothing would wait for it in vain.
Status RmaGroup::tellOf(const RmaWindow& window) {
  return orFail([&] {
    for (const std::unique_ptr<PutTarget>& target : targets_) target->tell(window);
    return Status::success();
  });
}

// ---- operations

RmaRequest& RmaGroup::takeRequest(RmaContext& context, RmaRequest::Kind kind, uint16_t stream,
                                  uint32_t rank) {
  if (free_requests_ == nullptr) {
    auto more = std::make_unique<RmaRequest[]>(kRequestsAtOnce);
    for (std::size_t i = 0; i < kRequestsAtOnce; ++i) giveRequest(more[i]);
    request_memory_.push_back(std::move(more));
  }
  RmaRequest& request = *free_requests_;
  free_requests_ = request.next;
  request.begin(context, kind, stream, rank);
  return request;
}

Status RmaGroup::checkRank(const RmaContext& context, int stream, uint32_t rank) const {
  if (rank >= peers_.size()) {
    RAILWISE_WARN("%s: rank %u: there are %zu ranks", device_.name(), rank, peers_.size());
    return invalid();
  }
  if (stream < 0 || static_cast<std::size_t>(stream) >= context.streams_.size()) {
    RAILWISE_WARN("%s: context %d: there are %zu", device_.name(), stream, context.streams_.size());
    return invalid();
  }
  return Status::success();
}

// A place of another rank is checked as far as that rank has said what it has; else when the operation is
// posted.
Status RmaGroup::checkPlace(const char* what, const RmaPlace& place, uint64_t bytes, uint32_t rank) const {
  const RmaWindow* const window = place.window;
  if (!isOwn(window)) {
    RAILWISE_WARN("%s: the memory handle of %s is null, deregistered or of another group", device_.name(),
                  what);
    return invalid();
  }
  const Part* part = window;
  if (rank != static_cast<uint32_t>(rank_)) {
    const Peer* const peer = peers_[rank].get();
    const Region* const region =
        peer != nullptr && peer->writer != nullptr ? peer->writer->regions().find(window->number) : nullptr;
    if (region == nullptr || region->gone) return Status::success();
    part = region;
  }
  if (part->holds(place.offset, bytes)) return Status::success();
  RAILWISE_WARN(
      "%s: %s is beyond what rank %u has registered of window %u: offset %llu with %llu bytes, of %llu",
      device_.name(), what, rank, window->number, static_cast<unsigned long long>(place.offset),
      static_cast<unsigned long long>(bytes), static_cast<unsigned long long>(part->bytes));
  return invalid();
}

Status RmaContext::startSlowly(RmaRequest::Kind kind, bool signals, const Operation& operation,
                               RmaRequest** request) {
  *request = nullptr;
  const bool gets = kind == RmaRequest::Kind::kGet;
  const auto own = static_cast<uint32_t>(group_.rank_);
  const std::lock_guard lock(group_.mutex_);
  RAILWISE_TRY(group_.failure_);
  RAILWISE_TRY(group_.checkRank(*this, operation.context, operation.rank));
  const bool to_itself = operation.rank == own;
  RmaPlace here = operation.here;
  RmaPlace there = operation.there;
  if (operation.bytes > 0) {
    RAILWISE_TRY(
        group_.checkPlace(gets ? "the target of a get" : "the source of a put", here, operation.bytes, own));
    RAILWISE_TRY(group_.checkPlace(gets ? "the source of a get" : "the target of a put", there,
                                   operation.bytes, operation.rank));
  }
  if (signals) {
    const RmaSignal& signal = operation.signal;
    RAILWISE_TRY(group_.checkPlace("a signal", signal.at, sizeof signal.value, operation.rank));
    if (signal.at.offset % sizeof signal.value != 0) {
      RAILWISE_WARN("%s: a signal at offset %llu, which is no multiple of 8", group_.device_.name(),
                    static_cast<unsigned long long>(signal.at.offset));
      return invalid();
    }
  }
  if (to_itself && gets) std::swap(here, there);  // a put the other way round
  RmaRequest& made =
      group_.takeRequest(*this, to_itself ? RmaRequest::Kind::kSelfPut : kind,
                         streams_[static_cast<std::size_t>(operation.context)], operation.rank);
  made.bytes = operation.bytes;
  if (operation.bytes > 0) made.place(here, there);
  if (signals) {
    made.number = 1;  // own rank: only says that there is one
    made.signal(operation.signal);
  }
  const Status posted = group_.orFail([&] { return group_.post(operation.rank, made); });
  if (posted.ok()) *request = &made;
  else if (group_.failure_.ok()) group_.giveRequest(made);  // else it may stand in its stream
  return posted;
}

Status RmaContext::flush(int context, RmaWindow* window, uint32_t rank, RmaRequest** request) {
  *request = nullptr;
  const std::lock_guard lock(group_.mutex_);
  RAILWISE_TRY(group_.failure_);
  RAILWISE_TRY(group_.checkRank(*this, context, rank));
  if (window != nullptr)
    RAILWISE_TRY(group_.checkPlace("a flush", {window, 0}, 0, static_cast<uint32_t>(group_.rank_)));
  if (window == nullptr || !window->inGpu()) {
    const auto found = std::ranges::find_if(group_.windows_, [](const auto& each) { return each->inGpu(); });
    if (found == group_.windows_.end()) return Status::success();  // a CPU sees everything
    window = found->get();
  }
  RmaRequest& made =
      group_.takeRequest(*this, RmaRequest::Kind::kFlush, streams_[static_cast<std::size_t>(context)], rank);
  made.bytes = 0;
  made.local = window;
  made.local_offset = 0;
  group_.own_.add(made);
  group_.own_.progress();
  *request = &made;
  return Status::success();
}

// Whatever goes on, the operation is kept and posted when it can be.
Status RmaGroup::post(uint32_t rank, RmaRequest& request) {
  if (rank == static_cast<uint32_t>(rank_)) {
    own_.add(request);
    own_.progress();
    return Status::success();
  }
  const Result<Peer*> found = peerOf(rank);
  if (!found.ok()) return found.status();
  Peer& peer = **found;
  if (request.stream >= peer.streams.size()) peer.streams.resize(request.stream + std::size_t{1});
  RmaStream& stream = peer.streams[request.stream];
  if (request.number != 0) request.number = stream.nextSignal();
  stream.add(request);
  (peer.writer != nullptr ? *peer.writer : peer.connector->end()).noteAdded(request.kind);
  if (peer.writer != nullptr) {
    const Status posted = peer.writer->postOrWait(stream);
    if (!posted.ok()) (void)failed(posted, rank);  // the next call says so
  }
  return Status::success();
}

Result<RmaGroup::Peer*> RmaGroup::peerOf(uint32_t rank) {
  if (peers_[rank] == nullptr) {
    ranks_in_use_.reserve(ranks_in_use_.size() + 1);
    peers_[rank] = std::make_unique<Peer>();
    ranks_in_use_.push_back(rank);
  }
  Peer& peer = *peers_[rank];
  if (peer.gone || (peer.writer != nullptr && peer.writer->isOver()))
    return fail({Code::kRemote, ESHUTDOWN},
                "a put to rank " + std::to_string(rank) + ", which has ended its part");
  if (peer.writer == nullptr && peer.connector == nullptr) RAILWISE_TRY(connect(rank, peer));
  return &peer;
}

Status RmaGroup::connect(uint32_t rank, Peer& peer) {
  const auto make = [this, rank, &peer] {
    return PutWriter::create(device_, options_, handles_[rank], peer.streams, rank, direct_);
  };
  auto made = Connector<PutWriter>::create(device_, options_, handles_[rank], ListenerKind::kOneSided, make);
  if (!made.ok()) return made.status();
  peer.connector = std::move(*made);
  return Status::success();
}

// ---- progress

// Nearly always the rank's own connection is all that matters to the request, and NCCL drives the rest by
// rmaProgress. Where it does not, the rest goes on all the same.
Status RmaGroup::progressFor(const RmaRequest& request) {
  RAILWISE_TRY(failure_);
  const bool over_link = request.kind == RmaRequest::Kind::kPut || request.kind == RmaRequest::Kind::kGet;
  if (!over_link || ++tests_ % kTestsOfAll == 0) return progress();
  const Peer& peer = *peers_[request.rank];
  if (peer.writer == nullptr || peer.writer->isOver()) return progress();
  return orFail([&] {
    const Status status = peer.writer->progress();
    return status.ok() ? status : failed(status, request.rank);
  });
}

Status RmaGroup::progressAll() {
  RAILWISE_TRY(failure_);
  if (++looks_ % kLooks == 0 || listener_->underWay() > 0) RAILWISE_TRY(acceptCallers());
  for (std::size_t i = 0; i < targets_.size();) {
    PutTarget& target = *targets_[i];
    if (const Status status = target.progress(); !status.ok()) [[unlikely]]
      return failed(status, target.rank());
    own_.brought(target.takeBrought());
    if (target.isOver()) targets_.erase(targets_.begin() + static_cast<std::ptrdiff_t>(i));
    else ++i;
  }
  for (const uint32_t rank : ranks_in_use_) {
    Peer& peer = *peers_[rank];
    if (peer.writer != nullptr && peer.writer->rests() && looks_ % kLooksAtRest != 0) continue;
    const bool stands = peer.writer != nullptr && !peer.writer->isOver();
    const Status status = stands ? peer.writer->progress() : advance(rank, peer);
    if (!status.ok()) [[unlikely]]
      return failed(status, rank);
  }
  if (loopback_.busy()) loopback_.poll();
  if (slots_.busy()) {
    const std::string problem = slots_.progress();
    if (!problem.empty()) return fail({Code::kSystem, EIO}, problem);
  }
  if (own_.busy()) own_.progress();
  return looks_ % kLooks == 0 ? watchLoopback() : Status::success();
}

// Nobody else notices that signals which have come are not written.
Status RmaGroup::watchLoopback() {
  loopback_.tellCounts();
  const Clock::time_point now = Clock::now();
  const bool waits = slots_.busy() || own_.busy();
  if (!waits || loopback_.completed() != looped_ || loop_progress_ == Clock::time_point()) {
    looped_ = loopback_.completed();
    loop_progress_ = now;
    return Status::success();
  }
  if (now - loop_progress_ < Patience(options_.config.failover_timeout_s).limit()) return Status::success();
  return fail({Code::kSystem, ETIMEDOUT},
              "no NIC of this rank writes into the memory of this rank, for RAILWISE_FAILOVER_TIMEOUT=" +
                  std::to_string(options_.config.failover_timeout_s) +
                  " s: signals of peers wait. Check `ibstat`");
}

// Who calls the group looks at it often. A failure is told to whoever calls next.
void RmaGroup::attend() noexcept {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock()) return;
  const bool called = looks_ != attended_;
  attended_ = looks_;
  if (called) return;
  looks_ += kLooks - 1 - looks_ % kLooks;  // also at the listener
  (void)progress();
  attended_ = looks_;
}

Status RmaGroup::acceptCallers() {
  for (;;) {
    Result<std::unique_ptr<PutTarget>> accepted = listener_->accept();
    if (!accepted.ok()) return failed(accepted.status());
    if (*accepted == nullptr) return Status::success();
    targets_.emplace_back(std::move(*accepted))->begin();
  }
}

Result<std::unique_ptr<PutTarget>> RmaGroup::makeTarget(const EndInfo& request, std::string& refusal) {
  if (request.user_word >= peers_.size()) {
    refusal = "rank " + std::to_string(request.user_word) + " of " + std::to_string(peers_.size());
    return invalid();
  }
  return PutTarget::create(device_, options_, request, refusal, {windows_, loopback_, slots_});
}

// A connection that does not stand yet, or not any more.
Status RmaGroup::advance(uint32_t rank, Peer& peer) {
  if (peer.writer != nullptr) {
    peer.writer.reset();
    peer.gone = true;
  }
  if (peer.connector == nullptr) return Status::success();
  Result<std::unique_ptr<PutWriter>> connected = peer.connector->advance();
  if (!connected.ok()) {
    RAILWISE_WARN("%s: rank %u cannot be put to, and the group of %zu ranks fails", device_.name(), rank,
                  peers_.size());
    return connected.status();
  }
  if (*connected == nullptr) return Status::success();
  peer.writer = std::move(*connected);
  peer.connector.reset();
  return peer.writer->progress();
}

// ---- the end

Status RmaGroup::fail(Status status, const std::string& what) {
  RAILWISE_WARN("%s: one-sided communication of rank %d fails: %s", device_.name(), rank_, what.c_str());
  return failed(status);
}

Status RmaGroup::failWithoutMemory() noexcept {
  if (!failure_.ok()) return failure_;
  RAILWISE_WARN("%s: one-sided communication of rank %d fails: there was no memory", device_.name(), rank_);
  try {
    (void)failed({Code::kInternal, ENOMEM});
  } catch (const std::bad_alloc&) {  // some peers see an end without a reason, when this rank closes
  }
  for (const uint32_t rank : ranks_in_use_) {
    if (peers_[rank]->writer != nullptr && peers_[rank]->writer->link().failure.ok())
      peers_[rank]->writer->link().failWithoutMemory();
  }
  return failure_;
}

// NCCL does not call a group any more that has returned an error: nobody would apply the signals of its
// peers. So all of them are told first.
Status RmaGroup::failed(Status status, std::optional<uint32_t> lost) {
  if (!failure_.ok()) return failure_;
  failure_ = status;
  has_failed_.store(true, std::memory_order_relaxed);
  const std::string which =
      lost ? "its connection with rank " + std::to_string(*lost) : "a NIC or a connection";
  if (lost)
    RAILWISE_WARN("%s: one-sided communication of rank %d fails: %s has failed, see above", device_.name(),
                  rank_, which.c_str());
  const std::string reason = "rank " + std::to_string(rank_) + " has lost " + which + ", see its log";
  for (const std::unique_ptr<PutTarget>& target : targets_) target->link().abandon(reason);
  for (const uint32_t rank : ranks_in_use_) {
    if (peers_[rank]->writer != nullptr) peers_[rank]->writer->link().abandon(reason);
  }
  return failure_;
}

}  // namespace railwise::net
