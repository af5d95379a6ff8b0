#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <utility>

#include "base/text/text_layout.h"
#include "base/text/words.h"
#include "doctor/pair/judge.h"

namespace railwise::doctor::pair {
namespace {

std::string gidName(const verbs::Gid& gid) {
  return "index " + std::to_string(gid.index) + " " + gidTypeText(gid);
}

std::string gidTypes(const NicFacts& nic) {
  const std::string text = joined(nic.gids, ", ", gidName);
  return text.empty() ? "none" : text;
}

class FactJudge {
 public:
  FactJudge(const Results& results, Findings& findings) : results_(results), findings_(findings) {}

  void run() {
    judgeEnds();
    for (const PairResult& pair : results_.pairs) {
      judgeObstacle(pair);
      if (!pair.measured()) continue;
      judgeSpeed(pair);
      judgeGids(pair);
      judgeEce(pair);
    }
    judgeMtu();
    judgeNothing();
  }

 private:
  // A NIC is in many pairs; what is said of it is said once.
  void add(const char* check, Severity severity, const char* what, const Seen& seen, const char* why,
           const char* fix) {
    if (said_.insert(check + ("/" + seen.device) + "/" + seen.value).second)
      findings_.add(check, severity, what, {seen}, why, fix);
  }

  void judgeEnds() {
    std::map<std::size_t, std::size_t> counts;  // number of NICs -> number of hosts
    for (const EndFacts& end : results_.ends) {
      if (!end.failure.empty())
        add("pair-no-device", Severity::kError, "the host has no RDMA device that can be used",
            {end.host, "", end.failure}, "NCCL falls back to TCP on it, or fails.",
            end.failure.find("railwise-device") != std::string::npos
                ? "install the package railwise-device on that host"
                : "railwise doctor    # on that host\n"
                  "RAILWISE_DEVICE=software:@dgx railwise doctor --pair    # to try it without a NIC");
      ++counts[end.nics.size()];
    }
    if (counts.size() < 2) return;
    std::size_t usual = counts.rbegin()->first;
    for (const auto& [nics, hosts] : counts) usual = hosts > counts[usual] ? nics : usual;
    for (const EndFacts& end : results_.ends) {
      if (end.nics.size() == usual || !end.failure.empty()) continue;
      add("pair-nic-count", Severity::kWarning, "the host has another number of NICs than the others",
          {end.host, "", std::to_string(end.nics.size()) + " NIC ports, not " + std::to_string(usual)},
          "The host with the fewest NICs decides how fast a job is.",
          "lspci | grep -i -e mellanox -e ethernet\n"
          "railwise fingerprint --json > HOST.json    # on each host\n"
          "railwise fingerprint --compare *.json");
    }
  }

  void judgeObstacle(const PairResult& pair) {
    for (const std::size_t side : kSides) {
      const NicFacts& nic = results_.nic(pair, side);
      const std::string name = endNicName(results_, pair, side);
      if (!nic.error.empty())
        add("pair-not-opened", Severity::kError, "the device cannot be used", {name, "", nic.error},
            "NCCL leaves the NIC out on this host, and uses it on others.",
            "ls -l /dev/infiniband    # in the container, too\nulimit -l    # should be unlimited");
      else if (!nic.active && pair.obstacle == Obstacle::kPortDown)
        add("pair-port-down", Severity::kError, "the port is down, and its partner's is up",
            {name, "", "not active"},
            "The hosts have different rails: NCCL uses fewer NICs, or another path.",
            "ibstat    # is the cable in, is the switch port on\nip link set dev NETDEV up    # RoCE");
    }
    if (pair.obstacle == Obstacle::kLinkKind) addLinkKinds(pair);
    if (pair.obstacle == Obstacle::kNoGids) addNoAddress(pair);
  }

  // Without this a test that measured nothing would say "fine".
  void judgeNothing() {
    const auto with_nics =
        std::ranges::count_if(results_.ends, [](const EndFacts& end) { return !end.nics.empty(); });
    const bool any = std::ranges::any_of(results_.pairs, std::mem_fn(&PairResult::measured));
    if (any || with_nics < 2 || !findings_.empty()) return;
    add("pair-nothing-measured", Severity::kWarning, "no NIC of these hosts can be measured",
        {results_.ends.front().host, "", "the lines below \"Not looked at\" say why"},
        "The test says nothing about this fabric.",
        "ibv_devinfo -v    # is a port active, and which link has it?");
  }

  void addLinkKinds(const PairResult& pair) {
    const std::string kinds =
        std::string(linkName(results_.nic(pair, 0).link)) + " and " + linkName(results_.nic(pair, 1).link);
    // Beside a pair that works it may be a port for another network.
    const bool others = std::ranges::any_of(
        results_.pairs, [&](const PairResult& each) { return each.match == pair.match && each.measured(); });
    add("pair-link", others ? Severity::kWarning : Severity::kError, "the ports have different links",
        {pairName(results_, pair), "", kinds}, "They never reach each other.",
        "railwise doctor --pair HOST --nic NAMES    # only the NICs of one network\n"
        "ibv_devinfo -v | grep -e hca_id -e link_layer    # at both ends: which port is set up otherwise?\n"
        "mstconfig -d PCI-ADDRESS query | grep LINK_TYPE    # 1 InfiniBand, 2 Ethernet; changing it needs a "
        "reboot");
  }

