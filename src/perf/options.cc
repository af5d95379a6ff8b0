#include "perf/options.h"

#include <climits>
#include <cmath>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "base/text/words.h"
#include "cli/options/help_page.h"
#include "cli/options/message.h"
#include "cli/options/options.h"
#include "perf/job/rank_environment.h"
#include "perf/results/run_options.h"

namespace railwise::cli {
namespace {

// The options of nccl-tests that have another form, or no effect, in `railwise perf`. Scripts for nccl-tests
// may go on naming them.

constexpr int kMostOperations = 1'000'000;

// An option that also takes "all".
Option withAll(Option option, bool* all) {
  option.accepted += ", all";
  option.choices.emplace_back("all");
  option.text += ", or all";
  option.accept = [all, accept = std::move(option.accept)](std::string_view value) {
    *all = value == "all";
    return *all || accept(value);
  };
  return option;
}

Option rootOption(PerfOptions& fields) {
  return valueOption('r', "root", "RANK",
                     "root of broadcast, reduce, gather and scatter, or all (default: 0)",
                     "a rank from 0, or all", [&fields](std::string_view value) {
                       fields.all_roots = value == "all" || value == "-1";
                       const auto root = parseInt(value, 0, kMaxRanks - 1);
                       fields.root = root.value_or(0);
                       return fields.all_roots || root.has_value();
                     });
}

// 0 or 1.
Option zeroOrOne(char short_name, std::string long_name, bool* field, std::string text) {
  return intOption(short_name, std::move(long_name), 0, 1, std::move(text),
                   [field](int value) { *field = value != 0; });
}

Option outputFileOption(PerfOptions& fields) {
  return valueOption('J', "output_file", "FILE", "as --json=FILE, or as --csv=FILE if FILE ends in .csv",
                     "a name that ends in .json or .csv", [&fields](std::string_view value) {
                       const bool csv = value.ends_with(".csv");
                       (csv ? fields.csv : fields.json) = true;
                       (csv ? fields.csv_file : fields.json_file) = value;
                       return csv || value.ends_with(".json");
                     });
}

// An option without effect. Values other than 0 are noted in the header of the table.
Option notedOption(PerfOptions& fields, char short_name, const std::string& long_name, const char* why) {
  return intOption(short_name, long_name, 0, INT_MAX, std::string("no effect: ") + why,
                   [&fields, short_name, long_name, why](int value) {
                     if (value == 0) return;
                     fields.notes.push_back(std::string("option -") + short_name + "/--" + long_name +
                                            " has no effect: " + why);
                   });
}

// An option that accepts 0 only.
Option refusedOption(char short_name, std::string long_name, const char* why) {
  return valueOption(short_name, std::move(long_name), "0", std::string("only 0: ") + why,
                     std::string("0: ") + why, [](std::string_view value) { return value == "0"; });
}

// The options of nccl-tests that mean something here: which of all types, which rank is the root, how a time
// is taken.
std::vector<Option> ncclTestsOptions(PerfOptions& fields) {
  return {
      withAll(choiceOption<DataType>('d', "datatype", kDataTypes, &fields.type,
                                     "type of the elements (default: float): int8, uint8, int32, uint32, "
                                     "int64, uint64, half, float, double, bfloat16"),
              &fields.all_types),
      withAll(
          choiceOption<ReduceOp>(
              'o', "op", kReduceOps, &fields.op,
              "reduction of all_reduce, reduce_scatter and reduce (default: sum): sum, prod, max, min, avg"),
          &fields.all_ops),
      rootOption(fields),
      intOption('m', "agg_iters", &fields.aggregated, 1, kMostOperations,
                "operations of an iteration, one after the other (default: 1)"),
      intOption('N', "run_cycles", &fields.cycles, 0, INT_MAX,
                "measure all sizes N times, and print each time (default: 1; 0: until Ctrl-C)"),
      intOption('z', "blocking", 0, 3,
                "1: all ranks wait for each other after each iteration; 3: likewise, and "
                "the wait is not timed (default: 0: they do not wait; 2: as 0)",
                [&fields](int value) {
                  fields.barriers = value == 1   ? Barriers::kTimed
                                    : value == 3 ? Barriers::kNotTimed
                                                 : Barriers::kNone;
                }),
      intOption('a', "average", 0, 3,
                "which time stands for all ranks: 0 that of rank 0, 1 average, 2 minimum, 3 "
                "maximum (default: 3; nccl-tests: 1)",
                [&fields](int value) { fields.average = static_cast<AverageOver>(value); }),
      zeroOrOne('I', "per_iter_timing", &fields.iteration_columns,
                "1: columns for single iterations: i_min, i_max, i_p99, i_cv% (standard "
                "deviation in % of the mean). --json and --csv always have them"),
      intOption('K', "per_iter_skip", &fields.skipped_samples, 0, kMostOperations,
                "leave out the first N iterations in the figures of single iterations"),
      zeroOrOne('S', "report_timestamps", &fields.timestamps, "1: add the time of day to each row"),
      outputFileOption(fields)};
}

// The options about GPUs. A value that would change nothing here is noted in PerfOptions::notes; a value
// that asks for a measurement that perf cannot make is refused.
std::vector<Option> gpuOptions(PerfOptions& fields) {
  return {intOption('g', "ngpus", &fields.gpus, 1, kMaxRanks,
                    "as --ranks: perf has a rank where nccl-tests has a GPU. With -t, T * G ranks; "
                    "1: as without the option"),
          intOption('t', "nthreads", &fields.threads, 1, kMaxRanks, "see -g"),
          refusedOption('G', "cudagraph", "without a GPU there is no CUDA graph"),
          refusedOption('C', "report_cputime", "without a GPU nothing is launched, and there is one time"),
          notedOption(fields, 'p', "parallel_init", "each rank is a process of its own"),
          notedOption(fields, 'R', "local_register", "data pass through registered slots, as in NCCL"),
          notedOption(fields, 'u', "unalign", "the slots that the NIC reads are aligned"),
          notedOption(fields, 'M', "memory", "no memory of a GPU is used"),
          notedOption(fields, 'y', "stream_null", "there are no streams"),
          notedOption(fields, 'x', "cta_policy", "no kernel runs on a GPU"),
          notedOption(fields, 'V', "device_cta_count", "no kernel runs on a GPU")};
}

constexpr uint64_t kMaxBytes = uint64_t{1} << 40;
constexpr int kMaxTimeoutSeconds = 86'400;
constexpr int kMaxDurationSeconds = 30 * 86'400;

std::vector<Option> measureOptions(PerfOptions& fields) {
  return {
      sizeOption('b', "minbytes", &fields.min_bytes, kMaxBytes, "first size (default: 32M)"),
      sizeOption('e', "maxbytes", &fields.max_bytes, kMaxBytes, "last size (default: 32M)"),
      intOption('f', "stepfactor", &fields.step_factor, 1, 1024,
                "multiply the size by N from row to row (default: 1, which adds --stepbytes)"),
      sizeOption('i', "stepbytes", &fields.step_bytes, kMaxBytes, "add SIZE from row to row (default: 1M)"),
      intOption('n', "iters", &fields.iters, 1, 1'000'000'000, "timed iterations per row (default: 20)"),
      intOption('w', "warmup_iters", &fields.warmup_iters, 0, 1'000'000'000,
                "iterations before the timed ones (default: 1)"),
      intOption('D', "duration", &fields.duration_s, 0, kMaxDurationSeconds,
                "measure all sizes again and again until N seconds have passed, then print a "
                "row for each size (default: 0: once)"),
      flagOption(0, "rows", &fields.every_row, "with -D: print a row for each measurement at once"),
      intOption('c', "check", &fields.check, 0, 1'000'000,
                "iterations after the timed ones in which every element is verified, for each "
                "size, out of place and in place (default: 1)")};
}

std::vector<Option> jobOptions(PerfOptions& fields) {
  return {
      intOption(0, "ranks", &fields.ranks, 1, kMaxRanks,
                "start N ranks on this machine (default: 2, or be one rank of the job that "
                "mpirun, srun or torchrun started)"),
      textOption(
          0, "address", "HOST:PORT", &fields.address,
          "where rank 0 of a job of mpirun, srun or torchrun listens (default: from the job's environment)"),
      intOption(0, "channels", &fields.channels, 1, kMaxChannels,
                "connections per pair of ranks, each on the next device (default: 2)"),
      flagOption(0, "fuse", &fields.fuse,
                 "use all devices of a rank as one virtual device (makeVDevice, from API v9 on)"),
      intOption('T', "timeout", &fields.timeout_s, 1, kMaxTimeoutSeconds,
                "end the run when no rank has made progress for N seconds (default: 60)")};
}

Option documentOption(const char* name, const char* text, bool& wanted, std::string& file) {
  return {.long_name = name,
          .value = Option::kOptional,
          .value_name = "FILE",
          .text = text,
          .accepted = "a file name",
          .accept = [&wanted, &file](std::string_view value) {
            wanted = true;
            file = value;
            return true;
          }};
}

std::vector<Option> resultOptions(PerfOptions& fields) {
  return {documentOption("json", "write the results as JSON to FILE, or to stdout instead of the table",
                         fields.json, fields.json_file),
          documentOption("csv", "likewise as CSV, a line for each measurement", fields.csv, fields.csv_file),
          textOption(0, "against", "FILE", &fields.against,
                     "compare with an earlier run, saved with --json=FILE: which sizes are slower "
                     "or faster. There is no verdict where the iterations vary too much"),
          valueOption(0, "min-busbw", "GB/s", "exit status 1 if the average bus bandwidth is below",
                      "a number of GB/s above 0",
                      [&fields](std::string_view value) {
                        fields.min_busbw = numberIn<double>(value);
                        return fields.min_busbw > 0 && std::isfinite(*fields.min_busbw);
                      }),
          textOption(0, "timeline", "FILE", &fields.timeline,
                     "draw throughput over time as SVG, with what the software device's fault log says")};
}

// nccl-tests has a program for each collective, whose name ends in _perf.
Outcome<void> readCollective(const std::vector<std::string>& positional, PerfOptions& options) {
  const std::vector<std::string> names = namesOf(kCollectives);
  if (positional.empty()) return Error{"perf: which collective? One of " + joined(names)};
  if (positional.size() > 1) return Error{"perf: unexpected argument '" + positional[1] + "'"};
  std::string_view name = positional[0];
  if (name.ends_with("_perf")) name.remove_suffix(std::string_view("_perf").size());
  if (choose(kCollectives, name, &options.collective)) return {};
  const std::string near = suggestion(positional[0], names);
  return Error{"perf: unknown collective '" + positional[0] + "'" +
               (near.empty() ? ": one of " + joined(names) : near)};
}

Outcome<void> consistentResults(const PerfOptions& options) {
  if (options.json && options.json_file.empty() && options.csv && options.csv_file.empty())
    return Error{
        "options --json and --csv: only one of them can go to stdout: give the CSV a file (--csv=FILE)"};
  if (options.json && options.csv && options.json_file == options.csv_file)
    return Error{"options --json and --csv: both write " + options.json_file +
                 ", give each a file of its own"};
  if (options.csv && options.csv_file.empty() && !options.against.empty())
    return Error{
        "options --csv and --against: the comparison goes to stdout, give the CSV a file: --csv=FILE"};
  if (options.cycles == 0 && options.duration_s == 0 && !options.judged &&
      (options.json || options.csv || !options.against.empty()))
    return Error{
        "option -N/--run_cycles: 0 never ends, so --json, --csv and --against would have no result: -D ends "
        "it"};
  if (options.every_row && options.duration_s == 0) return Error{"option --rows: it goes with -D/--duration"};
  if (options.skipped_samples >= options.iters)
    return Error{textOf("option -K/--per_iter_skip: %d leaves none of -n/--iters %d", options.skipped_samples,
                        options.iters)};
  return {};
}

// How many ranks there are, by --ranks or by -g and -t. `drawn`: --ranks is none that the user gave.
Outcome<void> settleRanks(PerfOptions& options, bool drawn) {
  const int ranks = options.gpus * options.threads;
  if (ranks > 1 && options.ranks > 0 && options.ranks != ranks && !drawn)
    return Error{textOf("options -g and -t: they ask for %d ranks, --ranks for %d", ranks, options.ranks)};
  if (ranks > kMaxRanks)
    return Error{textOf("options -g and -t: %d ranks are more than %d", ranks, kMaxRanks)};
  if (ranks > 1) options.ranks = ranks;
  return options.ranks == 0 ? Outcome<void>() : checkRanks(options, options.ranks);
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
  if (options.fuse && isOneSided(options.collective))
    return Error{textOf("option --fuse: the RMA tables, which %s needs, have no virtual devices",
                        collectiveName(options.collective))};
  if (!options.address.empty() && options.ranks != 0)
    return Error{"option --address: with --ranks the ranks are started here and need no address"};
  return consistentResults(options);
}

}  // namespace

std::vector<Option> perfOptionTable(PerfOptions& fields) {
  std::vector<Option> options;
  for (const auto part : {measureOptions, ncclTestsOptions, resultOptions, jobOptions, gpuOptions})
    for (Option& option : part(fields)) options.push_back(std::move(option));
  addPluginAndRmaOptions(options, fields.plugin);
  return options;
}

Outcome<void> readPerf(std::span<const Option> table, std::span<const char* const> args, PerfOptions& options,
                       bool& help) {
  const auto arguments = parseArguments(table, args);
  if (!arguments.ok()) return arguments.failure();
  help = arguments->help;
  return help ? Outcome<void>() : readCollective(arguments->positional, options);
}

Outcome<void> settlePerf(PerfOptions& options, bool drawn) {
  if (auto settled = settleRanks(options, drawn); !settled.ok()) return settled;
  return consistent(options);
}

Outcome<PerfCommand> parsePerf(std::span<const char* const> args) {
  PerfCommand command;
  auto parsed = readPerf(perfOptionTable(command.options), args, command.options, command.help);
  if (parsed.ok() && !command.help) parsed = settlePerf(command.options, false);
  if (parsed.ok()) return command;
  return Error{parsed.error().starts_with("perf: ") ? parsed.error() : "perf: " + parsed.error()};
}

HelpPage perfHelp() {
  PerfOptions fields;
  return {.intro =
              "usage: railwise perf all_reduce|all_gather|reduce_scatter [options]\n"
              "       railwise perf broadcast|reduce|gather|scatter [options]\n"
              "       railwise perf sendrecv|alltoall|hypercube [options]\n"
              "       railwise perf put|put_signal|get|signal_pingpong [options]\n"
              "       railwise perf put_all_gather|put_alltoall [options]\n\n"
              "Runs a collective over host memory through a net plugin, the way NCCL drives it, and prints "
              "what nccl-tests prints: the options, the columns and the bandwidths are those of nccl-tests.\n"
              "  all_reduce      ring, every rank gets the reduction of all\n"
              "  all_gather      ring, every rank gets the blocks of all\n"
              "  reduce_scatter  ring, every rank gets its block of the reduction of all\n"
              "  broadcast       chain, every rank gets the data of the root (-r)\n"
              "  reduce          chain, the root gets the reduction of all\n"
              "  sendrecv        every rank sends to the next and receives from the one before\n"
              "  alltoall        every rank sends one block to each\n"
              "  gather          the root gets a block of each\n"
              "  scatter         every rank gets a block of the root\n"
              "  hypercube       as all_gather, in pairs; takes a power of two of ranks\n"
              "One-sided, over the plugin's RMA table, where all final values of signals are verified, too:\n"
              "  put             every rank puts to the next\n"
              "  put_signal      likewise, and the next waits for the signal of each put\n"
              "  get             every rank reads from the one before\n"
              "  signal_pingpong ranks in pairs, a put with a signal to and fro; time is half of it\n"
              "  put_all_gather  every rank puts its block to all others, with signals\n"
              "  put_alltoall    every rank puts one block to each, with signals\n"
              "Where data are blocks of ranks, size is that of all blocks, count that of one.\n\n"
              "The last lines say what the run gets of what the ports allow and, between hosts with GPUs, of "
              "what NCCL's own model expects (docs/topology-graphs.md, \"What you get of it\"). docs/perf.md "
              "says more.\n\n"
              "SIZE is in bytes, or with K, M or G in powers of 1024.\n\n",
          .options = perfOptionTable(fields),
          .after_options =
              "\n"
              "A port goes down and up during a run on software devices (docs/failures.md):\n"
              "  export RAILWISE_FABRIC=mine  # so that other jobs keep their ports\n"
              "  export RAILWISE_DEVICE=software:count=2,speed=2500,pacing=on  # two NICs, a pace\n"
              "  railwise perf sendrecv -D 9 --timeline run.svg &\n"
              "  sleep 3; railwise device port soft0 down\n"
              "  sleep 2; railwise device port soft0 up; wait\n\n"
              "Exit status: 0 all right, 1 wrong data, a failure or too little bandwidth (--min-busbw), 2 a "
              "mistake on the command line.\n"};
}

}  // namespace railwise::cli
