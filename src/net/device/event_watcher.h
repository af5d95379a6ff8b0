// What the devices say by themselves: a link goes down or comes back, an address changes, the device fails.
// One thread of the process reads the events of all devices, says each once in words with what to check, and
// keeps the state of ports here. A reader sees a change within a millisecond or so of the driver's report.
// Used by net::Net, which makes a DeviceState for each verbs device and one EventWatcher.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_set>
#include <utility>
#include <vector>

#include "verbs/async_events.h"
#include "verbs/gid.h"
#include "verbs/port.h"

namespace railwise::net {

// Something whose descriptor the watcher's thread waits for.
class Watched {
 public:
  virtual int descriptor() const = 0;
  // Called by the watcher's thread when there is something to read, or nothing will ever be again
  // (`hung_up`). False: never again, it is unwatched.
  virtual bool serve(bool hung_up) = 0;
  // Called some hundred times a second after something was served, until it answers false.
  virtual bool tick() { return false; }

 protected:
  ~Watched() = default;
};

// A verbs device as its events tell of it. Written by the watcher's thread, read by any.
class DeviceState final : public Watched {
 public:
  // `context` outlives it. `ports`: as queried when the device was opened, any of them, in any order.
  DeviceState(ibv_context* context, const std::vector<verbs::Port>& ports);
  DeviceState(const DeviceState&) = delete;
  DeviceState& operator=(const DeviceState&) = delete;

  ibv_context* context() const { return context_; }
  const char* name() const { return verbs::library().get_device_name(context_->device); }

  // The device has failed: nothing works over it any more.
  bool fatal() const { return fatal_.raised(); }
  std::optional<ibv_event_type> fatalEvent() const { return fatal_.event(); }

  // Of a port that is not among `ports`: false, 0, nothing.
  bool active(uint8_t port) const;
  // Counts every event that concerned the port: who remembers it knows when to look again. Cheap.
  uint32_t changes(uint8_t port) const;
  // The port's attributes (LID, MTU, speed) as of the last event that may have changed them.
  std::optional<verbs::Port> port(uint8_t port) const;

  // `gids` (null: none) is invalidated when the port's addresses may have changed. It must live until
  // unwatched, or until another takes its place.
  void setGids(uint8_t port, verbs::GidTable* gids);

  // `bell` rings at every event of a port, and when the device fails, until it is forgotten.
  void tell(verbs::FatalFlag* bell);
  void forget(verbs::FatalFlag* bell);
  void ringAll();

  // Called by the watcher's thread once the device has failed; set before it is watched.
  void whenFailed(std::function<void()> call) { when_failed_ = std::move(call); }

  // Asks the device again about all its ports.
  void refresh();
  // For the watcher: the event, said and taken to heart.
  void handle(const verbs::AsyncEvent& event);
  void fail(ibv_event_type event);

  int descriptor() const override { return context_->async_fd; }
  bool serve(bool hung_up) override;

 private:
  struct PortState {
    explicit PortState(const verbs::Port& now)
        : number(now.number), told_up(now.active), active(now.active), attributes(now) {}
    const uint8_t number;
    bool told_up;  // what was said last; the watcher's thread's own
    std::atomic<bool> active;
    std::atomic<uint32_t> changes{0};
    mutable std::mutex mutex;  // guards what follows
    verbs::Port attributes;
    verbs::GidTable* gids = nullptr;
  };
  PortState* find(uint8_t port) const;
  void refresh(PortState& port, verbs::EventEffect effect);

  ibv_context* const context_;
  verbs::FatalFlag fatal_;
  std::vector<std::unique_ptr<PortState>> ports_;
  std::mutex bells_mutex_;
  std::unordered_set<verbs::FatalFlag*> bells_;
  std::function<void()> when_failed_;
};

class EventWatcher {
 public:
  // `thread_name`: up to 15 characters. Errors: kSystem, logged. Without a watcher everything works, but
  // nothing is noticed before it fails.
  static Result<std::unique_ptr<EventWatcher>> start(const char* thread_name = "railwise-events");
  // Ends the thread; no DeviceState is touched afterwards. In a forked child, which has no such thread, it
  // leaves everything as it is.
  ~EventWatcher();
  EventWatcher(const EventWatcher&) = delete;
  EventWatcher& operator=(const EventWatcher&) = delete;

  // From now on until unwatch() (or the watcher's end) the thread reads the device's events. Errors: kSystem,
  // logged.
  Status watch(DeviceState& device);
  // The same for anything. False: not in a forked child, which has no such thread.
  Result<bool> watch(Watched& what);
  // Returns when the thread is done with it.
  void unwatch(Watched& what);

 private:
  EventWatcher() = default;
  void run();
  bool inParent() const;

  int epoll_fd_ = -1;
  int stop_fd_ = -1;
  int owner_pid_ = 0;
  std::mutex mutex_;  // guards watched_, and is held while one of them is served
  std::unordered_set<Watched*> watched_;
  std::unordered_set<Watched*> ticking_;
  std::thread thread_;
};

}  // namespace railwise::net
