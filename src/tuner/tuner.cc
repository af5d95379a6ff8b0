#include "tuner/tuner.h"

#include <sys/stat.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "base/log.h"

namespace railwise::tuner {
namespace {

// A table of overrides has some hundred rows. A larger file is another file by mistake.
constexpr std::size_t kMaxFileBytes = std::size_t{1} << 20;
// NCCL's MAXCHANNELS (src/include/device.h of 2.30.7). NCCL itself takes fewer if the communicator has fewer.
constexpr int kMaxChannels = 64;
constexpr int kMaxCount = std::numeric_limits<int>::max();

constexpr std::array kCollectives = {"broadcast", "reduce", "allgather", "reducescatter", "allreduce"};
constexpr std::array kAlgorithms = {"tree",      "ring", "collnet_direct", "collnet_chain", "nvls",
                                    "nvls_tree", "pat"};
constexpr std::array kProtocols = {"ll", "ll128", "simple"};

constexpr std::array kColumns = {"collective_type", "min_bytes", "max_bytes", "algorithm",  "protocol",
                                 "channels",        "nNodes",    "nRanks",    "numPipeOps", "regBuff"};
constexpr std::size_t kRequiredColumns = 8;

struct Field {
  std::string_view text;
  std::size_t column = 0;  // of the first character, from 1
};

Field trimmed(std::string_view line, std::size_t from, std::size_t to) {
  constexpr std::string_view kBlanks = " \t\r";
  while (from < to && kBlanks.find(line[from]) != std::string_view::npos) ++from;
  while (to > from && kBlanks.find(line[to - 1]) != std::string_view::npos) --to;
  return {line.substr(from, to - from), from + 1};
}

std::vector<Field> fieldsOf(std::string_view line) {
  std::vector<Field> fields;
  for (std::size_t from = 0;;) {
    const std::size_t comma = line.find(',', from);
    fields.push_back(trimmed(line, from, comma == std::string_view::npos ? line.size() : comma));
    if (comma == std::string_view::npos) return fields;
    from = comma + 1;
  }
}

bool isHeader(const std::vector<Field>& fields) {
  if (fields.size() < kRequiredColumns || fields.size() > kColumns.size()) return false;
  for (std::size_t i = 0; i < fields.size(); ++i)
    if (fields[i].text != kColumns[i]) return false;
  return true;
}

// Text of the file for a message: short, and without bytes that a terminal would act on.
std::string quoted(std::string_view text) {
  constexpr std::size_t kMost = 40;
  std::string shown = "'";
  for (const char c : text.substr(0, kMost)) shown += c >= ' ' && c < 127 ? c : '?';
  return shown + (text.size() > kMost ? "...'" : "'");
}

std::string wordList(std::span<const char* const> words) {
  std::string list;
  for (std::size_t i = 0; i < words.size(); ++i)
    list += (i == 0 ? "" : i + 1 == words.size() ? " or " : ", ") + std::string(words[i]);
  return list;
}

template <typename Number>
std::optional<Number> parsed(std::string_view text) {
  Number number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

// Reads the rows of one file. Each mistake is kept; the rows that follow are read, so that one look at the
// log shows all mistakes.
class Reader {
 public:
  explicit Reader(std::string path) { file_.path = std::move(path); }

  void readLine(std::string_view line) {
    ++line_;
    const Field whole = trimmed(line, 0, line.size());
    if (whole.text.empty() || whole.text.front() == '#') return;
    const std::vector<Field> fields = fieldsOf(line);
    const bool first = std::exchange(first_row_, false);
    if (first && isHeader(fields)) return;
    const std::size_t mistakes = file_.mistakes.size();
    const Override row = readRow(fields);
    if (file_.mistakes.size() == mistakes) file_.overrides.push_back(row);
  }

  OverrideFile finish() {
    if (!file_.mistakes.empty()) file_.overrides.clear();
    return std::move(file_);
  }

 private:
  void mistake(std::size_t column, const std::string& text) {
    file_.mistakes.push_back(file_.path + ":" + std::to_string(line_) + ":" + std::to_string(column) + ": " +
                             text);
  }

  template <typename Value, std::size_t N>
  Value word(const Field& field, const char* what, const std::array<const char*, N>& words) {
    for (std::size_t i = 0; i < N; ++i)
      if (field.text == words[i]) return static_cast<Value>(i);
    mistake(field.column, quoted(field.text) + " is no " + what + ": write " + wordList(words));
    return {};
  }

  std::size_t bytes(const Field& field, const char* what) {
    const auto number = parsed<std::size_t>(field.text);
    if (!number)
      mistake(field.column,
              quoted(field.text) + " is no number for " + what + ": write the bytes with digits only, 65536");
    return number.value_or(0);
  }

  // A number from `min` to `max`, or -1.
  int number(const Field& field, const char* what, int min, int max, const char* meaning_of_any) {
    const auto value = parsed<int>(field.text);
    if (value && (*value == kAny || (*value >= min && *value <= max))) return *value;
    const std::string range = max == kMaxCount ? std::to_string(min) + " or more"
                                               : std::to_string(min) + " to " + std::to_string(max);
    mistake(field.column, quoted(field.text) + " is no value of " + what + ": write " + range +
                              ", or -1 for " + meaning_of_any);
    return kAny;
  }
  // A column that may be missing, or empty as spreadsheets leave it.
  int optionalNumber(const std::vector<Field>& fields, std::size_t index, int min, int max) {
    if (index >= fields.size() || fields[index].text.empty()) return kAny;
    return number(fields[index], kColumns[index], min, max, "any");
  }

  Override readRow(const std::vector<Field>& fields) {
    Override row;
    row.line = line_;
    if (fields.size() < kRequiredColumns || fields.size() > kColumns.size()) {
      mistake(fields.size() < kRequiredColumns ? fields.back().column : fields[kColumns.size()].column,
              "a row has 8 to 10 columns, this one has " + std::to_string(fields.size()) +
                  ": write "
                  "collective_type,min_bytes,max_bytes,algorithm,protocol,channels,nNodes,nRanks,numPipeOps,"
                  "regBuff");
      return row;
    }
    row.collective = word<Collective>(fields[0], "collective", kCollectives);
    row.min_bytes = bytes(fields[1], kColumns[1]);
    row.max_bytes = bytes(fields[2], kColumns[2]);
    if (row.max_bytes < row.min_bytes)
      mistake(fields[2].column, "max_bytes is less than min_bytes, so no size fits: exchange them");
    row.algorithm = word<Algorithm>(fields[3], "algorithm", kAlgorithms);
    row.protocol = word<Protocol>(fields[4], "protocol", kProtocols);
    row.channels = number(fields[5], kColumns[5], 1, kMaxChannels, "NCCL's own number");
    // scheduleCollTasksToPlan in src/enqueue.cc of NCCL 2.30.7 limits the channels of every algorithm but
    // these two.
    if (row.channels != kAny &&
        (row.algorithm == Algorithm::kCollNetDirect || row.algorithm == Algorithm::kCollNetChain))
      mistake(fields[5].column,
              "NCCL does not check the channels of collnet algorithms, and could crash: write -1");
    row.nodes = number(fields[6], kColumns[6], 1, kMaxCount, "any");
    row.ranks = number(fields[7], kColumns[7], 1, kMaxCount, "any");
    row.pipe_ops = optionalNumber(fields, 8, 1, kMaxCount);
    row.registered = optionalNumber(fields, 9, 0, 1);
    return row;
  }

  OverrideFile file_;
  int line_ = 0;
  bool first_row_ = true;
};

template <typename Value, std::size_t N>
const char* wordOf(Value value, const std::array<const char*, N>& words) {
  const auto index = static_cast<std::size_t>(value);
  return index < N ? words[index] : "?";
}

OverrideFile unreadable(const std::string& path, const std::string& why) {
  return {path, {}, {path + ": " + why}};
}

constexpr unsigned long kSubsystems = log::kInit | log::kTuning;

bool fits(int wanted, std::size_t value) {
  return wanted == kAny || static_cast<std::size_t>(wanted) == value;
}

bool fits(const Override& its, const Question& question) {
  const bool registered =
      its.registered == kAny || (question.registered && *question.registered == (its.registered == 1));
  return its.collective == question.collective && question.bytes >= its.min_bytes &&
         question.bytes <= its.max_bytes && (its.pipe_ops == kAny || its.pipe_ops == question.pipe_ops) &&
         registered;
}

}  // namespace

const char* nameOf(Collective collective) { return wordOf(collective, kCollectives); }
const char* nameOf(Algorithm algorithm) { return wordOf(algorithm, kAlgorithms); }
const char* nameOf(Protocol protocol) { return wordOf(protocol, kProtocols); }

// ncclTopoTuneModel in src/graph/tuning.cc of NCCL 2.30.7, and in 2.21.5, which has no PAT.
bool ncclHas(Collective collective, Algorithm algorithm, Protocol protocol) {
  const bool lines = algorithm == Algorithm::kTree || algorithm == Algorithm::kRing;
  if (!lines && protocol != Protocol::kSimple) return false;
  switch (collective) {
    case Collective::kBroadcast:
    case Collective::kReduce:
      return algorithm == Algorithm::kRing;
    case Collective::kAllGather:
    case Collective::kReduceScatter:
      return algorithm == Algorithm::kRing || algorithm == Algorithm::kCollNetDirect ||
             algorithm == Algorithm::kNvls || algorithm == Algorithm::kPat;
    case Collective::kAllReduce:
      return algorithm != Algorithm::kPat;
  }
  return false;
}

OverrideFile parseOverrides(std::string_view text, std::string path) {
  Reader reader(std::move(path));
  constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";  // spreadsheets write it
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    reader.readLine(text.substr(0, end));
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
  }
  return reader.finish();
}

OverrideFile readOverrides(const std::string& path) {
  // To open a pipe would wait for a writer, and only one rank would read the rows.
  struct stat its {};
  if (stat(path.c_str(), &its) == 0 && !S_ISREG(its.st_mode))
    return unreadable(path, "is not a regular file");
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "re"), std::fclose);
  if (file == nullptr) return unreadable(path, std::string("cannot be opened: ") + std::strerror(errno));
  std::string text(kMaxFileBytes + 1, '\0');
  errno = 0;
  text.resize(std::fread(text.data(), 1, text.size(), file.get()));
  if (std::ferror(file.get()) != 0)
    return unreadable(path, std::string("cannot be read: ") + std::strerror(errno));
  if (text.size() > kMaxFileBytes)
    return unreadable(path, "is larger than 1 MiB: is it a table of overrides?");
  return parseOverrides(text, path);
}

