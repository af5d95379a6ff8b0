// One event, however many lines tell of it: a wrapper and its caller, the two lines of a failed completion,
// and what is only a consequence become one, with what became of the process.
#include <algorithm>
#include <map>
#include <utility>

#include "doctor/log/judging/evidence.h"
#include "doctor/log/reading/line.h"

namespace railwise::doctor {
namespace {

// A wrapper's line and its caller's stand together; other threads may write in between.
constexpr uint64_t kNearLines = 64;

bool isAfter(Place place, Place than) { return place.file == than.file && place.line > than.line; }

bool isNear(const Event& a, const Event& b) {
  const Place one = a.line.place, other = b.line.place;
  return one.file == other.file &&
         std::max(one.line, other.line) - std::min(one.line, other.line) <= kNearLines;
}

// "transport/net.cc:1302 -> 6": what NCCL's functions have passed up since the event. 0: nothing.
int passedUp(const Process& process, const Event& event) {
  for (const Fact& trace : process.error_trace)
    if (isAfter(trace.place, event.line.place)) return std::max(0, leadingNumber(after(trace.value, " -> ")));
  return 0;
}

// These end a communicator, whatever another communicator of the process does.
bool endsCommunicator(const Event& event) {
  static constexpr std::string_view kChecks[] = {"completion-error", "port-event", "mismatched-collective",
                                                 "message-truncated", "process-killed"};
  return std::ranges::find(kChecks, event.check) != std::end(kChecks);
}

bool inTheEnd(const Process& process) {
  return std::ranges::all_of(process.inits, [](const Init& init) { return init.complete; });
}

// A process that writes nothing more for so long, while others do, stands still or was killed.
constexpr double kSilentS = 300;
constexpr double kDayS = 86400;

// NICs try for so long to send a packet again, with the longest NCCL_IB_TIMEOUT that people set.
constexpr double kLongestRetriesS = 300;
constexpr double kLongBeforeS = 60;

// That the process hangs after the event, and what shows it. "": nothing does.
// `of_process`: its events, as positions in Job::events. `last`: seconds of the last line of the job.
std::string hangText(const Job& job, const std::vector<std::size_t>& of_process, double last,
                     const Process& process, const Event& event) {
  if (event.check == "watchdog") return "The process hangs: its collective never completed.";
  bool ended = false;  // as PyTorch or the launcher says
  for (const std::size_t at : of_process) {
    const Event& other = job.events[at];
    ended = ended || other.check == "framework-error" || other.check == "process-killed";
    if (other.check == "watchdog" &&
        (other.line.place.file != event.line.place.file || isAfter(other.line.place, event.line.place)))
      return "The process hangs after it: its next collective never completed, as PyTorch's watchdog says.";
  }
  const double own = secondsOf(process.last_time);
  // The year, and of some logs the day, is not known: a long gap may be none.
  const double longest = own < kDayS ? kDayS / 2 : 20 * kDayS;
  if (ended || own < 0 || last - own < kSilentS || last - own > longest) return "";
  return "The process hangs after it, or has ended: it writes nothing more, while others go on for " +
         std::to_string(static_cast<int>((last - own) / 60)) + " min.";
}

// What a warning means hangs on what its process did later.
void weigh(const Job& job, const std::vector<std::size_t>& of_process, double last, const Process& process,
           Event& event) {
  if (event.railwise) return;  // its own words tell
  const int passed = passedUp(process, event);
  const Place at = event.line.place;
  // A row of nccl-tests is written when all ranks have completed it.
  const bool on =
      isAfter(process.progress, at) || job.files[static_cast<std::size_t>(at.file)].last_result > at.line;
  // NCCL goes on with the next NIC.
  if (event.check == "device-closed" && !process.network.empty() && process.network != "Socket")
    event.kind = EventKind::kRemark;
  constexpr int kSystemError = 2;  // ncclSystemError
  if (event.check == "plugin-warning" && passed == kSystemError && !on) event.kind = EventKind::kCause;
  const bool closed = isAfter(process.closed, event.line.place);
  // A warning of unknown weight that an orderly end follows was none that kills.
  const bool went_on = event.check == "unknown-warning"
                           ? on || closed
                           : on && passed == 0 && inTheEnd(process) && !endsCommunicator(event);
  if (went_on && event.kind == EventKind::kCause) {
    event.kind = EventKind::kRemark;
    event.end = "The process went on after it.";
  } else if (event.isError() && passed > 0) {
    event.end = "NCCL passed it up as " + std::string(resultName(passed)) + ".";
  } else if (const std::string hang =
                 event.isError() ? hangText(job, of_process, last, process, event) : std::string();
             !hang.empty()) {
    event.end = hang;
  } else if (event.kind == EventKind::kCause && closed && !on) {
    event.end =
        "Nothing after it shows that the process went on: the log has only the end of a communicator.";
  }
}

class Chains {
 public:
  explicit Chains(Job& job) : job_(job) {
    for (std::size_t i = 0; i < job.events.size(); ++i)
      if (job.events[i].process >= 0) of_[job.events[i].process].push_back(i);
  }

