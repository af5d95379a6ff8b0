// Random faults on one-sided traffic: for seed after seed two to five ranks of one to three rails that put to
// each other, read from each other and signal (rma_ranks.h), and ports, devices and drivers that fail
// meanwhile, sometimes several at once or while a recovery is under way. A schedule is good when each message
// came with the right bytes and each signal is exactly what was put, also a while after the end, when late
// writes have come; or, where no path was left for RAILWISE_FAILOVER_TIMEOUT, when all ranks say so.
//
//   rma_campaign --first 1 --count 2000 [--jobs 4]    seeds 1 to 2000, and a tally
//   rma_campaign --first 77 --count 1 --verbose       one seed with its schedule and the log of all ranks
//
// A seed draws the same schedule with every compiler. Each schedule runs in a child process. Exit status: 0
// all good, 1 some schedule was not.
#include <unistd.h>

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "net/random_faults.h"
#include "net/rma/rma_ranks.h"
#include "net/seed_processes.h"
#include "softdev/faults/faults.h"

namespace railwise::net {
namespace {

struct Schedule {
  std::string link, connect;
  RmaShape shape;
  uint64_t messages = 0;  // of each channel
  bool sparing = true;    // each rank keeps a device, or soon has it again
  std::vector<test::FaultStep> steps;
  int late_ms = 200;  // for so long writes may come late
};

class Drawer {
 public:
  explicit Drawer(uint64_t seed) : draw_(seed) {}

  Schedule all() {
    drawMachine();
    drawTraffic();
    its_.sparing = faults_.sparing = draw_.chance(92);
    faults_.drawAll();
    its_.steps = std::move(faults_.steps);
    its_.late_ms += faults_.late_ms;
    return its_;
  }

 private:
  // Less than what a schedule may copy in its time.
  static constexpr uint64_t kMostBytes = 48 << 20;

  void drawMachine() {
    constexpr const char* kLinks[] = {"ib", "ib", "roce", "roce", "iwarp"};
    its_.link = faults_.link = draw_.oneOf(kLinks);
    faults_.opcodes = {"any", "write", "send", "read"};
    its_.connect = its_.link != "iwarp" && draw_.chance(20) ? "cm" : "auto";
    RmaShape& shape = its_.shape;
    shape.ranks = draw_.chance(50) ? 2 : draw_.between(3, 5);
    shape.rails = draw_.between(1, 3);
    shape.standbys = draw_.between(0, 2);
    shape.together = draw_.chance(30);
    const int each = shape.rails + shape.standbys;
    for (int rank = 0; rank < shape.ranks; ++rank)
      faults_.ends.push_back({shape.together ? 0 : rank * each, shape.rails, each});
    faults_.all_ends = !shape.together;
    faults_.drawSpared();
  }
  void drawTraffic() {
    constexpr std::size_t kBytes[] = {16, 64, 256, 4096, 40 << 10, 100 << 10, 300 << 10, 600 << 10};
    RmaShape& shape = its_.shape;
    shape.bytes = draw_.oneOf(kBytes);
    if (shape.ranks > 3) shape.bytes = std::min<std::size_t>(shape.bytes, 100 << 10);
    const bool large = shape.bytes > 4096;
    shape.places = large ? 4 : 16;
    shape.contexts = large || draw_.chance(50) ? 1 : draw_.chance(5) ? 16 : draw_.between(2, 4);
    shape.gpu = draw_.chance(60) && its_.link != "iwarp";  // iWARP takes no memory of a GPU
    shape.never_reset = draw_.chance(60);
    shape.gets = draw_.chance(40);
    shape.own = draw_.chance(30);
    const auto channels = static_cast<uint64_t>(shape.ranks * shape.ranks * shape.contexts);
    const uint64_t most =
        std::clamp<uint64_t>(kMostBytes / (shape.bytes * channels), 8, 6000 / channels + 40);
    its_.messages = 8 + draw_.below(most);
    const int others = shape.ranks - (shape.own ? 0 : 1);
    faults_.units = its_.messages * static_cast<uint64_t>(shape.ranks * others * shape.contexts);
  }

