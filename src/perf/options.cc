#include "perf/options.h"

#include <charconv>
#include <cstdlib>

#include "cli/options/message.h"
#include "cli/options/options.h"
#include "perf/faults/schedule.h"
#include "perf/job/rank_environment.h"

namespace railwise::cli {
namespace {

constexpr uint64_t kMaxBytes = uint64_t{1} << 40;
constexpr int kMaxTimeoutSeconds = 86'400;
// With --faults, --timeout is longer than the failover timeout by this many seconds.
constexpr int kBeyondFailoverSeconds = 10;
constexpr int kMaxDurationSeconds = 30 * 86'400;

void addMeasureOptions(std::vector<Option>& options, PerfOptions& fields) {
  options.push_back(sizeOption('b', "minbytes", &fields.min_bytes, kMaxBytes, "first size (default: 32M)"));
  options.push_back(sizeOption('e', "maxbytes", &fields.max_bytes, kMaxBytes, "last size (default: 32M)"));
  options.push_back(
      intOption('f', "stepfactor", &fields.step_factor, 1, 1024,
                "multiply the size by N from row to row (default: 1, which adds\n--stepbytes)"));
  options.push_back(
      sizeOption('i', "stepbytes", &fields.step_bytes, kMaxBytes, "add SIZE from row to row (default: 1M)"));
  options.push_back(
      intOption('n', "iters", &fields.iters, 1, 1'000'000'000, "timed iterations per row (default: 20)"));
  options.push_back(intOption('w', "warmup_iters", &fields.warmup_iters, 0, 1'000'000'000,
                              "iterations before the timed ones (default: 1)"));
  options.push_back(intOption('D', "duration", &fields.duration_s, 1, kMaxDurationSeconds,
                              "measure all sizes again and again until N seconds have passed"));
  options.push_back(intOption('c', "check", &fields.check, 0, 1'000'000,
                              "iterations behind the timed ones, of every size, out of place and in\n"
                              "place, whose every element is verified (default: 1)"));
  options.push_back(choiceOption<DataType>('d', "datatype", kDataTypes, &fields.type,
                                           "int8, int32, int64, float or double (default: float)"));
  options.push_back(choiceOption<ReduceOp>('o', "op", kReduceOps, &fields.op,
                                           "reduction of all_reduce: sum, prod, max or min (default: sum)"));
}

void addJobOptions(std::vector<Option>& options, PerfOptions& fields) {
  options.push_back(intOption(0, "ranks", &fields.ranks, 1, kMaxRanks,
                              "start N ranks on this machine (default: 2, or be one rank of the job\n"
                              "that mpirun, srun or torchrun started)"));
  options.push_back(textOption(0, "address", "HOST:PORT", &fields.address,
                               "where rank 0 of a job of mpirun, srun or torchrun listens (default:\n"
                               "from the job's environment)"));
  options.push_back(intOption(0, "channels", &fields.channels, 1, kMaxChannels,
                              "connections per pair of ranks, each on the next device (default: 2)"));
  options.push_back(flagOption(0, "fuse", &fields.fuse,
                               "use all devices of a rank as one virtual device (makeVDevice, from API v9\n"
                               "on)"));
  options.push_back(intOption('T', "timeout", &fields.timeout_s, 1, kMaxTimeoutSeconds,
                              "end the run when no rank has made progress for N seconds (default: 60)"));
  options.push_back({.long_name = "json",
                     .value = Option::kOptional,
                     .value_name = "FILE",
                     .text = "write the results as JSON to FILE, or to stdout instead of the table",
                     .accepted = "a file name",
                     .accept = [&fields](std::string_view value) {
                       fields.json = true;
                       fields.json_file = value;
                       return true;
                     }});
}

void addFaultOptions(std::vector<Option>& options, PerfOptions& fields) {
  options.push_back({.long_name = "faults",
                     .value = Option::kRequired,
                     .value_name = "SEED",
                     .text = "run on a software machine on which things go wrong, and draw from SEED what\n"
                             "the command line does not give: ranks, rails, sizes, faults. Good is right\n"
                             "data, or ncclRemoteError in all ranks when no pair of devices was left",
                     .accepted = "a number from 0",
                     .accept = [&fields](std::string_view value) {
                       uint64_t seed = 0;
                       const auto [end, error] = std::from_chars(value.begin(), value.end(), seed);
                       fields.faults = seed;
                       return error == std::errc() && end == value.end();
                     }});
  options.push_back(
      flagOption(0, "dry-run", &fields.dry_run, "with --faults: only say in words what would be done"));
  options.push_back(textOption(0, "conduct", "FABRIC", &fields.conduct,
                               "with --faults: start no ranks, but make the faults happen to those that\n"
                               "another program runs on FABRIC. Each side says how far it is, on stdin\n"
                               "and stdout (src/perf/conduct.h)"));
  options.push_back(textOption(0, "timeline", "FILE", &fields.timeline,
                               "draw throughput over time as SVG, with what the software device's fault\n"
                               "log says"));
}

std::vector<Option> perfOptionTable(PerfOptions& fields) {
  std::vector<Option> options;
  addMeasureOptions(options, fields);
  addJobOptions(options, fields);
  addFaultOptions(options, fields);
  addPluginOptions(options, fields.plugin);
  return options;
}

Outcome<void> readCollective(const std::vector<std::string>& positional, PerfOptions& options) {
  std::vector<std::string> names;
  for (const auto& choice : kCollectives) names.emplace_back(choice.name);
  if (positional.empty()) return Error{"perf: which collective? One of all_reduce, sendrecv, alltoall"};
  if (positional.size() > 1) return Error{"perf: unexpected argument '" + positional[1] + "'"};
  for (const auto& choice : kCollectives) {
    if (positional[0] != choice.name) continue;
    options.collective = choice.value;
    return {};
  }
  const std::string near = suggestion(positional[0], names);
  return Error{"perf: unknown collective '" + positional[0] + "'" +
               (near.empty() ? std::string(": one of all_reduce, sendrecv, alltoall") : near)};
}

Outcome<void> consistentFaults(const PerfOptions& options) {
  if (options.faults && !options.address.empty())
    return Error{"option --address: --faults starts its ranks itself"};
  if (options.faults && options.plugin.device != "auto")
    return Error{"option --device: --faults makes a software machine of its own"};
  if (options.dry_run && !options.faults)
    return Error{"option --dry-run: it says what --faults SEED would do"};
  if (!options.conduct.empty() && !options.faults)
    return Error{"option --conduct: it makes the faults of --faults SEED happen"};
  return {};
}

Outcome<void> consistent(const PerfOptions& options) {
  if (options.min_bytes > options.max_bytes)
    return Error{textOf("option -b/--minbytes: %llu bytes are more than -e/--maxbytes, %llu",
                        static_cast<unsigned long long>(options.min_bytes),
                        static_cast<unsigned long long>(options.max_bytes))};
  if (options.step_factor == 1 && options.step_bytes == 0 && options.min_bytes < options.max_bytes)
    return Error{"option -i/--stepbytes: 0 never leads from -b/--minbytes to -e/--maxbytes"};
  if (options.step_factor > 1 && options.min_bytes == 0 && options.max_bytes > 0)
    return Error{"option -b/--minbytes: 0 times -f/--stepfactor stays 0: begin with at least 1"};
  if (!options.address.empty() && options.ranks != 0)
    return Error{"option --address: with --ranks the ranks are started here and need no address"};
  return consistentFaults(options);
}

// Draws the options of a run with faults. Options on the command line replace them later.
PerfOptions drawnOptions(const PerfOptions& given) {
  PerfOptions options = drawPerfOptions(given.collective, *given.faults);
  constexpr int kOldestFusing = 9;
  if (given.plugin.api != 0 && given.plugin.api < kOldestFusing) options.fuse = false;
  const char* const variable = std::getenv("RAILWISE_FAILOVER_TIMEOUT");
  const auto failover_s = parseInt(variable != nullptr ? variable : "", 1, kMaxTimeoutSeconds / 2);
  options.timeout_s = failover_s.value_or(kFailoverTimeoutSeconds) + kBeyondFailoverSeconds;
  return options;
}

// Parses the command line; its options replace those in `command.options`.
Outcome<void> parseOver(std::span<const char* const> args, PerfCommand& command) {
  const auto table = perfOptionTable(command.options);
  const auto arguments = parseArguments(table, args);
  if (!arguments.ok()) return arguments.failure();
  command.help = arguments->help;
  return command.help ? Outcome<void>() : readCollective(arguments->positional, command.options);
}

// Parses the command line over the options that the seed draws.
Outcome<void> parseOverDrawn(std::span<const char* const> args, PerfCommand& command) {
  const bool max_given = command.options.max_bytes != PerfOptions().max_bytes;
  command.options = drawnOptions(command.options);
  if (auto parsed = parseOver(args, command); !parsed.ok()) return parsed;
  PerfOptions& options = command.options;
  if (options.min_bytes > options.max_bytes)
    (max_given ? options.min_bytes : options.max_bytes) = max_given ? options.max_bytes : options.min_bytes;
  return {};
}

}  // namespace

Outcome<PerfCommand> parsePerf(std::span<const char* const> args) {
  PerfCommand command;
  auto parsed = parseOver(args, command);
  if (parsed.ok() && !command.help && command.options.faults) parsed = parseOverDrawn(args, command);
  if (parsed.ok() && !command.help) parsed = consistent(command.options);
  if (parsed.ok()) return command;
  return Error{parsed.error().starts_with("perf: ") ? parsed.error() : "perf: " + parsed.error()};
}

std::string perfHelp() {
  PerfOptions fields;
  return "usage: railwise perf all_reduce|sendrecv|alltoall [options]\n\n"
         "Runs a collective over host memory through a net plugin, the way NCCL drives it, and prints\n"
         "what nccl-tests prints. Times are averages over the iterations and the maximum over the ranks.\n"
         "  all_reduce  ring, every rank gets the reduction of all\n"
         "  sendrecv    every rank sends to the next and receives from the one before\n"
         "  alltoall    every rank sends one block to each; size is that of all blocks, count that of one\n\n"
         "SIZE is in bytes, or with K, M or G in powers of 1024.\n\n" +
         optionHelp(perfOptionTable(fields)) +
         "\nExit status: 0 all right, 1 wrong data or a failure, 2 a mistake on the command line.\n";
}

}  // namespace railwise::cli
