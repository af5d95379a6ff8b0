// Do rails route to each other? One sentence, and a finding where a job would use a route that is missing.
#include <algorithm>

#include "base/text/words.h"
#include "doctor/pair/judge.h"

namespace railwise::doctor::pair {
namespace {

constexpr std::size_t kMostNamed = 4;

// "A mlx5_0 -> B mlx5_1": every direction of every pair that was tried, in which writes do not arrive.
std::vector<std::string> missingRoutes(const Results& results) {
  std::vector<std::string> missing;
  for (const PairResult& pair : results.across) {
    for (const std::size_t side : kSides) {
      const bool arrives = pair.measured() && pair.halves[side].reach == Reach::kAll;
      if (!arrives) missing.push_back(directionName(results, pair, side));
    }
  }
  return missing;
}

}  // namespace

std::string acrossText(const Results& results) {
  if (results.across.empty()) return "";
  std::vector<std::string> tried;
  for (const PairResult& pair : results.across) tried.push_back(pairName(results, pair));
  const std::string pairs = "each NIC with the one of the next rail: " + firstItems(tried, kMostNamed);
  const std::vector<std::string> missing = missingRoutes(results);
  if (missing.empty()) return "Rails route to each other (" + pairs + "): NCCL_CROSS_NIC may stay as it is.";
  if (missing.size() == 2 * tried.size())
    return "Rails do not route to each other (" + pairs + "): NCCL_CROSS_NIC must be 0" +
           (results.cross_nic == 0 ? ", and is." : ".");
  return "Not all rails route to each other (" + pairs + "): no route " + firstItems(missing, kMostNamed) +
         ". Mend it, or set NCCL_CROSS_NIC=0.";
}

void judgeAcross(const Results& results, Findings& findings) {
  const std::vector<std::string> missing = missingRoutes(results);
  if (missing.empty() || results.cross_nic == 0) return;
  const bool all = missing.size() == 2 * results.across.size();
  Finding finding = {
      .check = "pair-across-rails",
      .severity = Severity::kWarning,
      .what = all ? "no rail routes to another one" : "some rails do not route to each other",
      .why =
          "Within a rail all works. A ring, tree or all-to-all that changes rails hangs, or fails with "
          "status 12.",
      .fix =
          "export NCCL_CROSS_NIC=0    # and leave PXN on (no NCCL_PXN_DISABLE=1): sends between GPUs of "
          "different "
          "rails then stay on one\n"
          "ip route get ADDRESS from ADDRESS    # RoCE, or mend the route between the rails' subnets"};
  for (const std::string& route : missing) finding.seen.push_back({route, "", "writes do not arrive"});
  findings.add(std::move(finding));
}

}  // namespace railwise::doctor::pair