  void join() {
    const std::string begin = beginOfJob();
    excuseLinks(begin);
    excuseEarlier(begin);
    for (const auto& [process, events] : of_) joinWithin(events);
    double last = -1;
    for (const Process& process : job_.processes) last = std::max(last, secondsOf(process.last_time));
    for (const auto& [process, events] : of_)
      for (const std::size_t at : events)
        if (!joined(at))
          weigh(job_, events, last, job_.processes[static_cast<std::size_t>(process)], job_.events[at]);
    for (const auto& [process, events] : of_) explainNetwork(process, events);
    for (const auto& [process, events] : of_) joinConsequences(events);
    const Evidence evidence(job_);
    const std::map<std::string, std::size_t> causes = firstCauses();
    for (const auto& [process, events] : of_) joinLostConnections(evidence, causes, process, events);
    blameNode();
    excuseExceptions();
    excusePorts();
    std::erase_if(job_.events, [](const Event& event) { return event.check.empty(); });
  }

 private:
  bool joined(std::size_t at) const { return job_.events[at].check.empty(); }

  void joinInto(std::size_t at, std::size_t head) {
    Event& event = job_.events[at];
    Event& into = job_.events[head];
    into.also.push_back(event.line);
    into.also.insert(into.also.end(), event.also.begin(), event.also.end());
    event.check.clear();
  }

  // A verbs call that failed, then who had called it; "Got CQE with error", then the completion's status.
  void joinWithin(const std::vector<std::size_t>& events) {
    std::size_t head = 0;  // the last event that was joined into no other
    for (std::size_t i = 1; i < events.size(); ++i) {
      const Event& one = job_.events[events[head]];
      const Event& next = job_.events[events[i]];
      const std::size_t first = std::exchange(head, i);
      if (!isNear(one, next)) continue;
      static constexpr std::string_view kCallers = "net_ib|Unable to open device|GID";
      const bool wrapper =
          one.check == "verbs-call" && next.check != "verbs-call" && hasWords(next.line.value, kCallers);
      const bool raw = one.check == "completion-error" && next.check == "completion-error" &&
                       completionStatus(one.line.value) < 0 && completionStatus(next.line.value) > 0;
      // The caller says it again in its own words.
      const bool same_call = one.kind == EventKind::kCause && next.kind == EventKind::kCause &&
                             !one.railwise && one.check != "completion-error" &&
                             (next.check == "inner-check" || next.check == one.check);
      if (wrapper || raw) {
        joinInto(events[first], events[i]);
      } else if (same_call) {
        joinInto(events[i], events[first]);
        head = first;
      }
    }
  }

  // Why the network is Socket: the finding of it tells.
  void explainNetwork(int process, const std::vector<std::size_t>& events) {
    if (job_.processes[static_cast<std::size_t>(process)].network != "Socket") return;
    for (const std::size_t at : events) {
      Event& event = job_.events[at];
      event.of_network = event.check == "device-closed" ||
                         (event.check == "plugin-warning" && event.end.empty()) ||
                         (event.check == "verbs-call" && hasWords(event.line.value, "ibv_open_device"));
    }
  }

  static bool isConsequence(const Event& event) {
    return event.kind == EventKind::kConsequence &&
           (event.check == "proxy-failed" || event.check == "connection-closed" ||
            event.check == "inner-check");
  }

  // Behind a cause in one process.
  void joinConsequences(const std::vector<std::size_t>& events) {
    std::size_t cause = job_.events.size();
    for (const std::size_t at : events) {
      const Event& event = job_.events[at];
      if (event.check.empty() || event.railwise) continue;
      if (event.kind == EventKind::kCause && !event.of_network) cause = at;
      else if (cause < job_.events.size() && isConsequence(event) &&
               isAfter(event.line.place, job_.events[cause].line.place))
        joinInto(at, cause);
    }
  }

  // By host.
  std::map<std::string, std::size_t> firstCauses() const {
    std::map<std::string, std::size_t> causes;
    for (std::size_t i = 0; i < job_.events.size(); ++i) {
      const Event& event = job_.events[i];
      if (event.process >= 0 && event.kind == EventKind::kCause && !event.check.empty())
        causes.emplace(job_.processes[static_cast<std::size_t>(event.process)].host, i);
    }
    return causes;
  }

