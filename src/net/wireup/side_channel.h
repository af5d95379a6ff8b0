// The side channel: the socket of the handshake stays open, and over it the two ends of a connection send
// each other frames when something has failed. The end of the socket shows that the peer has gone. The
// watcher's thread reads the socket, so the connection only looks into memory. The watcher's thread also
// reports by itself up to which receive everything has arrived. A FrameSeal follows each frame, so that no
// frame that was forged, changed, repeated or left out on the way is taken.
//
// The TCP connection may break while the peer lives and RDMA works: a firewall forgets it, a port of the
// management network goes down, somebody cuts it or changes its bytes. The channel is then broken, not ended:
// a Resumer makes a new TCP connection. A channel keeps each frame until the peer is known to have it, and
// sends the frames again that the peer does not have. The channel ends when the peer has sent a close
// message, or when its process has no such connection any more.
//
// Threads: serve(), tick() and what a Resumer calls from the watcher's thread; hungUp() and broken() from any
// thread; everything else from the connection's thread.
#pragma once

#include <atomic>
#include <cstddef>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/socket.h"
#include "net/device/event_watcher.h"
#include "net/wireup/authentication.h"
#include "net/wireup/frames.h"

namespace railwise::net {

enum class Direction : uint8_t { kSend, kReceive };

// A number that one thread sets and other threads may read. Relaxed: it leads to no other memory, and an old
// number is true too.
class SharedNumber {
 public:
  SharedNumber(uint64_t value = 0) : value_(value) {}
  SharedNumber& operator=(uint64_t value) {
    value_.store(value, std::memory_order_relaxed);
    return *this;
  }
  operator uint64_t() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t> value_;
};

class Resumer;

// What resumes a broken side channel.
struct Resumption {
  Resumer* resumer = nullptr;  // null: nobody; the channel ends when its TCP connection does
  uint64_t id = 0;             // Session::id()
  uint16_t peer_port = 0;      // where the peer's Resumer listens; 0: the peer has none
  std::string name = {};       // of the connection, for the log
};

class SideChannel final : public Watched {
 public:
  // Frames of the peer's user that may wait here for this end's user; one more ends the channel. A thread of
  // NCCL's may be elsewhere for long, so there are many; kept at the other end, they need half of the memory
  // that a channel keeps frames in.
  static constexpr std::size_t kMostUserFrames = 4096;
  // `bell` rings when a frame has arrived or the channel has ended. `number` at a receiver: all receives up
  // to this number are complete. The channel answers each Break with an Arrived frame at once, and sends
  // another one each time when the number has grown, until breakIsAnswered(). `number` at a sender: the first
  // receive that is not fully posted. The channel answers each Reconcile and each Rails with an Unposted
  // frame. The seal of an answer says that the frame was heard. For that an end also answers 64 frames of the
  // peer's user, if it has sent nothing since.
  SideChannel(verbs::FatalFlag& bell, Direction direction, const SharedNumber& number)
      : bell_(bell), direction_(direction), number_(number) {}
  ~SideChannel();
  SideChannel(const SideChannel&) = delete;
  SideChannel& operator=(const SideChannel&) = delete;

  // If `watcher` is null, only next() reads the socket, and no Resumer resumes the channel.
  void open(Socket socket, EventWatcher* watcher, const FrameKeys& keys, Resumption resumption = {});
  bool opened() const { return keys_.has_value(); }
  // The watcher's thread reads the socket and rings the bell.
  bool watched() const { return watcher_ != nullptr; }

  // A frame that cannot be sent at once is sent later. Frames that the peer does not take because it has gone
  // are lost.
  template <typename Frame>
  void send(const Frame& frame) {
    sendBytes(std::as_bytes(std::span(&frame, 1)));
  }
  // True: this end has sent a frame of this type, and does not know whether the peer has it. An end then
  // sends no further offer of rails: a peer that takes nothing may be stopped for hours, and only the newest
  // offer counts.
  bool unheard(MessageType type);
  // The next frame that has arrived, checked; nothing: there is none now. `look`: reads the socket too.
  std::optional<std::vector<std::byte>> next(bool look = false);
  // The connection has dealt with the latest Break, which needs no more Arrived frames.
  void breakIsAnswered();
  // The peer will send nothing more, or bytes have come that are no valid frame and nobody resumes the
  // channel; and every frame was taken.
  bool ended();
  // The peer will send nothing more, but a frame may be left to be taken. From any thread.
  bool hungUp() const { return hung_up_.load(std::memory_order_acquire); }
  // The TCP connection has broken, and there is no new one yet. From any thread.
  bool broken() const { return broken_.load(std::memory_order_acquire); }
  // A new TCP connection is needed, and the peer's host does not take calls. From any thread.
  bool unreachable() const { return unreachable_.load(std::memory_order_acquire); }
  // From now on the connection waits for frames of the peer (`now`). suspect(): it still does. Where nothing
  // comes for a second, somebody may hold the bytes back, so that a Resumer makes a new TCP connection beside
  // the old one, and then takes it; then after two seconds, and so on: a peer may also be busy elsewhere.
  // expectNoFrames(): data go on.
  void expectFrames(Clock::time_point now);
  void expectNoFrames() { expecting_.store(false, std::memory_order_relaxed); }
  void suspect(Clock::time_point now);
  // What is wrong with the peer, in words that follow "the peer"; "": nothing.
  std::string problem();
  // Shuts the socket down: the peer sees that nothing more will come.
  void end();

