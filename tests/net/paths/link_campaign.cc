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
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "base/log.h"
#include "net/paths/link_pair.h"
#include "port_control.h"
#include "softdev/faults/faults.h"

namespace railwise::net {
namespace {

// Random choices that depend on the seed only: the engine's numbers are the same everywhere, those of the
// library's distributions are not.
class Draw {
 public:
  explicit Draw(uint64_t seed) : random_(seed) {}
  uint64_t below(uint64_t n) { return random_() % n; }
  int between(int low, int high) {
    return low + static_cast<int>(below(static_cast<uint64_t>(high - low + 1)));
  }
  bool chance(int percent) { return below(100) < static_cast<uint64_t>(percent); }
  template <typename T, std::size_t kCount>
  const T& oneOf(const T (&list)[kCount]) {
    return list[below(kCount)];
  }

 private:
  std::mt19937_64 random_;
};

// What happens at a moment of a schedule.
struct Step {
  uint64_t at_cells = 0;  // once so many cells are counted
  int after_ms = 0;       // and so long after that
  std::string port;       // changePort(port, text); "": addFault(text)
  std::string text;
  int heals = -1;  // takes the rule of this step away
  std::optional<Clock::time_point> due = {};
  bool done = false;
  uint32_t rule = 0;
};

struct Schedule {
  std::string link, connect;
  PairPlaces places;
  CellShape shape;
  int queue_pairs = 1;
  uint64_t cells = 0;
  bool sparing = true;   // each end keeps a device, or soon has it again
  bool another = false;  // another link follows on the same devices
  std::vector<Step> steps;
  int late_ms = 0;  // for so long writes may come late
};

class Drawer {
 public:
  explicit Drawer(uint64_t seed) : draw_(seed) {}

  Schedule all() {
    drawMachine();
    drawCells();
    its_.sparing = draw_.chance(92);
    its_.another = draw_.chance(20);
    if (draw_.chance(6)) drawDownAtBegin();
    for (int faults = draw_.between(1, 5); faults > 0; --faults) {
      // Sometimes at once with the previous one, or while its consequences last.
      if (draw_.chance(35)) after_ms_ += draw_.chance(40) ? 0 : draw_.between(1, 30);
      else drawMoment();
      drawFault();
    }
    if (draw_.chance(45)) drawRefusedStops();
    if (!its_.sparing) cutOff(false);
    return its_;
  }

 private:
  static constexpr const char* kStatuses[] = {"retry_exc_err",   "loc_qp_op_err",  "loc_prot_err",
                                              "wr_flush_err",    "rem_access_err", "rem_op_err",
                                              "rem_inv_req_err", "fatal_err",      "general_err"};
  static constexpr const char* kReceiveStatuses[] = {"loc_len_err", "loc_prot_err", "loc_qp_op_err",
                                                     "general_err"};
  static constexpr const char* kErrnos[] = {"EIO", "ENOMEM", "EINVAL", "ENODEV"};
  static constexpr const char* kRefusals[] = {"EAGAIN", "EBUSY", "EIO", "ENOMEM", "ETIMEDOUT"};
  static constexpr const char* kSetUpVerbs[] = {"create_qp", "modify_qp", "create_cq", "reg_mr"};
  static constexpr const char* kEvents[] = {"lid_change", "sm_change",  "port_active",  "qp_fatal",
                                            "cq_err",     "qp_req_err", "qp_access_err"};
  static constexpr const char* kOpcodes[] = {"any", "write", "write_imm"};
  static constexpr const char* kIwarpOpcodes[] = {"any", "write", "send", "read"};

