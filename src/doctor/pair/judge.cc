#include "doctor/pair/judge.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "base/text/text_layout.h"
#include "base/text/words.h"

namespace railwise::doctor::pair {
namespace {

// Latency differs by itself between near and far switches; a rail that takes this many times its peers'
// median is odd.
constexpr double kOddLatency = 3;
// Rails that were fine alone are too slow together below this share of their own.
constexpr double kTogetherShare = 0.8;

std::string gbytesOf(double gbytes) { return formatText(gbytes < 10 ? "%.3g GB/s" : "%.1f GB/s", gbytes); }
std::string microsecondsOf(double us) { return formatText(us < 100 ? "%.3g us" : "%.0f us", us); }

// A shell's words for the PCI address of a device.
std::string addressOf(const NicFacts& nic) {
  return "$(basename $(readlink -f /sys/class/infiniband/" + nic.device + "/device))";
}

// mstlink is free software and wants the PCI address.
std::string cableErrors(const NicFacts& nic) {
  if (nic.software)
    return "railwise device fault list\nuptime    # software devices share the processors of their machine";
  return "mlxlink -d " + nic.device + " -c    # both ends: cable errors\n" + "mstlink -d " + addressOf(nic) +
         " -c    # the same without NVIDIA's tools: package mstflint";
}

// Pairs with equal keys should be equally fast.
using PeerKey = std::tuple<LinkKind, bool, int64_t>;

class PairJudge {
 public:
  explicit PairJudge(const Results& results) : results_(results) {}

  Judgement run() {
    judgement_.verdicts.resize(results_.pairs.size());
    for (std::size_t i = 0; i < results_.pairs.size(); ++i) describe(i);
    findPeers();
    for (std::size_t i = 0; i < results_.pairs.size(); ++i) {
      for (const std::size_t side : kSides) verdict(i).health[side] = healthOf(i, side);
    }
    countBad();
    nameOddHosts();
    for (std::size_t i = 0; i < results_.pairs.size(); ++i) {
      for (const std::size_t side : kSides) report(i, side);
      reportLatency(i);
    }
    judgeFacts(results_, judgement_.findings);
    judgeAcross(results_, judgement_.findings);
    judgement_.findings.sort();
    return std::move(judgement_);
  }

 private:
  struct Count {
    int all = 0;
    int bad = 0;
  };
  using NicKey = std::pair<std::size_t, std::size_t>;  // end, NIC

  const PairResult& pair(std::size_t i) const { return results_.pairs[i]; }
  Verdict& verdict(std::size_t i) { return judgement_.verdicts[i]; }
  NicKey nicKey(std::size_t i, std::size_t side) const { return {pair(i).match[side], pair(i).nics[side]}; }
  const NicFacts& nic(std::size_t i, std::size_t side) const { return results_.nic(pair(i), side); }

  void describe(std::size_t i) {
    const double first = allowedGbytes(nic(i, 0));
    const double second = allowedGbytes(nic(i, 1));
    verdict(i).allowed_gbytes = first == 0 || second == 0 ? std::max(first, second) : std::min(first, second);
    verdict(i).software = nic(i, 0).software || nic(i, 1).software;
  }

  PeerKey peerKey(std::size_t i) {
    return {nic(i, 0).link, verdict(i).software, static_cast<int64_t>(verdict(i).allowed_gbytes * 1000)};
  }

  void findPeers() {
    std::map<PeerKey, std::vector<double>> rates;
    std::map<PeerKey, std::vector<double>> latencies;
    for (std::size_t i = 0; i < results_.pairs.size(); ++i) {
      for (const Half& half : pair(i).halves) {
        if (half.alone_gbytes > 0) rates[peerKey(i)].push_back(half.alone_gbytes);
        if (half.latency_us > 0) latencies[peerKey(i)].push_back(half.latency_us);
      }
    }
    for (const auto& [key, values] : latencies) latency_of_peers_[key] = medianOf(values);
    for (std::size_t i = 0; i < results_.pairs.size(); ++i) {
      const auto found = rates.find(peerKey(i));
      if (found != rates.end()) verdict(i).median_gbytes = medianOf(found->second);
    }
  }

  double slowShare(std::size_t i) { return verdict(i).software ? kSlowShareSoftware : kSlowShare; }

