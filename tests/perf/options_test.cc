#include "perf/options.h"

#include "base/text/words.h"
#include "tests/ok.h"

namespace railwise::cli {
namespace {

std::string errorOf(const std::vector<const char*>& args) { return parsePerf(args).error(); }

PerfOptions optionsOf(const std::vector<const char*>& args) {
  const auto command = parsePerf(args);
  EXPECT_TRUE(command.ok()) << command.error();
  return command.ok() ? command->options : PerfOptions();
}

TEST(PerfOptions, HasTheDocumentedDefaults) {
  const auto options = optionsOf({"all_reduce"});
  EXPECT_EQ(options.min_bytes, 32u << 20);
  EXPECT_EQ(options.max_bytes, 32u << 20);
  EXPECT_EQ(options.iters, 20);
  EXPECT_EQ(options.warmup_iters, 1);
  EXPECT_EQ(options.ranks, 0);
  EXPECT_EQ(options.channels, 2);
  EXPECT_EQ(options.check, 1);
  EXPECT_EQ(options.plugin.device, "auto");
}

TEST(PerfOptions, TakesEverySpelling) {
  const auto options =
      optionsOf({"-b8", "-e", "1M", "--stepfactor=2", "alltoall", "--iters", "3", "-c", "0", "-d", "int64",
                 "--json=out.json", "--api", "v10", "--device", "software:rails=2", "-v"});
  EXPECT_EQ(options.collective, Collective::kAllToAll);
  EXPECT_EQ(options.min_bytes, 8u);
  EXPECT_EQ(options.max_bytes, 1u << 20);
  EXPECT_EQ(options.step_factor, 2);
  EXPECT_EQ(options.iters, 3);
  EXPECT_EQ(options.check, 0);
  EXPECT_EQ(options.type, DataType::kInt64);
  EXPECT_TRUE(options.json);
  EXPECT_EQ(options.json_file, "out.json");
  EXPECT_EQ(options.plugin.api, 10);
  EXPECT_EQ(options.plugin.device, "software:rails=2");
  EXPECT_TRUE(options.plugin.verbose);
}

TEST(PerfOptions, NamesOptionValueAndAcceptedForm) {
  EXPECT_EQ(errorOf({"all_reduce", "-n", "many"}),
            "perf: option -n/--iters: 'many' is not a number from 1 to 1000000000");
  EXPECT_EQ(errorOf({"all_reduce", "--minbytes=12Q"}),
            "perf: option -b/--minbytes: '12Q' is not a size such as 8, 64K, 32M or 1G (at most 1024G)");
  EXPECT_EQ(
      errorOf({"all_reduce", "-d", "fp16"}),
      "perf: option -d/--datatype: 'fp16' is not one of int8, uint8, int32, uint32, int64, uint64, half, "
      "float, double, bfloat16, all");
  EXPECT_EQ(errorOf({"all_reduce", "--ranks", "1025"}),
            "perf: option --ranks: '1025' is not a number from 1 to 1024");
  EXPECT_EQ(errorOf({"all_reduce", "--ranks", "0"}),
            "perf: option --ranks: '0' is not a number from 1 to 1024");
  EXPECT_EQ(errorOf({"all_reduce", "--api", "v5"}),
            "perf: option --api: 'v5' is not an API version from v6 to v16");
  EXPECT_EQ(errorOf({"all_reduce", "--device", "gpu"}),
            "perf: option --device: 'gpu' is not auto, verbs, software or software:CONFIG");
  EXPECT_EQ(errorOf({"all_reduce", "-n"}),
            "perf: option -n/--iters needs a value: a number from 1 to 1000000000");
  EXPECT_EQ(errorOf({"all_reduce", "--verbose=1"}), "perf: option -v/--verbose takes no value");
}

TEST(PerfOptions, SuggestsWhatIsNear) {
  EXPECT_EQ(errorOf({"all_reduce", "--itres", "3"}), "perf: unknown option --itres, did you mean --iters?");
  EXPECT_EQ(errorOf({"all_reduce", "--zzzzzz"}), "perf: unknown option --zzzzzz");
  EXPECT_EQ(errorOf({"all_reduce", "--min"}),
            "perf: unknown option --min, did you mean --minbytes or --min-busbw?");
  EXPECT_EQ(errorOf({"all_reduce", "-minbytes", "8"}),
            "perf: unknown option -minbytes, long options have two dashes: --minbytes");
  EXPECT_EQ(errorOf({"all_reduce", "-minbytes=8"}),
            "perf: unknown option -minbytes, long options have two dashes: --minbytes");
  EXPECT_EQ(errorOf({"all_reduce", "-Z"}), "perf: unknown option -Z");
  EXPECT_EQ(errorOf({"allreduce"}), "perf: unknown collective 'allreduce', did you mean 'all_reduce'?");
  EXPECT_EQ(
      errorOf({}),
      "perf: which collective? One of all_reduce, all_gather, reduce_scatter, broadcast, reduce, sendrecv, "
      "alltoall, gather, scatter, hypercube, put, put_signal, get, signal_pingpong, put_all_gather, "
      "put_alltoall");
  EXPECT_EQ(errorOf({"sendrecv", "alltoall"}), "perf: unexpected argument 'alltoall'");
}

TEST(PerfOptions, RefusesWhatContradictsItself) {
  EXPECT_EQ(errorOf({"sendrecv", "-b", "2K", "-e", "1K"}),
            "perf: option -b/--minbytes: 2048 bytes are more than -e/--maxbytes, 1024");
  EXPECT_NE(errorOf({"sendrecv", "-b", "1", "-e", "2", "-i", "0"}), "");
  EXPECT_NE(errorOf({"sendrecv", "-b", "0", "-e", "2", "-f", "2"}), "");
  EXPECT_NE(errorOf({"sendrecv", "--ranks", "2", "--address", "host:1"}), "");
}

TEST(PerfOptions, HelpListsEveryOptionAndWins) {
  const auto command = parsePerf(std::vector<const char*>{"--help", "--nonsense"});
  ASSERT_TRUE(command.ok()) << command.error();
  EXPECT_TRUE(command->help);
  for (const char* option :
       {"--minbytes",  "--maxbytes", "--stepfactor", "--stepbytes", "--iters",    "--warmup_iters",
        "--duration",  "--check",    "--datatype",   "--op",        "--ranks",    "--address",
        "--channels",  "--timeout",  "--json",       "--plugin",    "--api",      "--device",
        "--verbose",   "--help",     "--fuse",       "--timeline",  "--csv",      "--against",
        "--min-busbw", "--rows",     "--root",       "--ngpus",     "--blocking", "--average"})
    EXPECT_HAS(perfHelp().text(), option);
}

TEST(PerfNcclTests, ItsCommandLinesAreRead) {
  const std::vector<std::string> words = wordsOf(
      "all_reduce_perf -b 8 -e 128M -f 2 -g 8 -n 50 -w 10 -c 1 -o avg -d bfloat16 -p 0 -z 0 -G 0 -C 0 -a 1 "
      "-t 1 -m 2 -D 0 -R 0 -N 3");
  std::vector<const char*> args;
  for (const std::string& word : words) args.push_back(word.c_str());
  const auto options = optionsOf(args);
  EXPECT_EQ(options.ranks, 8);
  EXPECT_EQ(options.op, ReduceOp::kAvg);
  EXPECT_EQ(options.type, DataType::kBFloat16);
  EXPECT_EQ(options.average, AverageOver::kMean);
  EXPECT_EQ(options.aggregated, 2);
  EXPECT_EQ(options.cycles, 3);
  EXPECT_TRUE(options.notes.empty());
}

TEST(PerfNcclTests, OneGpuIsAsWithoutTheOption) {
  EXPECT_EQ(optionsOf({"sendrecv", "-g", "1", "-t", "1"}).ranks, 0);
  EXPECT_EQ(optionsOf({"sendrecv", "-g", "2", "-t", "3"}).ranks, 6);
  EXPECT_EQ(errorOf({"sendrecv", "-g", "2", "--ranks", "3"}),
            "perf: options -g and -t: they ask for 2 ranks, --ranks for 3");
}

TEST(PerfNcclTests, WhatHasNoEffectIsNotedAndWhatCannotBeIsRefused) {
  const auto options = optionsOf({"all_gather", "-p", "1", "-R", "2"});
  ASSERT_EQ(options.notes.size(), 2u);
  EXPECT_EQ(options.notes[0], "option -p/--parallel_init has no effect: each rank is a process of its own");
  EXPECT_EQ(errorOf({"all_gather", "-G", "1"}),
            "perf: option -G/--cudagraph: '1' is not 0: without a GPU there is no CUDA graph");
}

TEST(PerfNcclTests, AllMeansEveryTypeOperationAndRoot) {
  const auto options = optionsOf({"reduce", "-d", "all", "-o", "all", "-r", "all"});
  EXPECT_EQ(variantsOf(options, 3).size(), 10u * 5 * 3);
  EXPECT_EQ(variantsOf(optionsOf({"broadcast", "-o", "all", "-r", "-1"}), 4).size(), 4u);
  const auto plain = variantsOf(optionsOf({"sendrecv", "-o", "max", "-r", "3"}), 4);
  ASSERT_EQ(plain.size(), 1u);
  EXPECT_EQ(plain[0], (Variant{DataType::kFloat, ReduceOp::kSum, -1}));
}

TEST(PerfNcclTests, RanksMustFitTheCollective) {
  EXPECT_EQ(errorOf({"hypercube", "--ranks", "6"}),
            "perf: hypercube needs a power of two of ranks: 2, 4, 8 and so on");
  EXPECT_EQ(errorOf({"signal_pingpong", "--ranks", "3"}),
            "perf: signal_pingpong needs pairs: an even number of ranks");
  EXPECT_EQ(errorOf({"gather", "--ranks", "4", "-r", "4"}),
            "perf: option -r/--root: there is no rank 4 among 4 ranks");
}

TEST(PerfOneSidedOptions, AreThoseOfTheRmaTables) {
  EXPECT_EQ(optionsOf({"put", "--api", "v16"}).plugin.api, 16);
  EXPECT_EQ(errorOf({"put", "--fuse"}),
            "perf: option --fuse: the RMA tables, which put needs, have no virtual devices");
}

TEST(PerfResultOptions, AreRead) {
  const auto options =
      optionsOf({"sendrecv", "--csv=x.csv", "--json", "--min-busbw", "12.5", "--against", "a"});
  EXPECT_EQ(options.csv_file, "x.csv");
  EXPECT_DOUBLE_EQ(options.min_busbw.value_or(0), 12.5);
  EXPECT_TRUE(optionsOf({"sendrecv", "-J", "x.csv"}).csv);
  EXPECT_TRUE(optionsOf({"sendrecv", "-J", "x.json"}).json);
}

TEST(PerfResultOptions, RefuseWhatContradictsItself) {
  EXPECT_NE(errorOf({"sendrecv", "--csv", "--json"}), "");
  EXPECT_NE(errorOf({"sendrecv", "--rows"}), "");
  EXPECT_NE(errorOf({"sendrecv", "-n", "5", "-K", "5"}), "");
  EXPECT_NE(errorOf({"sendrecv", "--min-busbw", "0"}), "");
  EXPECT_NE(errorOf({"sendrecv", "-J", "x.txt"}), "");
}

TEST(PerfSizes, GoByFactorOrByBytes) {
  EXPECT_EQ(perfSizes(optionsOf({"sendrecv", "-b", "8", "-e", "64", "-f", "2"})),
            (std::vector<uint64_t>{8, 16, 32, 64}));
  EXPECT_EQ(perfSizes(optionsOf({"sendrecv", "-b", "8", "-e", "20", "-i", "5"})),
            (std::vector<uint64_t>{8, 13, 18}));
  EXPECT_EQ(perfSizes(optionsOf({"sendrecv", "-b", "0", "-e", "0"})), (std::vector<uint64_t>{0}));
}

TEST(AgreementText, TellsDifferentJobsApart) {
  const auto text = agreementText(optionsOf({"sendrecv", "-b", "8", "-e", "64"}));
  EXPECT_EQ(text, agreementText(optionsOf({"sendrecv", "-b8", "--maxbytes=64", "--verbose"})));
  EXPECT_NE(text, agreementText(optionsOf({"alltoall", "-b", "8", "-e", "64"})));
  EXPECT_NE(text, agreementText(optionsOf({"sendrecv", "-b", "8", "-e", "64", "--channels", "3"})));
  EXPECT_NE(text, agreementText(optionsOf({"sendrecv", "-b", "8", "-e", "64", "--duration", "3"})));
}

}  // namespace
}  // namespace railwise::cli