  void drawMachine() {
    constexpr const char* kLinks[] = {"ib", "ib", "roce", "roce", "iwarp"};
    its_.link = draw_.oneOf(kLinks);
    iwarp_ = its_.link == "iwarp";
    its_.connect = !iwarp_ && draw_.chance(20) ? "cm" : "auto";
    PairPlaces& places = its_.places;
    places.source_rails = draw_.between(1, 3);
    places.target_rails = draw_.chance(70) ? places.source_rails : draw_.between(1, 3);
    places.source_standbys = draw_.between(0, 2);
    places.target_standbys = draw_.between(0, 2);
    places.apart = draw_.chance(70);
    its_.queue_pairs = draw_.between(1, 3);
    // No fault takes these away for good.
    spared_ = {draw_.between(0, places.sourceDevices() - 1),
               places.targetAt() + draw_.between(0, places.targetDevices() - 1)};
  }
  void drawCells() {
    constexpr std::size_t kBytes[] = {24, 64, 64, 256, 1024, 4096};
    its_.shape.bytes = draw_.oneOf(kBytes);
    its_.shape.reported = draw_.chance(60);
    its_.shape.proves = draw_.chance(50);
    its_.shape.cover_every = static_cast<uint32_t>(draw_.between(1, 8));
    its_.shape.credit_every = static_cast<uint64_t>(draw_.between(1, 16));
    its_.cells = static_cast<uint64_t>(draw_.between(200, 1500));
  }
  void drawMoment() {
    at_cells_ = draw_.below(its_.cells);
    after_ms_ = 0;
  }

  // A device of either end, mostly one that is used first.
  int anyDevice() {
    const PairPlaces& places = its_.places;
    if (draw_.chance(50))
      return draw_.between(0, (draw_.chance(80) ? places.source_rails : places.sourceDevices()) - 1);
    return places.targetAt() +
           draw_.between(0, (draw_.chance(80) ? places.target_rails : places.targetDevices()) - 1);
  }
  bool losable(int device) const {
    return !its_.sparing || std::find(spared_.begin(), spared_.end(), device) == spared_.end();
  }
  static std::string portOf(int device) { return "soft" + std::to_string(device) + ":1"; }
  static std::string at(int device) { return "device=soft" + std::to_string(device) + " "; }
  std::string opcode() {
    return std::string("opcode=") + (iwarp_ ? draw_.oneOf(kIwarpOpcodes) : draw_.oneOf(kOpcodes)) + " ";
  }
  std::string times(int most) {
    if (draw_.chance(75)) return "nth=" + std::to_string(draw_.between(1, most)) + " ";
    return "every=" + std::to_string(draw_.between(5, most)) +
           " count=" + std::to_string(draw_.between(2, 5)) + " ";
  }
  Step& add(const std::string& port, const std::string& text, int more_ms = 0) {
    Step step;
    step.at_cells = at_cells_;
    step.after_ms = after_ms_ + more_ms;
    step.port = port;
    step.text = text;
    return its_.steps.emplace_back(step);
  }
  void rule(const std::string& text) { add("", text); }

