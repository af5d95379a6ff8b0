// What the results of the pair test mean: which rail, NIC or host is odd. Pure; thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "base/text/json.h"
#include "doctor/finding.h"
#include "doctor/pair/measuring/plan.h"

namespace railwise::doctor::pair {

// How one direction of a NIC pair did.
enum class Health : uint8_t { kSkipped, kGood, kSlow, kFailed };

struct Verdict {
  std::array<Health, 2> health = {Health::kSkipped, Health::kSkipped};  // of what halves[0], halves[1] sent
  double allowed_gbytes = 0;  // by the ports and PCIe paths of both ends; 0: not known
  double median_gbytes = 0;   // of the pairs that should be as fast: alone
  bool software = false;      // no hardware: what is allowed says nothing
};

struct Judgement {
  Findings findings;
  std::vector<Verdict> verdicts;  // in the order of Results::pairs
};

// A rail below this share of its peers' median, or of what port and path allow, is slow.
inline constexpr double kSlowShare = 0.8;
// On a software device all rails share the processor with everything else on the machine, so only a great
// difference counts.
inline constexpr double kSlowShareSoftware = 1.0 / 3;

Judgement judge(const Results& results);

// What one host sent to another while all rails were busy, GB/s, and how the worst of its rails did.
struct HostCell {
  double gbytes = 0;
  double slowest_alone = 0;
  Health worst = Health::kSkipped;
  bool measured = false;
};
// [from][to], in the order of Results::ends.
std::vector<std::vector<HostCell>> hostMatrix(const Results& results, const std::vector<Verdict>& verdicts);

// Expected and measured bus bandwidth of all_reduce. NCCL's own model says what to expect; where it does not,
// what the NICs of the slowest host carry. 0: not known.
struct AllReduceCheck {
  double expected_gbytes = 0;
  double measured_gbytes = 0;
  std::string rule;
};
AllReduceCheck checkAllReduce(const Results& results);

// GB/s that the NICs of NCCL's rings sent from one host to another while all NICs were busy, of the slowest
// direction. 0: not measured.
double ringNicsGbytes(const Results& results);

// "A mlx5_3" (twice), "A mlx5_3 -> B mlx5_3" and "A mlx5_3 - B mlx5_3", for messages and tables.
std::string endNicName(const Results& results, std::size_t end, std::size_t nic);
std::string endNicName(const Results& results, const PairResult& pair, std::size_t side);
std::string directionName(const Results& results, const PairResult& pair, std::size_t sender);
std::string pairName(const Results& results, const PairResult& pair);

// What the facts of both ends say without a measurement.
void judgeFacts(const Results& results, Findings& findings);

// Whether rails route to each other, from Results::across. The text is one sentence for NCCL_CROSS_NIC; "":
// it was not tried.
std::string acrossText(const Results& results);
// Writes the key "across_rails" into the object that is open.
void writeAcrossJson(JsonWriter& json, const Results& results);
void judgeAcross(const Results& results, Findings& findings);

}  // namespace railwise::doctor::pair
