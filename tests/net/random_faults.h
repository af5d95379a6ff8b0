// Random faults for campaigns: ports, devices and drivers that fail at drawn moments, sometimes several at
// once or while a recovery is under way. A seed draws the same faults with every compiler.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "port_control.h"
#include "softdev/faults/faults.h"

namespace railwise::test {

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
struct FaultStep {
  uint64_t at = 0;   // once so many units (cells, messages) are counted
  int after_ms = 0;  // and so long after that; -1: before there is a connection
  std::string port;  // changePort(port, text); "": addFault(text)
  std::string text;
  int heals = -1;  // takes the rule of this step away
  std::optional<Clock::time_point> due = {};
  bool done = false;
  uint32_t rule = 0;
};

inline std::string textOf(const std::vector<FaultStep>& steps, const char* unit) {
  std::string text;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const FaultStep& step = steps[i];
    text += "  " + std::to_string(i) + ": at " + unit + " " + std::to_string(step.at) + " +" +
            std::to_string(step.after_ms) + " ms: " +
            (step.heals >= 0 ? "rule of step " + std::to_string(step.heals) + " is removed"
                             : (step.port.empty() ? "fault " : step.port + " ") + step.text) +
            "\n";
  }
  return text;
}

// The devices of one end: those from `first` on. The first `rails` of them are used first.
struct FaultyEnd {
  int first = 0;
  int rails = 1;
  int devices = 1;
};

class FaultDrawer {
 public:
  using Opcodes = std::vector<const char*>;

  explicit FaultDrawer(Draw& draw) : draw_(draw) {}

  std::vector<FaultyEnd> ends;
  std::string link;       // "ib", "roce" or "iwarp"
  Opcodes opcodes;        // that rules name
  uint64_t units = 0;     // that the schedule counts
  bool sparing = true;    // each end keeps a device, or soon has it again
  bool all_ends = false;  // an end may use the devices of others: it is cut off only together with them
  // What was drawn.
  std::vector<FaultStep> steps;
  int late_ms = 0;  // for so long writes may come late

