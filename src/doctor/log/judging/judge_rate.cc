// What the logs say of a low result of nccl-tests.
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <optional>

#include "doctor/log/judging/judge.h"

namespace railwise::doctor {
namespace {

// Rates of ports in Gb/s, and the share of one that NCCL reaches through it.
constexpr std::array<double, 8> kPortGbps = {10, 25, 40, 50, 100, 200, 400, 800};
constexpr double kLeastShare = 0.88, kMostShare = 1.0;

bool isBond(const Nic& nic) { return nic.name.find("bond") != std::string::npos; }

// The share of the port rate that the bandwidth of one NIC comes near to: {rate in Gb/s, share}.
std::optional<std::pair<double, double>> onePort(double gb_per_s) {
  for (const double rate : kPortGbps)
    if (const double share = gb_per_s * 8 / rate; share >= kLeastShare && share <= kMostShare)
      return std::pair(rate, share);
  return std::nullopt;
}

void judgeBond(const Ranks& ranks, int index, const Process& process, const Measured& measured,
               Findings& findings) {
  const bool bonds = !process.nics.empty() && std::all_of(process.nics.begin(), process.nics.end(), isBond);
  const Fact* const queue_pairs = setting(process, "NCCL_IB_QPS_PER_CONNECTION");
  if (!bonds || !usesRdma(process) || (queue_pairs != nullptr && std::atoi(queue_pairs->value.c_str()) > 1))
    return;
  const auto port = onePort(measured.gb_per_s / static_cast<double>(process.nics.size()));
  if (!port) return;
  char rate[96];
  std::snprintf(rate, sizeof rate, "%.1f GB/s, with %zu %s: %.2f of one port of %.0f Gb/s", measured.gb_per_s,
                process.nics.size(), process.nics.size() == 1 ? "NIC" : "NICs", port->second, port->first);
  findings.add(
      "bond-one-port", Severity::kWarning,
      "the NIC is a bond (" + process.nics.front().name +
          "), and the result is what one of its ports carries",
      {ranks.seenAt(index, {process.nics.front().name, process.nics_line.place}), {"", measured.where, rate}},
      "A queue pair goes over one port of a bond, and NCCL makes one queue pair for each connection: the "
      "other port carries nothing.",
      "export NCCL_IB_QPS_PER_CONNECTION=2 NCCL_IB_SPLIT_DATA_ON_QPS=0  # then =4, and =1 for the second\n"
      "cat /proc/net/bonding/*; ethtool <interface> | grep Speed  # the rate of each port\n"
      "ibv_devinfo -v -d " +
          process.nics.front().name.substr(0, process.nics.front().name.find(':')));
}

}  // namespace

void judgeRate(const Ranks& ranks, const Measured& measured, Findings& findings) {
  if (measured.gb_per_s <= 0 || ranks.hosts() < 2) return;
  for (const auto& [index, process] : ranks.members()) {
    judgeBond(ranks, index, process, measured, findings);
    if (measured.below_model && !process.ece.value.empty())
      findings.add("ece-in-use", Severity::kAdvice,
                   "the connections use ECE (enhanced connections of RoCE), and the result is low",
                   {ranks.seenAt(index, process.ece)},
                   "With some switches and firmware the congestion control that ECE turns on makes the "
                   "bandwidth low and unsteady.",
                   "export NCCL_IB_ECE_ENABLE=0  # measure once without it");
  }
}

}  // namespace railwise::doctor
