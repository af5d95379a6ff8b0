// The handshake's socket in its second life: the frames that the two ends of a connection send each other
// when something has failed, and the end of it, which tells of the peer's. The watcher's thread reads it, so
// that a connection looks into memory only, and answers what needs nobody: how far everything has arrived.
//
// Threads: send(), next(), end() from the connection's thread; ended() from any.
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
#include "net/wireup/frames.h"

namespace railwise::net {

enum class Direction : uint8_t { kSend, kReceive };

// A number that one thread counts up and others may read.
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
  // `bell` rings when there is something to hear. `number`: of a receiver what has arrived, with which it
  // answers each break at once, and again when it has grown until the break is settled; of a sender what it
  // has not posted, with which it answers each settle.
  SideChannel(verbs::FatalFlag& bell, Direction direction, const SharedNumber& number)
      : bell_(bell), direction_(direction), number_(number) {}
  ~SideChannel();
  SideChannel(const SideChannel&) = delete;
  SideChannel& operator=(const SideChannel&) = delete;

  // `watcher` null: nobody reads but next().
  void open(Socket socket, EventWatcher* watcher);
  bool opened() const { return socket_.valid(); }
  // Somebody reads, and rings the bell.
  bool watched() const { return watcher_ != nullptr; }

  // What cannot go at once goes later; what the peer does not take because it has gone is lost.
  template <typename Frame>
  void send(const Frame& frame) {
    sendBytes(std::as_bytes(std::span(&frame, 1)));
  }
  // The next frame that was heard, checked; nothing: there is none now. `look`: also what nobody has read
  // yet.
  std::optional<std::vector<std::byte>> next(bool look = false);
  // The latest break needs no more such answers.
  void breakIsSettled();
  // The peer will send nothing more, and everything that it sent was taken; or it sent what is no frame.
  bool ended();
  // The same, but something may be left to be taken. From any thread.
  bool hungUp() const { return hung_up_.load(std::memory_order_acquire); }
  // What is wrong with the last bytes; "": nothing.
  std::string problem();
  // Tells the peer that nothing more will come.
  void end();

  int descriptor() const override { return socket_.fd(); }
  bool serve(bool hung_up) override;
  bool tick() override;

 private:
  void sendBytes(std::span<const std::byte> frame);
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
  std::mutex mutex_;  // guards what follows
  Socket socket_;
  std::vector<std::byte> outbox_;
  std::vector<std::byte> partial_;  // of the frame that is being read
  std::deque<std::vector<std::byte>> inbox_;
  std::string problem_;
  bool break_waits_ = false;  // it was answered, but not settled yet
  uint64_t told_ = 0;         // the answer
};

}  // namespace railwise::net