  // A connection that a host closed whose log has the cause.
  void joinLostConnections(const Evidence& evidence, const std::map<std::string, std::size_t>& causes,
                           int process, const std::vector<std::size_t>& events) {
    for (const std::size_t at : events) {
      const Event& event = job_.events[at];
      if (event.check != "connection-closed" || event.railwise) continue;
      const std::string peer = Situation(evidence, process, &event).peer_host;
      const auto cause = causes.find(peer);
      if (cause != causes.end() && job_.events[cause->second].process != process) joinInto(at, cause->second);
    }
  }

  // Slurm kills the ranks of a node that has failed, and of the others.
  void blameNode() {
    const auto failed = [](const Event& event) {
      return event.check == "process-killed" && hasWords(event.line.value, "Node failure on|NODE FAILURE");
    };
    if (std::ranges::none_of(job_.events, failed)) return;
    for (Event& event : job_.events)
      if (hasWords(event.line.value, "srun: error&Killed")) event.kind = EventKind::kConsequence;
  }

  // A program may log a traceback and go on, as without a module that it can do without; a launch may be
  // tried again.
  void excuseExceptions() {
    std::map<int, uint64_t> progress;  // by file: the last line that shows some
    for (const Process& process : job_.processes) {
      if (!inTheEnd(process)) return;
      uint64_t& last = progress[process.progress.file];
      last = std::max(last, process.progress.line);
    }
    for (Event& event : job_.events) {
      const auto last = progress.find(event.line.place.file);
      const bool may_go_on = event.check == "program-error" || event.check == "launcher-failed";
      if (!may_go_on || event.process >= 0 || event.rank >= 0 || last == progress.end() ||
          last->second < event.line.place.line)
        continue;
      event.kind = EventKind::kRemark;
      event.end = "The job went on after it.";
    }
  }

  // The time of the job's first line, where a log has its begin. "": not known.
  std::string beginOfJob() const {
    std::string first;
    for (const Process& process : job_.processes)
      if (!process.inits.empty() && secondsOf(process.first_time) >= 0 &&
          (first.empty() || secondsOf(process.first_time) < secondsOf(first)))
        first = process.first_time;
    return first;
  }

  // Has the event a check that lines of the kernel have? NCCL's own lines about a port are of "port-event"
  // too.
  static bool isOfKernel(const Event& event) {
    static constexpr std::string_view kChecks[] = {"port-event", "nic-fault",   "gpu-fault",     "host-fault",
                                                   "pcie-error", "iommu-fault", "process-killed"};
    return std::ranges::find(kChecks, event.check) != std::end(kChecks);
  }

  // Links that came up again are no error, as while a host boots, unless a connection of the job may have
  // waited for them.
  void excuseLinks(const std::string& begin) {
    bool broke = false, timed = true;
    std::string first;
    for (const Event& event : job_.events) {
      const bool of_job = event.isError() && (event.process >= 0 || event.check == "watchdog") &&
                          event.check != "program-error" && !isOfKernel(event);
      broke = broke || of_job;
      // A watchdog speaks long after the connection broke.
      timed = timed && (!of_job || (event.check != "watchdog" && secondsOf(event.time) >= 0));
      if (of_job && (first.empty() || secondsOf(event.time) < secondsOf(first))) first = event.time;
    }
    for (Event& event : job_.events) {
      if (!event.link_up) continue;
      const bool long_before =
          timed && secondsBetween(event.link_up_time, first).value_or(0) > kLongestRetriesS;
      if (broke && !long_before && secondsBetween(event.link_up_time, begin).value_or(0) <= 0) continue;
      event.kind = EventKind::kHarmless;
      event.end = "The link came up again.";
    }
  }

  // What the kernel logged long before the job began ended nothing of it; it may still matter.
  void excuseEarlier(const std::string& begin) {
    for (Event& event : job_.events) {
      const double seconds = secondsBetween(event.time, begin).value_or(0);
      if (!isOfKernel(event) || !event.isError() || seconds < kLongBeforeS) continue;
      event.kind = EventKind::kRemark;
      event.end = "It came " + std::to_string(static_cast<int>(seconds / 60)) + " min before the job began.";
    }
  }

  // A port that failed, in a job all of whose ranks have come to their end, without another error.
  void excusePorts() {
    bool ended = false;
    for (const Process& process : job_.processes) {
      if (process.inits.empty()) continue;
      if (process.closed.line == 0 || !inTheEnd(process)) return;
      ended = true;
    }
    const auto isOther = [](const Event& event) { return event.isError() && event.check != "port-event"; };
    if (!ended || std::ranges::any_of(job_.events, isOther)) return;
    for (Event& event : job_.events) {
      if (event.check != "port-event" || !event.isError()) continue;
      event.kind = EventKind::kRemark;
      event.end = "These ranks came to their end: no connection has failed.";
    }
  }

  Job& job_;
  std::map<int, std::vector<std::size_t>> of_;  // events by process
};

}  // namespace

void joinChains(Job& job) { Chains(job).join(); }

}  // namespace railwise::doctor