  Health healthOf(std::size_t i, std::size_t side) {
    if (pair(i).obstacle == Obstacle::kBothDown) return Health::kSkipped;
    const Half& half = pair(i).halves[side];
    const bool broken = !pair(i).measured() || !half.error.empty() || half.reach != Reach::kAll ||
                        pair(i).halves[1 - side].wrong_data;
    if (broken) return Health::kFailed;
    if (half.alone_gbytes == 0) return Health::kSkipped;  // the other direction fails
    if (half.alone_gbytes < slowShare(i) * verdict(i).median_gbytes) return Health::kSlow;
    const bool below = half.alone_gbytes < kSlowShare * verdict(i).allowed_gbytes;
    return below && !verdict(i).software ? Health::kSlow : Health::kGood;
  }

  bool bad(std::size_t i) {
    return std::ranges::any_of(kSides,
                               [&](std::size_t side) { return verdict(i).health[side] > Health::kGood; });
  }
  bool hasEnd(std::size_t i, std::size_t end) const {
    return pair(i).match[0] == end || pair(i).match[1] == end;
  }

  void countBad() {
    for (std::size_t i = 0; i < results_.pairs.size(); ++i) {
      if (!pair(i).measured()) continue;
      for (const std::size_t side : kSides) {
        Count& of_nic = nics_[nicKey(i, side)];
        Count& of_host = hosts_[nicKey(i, side).first];
        ++of_nic.all, ++of_host.all;
        if (bad(i)) ++of_nic.bad, ++of_host.bad;
      }
    }
  }

  // With three hosts or more: the host of which every pair is bad, while others have good ones.
  void nameOddHosts() {
    const bool any_good =
        std::ranges::any_of(hosts_, [](const auto& host) { return host.second.bad < host.second.all; });
    if (hosts_.size() < 3 || !any_good) return;
    for (const auto& [end, count] : hosts_) {
      if (count.bad < count.all) continue;
      odd_hosts_.insert(end);
      judgement_.findings.add(
          "pair-odd-host", hostFails(end) ? Severity::kError : Severity::kWarning,
          hostFails(end) ? "no rail of the host works as it should" : "every rail of the host is slow",
          {{results_.ends[end].host, "all its pairs", oddHostText(end)}},
          "The slowest host decides how fast a job is, and one that is not reached stops it.",
          "railwise doctor    # on that host: driver, PCIe, switch ports; then leave it out of the job");
    }
  }

  bool hostFails(std::size_t end) {
    for (std::size_t i = 0; i < results_.pairs.size(); ++i) {
      if (!pair(i).measured() || !hasEnd(i, end)) continue;
      for (const Health health : verdict(i).health) {
        if (health == Health::kFailed) return true;
      }
    }
    return false;
  }

  std::string oddHostText(std::size_t end) {
    double best = 0;
    double median = 0;
    std::string error;
    for (std::size_t i = 0; i < results_.pairs.size(); ++i) {
      if (!pair(i).measured() || !hasEnd(i, end)) continue;
      for (const Half& half : pair(i).halves) {
        best = std::max(best, half.alone_gbytes);
        if (error.empty()) error = half.error;
      }
      median = std::max(median, verdict(i).median_gbytes);
    }
    const std::string rates = "best rail " + gbytesOf(best) + "; median of all " + gbytesOf(median);
    return error.empty() ? rates : rates + "; " + error;
  }

  // Who is to blame for a bad pair: the NIC of which all pairs are bad, if there are several and the other
  // NIC has good ones; else both.
  std::string blamed(std::size_t i) {
    const auto guilty = [&](std::size_t side) {
      const Count& count = nics_[nicKey(i, side)];
      return count.all > 1 && count.bad == count.all;
    };
    if (guilty(0) == guilty(1)) return pairName(results_, pair(i));
    return endNicName(results_, pair(i), guilty(0) ? 0 : 1);
  }

  void report(std::size_t i, std::size_t side) {
    const bool odd = odd_hosts_.contains(pair(i).match[0]) || odd_hosts_.contains(pair(i).match[1]);
    if (!pair(i).measured() || odd) return;
    if (verdict(i).health[side] == Health::kFailed) reportFailure(i, side);
    if (verdict(i).health[side] == Health::kSlow) reportSlow(i, side);
    reportTogether(i, side);
  }

  void add(std::size_t i, std::size_t side, const char* check, Severity severity, const char* what,
           const std::string& value, const char* why, const std::string& fix) {
    judgement_.findings.add(check, severity, what,
                            {{blamed(i), directionName(results_, pair(i), side), value}}, why, fix);
  }

