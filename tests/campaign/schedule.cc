#include "tests/campaign/schedule.h"

#include <algorithm>
#include <bit>
#include <set>

#include "cli/options/message.h"
#include "perf/algorithm/plan.h"
#include "tests/campaign/draw.h"
#include "tests/campaign/fault_steps.h"

namespace railwise::cli {
namespace {

// The streams of Draw, one per purpose.
constexpr uint64_t kTrafficStream = 1, kMachineStream = 2, kStepStream = 3, kRailStream = 4,
                   kTransportStream = 5, kPauseStream = 6, kRefusalStream = 7;

// Weights of 2 to 8 ranks. Many ranks are rare, because the computer may have only two cores.
constexpr int kRankWeights[] = {55, 22, 15, 3, 2, 1, 2};
// Weights of 1 to 4 rails.
constexpr int kRailWeights[] = {20, 40, 22, 18};
// Weights of kPlain, kIwarp, kRdmaCm.
constexpr int kTransportWeights[] = {70, 15, 15};
constexpr int kFirstPciDevice = 4;
constexpr int kNewestWeight = 60;
// The number of bytes that all ranks move in one pass over all sizes, approximately. Passes are repeated
// until the schedule is over, so each pass must be short. With an engine thread in each rank, less is moved,
// because these threads cost much time if there are more ranks than cores.
constexpr uint64_t kVolume = uint64_t{4} << 20;
constexpr uint64_t kEngineVolume = uint64_t{1} << 20;
constexpr uint64_t kMaxChecks = 12;
// The faults of a run are spread over a time between the first two values, without --duration. The third
// value is how long data flows after the last fault.
constexpr int kShortestMs = 200, kLongestMs = 380, kTailMs = 60;

int drawApi(Draw& draw, bool fuse, bool one_sided) {
  if (draw.chance(kNewestWeight)) return 0;
  if (one_sided) return draw.between(kOldestRmaApi, kNewestRmaApi);
  return draw.between(fuse ? 9 : kOldestApi, kNewestApi);
}

uint64_t bytesOfIteration(const PerfOptions& options, uint64_t size) {
  const auto n = static_cast<uint64_t>(options.ranks);
  const auto blocks = static_cast<uint64_t>(blocksOf(options.collective, options.ranks));
  uint64_t sent = 0;  // in units of size / (blocks * cut)
  uint64_t cut = 1;
  for (int rank = 0; rank < options.ranks; ++rank) {
    for (const Stage& stage : planOf(options.collective, rank, options.ranks, options.root)) {
      for (const Transfer& transfer : stage) {
        cut = static_cast<uint64_t>(transfer.cut);
        for (const ChunkStep& step : transfer.steps)
          sent += step.send ? static_cast<uint64_t>(transfer.width) : 0;
      }
    }
  }
  return n > 1 ? sent * size / (blocks * cut) : 0;
}

uint64_t bytesOfIterations(const PerfOptions& options) {
  uint64_t sum = 0;
  for (const uint64_t size : perfSizes(options)) sum += 2 * bytesOfIteration(options, size);
  return sum;
}

FaultTransport drawTransport(uint64_t seed, FaultTransport wanted) {
  constexpr FaultTransport kDrawn[] = {FaultTransport::kPlain, FaultTransport::kIwarp,
                                       FaultTransport::kRdmaCm};
  return wanted != FaultTransport::kAny ? wanted
                                        : kDrawn[Draw(seed, kTransportStream).weighted(kTransportWeights)];
}

FaultMachine drawMachine(uint64_t seed, const FaultOptions& options) {
  Draw draw(seed, kMachineStream);
  FaultMachine machine;
  FaultTransport transport = drawTransport(seed, options.transport);
  // iWARP devices reach no GPU memory: where there is a GPU, Railwise leaves one-sided traffic to NCCL.
  if (options.one_sided && transport == FaultTransport::kIwarp) transport = FaultTransport::kPlain;
  machine.iwarp = transport == FaultTransport::kIwarp;
  machine.rdma_cm = transport != FaultTransport::kPlain;
  machine.infiniband = draw.chance(50) && !machine.iwarp;
  machine.engine = draw.chance(30);
  machine.adversarial = draw.chance(30);
  machine.pacing = draw.chance(40);
  constexpr int kPacedSpeeds[] = {10000, 25000, 40000, 100000};
  machine.speed_mbps = machine.pacing ? draw.oneOf(kPacedSpeeds) : 400000;
  machine.ack_timeout = draw.between(12, 14);
  machine.retries = draw.between(1, 4);
  machine.gpu_memory = options.one_sided;
  machine.one_sided = options.one_sided || isOneSided(options.collective);
  machine.like = options.like;
  Draw rails(seed, kRailStream);
  const bool alike = rails.chance(75);
  for (int rank = 0; rank < options.ranks; ++rank) {
    const int drawn = static_cast<int>(rails.weighted(kRailWeights)) + 1;
    const int count = options.rails != 0 ? options.rails : drawn;
    machine.rails.push_back(alike && rank > 0 ? machine.rails[0] : count);
  }
  return machine;
}

}  // namespace

std::string hostName(int rank) { return "h" + std::to_string(rank); }
std::string deviceName(int device) { return "soft" + std::to_string(device); }
std::string placeName(int rank, int device) { return hostName(rank) + "/" + deviceName(device); }
std::string fabricName(uint64_t seed, int pid) {
  return "faults" + std::to_string(seed) + "-" + std::to_string(pid);
}

FaultOptions drawOptions(Collective collective, uint64_t seed) {
  Draw draw(seed, kTrafficStream);
  FaultOptions options;
  options.faults = seed;
  options.collective = collective;
  options.ranks = 2 + static_cast<int>(draw.weighted(kRankWeights));
  if (impossibleWith(collective, options.ranks) != nullptr)
    options.ranks = static_cast<int>(std::bit_floor(static_cast<unsigned>(options.ranks)));
  options.channels = draw.between(1, 4);
  const bool one_sided = isOneSided(collective);
  options.fuse = draw.chance(40) && !one_sided;
  options.plugin.api = drawApi(draw, options.fuse, one_sided);
  constexpr DataType kTypes[] = {DataType::kInt8, DataType::kInt32, DataType::kInt64, DataType::kFloat,
                                 DataType::kDouble};
  constexpr ReduceOp kOps[] = {ReduceOp::kSum, ReduceOp::kProd, ReduceOp::kMax, ReduceOp::kMin};
  options.type = draw.oneOf(kTypes);
  options.op = draw.oneOf(kOps);
  constexpr uint64_t kSizes[] = {4, 32, 64, 128, 256, 512};  // KiB
  options.min_bytes = draw.oneOf(kSizes) << 10;
  options.step_factor = draw.between(2, 4);
  options.max_bytes = options.min_bytes;
  for (int more = draw.between(0, 2); more > 0 && options.max_bytes < uint64_t{1} << 20; --more)
    options.max_bytes *= static_cast<uint64_t>(options.step_factor);
  options.iters = 1;
  options.warmup_iters = 0;
  const uint64_t volume = drawMachine(seed, options).engine ? kEngineVolume : kVolume;
  options.check = static_cast<int>(std::clamp<uint64_t>(volume / bytesOfIterations(options), 2, kMaxChecks));
  return options;
}

Schedule drawSchedule(const FaultOptions& options) {
  Schedule schedule;
  schedule.seed = options.faults.value_or(0);
  schedule.machine = drawMachine(schedule.seed, options);
  const int most = *std::ranges::max_element(schedule.machine.rails);
  schedule.machine.used_rails = options.fuse ? most : std::min(options.channels, most);
  Draw draw(schedule.seed, kStepStream);
  const int drawn_ms = draw.between(kShortestMs, kLongestMs);
  const int spread_ms = options.duration_s > 0 ? options.duration_s * 800 : drawn_ms;
  schedule.steps = drawFaultSteps(draw, schedule.machine, talkingRanks(options), spread_ms);
  addPauses(Draw(schedule.seed, kPauseStream), schedule.machine, spread_ms, schedule.steps);
  addRefusedEnds(Draw(schedule.seed, kRefusalStream), schedule.machine, spread_ms, schedule.steps);
  schedule.traffic_ms = std::max(schedule.steps.back().at_ms + kTailMs, spread_ms);
  return schedule;
}

std::vector<std::pair<int, int>> talkingRanks(const PerfOptions& options) {
  std::set<std::pair<int, int>> pairs;
  for (const Variant& variant : variantsOf(options, options.ranks)) {
    for (int rank = 0; rank < options.ranks; ++rank) {
      for (const Stage& stage : planOf(options.collective, rank, options.ranks, variant.root)) {
        for (const Transfer& transfer : stage) {
          if (transfer.to >= 0) pairs.insert(std::minmax(rank, transfer.to));
        }
      }
    }
  }
  return {pairs.begin(), pairs.end()};
}

std::string machineText(const Schedule& schedule, const std::string& fabric) {
  const FaultMachine& machine = schedule.machine;
  const auto onOff = [](bool on) { return on ? "on" : "off"; };
  std::string text = textOf("software:fabric=%s,seed=%llu,engine=%s,adversarial=%s,pacing=%s", fabric.c_str(),
                            static_cast<unsigned long long>(std::max<uint64_t>(schedule.seed, 1)),
                            onOff(machine.engine), onOff(machine.adversarial), onOff(machine.pacing));
  if (machine.gpu_memory) text += ",gpudirect=on";
  for (int rank = 0; rank < machine.ranks(); ++rank) {
    const int rails = machine.rails[static_cast<std::size_t>(rank)];
    text += ";host " + hostName(rank);
    if (machine.placed) text += ";gpu pci=0000:00:02.0";
    for (int device = 0; device < rails; ++device) {
      text += textOf(";name=%s,link=%s,speed=%d", deviceName(device).c_str(),
                     machine.iwarp        ? "iwarp"
                     : machine.infiniband ? "ib"
                                          : "roce",
                     machine.speed_mbps);
      if (!machine.like.empty()) text += ",like=" + machine.like;
      if (machine.placed) text += textOf(",pci=0000:00:%02x.0", kFirstPciDevice + device);
    }
  }
  return text;
}

std::vector<std::pair<std::string, std::string>> faultEnvironment(const Schedule& schedule) {
  return {{"NCCL_SOCKET_IFNAME", "lo"},
          {"RAILWISE_FUSE_PLACELESS", "1"},
          {"RAILWISE_CONNECT", schedule.machine.rdma_cm ? "cm" : "auto"},
          {"NCCL_IB_TIMEOUT", std::to_string(schedule.machine.ack_timeout)},
          {"NCCL_IB_RETRY_CNT", std::to_string(schedule.machine.retries)},
          {"RAILWISE_FAILOVER_TIMEOUT", std::to_string(kFailoverTimeoutSeconds)}};
}

}  // namespace railwise::cli
