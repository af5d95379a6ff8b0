#include "net/device/event_watcher.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <new>
#include <system_error>
#include <utility>

#include "base/background_thread.h"
#include "base/log.h"
#include "base/process.h"
#include "net/patience.h"
#include "record/writer.h"

namespace railwise::net {
namespace {

// A device that reports events without end must not keep the thread from the other devices.
constexpr int kEventsAtOnce = 64;
constexpr uint32_t kInterest = EPOLLIN | EPOLLRDHUP;

record::EventKind eventKindOf(verbs::EventEffect effect) {
  switch (effect) {
    case verbs::EventEffect::kFatal:
      return record::EventKind::kDeviceFailed;
    case verbs::EventEffect::kPortDown:
      return record::EventKind::kPortDown;
    case verbs::EventEffect::kPortUp:
      return record::EventKind::kPortUp;
    case verbs::EventEffect::kAddresses:
      return record::EventKind::kAddressChanged;
    default:
      return record::EventKind::kOtherEvent;
  }
}

Status failed(const char* call, int error) {
  RAILWISE_WARN("events of devices are not watched: %s failed: %s", call, std::strerror(error));
  return {Code::kSystem, error};
}

}  // namespace

DeviceState::DeviceState(ibv_context* context, const std::vector<verbs::Port>& ports) : context_(context) {
  for (const verbs::Port& port : ports) ports_.push_back(std::make_unique<PortState>(port));
}

DeviceState::PortState* DeviceState::find(uint8_t port) const {
  for (const auto& state : ports_) {
    if (state->number == port) return state.get();
  }
  return nullptr;
}

bool DeviceState::active(uint8_t port) const {
  const PortState* state = find(port);
  return state != nullptr && !fatal() && state->active.load(std::memory_order_acquire);
}

uint32_t DeviceState::changes(uint8_t port) const {
  const PortState* state = find(port);
  return state != nullptr ? state->changes.load(std::memory_order_acquire) : 0;
}

std::optional<verbs::Port> DeviceState::port(uint8_t port) const {
  const PortState* state = find(port);
  if (state == nullptr) return std::nullopt;
  const std::lock_guard lock(state->mutex);
  return state->attributes;
}

void DeviceState::setGids(uint8_t port, verbs::GidTable* gids) {
  PortState* state = find(port);
  if (state == nullptr) return;
  const std::lock_guard lock(state->mutex);
  state->gids = gids;
}

void DeviceState::tell(verbs::FatalFlag* bell) {
  const std::lock_guard lock(bells_mutex_);
  bells_.insert(bell);
}

void DeviceState::forget(verbs::FatalFlag* bell) {
  const std::lock_guard lock(bells_mutex_);
  bells_.erase(bell);
}

void DeviceState::ringAll() {
  const std::lock_guard lock(bells_mutex_);
  for (verbs::FatalFlag* bell : bells_) bell->ring();
}

void DeviceState::fail(ibv_event_type event) {
  const bool first = !fatal();
  fatal_.raise(event);
  for (const auto& state : ports_) {
    const uint16_t rail = record::railOf(name(), state->number);
    record::setRailState(rail, record::RailState::kFailed);
    if (first) record::countError(rail, record::ErrorKind::kDeviceFailed);
  }
  ringAll();
  if (first && when_failed_) when_failed_();
}

void DeviceState::detach(ibv_qp& queue_pair) {
  const std::lock_guard lock(flags_mutex_);
  // A thread of the device may be in ibv_query_qp, which copies it (device/fence.h).
  std::atomic_ref(queue_pair.qp_context).store(nullptr, std::memory_order_relaxed);
}

void DeviceState::detach(ibv_cq& cq) {
  const std::lock_guard lock(flags_mutex_);
  cq.cq_context = nullptr;
}

void DeviceState::raiseFlag(const verbs::AsyncEvent& event) {
  const std::lock_guard lock(flags_mutex_);
  if (verbs::FatalFlag* const flag = event.flag(); flag != nullptr) flag->raise(event.type);
}

void DeviceState::refresh() {
  for (const auto& state : ports_) refresh(*state, verbs::EventEffect::kAddresses);
}

// The event itself says whether the link is up, if it can: drivers may report the event before the port's
// attributes change.
void DeviceState::refresh(PortState& state, verbs::EventEffect effect) {
  const bool up = effect == verbs::EventEffect::kPortUp;
  const bool told = up || effect == verbs::EventEffect::kPortDown;
  const uint32_t before = state.changes.load(std::memory_order_acquire);
  const Result<verbs::Port> now = verbs::queryPort(context_, state.number);
  const std::lock_guard lock(state.mutex);
  // Another thread has asked the device since, perhaps because of an event. Its answer is newer.
  const bool old = !told && state.changes.load(std::memory_order_acquire) != before;
  if (now.ok() && !old) {
    const uint8_t lag_ports = state.attributes.lag_ports;  // queryPort() does not ask for the bond
    state.attributes = *now;
    state.attributes.lag_ports = lag_ports;
  }
  if (told) state.attributes.active = up;
  state.active.store(state.attributes.active, std::memory_order_release);
  if (const uint16_t rail = record::railOf(name(), state.number); !fatal()) {
    record::setRailState(rail, state.attributes.active ? record::RailState::kUp : record::RailState::kDown);
    if (now.ok()) record::setClaimedSpeed(rail, static_cast<uint32_t>(state.attributes.speed_mbps));
  }
  if (state.gids != nullptr) state.gids->invalidate();
  state.changes.fetch_add(1, std::memory_order_acq_rel);
}

void DeviceState::handle(const verbs::AsyncEvent& event) {
  const verbs::EventEffect effect = verbs::effectOf(event.type);
  std::string text;
  try {
    text = verbs::describeEvent(name(), event);
  } catch (const std::bad_alloc&) {  // the event comes once: without memory it is acted on without words
  }
  const uint16_t rail =
      event.of == verbs::AsyncEvent::Of::kPort ? record::railOf(name(), event.port) : record::kNoRail;
  record::noteEvent(eventKindOf(effect), text, {.rail = rail});
  switch (effect) {
    case verbs::EventEffect::kFatal:
      if (event.of == verbs::AsyncEvent::Of::kDevice) fail(event.type);
      raiseFlag(event);
      RAILWISE_WARN("%s", text.c_str());
      break;
    case verbs::EventEffect::kPortDown:
    case verbs::EventEffect::kPortUp: {
      // Soft-RoCE reports each event twice.
      PortState* const state = find(event.port);
      const bool up = effect == verbs::EventEffect::kPortUp;
      if (state == nullptr || std::exchange(state->told_up, up) != up) {
        RAILWISE_WARN("%s", text.c_str());
        if (!up) record::countError(rail, record::ErrorKind::kPortDown);
      }
      break;
    }
    default:
      RAILWISE_INFO(log::kNet, "%s", text.c_str());
  }
  if (event.of != verbs::AsyncEvent::Of::kPort) return;
  if (PortState* state = find(event.port); state != nullptr) refresh(*state, effect);
  ringAll();
}

bool DeviceState::serve(bool hung_up) {
  for (int i = 0; i < kEventsAtOnce; ++i) {
    const Result<bool> taken =
        verbs::takeEvent(context_, [&](const verbs::AsyncEvent& event) { handle(event); });
    if (taken.ok() && *taken) continue;
    if (taken.ok() && !hung_up) return true;
    // The kernel has dropped the device. Its descriptor would wake the thread for ever.
    RAILWISE_WARN("%s: the device is gone: look for its reset or removal in `dmesg`", name());
    fail(IBV_EVENT_DEVICE_FATAL);
    return false;
  }
  return true;
}

Result<std::unique_ptr<EventWatcher>> EventWatcher::start(const char* thread_name) {
  std::unique_ptr<EventWatcher> watcher(new EventWatcher);
  watcher->owner_pid_ = processId();
  watcher->epoll_fd_ = epoll_create1(EPOLL_CLOEXEC);
  if (watcher->epoll_fd_ < 0) return failed("epoll_create1", errno);
  watcher->wake_fd_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (watcher->wake_fd_ < 0) return failed("eventfd", errno);
  epoll_event interest = {};
  interest.events = EPOLLIN;
  interest.data.ptr = nullptr;
  if (epoll_ctl(watcher->epoll_fd_, EPOLL_CTL_ADD, watcher->wake_fd_, &interest) != 0)
    return failed("epoll_ctl", errno);
  try {
    watcher->thread_ = startBackgroundThread([self = watcher.get()] {
      self->run();
      self->ended_.store(true, std::memory_order_release);
    });
  } catch (const std::system_error& error) {
    return failed("the start of a thread", error.code().value());
  }
  pthread_setname_np(watcher->thread_.native_handle(), thread_name);
  return watcher;
}

EventWatcher::~EventWatcher() {
  if (thread_.joinable() && inParent()) {
    stopping_.store(true, std::memory_order_release);
    wake();
    thread_.join();
  } else {
    forgetThread(thread_);
  }
  // The child's descriptors are its own; closing them changes nothing for the parent.
  if (wake_fd_ >= 0) close(wake_fd_);
  if (epoll_fd_ >= 0) close(epoll_fd_);
}

bool EventWatcher::finish(Clock::duration patience) {
  if (!thread_.joinable() || !inParent()) return true;
  stopping_.store(true, std::memory_order_release);
  wake();
  const Deadline deadline = Deadline::after(patience);
  while (!ended_.load(std::memory_order_acquire) && !deadline.passed())
    std::this_thread::sleep_for(Patience::kThreadEnds);
  const bool ended = ended_.load(std::memory_order_acquire);
  ended ? thread_.join() : thread_.detach();
  return ended;
}

bool EventWatcher::inParent() const { return processId() == owner_pid_; }

Status EventWatcher::watch(DeviceState& device) {
  // A child shares the parent's epoll set, and its copy of the lock may be held for ever.
  if (!inParent()) return Status::success();
  RAILWISE_TRY(verbs::makeEventsNonBlocking(device.context()));
  RAILWISE_TRY(watch(static_cast<Watched&>(device)).status());
  device.refresh();  // what happened since it was opened
  return Status::success();
}

Result<bool> EventWatcher::watch(Watched& what) {
  if (!inParent()) return false;
  const std::lock_guard lock(mutex_);
  if (!watched_.emplace(&what, false).second) return true;
  if (!proceed(what) && errno != EEXIST) {  // EEXIST: the thread itself was faster
    const int error = errno;
    watched_.erase(&what);
    return failed("epoll_ctl", error);
  }
  return true;
}

void EventWatcher::unwatch(Watched& what) {
  if (!inParent()) return;
  const std::lock_guard lock(mutex_);
  if (watched_.erase(&what) == 0) return;
  (void)epoll_ctl(epoll_fd_, EPOLL_CTL_DEL, what.descriptor(), nullptr);
}

void EventWatcher::startTicks(Watched& what) {
  const std::lock_guard lock(mutex_);
  const auto found = watched_.find(&what);
  if (found == watched_.end() || std::exchange(found->second, true)) return;
  may_tick_ = true;
  if (std::this_thread::get_id() != thread_.get_id()) wake();
}

void EventWatcher::wake() const {
  const uint64_t one = 1;
  if (write(wake_fd_, &one, sizeof one) < 0)
    RAILWISE_INFO(log::kNet, "the events' thread cannot be woken: %s", std::strerror(errno));
}

void EventWatcher::pause(const Watched& what) const {
  (void)epoll_ctl(epoll_fd_, EPOLL_CTL_DEL, what.descriptor(), nullptr);
}

bool EventWatcher::proceed(Watched& what) const {
  epoll_event interest = {};
  interest.events = kInterest;
  interest.data.ptr = &what;
  return epoll_ctl(epoll_fd_, EPOLL_CTL_ADD, what.descriptor(), &interest) == 0;
}

// Without memory it goes on with the next event. What must not be lost needs none (DeviceState::handle()).
static bool serveSafely(Watched& watched, bool hung_up) {
  try {
    return watched.serve(hung_up);
  } catch (const std::bad_alloc&) {
    return true;
  }
}

static bool tickSafely(Watched& watched) {
  try {
    return watched.tick();
  } catch (const std::bad_alloc&) {
    return true;
  }
}

void EventWatcher::run() {
  std::array<epoll_event, 16> ready;
  for (;;) {
    const bool ticking = [&] {
      const std::lock_guard lock(mutex_);
      if (!may_tick_) return false;  // there may be thousands of objects, and no ticks for most of the time
      for (auto& [watched, ticks] : watched_) ticks = ticks && tickSafely(*watched);
      return may_tick_ =
                 std::any_of(watched_.begin(), watched_.end(), [](const auto& each) { return each.second; });
    }();
    record::beat();
    const auto pause = ticking ? Patience::kTick : record::kBeat;
    const int count =
        epoll_wait(epoll_fd_, ready.data(), static_cast<int>(ready.size()), static_cast<int>(pause.count()));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      (void)failed("epoll_wait", errno);
      return;
    }
    for (int i = 0; i < count; ++i) {
      const epoll_event& event = ready[static_cast<std::size_t>(i)];
      if (event.data.ptr == nullptr) {
        uint64_t times = 0;
        (void)!read(wake_fd_, &times, sizeof times);
        if (stopping_.load(std::memory_order_acquire)) return;
        continue;
      }
      const std::lock_guard lock(mutex_);
      auto* const watched = static_cast<Watched*>(event.data.ptr);
      const auto found = watched_.find(watched);
      if (found == watched_.end()) continue;  // unwatched since epoll_wait returned
      if (serveSafely(*watched, (event.events & (EPOLLERR | EPOLLHUP)) != 0)) {
        found->second = may_tick_ = true;
        continue;
      }
      watched_.erase(found);
      (void)epoll_ctl(epoll_fd_, EPOLL_CTL_DEL, watched->descriptor(), nullptr);
    }
  }
}

}  // namespace railwise::net
