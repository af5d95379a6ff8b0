#include "tests/campaign/options.h"

#include <charconv>
#include <cstdlib>

#include "cli/options/options.h"
#include "perf/options.h"
#include "tests/campaign/schedule.h"

namespace railwise::cli {
namespace {

constexpr int kMaxTimeoutSeconds = 86'400;
// --timeout is longer than the failover timeout by this many seconds.
constexpr int kBeyondFailoverSeconds = 10;

constexpr Choice<FaultTransport> kFaultTransports[] = {{"any", FaultTransport::kAny},
                                                       {"plain", FaultTransport::kPlain},
                                                       {"iwarp", FaultTransport::kIwarp},
                                                       {"cm", FaultTransport::kRdmaCm}};

std::vector<Option> faultOptionTable(FaultOptions& fields) {
  return {
      {.long_name = "faults",
       .value = Option::kRequired,
       .value_name = "SEED",
       .text = "run on a software machine on which things go wrong, and draw from SEED what\n"
               "the command line does not give: ranks, rails, sizes, faults. Good is right\n"
               "data, or ncclRemoteError in all ranks when no pair of devices was left",
       .accepted = "a number from 0",
       .accept =
           [&fields](std::string_view value) {
             uint64_t seed = 0;
             const auto [end, error] = std::from_chars(value.begin(), value.end(), seed);
             fields.faults = seed;
             return error == std::errc() && end == value.end();
           }},
      flagOption(0, "dry-run", &fields.dry_run, "only say in words what would be done"),
      choiceOption<FaultTransport>(0, "transport", kFaultTransports, &fields.transport,
                                   "iwarp, cm (InfiniBand or RoCE, connected by RDMA CM), plain (without\n"
                                   "RDMA CM), any (drawn)"),
      intOption(0, "rails", &fields.rails, 1, kMaxRailsOfHost,
                "devices of each rank (default: drawn, 1 to 4)"),
      textOption(0, "like", "DRIVER", &fields.like,
                 "devices like those of a driver (docs/software-device.md)"),
      textOption(0, "conduct", "FABRIC", &fields.conduct,
                 "start no ranks, but make the faults happen to those that another program\n"
                 "runs on FABRIC. Each side says how far it is, on stdin and stdout\n"
                 "(tests/campaign/run.h)"),
      flagOption(0, "one-sided", &fields.one_sided,
                 "with --conduct: the program's traffic is one-sided. Devices reach GPU memory,\n"
                 "and faults strike what one-sided traffic sends")};
}

Outcome<void> read(std::span<const char* const> args, FaultCommand& command) {
  std::vector<Option> table = perfOptionTable(command.options);
  for (Option& option : faultOptionTable(command.options)) table.push_back(std::move(option));
  return readPerf(table, args, command.options, command.help);
}

// Draws the options of the run. Options on the command line replace them later.
FaultOptions drawn(const FaultOptions& given) {
  FaultOptions options = drawOptions(given.collective, *given.faults);
  constexpr int kOldestFusing = 9;
  constexpr int kOldFused = 4;  // so many devices can be fused by all versions that fuse
  if (given.plugin.api != 0 && given.plugin.api < kOldestFusing) options.fuse = false;
  if (given.rails > kOldFused) options.plugin.api = 0;
  const char* const variable = std::getenv("RAILWISE_FAILOVER_TIMEOUT");
  const auto failover_s = parseInt(variable != nullptr ? variable : "", 1, kMaxTimeoutSeconds / 2);
  options.timeout_s = failover_s.value_or(kFailoverTimeoutSeconds) + kBeyondFailoverSeconds;
  return options;
}

// Reads the command line over the options that the seed draws.
Outcome<void> readOverDrawn(std::span<const char* const> args, FaultCommand& command) {
  const bool max_given = command.options.max_bytes != PerfOptions().max_bytes;
  command.options = drawn(command.options);
  if (auto done = read(args, command); !done.ok()) return done;
  FaultOptions& options = command.options;
  if (options.min_bytes > options.max_bytes)
    (max_given ? options.min_bytes : options.max_bytes) = max_given ? options.max_bytes : options.min_bytes;
  return {};
}

Outcome<void> consistent(const FaultOptions& options) {
  if (!options.address.empty()) return Error{"option --address: --faults starts its ranks itself"};
  if (options.plugin.device != "auto")
    return Error{"option --device: --faults makes a software machine of its own"};
  if (options.csv || !options.against.empty() || options.min_busbw)
    return Error{"options --csv, --against and --min-busbw: a run with --faults measures no bandwidth"};
  return {};
}

}  // namespace

Outcome<FaultCommand> parseFaults(std::span<const char* const> args) {
  FaultCommand command;
  auto parsed = read(args, command);
  if (parsed.ok() && command.help) return command;
  if (parsed.ok() && !command.options.faults) parsed = Error{"option --faults: give a seed"};
  const bool ranks_given = command.options.ranks != 0;
  if (parsed.ok()) parsed = readOverDrawn(args, command);
  if (parsed.ok()) parsed = consistent(command.options);
  if (parsed.ok()) parsed = settlePerf(command.options, !ranks_given);
  if (parsed.ok()) return command;
  return parsed.failure();
}

HelpPage faultsHelp() {
  FaultOptions fields;
  return {
      .intro =
          "usage: railwise-campaign perf COLLECTIVE --faults SEED [options]\n\n"
          "Runs a collective as `railwise perf` does, while things go wrong, and judges the run\n"
          "(docs/failures.md). All options of `railwise perf` are taken, and these:\n\n",
      .options = faultOptionTable(fields),
      .after_options =
          "\nExit status: 0 the run was good, 1 wrong data or a failure, 2 a mistake on the command line.\n"};
}

}  // namespace railwise::cli
