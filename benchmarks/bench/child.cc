#include "benchmarks/bench/child.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "benchmarks/bench/load/worker.h"
#include "cli/options/message.h"
#include "cli/plugin/plugin_loader.h"
#include "softdev/control/control.h"
#include "softdev/engine/attachment.h"

namespace railwise::cli {
namespace {

constexpr const char* kOtherLanguage = "its worker speaks another language: ";

std::string uniqueFabric() {
  static int count = 0;
  return "bench" + std::to_string(getpid()) + "-" + std::to_string(count++);
}

}  // namespace

BenchChild::BenchChild(BenchTask task, BenchPlace place)
    : task_(std::move(task)), place_(std::move(place)), fabric_(uniqueFabric()) {}

BenchChild::~BenchChild() { end(); }

void BenchChild::end() {
  for (std::FILE** const stream : {&orders_, &answers_}) {
    if (*stream != nullptr) std::fclose(*stream);
    *stream = nullptr;
  }
  if (process_) process_->wait();
  process_.reset();
}

const char* BenchChild::sysfs() const {
  if (place_.sysfs) return "on";
  if (task_.plugin.raw || namesOwnPlugin(task_.plugin.plugin)) return "off";
  return kSysfsForOtherPlugins;
}

std::vector<std::string> BenchChild::command() const {
  const std::string executable = executablePath();
  std::vector<std::string> words;
  if (!place_.real) {
    words.insert(words.end(), {executable, "device", "run", "--fabric", fabric_, "--sysfs", sysfs()});
    if (!place_.software.empty()) {
      words.insert(words.end(), {"--machine", place_.software});
    } else if (task_.rails > 1 || isOneSided(task_.shape.pattern)) {
      const int devices = task_.device + std::max(task_.rails, 2);
      words.insert(words.end(), {"--machine", "link=ib,count=" + std::to_string(devices)});
    }
    words.emplace_back("--");
  }
  words.insert(words.end(), place_.under.begin(), place_.under.end());
  words.insert(words.end(), {executable, "bench", kBenchWorker});
  const std::vector<std::string> task = wordsOf(task_);
  words.insert(words.end(), task.begin(), task.end());
  return words;
}

bool BenchChild::start() {
  int orders[2];
  int answers[2];
  if (pipe2(orders, O_CLOEXEC) != 0 || pipe2(answers, O_CLOEXEC) != 0) {
    error_ = std::string("no pipe: ") + std::strerror(errno);
    return false;
  }
  orders_ = fdopen(orders[1], "w");
  answers_ = fdopen(answers[0], "r");
  ProcessPlan plan;
  plan.words = command();
  plan.input = orders[0];
  plan.output = answers[1];
  const auto unless_set = [&](const char* name, const char* value) {
    if (std::getenv(name) == nullptr) plan.variables.emplace_back(name, value);
  };
  if (!place_.real) unless_set("NCCL_SOCKET_IFNAME", "lo");      // there may be no other interface
  if (!place_.real) unless_set("RAILWISE_FUSE_PLACELESS", "1");  // software devices need no /sys
  if (place_.queue_pairs > 0)
    plan.variables.emplace_back("NCCL_IB_QPS_PER_CONNECTION", std::to_string(place_.queue_pairs));
  auto started = Process::start(plan);
  close(orders[0]);
  close(answers[1]);
  if (!started.ok()) {
    error_ = "cannot start a process: " + started.error();
    return false;
  }
  process_.emplace(std::move(*started));
  const auto ready = answer("ready ");
  if (!ready) return false;
  int at = 0;
  if (std::sscanf(ready->c_str(), "%d %n", &api_, &at) != 1) {
    error_ = kOtherLanguage + *ready;
    return false;
  }
  name_ = ready->substr(static_cast<std::size_t>(at));
  return true;
}

void BenchChild::order(const char* what, uint64_t messages) {
  std::fprintf(orders_, "%s %" PRIu64 "\n", what, messages);
  std::fflush(orders_);
}

// Reads the next line of the worker and returns the text after `beginning`. Null: see error_.
std::optional<std::string> BenchChild::answer(const char* beginning) {
  constexpr const char* kError = "error ";
  // Nothing is in the stream's buffer: the worker answers an order with one line.
  pollfd waiting = {fileno(answers_), POLLIN, 0};
  const Deadline deadline = Deadline::after(std::chrono::seconds(place_.timeout_s));
  while (poll(&waiting, 1, 1000) <= 0) {
    if (!deadline.passed()) continue;
    process_->kill(SIGKILL);
    error_ = "no answer for " + std::to_string(place_.timeout_s) +
             " s: a call of the plugin hangs, or a repeat takes longer (--timeout)";
    return std::nullopt;
  }
  char* line = nullptr;
  std::size_t room = 0;
  const ssize_t length = getline(&line, &room, answers_);
  std::string text = length > 0 ? std::string(line, static_cast<std::size_t>(length)) : std::string();
  std::free(line);
  if (!text.empty() && text.back() == '\n') text.pop_back();
  if (text.starts_with(beginning)) return text.substr(std::strlen(beginning));
  if (text.starts_with(kError)) {
    error_ = text.substr(std::strlen(kError));
  } else {
    error_ = endText();
  }
  return std::nullopt;
}

// Of a worker that has answered nothing more.
std::string BenchChild::endText() {
  const auto& end = process_->wait(Deadline::after(std::chrono::seconds(1)));
  const std::string how = !end              ? "closed its output"
                          : end->signalled  ? std::string("crashed (") + strsignal(end->code) + ")"
                          : end->code > 128 ? std::string("crashed (") + strsignal(end->code - 128) + ")"
                                            : "ended with status " + std::to_string(end->code);
  return "the process that had it " + how + (task_.verbose ? "" : "; --verbose shows the plugin's log");
}

std::optional<BenchRan> BenchChild::run(uint64_t messages) {
  order("run", messages);
  const auto ran = answer("ran ");
  if (!ran) return std::nullopt;
  BenchRan result;
  BenchRan::Latency way = {};
  const int numbers = std::sscanf(ran->c_str(), "%" SCNu64 " %" SCNu64 " %lf %lf %lf %lf", &result.cpu_ns,
                                  &result.wall_ns, &way.min_ns, &way.p50_ns, &way.p90_ns, &way.p99_ns);
  if (numbers == 6) result.latency = way;
  if (numbers == 6 || numbers == 2) return result;
  error_ = kOtherLanguage + *ran;
  return std::nullopt;
}

std::optional<std::string> BenchChild::count(uint64_t messages) {
  order("count", messages);
  return answer("counted ");
}

std::optional<BenchSetUp> BenchChild::connected() {
  const auto each = answer("connected ");
  if (!each) return std::nullopt;
  BenchSetUp result = {};
  if (std::sscanf(each->c_str(), "%lf %lf %lf %lf %lf", &result.cpu_ns, &result.wall_ns, &result.bytes,
                  &result.close_cpu_ns, &result.register_cpu_ns) == 5)
    return result;
  error_ = kOtherLanguage + *each;
  return std::nullopt;
}

std::optional<BenchChild::Counts> BenchChild::counters() const {
  if (place_.real) return std::nullopt;
  const auto fabric = softdev::joinFabric(fabric_);
  if (!fabric.ok()) return std::nullopt;
  std::optional<Counts> sum;
  for (const softdev::CountsRow& row : softdev::listCounts(**fabric, softdev::CountsBy::kProcess)) {
    if (!sum) sum.emplace();
    for (const softdev::NamedCount& count : softdev::kNamedCounts)
      sum->all.*count.field += row.counts.*count.field;
  }
  const auto devices = softdev::listCounts(**fabric, softdev::CountsBy::kDevice);
  const auto index = static_cast<std::size_t>(task_.device);
  if (sum && index < devices.size()) sum->first = devices[index].counts;
  softdev::detachFabric(*fabric);
  return sum;
}

}  // namespace railwise::cli
