// Random faults on links: for seed after seed a machine of one to three rails at each end, cells over it
// (fake_user.h), and ports, devices and drivers that fail meanwhile, sometimes several at once or while a
// recovery is under way. A schedule is good when each cell was counted exactly once and no promise of the
// floor was broken; or, where no path was left for RAILWISE_FAILOVER_TIMEOUT, when both ends say so and no
// cell was counted twice.
//
//   link_campaign --first 1 --count 2000 [--jobs 4]    seeds 1 to 2000, and a tally
//   link_campaign --first 77 --count 1 --verbose       one seed with its schedule and the log of both ends
//
// A seed draws the same schedule with every compiler. Each schedule runs in a child process. Exit status: 0
// all good, 1 some schedule was not.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <optional>
#include <string>
#include <utility>

#include "net/paths/link_pair.h"
#include "net/random_faults.h"
#include "net/seed_processes.h"
#include "softdev/faults/faults.h"

namespace railwise::net {
namespace {

struct Schedule {
  std::string link, connect;
  PairPlaces places;
  CellShape shape;
  int queue_pairs = 1;
  uint64_t cells = 0;
  bool sparing = true;   // each end keeps a device, or soon has it again
  bool another = false;  // another link follows on the same devices
  std::vector<test::FaultStep> steps;
  int late_ms = 0;  // for so long writes may come late
};

class Drawer {
 public:
  explicit Drawer(uint64_t seed) : draw_(seed) {}

  Schedule all() {
    drawMachine();
    drawCells();
    its_.sparing = faults_.sparing = draw_.chance(92);
    its_.another = draw_.chance(20);
    faults_.drawAll();
    its_.steps = std::move(faults_.steps);
    its_.late_ms = faults_.late_ms;
    return its_;
  }

 private:
  void drawMachine() {
    constexpr const char* kLinks[] = {"ib", "ib", "roce", "roce", "iwarp"};
    its_.link = faults_.link = draw_.oneOf(kLinks);
    const bool iwarp = its_.link == "iwarp";
    faults_.opcodes = iwarp ? test::FaultDrawer::Opcodes{"any", "write", "send", "read"}
                            : test::FaultDrawer::Opcodes{"any", "write", "write_imm"};
    its_.connect = !iwarp && draw_.chance(20) ? "cm" : "auto";
    PairPlaces& places = its_.places;
    places.source_rails = draw_.between(1, 3);
    places.target_rails = draw_.chance(70) ? places.source_rails : draw_.between(1, 3);
    places.source_standbys = draw_.between(0, 2);
    places.target_standbys = draw_.between(0, 2);
    places.apart = draw_.chance(70);
    its_.queue_pairs = draw_.between(1, 3);
    faults_.ends = {{0, places.source_rails, places.sourceDevices()},
                    {places.targetAt(), places.target_rails, places.targetDevices()}};
    faults_.drawSpared();
  }
  void drawCells() {
    constexpr std::size_t kBytes[] = {24, 64, 64, 256, 1024, 4096};
    its_.shape.bytes = draw_.oneOf(kBytes);
    its_.shape.reported = draw_.chance(60);
    its_.shape.proves = draw_.chance(50);
    its_.shape.cover_every = static_cast<uint32_t>(draw_.between(1, 8));
    its_.shape.credit_every = static_cast<uint64_t>(draw_.between(1, 16));
    its_.cells = faults_.units = static_cast<uint64_t>(draw_.between(200, 1500));
  }

  test::Draw draw_;
  test::FaultDrawer faults_{draw_};
  Schedule its_;
};

std::string textOf(const Schedule& schedule) {
  const PairPlaces& places = schedule.places;
  std::string text =
      schedule.link + ", connect " + schedule.connect + ", source " + std::to_string(places.source_rails) +
      "+" + std::to_string(places.source_standbys) + ", target " + std::to_string(places.target_rails) + "+" +
      std::to_string(places.target_standbys) + (places.apart ? " apart" : " on the same devices") + ", " +
      std::to_string(schedule.queue_pairs) + " queue pairs a lane, " + std::to_string(schedule.cells) +
      " cells of " + std::to_string(schedule.shape.bytes) +
      (schedule.shape.reported ? " reported" : " silent") + (schedule.shape.proves ? " proven" : "") +
      ", cover " + std::to_string(schedule.shape.cover_every) + ", credit " +
      std::to_string(schedule.shape.credit_every) +
      (schedule.sparing ? "" : ", a path may be lost for good") +
      (schedule.another ? ", and another link" : "") + "\n";
  return text + textOf(schedule.steps, "cell");
}

struct Report : test::SeedReport {
  uint32_t faults = 0;
  uint64_t cells = 0;
  uint64_t repeated = 0;
  uint64_t epochs = 0;

  void add(const Report& other) {
    faults += other.faults;
    cells += other.cells;
    repeated += other.repeated;
    epochs += other.epochs;
  }
};

class Runner {
  static constexpr std::chrono::milliseconds kLate{100};
  static constexpr int kOpens = 20;
  static constexpr useconds_t kBetweenOpensUs = 10'000;

