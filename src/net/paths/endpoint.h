// The queue pairs of one epoch of a connection, and everything that is destroyed with them: completion
// queues, lanes, the loads of the lanes, and the rails that the queue pairs use. When a queue pair is lost,
// the connection replaces its endpoint as a whole, so nothing of an epoch can outlive the epoch.
//
// Threads: belongs to one connection; one thread at a time.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "net/device/device.h"
#include "net/device/fence.h"
#include "net/paths/lane.h"
#include "net/paths/stripe.h"
#include "verbs/handles.h"
#include "verbs/queue_pair.h"

namespace railwise::net {

struct EndInfo;
enum class Direction : uint8_t;

struct Endpoint {
  // Makes an endpoint without queue pairs. `memory`: where queue pairs will lie (QueuePairs). `own`: the
  // rails of the connection's device.
  Endpoint(void* memory, std::vector<Rail> rails, const std::vector<Rail>& own);
  Endpoint(Endpoint&&) = default;
  // Destroys the queue pairs and completion queues; after stop(), threads of the devices do (device/fence.h).
  ~Endpoint();
  // Destroys the old endpoint before the next one takes its place.
  Endpoint& operator=(Endpoint&& next) noexcept {
    std::destroy_at(this);
    return *std::construct_at(this, std::move(next));
  }
  // Makes this the endpoint of a connection between two epochs. It has one queue pair that is not used,
  // because requests name queue pair 0 until they are sent again.
  void lose() { queue_pairs.add().rest->used = false; }

  // Makes one completion queue for each device of the rails. Each completion queue has room for
  // `per_queue_pair` entries for each of its queue pairs, and for `more` entries. `rail_of`: the rail of each
  // queue pair that addQueuePair() will make. `memory`: what those queue pairs may read and write; it is kept
  // as long as they exist. Events of the completion queues raise `lost`. Errors: kSystem, logged.
  Status openCompletionQueues(std::span<const uint8_t> rail_of, uint32_t per_queue_pair, uint32_t more,
                              const std::shared_ptr<const void>& memory, verbs::FatalFlag& lost);
  // Makes a queue pair in state INIT on `rail`. Errors: kSystem, logged.
  Result<LaneQueuePair*> addQueuePair(uint8_t rail, const Config& config, verbs::QueuePairSize size,
                                      verbs::OutOfOrder order, verbs::PeerMay peer_may,
                                      verbs::FatalFlag& lost);
  // Sorts the queue pairs into lanes: queue pair i belongs to lane i mod `count`. Queue pairs that are not
  // used belong to no lane.
  void makeLanes(int count);
  // Removes the lanes whose queue pairs are not used, and numbers the others anew.
  void dropUnusedLanes();

  // Moves all queue pairs to the error state, in threads of their devices. Each device then flushes what is
  // posted. False: it is not proven yet that they touch no memory any more; call it again. Throws
  // std::bad_alloc, and goes on at the next call.
  bool stop();
  // After stop(): does the driver of every device answer?
  bool driversAnswer() const;
  // After stop(): the driver refuses it, and says why. "": no driver does.
  std::string refusal() const;
  // After stop(): has a driver refused it for so long?
  bool refusedFor(Clock::duration patience) const;
  // Threads of the devices whose drivers refuse destroy the queue pairs there, which is a proof too. What has
  // completed and was not polled is lost with them.
  void destroyRefused();
  // Nobody polls the completion queues from now on.
  void hideCompletions() {
    if (hidden_cqs.empty()) hidden_cqs.swap(cqs);
  }

  ibv_cq* cqOf(uint8_t rail) const { return cqs[cq_of_rail[rail]].get(); }
  // With one queue pair all messages complete in the order in which they were posted.
  bool oneQueuePair() const { return lanes.size() == 1 && lanes.front().count == 1; }
  // Something has gone through a queue pair of this epoch.
  bool proven() const;
  // Every work request that was posted has completed.
  bool owedNothing() const;
  bool anyUsed() const;
  // The first queue pair on `rail`; null: there is none.
  const LaneQueuePair* onRail(std::size_t rail) const;
  // "mlx5_1 port 1 qp 77"
  std::string nameOf(const LaneQueuePair& queue_pair) const;
  // "mlx5_1 port 1 -> mlx5_3 port 1". `peer`: the peer's description of its end of the epoch.
  std::string pathText(const LaneQueuePair& queue_pair, const EndInfo& peer, Direction direction) const;
  // The device has refused receives of a queue pair that is being made. Logs it.
  Status refusedReceives(std::size_t queue_pair, int error) const;
  // Takes over from the peer's description: the keys of the peer's window, and the largest work request of
  // each queue pair.
  void adopt(const EndInfo& peer);

  // The destructor runs from the last member to the first, so queue pairs end before their completion queues.
  std::vector<verbs::Cq> hidden_cqs;
  std::vector<verbs::Cq> cqs;
  QueuePairs queue_pairs;
  std::vector<Lane> lanes;
  // `rails` are the connection's own device's, in their order, and the keys of its memory hold for them.
  bool native = true;
  std::vector<LaneLoad> loads;  // sender: one for each lane; empty until the peer has answered
  std::vector<Rail> rails;
  // For each of `rails`: its place among the rails of the connection's own device; -1: it is a standby, or
  // an own rail without keys (DeviceState::hasKeys).
  std::array<int8_t, kMaxRails> native_rail = {};
  std::array<uint8_t, kMaxRails> cq_of_rail = {};

 private:
  // What lies on one device, in the order of `cqs`.
  struct Part {
    Hca* hca;
    std::shared_ptr<Remains> remains;  // null: given away
    std::shared_ptr<Fence> fence;      // null: not stopped
  };
  bool uses(const LaneQueuePair& queue_pair, const Hca& hca) const {
    return queue_pair.qp != nullptr && rails[queue_pair.rail].hca == &hca;
  }
  void giveAway(Part& part);

  std::vector<Part> parts_;
};

// The place of `rail` among `rails`; -1: `rail` is not among them.
int placeOf(const Rail& rail, const std::vector<Rail>& rails);
// The place of `rail`, in any generation of its device, among the rails `own` of a device whose keys of
// registered memory hold for `rail`; -1: there is none.
int placeOfKeys(const Rail& rail, const std::vector<Rail>& own);

}  // namespace railwise::net