  test::Draw draw_;
  test::FaultDrawer faults_{draw_};
  Schedule its_;
};

std::string textOf(const Schedule& schedule) {
  const RmaShape& shape = schedule.shape;
  return schedule.link + ", connect " + schedule.connect + ", " + std::to_string(shape.ranks) + " ranks of " +
         std::to_string(shape.rails) + "+" + std::to_string(shape.standbys) +
         (shape.together ? " on the same devices" : " apart") + ", " + std::to_string(schedule.messages) +
         " messages of " + std::to_string(shape.bytes) + " over " + std::to_string(shape.contexts) +
         " contexts" + (shape.gpu ? ", GPU" : ", host") + (shape.never_reset ? "" : ", may be reset") +
         (shape.gets ? ", gets" : "") + (shape.own ? ", own" : "") +
         (schedule.sparing ? "" : ", all paths are lost for good") + "\n" + textOf(schedule.steps, "message");
}

// The first warnings that tell of an end. Threads of devices log, too.
std::mutex warnings_mutex;
std::string warnings;

std::string allWarnings() {
  const std::lock_guard lock(warnings_mutex);
  return warnings;
}

[[gnu::format(printf, 5, 6)]] void keepWarnings(int level, unsigned long, const char*, int,
                                                const char* format, ...) {
  char line[1024];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(line, sizeof line, format, arguments);
  va_end(arguments);
  const std::string text = line;
  const bool ends = text.find("fails") != std::string::npos ||
                    text.find("no path to the peer is left") != std::string::npos ||
                    text.find("gave it up") != std::string::npos ||
                    text.find("cannot be put to") != std::string::npos;
  const std::lock_guard lock(warnings_mutex);
  if (level == log::kWarn && ends && warnings.size() < 700) warnings += text.substr(0, 300) + " | ";
}

// What came of a schedule; it goes through a pipe as it is.
struct Report : test::SeedReport {
  uint32_t faults = 0;
  uint32_t undecided = 0;
  uint64_t messages = 0;

  void add(const Report& other) {
    undecided += other.undecided;
    faults += other.faults;
    messages += other.messages;
  }
};

class Runner {
 public:
  Runner(Schedule schedule, bool verbose) : its_(std::move(schedule)), verbose_(verbose) {}

  Report run() {
    setenv("RAILWISE_CONNECT", its_.connect.c_str(), 1);
    setenv("RAILWISE_FAILOVER_TIMEOUT", its_.sparing ? "30" : "1", 1);
    setenv("RAILWISE_CONNECT_TIMEOUT", its_.sparing ? "30" : "5", 1);
    RmaRanks ranks(its_.shape, "link=" + its_.link);
    softdev::Fabric* const fabric = *softdev::joinFabric("test" + std::to_string(getpid()));
    test::FaultPlayer player(*fabric, std::move(its_.steps), verbose_);
    std::string problem;
    try {
      problem = traffic(ranks, player);
    } catch (const std::exception& error) {
      problem = error.what() + (";" + ranks.missing());
    }
    if (!ranks.problem().empty()) problem = ranks.problem();
    if (!problem.empty()) report_.outcome = Report::kFailed;
    report_.setProblem(problem);
    report_.messages = ranks.taken();
    report_.faults = static_cast<uint32_t>(softdev::readFaultLog(*fabric).size());
    softdev::detachFabric(fabric);
    return report_;
  }

 private:
  // "": good.
  std::string traffic(RmaRanks& ranks, test::FaultPlayer& player) {
    player.begin();
    ranks.expect(its_.messages);
    std::optional<Clock::time_point> quiet;
    for (test::Patience patience; !quiet || Clock::now() < *quiet; patience.again()) {
      player.play(ranks.taken());
      (void)ranks.turn();
      if (!ranks.problem().empty()) return ranks.problem();
      if (ranks.failed() && its_.sparing && !mayBeUndecided())
        return "a rank has failed though paths were left: " + allWarnings();
      // Then late writes come, if any can.
      if (!quiet && (ranks.allFailed() || ranks.done()))
        quiet = Clock::now() + std::chrono::milliseconds(its_.late_ms);
    }
    ranks.verify();
    report_.outcome = ranks.failed() ? Report::kUnreachable : Report::kCompleted;
    report_.undecided = ranks.failed() && mayBeUndecided() ? 1 : 0;
    if (ranks.failed() && allWarnings().empty()) return "a rank has failed without a line in the log";
    return ranks.problem();
  }
  // A NIC that fails may have added to a signal that may be reset: then nobody knows, and all ranks say so.
  bool mayBeUndecided() const {
    return its_.shape.gpu && !its_.shape.never_reset &&
           allWarnings().find("may have been added or not") != std::string::npos;
  }

  Schedule its_;
  const bool verbose_;
  Report report_;
};

constexpr unsigned kLimitS = 90;

int campaign(const test::SeedOptions& options) {
  const auto run = [&options](uint64_t seed) {
    Schedule schedule = Drawer(seed).all();
    if (options.verbose) std::fputs(textOf(schedule).c_str(), stderr);
    else log::setSink(keepWarnings);
    return Runner(std::move(schedule), options.verbose).run();
  };
  test::SeedProcesses<Report, decltype(run)> processes(options, kLimitS, run);
  processes.runAll();
  const Report& sum = processes.sum();
  std::printf("messages: %llu; faults: %u; undecided signals: %u; longest: %.1f s\n",
              static_cast<unsigned long long>(sum.messages), sum.faults, sum.undecided, processes.longestS());
  return processes.allGood() ? 0 : 1;
}

}  // namespace
}  // namespace railwise::net

int main(int argc, char** argv) {
  const auto options = railwise::test::seedOptions(argc, argv);
  return options ? railwise::net::campaign(*options) : 2;
}
