// Describes a schedule in words (tests/campaign/schedule.h).
#include "cli/options/message.h"
#include "tests/campaign/fault_steps.h"
#include "tests/campaign/schedule.h"

namespace railwise::cli {
namespace {

std::string sizeWords(uint64_t bytes) {
  constexpr uint64_t kKiB = 1 << 10, kMiB = 1 << 20;
  if (bytes >= kMiB && bytes % kMiB == 0) return std::to_string(bytes / kMiB) + " MiB";
  if (bytes >= kKiB && bytes % kKiB == 0) return std::to_string(bytes / kKiB) + " KiB";
  return std::to_string(bytes) + " bytes";
}

std::string hostsSentence(const FaultMachine& machine, const PerfOptions& options) {
  std::string rails;
  bool several = false;
  for (int rank = 0; rank < machine.ranks(); ++rank) {
    const int count = machine.rails[static_cast<std::size_t>(rank)];
    several = several || count > 1;
    rails += (rank > 0 ? ", " : "") + hostName(rank) + " with " + std::to_string(count);
  }
  const char* use = !several       ? ""
                    : options.fuse ? ", fused into one device each"
                                   : ", each a device of its own";
  return textOf("%d ranks on hosts of their own: ", machine.ranks()) + rails +
         textOf(" %s rails", machine.iwarp        ? "iWARP"
                             : machine.infiniband ? "InfiniBand"
                                                  : "RoCE") +
         (machine.rdma_cm && !machine.iwarp ? " that RDMA CM connects" : "") +
         (machine.like.empty() ? "" : ", like those of " + machine.like) + use;
}

std::string modeSentence(const FaultMachine& machine) {
  return textOf(
             "software device: engine %s, placement %s, %s", machine.engine ? "on" : "off",
             machine.adversarial ? "adversarial" : "in order",
             machine.pacing ? textOf("paced at %d Gb/s", machine.speed_mbps / 1000).c_str() : "not paced") +
         textOf("; acknowledge timeout %.0f ms, %d retries",
                4.096e-3 * static_cast<double>(uint64_t{1} << machine.ack_timeout), machine.retries);
}

std::string trafficSentence(const PerfOptions& options) {
  const std::string op =
      traitsOf(options.collective).reduces ? std::string(" ") + reduceOpName(options.op) : "";
  const std::string api = options.plugin.api == 0 ? "newest API" : textOf("API v%d", options.plugin.api);
  return std::string(collectiveName(options.collective)) + op + " of " + dataTypeName(options.type) + ", " +
         sizeWords(options.min_bytes) + " to " + sizeWords(options.max_bytes) +
         textOf(" in %zu sizes, %d timed and %d checked iterations, %d channels, ", perfSizes(options).size(),
                options.warmup_iters + options.iters, options.check, options.channels) +
         api;
}

}  // namespace

std::vector<std::string> scheduleSentences(const Schedule& schedule, const PerfOptions& options) {
  std::vector<std::string> sentences = {hostsSentence(schedule.machine, options),
                                        modeSentence(schedule.machine), trafficSentence(options)};
  for (std::size_t i = 0; i < schedule.steps.size(); ++i)
    sentences.push_back(stepSentence(schedule.steps, i));
  return sentences;
}

}  // namespace railwise::cli