 public:
  Runner(Schedule schedule, bool verbose) : its_(std::move(schedule)), verbose_(verbose) {}

  Report run() {
    setenv("RAILWISE_CONNECT", its_.connect.c_str(), 1);
    setenv("RAILWISE_FAILOVER_TIMEOUT", its_.sparing ? "30" : "1", 1);
    LinkPair pair(its_.places, its_.shape, "link=" + its_.link, its_.queue_pairs);
    pair_ = &pair;
    softdev::Fabric* const fabric = *softdev::joinFabric("test" + std::to_string(getpid()));
    test::FaultPlayer player(*fabric, std::move(its_.steps), verbose_);
    player_ = &player;
    std::string problem;
    try {
      problem = both();
    } catch (const std::exception& error) {
      problem = error.what();
      if (pair.problem().empty() && pair.goal() > 0)
        problem += "; " + std::to_string(pair.target().counted()) + " of " + std::to_string(pair.goal()) +
                   " cells are counted, epochs " + std::to_string(pair.source().link().epoch()) + " and " +
                   std::to_string(pair.target().link().epoch());
    }
    if (!pair.problem().empty()) problem = pair.problem();
    if (!problem.empty()) report_.outcome = Report::kFailed;
    report_.setProblem(problem);
    report_.cells = pair.counted();
    report_.faults = static_cast<uint32_t>(softdev::readFaultLog(*fabric).size());
    pair.close();
    if (report_.outcome != Report::kFailed && !pair.problem().empty()) {
      report_.outcome = Report::kFailed;
      report_.setProblem("at the end: " + pair.problem());
    }
    softdev::detachFabric(fabric);
    return report_;
  }

 private:
  std::string both() {
    player_->begin();
    if (const std::string problem = one(its_.cells); !problem.empty() || !its_.another) return problem;
    if (report_.outcome == Report::kCompleted) {
      pair_->closeWithLateWrites(kLate);
      its_.late_ms = std::max(its_.late_ms, static_cast<int>(kLate.count()));
    } else {
      pair_->close();
    }
    return one(64);
  }
  // One link, and its cells. "": good.
  std::string one(uint64_t cells) {
    Status opened = pair_->open();
    // A device may refuse the first queue pairs of another link: the rules of the first one go on.
    for (int tries = 1; !opened.ok() && tries < kOpens; ++tries) {
      usleep(kBetweenOpensUs);
      opened = pair_->open();
    }
    if (!opened.ok())
      return its_.sparing ? "it does not open: errno " + std::to_string(opened.sys_errno) : "";
    pair_->expect(cells);
    const uint64_t before = pair_->counted();
    const auto gone = [&] { return !link(0).failure.ok() && !link(1).failure.ok(); };
    bool failed = false;
    std::optional<Clock::time_point> quiet;
    for (test::Patience patience; !quiet || Clock::now() < *quiet; patience.again()) {
      player_->play(pair_->counted() - before);
      failed = !pair_->turn() || failed;
      if (!pair_->problem().empty()) return pair_->problem();
      if (failed && gone()) break;
      // Then late writes come, if any can.
      if (!quiet && pair_->done()) quiet = Clock::now() + std::chrono::milliseconds(its_.late_ms);
    }
    pair_->source().verify();
    pair_->target().verify();
    report_.epochs += link(0).epoch() - 1;
    report_.repeated += pair_->source().repeated();
    if (!failed) {
      if (report_.outcome == Report::kFailed) report_.outcome = Report::kCompleted;
      return pair_->problem();
    }
    report_.outcome = Report::kUnreachable;
    if (its_.sparing) return "the link failed though paths were left";
    const bool remote = link(0).failure.code == Code::kRemote && link(1).failure.code == Code::kRemote;
    return remote ? pair_->problem() : "the link failed with another error than kRemote";
  }
  const Link& link(int end) const { return end == 0 ? pair_->source().link() : pair_->target().link(); }

  Schedule its_;
  const bool verbose_;
  LinkPair* pair_ = nullptr;
  test::FaultPlayer* player_ = nullptr;
  Report report_;
};

constexpr unsigned kLimitS = 90;

int campaign(const test::SeedOptions& options) {
  const auto run = [&options](uint64_t seed) {
    Schedule schedule = Drawer(seed).all();
    if (options.verbose) std::fputs(textOf(schedule).c_str(), stderr);
    return Runner(std::move(schedule), options.verbose).run();
  };
  test::SeedProcesses<Report, decltype(run)> processes(options, kLimitS, run);
  processes.runAll();
  const Report& sum = processes.sum();
  std::printf("cells: %llu, of which %llu were sent again; faults: %u; epochs lost: %llu; longest: %.1f s\n",
              static_cast<unsigned long long>(sum.cells), static_cast<unsigned long long>(sum.repeated),
              sum.faults, static_cast<unsigned long long>(sum.epochs), processes.longestS());
  return processes.allGood() ? 0 : 1;
}

}  // namespace
}  // namespace railwise::net

int main(int argc, char** argv) {
  const auto options = railwise::test::seedOptions(argc, argv);
  return options ? railwise::net::campaign(*options) : 2;
}