  void addNoAddress(const PairResult& pair) {
    add("pair-no-address", Severity::kError, "no address of one port reaches an address of the other",
        {pairName(results_, pair), "GIDs",
         gidTypes(results_.nic(pair, 0)) + " and " + gidTypes(results_.nic(pair, 1))},
        "A connection between these NICs cannot be made.",
        "ibv_devinfo -v -d DEVICE | grep GID    # or show_gids: each port needs one type and family\n"
        "ip addr add ADDRESS/PREFIX dev NETDEV");
  }

  void judgeSpeed(const PairResult& pair) {
    const uint32_t first = results_.nic(pair, 0).speed_mbps;
    const uint32_t second = results_.nic(pair, 1).speed_mbps;
    if (first == second || first == 0 || second == 0) return;
    const std::size_t slow = first < second ? 0 : 1;
    add("pair-speed", Severity::kWarning, "the port is slower than its partner",
        {endNicName(results_, pair, slow), "port speed",
         std::to_string(std::min(first, second) / 1000) + " Gb/s, not " +
             std::to_string(std::max(first, second) / 1000) + " as " + endNicName(results_, pair, 1 - slow)},
        "The slower port decides for both.",
        "mlxlink -d DEVICE    # was another speed negotiated? Cable, switch port, FEC\n"
        "mstlink -d PCI-ADDRESS    # the same without NVIDIA's tools: package mstflint");
  }

  void judgeGids(const PairResult& pair) {
    if (results_.nic(pair, 0).link != LinkKind::kRoce) return;
    const verbs::Gid& first = results_.nic(pair, 0).gids[pair.gids[0]];
    const verbs::Gid& second = results_.nic(pair, 1).gids[pair.gids[1]];
    const std::string seen = gidName(first) + " and " + gidName(second);
    if (first.roce_version == 1 || second.roce_version == 1)
      add("pair-gid-types", Severity::kWarning, "the ports talk RoCE v1",
          {pairName(results_, pair), "GIDs", seen},
          "RoCE v1 is not routed, and most fabrics give it no lossless class.",
          "ibv_devinfo -v -d DEVICE | grep GID    # or show_gids: RoCE v2 with an IPv4 address at both "
          "ends?");
    else if (first.index != second.index)
      add("pair-gid-index", Severity::kAdvice, "the ports use GIDs with different indices",
          {pairName(results_, pair), "GIDs", seen},
          "Railwise and NCCL find the GID by its type; a fixed NCCL_IB_GID_INDEX would be wrong at one end.",
          "unset NCCL_IB_GID_INDEX");
  }

  // Both ends must offer it, from one vendor; else the queue pairs do without, and no log says so.
  void judgeEce(const PairResult& pair) {
    const NicFacts& first = results_.nic(pair, 0);
    const NicFacts& second = results_.nic(pair, 1);
    if (first.ece_vendor == second.ece_vendor) return;
    const auto offer = [](const NicFacts& nic) {
      return nic.ece_vendor == 0 ? std::string("none")
                                 : formatText("vendor 0x%x, options 0x%x", nic.ece_vendor, nic.ece_options);
    };
    add("pair-ece", Severity::kAdvice, "the ports do not agree on ECE (enhanced connections of RoCE)",
        {pairName(results_, pair), "offered", offer(first) + " and " + offer(second)},
        "The connections do without what it turns on, often selective repeat and the vendor's congestion "
        "control, which other pairs of the job have.",
        "env | grep NCCL_IB_ECE_ENABLE    # the same at both ends?\n"
        "railwise fingerprint --json > HOST.json    # on each host: is the firmware older at one end?\n"
        "railwise fingerprint --compare *.json");
  }

  // The MTU that most NICs of a link have is the usual one, and who differs from it is odd.
  void judgeMtu() {
    std::map<std::pair<LinkKind, uint32_t>, int> counts;
    for (const EndFacts& end : results_.ends) {
      for (const NicFacts& nic : end.nics) {
        if (nic.active) ++counts[{nic.link, nic.mtu_bytes}];
      }
    }
    for (const PairResult& pair : results_.pairs) {
      const NicFacts& first = results_.nic(pair, 0);
      const NicFacts& second = results_.nic(pair, 1);
      if (!pair.measured() || first.mtu_bytes == second.mtu_bytes) continue;
      const int with_first = counts[{first.link, first.mtu_bytes}];
      const int with_second = counts[{second.link, second.mtu_bytes}];
      const bool first_odd =
          with_first != with_second ? with_first < with_second : first.mtu_bytes < second.mtu_bytes;
      addMtu(pair, first_odd ? 0 : 1);
    }
  }

  void addMtu(const PairResult& pair, std::size_t odd) {
    const NicFacts& nic = results_.nic(pair, odd);
    const bool roce = nic.link == LinkKind::kRoce;
    add("pair-mtu", Severity::kWarning, "the MTU differs from its partner's",
        {endNicName(results_, pair, odd), "active MTU",
         std::to_string(nic.mtu_bytes) + ", not " + std::to_string(results_.nic(pair, 1 - odd).mtu_bytes)},
        "The pair uses the smaller one: more packets and headers for the same data.",
        roce ? "ip link set dev NETDEV mtu 9000    # and on the switch port"
             : "ibstat; ibv_devinfo -v | grep mtu    # the subnet manager's partitions.conf sets it: mtu=5");
  }

  const Results& results_;
  Findings& findings_;
  std::set<std::string> said_;
};

}  // namespace

void judgeFacts(const Results& results, Findings& findings) { FactJudge(results, findings).run(); }

}  // namespace railwise::doctor::pair
