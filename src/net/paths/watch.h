// Finds out, while a link waits, whether the peer is still there and whether a path to the peer works. The
// events of the devices, the side channel and the connection manager report most failures. A link that is
// silent asks the peer's device, which answers without the peer's help (ArrivalProof).
//
// Threads: the link's.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "base/clock.h"
#include "base/status.h"
#include "net/limits.h"
#include "net/paths/epoch_maker.h"
#include "net/paths/link_record.h"
#include "net/paths/link_state.h"
#include "net/paths/silence.h"
#include "verbs/handles.h"

namespace railwise::net {

class Watch {
 public:
  // What a watch asks of its link.
  class Host {
   public:
    // A queue pair (null: no particular one), a port or a path is lost; the link is.
    virtual Status lose(const LaneQueuePair* queue_pair, Status status, const std::string& what) = 0;
    virtual Status fail(Status status, const std::string& what) = 0;
    // Handles the frames of the peer.
    virtual Status hear() = 0;
    virtual bool peerHasEnded() = 0;
    // Asks for proofs of arrival; `anew`: on each queue pair that is used.
    virtual Status prove(bool anew) = 0;
    // Fails the link if it has been without a path for too long.
    virtual Status giveUpWhenLost() = 0;

   protected:
    ~Host() = default;
  };

  Watch(LinkState& state, EpochMaker& maker, LinkRecord& record, Host& host)
      : state_(state), maker_(maker), record_(record), host_(host) {}

  // The link runs, and its bell has rung: an event of its queues (`event`) or of its devices, a frame of the
  // peer, a port that changed, a path that other links suspect.
  Status hearBell(std::optional<ibv_event_type> event);
  // The link runs and waits. Looks at what no bell reports, every Patience::kCheck.
  Status look(Waiting waiting);

  // Events of the rails ring the bell from now on, and what has happened before rings it now.
  void listen();
  // Events of the rails ring the bell no longer.
  void ignore() { maker_.listenToRails(false); }
  // A later epoch begins. The time before it is counted already (Link::giveUpInTime()).
  void begin();
  // What was suspected before does not concern this epoch.
  void skipSuspicions();
  // The epoch is left. `forgets_stalls`: it has worked, and is left for another reason than silence.
  void leave(bool forgets_stalls);

  // iWARP: does this completion say only that the TCP connection has ended? An ordinary end of the peer's,
  // too, flushes what is posted. Then the link waits a little for what the peer says.
  bool noteDisconnection(const LaneQueuePair& queue_pair, const ibv_wc& completion, const char* operation);
  // Link diagnosis (diagnosis.h). "": nothing is found. Many completion statuses can have such a cause: a
  // flush (Soft-RoCE), exhausted retries, or an unexpected end of the connection. Without failover the device
  // is asked.
  std::string diagnose(const LaneQueuePair& queue_pair) const;
  // Link diagnosis for an error that comes without a reason. Waits a short time for the reason, unless the
  // peer has left.
  std::string awaitDiagnosis(const LaneQueuePair& queue_pair);
  // What a failed completion means, in words.
  std::string reasonFor(const LaneQueuePair& queue_pair, ibv_wc_status status);

  // The peer's close message has given this reason.
  void hearReason(std::string reason) { departure_.reason = std::move(reason); }
  // During a recovery the side channel has ended. The first time the peer's last frames are still handled.
  Status endsInRecovery() {
    return std::exchange(departure_.seen_in_recovery, true) ? peerLeft() : Status::success();
  }

 private:
  // An event has reported that a queue or a device is lost (NCCL_IB_RETURN_ASYNC_EVENTS).
  Status checkEvents(std::optional<ibv_event_type> event);
  void lookAtPorts();
  // Was a queue pair disconnected, or its device removed?
  Status checkJoined(Clock::time_point now);
  Status checkDisconnection(Clock::time_point now);
  void noteDisconnection(const LaneQueuePair& queue_pair, std::string what, Clock::time_point now);
  // Counts the time in which nothing has completed. After a limit it loses the queue pair or fails: the
  // device owes a completion, or the peer's device owes an answer.
  Status checkSilence(Clock::duration since_last_look);
  Status checkStall();
  Status checkSends();
  Status askForAnswers(bool anew);
  // Counts the time of an epoch in which nothing has completed as time without a path.
  Status countUnproven(Clock::duration since_last_look);
  // Doubts a side channel over which no frame comes that the user waits for.
  void checkFrames(Clock::time_point now);
  uint64_t pathKey(const LaneQueuePair& queue_pair) const;
  Status hearSuspicions();
  Status peerLeft();

  LinkState& state_;
  EpochMaker& maker_;
  LinkRecord& record_;
  Host& host_;
  Silence silence_;
  // What shows that the peer has left.
  struct Departure {
    std::string reason;             // the reason in the peer's close message
    Clock::time_point since = {};   // when it was first seen that the peer has left
    bool seen_in_recovery = false;  // the end of the side channel was seen during a recovery
  };
  Departure departure_;
  // A queue pair of this epoch was disconnected, by the peer or because its TCP connection broke. The peer
  // may be about to say why over the side channel.
  struct Disconnection {
    Clock::time_point since = {};
    uint8_t queue_pair = 0;
    std::string what;  // "": none
  };
  Disconnection disconnection_;
  uint32_t port_changes_ = 0;  // count of the rails' events at the last look at the ports
  // Count of the suspicions of each rail's device (PathNews) at the last look.
  std::array<uint64_t, kMaxRails> suspicions_heard_ = {};
};

}  // namespace railwise::net
