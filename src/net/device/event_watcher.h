// The asynchronous events of the devices: a link goes down or comes back, an address changes, a device fails.
// An EventWatcher has one thread, which reads the events of all devices, logs each event once with what to
// check, and keeps the state of the ports in a DeviceState. A reader sees a change as soon as the thread has
// read the driver's event. net::Hca makes a DeviceState for each verbs device, and DeviceList has one
// EventWatcher for all of them. net::Net has a second EventWatcher, for side channels.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "net/device/path_news.h"
#include "verbs/async_events.h"
#include "verbs/gid.h"
#include "verbs/port.h"

namespace railwise::net {

// An object whose descriptor the watcher's thread waits for.
class Watched {
 public:
  virtual int descriptor() const = 0;
  // Called by the watcher's thread when there is something to read, or when the descriptor has hung up
  // (`hung_up`). False: the watcher must not watch it any longer.
  virtual bool serve(bool hung_up) = 0;
  // Called every few milliseconds after serve(), until tick() returns false.
  virtual bool tick() { return false; }

 protected:
  ~Watched() = default;
};

// The state of a verbs device, as its events report it. The watcher's thread writes it, any thread may read
// it.
class DeviceState final : public Watched {
 public:
  // `context` outlives this object. `ports`: some or all ports of the device in any order, as queried when
  // the device was opened.
  DeviceState(ibv_context* context, const std::vector<verbs::Port>& ports);
  DeviceState(const DeviceState&) = delete;
  DeviceState& operator=(const DeviceState&) = delete;

  ibv_context* context() const { return context_; }
  const char* name() const { return verbs::library().get_device_name(context_->device); }

  // The device has failed: nothing works over it any more.
  bool fatal() const { return fatal_.raised(); }
  std::optional<ibv_event_type> fatalEvent() const { return fatal_.event(); }

  // The device was opened anew after a failure. Set before others know of it.
  bool returned() const { return returned_; }
  void setReturned() { returned_ = true; }
  // Is all memory registered with it? If not, connections ask for each key (MemoryCache::keysOn). A device
  // that has returned need not take all memory.
  bool hasKeys() const { return has_keys_.load(std::memory_order_acquire); }
  void lackKeys() { has_keys_.store(false, std::memory_order_release); }

  // For a port that is not among `ports` the next three functions return false, 0 and nothing.
  // active(): is the port up, and has the device not failed?
  bool active(uint8_t port) const;
  // Counts every event of the port. A changed number means: look again. Cheap.
  uint32_t changes(uint8_t port) const;
  // The port's attributes (LID, MTU, speed) after the last event that may have changed them.
  std::optional<verbs::Port> port(uint8_t port) const;

  // Sets the GID table that is invalidated when the port's addresses may have changed (null: none). The table
  // must live until this object is unwatched, or until another table is set.
  void setGids(uint8_t port, verbs::GidTable* gids);

  // tell(): from now on `bell` rings at every event of a port, and when the device fails. forget() ends that.
  void tell(verbs::FatalFlag* bell);
  void forget(verbs::FatalFlag* bell);
  void ringAll();
  // No event raises the flag of this object from now on, so the flag may be destroyed before the object.
  void detach(ibv_qp& queue_pair);
  void detach(ibv_cq& cq);
  // What the connections over this device tell each other. suspect() also rings their bells.
  PathNews& news() { return news_; }
  void suspect(uint64_t path) {
    news_.suspect(path);
    ringAll();
  }

  // Sets what the watcher's thread calls once the device has failed. Set it before the device is watched.
  void whenFailed(std::function<void()> call) { when_failed_ = std::move(call); }

  // Queries all ports of the device again.
  void refresh();
  // Called by the watcher: logs the event and updates the state.
  void handle(const verbs::AsyncEvent& event);
  void fail(ibv_event_type event);

  int descriptor() const override { return context_->async_fd; }
  bool serve(bool hung_up) override;

 private:
  struct PortState {
    explicit PortState(const verbs::Port& now)
        : number(now.number), told_up(now.active), active(now.active), attributes(now) {}
    const uint8_t number;
    bool told_up;  // the state that was logged last; only the watcher's thread uses it
    std::atomic<bool> active;
    std::atomic<uint32_t> changes{0};
    mutable std::mutex mutex;  // guards the members below
    verbs::Port attributes;
    verbs::GidTable* gids = nullptr;
  };
  PortState* find(uint8_t port) const;
  void refresh(PortState& port, verbs::EventEffect effect);
  void raiseFlag(const verbs::AsyncEvent& event);

  ibv_context* const context_;
  verbs::FatalFlag fatal_;
  bool returned_ = false;
  std::atomic<bool> has_keys_{true};
  std::vector<std::unique_ptr<PortState>> ports_;
  std::mutex flags_mutex_;  // guards the qp_context and cq_context of the device's objects
  std::mutex bells_mutex_;
  std::unordered_set<verbs::FatalFlag*> bells_;
  std::function<void()> when_failed_;
  PathNews news_;
};

class EventWatcher {
 public:
  // `thread_name`: up to 15 characters. Errors: kSystem, logged. Without a watcher everything works, but a
  // problem is noticed only when something fails.
  static Result<std::unique_ptr<EventWatcher>> start(const char* thread_name = "railwise-events");
  // Ends the thread; no DeviceState is touched afterwards. In a forked child, which has no such thread, the
  // destructor only closes its descriptors.
  ~EventWatcher();
  EventWatcher(const EventWatcher&) = delete;
  EventWatcher& operator=(const EventWatcher&) = delete;

  // The thread reads the device's events from now on, until unwatch() or until the watcher is destroyed.
  // Errors: kSystem, logged.
  Status watch(DeviceState& device);
  // Ends the thread. False: for `patience` it has not returned from a driver. It is left behind, ends by
  // itself, and the watcher and what it watches must stay.
  bool finish(Clock::duration patience);
  // Watches any object. False: not watched, because this is a forked child, which has no such thread.
  Result<bool> watch(Watched& what);
  // Returns when the thread no longer uses `what`.
  void unwatch(Watched& what);
  // Is this the process whose thread watches, and not a forked child of it?
  bool inParent() const;

  // Of an object that is watched, without allocating. startTicks(), from any thread: tick() is called until
  // it returns false. From the watcher's thread: nobody waits for the descriptor from pause() until
  // proceed(), when it may be another one; proceed() is false if the kernel has no memory.
  void startTicks(Watched& what);
  void pause(const Watched& what) const;
  bool proceed(Watched& what) const;

 private:
  EventWatcher() = default;
  void run();
  void wake() const;

  int epoll_fd_ = -1;
  int wake_fd_ = -1;
  std::atomic<bool> stopping_{false};
  std::atomic<bool> ended_{false};
  int owner_pid_ = 0;
  // Guards watched_; held while the thread calls one of the objects, which may watch and unwatch others.
  std::recursive_mutex mutex_;
  // Whether an object ticks. One table, so that the thread allocates nothing. A map, whose places stay valid
  // while other objects come and go.
  std::map<Watched*, bool> watched_;
  bool may_tick_ = false;  // one of them may want ticks
  std::thread thread_;
};

}  // namespace railwise::net