  // The largest packet that the two ports send, or a little less, as one of ping, which adds 28 bytes.
  std::string pathMtuFix(std::size_t i) const {
    constexpr uint32_t kPing = 28;
    constexpr uint32_t kRoceHeaders = 60;  // IPv4, UDP, BTH, RETH, ICRC
    const LinkKind link = nic(i, 0).link;
    if (link == LinkKind::kInfiniBand)
      return "smpquery portinfo LID PORT | grep -i mtu    # each switch port of the path: ibtracert LID LID";
    const uint32_t mtu = std::min(nic(i, 0).mtu_bytes, nic(i, 1).mtu_bytes);
    const uint32_t packet = link == LinkKind::kRoce ? mtu + kRoceHeaders : mtu;
    const std::string size = mtu < kPing ? "4000" : std::to_string(packet - kPing);
    return "ping -M do -I NETDEV -s " + size + " ADDRESS    # a packet of this size must arrive whole";
  }

  void reportFailure(std::size_t i, std::size_t side) {
    const Half& half = pair(i).halves[side];
    const auto fail = [&](const char* check, const char* what, const char* why, const std::string& fix) {
      add(i, side, check, Severity::kError, what, half.error.empty() ? "nothing arrives" : half.error, why,
          fix);
    };
    if (half.reach == Reach::kSmallOnly)
      fail("pair-large-packets", "8 bytes arrive, 64 KiB do not",
           "Packets of full size are lost on the way: some switch port has a smaller MTU.", pathMtuFix(i));
    else if (half.reach == Reach::kNotTried)
      fail("pair-queue-pair", "a queue pair cannot be connected", "NCCL fails at this place, too.",
           "ibv_devinfo -v -d DEVICE | grep GID; ip neigh    # addresses, and the route between them\n"
           "ulimit -l");
    else if (half.reach == Reach::kAll && half.error.empty())
      fail("pair-wrong-data", "other data arrive than were sent",
           "A job would compute with wrong numbers and not notice.",
           "Take the NIC out of use; look for PCIe errors: dmesg | grep -i -e aer -e mce");
    else if (half.reach == Reach::kAll)
      fail("pair-stopped", "the pair failed under load",
           "A job that uses this pair fails or goes on over other rails.", cableErrors(nic(i, side)));
    else
      fail("pair-no-reach", "writes do not arrive",
           "A job that uses this pair hangs, or fails with status 12 (retry exceeded).",
           "ibstat    # both ends: cable, switch port, VLAN, routes, ACL\n" + cableErrors(nic(i, side)));
  }

  void reportSlow(std::size_t i, std::size_t side) {
    const double rate = pair(i).halves[side].alone_gbytes;
    const Verdict& its = verdict(i);
    const bool peers = rate < slowShare(i) * its.median_gbytes;
    std::string value = gbytesOf(rate);
    if (peers) value += "; median of its peers " + gbytesOf(its.median_gbytes);
    if (!its.software) value += "; port and PCIe allow " + gbytesOf(its.allowed_gbytes);
    if (peers)
      add(i, side, "pair-slow-rail", Severity::kWarning, "the rail is slower than its peers", value,
          "NCCL cuts data evenly: the slowest rail decides (Railwise gives it a smaller share).",
          cableErrors(nic(i, side)) + (its.software
                                           ? ""
                                           : "\nlspci -vv -s " + addressOf(nic(i, side)) +
                                                 " | grep LnkSta    # the PCIe link: speed and width"));
    else
      add(i, side, "pair-below-port", Severity::kWarning,
          "the rail is slower than its port and PCIe link allow", value,
          "The link is as fast as it says, and something else holds the data back.",
          "lspci -vv -s " + addressOf(nic(i, side)) +
              " | grep -e MaxReadReq -e LnkSta    # iommu=pt, ACS off, performance governor\n"
              "ethtool -S NETDEV | grep -i -e pause -e discard    # RoCE: congestion, PFC");
  }

  // Is one of its NICs also in another pair of the two hosts? Then they share its port.
  bool sharesNic(std::size_t i) const {
    return std::ranges::any_of(results_.pairs, [&](const PairResult& other) {
      const bool same = other.nics[0] == pair(i).nics[0] || other.nics[1] == pair(i).nics[1];
      return &other != &pair(i) && other.match == pair(i).match && other.measured() && same;
    });
  }

  // Hardware only: on a software device all rails share the processor.
  void reportTogether(std::size_t i, std::size_t side) {
    const Half& half = pair(i).halves[side];
    const bool less = half.together_gbytes > 0 && half.together_gbytes < kTogetherShare * half.alone_gbytes;
    if (!less || verdict(i).software || results_.pairs.size() < 2 || sharesNic(i)) return;
    add(i, side, "pair-together", Severity::kWarning, "the rail is slower while the others are busy",
        gbytesOf(half.together_gbytes) + " with all rails, " + gbytesOf(half.alone_gbytes) + " alone",
        "The rails share a PCIe link, a switch uplink or the memory of a NUMA node.",
        "railwise explain    # which NICs share a PCIe link");
  }

