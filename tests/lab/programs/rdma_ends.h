// Devices, memory and queue pairs for the lab's programs about keys. What fails ends the program. One thread.
#pragma once

#include <sched.h>
#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/clock.h"
#include "verbs/gid.h"
#include "verbs/memory_region.h"
#include "verbs/queue_pair.h"

namespace railwise::lab {

inline void need(bool holds, const char* what) {
  if (holds) return;
  std::printf("FAILED: %s\n", what);
  std::fflush(stdout);
  std::_Exit(1);
}

inline verbs::Context openDevice(const char* name) {
  int count = 0;
  ibv_device** const list = verbs::library().get_device_list(&count);
  verbs::Context context;
  for (int i = 0; i < count; ++i) {
    if (std::strcmp(verbs::library().get_device_name(list[i]), name) == 0)
      context.reset(verbs::library().open_device(list[i]));
  }
  verbs::library().free_device_list(list);
  need(context != nullptr, name);
  return context;
}

struct Nic {
  Nic(const char* name, const Config& its_config)
      : config(its_config),
        context(openDevice(name)),
        port(*verbs::queryPort(context.get(), 1)),
        gid(*verbs::chooseGid(context.get(), port, config)) {}
  verbs::Pd newDomain() const { return verbs::Pd(verbs::library().alloc_pd(context.get())); }

  const Config& config;
  verbs::Context context;
  verbs::Port port;
  verbs::Gid gid;
};

// Pages, all of them in memory.
class Pages {
 public:
  explicit Pages(std::size_t bytes)
      : bytes_(bytes),
        memory_(
            mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0)) {
    need(memory_ != MAP_FAILED, "pages");
  }
  ~Pages() { munmap(memory_, bytes_); }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;

  uint64_t at(std::size_t offset) const { return reinterpret_cast<uint64_t>(memory_) + offset; }
  volatile uint64_t& word(std::size_t index = 0) const {
    return static_cast<volatile uint64_t*>(memory_)[index];
  }
  verbs::Mr registerWith(ibv_pd* pd, int access = verbs::kDataAccess) const {
    return std::move(*verbs::registerMemory(pd, memory_, bytes_, access));
  }

 private:
  const std::size_t bytes_;
  void* const memory_;
};

// One end of a connection.
class End {
 public:
  End(const Nic& nic, ibv_pd* pd, verbs::PeerMay peer_may = verbs::PeerMay::kReadAndWrite)
      : nic_(nic), cq_(verbs::library().create_cq(nic.context.get(), kDepth, nullptr, nullptr, 0)) {
    auto made = verbs::createQueuePair(pd, cq_.get(), nic.port, nic.config, {kDepth / 2, kDepth / 2, kInline},
                                       verbs::OutOfOrder::kNo, nullptr, peer_may);
    need(made.ok(), "a queue pair");
    qp_ = std::move(made->qp);
  }

  void join(const End& peer, uint32_t psn) {
    const verbs::PathAddress there{peer.number(), peer.nic_.port.lid, peer.nic_.port.ethernet,
                                   peer.nic_.port.mtu, peer.nic_.gid.value};
    verbs::PathSettings settings{nic_.gid, 0, 0};
    settings.psn = psn;
    need(verbs::readyToReceive(qp_.get(), nic_.port, there, settings).ok(), "ready to receive");
    need(verbs::readyToSend(qp_.get(), nic_.port, nic_.config, psn).ok(), "ready to send");
  }

  uint32_t number() const { return qp_->qp_num; }
  ibv_qp* qp() const { return qp_.get(); }

  void post(ibv_send_wr& work) const {
    ibv_send_wr* bad = nullptr;
    need(ibv_post_send(qp_.get(), &work, &bad) == 0, "ibv_post_send");
  }
  void postReceive() const {
    ibv_recv_wr work = {};
    ibv_recv_wr* bad = nullptr;
    need(ibv_post_recv(qp_.get(), &work, &bad) == 0, "ibv_post_recv");
  }
  // The next completion.
  ibv_wc_status complete() const {
    ibv_wc completion = {};
    const Deadline deadline = Deadline::after(std::chrono::seconds(30));
    while (ibv_poll_cq(cq_.get(), 1, &completion) == 0) {
      need(!deadline.passed(), "a completion comes in 30 s");
      sched_yield();
    }
    return completion.status;
  }

 private:
  static constexpr uint32_t kDepth = 64;
  static constexpr uint32_t kInline = 64;
  const Nic& nic_;
  verbs::Cq cq_;
  verbs::Qp qp_;
};

inline void joinBoth(End& one, End& other, uint32_t psn) {
  one.join(other, psn);
  other.join(one, psn);
}

}  // namespace railwise::lab
