// The state of a link: what it uses now, what both ends have said of themselves, and where a recovery stands.
// Functions here only read it. Who changes it: EpochMaker makes queue pairs, Watch looks whether they work,
// LinkRecord tells of them, and Link, with its Chooser or Answerer, decides.
//
// Threads: the link's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/settings/config.h"
#include "base/status.h"
#include "net/device/device.h"
#include "net/paths/connection_options.h"
#include "net/paths/endpoint.h"
#include "net/paths/joiner.h"
#include "net/paths/link_memory.h"
#include "net/paths/link_user.h"
#include "net/paths/offer.h"
#include "net/paths/recovery.h"
#include "net/paths/recovery_log.h"
#include "net/paths/transport_rules.h"
#include "net/patience.h"
#include "net/wireup/handshake.h"
#include "net/wireup/side_channel.h"

namespace railwise::net {

// What the two ends of a link do differently: the end that called connect chooses the paths (chooser.h), the
// other one answers (answerer.h). One thread at a time, the link's.
class LinkRole {
 public:
  // The next step of this end in a recovery: leaves the epoch, waits for the peer, connects the next one.
  virtual Status advanceRecovery() = 0;
  // Takes a frame that only the other role sends. Errors: kRemote (this role expects no such frame).
  virtual Status onPeerFrame(MessageType type, std::span<const std::byte> bytes) = 0;
  // Ports of this end have changed while the link runs.
  virtual void onPortsChanged() = 0;
  // The bell has rung while the link runs: goes on with a trial of the peer.
  virtual void goOnWithTrial() {}
  // The link runs and waits: it may look for better paths.
  virtual void lookForBetter(Clock::time_point /*now*/) {}
  // Uses this epoch fewer or other rails than the first one?
  virtual bool degraded() const { return false; }

 protected:
  ~LinkRole() = default;
};

struct LinkState {
  LinkState(Direction its_direction, LinkUser& its_user, LinkMemory& its_memory, const Device& its_device,
            const ConnectionOptions& its_options);
  LinkState(const LinkState&) = delete;
  LinkState& operator=(const LinkState&) = delete;

  // The number of the epoch, from 1. Each new set of queue pairs begins a new epoch.
  uint64_t epoch() const { return recovery.epoch(); }
  using Phase = Recovery::Phase;
  Phase phase() const { return recovery.phase(); }
  bool running() const { return recovery.running(); }
  // This end has queue pairs, or makes some now.
  bool hasQueuePairs() const { return phase() == Phase::kRunning || phase() == Phase::kConnecting; }
  // The queue pairs of the last epoch are gone, and no epoch runs.
  bool hasLeft() const { return phase() == Phase::kWaiting || phase() == Phase::kConnecting; }
  bool canFailOver() const { return config.failover != 0 && there.failover != 0 && side_channel.opened(); }
  bool degraded() const { return role->degraded(); }
  // The device, the record and the TCP connection are the parent's.
  bool inForkedChild() const { return device.inForkedChild(); }
  Patience patience() const { return Patience(config.failover_timeout_s); }

  // This end, for the functions of offer.h.
  OfferingEnd own() const { return {device, options, *joiner, out_of_order}; }
  // What the joiner connects: the queue pairs of the endpoint. `local`, `remote`: the descriptions of both
  // ends.
  Joiner::Ends ends(const EndInfo& local, const EndInfo& remote) {
    return {epoch(), endpoint, local, remote};
  }
  // The rails that this end can use now.
  std::vector<Rail> usableRails() const;
  // The keys of the window through a rail. {}: it cannot be registered there, which is logged.
  MemoryKeys windowKeys(const Rail& rail) const {
    const Result<MemoryKeys> keys = windowKeysOn(device, *window, rail);
    return keys.ok() ? *keys : MemoryKeys{};
  }

  // "mlx5_1: connection to host:pid (mlx5_3)"
  std::string title() const;
  // "mlx5_1 port 1 -> mlx5_3 port 1"
  std::string pathText(const LaneQueuePair& queue_pair) const {
    return endpoint.pathText(queue_pair, there, direction);
  }
  // The paths of this epoch, by queue pair.
  std::string pathsText() const;
  record::ConnectionRecord& shown() { return memory.shown(); }
  record::ConnectionNumbers& numbers() { return memory.numbers(); }

  // ---- Members that each unit reads that is sent. They share few cache lines, because a thread with many
  // links fetches each line again for each unit.

  // The only completion queue. Null: there are several, or the fast path is closed.
  ibv_cq* only_cq = nullptr;
  // The completion queue that test() polls next. Null: the fast path is closed.
  ibv_cq* next_cq = nullptr;
  uint64_t peer_window = 0;  // address of the peer's window
  Status failure;            // every call returns it from now on
  const Direction direction;
  bool completed_since_look = false;  // something has completed since the last look at the peer
  uint8_t more_cqs = 0;               // completion queues besides next_cq, which take turns
  uint8_t cq_turn = 0;                // place of next_cq among those of the endpoint
  bool polls_all = false;             // the latest request had completions in several queues
  uint32_t idle_polls = 0;
  verbs::FatalFlag bell;  // the bell; also raised by an event of one of the queues
  Endpoint endpoint;      // replaced with each epoch

  // ---- what it was made from

  const Device& device;
  const ConnectionOptions options;
  const Config& config;
  const TransportRules& rules;
  LinkUser& user;
  LinkMemory& memory;
  LinkRole* role = nullptr;  // set by the role itself; it lives as long as the link is used

  // ---- the two ends

  Session session = {};  // proves calls of RDMA CM, has the packet numbers
  // What each end has said of itself for this epoch, or for the last one that began.
  EndInfo here = {};
  EndInfo there = {};
  std::string peer;                // "host:pid (mlx5_1)"; valid once the peer's description has arrived
  bool out_of_order = false;       // queue pairs take what comes in any order
  std::shared_ptr<Window> window;  // shared with queue pairs that are being destroyed
  std::unique_ptr<Joiner> joiner;  // connects the queue pairs; never null
  ArrivalProof proof;

  // ---- the recovery

  Recovery recovery;
  RecoveryLog log;
  SearchLog search;
  // Its destructor first unregisters the channel from the watcher, whose thread reads a number of the user's
  // and rings the bell.
  SideChannel side_channel;
};

}  // namespace railwise::net
