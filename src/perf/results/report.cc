#include "perf/results/report.h"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
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

// More samples than this are thinned out: every second one is dropped.
constexpr std::size_t kMostKept = 20'000;

// The physical devices of a name such as "mlx5_0+mlx5_1".
void addPhysical(const std::string& device, std::set<std::string>& names) {
  for (std::size_t at = 0; at <= device.size();) {
    const std::size_t end = std::min(device.find('+', at), device.size());
    names.insert(device.substr(at, end - at));
    at = end + 1;
  }
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

void Measurement::add(const Measurement& more, int passes) {
  const auto mean = [passes](double so_far, double next) { return (so_far * passes + next) / (passes + 1); };
  seconds = mean(seconds, more.seconds);
  warmup_seconds = mean(warmup_seconds, more.warmup_seconds);
  wrong += more.wrong;
  samples.insert(samples.end(), more.samples.begin(), more.samples.end());
  if (samples.size() <= kMostKept) return;
  std::size_t kept = 0;
  for (std::size_t i = 0; i < samples.size(); i += 2) samples[kept++] = samples[i];
  samples.resize(kept);
}

bool Surroundings::busy() const {
  constexpr double kMuch = 0.1;
  if (load > cores) return true;  // earlier runs of perf count, too
  return others && (others->processes >= kMuch || others->hypervisor >= kMuch);
}

void Row::add(const Row& more) {
  out_of_place.add(more.out_of_place, passes);
  in_place.add(more.in_place, passes);
  ++passes;
}

void Report::combine(const Row& row) {
  for (Row& its : rows) {
    const bool equal = its.bytes == row.bytes && its.variant == row.variant;
    if (equal) return its.add(row);
  }
  rows.push_back(row);
}

double Report::algorithmBandwidth(const Row& row, const Measurement& measured) const {
  return cli::algorithmBandwidth(options.collective, ranks, row.bytes, measured.seconds);
}

double Report::busBandwidth(const Row& row, const Measurement& measured) const {
  return algorithmBandwidth(row, measured) * busFactor(options.collective, ranks);
}

double Report::averageBusBandwidth() const {
  double sum = 0;
  int count = 0;
  for (const Row& row : rows) {
    for (const Measurement* measured : measurementsOf(row)) {
      sum += busBandwidth(row, *measured);
      ++count;
    }
  }
  return count == 0 ? 0 : sum / count;
}

std::vector<const Measurement*> Report::measurementsOf(const Row& row) const {
  std::vector<const Measurement*> measurements;
  for (const bool in_place : placesOf(options.collective)) measurements.push_back(&row.at(in_place));
  return measurements;
}

uint64_t Report::wrong() const {
  uint64_t sum = late_signals;
  for (const Row& row : rows) sum += row.out_of_place.wrong + row.in_place.wrong;
  return sum;
}

std::optional<Reached> reachedBy(const Report& report, const ModelOfHosts& model) {
  Reached its;
  int root = -1;
  for (const Row& row : report.rows) {
    const double gbytes =
        std::max(report.busBandwidth(row, row.out_of_place), report.busBandwidth(row, row.in_place));
    if (gbytes < its.gbytes) continue;
    its.gbytes = gbytes;
    its.bytes = row.bytes;
    root = row.variant.root;
  }
  if (its.gbytes <= 0) return std::nullopt;
  std::vector<RankPorts> ports;
  std::set<std::string_view> hosts;
  for (const RankLine& line : report.rank_lines) {
    ports.push_back({&line.host, &line.ports});
    hosts.insert(line.host);
  }
  its.ports = portLimit(report.options.collective, root, ports, report.options.channels);
  if (!its.ports) return std::nullopt;
  if (model && hosts.size() > 1 && report.options.collective == Collective::kAllReduce)
    its.model = model(static_cast<int>(hosts.size()));
  return its;
}

bool isLikeTheRings(const Report& report, const ModelAnswer& model) {
  std::set<std::string> hosts, expected;
  for (const std::string& nic : model.ring_nics) addPhysical(nic, expected);
  for (const RankLine& line : report.rank_lines) {
    std::set<std::string> used;
    for (const PortUse& port : line.ports) addPhysical(port.device, used);
    if (!hosts.insert(line.host).second || used != expected) return false;
  }
  return model.ring_network > 0;
}

const char* opColumn(Collective collective, const Variant& variant) {
  return traitsOf(collective).reduces ? reduceOpName(variant.op) : "none";
}

}  // namespace railwise::cli
