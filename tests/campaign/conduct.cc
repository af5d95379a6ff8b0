#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/text/json.h"
#include "cli/options/message.h"
#include "cli/options/options.h"
#include "tests/campaign/conductor.h"
#include "tests/campaign/outcome.h"
#include "tests/campaign/run.h"
#include "tests/campaign/schedule.h"

namespace railwise::cli {
namespace {

constexpr int kTickMs = 1;
constexpr std::size_t kLongestLine = 64;  // length of the longest line that this command understands

void sayLine(const JsonWriter& json) {
  std::fputs(json.text().c_str(), stdout);
  std::fflush(stdout);
}

void saySign(const char* name) {
  JsonWriter json;
  sayLine(json.beginInlineObject().key(name).value(true).endInlineObject());
}

class Conduct {
 public:
  explicit Conduct(const FaultOptions& options)
      : options_(options),
        schedule_(drawSchedule(options)),
        conductor_(options.conduct, schedule_, talkingRanks(options)) {
    schedule_.machine.placed = options.fuse;
  }

  int run() {
    sayMachine();
    while (readInput()) {
      const bool attached = conductor_.attach();
      if (!traffic_at_ || ended_) continue;
      const auto since = Clock::now() - *traffic_at_;
      if (attached) conductor_.conduct(since);
      if (over_ || since <= std::chrono::milliseconds(schedule_.traffic_ms)) continue;
      over_ = true;
      saySign("over");
    }
    if (failed_) return kExitFailed;
    sayReport();
    return kExitOk;
  }

 private:
  // Waits for input, at most one tick. False: the input has ended or cannot be understood.
  bool readInput() {
    pollfd input{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
    if (poll(&input, 1, kTickMs) <= 0) return true;
    char bytes[kLongestLine];
    const ssize_t count = read(STDIN_FILENO, bytes, sizeof bytes);
    if (count < 0) return errno == EINTR || errno == EAGAIN;
    if (count == 0) return false;
    line_.append(bytes, static_cast<std::size_t>(count));
    for (std::size_t end = 0; (end = line_.find('\n')) != std::string::npos; line_.erase(0, end + 1)) {
      if (!obey(line_.substr(0, end))) return false;
    }
    return true;
  }

  bool obey(const std::string& word) {
    if (word == "traffic") {
      traffic_at_ = Clock::now();
      return true;
    }
    if (word == "end") {
      ended_ = true;
      conductor_.close();
      conductor_.disarm();
      saySign("quiet");
      return true;
    }
    say("--conduct: the input says '%s': traffic or end", word.c_str());
    failed_ = true;
    return false;
  }

  void sayMachine() const {
    JsonWriter json;
    json.beginInlineObject();
    json.key("device").value(machineText(schedule_, options_.conduct));
    json.key("hosts").beginRow();
    for (int rank = 0; rank < options_.ranks; ++rank) json.value(hostName(rank));
    json.endRow();
    json.key("rails").beginRow();
    for (const int rails : schedule_.machine.rails) json.value(rails);
    json.endRow();
    json.key("fuse").value(options_.fuse);
    json.key("environment").beginInlineObject();
    for (const auto& [name, value] : faultEnvironment(schedule_)) json.key(name).value(value);
    json.endInlineObject();
    json.key("traffic_ms").value(schedule_.traffic_ms);
    json.key("schedule").beginRow();
    for (const std::string& sentence : scheduleSentences(schedule_, options_)) json.value(sentence);
    json.endRow();
    json.endInlineObject();
    sayLine(json);
  }

  void sayReport() {
    conductor_.close();
    if (conductor_.attach()) conductor_.readLog();
    FaultsReport report;
    report.fired = conductor_.fired();
    report.steps = static_cast<int>(schedule_.steps.size());
    report.steps_done = conductor_.stepsDone();
    report.end.pairs = conductor_.pairs();
    JsonWriter json;
    json.beginInlineObject();
    addFaultFigures(json, report);
    json.key("unreachable").value(nothingWasLeft(report.end.pairs));
    json.key("left_behind").value(conductor_.othersLeft());
    json.endInlineObject();
    sayLine(json);
  }

  const FaultOptions& options_;
  Schedule schedule_;
  FaultConductor conductor_;
  std::string line_;
  std::optional<Clock::time_point> traffic_at_;
  bool over_ = false;
  bool ended_ = false;
  bool failed_ = false;
};

}  // namespace

int conductFaults(const FaultOptions& options) { return Conduct(options).run(); }

}  // namespace railwise::cli
