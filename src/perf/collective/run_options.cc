#include "perf/collective/run_options.h"

#include "cli/options/message.h"

namespace railwise::cli {
namespace {

template <typename Enum, std::size_t N>
const char* nameOf(const Choice<Enum> (&choices)[N], Enum value) {
  for (const auto& choice : choices) {
    if (choice.value == value) return choice.name;
  }
  return "?";
}

}  // namespace

const char* collectiveName(Collective collective) { return nameOf(kCollectives, collective); }
const char* dataTypeName(DataType type) { return nameOf(kDataTypes, type); }
const char* reduceOpName(ReduceOp op) { return nameOf(kReduceOps, op); }

std::vector<uint64_t> perfSizes(const PerfOptions& options) {
  std::vector<uint64_t> sizes;
  for (uint64_t bytes = options.min_bytes; bytes <= options.max_bytes;) {
    sizes.push_back(bytes);
    const uint64_t next = options.step_factor > 1 ? bytes * static_cast<uint64_t>(options.step_factor)
                                                  : bytes + options.step_bytes;
    if (next <= bytes) break;
    bytes = next;
  }
  return sizes;
}

std::string agreementText(const PerfOptions& options) {
  return textOf(
      "%s -b %llu -e %llu -f %d -i %llu -n %d -w %d -D %d -c %d -d %s -o %s --channels %d --api %d --fuse %d",
      collectiveName(options.collective), static_cast<unsigned long long>(options.min_bytes),
      static_cast<unsigned long long>(options.max_bytes), options.step_factor,
      static_cast<unsigned long long>(options.step_bytes), options.iters, options.warmup_iters,
      options.duration_s, options.check, dataTypeName(options.type), reduceOpName(options.op),
      options.channels, options.plugin.api, options.fuse ? 1 : 0);
}

}  // namespace railwise::cli
