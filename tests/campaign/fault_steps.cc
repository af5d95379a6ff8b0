#include "tests/campaign/fault_steps.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "cli/options/message.h"

namespace railwise::cli {
namespace {

struct KindRow {
  const char* name;
  int weight;
};
// In the order of FaultKind. Faults that the plugin notices only after seconds are rare.
constexpr KindRow kKinds[] = {{"port down", 14},
                              {"port down and up", 14},
                              {"host cut off", 5},
                              {"device fatal", 8},
                              {"queue pair fatal", 8},
                              {"send fails", 12},
                              {"receive fails", 4},
                              {"packets dropped", 6},
                              {"device is a black hole", 5},
                              {"hosts cannot talk", 5},
                              {"receiver not ready", 3},
                              {"delay", 3},
                              {"stuck", 1},
                              {"post_send fails", 4},
                              {"post_recv fails", 3},
                              {"poll_cq fails", 3},
                              {"set-up call fails", 4},
                              {"address changes", 4},
                              {"speed changes", 3},
                              {"event", 4},
                              {"process stopped", 0},
                              {"end refused", 0}};
static_assert(std::size(kKinds) == static_cast<std::size_t>(FaultKind::kCount));

constexpr int kCountWeights[] = {35, 27, 18, 12, 8};  // weights of 1 to 5 faults
// Percent of the runs in which each pair of hosts always keeps a path, or soon has one again.
constexpr int kSpared = 88;
// Percent of the faults that are drawn where data flows. The other faults may be anywhere, also at standby
// rails.
constexpr int kWhereDataFlow = 80;
// Percent of the runs in which processes are stopped, and for how long: `railwise stuck` would be asked after
// 2 s.
constexpr int kPaused = 15;
constexpr int kShortestPauseMs = 10, kLongestPauseMs = 700;

// Percent of the runs in which a driver refuses to end queue pairs, and what mlx5 answers then.
constexpr int kRefusing = 20;
constexpr const char* kRefusals[] = {"EAGAIN", "EBUSY", "EIO", "ENOMEM", "ETIMEDOUT"};

// Values of ibv_wc_status, as fault rules spell them.
constexpr const char* kStatuses[] = {
    "retry_exc_err",   "retry_exc_err",    "loc_len_err",        "loc_qp_op_err", "loc_eec_op_err",
    "loc_prot_err",    "wr_flush_err",     "mw_bind_err",        "bad_resp_err",  "loc_access_err",
    "rem_inv_req_err", "rem_access_err",   "rem_op_err",         "retry_exc_err", "rnr_retry_exc_err",
    "rem_abort_err",   "loc_rdd_viol_err", "rem_inv_rd_req_err", "fatal_err",     "resp_timeout_err",
    "general_err"};
constexpr const char* kReceiveStatuses[] = {"loc_len_err",    "loc_prot_err", "loc_qp_op_err",
                                            "loc_access_err", "general_err",  "fatal_err"};
constexpr const char* kErrnos[] = {"EIO", "ENOMEM", "EINVAL", "ENODEV"};
constexpr const char* kSetUpVerbs[] = {"create_qp", "modify_qp", "create_cq", "reg_mr"};
constexpr const char* kEvents[] = {"lid_change", "sm_change",   "pkey_change",  "client_reregister",
                                   "gid_change", "port_active", "comm_est",     "qp_fatal",
                                   "cq_err",     "qp_req_err",  "qp_access_err"};
constexpr const char* kOpcodes[] = {"any", "write", "write_imm"};
// Of iWARP and of one-sided traffic.
constexpr const char* kPlainOpcodes[] = {"any", "write", "send", "read"};
constexpr int kSpeeds[] = {10000, 25000, 40000};

struct Place {
  int rank;
  int device;
};

class StepDrawer {
 public:
  StepDrawer(Draw draw, const FaultMachine& machine, const std::vector<std::pair<int, int>>& talking,
             int spread_ms)
      : draw_(draw),
        machine_(machine),
        talking_(talking),
        spread_ms_(spread_ms),
        sparing_(draw_.chance(kSpared)) {
    for (const int rails : machine.rails) spared_.push_back(draw_.between(0, rails - 1));
  }

  std::vector<FaultStep> all() {
    const std::size_t faults = draw_.weighted(kCountWeights) + 1;
    for (std::size_t i = 0; i < faults; ++i) {
      moveOn(faults);
      kind_ = drawKind();
      addFault();
    }
    return std::move(steps_);
  }

 private:
  // Moves the time to that of the next fault. Sometimes this is the time of the previous fault, or shortly
  // after it, while its consequences last.
  void moveOn(std::size_t faults) {
    if (!steps_.empty() && draw_.chance(35)) {
      now_ms_ += draw_.chance(30) ? 0 : draw_.between(1, 60);
      return;
    }
    const int share = spread_ms_ / static_cast<int>(faults);
    now_ms_ += draw_.between(share / 10, share);
  }