  void drawDownAtBegin() {
    at_cells_ = 0;
    const int device = anyDevice();
    add(portOf(device), "down").after_ms = -1;  // before there is a link
    add(portOf(device), "up", draw_.between(5, 60));
  }
  void drawFault() {
    const int device = anyDevice();
    switch (draw_.between(0, 17)) {
      case 0:
      case 1:
        add(portOf(device), "down");
        if (!losable(device)) add(portOf(device), "up", draw_.between(5, 80));
        return;
      case 2:
      case 3:
        return flap(device);
      case 4:
        return cutOff(true);
      case 5:
        return bothEnds();
      case 6:
        if (draw_.chance(50)) return (void)add(portOf(device), "fatal");
        return rule(at(device) + opcode() + times(60) + "device_fatal");
      case 7:
        return rule(at(device) + opcode() + times(60) + "qp_fatal");
      case 8:
      case 9:
        return rule(at(device) + opcode() + times(100) + "status=" + draw_.oneOf(kStatuses));
      case 10:
        return rule(at(device) + "opcode=recv " + times(60) + "status=" + draw_.oneOf(kReceiveStatuses));
      case 11:
        return blackHole(device);
      case 12:
        return rule(at(device) + opcode() + times(60) + "drop=" + std::to_string(draw_.between(1, 4)));
      case 13:
        return rule(at(device) + opcode() + "nth=" + std::to_string(draw_.between(1, 60)) +
                    " every=1 count=" + std::to_string(draw_.between(1, 8)) +
                    " delay=" + std::to_string(draw_.between(10, 5000)) + "us");
      case 14:
        return rule(at(device) + "verb=post_send " + times(100) + "errno=" + draw_.oneOf(kErrnos));
      case 15:
        return rule(at(device) +
                    (draw_.chance(50) ? "verb=post_recv nth=" + std::to_string(draw_.between(1, 4))
                                      : "verb=poll_cq nth=" + std::to_string(draw_.between(1, 99))) +
                    " errno=" + draw_.oneOf(kErrnos));
      case 16:
        return rule(at(device) + "verb=" + draw_.oneOf(kSetUpVerbs) + " nth=1 every=1 count=" +
                    std::to_string(draw_.between(1, 4)) + " errno=" + draw_.oneOf(kErrnos));
      case 17:
        if (draw_.chance(50) || iwarp_)
          return rule(at(device) + opcode() + times(60) + "event=" + draw_.oneOf(kEvents));
        return changeAddress(device);
    }
  }
  void flap(int device) {
    int at_ms = 0;
    for (int times = draw_.chance(60) ? 1 : draw_.between(2, 4); times > 0; --times) {
      add(portOf(device), "down", at_ms);
      at_ms += draw_.between(2, 60);
      add(portOf(device), "up", at_ms);
      at_ms += draw_.between(1, 40);
    }
  }
  // All ports of one end, almost at once.
  void cutOff(bool for_a_while) {
    const PairPlaces& places = its_.places;
    const bool source = draw_.chance(50);
    const int first = source ? 0 : places.targetAt();
    const int count = source ? places.sourceDevices() : places.targetDevices();
    const int back_ms = draw_.between(20, 120);
    for (int device = first; device < first + count; ++device) {
      const int late_ms = draw_.between(0, 5);
      add(portOf(device), "down", late_ms);
      if (for_a_while) add(portOf(device), "up", back_ms + late_ms);
    }
  }
  void bothEnds() {
    const int here = draw_.between(0, its_.places.source_rails - 1);
    const int there = its_.places.targetAt() + draw_.between(0, its_.places.target_rails - 1);
    for (const int device : {here, there}) {
      const bool fatal = draw_.chance(30);
      add(portOf(device), fatal ? "fatal" : "down");
      if (!fatal) add(portOf(device), "up", draw_.between(5, 80));
    }
  }
  void blackHole(int device) {
    rule(at(device) + "drop");
    const int heals = static_cast<int>(its_.steps.size()) - 1;
    if (losable(device) && draw_.chance(50)) return;
    add("", "", draw_.between(10, 150)).heals = heals;
  }
  void changeAddress(int device) {
    const int last = draw_.between(1, 250);
    add(portOf(device), its_.link == "ib"
                            ? "gid=0=fe80::" + std::to_string(device + 1) + ":" + std::to_string(last)
                            : "gid=3=10.2" + std::to_string(device) + ".1." + std::to_string(last));
  }
  // Drivers refuse to stop queue pairs that have writes under way, and then to destroy them or do that late.
  void drawRefusedStops() {
    drawMoment();
    const int device = anyDevice();
    const std::string place = draw_.chance(30) ? "device=soft* " : at(device);
    const std::string each = "nth=1 every=1 count=";
    its_.late_ms = draw_.between(20, 200);
    rule(place + "opcode=any " + each + std::to_string(draw_.between(1, 4)) +
         " delay=" + std::to_string(its_.late_ms) + "ms");
    rule(place + "verb=modify_qp " + each + std::to_string(draw_.between(1, 12)) +
         " errno=" + draw_.oneOf(kRefusals));
    if (draw_.chance(60)) {
      const bool refused = draw_.chance(50);
      rule(place + "verb=destroy_qp " + each + std::to_string(draw_.between(1, 6)) +
           (refused ? std::string(" errno=") + draw_.oneOf(kRefusals)
                    : " delay=" + std::to_string(draw_.between(20, 200)) + "ms"));
    }
    if (draw_.chance(40)) rule(place + "verb=query_qp " + each + "2 errno=" + draw_.oneOf(kRefusals));
    // Something makes the link leave its path meanwhile.
    const int lost = draw_.chance(70) ? device : anyDevice();
    add(portOf(lost), "down", draw_.between(0, 10));
    add(portOf(lost), "up", draw_.between(10, 60));
  }

