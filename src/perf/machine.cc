#include "perf/machine.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "cli/device/machine.h"
#include "cli/topo/machine_options.h"
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
  const auto machine = openDeviceMachine(kPerf, {.machine = "", .host = "", .fabric = "", .settings = ""});
  if (!machine) return false;
  const auto& devices = machine->config.host().devices;
  return std::all_of(devices.begin(), devices.end(),
                     [](const softdev::DeviceConfig& device) { return device.paced; });
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

MachineKnowledge knowledgeOfMachine() { return {.software_paced = isPaced, .model = modelOfHosts}; }

}  // namespace railwise::cli