  FaultKind drawKind() {
    constexpr FaultKind kFinal[] = {FaultKind::kHostCutOff, FaultKind::kHostCutOff,
                                    FaultKind::kBlackHoleHosts};
    if (!sparing_ && steps_.empty() && draw_.chance(60)) return draw_.oneOf(kFinal);
    int weights[std::size(kKinds)];
    std::transform(std::begin(kKinds), std::end(kKinds), weights,
                   [](const KindRow& row) { return row.weight; });
    return static_cast<FaultKind>(draw_.weighted(weights));
  }

  // A random place, mostly where data flows.
  Place anyPlace() {
    const int rank = draw_.between(0, machine_.ranks() - 1);
    const int rails = machine_.rails[static_cast<std::size_t>(rank)];
    const int used = draw_.chance(kWhereDataFlow) ? std::min(rails, machine_.used_rails) : rails;
    return {rank, draw_.between(0, used - 1)};
  }

  // A place that may be lost permanently.
  std::optional<Place> losable() {
    const Place place = anyPlace();
    if (!sparing_) return place;
    const auto rank = static_cast<std::size_t>(place.rank);
    if (machine_.rails[rank] == 1) return std::nullopt;
    const int shift = place.device == spared_[rank] ? 1 : 0;
    return Place{place.rank, (place.device + shift) % machine_.rails[rank]};
  }

  FaultStep& add(FaultStep::What what, std::string text, int after_ms = 0) {
    FaultStep step;
    step.kind = kind_;
    step.at_ms = now_ms_ + after_ms;
    step.what = what;
    step.text = std::move(text);
    return steps_.emplace_back(std::move(step));
  }

  void port(const Place& place, const std::string& change, int after_ms = 0) {
    add(FaultStep::kPort, change, after_ms).place = placeName(place.rank, place.device);
  }

  static std::string at(const Place& place) {
    return "host=" + hostName(place.rank) + " device=" + deviceName(place.device) + " ";
  }
  std::string nth(int most) { return "nth=" + std::to_string(draw_.between(1, most)) + " "; }
  // A condition with which a rule strikes once, or repeatedly for a while, so that a connection that has just
  // recovered fails again. A random condition may hit every new queue pair, so the campaign's time limit must
  // allow for that on a busy machine.
  std::string times(int most) {
    if (draw_.chance(80)) return nth(most);
    const std::string count = "count=" + std::to_string(draw_.between(2, 6)) + " ";
    if (draw_.chance(50)) return "every=" + std::to_string(draw_.between(3, most)) + " " + count;
    return textOf("probability=0.0%d seed=%d ", draw_.between(1, 9), draw_.between(1, 1000)) + count;
  }
  std::string opcode() {
    const bool plain = machine_.iwarp || machine_.one_sided;
    return std::string("opcode=") + (plain ? draw_.oneOf(kPlainOpcodes) : draw_.oneOf(kOpcodes)) + " ";
  }

  // Strikes a place at once by a command, or by a rule at the n-th send from then on.
  void strikePlace(const Place& place, const char* command, const char* action) {
    if (draw_.chance(50)) return port(place, command);
    add(FaultStep::kRule, at(place) + opcode() + nth(30) + action);
  }

  void flap() {
    const Place place = anyPlace();
    int at_ms = 0;
    for (int times = draw_.chance(70) ? 1 : draw_.between(2, 3); times > 0; --times) {
      port(place, "down", at_ms);
      at_ms += draw_.between(20, 350);
      port(place, "up", at_ms);
      at_ms += draw_.between(5, 150);
    }
  }

  // A failed device works again when it is reopened. So any device may fail, and may fail again while the job
  // reopens it.
  void failDevice() {
    const Place place = anyPlace();
    if (draw_.chance(70)) return strikePlace(place, "fatal", "device_fatal");
    add(FaultStep::kRule, at(place) + opcode() + "every=" + std::to_string(draw_.between(5, 60)) +
                              " count=" + std::to_string(draw_.between(2, 4)) + " device_fatal");
  }

  // Takes down all ports of a host, almost at the same time: permanently, or so long that all traffic must
  // wait.
  void cutOffHost() {
    const int rank = draw_.between(0, machine_.ranks() - 1);
    const int back_ms = draw_.between(50, 700);
    for (int device = 0; device < machine_.rails[static_cast<std::size_t>(rank)]; ++device) {
      const int late_ms = draw_.between(0, 15);
      port({rank, device}, "down", late_ms);
      if (sparing_) port({rank, device}, "up", back_ms + late_ms);
    }
  }

