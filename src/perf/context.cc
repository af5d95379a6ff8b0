#include "perf/context.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <string_view>
#include <utility>

#include "base/text/text_layout.h"
#include "cli/device/machine.h"
#include "cli/topo/machine_options.h"
#include "record/reader.h"
#include "topo/tuning/cost_model.h"
#include "topo/tuning/expect.h"

namespace railwise::cli {
namespace {

constexpr const char* kPerf = "perf";
constexpr std::string_view kSoftware = "software:";

// The description of the software machine of RAILWISE_DEVICE; "": there is none.
std::string softwareMachine() {
  const char* const device = std::getenv("RAILWISE_DEVICE");
  if (device == nullptr || !std::string_view(device).starts_with(kSoftware)) return "";
  return device + kSoftware.size();
}

bool isPaced() {
  if (softwareMachine().empty()) return false;
  const auto machine = openDeviceMachine(kPerf, {});
  if (!machine) return false;
  const auto& devices = machine->config.host().devices;
  return std::all_of(devices.begin(), devices.end(),
                     [](const softdev::DeviceConfig& device) { return device.paced; });
}

// Perf has set RAILWISE_FABRIC with useOwnFabric(); the machine may name another one.
std::string fabricOfDevice() {
  if (!softwareMachine().empty()) {
    const auto machine = openDeviceMachine(kPerf, {});
    return machine ? machine->config.fabric : "";
  }
  const char* const fabric = std::getenv("RAILWISE_FABRIC");
  return fabric != nullptr ? fabric : "";
}

std::optional<ModelAnswer> modelOfHosts(int hosts) {
  bool without_gpus = false;
  MachineOptions options;
  options.software = softwareMachine();
  options.quiet = true;
  options.without_gpus = &without_gpus;
  int status = 0;  // not used: without a model perf goes on
  auto machine = openMachine(kPerf, "", options, &status);
  if (!machine || machine->graph->rccl() || machine->domains.size() != 1) return std::nullopt;
  if (!takeGraphFile(kPerf, "", true, *machine)) return std::nullopt;
  const auto answers = topo::tuning::expectOn(*machine, {.nodes = hosts}, {});
  if (!answers.ok() || !answers->front().peak_choice) return std::nullopt;
  const topo::tuning::Expectation& answer = answers->front();
  return ModelAnswer{.release = ncclVersionName(topo::tuning::modelRelease(machine->settings->nccl)),
                     .hosts = hosts,
                     .gpus = static_cast<int>(answer.ranks.size()),
                     .gbytes = answer.peak,
                     .algorithm = nameOf(answer.peak_choice->algorithm),
                     .limit = answer.limit,
                     .ring_network = answer.ring_network,
                     .ring_nics = answer.ring_nics};
}

}  // namespace

MachineKnowledge knowledgeOfMachine() {
  return {.software_paced = isPaced, .software_fabric = fabricOfDevice, .model = modelOfHosts};
}

std::string survivedText(const std::vector<record::Snapshot>& ranks) {
  struct Moves {
    uint64_t left = 0;
    uint64_t returned = 0;
  };
  std::map<std::string, Moves> ports;
  uint64_t longest_us = 0;
  for (const record::Snapshot& rank : ranks) {
    for (const record::Rail& rail : rank.rails) {
      if (rail.failovers == 0) continue;
      Moves& moves = ports[record::railText(rail)];
      moves.left += rail.failovers;
      moves.returned += rail.returns;
    }
    for (const record::Event& event : rank.events)
      if (event.kind == record::EventKind::kPathFound) longest_us = std::max(longest_us, event.numbers[1]);
  }
  std::string text;
  for (const auto& [port, moves] : ports)
    text += formatText(
        "# %s failed: %llu ends of connections noticed it and told their peers; %llu ends moved back later\n",
        port.c_str(), static_cast<unsigned long long>(moves.left),
        static_cast<unsigned long long>(moves.returned));
  if (!ports.empty())
    text += formatText(
        "# Longest time that a connection was without a path: %.1f ms from when it noticed (--timeline "
        "shows how long data paused)\n",
        static_cast<double>(longest_us) / 1000);
  return text;
}

}  // namespace railwise::cli
