// One communicator of the stress, as NCCL runs it: a service thread that makes, registers and closes, and a
// progress thread that transfers at the same time. It lives for one round.
#pragma once

#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "plugin/stress/channel.h"
#include "plugin/stress/watch.h"

namespace railwise::test {

// What all ranks of the process share.
struct Process {
  Pages source{2 * kSourceBytes};
  Abilities abilities;
  Totals totals;
  std::mutex net_mutex;                 // NCCL's netPluginMutex: init, finalize
  std::vector<int> devices;             // physical and virtual ones, all of which reach each other
  std::atomic<bool> disturbed = false;  // ports go down: any call may fail
};

// What the two ranks of a round share: NCCL's bootstrap, and the application that aborts.
struct Meeting {
  struct Mailbox {
    std::atomic<bool> full = false;
    Handle handle;
  };
  explicit Meeting(std::size_t channels) : mailboxes(channels) {}
  std::vector<Mailbox> mailboxes;     // of each channel, from its receiver
  std::atomic<bool> aborted = false;  // the application has told all ranks
  std::atomic<bool> left = false;     // some rank has begun to leave early: errors are to be expected
  std::atomic<int> done = 0;          // ranks that have transferred everything
};

template <typename A>
class Rank {
 public:
  Rank(Process& process, const RoundPlan& plan, Meeting& meeting, int number, uint64_t seed, Watched& service,
       Watched& progress)
      : process_(process),
        totals_(process.totals),
        plan_(plan),
        meeting_(meeting),
        number_(number),
        dice_(seed),
        service_(service),
        progress_(progress) {}

  // The service thread; makes the progress thread, and returns when the communicator is gone.
  void run(const std::string& name) {
    nameThread(name + " service");
    begin();
    std::thread progress([&] {
      nameThread(name + " progress");
      transfer();
    });
    try {
      serve();
    } catch (const CallFailed& failed) {
      expected(failed);
    }
    if (!finished_.load()) leave();
    service_.does("waiting for the progress thread");
    stop_.store(true);
    progress.join();
    if (complete() && plan_.meet && plan_.ending == Ending::kDone && !process_.disturbed) meet();
    end();
  }

  // What was received into, to be looked at once more later.
  std::vector<Relic>& relics() { return relics_; }

  // For the report of a hang; reads what other threads write.
  std::string state() const {
    std::string text;
    for (const auto& end : ends_) {
      const ChannelPlan& plan = *end->plan;
      text += "\n    channel " + std::to_string(end->index) + ", device " + std::to_string(plan.send_device) +
              " to " + std::to_string(plan.receive_device) + ", " + std::to_string(plan.subs) + " x " +
              std::to_string(plan.slot_bytes) + " bytes" + (plan.silent ? ", silent: " : ": ");
      if (!end->up) text += end->sends ? "connects" : "accepts";
      else text += end->sends ? end->send->state() : end->receive->state();
    }
    return text;
  }

 private:
  struct End {
    const ChannelPlan* plan;
    std::size_t index;
    bool sends;
    void* listener = nullptr;
    Handle handle;  // NCCL's copy; keeps the state of an attempt
    bool has_handle = false;
    bool up = false;
    std::unique_ptr<SendEnd<A>> send;
    std::unique_ptr<ReceiveEnd<A>> receive;
    std::vector<std::pair<void*, std::unique_ptr<Pages>>> registered;  // by the user
    void* comm() const { return sends ? send->comm : receive->comm; }
  };

