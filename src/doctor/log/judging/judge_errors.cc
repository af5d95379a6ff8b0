// Warnings and errors: which came first, and what each means.
#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "doctor/log/job.h"
#include "doctor/log/judging/evidence.h"
#include "doctor/log/judging/judge.h"
#include "doctor/log/judging/known_line.h"
#include "doctor/log/ranks.h"
#include "doctor/log/reading/line.h"

namespace railwise::doctor {
namespace {

// Whom the ranks blame: a rank that lost a connection names its peer, which may have lost one of its own
// before. The last one of the chain is where to look. Pure.

class Trail {
 public:
  Trail(const Evidence& evidence, const Ranks& ranks);

  // " Rank 0 (a) blames rank 2 (b), and that one rank 1 (c), whose log has no error.", or which host the
  // peer's address is. "": the line names no peer that is known.
  std::string textOf(const Event& event) const;

 private:
  int peerOf(const Event& event) const;
  std::string hostText(const Event& event) const;

  const Evidence& evidence_;
  const Job& job_;
  const Ranks& ranks_;
  std::map<std::string, int> processes_;  // "host:pid"
  std::map<int, int> blames_;
};

bool hasErrors(const Job& job, int process) {
  for (const Event& event : job.events)
    if (event.process == process && event.isError()) return true;
  return false;
}

Trail::Trail(const Evidence& evidence, const Ranks& ranks)
    : evidence_(evidence), job_(evidence.job()), ranks_(ranks) {
  const Job& job = job_;
  for (std::size_t i = 0; i < job.processes.size(); ++i) {
    const Process& process = job.processes[i];
    processes_.emplace(process.host + ":" + process.pid, static_cast<int>(i));
    // On a software machine peers name the host that the process plays.
    const auto played = process.settings.find("RAILWISE_HOST");
    if (played != process.settings.end())
      processes_.emplace(played->second.value + ":" + process.pid, static_cast<int>(i));
  }
  for (const Event& event : job.events) {
    if (event.process < 0) continue;
    if (const int peer = peerOf(event); peer >= 0 && peer != event.process)
      blames_.emplace(event.process, peer);
  }
}

// Railwise: "mlx5_0: connection from node2.cluster:4711 (mlx5_0): ..."; NCCL writes host names up to the
// first dot.
int Trail::peerOf(const Event& event) const {
  for (const std::string_view key : {": connection from ", ": connection to "}) {
    const std::string_view name = firstWord(after(event.line.value, key), " ,;");
    const std::size_t colon = name.rfind(':');
    if (colon == std::string_view::npos) continue;
    const std::string pid(name.substr(colon));
    const std::string_view host = name.substr(0, colon);
    for (const std::string_view written : {host, firstWord(host, ".")}) {
      const auto process = processes_.find(std::string(written) + pid);
      if (process != processes_.end()) return process->second;
    }
  }
  return -1;
}

// NCCL's own: "10.0.0.2<41000>" in the line.
std::string Trail::hostText(const Event& event) const {
  const std::string& text = event.line.value;
  const std::size_t bracket = text.find('<');
  if (bracket == std::string::npos) return "";
  const std::size_t begin = text.find_last_of(" (=", bracket) + 1;
  const std::string address = text.substr(begin, bracket - begin);
  const std::string host = evidence_.hostOf(address);
  return host.empty() ? "" : " The peer " + address + " is " + host + ".";
}

std::string Trail::textOf(const Event& event) const {
  int at = peerOf(event);
  if (at < 0) return hostText(event);
  std::vector<int> chain = {at};
  std::set<int> seen = {event.process, at};
  for (auto next = blames_.find(at); next != blames_.end() && seen.insert(next->second).second;
       next = blames_.find(at))
    chain.push_back(at = next->second);
  std::string text = " It blames " + ranks_.label(chain.front());
  constexpr std::size_t kMostShown = 4;
  if (chain.size() > kMostShown) {
    text += ", and so on over " + std::to_string(chain.size() - 2) + " others to " + ranks_.label(at);
  } else {
    for (std::size_t i = 1; i < chain.size(); ++i) text += ", and that one " + ranks_.label(chain[i]);
  }
  return text + (hasErrors(job_, at) ? "." : ", whose log has no error: look there first.");
}

// A consequence may be logged a moment before its cause, on another rank.
constexpr double kSameMomentS = 5;
constexpr double kNever = 1e12;

// A line without a time that has none by its nature: of Python, a launcher, or the kernel since its boot.
bool isOfOthers(const Event& event) {
  static constexpr std::string_view kChecks[] = {"framework-error", "program-error", "process-killed",
                                                 "gpu-fault",       "host-fault",    "nic-fault",
                                                 "pcie-error",      "iommu-fault"};
  return std::ranges::find(kChecks, event.check) != std::end(kChecks);
}

// A cause without a time beside errors with times: plain dmesg, a launcher's report.
bool isUntimedCause(const Event& event) {
  return event.isError() && event.kind == EventKind::kCause && secondsOf(event.time) < 0;
}

// Times are compared where every error that NCCL has logged has one of the same form, and what has none (an
// exception of Python) comes last; else the order of the lines counts.
class Order {
 public:
  explicit Order(const std::vector<Event>& events) {
    std::size_t with_day = 0, with_time = 0, without = 0;
    for (const Event& event : events) {
      if (!event.isError()) continue;
      if (secondsOf(event.time) < 0) {
        without += isOfOthers(event) ? 0 : 1;
        untimed_cause_ = untimed_cause_ || isUntimedCause(event);
        continue;
      }
      ++with_time;
      with_day += event.time.find(' ') != std::string::npos ? 1 : 0;
    }
    timed_ = with_time > 0 && without == 0 && (with_day == 0 || with_day == with_time);
  }
  bool timed() const { return timed_; }
  // May the report say that one error came later than another?
  bool certain() const { return timed_ && !untimed_cause_; }
  bool before(const Event& a, const Event& b) const {
    const auto key = [&](const Event& event) {
      // Without times a warning whose meaning is known tells more.
      return std::tuple(timed_ ? (event.time.empty() ? kNever : secondsOf(event.time)) : 0.0,
                        !timed_ && event.check == "unknown-warning", event.line.place.file,
                        event.line.place.line);
    };
    return key(a) < key(b);
  }