  void reportLatency(std::size_t i) {
    const double latency = pair(i).halves[0].latency_us;
    const double median = latency_of_peers_[peerKey(i)];
    // On a software device the latency is that of the scheduler.
    if (latency <= 0 || latency < kOddLatency * median || bad(i) || verdict(i).software) return;
    add(i, 0, "pair-latency", Severity::kAdvice, "the rail answers later than its peers",
        microsecondsOf(latency) + "; median of its peers " + microsecondsOf(median),
        "Small messages take longer; large ones do not.",
        "Is the way longer (other switches), or is the link busy or in a power-saving state?");
  }

  const Results& results_;
  Judgement judgement_;
  std::map<PeerKey, double> latency_of_peers_;
  std::map<NicKey, Count> nics_;
  std::map<std::size_t, Count> hosts_;
  std::set<std::size_t> odd_hosts_;
};

}  // namespace

Judgement judge(const Results& results) { return PairJudge(results).run(); }

std::vector<std::vector<HostCell>> hostMatrix(const Results& results, const std::vector<Verdict>& verdicts) {
  std::vector<std::vector<HostCell>> matrix(results.ends.size(), std::vector<HostCell>(results.ends.size()));
  for (std::size_t i = 0; i < results.pairs.size(); ++i) {
    const PairResult& pair = results.pairs[i];
    for (const std::size_t side : kSides) {
      HostCell& cell = matrix[pair.match[side]][pair.match[1 - side]];
      const double alone = pair.halves[side].alone_gbytes;
      cell.gbytes += pair.halves[side].together_gbytes;
      cell.worst = std::max(cell.worst, verdicts[i].health[side]);
      if (verdicts[i].health[side] == Health::kSkipped) continue;
      cell.slowest_alone = cell.measured ? std::min(cell.slowest_alone, alone) : alone;
      cell.measured = true;
    }
  }
  return matrix;
}

AllReduceCheck checkAllReduce(const Results& results) {
  AllReduceCheck check;
  std::optional<double> measured;
  const auto matrix = hostMatrix(results, std::vector<Verdict>(results.pairs.size()));
  for (std::size_t from = 0; from < matrix.size(); ++from) {
    for (const HostCell& cell : matrix[from]) {
      if (cell.gbytes > 0) measured = std::min(measured.value_or(cell.gbytes), cell.gbytes);
    }
    const AllReduceModel& model = results.ends[from].all_reduce;
    const bool lower =
        model.gbytes > 0 && (check.expected_gbytes == 0 || model.gbytes < check.expected_gbytes);
    if (lower || check.rule.empty()) check.rule = model.rule;
    if (lower) check.expected_gbytes = model.gbytes;
  }
  check.measured_gbytes = measured.value_or(0);
  if (results.nccl.gbytes > 0) {
    check.expected_gbytes = results.nccl.gbytes;
    check.rule = results.nccl.text + ", " + results.nccl.algorithm + ". " + results.nccl.limit;
  }
  return check;
}

double ringNicsGbytes(const Results& results) {
  std::set<std::string> names;  // of single NICs: "mlx5_0+mlx5_1" is two
  for (const std::string& nic : results.nccl.ring_nics) {
    for (std::string& name : splitAt(nic, '+')) names.insert(std::move(name));
  }
  std::map<std::pair<std::size_t, std::size_t>, double> sums;  // from end to end
  for (const PairResult& pair : results.pairs) {
    for (const std::size_t side : kSides)
      if (names.contains(results.nic(pair, side).device))
        sums[{pair.match[side], pair.match[1 - side]}] += pair.halves[side].together_gbytes;
  }
  double least = 0;
  for (const auto& [direction, gbytes] : sums)
    if (gbytes > 0 && (least <= 0 || gbytes < least)) least = gbytes;
  return least;
}

std::string endNicName(const Results& results, std::size_t end, std::size_t nic) {
  return results.ends[end].host + " " + nicName(results.ends[end].nics[nic]);
}

std::string endNicName(const Results& results, const PairResult& pair, std::size_t side) {
  return endNicName(results, pair.match[side], pair.nics[side]);
}

std::string directionName(const Results& results, const PairResult& pair, std::size_t sender) {
  return endNicName(results, pair, sender) + " -> " + endNicName(results, pair, 1 - sender);
}

std::string pairName(const Results& results, const PairResult& pair) {
  return endNicName(results, pair, 0) + " - " + endNicName(results, pair, 1);
}

}  // namespace railwise::doctor::pair