  bool complete() const { return finished_.load() && !failed_.load(); }
  // This rank ends before everything is done: from now on its peer sees errors.
  void leave() {
    meeting_.left.store(true);
    if (plan_.told || !allUp()) meeting_.aborted.store(true);
  }
  bool allUp() const {
    for (const auto& end : ends_)
      if (!end->up) return false;
    return true;
  }
  // Errors of calls are right only where somebody has left.
  void expected(const CallFailed& failed) {
    failed_.store(true);
    if (process_.disturbed.load()) {
      totals_.failed_by_disturbance.fetch_add(1, std::memory_order_relaxed);
    } else if (!meeting_.left.load()) {
      fail(std::string(failed.call) + " answered " + std::to_string(failed.result) +
           " though nobody has left" + state());
    } else if (!meeting_.aborted.load()) {
      totals_.aborts_found_out.fetch_add(1, std::memory_order_relaxed);
    }
    meeting_.left.store(true);
    meeting_.aborted.store(true);  // the application hears of the error, and ends all ranks
  }

  void begin() {
    const std::lock_guard lock(process_.net_mutex);
    service_.does("init");
    if (A::init(&context_) != ncclSuccess) fail("init failed");
  }

  // ---- service thread

  void serve() {
    for (std::size_t i = 0; i < plan_.channels.size(); ++i) {
      const ChannelPlan& plan = plan_.channels[i];
      auto end = std::make_unique<End>();
      end->plan = &plan;
      end->index = i;
      end->sends = plan.sender == number_;
      ends_.push_back(std::move(end));
    }
    expected_ends_.store(ends_.size());
    for (int i = 0; i < plan_.idle_listeners; ++i) {
      Handle handle;
      idle_.emplace_back(nullptr);
      service_.does("listen for nobody");
      tryCall(A::listen(context_, plan_.channels[0].receive_device, handle.bytes(), &idle_.back()), "listen");
    }
    const bool leaves = plan_.ending != Ending::kDone && plan_.leaver == number_;
    uint64_t calls = 0;
    for (uint64_t turn = 0; !finished_.load() && !failed_.load(); ++turn) {
      bool moved = false;
      for (auto& end : ends_) {
        if (end->up) continue;
        moved |= advance(*end);
        ++calls;
        if (leaves && plan_.ending == Ending::kAbortConnect && calls > plan_.leaves_after && mayForget())
          return;
      }
      if (leaves && plan_.ending == Ending::kAbort && stepsDone() >= plan_.leaves_after && allUp()) return;
      if (meeting_.aborted.load()) return;
      if (dice_.below(8) == 0) disturb();
      if (!moved) sched_yield();
    }
  }

  uint64_t stepsDone() const { return steps_.load(std::memory_order_relaxed); }

  // Goes on with setting up a channel; true when something has happened.
  bool advance(End& end) {
    Meeting::Mailbox& mailbox = meeting_.mailboxes[end.index];
    if (end.sends) {
      if (!end.has_handle) {
        if (!mailbox.full.load(std::memory_order_acquire)) return false;
        std::memcpy(end.handle.bytes(), mailbox.handle.bytes(), NCCL_NET_HANDLE_MAXSIZE);
        end.has_handle = true;
        end.send = std::make_unique<SendEnd<A>>(*end.plan, process_.source, totals_);
      }
      service_.doing = "connect";
      tryCall(A::connect(context_, end.plan->send_device, end.handle.bytes(), &end.send->comm, true),
              "connect");
      if (end.send->comm == nullptr) return false;
    } else {
      if (end.listener == nullptr) {
        service_.doing = "listen";
        end.receive = std::make_unique<ReceiveEnd<A>>(*end.plan, process_.source, totals_);
        tryCall(A::listen(context_, end.plan->receive_device, mailbox.handle.bytes(), &end.listener),
                "listen");
        mailbox.full.store(true, std::memory_order_release);
        return true;
      }
      service_.doing = "accept";
      tryCall(A::accept(end.listener, &end.receive->comm), "accept");
      if (end.receive->comm == nullptr) return false;
      tryCall(A::table().closeListen(std::exchange(end.listener, nullptr)), "closeListen");
    }
    registerBuffers(end);
    return true;
  }

