// Drives groups that nobody else drives. NCCL has a thread that calls rmaProgress all the time. A program
// that uses the table by itself may wait for a signal, or for other ranks, without a call; and NCCL calls a
// group no more that has returned an error. Their peers need them all the same: handshakes, signals,
// recoveries.
//
// One thread for the process, as long as there are groups. Threads: any thread.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace railwise::net {

// What an attendant drives.
class Attended {
 public:
  // Goes on if nobody else has driven it since the last call.
  virtual void attend() noexcept = 0;

 protected:
  ~Attended() = default;
};

class Attendant {
 public:
  // The attendant of this process; begins its thread if there is none. Without memory or threads there is no
  // attendant, and groups wait for their callers.
  static std::shared_ptr<Attendant> ofProcess();
  ~Attendant();
  Attendant(const Attendant&) = delete;
  Attendant& operator=(const Attendant&) = delete;

  void attend(Attended& group);
  // Ends it. Returns when the thread no longer uses the group. In a forked child, which has no such thread,
  // the attendant stays in memory: a condition that a thread of the parent waits for cannot be destroyed.
  static void leave(std::shared_ptr<Attendant> attendant, Attended& group);

 private:
  Attendant();
  void run();

  const int owner_pid_;
  std::mutex mutex_;  // held while the thread calls groups
  std::condition_variable changed_;
  std::vector<Attended*> groups_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace railwise::net
