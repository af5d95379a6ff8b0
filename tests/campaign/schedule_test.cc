// What --faults draws: always the same from the same seed, of every kind in the course of many seeds, and
// nothing that the software device would not take.
#include "tests/campaign/schedule.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <vector>

#include "softdev/config/config.h"
#include "softdev/config/fault_rule.h"
#include "tests/campaign/draw.h"
#include "tests/campaign/reach.h"
#include "tests/ok.h"

namespace railwise::cli {
namespace {

constexpr uint64_t kSeeds = 1000;
constexpr Collective kCollectives[] = {Collective::kAllReduce, Collective::kSendRecv, Collective::kAllToAll};

FaultOptions optionsOf(uint64_t seed) { return drawOptions(kCollectives[seed % 3], seed); }
Schedule scheduleOf(uint64_t seed) { return drawSchedule(optionsOf(seed)); }
std::vector<std::string> sentencesOf(uint64_t seed) {
  return scheduleSentences(scheduleOf(seed), optionsOf(seed));
}

// The rule that stands for a change of a port, as softdev::changePort reads it.
std::string ruleOfChange(const std::string& change) {
  if (change == "up" || change == "down") return "port=" + change;
  return change == "fatal" ? "device_fatal" : change;
}

TEST(Draw, FollowsFromSeedAndStream) {
  Draw a(7, 1), b(7, 1), other_stream(7, 2), other_seed(8, 1);
  const uint64_t first = a.next();
  EXPECT_EQ(first, b.next());
  EXPECT_NE(first, other_stream.next());
  EXPECT_NE(first, other_seed.next());
}

TEST(Draw, IsTheSameWithEveryCompiler) {
  Draw draw(1, 1);
  EXPECT_EQ(draw.below(1000), 984U);
  EXPECT_EQ(draw.between(-5, 5), -3);
}

TEST(PerfSchedule, TheSameSeedGivesTheSame) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    EXPECT_EQ(sentencesOf(seed), sentencesOf(seed));
    EXPECT_EQ(machineText(scheduleOf(seed), "f"), machineText(scheduleOf(seed), "f"));
  }
}

// NCCL's windows lie in GPU memory, and no put is a write with immediate data.
TEST(PerfSchedule, OneSidedTrafficIsInGpuMemory) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    FaultOptions options = optionsOf(seed);
    options.one_sided = true;
    const Schedule schedule = drawSchedule(options);
    EXPECT_FALSE(schedule.machine.iwarp);
    EXPECT_HAS(machineText(schedule, "f"), ",gpudirect=on;host");
    for (const FaultStep& step : schedule.steps) EXPECT_LACKS(step.text, "write_imm");
  }
}

// `perf put` and its like lie in host memory, which iWARP reaches, too.
TEST(PerfSchedule, OneSidedCommandsTakeAnRmaTable) {
  bool iwarp = false;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    const FaultOptions options = drawOptions(Collective::kPutSignal, seed);
    EXPECT_FALSE(options.fuse);
    EXPECT_TRUE(options.plugin.api == 0 || options.plugin.api >= kOldestRmaApi) << options.plugin.api;
    const Schedule schedule = drawSchedule(options);
    iwarp |= schedule.machine.iwarp;
    EXPECT_LACKS(machineText(schedule, "f"), "gpudirect");
    for (const FaultStep& step : schedule.steps) EXPECT_LACKS(step.text, "write_imm");
  }
  EXPECT_TRUE(iwarp);
}

TEST(PerfSchedule, SeedsDiffer) {
  std::set<std::vector<std::string>> all;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) all.insert(sentencesOf(seed));
  EXPECT_EQ(all.size(), kSeeds);
}

TEST(PerfSchedule, EveryKindOfFaultOccurs) {
  std::map<FaultKind, int> kinds;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    for (const FaultStep& step : scheduleOf(seed).steps) ++kinds[step.kind];
  }
  for (int kind = 0; kind < static_cast<int>(FaultKind::kCount); ++kind)
    EXPECT_GE(kinds[static_cast<FaultKind>(kind)], 5) << faultKindName(static_cast<FaultKind>(kind));
}

TEST(PerfSchedule, EveryShapeOfMachineOccurs) {
  std::set<int> ranks, rails, apis, channels;
  std::set<std::string> modes;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    const FaultOptions options = optionsOf(seed);
    const FaultMachine machine = scheduleOf(seed).machine;
    ranks.insert(machine.ranks());
    apis.insert(options.plugin.api);
    channels.insert(options.channels);
    for (const int count : machine.rails) rails.insert(count);
    for (const auto& [name, on] : {std::pair{"ib", machine.infiniband},
                                   {"engine", machine.engine},
                                   {"adversarial", machine.adversarial},
                                   {"pacing", machine.pacing},
                                   {"iwarp", machine.iwarp},
                                   {"rdma_cm", machine.rdma_cm},
                                   {"fuse", options.fuse}})
      modes.insert(name + std::string(on ? "+" : "-"));
  }
  EXPECT_EQ(ranks, (std::set{2, 3, 4, 5, 6, 7, 8}));
  EXPECT_EQ(rails, (std::set{1, 2, 3, 4}));
  EXPECT_EQ(apis, (std::set{0, 6, 7, 8, 9, 10, 11, 12}));
  EXPECT_EQ(channels, (std::set{1, 2, 3, 4}));
  EXPECT_EQ(modes.size(), 14U);
}

