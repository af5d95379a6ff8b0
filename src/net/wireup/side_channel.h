// The side channel: the socket of the handshake stays open, and over it the two ends of a connection send
// each other frames when something has failed. The end of the socket shows that the peer has gone. The
// watcher's thread reads the socket, so the connection only looks into memory. The watcher's thread also
// reports by itself up to which receive everything has arrived. A FrameSeal follows each frame: a frame that
// was forged, changed, repeated or left out on the way ends the channel.
//
// Threads: serve() and tick() from the watcher's thread; hungUp() from any thread; everything else from the
// connection's thread.
#pragma once

#include <atomic>
#include <cstddef>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

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

class SideChannel final : public Watched {
 public:
  // `bell` rings when a frame has arrived or the channel has ended. `number` at a receiver: all receives up
  // to this number are complete. The channel answers each Break with an Arrived frame at once, and sends
  // another one each time when the number has grown, until breakIsAnswered(). `number` at a sender: the first
  // receive that is not fully posted. The channel answers each Reconcile with an Unposted frame.
  SideChannel(verbs::FatalFlag& bell, Direction direction, const SharedNumber& number)
      : bell_(bell), direction_(direction), number_(number) {}
  ~SideChannel();
  SideChannel(const SideChannel&) = delete;
  SideChannel& operator=(const SideChannel&) = delete;

  // `watcher` null: only next() reads the socket.
  void open(Socket socket, EventWatcher* watcher, const FrameKeys& keys);
  bool opened() const { return socket_.valid(); }
  // The watcher's thread reads the socket and rings the bell.
  bool watched() const { return watcher_ != nullptr; }

  // Bytes that cannot be sent at once are sent later. Bytes that the peer does not take because it has gone
  // are lost.
  template <typename Frame>
  void send(const Frame& frame) {
    sendBytes(std::as_bytes(std::span(&frame, 1)));
  }
  // The next frame that has arrived, checked; nothing: there is none now. `look`: reads the socket too.
  std::optional<std::vector<std::byte>> next(bool look = false);
  // The connection has dealt with the latest Break, which needs no more Arrived frames.
  void breakIsAnswered();
  // The peer will send nothing more, or bytes have come that are no valid frame; and every frame was taken.
  bool ended();
  // The peer will send nothing more, but a frame may be left to be taken. From any thread.
  bool hungUp() const { return hung_up_.load(std::memory_order_acquire); }
  // What is wrong with the last bytes, in words; "": nothing.
  std::string problem();
  // Shuts the socket down: the peer sees that nothing more will come.
  void end();

  int descriptor() const override { return socket_.fd(); }
  bool serve(bool hung_up) override;
  bool tick() override;

 private:
  void sendBytes(std::span<const std::byte> frame);
  void queueLocked(std::span<const std::byte> frame);
  void flushLocked();
  bool readLocked();
  bool takeLocked();
  void hangUpLocked();
  template <typename Frame>
  void answerLocked(MessageType type);

  verbs::FatalFlag& bell_;
  const Direction direction_;
  const SharedNumber& number_;
  EventWatcher* watcher_ = nullptr;
  std::atomic<bool> hung_up_ = false;
  std::mutex mutex_;  // guards the members below
  Socket socket_;
  std::optional<FrameKeys> keys_;  // once it is open
  uint64_t sent_ = 0;              // number of the last frame that was sent
  uint64_t heard_ = 0;             // number of the last frame that has arrived
  std::vector<std::byte> outbox_;
  std::vector<std::byte> partial_;  // bytes of the frame that is being read, and of its seal
  std::deque<std::vector<std::byte>> inbox_;
  std::string problem_;
  bool break_waits_ = false;  // a Break was answered, but no Reconcile has followed yet
  uint64_t told_ = 0;         // the number in the latest answer
};

}  // namespace railwise::net
