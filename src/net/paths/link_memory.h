// The memory of a link: a page of the record and its queue pairs, in front of the object that sends over it.
// So the data path reaches its counts and its queue pairs at a fixed distance, without a pointer: a pointer
// costs 6 of 298 instructions of irecv, and 2 of 27 of test (docs/develop/decisions.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>

#include "net/paths/lane.h"
#include "net/wireup/side_channel.h"
#include "record/writer.h"

namespace railwise::net {

// The base of an object that has such memory in front of it. The object begins with this base.
class LinkMemory {
 public:
  LinkMemory(const LinkMemory&) = delete;
  LinkMemory& operator=(const LinkMemory&) = delete;
  static void* operator new(std::size_t bytes) {
    void* const memory = record::PageMemory::allocate(QueuePairs::kBytes + bytes);
    if (memory == nullptr) throw std::bad_alloc();
    return static_cast<std::byte*>(memory) + QueuePairs::kBytes;
  }
  static void operator delete(void* object, std::size_t bytes) {
    record::PageMemory::free(static_cast<std::byte*>(object) - QueuePairs::kBytes,
                             QueuePairs::kBytes + bytes);
  }

  // The numbers and counts of the link lie in its record.
  record::ConnectionRecord& shown() {
    return *reinterpret_cast<record::ConnectionRecord*>(reinterpret_cast<std::byte*>(this) - kRecordDistance);
  }
  const record::ConnectionRecord& shown() const { return const_cast<LinkMemory*>(this)->shown(); }
  record::ConnectionNumbers& numbers() { return shown().numbers; }
  const record::ConnectionNumbers& numbers() const { return shown().numbers; }
  // All units of the user up to this number have arrived. The answering end counts them; the other end hears
  // of them.
  SharedNumber& arrivedUpTo() { return reinterpret_cast<SharedNumber&>(numbers().arrived); }
  uint64_t arrivedUpTo() const { return numbers().arrived; }
  // The oldest unit for which not all work requests are posted.
  SharedNumber& nextPost() { return reinterpret_cast<SharedNumber&>(numbers().posted); }
  uint64_t nextPost() const { return numbers().posted; }

  // The memory of the queue pairs, between the page of the record and this object.
  void* queuePairMemory() { return reinterpret_cast<std::byte*>(this) - QueuePairs::kBytes; }
  LaneQueuePair& queuePair(std::size_t index) {
    return static_cast<LaneQueuePair*>(queuePairMemory())[index];
  }
  record::ConnectionPage& page() { return record::PageMemory::pageOf(queuePairMemory()); }

 protected:
  LinkMemory() = default;
  ~LinkMemory() = default;
};

}  // namespace railwise::net