TEST(PerfSchedule, WhoIsStoppedGoesOn) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    std::map<std::string, int> stopped;
    for (const FaultStep& step : scheduleOf(seed).steps) {
      if (step.what == FaultStep::kStop) ++stopped[step.place];
      if (step.what == FaultStep::kGoOn) --stopped[step.place];
      EXPECT_GE(stopped[step.place], 0) << seed;
    }
    for (const auto& [host, times] : stopped) EXPECT_EQ(times, 0) << seed << " " << host;
  }
}

TEST(PerfSchedule, HasTheRailsOfTheCommandLine) {
  FaultOptions options = drawOptions(Collective::kAllReduce, 5);
  options.ranks = 16;
  options.rails = 8;
  options.fuse = true;
  const Schedule schedule = drawSchedule(options);
  EXPECT_EQ(schedule.machine.rails, std::vector<int>(16, 8));
  EXPECT_EQ(schedule.machine.used_rails, 8);
}

// The transport is drawn apart, so that the rest of a seed's run stays what it was.
TEST(PerfSchedule, TheTransportCanBeChosen) {
  FaultOptions options = optionsOf(7);
  const auto machine = [&](FaultTransport transport) {
    options.transport = transport;
    return drawSchedule(options).machine;
  };
  EXPECT_TRUE(machine(FaultTransport::kIwarp).iwarp);
  EXPECT_TRUE(machine(FaultTransport::kRdmaCm).rdma_cm);
  EXPECT_FALSE(machine(FaultTransport::kRdmaCm).iwarp);
  EXPECT_FALSE(machine(FaultTransport::kPlain).rdma_cm);
  EXPECT_EQ(machine(FaultTransport::kIwarp).rails, machine(FaultTransport::kPlain).rails);
}

TEST(PerfSchedule, WhatIsFusedHasAnApiThatFuses) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    const FaultOptions options = optionsOf(seed);
    if (options.fuse && options.plugin.api != 0) EXPECT_GE(options.plugin.api, 9) << seed;
  }
}

TEST(PerfSchedule, TheDeviceTakesEveryRuleAndChange) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    for (const FaultStep& step : scheduleOf(seed).steps) {
      const std::string text = step.what == FaultStep::kPort ? ruleOfChange(step.text) : step.text;
      if (step.what != FaultStep::kRule && step.what != FaultStep::kPort) continue;
      const auto rule = softdev::parseFaultRule(text);
      EXPECT_TRUE(rule.ok()) << rule.error();
    }
  }
}

TEST(PerfSchedule, TheDeviceTakesEveryMachine) {
  for (uint64_t seed = 0; seed < kSeeds; seed += 10) {
    const Schedule schedule = scheduleOf(seed);
    const std::string text = machineText(schedule, "f").substr(std::string("software:").size());
    const auto machine = softdev::parseMachine(text.c_str(), hostName(schedule.machine.ranks() - 1));
    ASSERT_OK(machine) << text;
    ASSERT_EQ(machine->hosts.size(), schedule.machine.rails.size());
    for (std::size_t host = 0; host < machine->hosts.size(); ++host)
      EXPECT_EQ(machine->hosts[host].devices.size(), static_cast<std::size_t>(schedule.machine.rails[host]));
    EXPECT_EQ(machine->fabric, "f");
    EXPECT_EQ(machine->chosen + 1, machine->hosts.size());
  }
}

// What NCCL fuses must have a place.
TEST(PerfSchedule, TheDevicesOfAPlacedMachineLieBesideAGpu) {
  Schedule schedule = scheduleOf(1);
  schedule.machine.placed = true;
  const std::string text = machineText(schedule, "f").substr(std::string("software:").size());
  const auto machine = softdev::parseMachine(text.c_str(), hostName(0));
  ASSERT_OK(machine) << text;
  std::set<std::string> places;
  for (const auto& host : machine->hosts) {
    ASSERT_EQ(host.gpus.size(), 1U) << text;
    places = {host.gpus[0].pci};
    for (const auto& device : host.devices) places.insert(device.pci);
    EXPECT_EQ(places.size(), host.devices.size() + 1) << text;
    EXPECT_FALSE(places.contains("")) << text;
  }
}

TEST(PerfSchedule, StepsAreInTheOrderOfTimeWhileDataFlow) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    const Schedule schedule = scheduleOf(seed);
    ASSERT_FALSE(schedule.steps.empty());
    int last_ms = 1;  // not at once: traffic flows first
    for (const FaultStep& step : schedule.steps) {
      EXPECT_GE(step.at_ms, last_ms) << seed;
      last_ms = step.at_ms;
    }
    EXPECT_GT(schedule.traffic_ms, last_ms);
  }
}