Tuner::Tuner(const OverrideFile& file, std::size_t ranks, std::size_t nodes) : file_(file), nodes_(nodes) {
  std::string lines;
  for (const Override& row : file.overrides) {
    // A communicator of one rank has no algorithm.
    if (ranks < 2 || !fits(row.nodes, nodes) || !fits(row.ranks, ranks)) continue;
    rows_.push_back({&row});
    constexpr std::size_t kMostText = 200;
    if (lines.size() < kMostText) lines += (lines.empty() ? "line " : ", ") + std::to_string(row.line);
    else if (!lines.ends_with("...")) lines += ", ...";
  }
  RAILWISE_INFO(kSubsystems,
                "tuner: %zu of the %zu overrides in %s fit this communicator (%zu ranks, %zu nodes)%s%s",
                rows_.size(), file.overrides.size(), file.path.c_str(), ranks, nodes,
                lines.empty() ? "" : ": ", lines.c_str());
}

const Override* Tuner::choose(const Question& question, const Offers& offers) {
  for (Row& row : rows_) {
    if (!fits(*row.override, question)) continue;
    if (offers.has(row.override->algorithm, row.override->protocol)) {
      if (!row.said_applied) sayApplied(row, question, offers);
      return row.override;
    }
    if (!row.said_missing) sayMissing(row, question);
  }
  return nullptr;
}