  int descriptor() const override { return socket_.fd(); }
  bool serve(bool hung_up) override;
  bool tick() override;

  // ---- for the Resumer
  Direction direction() const { return direction_; }
  const Resumption& resumption() const { return resumption_; }
  const SocketAddress& peerAddress() const { return peer_address_; }
  const Hmac& ownKey() const {
    return direction_ == Direction::kSend ? keys_->from_sender : keys_->from_receiver;
  }
  const Hmac& peerKey() const {
    return direction_ == Direction::kSend ? keys_->from_receiver : keys_->from_sender;
  }
  // Number of the last frame that has arrived.
  uint64_t heard();
  // How often it was resumed.
  int resumed() const { return resumed_; }
  // Does the connection need frames of its peer, and no data go on? Perhaps one of the ends has then broken
  // the TCP connection, because no frame came.
  bool expectsFrames() const { return expecting_.load(std::memory_order_relaxed); }
  // Does the peer's host take a call?
  void setReachable(bool reachable) { unreachable_.store(!reachable, std::memory_order_release); }
  // Goes on over this TCP connection. `heard`: number of the last frame that the peer has. `told`: what the
  // peer was told of this end.
  void resume(Socket socket, uint64_t heard, uint64_t told);
  // The TCP connection has broken, or may be held up: the Resumer makes a new one.
  bool needsSocket() const { return broken() || doubted_.load(std::memory_order_relaxed); }
  // The peer says that the TCP connection has broken or may be held up.
  void doubtSocket() { doubted_.store(true, std::memory_order_relaxed); }
  // Is there somebody who makes a new TCP connection for the next frames?
  bool resumable() const { return resumption_.resumer != nullptr && watcher_->inParent(); }
  // The peer's process has no such connection, or there is no such process. Ends the channel if it is broken.
  // Else the last bytes may still come over the old TCP connection: the channel ends when it is doubted once
  // more, and nobody takes calls then either. A forked child of a killed process keeps its TCP connections.
  void peerIsGone();

 private:
  void sendBytes(std::span<const std::byte> frame);
  void queueLocked(std::span<const std::byte> frame);
  void flushLocked();
  bool readLocked();
  bool takeLocked();
  bool forgetHeardLocked(uint64_t heard);
  void socketEndedLocked();
  void breakLocked();
  void stopCallingLocked();
  void hangUpLocked();
  void tellLocked(MessageType type);
  void answerLocked(MessageType type);

  verbs::FatalFlag& bell_;
  const Direction direction_;
  const SharedNumber& number_;
  EventWatcher* watcher_ = nullptr;
  std::optional<FrameKeys> keys_;  // once it is open
  Resumption resumption_;
  SocketAddress peer_address_;
  std::atomic<bool> hung_up_ = false;
  std::atomic<bool> broken_ = false;
  std::atomic<bool> unreachable_ = false;
  std::atomic<bool> doubted_ = false;
  std::atomic<bool> expecting_ = false;
  std::atomic<int> resumed_{0};  // counted by the watcher's thread
  std::mutex mutex_;             // guards the members below
  Socket socket_;
  uint64_t sent_ = 0;        // number of the last frame that was sent
  uint64_t heard_ = 0;       // number of the last frame that has arrived
  uint64_t due_ = 1;         // number of the next frame on this TCP connection
  uint64_t peer_heard_ = 0;  // number of the last frame that the peer has, as far as it has told
  // Frames with their seals that the peer may not have; the last one has the number sent_.
  std::deque<std::vector<std::byte>> kept_;
  std::size_t kept_bytes_ = 0;
  std::size_t flushed_ = 0;         // so many frames of kept_ are in the socket
  std::size_t flushed_bytes_ = 0;   // and so many bytes of the next one
  std::vector<std::byte> partial_;  // bytes of the frame that is being read, and of its seal
  std::deque<std::vector<std::byte>> inbox_;
  std::size_t user_frames_ = 0;  // so many frames in inbox_ are of the peer's user
  int unanswered_ = 0;           // frames of the peer's user since this end has sent its latest frame
  std::string problem_;          // what is wrong with the last bytes, in words
  bool clogged_ = false;         // the peer does not take what it is sent
  bool gone_ = false;            // calls were refused, and nothing has come since
  bool peer_closed_ = false;     // the peer's close message has arrived
  bool for_good_ = false;        // this end has ended it, or the peer has broken the rules: nobody resumes it
  int forged_ = 0;               // number of times that the channel broke because of wrong bytes
  Clock::time_point silent_since_ = {};  // while frames are expected
  Clock::duration patience_ = {};
  bool break_waits_ = false;  // a Break was answered, but no Reconcile has followed yet
  uint64_t told_ = 0;         // the number in the latest answer
};

}  // namespace railwise::net