  void registerBuffers(End& end) {
    service_.does("regMr");
    end.up = true;
    totals_.connections.fetch_add(1, std::memory_order_relaxed);
    if (end.sends) {
      tryCall(A::regMr(end.send->comm, process_.source.data(), process_.source.bytes(), &end.send->handle),
              "regMr");
    } else {
      const Pages& memory = end.receive->memory();
      tryCall(A::regMr(end.receive->comm, memory.data(), memory.bytes(), &end.receive->handle,
                       end.receive->memoryType()),
              "regMr");
    }
    const std::lock_guard lock(queue_mutex_);
    queue_.push_back(&end);
  }

  // What the service thread does while the progress thread transfers.
  void disturb() {
    End& end = *ends_[dice_.below(ends_.size())];
    switch (dice_.below(6)) {
      case 0:
      case 1:
        if (end.up && end.registered.size() < kMostUserBuffers) registerUserBuffer(end);
        break;
      case 2:
        if (end.up && !end.registered.empty()) deregisterUserBuffer(end);
        break;
      case 3:
        readProperties(dice_);
        break;
      case 4:
        setAttributes();
        break;
      default:
        if (plan_.fork && !std::exchange(forked_, true)) forkOnce();
    }
  }

  void registerUserBuffer(End& end) {
    service_.doing = "regMr of a user buffer";
    auto pages = std::make_unique<Pages>(4096 * (1 + dice_.below(64)));
    void* handle = nullptr;
    const std::size_t offset = dice_.below(pages->bytes());
    const std::size_t bytes = 1 + dice_.below(pages->bytes() - offset);
    tryCall(A::regMr(end.comm(), pages->data() + offset, bytes, &handle), "regMr of a user buffer");
    end.registered.emplace_back(handle, std::move(pages));
    // And a part of what everybody sends from.
    tryCall(A::regMr(end.comm(), process_.source.data() + dice_.below(kSourceBytes), 1 + dice_.below(100000),
                     &handle),
            "regMr of a part");
    end.registered.emplace_back(handle, nullptr);
    totals_.registrations.fetch_add(2, std::memory_order_relaxed);
  }
  void deregisterUserBuffer(End& end) {
    service_.doing = "deregMr of a user buffer";
    std::swap(end.registered[dice_.below(end.registered.size())], end.registered.back());
    tryCall(A::table().deregMr(end.comm(), end.registered.back().first), "deregMr");
    end.registered.pop_back();  // unmaps it
  }

  static void readProperties(softdev::Random& dice) {
    int count = 0;
    tryCall(A::table().devices(&count), "devices");
    typename A::Properties properties;
    std::memset(static_cast<void*>(&properties), 0x5a, sizeof properties);
    tryCall(A::table().getProperties(static_cast<int>(dice.below(static_cast<uint64_t>(count))), &properties),
            "getProperties");
    if (std::strlen(properties.name) < 3 || properties.maxRecvs != 8) fail("properties are wrong");
  }

  void setAttributes() {
    if constexpr (A::kHasContext) {
      service_.doing = "setNetAttr";
      ncclNetAttr_v11_t attributes;
      std::memset(&attributes, 0xff, sizeof attributes);
      attributes.sendCommAttr.maxConcurrentPeers = static_cast<int>(dice_.below(8));
      attributes.sendCommAttr.maxFlowsPerPeer = static_cast<int>(dice_.below(4));
      tryCall(A::table().setNetAttr(context_, &attributes), "setNetAttr");
    }
  }

  void forkOnce() {
    service_.doing = "fork";
    const pid_t child = fork();
    if (child == 0) _exit(0);
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0) fail("fork");
    totals_.forks.fetch_add(1, std::memory_order_relaxed);
  }

  // ---- progress thread