void Tuner::sayApplied(Row& row, const Question& question, const Offers& offers) const {
  row.said_applied = true;
  const Override& its = *row.override;
  char channels[40] = "";
  if (its.channels != kAny)
    std::snprintf(channels, sizeof channels, " on %d channel%s", its.channels, its.channels == 1 ? "" : "s");
  char instead[120] = "";
  if (const auto own = offers.own())
    std::snprintf(instead, sizeof instead, "; NCCL would take %s/%s, %.1f us by its estimate",
                  nameOf(own->algorithm), nameOf(own->protocol), static_cast<double>(own->time_us));
  RAILWISE_INFO(kSubsystems, "tuner: %s of %zu bytes takes %s/%s%s (%s:%d)%s", nameOf(question.collective),
                question.bytes, nameOf(its.algorithm), nameOf(its.protocol), channels, file_.path.c_str(),
                its.line, instead);
}

void Tuner::sayMissing(Row& row, const Question& question) const {
  row.said_missing = true;
  const Override& its = *row.override;
  RAILWISE_INFO(
      kSubsystems, "tuner: %s:%d does not apply to %s of %zu bytes: NCCL %s %s/%s %s", file_.path.c_str(),
      its.line, nameOf(question.collective), question.bytes,
      ncclHas(its.collective, its.algorithm, its.protocol) ? "does not offer" : "has no",
      nameOf(its.algorithm), nameOf(its.protocol),
      ncclHas(its.collective, its.algorithm, its.protocol) ? "on this machine" : "for this collective");
}

}  // namespace railwise::tuner