  // Adds `rules`, permanently or until later steps remove them.
  void blackHole(const std::vector<std::string>& rules, bool for_ever) {
    const std::size_t first = steps_.size();
    for (const std::string& rule : rules) add(FaultStep::kRule, rule);
    if (for_ever) return;
    const int healed_ms = draw_.between(30, 400);
    for (std::size_t i = 0; i < rules.size(); ++i)
      add(FaultStep::kHeal, "", healed_ms).heals = static_cast<int>(first + i);
  }

  void blackHoleOfDevice() {
    const auto lost = draw_.chance(60) ? losable() : std::nullopt;
    blackHole({at(lost ? *lost : anyPlace()) + "drop"}, lost.has_value());
  }

  void blackHoleOfHosts() {
    auto [a, b] = talking_[draw_.below(talking_.size())];
    if (draw_.chance(50)) std::swap(a, b);
    const bool both = draw_.chance(50);
    std::vector<std::string> rules = {"host=" + hostName(a) + " peer=" + hostName(b) + " drop"};
    if (both) rules.push_back("host=" + hostName(b) + " peer=" + hostName(a) + " drop");
    blackHole(rules, !sparing_);
  }

  // Of iWARP the address is that of an interface, which the device does not have.
  void changeAddress() {
    const Place place = anyPlace();
    if (machine_.iwarp) return strikePlace(place, "event=gid_change", "event=gid_change");
    const std::string address =
        machine_.infiniband
            ? textOf("gid=0=fe80::%x:%x", draw_.between(1, 0xffff), draw_.between(1, 0xffff))
            : textOf("gid=3=10.%d.%d.%d", draw_.between(200, 250), place.rank + 1, draw_.between(1, 250));
    strikePlace(place, address.c_str(), address.c_str());
  }

  void failVerb(const char* verb, int most) {
    const std::string times =
        draw_.chance(70) ? nth(most) : "count=" + std::to_string(draw_.between(1, 3)) + " ";
    add(FaultStep::kRule, at(anyPlace()) + "verb=" + verb + " " + times + "errno=" + draw_.oneOf(kErrnos));
  }

  void addFault() {
    const auto rule = [this](const std::string& text) { add(FaultStep::kRule, text); };
    switch (kind_) {
      case FaultKind::kPortDown:
        if (const auto place = losable()) return strikePlace(*place, "down", "port=down");
        kind_ = FaultKind::kPortFlap;
        return flap();
      case FaultKind::kPortFlap:
        return flap();
      case FaultKind::kHostCutOff:
        return cutOffHost();
      case FaultKind::kDeviceFatal:
        return failDevice();
      case FaultKind::kQpFatal:
        return rule(at(anyPlace()) + opcode() + times(40) + "qp_fatal");
      case FaultKind::kStatus:
        return rule(at(anyPlace()) + opcode() + times(40) + "status=" + draw_.oneOf(kStatuses));
      case FaultKind::kReceiveStatus:
        return rule(at(anyPlace()) + "opcode=recv " + times(30) + "status=" + draw_.oneOf(kReceiveStatuses));
      case FaultKind::kDrop:
        return rule(at(anyPlace()) + opcode() + times(30) + "drop=" + std::to_string(draw_.between(1, 6)));
      case FaultKind::kBlackHoleDevice:
        return blackHoleOfDevice();
      case FaultKind::kBlackHoleHosts:
        return blackHoleOfHosts();
      case FaultKind::kRnr:  // iWARP has no such answer
        if (machine_.iwarp) return rule(at(anyPlace()) + "opcode=send " + times(30) + "status=rem_op_err");
        return rule(at(anyPlace()) + (machine_.one_sided ? "opcode=send " : "opcode=write_imm ") + times(30) +
                    "rnr=" + std::to_string(draw_.between(1, 20)));
      case FaultKind::kDelay:
        return rule(at(anyPlace()) + opcode() + "count=" + std::to_string(draw_.between(1, 20)) +
                    " delay=" + std::to_string(draw_.between(10, 8000)) + "us");
      case FaultKind::kStuck:
        return rule(at(anyPlace()) + opcode() + nth(30) + "stuck");
      case FaultKind::kErrnoPostSend:
        return failVerb("post_send", 40);
      case FaultKind::kErrnoPostRecv:
        return failVerb("post_recv", 4);
      case FaultKind::kErrnoPollCq:
        return failVerb("poll_cq", 40);
      case FaultKind::kErrnoSetUp:
        return failVerb(draw_.oneOf(kSetUpVerbs), 2);
      case FaultKind::kGid:
        return changeAddress();
      case FaultKind::kSpeed: {
        const Place place = anyPlace();
        return port(place, "speed=" + std::to_string(draw_.oneOf(kSpeeds)));
      }
      case FaultKind::kEvent:
        return rule(at(anyPlace()) + opcode() + times(30) + "event=" + draw_.oneOf(kEvents));
      case FaultKind::kStopped:     // addPauses()
      case FaultKind::kRefusedEnd:  // addRefusedEnds()
      case FaultKind::kCount:
        return;
    }
  }

