// In every test of net_test: when a LoopConnection ends, the record of the process must say exactly what the
// devices have counted: bytes, work requests and completions, for each device, whatever has gone wrong in the
// test.
#include <gtest/gtest.h>

#include <map>

#include "loop_connection.h"
#include "net/own_record.h"
#include "tests/ok.h"

namespace railwise::net {
namespace {

struct Counts {
  uint64_t bytes = 0;
  uint64_t work_requests = 0;
  uint64_t completions = 0;
  auto operator<=>(const Counts&) const = default;
};

std::ostream& operator<<(std::ostream& out, const Counts& counts) {
  return out << counts.bytes << " bytes, " << counts.work_requests << " work requests, " << counts.completions
             << " completions";
}

void compare(Net& net) {
  std::map<std::string, Counts> counted;
  for (int i = 0; i < net.physicalDevices(); ++i) {
    // A device keeps its first name in the record, whatever its next life is called.
    const Hca* const first = net.device(i)->rails().front().hca;
    Counts& sum = counted[first->name()];
    for (const Hca* hca = first; hca != nullptr; hca = hca->nextGeneration()) {
      const softdev::Counters its = softdev::counters(hca->context());
      sum.bytes += its.bytes;
      sum.work_requests += its.writes + its.writes_with_imm + its.reads + its.sends + its.atomics;
      sum.completions += its.completions;
    }
  }
  const Outcome<record::Snapshot> snapshot = test::ownRecord();
  ASSERT_OK(snapshot);
  std::map<std::string, Counts> recorded;
  constexpr uint64_t kMost = uint64_t{1} << 40;
  for (const record::Rail& rail : snapshot->rails) {
    EXPECT_LT(rail.totals.bytes_sent, kMost) << "below zero";
    EXPECT_LT(rail.totals.control_bytes, kMost) << "below zero";
    Counts& sum = recorded[rail.device];
    sum.bytes += rail.totals.bytes_sent + rail.totals.control_bytes;
    sum.work_requests += rail.totals.work_requests;
    sum.completions += rail.totals.completions;
  }
  EXPECT_EQ(recorded, counted);
}

const bool installed = [] {
  LoopConnection::at_end = compare;
  return true;
}();

}  // namespace
}  // namespace railwise::net