  void transfer() {
    softdev::Random dice(plan_.channels[0].seed + static_cast<uint64_t>(number_));
    try {
      std::vector<End*> active;
      std::size_t over = 0;
      while (!stop_.load()) {
        {
          const std::lock_guard lock(queue_mutex_);
          active.insert(active.end(), queue_.begin(), queue_.end());
          queue_.clear();
        }
        bool moved = false;
        uint64_t steps = 0;
        over = 0;
        progress_.doing = "transferring";
        for (End* const end : active) {
          moved |= end->sends ? end->send->progress(progress_) : end->receive->progress(progress_);
          over += (end->sends ? end->send->over() : end->receive->over()) ? 1 : 0;
          steps += end->sends ? end->send->steps() : end->receive->steps();
        }
        steps_.store(steps, std::memory_order_relaxed);
        if (over == expected_ends_.load()) break;
        if (dice.below(4096) == 0) readProperties(dice);
        if (!moved) sched_yield();
      }
      if (over == expected_ends_.load()) finished_.store(true);
    } catch (const CallFailed& failed) {
      expected(failed);
    }
    progress_.does("done");
  }

  // ---- the end

  void meet() {
    service_.does("waiting for the other rank to be done");
    meeting_.done.fetch_add(1);
    while (meeting_.done.load() < 2 && !meeting_.left.load()) sched_yield();
  }

  // As NCCL frees: buffers first, then the connection; what never came up is forgotten.
  void end() {
    service_.does("deregMr and close");
    const bool forget = plan_.forget && mayForget();
    for (std::size_t i = ends_.size(); i > 1; --i) std::swap(ends_[i - 1], ends_[dice_.below(i)]);
    for (auto& end : ends_) {
      if (end->up) {
        close(*end);
      } else if (end->listener != nullptr && !forget) {
        must(A::table().closeListen(end->listener), "closeListen");
      } else {
        totals_.forgotten.fetch_add(1, std::memory_order_relaxed);
      }
    }
    for (void* const listener : idle_) {
      if (listener != nullptr && !forget) must(A::table().closeListen(listener), "closeListen");
      if (forget) totals_.forgotten.fetch_add(1, std::memory_order_relaxed);
    }
    service_.does("finalize");
    {
      const std::lock_guard lock(process_.net_mutex);
      must(A::finalize(context_), "finalize");
    }
    service_.does("gone");
  }

  // Without finalize nobody takes back listeners that are forgotten, and attempts to connect only after
  // minutes.
  bool mayForget() const { return A::kHasContext || totals_.forgotten.load(std::memory_order_relaxed) < 200; }

  void close(End& end) {
    for (auto& [handle, pages] : end.registered) must(A::table().deregMr(end.comm(), handle), "deregMr");
    end.registered.clear();
    if (end.sends) {
      must(A::table().deregMr(end.send->comm, end.send->handle), "deregMr");
      must(A::table().closeSend(end.send->comm), "closeSend");
      return;
    }
    must(A::table().deregMr(end.receive->comm, end.receive->handle), "deregMr");
    must(A::table().closeRecv(end.receive->comm), "closeRecv");
    // Half of the memory is unmapped at once: whoever still writes there dies.
    if (dice_.below(2) == 0) relics_.emplace_back(end.receive->takeMemory());
    end.receive.reset();
  }

  static void must(ncclResult_t result, const char* call) {
    if (result != ncclSuccess) fail(std::string(call) + " answered " + std::to_string(result));
  }

  Process& process_;
  Totals& totals_;
  const RoundPlan& plan_;
  Meeting& meeting_;
  const int number_;
  softdev::Random dice_;  // the service thread's
  Watched& service_;
  Watched& progress_;
  void* context_ = nullptr;
  std::vector<std::unique_ptr<End>> ends_;
  std::vector<void*> idle_;
  bool forked_ = false;
  std::mutex queue_mutex_;
  std::vector<End*> queue_;  // to the progress thread
  std::atomic<std::size_t> expected_ends_ = SIZE_MAX;
  std::atomic<uint64_t> steps_ = 0;
  std::atomic<bool> stop_ = false;
  std::atomic<bool> finished_ = false;  // everything is transferred
  std::atomic<bool> failed_ = false;
  std::vector<Relic> relics_;
};

}  // namespace railwise::test