  Draw draw_;
  const FaultMachine& machine_;
  const std::vector<std::pair<int, int>>& talking_;
  const int spread_ms_;
  const bool sparing_;
  std::vector<int> spared_;  // when sparing: for each host, the device that no fault takes away permanently
  FaultKind kind_ = FaultKind::kDelay;
  int now_ms_ = 0;
  std::vector<FaultStep> steps_;
};

std::vector<FaultStep> inOrder(const std::vector<FaultStep>& drawn) {
  std::vector<std::size_t> order(drawn.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return drawn[a].at_ms < drawn[b].at_ms; });
  std::vector<FaultStep> steps;
  for (const std::size_t index : order) {
    FaultStep& step = steps.emplace_back(drawn[index]);
    if (step.heals < 0) continue;
    const auto healed = std::find(order.begin(), order.end(), static_cast<std::size_t>(step.heals));
    step.heals = static_cast<int>(healed - order.begin());
  }
  return steps;
}

}  // namespace

const char* faultKindName(FaultKind kind) { return kKinds[static_cast<std::size_t>(kind)].name; }

std::vector<FaultStep> drawFaultSteps(Draw draw, const FaultMachine& machine,
                                      const std::vector<std::pair<int, int>>& talking, int spread_ms) {
  return inOrder(StepDrawer(draw, machine, talking, spread_ms).all());
}

void addPauses(Draw draw, const FaultMachine& machine, int spread_ms, std::vector<FaultStep>& steps) {
  if (!draw.chance(kPaused)) return;
  for (int pauses = draw.between(1, 3); pauses > 0; --pauses) {
    FaultStep stop;
    stop.kind = FaultKind::kStopped;
    stop.what = FaultStep::kStop;
    stop.at_ms = draw.between(0, spread_ms);
    stop.place = hostName(draw.between(0, machine.ranks() - 1));
    FaultStep go = stop;
    go.what = FaultStep::kGoOn;
    go.at_ms += draw.between(kShortestPauseMs, kLongestPauseMs);
    steps.push_back(std::move(stop));
    steps.push_back(std::move(go));
  }
  steps = inOrder(steps);
}

void addRefusedEnds(Draw draw, const FaultMachine& machine, int spread_ms, std::vector<FaultStep>& steps) {
  if (!draw.chance(kRefusing)) return;
  const int at_ms = draw.between(1, std::max(1, spread_ms / 2));
  const int rank = draw.between(0, machine.ranks() - 1);
  const int used = std::min(machine.rails[static_cast<std::size_t>(rank)], machine.used_rails);
  const std::string device = deviceName(draw.between(0, used - 1));
  // A connection ends at two devices, and either driver may refuse.
  const std::string place =
      (draw.chance(50) ? "host=" + hostName(rank) + " " : "") + "device=" + device + " ";
  const auto add = [&](const std::string& text) {
    FaultStep step;
    step.kind = FaultKind::kRefusedEnd;
    step.what = FaultStep::kRule;
    step.at_ms = at_ms;
    step.text = place + text;
    steps.push_back(std::move(step));
  };
  // Tries of a lone path pause up to a sixteenth of the failover timeout: a driver that refuses more of them
  // in a row has left no path for so long.
  add("verb=modify_qp nth=1 every=1 count=" + std::to_string(draw.between(2, 15)) +
      " errno=" + draw.oneOf(kRefusals));
  if (draw.chance(60)) {
    const bool refused = draw.chance(50);
    const std::string how = refused ? std::string("errno=") + draw.oneOf(kRefusals)
                                    : "delay=" + std::to_string(draw.between(50, 500)) + "ms";
    add("verb=destroy_qp nth=1 every=1 count=" + std::to_string(draw.between(1, 6)) + " " + how);
  }
  add("opcode=any nth=1 every=1 count=" + std::to_string(draw.between(1, 3)) +
      " delay=" + std::to_string(draw.between(100, 700)) + "ms");
  steps = inOrder(steps);
}

std::string stepSentence(const std::vector<FaultStep>& steps, std::size_t index) {
  const FaultStep& step = steps[index];
  const std::string text = "at " + std::to_string(step.at_ms) + " ms: ";
  switch (step.what) {
    case FaultStep::kRule:
      return text + faultKindName(step.kind) + ": rule " + step.text;
    case FaultStep::kPort:
      return text + faultKindName(step.kind) + ": " + step.place + " " + step.text;
    case FaultStep::kStop:
      return text + faultKindName(step.kind) + ": " + step.place;
    case FaultStep::kGoOn:
      return text + step.place + " goes on";
    case FaultStep::kHeal:
      return text + "rule " + steps[static_cast<std::size_t>(step.heals)].text + " is removed";
  }
  return text;
}

}  // namespace railwise::cli
