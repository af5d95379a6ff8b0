// Resumes side channels whose TCP connection has broken while both processes live (side_channel.h). Each
// process has one Resumer, which listens at a TCP port of its own; the ends of a connection tell each other
// these ports in the handshake.
//
//   caller                                       called process
//   ResumeHello   --------------------------->   has this connection?
//                 <---------------------------   ResumeAnswer, with the frames that it has
//   ResumeProof   --------------------------->   goes on over this TCP connection
//   the frames that the called end does not have, and the other way round
//
// The sender of a connection resumes the channel. The receiver only asks whether the peer still has the
// connection; its proof tells a sender that has not noticed that its channel has broken. A process that
// refuses calls, or has no such connection, several times in a row is gone. A host that does not answer is
// called again, some every second, for as long as the connection lives: data go over RDMA meanwhile.
//
// A caller is a stranger until its hello is right: few strangers are heard at a time. Each hello is taken
// once, and of each channel only the peer's newest call waits for its proof, so repeated hellos hold no
// descriptors.
//
// Threads: serve() and tick() from the watcher's thread, which holds the watcher's lock; everything else from
// any thread. Locks, in their order: the watcher's, the Resumer's, a channel's.
#pragma once

#include <sys/types.h>

#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "base/clock.h"
#include "base/process.h"
#include "base/socket.h"
#include "net/device/event_watcher.h"
#include "net/wireup/side_channel.h"

namespace railwise::net {

class Resumer final : public Watched {
 public:
  // Null: there is no socket for it (logged at INFO). Side channels then end with their TCP connection.
  static std::unique_ptr<Resumer> create(EventWatcher& watcher);
  ~Resumer();
  Resumer(const Resumer&) = delete;
  Resumer& operator=(const Resumer&) = delete;

  // The TCP port at which peers call.
  uint16_t port() const { return processId() == owner_ ? port_ : uint16_t{0}; }
  // A listener has answered the sender of the connection `id`, and waits for the handshake's last message. A
  // sender that proves itself here has had the answer, and goes on over the TCP connection that it has made.
  void await(uint64_t id, const FrameKeys& keys);
  // That TCP connection, over which nothing was received yet; not valid: there is none.
  Socket takeProven(uint64_t id);
  // Ends await(), unless the connection's channel is enrolled.
  void forget(uint64_t id);
  // Ends await(). False: nobody resumes the channel, because there is another connection of the same id.
  bool enroll(SideChannel& channel);
  // Returns when the Resumer no longer uses `channel`. In a forked child it does nothing.
  void leave(SideChannel& channel);
  // The channel's TCP connection has broken. From the watcher's thread, with the channel's lock held.
  void noteBroken(const SideChannel& channel);
  // A channel needs another TCP connection. From any thread that holds no channel's lock.
  void startCalling() { watcher_.startTicks(*this); }

  int descriptor() const override { return socket_.fd(); }
  bool serve(bool hung_up) override;
  bool tick() override;

 private:
  // A call of this process for a broken channel.
  struct Call {
    enum class Stage : uint8_t { kPause, kConnecting, kAnswer };
    Stage stage = Stage::kPause;
    Socket socket;
    Clock::time_point due = {};  // the end of the pause, or of the patience with the peer
    Clock::duration pause = {};
    int refused = 0;  // so many calls in a row were refused, or the peer has no such connection
    int cut = 0;      // so many calls in a row were cut before there was an answer
    ResumeHello hello = {};
    ResumeAnswer answer = {};
    Transfer transfer = {};
  };
  // Somebody who calls. On the heap, because the transfer points into it.
  struct Caller {
    Socket socket;
    Deadline deadline = Deadline::after({});
    int resumed = 0;  // how often its channel was resumed before
    ResumeHello hello = {};
    ResumeAnswer answer = {};
    ResumeProof proof = {};
    Transfer transfer = {};
  };
  // A channel, or what a listener awaits.
  struct Enrolled {
    bool known() const { return channel == nullptr || !channel->hungUp(); }
    uint64_t heard() const { return channel != nullptr ? channel->heard() : 0; }
    int resumed() const { return channel != nullptr ? channel->resumed() : 0; }
    const Hmac& ownKey() const { return channel != nullptr ? channel->ownKey() : keys->from_receiver; }
    const Hmac& peerKey() const { return channel != nullptr ? channel->peerKey() : keys->from_sender; }

    SideChannel* channel = nullptr;      // null: a listener awaits the peer
    std::optional<FrameKeys> keys = {};  // while a listener awaits it
    Socket proven = {};                  // over which the awaited sender goes on
    std::unique_ptr<Call> call = nullptr;
    uint32_t calls = 0;                         // number of this end's last call
    uint32_t peer_calls = 0;                    // number of the peer's last call: a hello is taken once
    std::unique_ptr<Caller> greeted = nullptr;  // the peer's last call, while its proof is awaited
  };
  using Key = std::pair<uint64_t, Direction>;  // both ends of a connection may be in one process

  explicit Resumer(EventWatcher& watcher) : watcher_(watcher) {}
  enum class Hearing : uint8_t { kWait, kWhole, kDrop };
  bool admitCallers();
  static Hearing hear(Caller& caller);
  bool keeps(std::unique_ptr<Caller>& stranger);
  void greet(std::unique_ptr<Caller> caller);
  static void hearGreeted(Enrolled& enrolled);
  static void onProof(Enrolled& enrolled, Caller& caller);
  void advance(Enrolled& enrolled);
  static void retire(Enrolled& enrolled);
  void place(SideChannel& channel, Call& call);
  void onAnswer(SideChannel& channel, Call& call);
  static void later(const SideChannel& channel, Call& call);
  static void failed(SideChannel& channel, Call& call, int error);
  static void cut(SideChannel& channel, Call& call);
  static void refused(SideChannel& channel, Call& call);

  EventWatcher& watcher_;
  const pid_t owner_ = processId();
  Socket socket_;
  uint16_t port_ = 0;
  std::mutex mutex_;  // guards the members below
  std::map<Key, Enrolled> enrolled_;
  std::deque<std::unique_ptr<Caller>> strangers_;  // the one that has waited longest is the first
  Clock::time_point warned_ = {};
  std::optional<Clock::time_point> deaf_until_;  // there was no descriptor for a caller
};

}  // namespace railwise::net