 private:
  bool timed_ = false;
  bool untimed_cause_ = false;
};

void addSeen(const Ranks& ranks, const Event& event, std::vector<Seen>& seen) {
  const std::string label = ranks.label(event);
  seen.push_back({label, ranks.placeText(event.line.place), event.line.value});
  if (event.repeated > 0) seen.back().value += " (" + std::to_string(event.repeated) + " more alike)";
  for (const Fact& also : event.also) seen.push_back({label, ranks.placeText(also.place), also.value});
}

Severity severityOf(const Event& event) {
  if (event.kind == EventKind::kCause) return Severity::kError;
  return event.kind == EventKind::kRemark ? Severity::kWarning : Severity::kAdvice;
}

std::string laterText(const Event& event, const Order& order) {
  if (event.kind == EventKind::kConsequence) return "a consequence, as a rule: " + event.what;
  if (event.kind != EventKind::kCause) return event.what;
  return (order.certain() ? "a later error: " : "another error: ") + event.what;
}

// The process group of PyTorch in "[PG ID 0 PG GUID 0(default_pg) Rank 3] Watchdog caught ...". "": not
// named.
std::string_view processGroup(const Event& event) {
  const std::string_view group = after(event.line.value, "[PG ");
  return group.substr(0, group.find(" Rank "));
}

// The events of PyTorch's watchdog in one process group, each the first of its collective, by the
// collective's number.
std::map<int, const Event*> collectivesLike(const Job& job, const Event& like) {
  std::map<int, const Event*> collectives;
  for (const Event& event : job.events)
    if (const int number = numberAfter(event.line.value, "SeqNum=");
        event.check == "watchdog" && number >= 0 && processGroup(event) == processGroup(like))
      collectives.emplace(number, &event);
  return collectives;
}

// The ranks of which PyTorch's watchdog has told.
std::set<int> ranksOfWatchdog(const Job& job, const Ranks& ranks) {
  std::set<int> told;
  for (const Event& event : job.events) {
    if (event.check != "watchdog") continue;
    if (event.rank >= 0) told.insert(event.rank);
    else if (event.process >= 0)
      for (const int rank : ranks.of(event.process)) told.insert(rank);
  }
  return told;
}

// How far they were.
std::string watchdogText(const Job& job, const Ranks& ranks, const Event& event) {
  const std::map<int, const Event*> collectives = collectivesLike(job, event);
  std::string text;
  if (collectives.size() > 1) {
    const auto& [least, behind] = *collectives.begin();
    const auto& [most, ahead] = *collectives.rbegin();
    text = " " + ranks.label(*behind) + " waits in number " + std::to_string(least) + ", " +
           ranks.label(*ahead) + " in number " + std::to_string(most) + ".";
  }
  const std::set<int> told = ranksOfWatchdog(job, ranks);
  const Gaps silent = gapsOf(told, ranks.size());
  if (!told.empty() && silent.count > 0 && job.deduplicated.value.empty())
    text += " Nothing of it from rank " + silent.text + ".";
  return text;
}

// The watchdog names the ranks that wait. The other ranks with a log are silent: the named ones wait for
// them. Where many ranks are silent this says nothing.
void blameSilent(const Job& job, const Ranks& ranks, Finding& finding) {
  constexpr std::size_t kFew = 4;
  const std::set<int> told = ranksOfWatchdog(job, ranks);
  std::vector<int> silent;
  std::ranges::set_difference(ranks.seen(), told, std::back_inserter(silent));
  if (silent.empty() || silent.size() > std::min(kFew, told.size()) || !job.deduplicated.value.empty())
    return;
  finding.what += ", without " + joined(silent, ", ", [&](int rank) { return ranks.labelOfRank(rank); });
}

// The number of the queue pair that "Got CQE with error" names.
std::string queuePairText(const Situation& situation) {
  const int number = numberAfter(situation.line, "qp_num=");
  return number < 0 ? "" : " It is queue pair " + std::to_string(number) + ".";
}

// What the rest of the logs adds to the explanation of an event.
Advice reasonOf(const Evidence& evidence, const Ranks& ranks, const Trail& trail, const Event& event) {
  const Job& job = evidence.job();
  const Situation situation(evidence, event.process, &event);
  Advice advice = adviceOf(situation, event.check, {event.why, event.fix});
  advice.why += trail.textOf(event) + queuePairText(situation) +
                (event.check == "watchdog" ? watchdogText(job, ranks, event) : "") +
                (event.end.empty() ? "" : " " + event.end);
  if (event.check != "one-sided-failed") return advice;
  const OneSidedReason found = whyNotOneSided(job, ranks, event.process);
  advice.why += found.why;
  if (!found.fix.empty()) advice.fix = found.fix;
  return advice;
}

// One cause, which several ranks have met at about one time.
bool isSameCause(const Event& a, const Event& b) {
  constexpr double kFarS = 600;
  return a.kind == EventKind::kCause && b.kind == EventKind::kCause && a.check == b.check &&
         a.what == b.what && std::abs(secondsBetween(a.time, b.time).value_or(0)) < kFarS;
}

// Ranks whose communicator was begun and never completed, behind a cause.
std::string unfinishedText(const Ranks& ranks) {
  std::set<int> waiting;
  for (const auto& [index, process] : ranks.members())
    for (const Init& init : process.inits)
      if (!init.complete && ranks.isWorld(init)) waiting.insert(init.rank);
  if (waiting.empty()) return "";
  return " The communicator was never completed: " + std::string(waiting.size() == 1 ? "rank " : "ranks ") +
         rangesText(waiting) + " did not come to its end.";
}

void addFirst(const Evidence& evidence, const Ranks& ranks, const Trail& trail, int index, const Order& order,
              Findings& findings) {
  const Job& job = evidence.job();
  const Event& first = job.events[static_cast<std::size_t>(index)];
  std::set<std::string> later_ranks;
  std::size_t later = 0;
  Finding finding = {.check = first.check,
                     .severity = Severity::kError,
                     .what = "first error of the job: " + first.what,
                     .seen = {}};
  addSeen(ranks, first, finding.seen);
  for (const Event& event : job.events) {
    if (&event == &first || !event.isError()) continue;
    if (isSameCause(first, event)) {
      addSeen(ranks, event, finding.seen);
      continue;
    }
    ++later;
    if (event.process >= 0 || event.rank >= 0) later_ranks.insert(ranks.label(event));
  }
  if (first.check == "watchdog") blameSilent(job, ranks, finding);
  const Advice advice = reasonOf(evidence, ranks, trail, first);
  finding.why = advice.why;
  finding.fix = advice.fix;
  if (first.kind == EventKind::kConsequence) {
    finding.why +=
        " The logs have no earlier error: the cause lies with a rank that wrote none, or was killed.";
    if (finding.fix == kLookAtFirst)
      finding.fix = "look at the launcher's output, the nodes' dmesg and the logs of ranks that are not here";
  }
  if (explainsWaiting(job, ranks)) finding.why += unfinishedText(ranks);
  if (later > 0)
    finding.why +=
        " " + counted(later, "other error", "other errors") +
        (later_ranks.empty() ? "" : " of " + counted(later_ranks.size(), "rank", "ranks")) +
        (order.certain() ? " came later."
                         : " may be consequences: the logs have no times, or not for every error.");
  findings.add(std::move(finding));
}

// Passed-up errors of ranks that warned of nothing.
void addTraces(const Ranks& ranks, Findings& findings) {
  for (const auto& [process, its] : ranks.members()) {
    if (its.warnings > 0 || its.error_trace.empty()) continue;
    findings.add("error-trace", Severity::kWarning,
                 "NCCL's functions passed an error up, and no warning says why",
                 {ranks.seenAt(process, its.error_trace.front())},
                 "1 is ncclUnhandledCudaError, 2 ncclSystemError, 3 ncclInternalError, 4 "
                 "ncclInvalidArgument, 5 ncclInvalidUsage, 6 ncclRemoteError.",
                 "export NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=ALL");
  }
}

// The error that came first; index into Job::events, -1: there is none.
int earliestError(const Job& job) {
  const Order order(job.events);
  int first = -1, cause = -1;
  for (std::size_t i = 0; i < job.events.size(); ++i) {
    const Event& event = job.events[i];
    if (!event.isError()) continue;
    const auto earlier = [&](int than) {
      return than < 0 || order.before(event, job.events[static_cast<std::size_t>(than)]);
    };
    if (earlier(first)) first = static_cast<int>(i);
    if (event.kind == EventKind::kCause && earlier(cause)) cause = static_cast<int>(i);
  }
  if (cause < 0 || !order.timed()) return cause < 0 ? first : cause;
  if (job.events[static_cast<std::size_t>(cause)].time.empty()) return cause;
  const double gap = secondsOf(job.events[static_cast<std::size_t>(cause)].time) -
                     secondsOf(job.events[static_cast<std::size_t>(first)].time);
  const int timed = gap <= kSameMomentS ? cause : first;
  // What has no time keeps its place in the order of files and lines.
  for (int i = 0; i < timed; ++i)
    if (isUntimedCause(job.events[static_cast<std::size_t>(i)])) return i;
  return timed;
}

}  // namespace

int firstError(const Job& job) {
  const int earliest = earliestError(job);
  if (earliest < 0) return -1;
  const Event& event = job.events[static_cast<std::size_t>(earliest)];
  if (event.check != "watchdog") return earliest;
  // Each rank's watchdog has its own clock: who is behind the others comes first.
  const std::map<int, const Event*> collectives = collectivesLike(job, event);
  return collectives.size() < 2 ? earliest
                                : static_cast<int>(collectives.begin()->second - job.events.data());
}

bool explainsWaiting(const Job& job, const Ranks& ranks) {
  const int first = firstError(job);
  if (first < 0) return false;
  const Event& event = job.events[static_cast<std::size_t>(first)];
  // Who could not be reached may be the one that is missing.
  const bool of_peer = event.check.starts_with("connection-") && gapsOf(ranks.seen(), ranks.size()).count > 0;
  return event.kind == EventKind::kCause && !of_peer;
}

void judgeErrors(const Evidence& evidence, const Ranks& ranks, Findings& findings) {
  const Job& job = evidence.job();
  const int first = firstError(job);
  const Order order(job.events);
  const Trail trail(evidence, ranks);
  if (first >= 0) addFirst(evidence, ranks, trail, first, order, findings);
  // Alike events are one finding, whatever their fix repeats of the line.
  std::map<std::string, Finding> alike;
  std::vector<std::string> keys;
  for (std::size_t i = 0; i < job.events.size(); ++i) {
    const Event& event = job.events[i];
    if (static_cast<int>(i) == first || event.of_network) continue;
    if (first >= 0 && isSameCause(event, job.events[static_cast<std::size_t>(first)])) continue;
    const std::string what = laterText(event, order);
    const std::string key = event.check + " " + what;
    auto known = alike.find(key);
    if (known == alike.end()) {
      auto [why, fix] = reasonOf(evidence, ranks, trail, event);
      keys.push_back(key);
      known = alike
                  .emplace(key, Finding{.check = event.check,
                                        .severity = severityOf(event),
                                        .what = what,
                                        .seen = {},
                                        .why = why,
                                        .fix = fix})
                  .first;
    }
    addSeen(ranks, event, known->second.seen);
  }
  for (const std::string& key : keys) findings.add(alike.at(key));
  addTraces(ranks, findings);
}

}  // namespace railwise::doctor
