#include "softdev/census.h"

#include <array>

namespace railwise::softdev::test {
namespace {

class Counting {
 public:
  explicit Counting(const Fabric& fabric) : segment_(*fabric.segment) {
    for (uint32_t i = 0; i < kMaxProcesses; ++i) {
      const ProcessSlot& slot = segment_.processes[i];
      if (slot.pid.load(std::memory_order_acquire) == 0) continue;
      const uint32_t token = makeToken(i, slot.generation.load(std::memory_order_acquire));
      alive_[i] = tokenAlive(fabric.self, token) ? token : 0;
      ++of(token).processes;
    }
  }

  template <typename Record, size_t size>
  void count(const Record (&records)[size], uint32_t Census::Records::*counter) {
    for (const Record& record : records) {
      const uint32_t owner = record.owner.load(std::memory_order_relaxed);
      if (owner != 0) ++(of(owner).*counter);
    }
  }
  template <typename Record, size_t size>
  void countLocks(const Record (&records)[size], SharedLock Record::*lock) {
    for (const Record& record : records) count(record.*lock);
  }
  void count(const SharedLock& lock) {
    if (const uint32_t owner = lock.owner(); owner != 0) ++of(owner).locks;
  }
  void countPages() {
    for (const auto& page : segment_.page_owners) {
      const uint32_t owner = page.load(std::memory_order_relaxed);
      if (owner != 0) ++of(owner).arena_pages;
    }
  }
  const Census& result() const { return census_; }

 private:
  Census::Records& of(uint32_t token) {
    const uint32_t slot = slotOf(token);
    return slot < kMaxProcesses && alive_[slot] == token ? census_.of_living : census_.of_dead;
  }

  const Segment& segment_;
  Census census_;
  std::array<uint32_t, kMaxProcesses> alive_{};
};

}  // namespace

Census takeCensus(const Fabric& fabric) {
  Segment& segment = *fabric.segment;
  SharedLockGuard guard(segment.tables, fabric.self);
  Counting counting(fabric);
  counting.count(segment.contexts, &Census::Records::contexts);
  counting.count(segment.qps, &Census::Records::qps);
  counting.count(segment.cqs, &Census::Records::cqs);
  counting.count(segment.srqs, &Census::Records::srqs);
  counting.count(segment.mrs, &Census::Records::mrs);
  counting.countLocks(segment.qps, &QpRecord::responder);
  counting.countLocks(segment.cqs, &CqRecord::lock);
  counting.countLocks(segment.srqs, &SrqRecord::lock);
  counting.countLocks(segment.agents, &AgentRecord::lock);
  counting.countPages();
  return counting.result();
}

}  // namespace railwise::softdev::test