TEST(PerfSchedule, WhatIsHealedIsARuleOfBefore) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    const Schedule schedule = scheduleOf(seed);
    for (std::size_t i = 0; i < schedule.steps.size(); ++i) {
      const int heals = schedule.steps[i].heals;
      EXPECT_EQ(heals >= 0, schedule.steps[i].what == FaultStep::kHeal);
      if (heals < 0) continue;
      ASSERT_LT(heals, static_cast<int>(i));
      EXPECT_EQ(schedule.steps[static_cast<std::size_t>(heals)].what, FaultStep::kRule);
    }
  }
}

// The devices that work when all is over and every rule has struck.
class Aftermath {
 public:
  explicit Aftermath(const Schedule& schedule) {
    for (int rank = 0; rank < schedule.machine.ranks(); ++rank) {
      for (int device = 0; device < schedule.machine.rails[static_cast<std::size_t>(rank)]; ++device)
        addPort(hostName(rank), deviceName(device));
    }
    for (std::size_t i = 0; i < schedule.steps.size(); ++i) add(schedule.steps[i], static_cast<uint32_t>(i));
  }

  int pairsLeft(int a, int b) {
    DeviceStates devices;
    devices.see(ports_);
    return pairsBetween(devices, rules_, hostName(a), hostName(b));
  }

 private:
  void addPort(const std::string& host, const std::string& device) {
    softdev::PortInfo& port = ports_.emplace_back();
    port.host = host;
    port.device = device;
    port.active = true;
    port.contexts = 1;
    port.gids = {"fe80::1/v2"};
  }

  void add(const FaultStep& step, uint32_t id) {
    if (step.what == FaultStep::kHeal)
      std::erase_if(rules_, [&](const auto& rule) { return rule.id == static_cast<uint32_t>(step.heals); });
    if (step.what != FaultStep::kRule && step.what != FaultStep::kPort) return;
    softdev::FaultStatus status;
    const bool of_port = step.what == FaultStep::kPort;
    const std::size_t slash = step.place.find('/');
    const std::string place =
        of_port ? "host=" + step.place.substr(0, slash) + " device=" + step.place.substr(slash + 1) + " "
                : "";
    const auto rule = softdev::parseFaultRule(place + (of_port ? ruleOfChange(step.text) : step.text));
    ASSERT_TRUE(rule.ok()) << rule.error();
    status.rule = *rule;
    status.id = id;
    status.state = softdev::FaultState::kArmed;
    for (softdev::PortInfo& port : ports_) {
      if (port.host != status.rule.host || port.device != status.rule.device) continue;
      if (status.rule.action == softdev::FaultAction::kPortDown) port.active = false;
      if (status.rule.action == softdev::FaultAction::kPortUp) port.active = true;
    }
    rules_.push_back(status);
  }

  std::vector<softdev::PortInfo> ports_;
  std::vector<softdev::FaultStatus> rules_;
};

TEST(PerfSchedule, MostRunsKeepAWayAndSomeDoNot) {
  int cut = 0;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    const FaultOptions options = optionsOf(seed);
    Aftermath aftermath(drawSchedule(options));
    bool all = true;
    for (const auto& [a, b] : talkingRanks(options)) all = all && aftermath.pairsLeft(a, b) > 0;
    cut += all ? 0 : 1;
  }
  EXPECT_GT(cut, 30);
  EXPECT_LT(cut, 150);
}

TEST(PerfSchedule, ADurationSpreadsTheFaults) {
  FaultOptions options = optionsOf(1);
  const int short_ms = drawSchedule(options).traffic_ms;
  options.duration_s = 60;
  const Schedule schedule = drawSchedule(options);
  EXPECT_LT(short_ms, 4000);
  EXPECT_GE(schedule.traffic_ms, 48'000);
}

TEST(PerfSchedule, GivenRanksHaveHosts) {
  FaultOptions options = optionsOf(1);
  options.ranks = 9;
  EXPECT_EQ(drawSchedule(options).machine.ranks(), 9);
}

TEST(PerfSchedule, RanksThatTalk) {
  using Pairs = std::vector<std::pair<int, int>>;
  const auto talking = [](Collective collective, int ranks) {
    PerfOptions options;
    options.collective = collective;
    options.ranks = ranks;
    return talkingRanks(options);
  };
  EXPECT_EQ(talking(Collective::kSendRecv, 2), (Pairs{{0, 1}}));
  EXPECT_EQ(talking(Collective::kAllReduce, 4), (Pairs{{0, 1}, {0, 3}, {1, 2}, {2, 3}}));
  EXPECT_EQ(talking(Collective::kAllToAll, 3), (Pairs{{0, 1}, {0, 2}, {1, 2}}));
  EXPECT_EQ(talking(Collective::kBroadcast, 3), (Pairs{{0, 1}, {1, 2}}));
  EXPECT_EQ(talking(Collective::kGather, 3), (Pairs{{0, 1}, {0, 2}}));
  EXPECT_EQ(talking(Collective::kHypercube, 4), (Pairs{{0, 1}, {0, 2}, {1, 3}, {2, 3}}));
}

}  // namespace
}  // namespace railwise::cli
