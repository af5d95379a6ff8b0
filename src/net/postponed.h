// Receivers whose clear-to-send waits for more of its kind: it is posted with the last irecv of a row, or at
// the next test(). A thread that has both ends and waits for its own receivers in isend would wait for ever;
// so isend has those of its thread posted before it says "not ready".
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>

namespace railwise::net {

class ReceiveConnection;

class Postponed {
 public:
  explicit Postponed(ReceiveConnection& connection) : entry_(std::make_shared<Entry>(connection)) {}
  ~Postponed();  // whichever thread has it: it is forgotten there
  Postponed(const Postponed&) = delete;
  Postponed& operator=(const Postponed&) = delete;

  // The calling thread has something to post for the connection. Cheap when the thread is known. Until
  // forget(), which says that it was posted, no other thread may use the connection.
  void remember() {
    if (entry_->thread.load(std::memory_order_relaxed) != thisThread()) [[unlikely]]
      add();
    entry_->waits.store(true, std::memory_order_relaxed);
  }
  void forget() { entry_->waits.store(false, std::memory_order_relaxed); }

  // Posts what waits in the calling thread. What fails shows with the receive's own test().
  static void postAll();

 private:
  struct Entry {
    explicit Entry(ReceiveConnection& of) : connection(&of) {}
    std::mutex mutex;               // against the end of the connection meanwhile
    ReceiveConnection* connection;  // null: it has ended
    std::atomic<uint64_t> thread = 0;
    std::atomic<bool> waits = false;
  };
  struct Thread;

  static uint64_t thisThread();
  void add();

  std::shared_ptr<Entry> entry_;
};

}  // namespace railwise::net
