// The record of this process as an object: the file, the tables in it, and which slots are taken. writer.h
// has what the rest of Railwise calls. Threads: each function says which lock it takes.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/process.h"
#include "record/layout.h"
#include "record/writer.h"

namespace railwise::record {

// Bytes of a page of memory here, and of a slot in the file.
std::size_t pageSize();
std::size_t slotBytes();

template <typename Sequence>
void increase(Sequence& sequence) {
  fence();
  std::atomic_ref<Sequence>(sequence).store(sequence + 1, std::memory_order_relaxed);
  fence();
}

class Record {
 public:
  // Makes the file. If there is none, `problem` says why.
  static std::unique_ptr<Record> make(const WriterSettings& settings, std::string& problem);
  // Removes a file that was neither finished nor given to anybody.
  ~Record();
  bool ours() const { return processId() == static_cast<pid_t>(owner_); }
  const std::string& path() const { return path_; }
  // The descriptor that holds the lock. Closing another descriptor of the file would end the lock.
  int fd() const { return fd_; }
  Header& header() { return *reinterpret_cast<Header*>(base_); }
  RailRecord& rail(uint16_t index) { return reinterpret_cast<RailRecord*>(base_ + kRailsAt)[index]; }
  EventRecord& event(uint64_t number) {
    return reinterpret_cast<EventRecord*>(base_ + kEventsAt)[number % kEvents];
  }

  // How many rails the table has. Call it with the lock of the rails.
  uint16_t rails() const { return rails_; }
  uint16_t addRail(const RailDescription& description);
  // Call it with the lock of the rails.
  uint16_t find(std::string_view device, int port);
  void note(EventKind kind, std::string_view text, const EventDetails& details);
  // Is there something to look into: has a rail, a connection or an attempt to connect failed, or was
  // something slow?
  bool hasFailures();
  // Maps a page of a new slot so that it ends at `end`. `end` null: anywhere; it receives the end. The slot,
  // or -1.
  int64_t mapSlot(std::byte*& end);
  void giveSlot(int64_t slot);
  // Ends it: unmaps and closes the file, and removes the file unless `keep`.
  void finish(bool keep);

  // Guards the rails, and counts that move to their totals.
  std::mutex& railsMutex() { return rails_mutex_; }

 private:
  bool grow();

  // Indices are private: a process that writes into the file cannot lead this process astray.
  std::mutex rails_mutex_;
  uint16_t rails_ = 0;
  std::string path_;
  uint32_t owner_ = 0;
  int fd_ = -1;
  std::byte* base_ = nullptr;
  std::mutex events_mutex_;
  bool failure_noted_ = false;  // guarded by events_mutex_
  std::mutex slots_mutex_;
  std::vector<uint32_t> free_slots_;
  uint32_t slots_ = 0;  // slots that were taken once
  uint32_t most_slots_ = 0;
  uint32_t reserved_slots_ = 0;  // slots that the file has memory for
  bool said_full_ = false;
};

// The record of this process; null: there is none, or this is a child of fork().
Record* currentRecord();

}  // namespace railwise::record
