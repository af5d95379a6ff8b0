// How the queue pairs of an epoch get connected. There are two ways: both ends exchange their addresses and
// bring their queue pairs up themselves (joiner.cc), or the connection manager connects them
// (join_by_manager.h). The end that called connect (the sender) chooses the way; its request says which.
//
// Threads: belongs to one connection; one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/settings/config.h"
#include "base/status.h"
#include "net/device/device.h"
#include "net/paths/endpoint.h"
#include "net/paths/failback.h"
#include "net/wireup/authentication.h"
#include "net/wireup/handshake.h"
#include "net/wireup/side_channel.h"
#include "verbs/gid.h"

namespace railwise::net {

class Joiner {
 public:
  // The two ends of an epoch. The answering end has decided the pairing, which lies in its description.
  struct Ends {
    uint64_t epoch;
    Endpoint& endpoint;
    const EndInfo& local;
    const EndInfo& remote;
  };
  // The two addresses that a queue pair connects: places in the GID lists of the two rails.
  struct Path {
    std::size_t local_rail;
    std::size_t remote_rail;
    std::size_t local_gid;
    std::size_t remote_gid;
  };

  virtual ~Joiner() = default;
  Joiner(const Joiner&) = delete;
  Joiner& operator=(const Joiner&) = delete;

  // Must the sender call each queue pair of the receiver? Then the receiver accepts an epoch first, and joins
  // its queue pairs when it is called. Without calls the receiver joins them before it accepts.
  virtual bool needsCall() const = 0;
  // The addresses by which the peer can reach `rail`.
  virtual Result<verbs::GidList> addressesOf(const Rail& rail) const = 0;
  // False: new queue pairs would not get connected now. Ask again later.
  virtual bool mayBegin() const { return true; }

  // Receiver, before it accepts: makes ready to be called, and writes into `local` where. `failed` receives
  // the index of the queue pair that an error concerns.
  virtual Status listen(uint64_t /*epoch*/, const Endpoint& /*endpoint*/, EndInfo& /*local*/,
                        std::size_t* /*failed*/) {
    return Status::success();
  }
  virtual bool listens() const { return false; }
  // Goes on with queue pair `index`. True: it is up. An error ETIMEDOUT: the peer's address is not resolved
  // yet (ARP); call again later.
  virtual Result<bool> join(std::size_t index, const Ends& ends) = 0;
  // Goes on with all queue pairs that are used. True: all are up. `failed` receives the index of the queue
  // pair that an error concerns.
  virtual Result<bool> joinAll(const Ends& ends, std::size_t* failed);
  // A queue pair of this endpoint has begun to join and is not up yet. Its destruction may take long.
  virtual bool isJoining(const Endpoint& /*endpoint*/) const { return false; }
  // Why a queue pair that was up is not up any more.
  enum class Loss : uint8_t { kNone, kDisconnected, kDeviceRemoved };
  struct Lost {
    Loss loss = Loss::kNone;
    Status status;
  };
  virtual Lost lost(const LaneQueuePair& /*queue_pair*/) const { return {}; }
  // The epoch is over, or its first attempt is: nobody may call any more.
  virtual void drop() noexcept {}

  // Trials (paths/failback.h), each with a queue pair of its own. The sender begins to connect it;
  // `number` is its number of the trial. False: that is not possible.
  virtual bool callTrial(TrialQueuePair& trial, const Ends& ends, const Path& path,
                         uint64_t number) const = 0;
  // The receiver makes its queue pair ready. Returns the port that the sender must call; 0: none.
  virtual Result<uint16_t> answerTrial(TrialQueuePair& trial, const Ends& ends, const Path& path,
                                       uint64_t number) const = 0;
  // Either end goes on with a trial. True: the queue pair is up.
  virtual Result<bool> advanceTrial(TrialQueuePair& /*trial*/) const { return true; }

 protected:
  // `session`: proves calls and has the packet numbers; it must outlive the joiner.
  Joiner(Direction direction, const Config& config, const Session& session)
      : direction_(direction), config_(config), session_(session) {}

  // The pairing of queue pair `index`.
  Path pairingOf(std::size_t index, const Ends& ends) const;
  // Queue pair `index` is up: it chooses its port where the port is a bond, and the log has its path, at INFO.
  // `how`: "", or ", by ...".
  void noteConnected(std::size_t index, const Ends& ends, const char* how) const;

  const Direction direction_;
  const Config& config_;
  const Session& session_;
};

// `session` must outlive the joiner. `by_manager`: the connection manager connects.
std::unique_ptr<Joiner> makeJoiner(Direction direction, const Device& device, const Config& config,
                                   const Session& session, bool by_manager);
// Must the connection manager connect the queue pairs of a sender on this device? On iWARP always; elsewhere
// if RAILWISE_CONNECT=cm.
bool wantsConnectionManager(const Device& device, const Config& config);

}  // namespace railwise::net