  Draw draw_;
  Schedule its_;
  bool iwarp_ = false;
  std::array<int, 2> spared_ = {};
  uint64_t at_cells_ = 0;
  int after_ms_ = 0;
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
  for (std::size_t i = 0; i < schedule.steps.size(); ++i) {
    const Step& step = schedule.steps[i];
    text += "  " + std::to_string(i) + ": at cell " + std::to_string(step.at_cells) + " +" +
            std::to_string(step.after_ms) + " ms: " +
            (step.heals >= 0 ? "rule of step " + std::to_string(step.heals) + " is removed"
                             : (step.port.empty() ? "fault " : step.port + " ") + step.text) +
            "\n";
  }
  return text;
}

// What came of a schedule; it goes through a pipe as it is.
struct Report {
  enum Outcome : uint32_t { kFailed, kCompleted, kUnreachable };
  Outcome outcome = kFailed;
  uint32_t faults = 0;
  uint64_t cells = 0;
  uint64_t repeated = 0;
  uint64_t epochs = 0;
  char problem[1024] = {};
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
    fabric_ = *softdev::joinFabric("test" + std::to_string(getpid()));
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
    std::snprintf(report_.problem, sizeof report_.problem, "%s", problem.c_str());
    report_.cells = pair.counted();
    report_.faults = static_cast<uint32_t>(softdev::readFaultLog(*fabric_).size());
    pair.close();
    if (report_.outcome != Report::kFailed && !pair.problem().empty()) {
      report_.outcome = Report::kFailed;
      std::snprintf(report_.problem, sizeof report_.problem, "at the end: %s", pair.problem().c_str());
    }
    softdev::detachFabric(fabric_);
    return report_;
  }

