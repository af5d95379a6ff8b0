// Do rails route to each other? One sentence, and a finding where a job would use a route that is missing.
#include <algorithm>

#include "base/text/words.h"
#include "doctor/pair/judge.h"

namespace railwise::doctor::pair {
namespace {

constexpr std::size_t kMostNamed = 4;

// The directions of the pairs that were tried: "A mlx5_0 -> B mlx5_1".
struct Routes {
  std::vector<std::string> missing;  // not even 8 bytes arrive
  std::vector<std::string> narrow;   // packets of full size do not
  std::size_t known = 0;             // the missing and the narrow ones are among them
  std::vector<std::string> pairs;    // whose directions these are
};

// Does the NIC of one side work with its partner of the same rail? If not, it tells nothing of routes.
bool works(const Results& results, const PairResult& across, std::size_t side) {
  const auto own = [&](const PairResult& pair) {
    return pair.match == across.match && pair.nics[side] == across.nics[side];
  };
  const auto sound = [](const PairResult& pair) {
    return pair.measured() &&
           std::ranges::all_of(pair.halves, [](const Half& half) { return half.reach == Reach::kAll; });
  };
  return std::ranges::none_of(results.pairs, own) ||
         std::ranges::any_of(results.pairs, [&](const PairResult& pair) { return own(pair) && sound(pair); });
}

Routes routesOf(const Results& results) {
  Routes routes;
  for (const PairResult& pair : results.across) {
    if (!works(results, pair, 0) || !works(results, pair, 1)) continue;
    // No address of one port reaches one of the other: a route that is missing, and nothing to measure.
    const bool no_address = pair.obstacle == Obstacle::kNoGids;
    if (!pair.measured() && !no_address) continue;
    const std::size_t before = routes.known;
    for (const std::size_t side : kSides) {
      const Reach reach = no_address ? Reach::kNone : pair.halves[side].reach;
      if (reach == Reach::kNotTried) continue;
      ++routes.known;
      if (reach == Reach::kNone) routes.missing.push_back(directionName(results, pair, side));
      if (reach == Reach::kSmallOnly) routes.narrow.push_back(directionName(results, pair, side));
    }
    if (routes.known > before) routes.pairs.push_back(pairName(results, pair));
  }
  return routes;
}

}  // namespace

std::string acrossText(const Results& results) {
  if (results.across.empty()) return "";
  const Routes routes = routesOf(results);
  if (routes.known == 0)
    return "Whether rails route to each other is not known: no pair of NICs could be tried that work within "
           "their own rails.";
  const std::string pairs = "each NIC with the one of the next rail: " + firstItems(routes.pairs, kMostNamed);
  const std::string off = results.cross_nic == 0 ? ", and is." : ".";
  if (routes.missing.size() == routes.known)
    return "Rails do not route to each other (" + pairs + "): NCCL_CROSS_NIC must be 0" + off;
  if (!routes.missing.empty())
    return "Not all rails route to each other (" + pairs + "): no route " +
           firstItems(routes.missing, kMostNamed) + ". Where that is meant, NCCL_CROSS_NIC must be 0" + off;
  if (!routes.narrow.empty())
    return "Rails route to each other (" + pairs +
           "), but packets of full size are lost: " + firstItems(routes.narrow, kMostNamed) +
           ". Check the MTU on the way.";
  return "Rails route to each other (" + pairs + "): NCCL_CROSS_NIC may stay as it is.";
}

void writeAcrossJson(JsonWriter& json, const Results& results) {
  const Routes routes = routesOf(results);
  json.key("across_rails").beginObject();
  json.key("text").known(acrossText(results));
  json.key("directions_tried").value(static_cast<uint64_t>(routes.known));
  json.key("missing").row(routes.missing).key("small_packets_only").row(routes.narrow);
  json.endObject();
}

void judgeAcross(const Results& results, Findings& findings) {
  const Routes routes = routesOf(results);
  const std::vector<std::string>& missing = routes.missing;
  if (missing.empty() || results.cross_nic == 0) return;
  const bool all = missing.size() == routes.known;
  std::vector<Seen> seen;
  for (const std::string& route : missing) seen.push_back({route, "", "writes do not arrive"});
  findings.add("pair-across-rails", Severity::kWarning,
               all ? "no rail routes to another one" : "some rails do not route to each other",
               std::move(seen),
               "Within a rail all works. A ring, tree or all-to-all that changes rails hangs, or fails with "
               "status 12.",
               "export NCCL_CROSS_NIC=0    # and leave PXN on (no NCCL_PXN_DISABLE=1): sends between GPUs of "
               "different rails then stay on one; NCCL 2.30 has no puts by proxy then\n"
               "ip route get ADDRESS from ADDRESS    # RoCE, or mend the route between the rails' subnets");
}

}  // namespace railwise::doctor::pair
