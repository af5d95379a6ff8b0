#include "perf/results/run_options.h"

#include <algorithm>
#include <numeric>

#include "cli/options/message.h"

namespace railwise::cli {

const char* dataTypeName(DataType type) { return nameOf(kDataTypes, type); }
const char* reduceOpName(ReduceOp op) { return nameOf(kReduceOps, op); }

PluginOptions deviceOptions(const PerfOptions& options) {
  PluginOptions its = options.plugin;
  its.start_limit_s = std::min(its.start_limit_s, options.timeout_s);
  if (isOneSided(options.collective)) its.api = 0;
  return its;
}

Outcome<void> checkRanks(const PerfOptions& options, int ranks) {
  if (const char* const why = impossibleWith(options.collective, ranks); why != nullptr) return Error{why};
  if (traitsOf(options.collective).rooted && options.root >= ranks)
    return Error{textOf("option -r/--root: there is no rank %d among %d ranks", options.root, ranks)};
  return {};
}

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

std::vector<Variant> variantsOf(const PerfOptions& options, int ranks) {
  const CollectiveTraits& traits = traitsOf(options.collective);
  std::vector<DataType> types = {options.type};
  std::vector<ReduceOp> ops = {traits.reduces ? options.op : ReduceOp::kSum};
  std::vector<int> roots = {traits.rooted ? options.root : -1};
  if (options.all_types) {
    types.clear();
    for (const auto& choice : kDataTypes) types.push_back(choice.value);
  }
  if (options.all_ops && traits.reduces) {
    ops.clear();
    for (const auto& choice : kReduceOps) ops.push_back(choice.value);
  }
  if (options.all_roots && traits.rooted) {
    roots.resize(static_cast<std::size_t>(ranks));
    std::iota(roots.begin(), roots.end(), 0);
  }
  std::vector<Variant> variants;
  for (const DataType type : types) {
    for (const ReduceOp op : ops) {
      for (const int root : roots) variants.push_back({type, op, root});
    }
  }
  return variants;
}

bool tableOnStdout(const PerfOptions& options) {
  return !(options.json && options.json_file.empty()) && !(options.csv && options.csv_file.empty());
}

std::string agreementText(const PerfOptions& options) {
  const auto flag = [](bool on) { return on ? 1 : 0; };
  return textOf("%s -b %llu -e %llu -f %d -i %llu -n %d -w %d -m %d -N %d -D %d -c %d",
                collectiveName(options.collective), static_cast<unsigned long long>(options.min_bytes),
                static_cast<unsigned long long>(options.max_bytes), options.step_factor,
                static_cast<unsigned long long>(options.step_bytes), options.iters, options.warmup_iters,
                options.aggregated, options.cycles, options.duration_s, options.check) +
         textOf(" -d %s -o %s -r %d", options.all_types ? "all" : dataTypeName(options.type),
                options.all_ops ? "all" : reduceOpName(options.op), options.all_roots ? -1 : options.root) +
         textOf(" -z %d -a %d --channels %d --api %d --fuse %d", static_cast<int>(options.barriers),
                static_cast<int>(options.average), options.channels, options.plugin.api, flag(options.fuse));
}

}  // namespace railwise::cli
