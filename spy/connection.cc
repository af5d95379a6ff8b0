#include "spy/connection.h"

#include <algorithm>
#include <atomic>
#include <new>
#include <utility>

#include "base/clock.h"
#include "record/writer.h"
#include "spy/contract.h"

namespace railwise::spy {
namespace {

using record::CallKind;
using record::Side;

// A request that is done keeps its place for so many further requests: a second test of it is noticed, and
// irecvConsumed, which NCCL calls after the receive is done, finds the plugin's request.
constexpr std::size_t kRememberedRequests = 1024;

std::atomic<uint64_t> g_number = 0;

const char* functionName(CallKind kind) { return record::kCallNames[static_cast<std::size_t>(kind)]; }

}  // namespace

Connection::Connection(Side side, void* inner, Device device, Context* context, uint64_t setup_ns)
    : side_(side),
      inner_(inner),
      context_(context),
      device_(std::move(device)),
      number_(++g_number),
      setup_ns_(setup_ns),
      page_memory_(record::PageMemory::allocate(0)) {
  if (page_memory_ == nullptr) throw std::bad_alloc();
  page_ = &record::PageMemory::pageOf(page_memory_);
  record::ConnectionRecord& shown = page_->connection;
  record::openConnection(shown, side, record::ConnectionState::kRunning);
  record::beginChange(shown);
  shown.queue_pairs = 1;
  shown.lanes = 1;
  shown.device_rail = device_.place;
  shown.communicator = context != nullptr ? context->communicator : 0;
  shown.epoch = 1;
  shown.first_message = 1;
  shown.numbers.next = shown.numbers.posted = 1;
  record::setText(shown.device, device_.name);
  page_->queue_pairs[0].used = 1;
  page_->queue_pairs[0].rail = device_.place;
  record::endChange(shown);
  record::noteEvent(record::EventKind::kConnected, name(),
                    {.rail = device_.place, .connection = &shown, .numbers = {0, 0, setup_ns / 1000}});
}

Connection::~Connection() { close(); }

std::string Connection::name() const {
  return (side_ == Side::kSender ? "sender " : "receiver ") + std::to_string(number_) + " on " + device_.name;
}

// ---- counting

void Connection::count(CallKind kind, const Call& call, bool idle) {
  const auto place = static_cast<std::size_t>(kind);
  const uint64_t ns = call.end_ns - call.begin_ns;
  record::CallCounts& counts = figures_.calls[place];
  ++counts.calls;
  counts.idle += idle ? 1 : 0;
  counts.ns += ns;
  figures_.longest_ns[place] = std::max(figures_.longest_ns[place], ns);
  if (call.result != ncclSuccess) {
    ++figures_.errors[place];
    record::countError(device_.place, record::ErrorKind::kOther);
  }
  if (ns > kSlowCallNs)
    reportBreach(Breach::kSlowCall, record(), "%s took %.1f s (%s); it must not block", functionName(kind),
                 static_cast<double>(ns) / 1e9, name().c_str());
  if (figures_.open != 0 && last_call_ns_ != 0 && call.begin_ns > last_call_ns_)
    figures_.longest_gap_ns = std::max(figures_.longest_gap_ns, call.begin_ns - last_call_ns_);
  last_call_ns_ = call.end_ns;
  if (page_ != nullptr) page_->connection.calls[place] = counts;
}

void Connection::account(Wait wait, uint64_t now) {
  if (accounted_ns_ != 0 && now > accounted_ns_)
    figures_.wait_ns[static_cast<std::size_t>(wait)] += now - accounted_ns_;
  accounted_ns_ = now;
}

Wait Connection::waitNow() const {
  if (figures_.open != 0) return Wait::kNetwork;
  return refused_since_ns_ != 0 ? Wait::kPeer : Wait::kNccl;
}

void Connection::show(uint64_t now) {
  if (page_ == nullptr) return;
  record::ConnectionRecord& shown = page_->connection;
  shown.numbers.next = shown.numbers.posted = figures_.messages + 1;
  shown.numbers.complete = shown.numbers.arrived = figures_.done;
  page_->queue_pairs[0].bytes = figures_.bytes;
  record::WaitsFor waits = record::WaitsFor::kNothing;
  if (open_first_ != nullptr) {
    waits = side_ == Side::kSender ? record::WaitsFor::kCompletion : record::WaitsFor::kData;
    shown.oldest = open_first_->number;
    shown.oldest_since_ns = open_first_->posted_ns;
    shown.oldest_bytes = open_first_->bytes;
  } else if (refused_since_ns_ != 0) {
    waits = record::WaitsFor::kClearToSend;
    shown.oldest = figures_.messages + 1;
    shown.oldest_since_ns = refused_since_ns_;
    shown.oldest_bytes = refused_bytes_;
  } else {
    shown.oldest = shown.oldest_since_ns = shown.oldest_bytes = 0;
  }
  if (shown.waits_for != waits) {
    shown.waits_for = waits;
    shown.waits_since_ns = now;
  }
  shown.looked_ns = now;
  shown.in_call = 0;
}

void Connection::enter(CallKind kind, uint64_t now) {
  if (page_ == nullptr) return;
  page_->connection.looked_ns = now;
  page_->connection.in_call = static_cast<uint8_t>(static_cast<int>(kind) + 1);
}

// ---- requests

Request* Connection::takeRequest() {
  if (free_count_ < kRememberedRequests) return &requests_.emplace_back();
  Request* const taken = free_first_;
  free_first_ = taken->next;
  --free_count_;
  return taken;
}

void Connection::open(Request& request) {
  request.state = Request::State::kOpen;
  request.previous = open_last_;
  request.next = nullptr;
  (open_last_ != nullptr ? open_last_->next : open_first_) = &request;
  open_last_ = &request;
  figures_.most_open = std::max(figures_.most_open, ++figures_.open);
}

void Connection::finish(Request& request) {
  request.state = Request::State::kDone;
  (request.previous != nullptr ? request.previous->next : open_first_) = request.next;
  (request.next != nullptr ? request.next->previous : open_last_) = request.previous;
  request.previous = request.next = nullptr;
  --figures_.open;
  (free_count_ != 0 ? free_last_->next : free_first_) = &request;
  free_last_ = &request;
  ++free_count_;
}

// ---- isend, irecv, iflush

void Connection::beforePost(const Posted& posted) {
  if (posted.call == CallKind::kIflush) {
    if (posted.count < 1 || posted.bytes == 0)
      reportBreach(Breach::kFlushOfNothing, record(), "iflush of %d buffers with %llu bytes (%s)",
                   posted.count, static_cast<unsigned long long>(posted.bytes), name().c_str());
    return;
  }
  if (posted.call == CallKind::kIrecv && (posted.count < 1 || posted.count > device_.max_receives))
    reportBreach(Breach::kGroupTooLarge, record(), "irecv of %d buffers, the plugin takes 1 to %d (%s)",
                 posted.count, device_.max_receives, name().c_str());
  const auto each = static_cast<uint64_t>(side_ == Side::kSender ? std::max(device_.max_receives, 1) : 1);
  const uint64_t most = NCCL_NET_MAX_REQUESTS * each;
  const uint64_t open = figures_.messages - figures_.done;
  if (open >= most && !std::exchange(said_too_many_, true))
    reportBreach(Breach::kTooManyRequests, record(),
                 "%s with %llu requests open, %llu is the most (%s; said once for a connection)",
                 functionName(posted.call), static_cast<unsigned long long>(open),
                 static_cast<unsigned long long>(most), name().c_str());
}

void* Connection::afterPost(const Posted& posted, void* given, void* made, const Call& call) {
  const char* const function = functionName(posted.call);
  if (call.result != ncclSuccess) made = nullptr;
  else if (made == given && made != nullptr) {
    reportBreach(Breach::kNotWritten, record(), "%s left the request as it was (%s)", function,
                 name().c_str());
    made = nullptr;
  }
  for (Request* each = open_first_; each != nullptr && made != nullptr; each = each->next) {
    if (each->inner != made) continue;
    reportBreach(Breach::kRequestTwice, record(), "%s gave request %p, which is still open (%s)", function,
                 made, name().c_str());
    break;
  }
  const Wait before = waitNow();
  account(before, call.begin_ns);
  account(made == nullptr ? before : Wait::kPlugin, call.end_ns);
  count(posted.call, call, made == nullptr);
  Request* request = nullptr;
  const bool flush = posted.call == CallKind::kIflush;
  if (made != nullptr) {
    request = takeRequest();
    request->connection = this;
    request->inner = made;
    request->call = posted.call;
    request->optional = posted.optional;
    request->count = posted.count;
    request->bytes = posted.bytes;
    request->sizes = posted.sizes;
    request->posted_ns = call.begin_ns;
    if (!flush) ++figures_.messages;
    request->number = figures_.messages;
    open(*request);
    refused_since_ns_ = 0;
    if (posted.call == CallKind::kIsend) figures_.bytes += posted.bytes;
    if (posted.call == CallKind::kIrecv && posted.count >= 1) {
      const auto place = static_cast<std::size_t>(std::min(posted.count, 8) - 1);
      ++figures_.groups[place];
      if (page_ != nullptr) page_->connection.group_sizes[place] = figures_.groups[place];
    }
  } else if (posted.call == CallKind::kIsend && call.result == ncclSuccess && refused_since_ns_ == 0) {
    refused_since_ns_ = call.begin_ns;
    refused_bytes_ = posted.bytes;
  }
  show(call.end_ns);
  return request;
}

// ---- test

void Connection::afterTest(Request& request, int done, const int* sizes, const Call& call) {
  if (call.result == ncclSuccess && done == kUnwritten)
    reportBreach(Breach::kNotWritten, record(), "test left done as it was (%s)", name().c_str());
  const bool complete = call.result == ncclSuccess && done != 0 && done != kUnwritten;
  account(Wait::kNetwork, call.begin_ns);
  account(complete ? Wait::kPlugin : Wait::kNetwork, call.end_ns);
  count(CallKind::kTest, call, !complete);
  if (complete) {
    uint64_t arrived = 0;
    for (int i = 0; sizes != nullptr && i < request.count && request.call == CallKind::kIrecv; ++i) {
      if (sizes[i] == kUnwritten) {
        if (!request.optional)
          reportBreach(Breach::kNotWritten, record(),
                       "test said done and did not write the size of buffer %d of %d (%s)", i, request.count,
                       name().c_str());
        continue;
      }
      if (sizes[i] < 0) {
        reportBreach(Breach::kImpossibleSize, record(), "test said that %d bytes have arrived (%s)", sizes[i],
                     name().c_str());
        continue;
      }
      const auto size = static_cast<uint64_t>(sizes[i]);
      arrived += size;
      if (i < Request::kSizes && size > request.sizes[static_cast<std::size_t>(i)])
        reportBreach(Breach::kTooMuch, record(), "%d bytes have arrived in a buffer of %llu (%s)", sizes[i],
                     static_cast<unsigned long long>(request.sizes[static_cast<std::size_t>(i)]),
                     name().c_str());
    }
    if (request.call != CallKind::kIflush) {
      const auto latency = static_cast<std::size_t>(record::bucketOf(call.end_ns - request.posted_ns));
      const auto size = static_cast<std::size_t>(
          record::bucketOf(request.call == CallKind::kIsend ? request.bytes : arrived));
      ++figures_.latency[latency];
      ++figures_.size[size];
      if (page_ != nullptr) {
        page_->connection.latency[latency] = figures_.latency[latency];
        page_->connection.size[size] = figures_.size[size];
      }
      ++figures_.done;
    }
    if (request.call == CallKind::kIrecv) figures_.bytes += arrived;
    finish(request);
  }
  show(call.end_ns);
}

// ---- memory and the end

void Connection::registered(void* memory) {
  const std::lock_guard lock(memory_mutex_);
  ++memory_[memory];
}

bool Connection::deregistered(void* memory) {
  const std::lock_guard lock(memory_mutex_);
  const auto found = memory_.find(memory);
  if (found == memory_.end()) return false;
  if (--found->second == 0) memory_.erase(found);
  return true;
}

std::size_t Connection::registeredNow() {
  const std::lock_guard lock(memory_mutex_);
  std::size_t count = 0;
  for (const auto& [memory, times] : memory_) count += times;
  return count;
}

void Connection::close() {
  if (std::exchange(closed_, true)) return;
  record::noteEvent(record::EventKind::kClosed, name(), {.rail = device_.place, .connection = record()});
  record::foldQueuePairs(*page_);
  record::setState(page_->connection, record::ConnectionState::kClosed);
  page_ = nullptr;
  record::PageMemory::free(std::exchange(page_memory_, nullptr), 0);
}

}  // namespace railwise::spy