  // Draws a device for each end that no fault takes away for good.
  void drawSpared() {
    for (const FaultyEnd& end : ends) spared_.push_back(end.first + draw_.between(0, end.devices - 1));
  }
  void drawAll() {
    if (draw_.chance(6)) drawDownAtBegin();
    for (int faults = draw_.between(1, 5); faults > 0; --faults) {
      // Sometimes at once with the previous one, or while its consequences last.
      if (draw_.chance(35)) after_ms_ += draw_.chance(40) ? 0 : draw_.between(1, 30);
      else drawMoment();
      drawFault();
    }
    if (draw_.chance(45)) drawRefusedStops();
    if (!sparing) cutOff(false);
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

  void drawMoment() {
    at_ = draw_.below(units);
    after_ms_ = 0;
  }
  std::size_t anyEnd() { return static_cast<std::size_t>(draw_.below(100)) * ends.size() / 100; }
  // A device of any end, mostly one that is used first.
  int anyDevice() {
    const FaultyEnd& end = ends[anyEnd()];
    return end.first + draw_.between(0, (draw_.chance(80) ? end.rails : end.devices) - 1);
  }
  bool losable(int device) const {
    return !sparing || std::find(spared_.begin(), spared_.end(), device) == spared_.end();
  }
  static std::string portOf(int device) { return "soft" + std::to_string(device) + ":1"; }
  static std::string at(int device) { return "device=soft" + std::to_string(device) + " "; }
  std::string opcode() {
    return std::string("opcode=") + opcodes[static_cast<std::size_t>(draw_.below(opcodes.size()))] + " ";
  }
  std::string times(int most) {
    if (draw_.chance(75)) return "nth=" + std::to_string(draw_.between(1, most)) + " ";
    return "every=" + std::to_string(draw_.between(5, most)) +
           " count=" + std::to_string(draw_.between(2, 5)) + " ";
  }
  FaultStep& add(const std::string& port, const std::string& text, int more_ms = 0) {
    FaultStep step;
    step.at = at_;
    step.after_ms = after_ms_ + more_ms;
    step.port = port;
    step.text = text;
    return steps.emplace_back(step);
  }
  void rule(const std::string& text) { add("", text); }

  void drawDownAtBegin() {
    at_ = 0;
    const int device = anyDevice();
    add(portOf(device), "down").after_ms = -1;
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
        if (draw_.chance(50) || link == "iwarp")
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
    std::vector<FaultyEnd> lost = {ends[anyEnd()]};
    if (all_ends && (!for_a_while || draw_.chance(50))) lost = ends;
    const int back_ms = draw_.between(20, 120);
    for (const FaultyEnd& end : lost) {
      for (int device = end.first; device < end.first + end.devices; ++device) {
        const int more_ms = draw_.between(0, 5);
        add(portOf(device), "down", more_ms);
        if (for_a_while) add(portOf(device), "up", back_ms + more_ms);
      }
    }
  }
  // Two ends lose a device at once.
  void bothEnds() {
    const std::size_t first = ends.size() == 2 ? 0 : anyEnd();
    const FaultyEnd& here = ends[first];
    const FaultyEnd& there = ends[(first + 1) % ends.size()];
    const int one = here.first + draw_.between(0, here.rails - 1);
    const int other = there.first + draw_.between(0, there.rails - 1);
    for (const int device : {one, other}) {
      const bool fatal = draw_.chance(30);
      add(portOf(device), fatal ? "fatal" : "down");
      if (!fatal) add(portOf(device), "up", draw_.between(5, 80));
    }
  }
  void blackHole(int device) {
    rule(at(device) + "drop");
    const int heals = static_cast<int>(steps.size()) - 1;
    if (losable(device) && draw_.chance(50)) return;
    add("", "", draw_.between(10, 150)).heals = heals;
  }
  void changeAddress(int device) {
    const int last = draw_.between(1, 250);
    add(portOf(device), link == "ib"
                            ? "gid=0=fe80::" + std::to_string(device + 1) + ":" + std::to_string(last)
                            : "gid=3=10.2" + std::to_string(device) + ".1." + std::to_string(last));
  }
  // Drivers refuse to stop queue pairs that have writes under way, and then to destroy them or do that late.
  void drawRefusedStops() {
    drawMoment();
    const int device = anyDevice();
    const std::string place = draw_.chance(30) ? "device=soft* " : at(device);
    const std::string each = "nth=1 every=1 count=";
    late_ms = draw_.between(20, 200);
    rule(place + "opcode=any " + each + std::to_string(draw_.between(1, 4)) +
         " delay=" + std::to_string(late_ms) + "ms");
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

  Draw& draw_;
  std::vector<int> spared_;
  uint64_t at_ = 0;
  int after_ms_ = 0;
};

// Lets the steps of a schedule happen. It is attached to the fabric of this process's devices.
class FaultPlayer {
 public:
  FaultPlayer(softdev::Fabric& fabric, std::vector<FaultStep> steps, bool verbose)
      : fabric_(fabric), steps_(std::move(steps)), verbose_(verbose) {}

  // Before there is a connection.
  void begin() {
    for (FaultStep& step : steps_) {
      if (step.after_ms < 0) strike(step, 0);
    }
  }
  // So many units are counted. What is due happens in any case: a port that is down comes up.
  void play(uint64_t counted) {
    for (FaultStep& step : steps_) {
      if (step.done || (!step.due && counted < step.at)) continue;
      if (!step.due) step.due = Clock::now() + std::chrono::milliseconds(step.after_ms);
      if (Clock::now() >= *step.due) strike(step, counted);
    }
  }

 private:
  void strike(FaultStep& step, uint64_t counted) {
    step.done = true;
    if (verbose_)
      std::fprintf(stderr, "-- at %llu: step %td\n", static_cast<unsigned long long>(counted),
                   &step - steps_.data());
    if (step.heals >= 0) {
      (void)softdev::removeFault(fabric_, steps_[static_cast<std::size_t>(step.heals)].rule);
      return;
    }
    if (!step.port.empty()) {
      changePort(step.port, step.text);
      return;
    }
    const auto rule = softdev::parseFaultRule(step.text);
    if (!rule.ok()) throw std::runtime_error(step.text + ": " + rule.error());
    const auto id = softdev::addFault(fabric_, *rule);
    if (!id.ok()) throw std::runtime_error(step.text + ": cannot be added");
    step.rule = *id;
  }

  softdev::Fabric& fabric_;
  std::vector<FaultStep> steps_;
  const bool verbose_;
};

}  // namespace railwise::test
