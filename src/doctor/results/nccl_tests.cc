#include "doctor/results/nccl_tests.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <span>
#include <utility>

#include "base/text/words.h"
#include "doctor/log/reading/line.h"

namespace railwise::doctor {
namespace {

// Limits of what is kept and looked at: a log can be broken.
constexpr std::size_t kMostRuns = 256;
constexpr std::size_t kMostRows = 1024;
constexpr std::size_t kMostHosts = 1UL << 17;
constexpr std::size_t kLongestRow = 1024;

struct DataType {
  std::string_view name;
  uint64_t bytes;
};
// As nccl-tests prints them, old releases too.
constexpr std::array kTypes = {
    DataType{"int8", 1},   DataType{"uint8", 1},  DataType{"char", 1},   DataType{"int32", 4},
    DataType{"int", 4},    DataType{"uint32", 4}, DataType{"int64", 8},  DataType{"uint64", 8},
    DataType{"half", 2},   DataType{"float", 4},  DataType{"double", 8}, DataType{"bfloat16", 2},
    DataType{"f8e4m3", 1}, DataType{"f8e5m2", 1},
};
constexpr std::array<std::string_view, 6> kOperations = {"sum", "prod", "max", "min", "avg", "mulsum"};
constexpr std::string_view kNoOperation = "none";

constexpr std::array<std::string_view, 10> kPrograms = {
    "all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce",
    "alltoall",   "alltoallv",  "sendrecv",       "gather",    "scatter"};

// A finite number from 0.
std::optional<double> measureOf(std::string_view word) {
  const auto number = numberIn<double>(word);
  return number && std::isfinite(*number) && *number >= 0 ? number : std::nullopt;
}

uint64_t typeBytes(std::string_view name) {
  const auto type = std::ranges::find(kTypes, name, &DataType::name);
  return type == kTypes.end() ? 0 : type->bytes;
}

bool isDigits(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789,") == std::string_view::npos;
}

// Launchers put a mark before every piece that a program has written, also within a line: "[1,0]<stdout>:",
// "[0]", "[rank3]:". They become blanks.
void removeMarks(std::string& text) {
  for (std::size_t at = text.find('['); at != std::string::npos; at = text.find('[', at + 1)) {
    const std::size_t end = text.find(']', at);
    if (end == std::string::npos) return;
    std::string_view inside(text.data() + at + 1, end - at - 1);
    for (const std::string_view name : {"rank", "default"})
      if (inside.starts_with(name)) inside.remove_prefix(name.size());
    if (!isDigits(inside)) continue;
    std::size_t after = end + 1;
    for (const std::string_view stream : {"<stdout>", "<stderr>", ":"})
      if (std::string_view(text).substr(after).starts_with(stream)) after += stream.size();
    std::fill(text.begin() + static_cast<std::ptrdiff_t>(at),
              text.begin() + static_cast<std::ptrdiff_t>(after), ' ');
  }
}

// "/opt/nccl-tests/build/all_reduce_perf_mpi" is all_reduce.
std::string_view programOf(std::string_view word) {
  const std::size_t slash = word.rfind('/');
  if (slash != std::string_view::npos) word.remove_prefix(slash + 1);
  for (const std::string_view program : kPrograms) {
    if (!word.starts_with(program)) continue;
    const std::string_view rest = word.substr(program.size());
    if (rest == "_perf" || rest == "_perf_mpi") return program;
  }
  return {};
}

// "22809" is 2.28.9.
std::string releaseOf(std::string_view code) {
  const auto number = numberIn<int>(code);
  if (!number || *number < 20900 || *number > 99999) return "";
  return std::to_string(*number / 10000) + "." + std::to_string(*number / 100 % 100) + "." +
         std::to_string(*number % 100);
}

// Half of a row: time in microseconds, GB/s of the algorithm and of the bus.
struct Half {
  double time = 0;
  double algorithm = 0;
  double bus = 0;
};
std::optional<Half> halfOf(std::span<const std::string_view> words) {
  const auto time = measureOf(words[0]), algorithm = measureOf(words[1]), bus = measureOf(words[2]);
  if (!time || !algorithm || !bus) return std::nullopt;
  return Half{*time, *algorithm, *bus};
}
// Bandwidths are printed with two decimals, times with three digits or more.
bool agrees(const Half& half, uint64_t bytes) {
  if (half.time <= 0) return false;
  const double algorithm = static_cast<double>(bytes) / (1000 * half.time);
  return std::abs(algorithm - half.algorithm) <= 0.01 + 0.01 * algorithm &&
         half.bus <= 2 * half.algorithm + 0.02;
}

// The words of a row behind its type: [operation] [root], then both halves, each with 4 words, or 8 with the
// report of single iterations; then perhaps date and time.
struct RowTail {
  bool reduces = false;
  std::optional<int> root;
  std::span<const std::string_view> out_of_place, in_place;
};
std::optional<RowTail> tailOf(std::span<const std::string_view> words) {
  RowTail tail;
  if (words.empty()) return std::nullopt;
  tail.reduces = std::ranges::find(kOperations, words[0]) != kOperations.end();
  if (tail.reduces || words[0] == kNoOperation) words = words.subspan(1);
  for (const std::size_t half : {std::size_t{4}, std::size_t{8}}) {
    for (const std::size_t stamp : {std::size_t{0}, std::size_t{2}}) {
      const std::size_t plain = 2 * half + stamp;
      if (words.size() != plain && words.size() != plain + 1) continue;
      if (stamp > 0 && words.back().find(':') == std::string_view::npos) continue;
      if (words.size() == plain + 1) {
        tail.root = numberIn<int>(words[0]);
        if (!tail.root || *tail.root < -1) return std::nullopt;
        words = words.subspan(1);
      }
      tail.out_of_place = words.subspan(0, half);
      tail.in_place = words.subspan(half, half);
      return tail;
    }
  }
  return std::nullopt;
}

// Elements that are wrong. Old releases, without a root in the row, print the largest error instead.
uint64_t wrongOf(const RowTail& tail) {
  if (!tail.root) return 0;
  constexpr double kMost = 1e15;
  return static_cast<uint64_t>(std::min(measureOf(tail.out_of_place[3]).value_or(0), kMost)) +
         static_cast<uint64_t>(std::min(measureOf(tail.in_place[3]).value_or(0), kMost));
}

std::optional<ResultRow> rowOf(std::span<const std::string_view> words, std::size_t type) {
  const auto bytes = numberIn<uint64_t>(words[type - 2]), count = numberIn<uint64_t>(words[type - 1]);
  const auto tail = tailOf(words.subspan(type + 1));
  if (!bytes || !count || !tail || *bytes == 0 || *bytes > uint64_t{1} << 50) return std::nullopt;
  const auto out = halfOf(tail->out_of_place), in = halfOf(tail->in_place);
  if (!out || !in || !agrees(*out, *bytes) || !agrees(*in, *bytes)) return std::nullopt;
  ResultRow row;
  row.bytes = *bytes;
  row.out_of_place = out->bus;
  row.in_place = in->bus;
  row.wrong = wrongOf(*tail);
  row.ratio = out->algorithm >= 1 ? out->bus / out->algorithm : 0;
  row.whole_count = *count <= *bytes && *count * typeBytes(words[type]) == *bytes;
  row.reduces = tail->reduces;
  row.root = tail->root.value_or(-1);
  return row;
}

// The collective, where the columns can be those of one alone. For other collectives than all_reduce the bus
// bandwidth is at most that of the algorithm.
std::string inferredFrom(const TestRun& run) {
  for (const ResultRow& row : run.rows) {
    if (row.root >= 0) return row.reduces ? "reduce" : "broadcast";
    if (row.ratio > 1.02 && row.reduces) return "all_reduce";
    if (row.reduces && !row.whole_count && run.ranks > 1) return "reduce_scatter";
  }
  return "";
}

}  // namespace

uint64_t TestRun::wrong() const {
  uint64_t sum = 0;
  for (const ResultRow& row : rows) sum += row.wrong;
  return std::max(sum, out_of_bounds);
}

const ResultRow* TestRun::best() const {
  const auto best = std::ranges::max_element(
      rows, [](const ResultRow& a, const ResultRow& b) { return a.best() < b.best(); });
  return best == rows.end() ? nullptr : &*best;
}

void NcclTestsReader::beginFile(std::string name) {
  file_ = std::move(name);
  line_ = 0;
  named_.clear();
  nccl_.clear();
  open_ = foreign_ = false;
}

void NcclTestsReader::beginRun() {
  open_ = true;
  foreign_ = false;
  if (!runs_.empty() && runs_.back().rows.empty()) runs_.pop_back();  // it has ended before its first row
  TestRun run;
  run.file = file_;
  run.collective = std::exchange(named_, {});
  run.nccl = nccl_;
  if (runs_.size() < kMostRuns) runs_.push_back(std::move(run));
  else open_ = false;
}

void NcclTestsReader::line(std::string_view text) {
  ++line_;
  if (text.size() > kLongestRow || text.find(" NCCL ") != std::string_view::npos) return;
  std::string plain(plainText(text, buffer_));
  removeMarks(plain);
  const Words words = wordsIn(plain);
  if (words.size() < 3 || readHeader(words) || foreign_ || readRank(words) || readVerdict(words)) return;
  readRow(words);
}

bool NcclTestsReader::readHeader(const Words& words) {
  for (std::size_t i = 0; i < words.size(); ++i) {
    constexpr std::string_view kLibrary = "nccl-library=";
    const std::string_view next = i + 1 < words.size() ? words[i + 1] : std::string_view();
    if (words[i].starts_with(kLibrary)) nccl_ = releaseOf(words[i].substr(kLibrary.size()));
    if (words[i] == "nThread" && i + 2 < words.size() && words[i + 2] == "nGpus") return beginRun(), true;
    if (words[i] == "concluded:") {
      if (open_ && runs_.back().collective.empty()) runs_.back().collective = programOf(next);
      return open_ = false, named_.clear(), true;
    }
    if (words[i] == "railwise" && next.size() > 0 && std::ranges::find(words, "perf") != words.end())
      foreign_ = true;
    if (const std::string_view program = programOf(words[i]); !program.empty()) {
      named_ = program;
      if (words[i - std::min<std::size_t>(i, 1)] == "starting:") return open_ = false, true;
    }
  }
  return false;
}

// "#  Rank  0 Group  0 Pid  12345 on     node1 device  0 [0x07] NVIDIA A100-SXM4-40GB"
bool NcclTestsReader::readRank(const Words& words) {
  const auto rank = std::ranges::find(words, "Rank");
  const auto on = std::find(rank, words.end(), "on");
  if (rank == words.end() || words.end() - on < 4 || on[2] != "device" || !numberIn<int>(on[3])) return false;
  const auto number = numberIn<int>(rank[1]);
  if (!number) return false;
  // Without MPI each process prints a table of its own, whose only rank is 0.
  if (!open_ || !runs_.back().rows.empty() || *number == 0) {
    if (named_.empty() && open_ && runs_.back().rows.empty()) named_ = runs_.back().collective;
    beginRun();
  }
  if (!open_) return true;
  TestRun& run = runs_.back();
  // One process prints all lines, in order. Others are cut off or mixed, and do not tell how many ranks there
  // are.
  if (*number != run.ranks || run.ranks_on_host.size() >= kMostHosts) {
    run.ranks = 0;
    run.ranks_on_host.clear();
    return true;
  }
  ++run.ranks;
  ++run.ranks_on_host[std::string(on[1])];
  if (run.gpu.empty() && words.end() - on > 5)
    run.gpu = std::string(on[5].data(),
                          static_cast<std::size_t>(words.back().data() + words.back().size() - on[5].data()));
  return true;
}

// "# Out of bounds values : 12 FAILED". Rows of old releases do not tell how many elements are wrong.
bool NcclTestsReader::readVerdict(const Words& words) {
  constexpr std::array<std::string_view, 5> kBegin = {"Out", "of", "bounds", "values", ":"};
  const auto found = std::search(words.begin(), words.end(), kBegin.begin(), kBegin.end());
  if (found == words.end() || words.end() - found < 7) return false;
  const auto count = numberIn<uint64_t>(found[5]);
  if (count && found[6] == "FAILED" && open_ && !runs_.back().rows.empty())
    runs_.back().out_of_bounds = std::max<uint64_t>(*count, 1);
  return true;
}

void NcclTestsReader::readRow(const Words& words) {
  for (std::size_t i = 2; i < words.size(); ++i) {
    if (typeBytes(words[i]) == 0) continue;
    auto row = rowOf(words, i);
    if (!row) continue;
    if (!open_) beginRun();
    if (!open_ || runs_.back().rows.size() >= kMostRows) return;
    row->line = line_;
    runs_.back().rows.push_back(*row);
    return;
  }
}

std::vector<TestRun> NcclTestsReader::take() {
  std::vector<TestRun> runs = std::exchange(runs_, {});
  open_ = false;
  std::erase_if(runs, [](const TestRun& run) { return run.rows.empty(); });
  for (TestRun& run : runs)
    if (run.collective.empty()) run.collective = inferredFrom(run);
  return runs;
}

}  // namespace railwise::doctor