 private:
  std::string both() {
    for (Step& step : its_.steps) {
      if (step.after_ms < 0) strike(step);
    }
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
      takeSteps(pair_->counted() - before);
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

  void takeSteps(uint64_t counted) {
    for (Step& step : its_.steps) {
      // What is due goes on over the next link, too: a port that is down comes up.
      if (step.done || (!step.due && counted < step.at_cells)) continue;
      if (!step.due) step.due = Clock::now() + std::chrono::milliseconds(step.after_ms);
      if (Clock::now() >= *step.due) strike(step);
    }
  }
  void strike(Step& step) {
    step.done = true;
    if (verbose_)
      std::fprintf(stderr, "-- cell %llu: step %td\n", static_cast<unsigned long long>(pair_->counted()),
                   &step - its_.steps.data());
    if (step.heals >= 0) {
      (void)softdev::removeFault(*fabric_, its_.steps[static_cast<std::size_t>(step.heals)].rule);
      return;
    }
    if (!step.port.empty()) {
      test::changePort(step.port, step.text);
      return;
    }
    const auto rule = softdev::parseFaultRule(step.text);
    if (!rule.ok()) throw std::runtime_error(step.text + ": " + rule.error());
    const auto id = softdev::addFault(*fabric_, *rule);
    if (!id.ok()) throw std::runtime_error(step.text + ": cannot be added");
    step.rule = *id;
  }

  Schedule its_;
  const bool verbose_;
  LinkPair* pair_ = nullptr;
  softdev::Fabric* fabric_ = nullptr;
  Report report_;
};

// ---- one process a schedule

constexpr int kLimitS = 90;  // beyond every limit of a schedule

struct Options {
  uint64_t first = 1;
  uint64_t count = 200;
  std::size_t jobs = 4;
  bool verbose = false;
};

// A schedule that runs in a child.
struct Child {
  uint64_t seed = 0;
  pid_t pid = -1;
  int pipe = -1;
  Clock::time_point begun = {};
};

void logNothing(int, unsigned long, const char*, int, const char*, ...) {}

Child begin(uint64_t seed, bool verbose) {
  Child child;
  child.seed = seed;
  child.begun = Clock::now();
  int ends[2];
  if (pipe(ends) != 0) return child;
  child.pid = fork();
  if (child.pid == 0) {
    alarm(kLimitS);
    close(ends[0]);
    Schedule schedule = Drawer(seed).all();
    if (verbose) {
      std::fputs(textOf(schedule).c_str(), stderr);
      log::setStderrLevel(log::kInfo);
    } else {
      log::setSink(logNothing);
    }
    Report report;
    try {
      report = Runner(std::move(schedule), verbose).run();
    } catch (const std::exception& error) {
      std::snprintf(report.problem, sizeof report.problem, "%s", error.what());
    }
    if (testing::Test::HasFailure()) report.outcome = Report::kFailed;
    (void)!write(ends[1], &report, sizeof report);
    _exit(0);
  }
  close(ends[1]);
  child.pipe = ends[0];
  return child;
}

Report end(const Child& child) {
  Report report;
  const ssize_t got = child.pipe >= 0 ? read(child.pipe, &report, sizeof report) : -1;
  if (child.pipe >= 0) close(child.pipe);
  int status = -1;
  waitpid(child.pid, &status, 0);
  const bool whole = got == static_cast<ssize_t>(sizeof report);
  if (whole && status == 0) return report;
  if (!whole) report = {};
  report.outcome = Report::kFailed;
  const bool late = WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM;
  std::snprintf(report.problem, sizeof report.problem, "its process ended %s (status %d)",
                late ? "because of its time" : "badly", status);
  return report;
}

int campaign(const Options& options) {
  std::vector<Child> running;
  std::array<uint64_t, 3> outcomes = {};
  Report sum;
  double longest_s = 0;
  uint64_t next = options.first;
  const Clock::time_point begun = Clock::now();
  const auto secondsSince = [](Clock::time_point time) {
    return std::chrono::duration<double>(Clock::now() - time).count();
  };
  while (next < options.first + options.count || !running.empty()) {
    while (running.size() < options.jobs && next < options.first + options.count)
      running.push_back(begin(next++, options.verbose));
    std::vector<pollfd> waits;
    for (const Child& child : running) waits.push_back({child.pipe, POLLIN, 0});
    (void)poll(waits.data(), waits.size(), -1);
    for (std::size_t i = waits.size(); i-- > 0;) {
      if (waits[i].revents == 0 && waits[i].fd >= 0) continue;
      const Child child = running[i];
      running.erase(running.begin() + static_cast<std::ptrdiff_t>(i));
      const Report report = end(child);
      ++outcomes[report.outcome];
      longest_s = std::max(longest_s, secondsSince(child.begun));
      sum.faults += report.faults;
      sum.cells += report.cells;
      sum.repeated += report.repeated;
      sum.epochs += report.epochs;
      if (report.outcome == Report::kFailed || options.verbose)
        std::printf("seed %llu: %s%s\n", static_cast<unsigned long long>(child.seed),
                    report.outcome == Report::kFailed ? "FAILED: " : "good", report.problem);
      std::fflush(stdout);
    }
  }
  std::printf("%llu schedules, %.0f s: %llu completed, %llu without a path, %llu failed\n",
              static_cast<unsigned long long>(options.count), secondsSince(begun),
              static_cast<unsigned long long>(outcomes[Report::kCompleted]),
              static_cast<unsigned long long>(outcomes[Report::kUnreachable]),
              static_cast<unsigned long long>(outcomes[Report::kFailed]));
  std::printf("cells: %llu, of which %llu were sent again; faults: %u; epochs lost: %llu; longest: %.1f s\n",
              static_cast<unsigned long long>(sum.cells), static_cast<unsigned long long>(sum.repeated),
              sum.faults, static_cast<unsigned long long>(sum.epochs), longest_s);
  return outcomes[Report::kFailed] == 0 ? 0 : 1;
}

int usage() {
  std::fputs("usage: link_campaign [--first SEED] [--count N] [--jobs N] [--verbose]\n", stderr);
  return 2;
}

}  // namespace
}  // namespace railwise::net

int main(int argc, char** argv) {
  railwise::net::Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    if (name == "--verbose") {
      options.verbose = true;
      continue;
    }
    char* rest = nullptr;
    const uint64_t value = i + 1 < argc ? std::strtoull(argv[++i], &rest, 10) : 0;
    if (rest == nullptr || *rest != '\0') return railwise::net::usage();
    if (name == "--first") options.first = value;
    else if (name == "--count") options.count = value;
    else if (name == "--jobs" && value > 0) options.jobs = value;
    else return railwise::net::usage();
  }
  return railwise::net::campaign(options);
}
