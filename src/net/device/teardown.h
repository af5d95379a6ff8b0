// The end of queue pairs that a connection has lost. Their device may be dying, and then its driver answers
// after seconds, minutes or never. So threads of the device make these calls, and NCCL's thread, which serves
// other connections too, goes on.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "net/device/device.h"
#include "verbs/cm/connection_manager.h"
#include "verbs/handles.h"
#include "verbs/queue_pair.h"

namespace railwise::net {

// The move of queue pairs of one device to the error state, in which they neither send nor receive.
class Stop {
 public:
  // Begins it. The queue pairs must exist until waitUntilDone() returns. Throws std::bad_alloc, and has begun
  // nothing then.
  static std::shared_ptr<Stop> begin(Hca& hca, std::vector<ibv_qp*> queue_pairs);

  Hca& hca() const { return hca_; }
  // The queue pairs are stopped, or the device has failed. Never waits.
  bool over();
  // Waits until no call is made for the queue pairs any more.
  void waitUntilDone();
  // A forked child has no thread that ends this.
  bool inForkedChild() const;

 private:
  Stop(Hca& hca, std::vector<ibv_qp*> queue_pairs);
  void ask();

  Hca& hca_;
  const std::vector<ibv_qp*> queue_pairs_;
  const int owner_pid_;
  std::mutex mutex_;  // guards done_
  std::condition_variable changed_;
  bool done_ = false;
};

// What is left of a connection's queue pairs on one device. Destroys it, in the right order, when the Stop is
// done.
struct Remains {
  Remains() = default;
  Remains(const Remains&) = delete;
  Remains& operator=(const Remains&) = delete;
  ~Remains() { destroy(); }
  void destroy();

  std::shared_ptr<Stop> stop;  // null: nothing is being stopped
  // What the queue pairs may still read or write: the window of the connection.
  std::shared_ptr<const void> memory;
  std::vector<std::unique_ptr<verbs::CmConnection>> managed;
  int counted = 0;  // of these, in managerBusy()
  std::vector<verbs::Qp> queue_pairs;
  std::vector<verbs::CmListener> listeners;
  std::vector<verbs::Cq> cqs;
};

// Is a connection of RDMA CM still being destroyed in this process, since a few seconds? The kernel's manager
// of iWARP does one thing after the other, and takes seconds for a connection over a dead path. Connections
// that are begun meanwhile time out, and are destroyed in turn, for ever.
bool managerBusy();

// Destroys them in a thread of the device. Without a thread or memory: here.
void destroyLater(Hca& hca, const std::shared_ptr<Remains>& remains) noexcept;
void destroyLater(Hca& hca, verbs::Qp queue_pair, verbs::Cq cq,
                  const std::shared_ptr<const void>& memory) noexcept;

}  // namespace railwise::net
