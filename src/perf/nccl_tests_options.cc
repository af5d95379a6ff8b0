#include "perf/nccl_tests_options.h"

#include <climits>
#include <string>
#include <string_view>

#include "perf/job/rank_environment.h"

namespace railwise::cli {
namespace {

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
  return {.short_name = 'r',
          .long_name = "root",
          .value = Option::kRequired,
          .value_name = "RANK",
          .text = "root of broadcast, reduce, gather and scatter, or all (default: 0)",
          .accepted = "a rank from 0, or all",
          .accept = [&fields](std::string_view value) {
            fields.all_roots = value == "all" || value == "-1";
            const auto root = parseInt(value, 0, kMaxRanks - 1);
            fields.root = root.value_or(0);
            return fields.all_roots || root.has_value();
          }};
}

// A number from 0 to `max`.
Option numberOption(char short_name, std::string long_name, int max, std::string text,
                    std::function<void(int)> take) {
  return {.short_name = short_name,
          .long_name = std::move(long_name),
          .value = Option::kRequired,
          .value_name = "N",
          .text = std::move(text),
          .accepted = "a number from 0 to " + std::to_string(max),
          .accept = [max, take = std::move(take)](std::string_view value) {
            const auto number = parseInt(value, 0, max);
            if (number) take(*number);
            return number.has_value();
          }};
}

Option outputFileOption(PerfOptions& fields) {
  return {.short_name = 'J',
          .long_name = "output_file",
          .value = Option::kRequired,
          .value_name = "FILE",
          .text = "as --json=FILE, or as --csv=FILE if FILE ends in .csv",
          .accepted = "a name that ends in .json or .csv",
          .accept = [&fields](std::string_view value) {
            if (value.ends_with(".csv")) {
              fields.csv = true;
              fields.csv_file = value;
              return true;
            }
            fields.json = true;
            fields.json_file = value;
            return value.ends_with(".json");
          }};
}

// An option without effect. Values other than 0 are noted in the header of the table.
Option notedOption(PerfOptions& fields, char short_name, const std::string& long_name, const char* why) {
  return numberOption(short_name, long_name, INT_MAX, std::string("no effect: ") + why,
                      [&fields, short_name, long_name, why](int value) {
                        if (value == 0) return;
                        fields.notes.push_back(std::string("option -") + short_name + "/--" + long_name +
                                               " has no effect: " + why);
                      });
}

// An option that accepts 0 only.
Option refusedOption(char short_name, std::string long_name, const char* why) {
  return {.short_name = short_name,
          .long_name = std::move(long_name),
          .value = Option::kRequired,
          .value_name = "0",
          .text = std::string("only 0: ") + why,
          .accepted = std::string("0: ") + why,
          .accept = [](std::string_view value) { return value == "0"; }};
}

}  // namespace

void addNcclTestsOptions(std::vector<Option>& options, PerfOptions& fields) {
  options.push_back(
      withAll(choiceOption<DataType>('d', "datatype", kDataTypes, &fields.type,
                                     "type of the elements (default: float): int8, uint8, int32,\n"
                                     "uint32, int64, uint64, half, float, double, bfloat16"),
              &fields.all_types));
  options.push_back(
      withAll(choiceOption<ReduceOp>('o', "op", kReduceOps, &fields.op,
                                     "reduction of all_reduce, reduce_scatter and reduce (default:\n"
                                     "sum): sum, prod, max, min, avg"),
              &fields.all_ops));
  options.push_back(rootOption(fields));
  options.push_back(intOption('m', "agg_iters", &fields.aggregated, 1, kMostOperations,
                              "operations of an iteration, one after the other (default: 1)"));
  options.push_back(numberOption('N', "run_cycles", INT_MAX,
                                 "measure all sizes N times, and print each time (default: 1; 0: until\n"
                                 "Ctrl-C)",
                                 [&fields](int value) { fields.cycles = value; }));
  options.push_back(numberOption('z', "blocking", 3,
                                 "1: all ranks wait for each other after each iteration; 3: likewise,\n"
                                 "and the wait is not timed (default: 0: they do not wait; 2: as 0)",
                                 [&fields](int value) {
                                   fields.barriers = value == 1   ? Barriers::kTimed
                                                     : value == 3 ? Barriers::kNotTimed
                                                                  : Barriers::kNone;
                                 }));
  options.push_back(numberOption('a', "average", 3,
                                 "which time stands for all ranks: 0 that of rank 0, 1 average, 2\n"
                                 "minimum, 3 maximum (default: 3; nccl-tests: 1)",
                                 [&fields](int value) { fields.average = static_cast<AverageOver>(value); }));
  options.push_back(numberOption('I', "per_iter_timing", 1,
                                 "1: columns for single iterations: i_min, i_max, i_p99, i_cv% (standard\n"
                                 "deviation in % of the mean). --json and --csv always have them",
                                 [&fields](int value) { fields.iteration_columns = value != 0; }));
  options.push_back(numberOption('K', "per_iter_skip", kMostOperations,
                                 "leave out the first N iterations in the figures of single iterations",
                                 [&fields](int value) { fields.skipped_samples = value; }));
  options.push_back(numberOption('S', "report_timestamps", 1, "1: add the time of day to each row",
                                 [&fields](int value) { fields.timestamps = value != 0; }));
  options.push_back(outputFileOption(fields));
}

void addGpuOptions(std::vector<Option>& options, PerfOptions& fields) {
  options.push_back(intOption('g', "ngpus", &fields.gpus, 1, kMaxRanks,
                              "as --ranks: perf has a rank where nccl-tests has a GPU. With -t, T * G\n"
                              "ranks; 1: as without the option"));
  options.push_back(intOption('t', "nthreads", &fields.threads, 1, kMaxRanks, "see -g"));
  options.push_back(refusedOption('G', "cudagraph", "without a GPU there is no CUDA graph"));
  options.push_back(
      refusedOption('C', "report_cputime", "without a GPU nothing is launched, and there is one time"));
  options.push_back(notedOption(fields, 'p', "parallel_init", "each rank is a process of its own"));
  options.push_back(
      notedOption(fields, 'R', "local_register", "data pass through registered slots, as in NCCL"));
  options.push_back(notedOption(fields, 'u', "unalign", "the slots that the NIC reads are aligned"));
  options.push_back(notedOption(fields, 'M', "memory", "no memory of a GPU is used"));
  options.push_back(notedOption(fields, 'y', "stream_null", "there are no streams"));
  options.push_back(notedOption(fields, 'x', "cta_policy", "no kernel runs on a GPU"));
  options.push_back(notedOption(fields, 'V', "device_cta_count", "no kernel runs on a GPU"));
}

}  // namespace railwise::cli
