// The end of queue pairs that a connection has lost. Their device may be dying, and then its driver answers
// after seconds, minutes or never. So threads of the device make these calls, and NCCL's thread, which serves
// other connections too, goes on.
//
// A driver may also refuse: mlx5 answers EAGAIN, EBUSY, EIO, ENOMEM or ETIMEDOUT on a device that lives. Then
// the queue pair still reads and writes memory. So nothing counts as stopped without a proof.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "net/device/device.h"
#include "net/patience.h"
#include "verbs/cm/connection_manager.h"
#include "verbs/handles.h"
#include "verbs/queue_pair.h"

namespace railwise::net {

// The proof that queue pairs of one device read and write no memory any more:
//
//   asked --modify_qp(ERR) succeeds, or query_qp says ERR or RESET--------> proven
//     |--refused: asked again after Patience::kStopAskAgain; other stops go on meanwhile
//     |     +--refused for so long that the connection gives the queue pairs away (Remains):
//     |        destroy_qp succeeds ---------------------------------------> proven
//     |--no answer: a late answer counts
//     +--the device has failed -------------------------------------------> proven
//
// Threads: any thread.
class Fence : public std::enable_shared_from_this<Fence> {
 public:
  // Begins to ask. The queue pairs must exist until cease() returns. Throws std::bad_alloc, and has begun
  // nothing then.
  static std::shared_ptr<Fence> begin(Hca& hca, std::vector<ibv_qp*> queue_pairs);

  Hca& hca() const { return hca_; }
  // Is the proof there? Never waits. True in a forked child, which goes on with nothing.
  bool proven();
  // Since when the driver refuses; nothing: it does not refuse.
  std::optional<Clock::time_point> refusedSince() const;
  // "mlx5_0: ibv_modify_qp refuses to stop a queue pair: Device or resource busy"; "": it does not refuse.
  std::string refusal() const;
  // Asks no more, and waits until no call is made for the queue pairs.
  void cease();
  // Somebody else has stopped this queue pair, or destroyed all.
  void noteStopped(const ibv_qp* queue_pair);
  void noteDestroyed();

 private:
  Fence(Hca& hca, std::vector<ibv_qp*> queue_pairs) : hca_(hca), unproven_(std::move(queue_pairs)) {}
  void ask();
  bool askLater() noexcept;

  Hca& hca_;
  mutable std::mutex mutex_;  // guards the members below
  std::condition_variable changed_;
  std::vector<ibv_qp*> unproven_;
  bool asks_ = false;     // the thread of the device will ask, or asks
  bool calling_ = false;  // a call is made for one of them
  bool ceased_ = false;   // no call is made any more
  bool destroyed_ = false;
  int refusal_ = 0;  // errno of the last refusal; 0: none
  Clock::time_point refused_since_ = {};
};

// What is left of a connection's queue pairs on one device.
struct Remains {
  Remains() = default;
  Remains(const Remains&) = delete;
  Remains& operator=(const Remains&) = delete;

  // Destroys the queue pairs once no call is made for them any more, then what they use. False: the driver
  // refuses to destroy a queue pair. Everything that it uses stays then, its memory too. In a forked child it
  // touches no device: the objects are the parent's.
  bool destroy(Hca& hca);

  // Room for so many queue pairs, and for one completion queue: giving them away needs no memory then.
  static std::shared_ptr<Remains> create(std::size_t queue_pairs);

  std::shared_ptr<Fence> fence;  // null: nothing is being stopped
  // What the queue pairs may still read or write: the window of the connection.
  std::shared_ptr<const void> memory;
  std::vector<std::unique_ptr<verbs::CmConnection>> managed;
  int counted = 0;  // of these, in managerBusy()
  std::vector<verbs::Qp> queue_pairs;
  std::vector<verbs::CmListener> listeners;
  std::vector<verbs::Cq> cqs;
  std::shared_ptr<Remains> next;  // in the list of what stays for ever
};

// Is a connection of RDMA CM still being destroyed in this process, since a few seconds? The kernel's manager
// of iWARP does one thing after the other, and takes seconds for a connection over a dead path. Connections
// that are begun meanwhile time out, and are destroyed in turn, for ever.
// `patience`: so long a driver may take.
bool managerBusy(const Patience& patience);

// Destroys them in a thread of the device, again and again while the driver refuses. Without a thread: here,
// once; what is refused then stays for ever.
void destroyLater(Hca& hca, const std::shared_ptr<Remains>& remains) noexcept;
// Destroys them here; in a thread of the device what the driver refuses to destroy here.
void destroyNow(Hca& hca, const std::shared_ptr<Remains>& remains) noexcept;

}  // namespace railwise::net
