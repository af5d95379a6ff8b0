#include "softdev/engine/pacing.h"

#include <algorithm>

#include "softdev/fabric/monotonic.h"

namespace railwise::softdev {
namespace {

// Approximate size of the header of a RoCE v2 or InfiniBand packet; one packet per MTU.
constexpr uint64_t kHeaderBytes = 30;

// Occupies a resource for `bytes`. Returns the time at which they have passed it. Relaxed: the time leads to
// no other memory.
uint64_t occupy(std::atomic<uint64_t>& free_at_ns, uint64_t now_ns, uint64_t bytes, uint32_t mbps) {
  if (mbps == 0) return now_ns;
  const uint64_t duration_ns = bytes * 8 * 1000 / mbps;
  uint64_t seen = free_at_ns.load(std::memory_order_relaxed);
  uint64_t done = 0;
  do {
    done = std::max(seen, now_ns) + duration_ns;
  } while (!free_at_ns.compare_exchange_weak(seen, done, std::memory_order_relaxed));
  return done;
}

PortRecord& pcieOf(Segment& segment, PortRecord& port) {
  return port.pcie_link != 0 ? segment.ports[port.pcie_link - 1] : port;
}

uint32_t mbpsOf(const PortRecord& port) { return port.speed_mbps.load(std::memory_order_relaxed); }
uint32_t pcieMbpsOf(const PortRecord& port) { return port.pcie_mbps.load(std::memory_order_relaxed); }
bool paced(const PortRecord& port) { return port.paced.load(std::memory_order_relaxed) != 0; }

}  // namespace

Passage travel(Segment& segment, PortRecord& from, PortRecord& to, uint64_t bytes, uint64_t begin_ns) {
  const uint64_t now = begin_ns;
  bytes += kHeaderBytes;
  uint64_t passed = now;
  uint64_t latency = 0;
  if (paced(from)) {
    PortRecord& pcie = pcieOf(segment, from);
    passed = std::max(passed, occupy(pcie.pcie_out_free_ns, now, bytes, pcieMbpsOf(from)));
    passed = std::max(passed, occupy(from.out_free_ns, now, bytes, mbpsOf(from)));
    latency = from.latency_ns.load(std::memory_order_relaxed);
  }
  if (paced(to)) {
    PortRecord& pcie = pcieOf(segment, to);
    passed = std::max(passed, occupy(to.in_free_ns, now, bytes, mbpsOf(to)));
    passed = std::max(passed, occupy(pcie.pcie_in_free_ns, now, bytes, pcieMbpsOf(to)));
    latency = std::max<uint64_t>(latency, to.latency_ns.load(std::memory_order_relaxed));
  }
  return {passed + latency, passed + 2 * latency};
}

}  // namespace railwise::softdev
