#include "doctor/log/reading/reader.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "base/text/words.h"

namespace railwise::doctor {
namespace {

constexpr std::size_t kLongestLine = 64UL << 10;
constexpr unsigned kChunk = 256U << 10;

// Cuts what comes in chunks into lines.
class Lines {
 public:
  explicit Lines(const std::function<void(std::string_view)>& take) : take_(take) {}

  void add(std::string_view chunk) {
    while (!chunk.empty()) {
      const std::size_t end = chunk.find('\n');
      const std::string_view part = chunk.substr(0, end);
      const bool whole = end != std::string_view::npos;
      if (whole && pending_.empty()) {
        take_(part.substr(0, kLongestLine));
      } else {
        pending_.append(part.substr(0, kLongestLine - std::min(kLongestLine, pending_.size())));
        if (whole) finish();
      }
      if (!whole) return;
      chunk.remove_prefix(end + 1);
    }
  }
  void finish() {
    if (!pending_.empty()) take_(pending_);
    pending_.clear();
  }

 private:
  const std::function<void(std::string_view)>& take_;
  std::string pending_;
};

struct CloseGzip {
  void operator()(gzFile_s* file) const { gzclose(file); }
};

// Limits of what is kept: a log can be broken, and every rank can warn a million times.
constexpr std::size_t kMostProcesses = 1UL << 17;
constexpr std::size_t kMostEvents = 1UL << 16;
constexpr std::size_t kMostTrace = 4;
constexpr std::size_t kShownLine = 400;

// Where a stray record is glued to the end of another line, the host's name has that line's last word before
// it.
constexpr std::size_t kLongestHost = 255;

// Two lines of the kernel that are alike and so far apart are two events.
constexpr double kLaterS = 600;

// Time and host, as syslog puts them before the kernel's words.
constexpr std::size_t kLongestPrefix = 320;

std::string shortened(std::string_view text) {
  if (text.size() <= kShownLine) return std::string(text);
  return std::string(text.substr(0, kShownLine)) + " ...";
}

// "transport/net.cc:1302 -> 6": the result that a function passes up; 7 is "in progress". -1: another line.
int passedResult(std::string_view text) {
  const std::size_t arrow = text.find(" -> ");
  if (arrow == std::string_view::npos || arrow > 80) return -1;
  const std::string_view place = text.substr(0, arrow);
  const std::size_t colon = place.rfind(':');
  if (colon == std::string_view::npos || place.find(' ') != std::string_view::npos) return -1;
  if (leadingNumber(place.substr(colon + 1)) < 0) return -1;
  return leadingNumber(text.substr(arrow + 4));
}

// "process rank 3 with PID 7" of mpirun, "srun: error: n2: task 5: Killed", "railwise: rank 2 (pid 7) was
// killed" of railwise perf. -1: none.
int namedRank(std::string_view text) {
  if (text.starts_with("srun: error")) return numberAfter(text, ": task ");
  constexpr std::string_view kPerf = "railwise: rank ";
  return numberAfter(text, text.starts_with(kPerf) ? kPerf : "process rank ");
}

// The process that a launcher or the kernel names: "(pid: 2001)", "python3[2001]: segfault", "NVRM: Xid
// (...): 79, pid=2001", and of mpirun "node02:2001" in "[node02:02001] Signal: ...". "": none.
std::string namedProcess(std::string_view text) {
  const std::string_view first = text.starts_with('[') ? firstWord(text.substr(1), "] ") : "";
  if (const std::size_t colon = first.rfind(':');
      colon != std::string_view::npos && text.find(" Signal: ") < 80)
    if (const int pid = leadingNumber(first.substr(colon + 1)); pid >= 0)
      return std::string(first.substr(0, colon + 1)) + std::to_string(pid);
  int pid = -1;
  for (const std::string_view key : {"(pid: ", "eceived by PID ", "Killed process "})
    if (pid < 0) pid = numberAfter(text, key);
  if (const std::size_t end = text.find("]: segfault at"); end != std::string_view::npos)
    pid = leadingNumber(text.substr(text.rfind('[', end) + 1));
  if (text.find("NVRM: Xid ") != std::string_view::npos) pid = numberAfter(text, ", pid=");
  return pid < 0 ? "" : std::to_string(pid);
}

// Does dmesg write this between brackets: " 912.500012", or "Sat Nov 28 12:04:07 2026"?
bool isKernelTime(std::string_view text) {
  constexpr std::string_view kNamed = "Sat Nov 28 12:04:07 2026";
  if (text.size() == kNamed.size()) return text[13] == ':' && text[16] == ':';
  return text.find('.') != std::string_view::npos &&
         text.find_first_not_of("0123456789. ") == std::string_view::npos;
}

// The host that a line of others names: "Nov 28 12:09:07 node07 kernel: ...", "node07: [912.5] ..." of dmesg
// by pdsh, "srun: error: node07: task 5: Killed". "": none.
std::string_view namedHost(std::string_view text) {
  constexpr std::string_view kSlurm = "srun: error: ";
  const std::string_view before = text.substr(0, text.find(" kernel: "));
  if (before.size() < std::min(text.size(), kLongestPrefix)) return before.substr(before.rfind(' ') + 1);
  const bool of_slurm = text.starts_with(kSlurm);
  if (of_slurm) text.remove_prefix(kSlurm.size());
  const std::string_view host = firstWord(text, ": ");
  const std::string_view rest = text.substr(host.size());
  const bool names = of_slurm ? rest.starts_with(": task ")
                              : rest.starts_with(": [") && isKernelTime(firstWord(rest.substr(3), "]"));
  return names ? host : std::string_view();
}

// "[rank3]:[I1124 10:11:12.9 ProcessGroupNCCL.cpp:95] ...": PyTorch reports no error.
bool isInformation(std::string_view text) {
  constexpr std::string_view kTool = "railwise: ";  // "railwise: rank 0: plugin: ...", of perf --verbose
  const std::string_view rest = text.starts_with(kTool) ? text.substr(kTool.size()) : "";
  if (rest.starts_with("plugin: ") || after(rest.substr(0, 24), ": plugin: ").data() != nullptr) return true;
  const std::size_t level = text.substr(0, 40).find("[I");
  return level != std::string_view::npos && leadingNumber(text.substr(level + 2)) >= 0;
}

constexpr std::string_view kOfRailwise = "NET/Railwise : ";

// Railwise's first line, "Railwise 0.1.0, libibverbs: mlx5_0/RoCE": an INFO in every release.
bool isStartOfRailwise(std::string_view text) {
  constexpr std::string_view kName = "Railwise ";
  if (!text.starts_with(kOfRailwise) || !text.substr(kOfRailwise.size()).starts_with(kName)) return false;
  return leadingNumber(text.substr(kOfRailwise.size() + kName.size())) >= 0;
}

// "NCCL_IB_HCA set to mlx5": Railwise writes settings as INFO, before its first line, and warns of none so.
bool isSettingOfRailwise(std::string_view text) {
  if (!text.starts_with(kOfRailwise)) return false;
  const std::string_view words = text.substr(kOfRailwise.size());
  return words.substr(firstWord(words).size()).starts_with(" set to ");
}

bool isNumber(std::string_view word) {
  return !word.empty() && word.find_first_not_of("0123456789") == std::string_view::npos;
}

// A row of nccl-tests: "8388608  2097152  float  sum  -1  132.4  63.4 ...": size, count, type, operation,
// root, time.
bool isResultRow(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(' ');
  if (begin == std::string_view::npos || text[begin] < '0' || text[begin] > '9') return false;
  const auto words = wordsOf(text);
  constexpr std::size_t kColumns = 9;
  return words.size() >= kColumns && isNumber(words[0]) && isNumber(words[1]) &&
         leadingNumber(words[2]) < 0 && (words[4] == "-1" || isNumber(words[4])) &&
         leadingNumber(words[5]) >= 0;
}

// The link of a NIC whose state a line of the kernel tells: file, host and name. "": another line.
std::string linkOf(const Event& event) {
  const std::string& text = event.line.value;
  const std::size_t end = std::min(text.find(": Link "), text.find(": Port: "));
  if (event.check != "port-event" || end == std::string::npos) return "";
  const std::string_view before = std::string_view(text).substr(0, end);
  return std::to_string(event.line.place.file) + ":" + event.host + ":" +
         std::string(before.substr(before.rfind(' ') + 1));
}

// Equal for events that are one.
std::string keyOf(const Event& event) {
  return std::to_string(event.process) + " " + std::to_string(event.rank) + " " + event.check + " " +
         event.what +
         (event.process >= 0 ? "" : event.host + ":" + namedProcess(event.line.value) + linkOf(event));
}

void readVersion(Fact& version, std::string_view text, Place place) {
  const std::string_view number = after(text, "CCL version ");
  if (number.data() == nullptr) return;
  std::string_view value = firstWord(number);
  if (value == ":") value = firstWord(number.substr(std::min<std::size_t>(2, number.size())));  // RCCL
  if (!value.empty() && value[0] >= '0' && value[0] <= '9') setFact(version, value, place);
}

}  // namespace

void setFact(Fact& fact, std::string_view value, Place place) {
  if (!fact.value.empty() || value.empty()) return;
  fact.value = shortened(value);
  fact.place = place;
}

void JobReader::beginFile(std::string name) {
  job_.files.push_back(
      {.name = std::move(name), .lines = 0, .nccl_lines = 0, .processes = {}, .problem = ""});
  tracebacks_ = {};
  reported_rank_ = -1;
}

void JobReader::fileProblem(std::string problem) {
  if (!job_.files.empty()) job_.files.back().problem = std::move(problem);
}

Place JobReader::here() const { return {static_cast<int>(job_.files.size()) - 1, job_.files.back().lines}; }

void JobReader::line(std::string_view text) {
  if (job_.files.empty()) beginFile("");
  ++job_.files.back().lines;
  const std::string_view plain = withoutRepetition(plainText(text, buffer_));
  if (plain.empty()) return;
  for (const LogLine& each : parseLine(plain)) {
    if (each.kind == LineKind::kOther) otherRecord(each);
    else record(each);
  }
}

// Ray ends a line that stands for those of other workers with " [repeated 7x across cluster]" and advice.
std::string_view JobReader::withoutRepetition(std::string_view plain) {
  constexpr std::string_view kKey = " [repeated ";
  const std::size_t at = plain.rfind(kKey);
  if (at == std::string_view::npos) return plain;
  const std::string_view times = firstWord(plain.substr(at + kKey.size()), " ");
  const std::string_view rest = plain.substr(at + kKey.size() + times.size());
  if (leadingNumber(times) < 0 || !times.ends_with('x') || !rest.starts_with(" across cluster]"))
    return plain;
  setFact(job_.deduplicated, plain.substr(at + 1, rest.data() + 16 - (plain.data() + at + 1)), here());
  return plain.substr(0, at);
}

int JobReader::processOf(const LogLine& line) {
  std::string key = std::string(line.host.substr(0, kLongestHost)) + ":" + std::string(line.pid);
  auto known = known_.find(key);
  if (known == known_.end()) {
    // "node7" of "0000node7", if node7 is known with this process.
    for (std::size_t i = 1; i < line.host.size() && i < kLongestHost; ++i) {
      const auto shorter = known_.find(std::string_view(key).substr(i));
      if (shorter != known_.end()) return shorter->second;
    }
    if (job_.processes.size() >= kMostProcesses) return -1;
    known = known_.emplace(std::move(key), static_cast<int>(job_.processes.size())).first;
    Process process;
    process.host = std::string(line.host.substr(0, kLongestHost));
    process.pid = std::string(line.pid);
    process.file = here().file;
    job_.processes.push_back(std::move(process));
  }
  return known->second;
}

void JobReader::record(const LogLine& line) {
  const int index = processOf(line);
  if (index < 0) return;
  Process& process = job_.processes[static_cast<std::size_t>(index)];
  LogFile& file = job_.files.back();
  if (process.lines++ == 0) process.first_time = line.time;
  ++file.nccl_lines;
  file.processes.insert(index);
  if (line.rank >= 0 && process.hinted_rank < 0) {
    process.hinted_rank = line.rank;
    by_hint_.emplace(line.rank, index);
  }
  const Place place = here();
  if (!line.time.empty()) process.last_time = line.time;
  // NCCL up to 2.26 says nothing of a plugin that has its newest table.
  const bool railwise = line.text.starts_with(kOfRailwise);
  if (railwise) setFact(process.plugin, "Railwise", place);
  const bool warns = line.kind == LineKind::kWarn;
  if (warns && process.shifted.value.empty() && isStartOfRailwise(line.text)) shiftLevels(index, line);
  file.shifted = file.shifted || !process.shifted.value.empty();
  const bool shifted = railwise && !process.shifted.value.empty();
  if (warns && !shifted && !isSettingOfRailwise(line.text)) {
    ++process.warnings;
    Explanation known = explainWarning(line.source, line.text);
    // Of memory of another GPU, which may be another host's.
    if (known.check == "cuda-failure" && !process.fabric.value.empty() &&
        hasWords(line.source, "transport/p2p.cc") && !hasWords(line.text, "out of memory"))
      known = explainWarning(line.source, "MNNVL: " + std::string(line.text));
    if (known.check == "network-not-found") setFact(process.missing_network, line.text, place);
    if (known.check == "no-rdma-device") setFact(process.no_rdma, line.text, place);
    Event event{known, index, line.rank, "", line.time};
    const std::string source = line.source.empty() ? "" : std::string(line.source) + " ";
    event.line = {shortened(source + std::string(line.text)), place};
    event.railwise = railwise;
    addEvent(std::move(event));
    return;
  }
  information(index, line, place);
}

// RCCL of ROCm 7.2 and newer (2.27.7 and newer) numbers its levels otherwise than NCCL. A Railwise that does
// not know it sends its INFO as RCCL's WARN, and its WARN as RCCL's VERSION, which has no words before it.
// The first line of Railwise shows it. What came before is no warning either.
void JobReader::shiftLevels(int index, const LogLine& line) {
  Process& process = job_.processes[static_cast<std::size_t>(index)];
  setFact(process.shifted, line.text, here());
  std::vector<std::size_t> shown;  // in the order of the lines
  const std::string key = std::to_string(index) + " ";
  for (auto known = event_of_.lower_bound(key); known != event_of_.end() && known->first.starts_with(key);) {
    const std::size_t at = known->second;
    if (job_.events[at].railwise) shown.push_back(at), known = event_of_.erase(known);
    else ++known;
  }
  std::ranges::sort(shown);
  emptied_ += shown.size();
  for (const std::size_t at : shown) {
    const Event event = std::exchange(job_.events[at], {});  // take() removes what has no check
    process.warnings -= 1 + event.repeated;
    const std::size_t words = event.line.value.find(kOfRailwise);
    if (words == std::string::npos) continue;  // cut off, behind the name of a long source
    LogLine earlier;
    earlier.text = std::string_view(event.line.value).substr(words);
    information(index, earlier, event.line.place);
  }
}

void JobReader::information(int index, const LogLine& line, Place place) {
  Process& process = job_.processes[static_cast<std::size_t>(index)];
  readVersion(process.version, line.text, place);
  if (readOneSidedLine(process, line.text, place) || readPluginLine(process, line.text, place) ||
      readNicLine(process, line.text, place) || readCommunicatorLine(process, line, place))
    return;
  const int result = passedResult(line.text);
  if (!resultName(result).empty() && process.error_trace.size() < kMostTrace)
    process.error_trace.push_back({shortened(line.text), place});
}

// The process that wrote a line which is not NCCL's, by the rank that the line names, or as the only one of
// its file. -1: not known.
int JobReader::writerOf(int rank) const {
  const auto hinted = by_hint_.find(rank);
  if (hinted != by_hint_.end()) return hinted->second;
  const std::set<int>& processes = job_.files.back().processes;
  return rank < 0 && processes.size() == 1 ? *processes.begin() : -1;
}

// NCCL writes the name of a host up to its first dot.
bool JobReader::runsOn(int process, std::string_view host) const {
  return process >= 0 && job_.processes[static_cast<std::size_t>(process)].host == firstWord(host, ".");
}

void JobReader::otherRecord(const LogLine& line) {
  // A training that prints its steps is not silent.
  const int writer = line.time.empty() ? -1 : writerOf(line.rank);
  if (writer >= 0) job_.processes[static_cast<std::size_t>(writer)].last_time = line.time;
  if (line.text.empty() || isInformation(line.text)) return;
  // torchrun's report of a rank: "rank      : 3 (local_rank: 1)", and "exitcode  : -9 (pid: 2001)" below it.
  if (line.text.starts_with("rank ") && line.text.find(" (local_rank: ") != std::string_view::npos)
    reported_rank_ = numberAfter(line.text, ": ");
  // NCCL prints its version without words before it.
  if (const int its = writerOf(line.rank); its >= 0)
    readVersion(job_.processes[static_cast<std::size_t>(its)].version, line.text, here());
  readVersion(job_.version, line.text, here());
  if (isResultRow(line.text)) job_.files.back().last_result = here().line;
  std::optional<Explanation> known = explainOther(line.text);
  const LogFile& file = job_.files.back();
  // A warning of Railwise has no words before it in the log of such a process.
  if (!known && line.text.starts_with(kOfRailwise) && file.shifted) known = explainWarning("", line.text);
  // The line that follows PyTorch's "Last error:" of a rank is NCCL's last warning without its prefix.
  const bool is_last_error = last_errors_.erase(line.rank) > 0;
  if (line.text.ends_with("Last error:")) last_errors_.insert(line.rank);
  if (!known && is_last_error) {
    known = explainWarning("", line.text);
    if (known->check == "unknown-warning") return;
  }
  const std::string_view exception = tracebacks_.exceptionIn(line);
  if (!known && !exception.empty()) known = explainException(exception);
  if (!known) return;
  int rank = line.rank >= 0 ? line.rank : namedRank(line.text);
  if (line.text.starts_with("exitcode ") || line.text.starts_with("traceback ") ||
      (rank < 0 && !exception.empty()))
    rank = reported_rank_;
  const std::string_view host = namedHost(line.text);
  const int process = writerOf(rank);
  // Of others: nameProcesses() finds a process that the line names, when all are known.
  const bool is_of_others =
      rank < 0 && (!namedProcess(line.text).empty() || (!host.empty() && !runsOn(process, host)));
  Event event{*known, is_of_others ? -1 : process, rank, std::string(host), line.time};
  event.line = {shortened(line.text), here()};
  addEvent(std::move(event));
}

// Which links of NICs came up again, as the kernel's lines say: "mlx5_core 0000:5d:00.0 ens1: Link down", and
// since 6.13 "mlx5_core 0000:5d:00.0 mlx5_2: Port: 1 Link DOWN".
void JobReader::noteLinkUp(const Event& event) {
  const std::string link = linkOf(event);
  const auto down = links_down_.find(link);
  if (link.empty() || event.kind != EventKind::kHarmless || down == links_down_.end()) return;
  Event& earlier = job_.events[down->second];
  earlier.link_up = true;
  earlier.link_up_time = event.time;
  event_of_.erase(keyOf(earlier));  // the next time that it goes down is another event
  links_down_.erase(down);
}

// Events whose process only its number names, which one process of the job has.
void JobReader::nameProcesses() {
  std::map<std::string, int> by_pid;                        // -2: several have it
  const auto runsAnything = [&](const std::string& host) {  // "node7:"
    const auto its = known_.lower_bound(host);
    return !host.empty() && its != known_.end() && its->first.starts_with(host);
  };
  for (const auto& [name, index] : known_) {
    const auto [known, alone] = by_pid.emplace(name.substr(name.rfind(':') + 1), index);
    if (!alone) known->second = -2;
  }
  for (Event& event : job_.events) {
    if (event.process >= 0) continue;
    const std::string name = namedProcess(event.line.value);
    const std::string host = event.host.empty() ? "" : std::string(firstWord(event.host, ".")) + ":";
    const auto whole = known_.find(host + name);
    const auto pid = by_pid.find(name);
    if (whole != known_.end()) event.process = whole->second;
    else if (!runsAnything(host) && pid != by_pid.end() && pid->second >= 0) event.process = pid->second;
  }
}

void JobReader::addEvent(Event event) {
  noteLinkUp(event);
  std::string key = keyOf(event);
  const auto known = event_of_.find(key);
  if (known != event_of_.end()) {
    Event& first = job_.events[known->second];
    // The kernel's log is older than the job: what comes again much later is another event.
    const std::optional<double> passed = secondsBetween(first.time, event.time);
    if ((event.process >= 0 && event.host.empty()) || !passed || std::abs(*passed) < kLaterS) {
      ++first.repeated;
      return;
    }
    event_of_.erase(known);
  }
  if (job_.events.size() - emptied_ >= kMostEvents) {
    ++job_.lost_events;
    return;
  }
  if (const std::string link = linkOf(event); !link.empty() && event.kind != EventKind::kHarmless)
    links_down_[link] = job_.events.size();
  event_of_.emplace(std::move(key), job_.events.size());
  job_.events.push_back(std::move(event));
}

Job JobReader::take() {
  std::erase_if(job_.events, [](const Event& event) { return event.check.empty(); });
  nameProcesses();
  joinChains(job_);
  for (Process& process : job_.processes)
    if (!process.network.empty() && process.network != "IB" && process.network != "Socket")
      setFact(process.plugin, process.network, process.networks.at(process.network));
  return std::exchange(job_, {});
}

std::string readLines(const std::string& path, const std::function<void(std::string_view)>& take) {
  const int descriptor = path == "-" ? dup(STDIN_FILENO) : open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return std::strerror(errno);
  struct stat status = {};
  if (fstat(descriptor, &status) == 0 && S_ISDIR(status.st_mode)) {
    close(descriptor);
    return "it is a folder: name the files in it";
  }
  const std::unique_ptr<gzFile_s, CloseGzip> file(gzdopen(descriptor, "rb"));  // plain files too
  if (file == nullptr) {
    close(descriptor);
    return "no memory to read it";
  }
  gzbuffer(file.get(), kChunk);
  std::vector<char> buffer(kChunk);
  Lines lines(take);
  int got = 0;
  while ((got = gzread(file.get(), buffer.data(), kChunk)) > 0)
    lines.add({buffer.data(), static_cast<std::size_t>(got)});
  lines.finish();
  int error = Z_OK;
  const char* const text = gzerror(file.get(), &error);
  if (got >= 0 && error == Z_OK) return "";
  if (error == Z_ERRNO) return std::strerror(errno);
  if (error == Z_BUF_ERROR) return "the gzip file is cut off";
  return std::string("the gzip file is damaged: ") + text;
}

}  // namespace railwise::doctor
