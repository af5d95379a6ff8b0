// What NCCL's own model says of all_reduce.
#include <algorithm>
#include <map>

#include "base/text/text_layout.h"
#include "base/text/words.h"
#include "doctor/pair/summary.h"
#include "topo/explain/explain.h"
#include "topo/tuning/expect.h"

namespace railwise::doctor::pair {
namespace {

std::string gbytesText(double gbytes) { return formatText("%.4g GB/s", gbytes); }

}  // namespace

AllReduceModel allReduceModel(const topo::Machine& machine) {
  std::map<int, double> nics;  // GB/s of each NIC that a channel uses, over the best path to it
  for (const topo::GpuExplanation& gpu : topo::explain(machine).gpus) {
    for (const topo::ChosenNic& nic : gpu.chosen) {
      double& gbytes = nics[nic.view.net];
      gbytes = std::max(gbytes, static_cast<double>(nic.view.bandwidth));
    }
  }
  double sum = 0;
  for (const auto& [net, gbytes] : nics) sum += gbytes;
  double inside = 0;
  for (const topo::Domain& domain : machine.domains)
    inside = std::max(inside, static_cast<double>(domain.total_bandwidth));
  if (sum <= 0) return {0, "the model finds no NIC for any GPU"};
  const std::string nics_text = counted(nics.size(), "NIC") + " that NCCL's channels use: " + gbytesText(sum);
  const bool one_gpu = machine.graph->count(topo::NodeType::kGpu) == 1;
  if (one_gpu || inside <= 0 || sum <= inside) return {sum, nics_text};
  return {inside, nics_text + ", but a GPU sends " + gbytesText(inside) + " to the next one inside the host"};
}

NcclModel ncclModel(const topo::Machine& machine, int hosts) {
  // RCCL has a model of its own, and ranks that NCCL keeps apart have no common expectation.
  if (machine.graph->rccl() || machine.domains.size() != 1) return {};
  const auto answers = topo::tuning::expectOn(machine, {.nodes = hosts}, {});
  if (!answers.ok() || !answers->front().peak_choice) return {};
  const topo::tuning::Expectation& answer = answers->front();
  return {.gbytes = answer.peak,
          .ring_gbytes = answer.ring_network,
          .ring_nics = answer.ring_nics,
          .text = "NCCL " + ncclVersionName(machine.settings->nccl) + "'s model of " + std::to_string(hosts) +
                  " hosts with " + counted(answer.ranks.size(), "GPU") + " each",
          .algorithm = nameOf(answer.peak_choice->algorithm),
          .limit = answer.limit};
}

}  // namespace railwise::doctor::pair
