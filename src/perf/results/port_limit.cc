#include "perf/results/port_limit.h"

#include <algorithm>
#include <map>
#include <utility>

#include "perf/algorithm/plan.h"

namespace railwise::cli {
namespace {

constexpr double kMbpsOfGbytes = 8000;  // Mb/s in 1 GB/s

// What a port carries for 1 GB/s of the bus, in each direction.
struct Load {
  double out = 0;
  double in = 0;
  int speed_mbps = 0;
  bool known = true;
};

// Of the bus bandwidth, each rank sends and receives this share from and to other hosts.
struct Shares {
  double out = 0;
  double in = 0;
};
Shares sharesOf(Collective collective, int root, std::span<const RankPorts> ranks, std::size_t rank,
                bool also_on_host) {
  const int count = static_cast<int>(ranks.size());
  const auto elsewhere = [&](int other) {
    return also_on_host || *ranks[static_cast<std::size_t>(other)].host != *ranks[rank].host;
  };
  Shares blocks;  // that the rank sends and receives
  int cut = 1;
  for (const Stage& stage : planOf(collective, static_cast<int>(rank), count, root)) {
    for (const Transfer& transfer : stage) {
      cut = transfer.cut;
      for (const ChunkStep& step : transfer.steps) {
        if (step.send && elsewhere(transfer.to)) blocks.out += transfer.width;
        if (step.receive && elsewhere(transfer.from)) blocks.in += transfer.width;
      }
    }
  }
  // With one second for the collective, this is the bus bandwidth in blocks per second.
  const auto all = static_cast<uint64_t>(blocksOf(collective, count) * cut);
  const double bus = algorithmBandwidth(collective, count, all, 1) * 1e9 * busFactor(collective, count);
  return {blocks.out / bus, blocks.in / bus};
}

}  // namespace

std::optional<PortLimit> portLimit(Collective collective, int root, std::span<const RankPorts> ranks,
                                   int channels) {
  if (ranks.size() < 2 || channels < 1) return std::nullopt;
  std::map<std::pair<std::string, std::string>, Load> loads;  // by host and device
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    const std::vector<PortUse>& ports = *ranks[rank].ports;
    if (ports.empty()) return std::nullopt;
    const Shares between_hosts = sharesOf(collective, root, ranks, rank, false);
    const Shares of_all = sharesOf(collective, root, ranks, rank, true);
    for (int channel = 0; channel < channels; ++channel) {
      const PortUse& port = ports[static_cast<std::size_t>(channel) % ports.size()];
      const Shares shares = port.holds == PortSpeed::kAlways ? of_all : between_hosts;
      Load& load = loads[{*ranks[rank].host, port.device}];
      load.out += shares.out / channels;
      load.in += shares.in / channels;
      load.speed_mbps = port.speed_mbps;
      load.known = load.known && port.holds != PortSpeed::kClaimed && port.speed_mbps > 0;
    }
  }
  std::optional<PortLimit> least;
  for (const auto& [place, load] : loads) {
    const double most = std::max(load.out, load.in);
    if (most <= 0) continue;
    if (!load.known) return std::nullopt;
    const double speed = load.speed_mbps / kMbpsOfGbytes;
    if (least && least->gbytes <= speed / most) continue;
    least = PortLimit{speed / most, place.second + " of " + place.first, speed};
  }
  return least;
}

}  // namespace railwise::cli
