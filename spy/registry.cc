#include "spy/registry.h"

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "record/writer.h"
#include "spy/contract.h"

namespace railwise::spy {
namespace {

// Objects that are closed stay for a while, so that a call on one of them is noticed.
constexpr std::size_t kRememberedObjects = 1024;
// Closed connections that the report lists one by one.
constexpr std::size_t kReports = 4096;
// Connections that are being made: attempts that NCCL has given up are not told to the plugin.
constexpr std::size_t kAttempts = 65536;

// Functions that NCCL calls while other connections wait, and that the contract wants to return at once.
bool mustNotBlock(Function function) {
  return function == Function::kListen || function == Function::kConnect || function == Function::kAccept ||
         function == Function::kIrecvConsumed || function == Function::kSetNetAttr ||
         function == Function::kIput || function == Function::kIputSignal || function == Function::kIget;
}

}  // namespace

// Never destroyed: NCCL's threads may still call while the process ends.
Registry& Registry::get() {
  static Registry& it = *new Registry;
  return it;
}

void Registry::count(Function function, const Call& call) {
  FunctionCounts& counts = counts_[static_cast<std::size_t>(function)];
  const uint64_t ns = call.end_ns - call.begin_ns;
  counts.calls.fetch_add(1, std::memory_order_relaxed);
  counts.ns.fetch_add(ns, std::memory_order_relaxed);
  if (call.result != ncclSuccess) counts.errors.fetch_add(1, std::memory_order_relaxed);
  uint64_t longest = counts.longest_ns.load(std::memory_order_relaxed);
  while (ns > longest && !counts.longest_ns.compare_exchange_weak(longest, ns, std::memory_order_relaxed)) {
  }
  if (ns > kSlowCallNs && mustNotBlock(function))
    reportBreach(Breach::kSlowCall, nullptr, "%s took %.1f s; it must not block", functionName(function),
                 static_cast<double>(ns) / 1e9);
}

void Registry::addOneSided(const record::OneSidedTotals& more) {
  const std::lock_guard lock(mutex_);
  record::add(ended_.one_sided, more);
}

void Registry::keep(const Device& device) {
  Device kept = device;
  kept.place = record::addRail({.device = device.name,
                                .port = device.port,
                                .rail = device.rail,
                                .plane = device.plane,
                                .claimed_mbps = static_cast<uint32_t>(std::max(device.mbps, 0))});
  const std::lock_guard lock(mutex_);
  devices_[device.index] = kept;
}

std::optional<Device> Registry::device(int index) {
  const std::lock_guard lock(mutex_);
  const auto found = devices_.find(index);
  if (found == devices_.end()) return std::nullopt;
  return found->second;
}

Context* Registry::begin(void* inner, uint64_t communicator, int traffic_class) {
  const std::lock_guard lock(mutex_);
  ++communicators_;
  Context& made = contexts_.emplace_back();
  made.room.traffic_class = traffic_class;
  made.inner = inner;
  made.communicator = communicator;
  return &made;
}

void Registry::end(Context& context) {
  const std::lock_guard lock(mutex_);
  context.ended = true;
  --communicators_;
  for (auto each = open_.begin(); each != open_.end();) {
    const bool ends = each->first->context() == &context;
    if (ends) bury(std::move(each->second), false);
    each = ends ? open_.erase(each) : std::next(each);
  }
  for (auto each = listeners_.begin(); each != listeners_.end();) {
    const bool ends = each->first->context == &context;
    if (ends) {
      ++ended_.listeners;
      each->first->closed = true;
      closed_listeners_.push_back(std::move(each->second));
    }
    each = ends ? listeners_.erase(each) : std::next(each);
  }
}

Listener* Registry::addListener(void* inner, Device device, Context* context) {
  auto made = std::make_unique<Listener>();
  made->inner = inner;
  made->context = context;
  made->device = std::move(device);
  Listener* const listener = made.get();
  const std::lock_guard lock(mutex_);
  listeners_.emplace(listener, std::move(made));
  return listener;
}

void Registry::close(Listener& listener) {
  const std::lock_guard lock(mutex_);
  listener.closed = true;
  attempts_.erase(&listener);
  const auto found = listeners_.find(&listener);
  if (found == listeners_.end()) return;
  closed_listeners_.push_back(std::move(found->second));
  listeners_.erase(found);
  if (closed_listeners_.size() > kRememberedObjects) closed_listeners_.pop_front();
}

void Registry::attempt(const void* key, uint64_t now) {
  const std::lock_guard lock(mutex_);
  if (attempts_.size() < kAttempts) attempts_.emplace(key, now);
}

void Registry::giveUp(const void* key) {
  const std::lock_guard lock(mutex_);
  attempts_.erase(key);
}

Connection* Registry::addConnection(record::Side side, void* inner, const Device& device, Context* context,
                                    const void* key) {
  const std::lock_guard lock(mutex_);
  uint64_t setup_ns = 0;
  if (const auto begun = attempts_.find(key); begun != attempts_.end()) {
    setup_ns = nowNs() - begun->second;
    attempts_.erase(begun);
  }
  auto made = std::make_unique<Connection>(side, inner, device, context, setup_ns);
  Connection* const connection = made.get();
  open_.emplace(connection, std::move(made));
  return connection;
}

void Registry::close(Connection& connection) {
  const std::lock_guard lock(mutex_);
  const auto found = open_.find(&connection);
  if (found == open_.end()) return;
  bury(std::move(found->second), true);
  open_.erase(found);
}

ConnectionReport Registry::reportOf(Connection& connection, bool closed) {
  return {.number = connection.number(),
          .side = connection.side(),
          .device = connection.device().name,
          .communicator = connection.context() != nullptr ? connection.context()->communicator : 0,
          .setup_ns = connection.setupNs(),
          .closed = closed,
          .memory_left = connection.registeredNow(),
          .figures = connection.figures()};
}

void Registry::bury(std::unique_ptr<Connection> connection, bool closed) {
  if (ended_.connections.size() < kReports) ended_.connections.push_back(reportOf(*connection, closed));
  else ++ended_.forgotten;
  connection->close();
  closed_.push_back(std::move(connection));
  if (closed_.size() > kRememberedObjects) closed_.pop_front();
}

bool Registry::idle() {
  const std::lock_guard lock(mutex_);
  return communicators_ == 0 && open_.empty();
}

Registry::Report Registry::report() {
  const std::lock_guard lock(mutex_);
  Report all = ended_;
  all.listeners += listeners_.size();
  for (const auto& [connection, owned] : open_) all.connections.push_back(reportOf(*connection, false));
  std::ranges::sort(all.connections, {}, &ConnectionReport::number);
  return all;
}

}  // namespace railwise::spy
