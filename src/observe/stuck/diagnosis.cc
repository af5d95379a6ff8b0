#include "observe/stuck/diagnosis.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <numeric>
#include <set>
#include <string_view>
#include <tuple>

#include "observe/stuck/facts.h"
#include "observe/stuck/job.h"

namespace railwise::observe {
namespace {

using record::ConnectionState;

constexpr std::size_t kMostDetails = 5;
constexpr std::size_t kShownRanks = 8;

// A rank that has signalled nothing for so long is worth a line.
constexpr uint64_t kQuietMs = 2000;

// Last signs of life that are so close do not tell who died first.
constexpr uint64_t kSameTimeMs = 2 * record::kBeat.count();

// A job that died so long ago is no news.
constexpr uint64_t kLatelyMs = 600000;

int certainty(const Culprit& culprit) {
  // A host that does not answer: perhaps no rank is there.
  if (culprit.kind == CulpritKind::kSilentHost && culprit.processes.empty()) return 2;
#define RAILWISE_CERTAINTY(kind, certainty, ...) certainty,
  constexpr int kCertainties[] = {RAILWISE_CULPRITS(RAILWISE_CERTAINTY)};
#undef RAILWISE_CERTAINTY
  return kCertainties[static_cast<std::size_t>(culprit.kind)];
}

// What waits the longest comes first.
template <typename Waits>
void sortByAge(std::vector<Waits>& all) {
  std::ranges::stable_sort(all, std::greater(),
                           [](const Waits& wait) { return wait.since_ms == kNever ? 0 : wait.since_ms; });
}

// An unknown age counts as none.
uint64_t longer(uint64_t a, uint64_t b) {
  if (a == kNever || b == kNever) return std::min(a, b);
  return std::max(a, b);
}

void addDetail(Culprit& culprit, const std::string& detail) {
  const auto& known = culprit.details;
  if (known.size() < kMostDetails && std::ranges::find(known, detail) == known.end())
    culprit.details.push_back(detail);
}

class Diagnoser {
 public:
  Diagnoser(const Job& job, const DiagnosisOptions& options)
      : job_(job), options_(options), processes_(static_cast<int>(job.processes().size())) {}

  Diagnosis diagnose() {
    for (int process = 0; process < processes_; ++process) look(process);
    for (const HostFacts& host : job_.hosts())
      if (!host.error.empty()) addCulprit(silentHost(host));
    follow();
    countWaiters();
    sortAll();
    takeCensus();
    lookAtRails();
    lookForQuietWriters();
    addNotes();
    result_.stuck = !result_.culprits.empty();
    result_.verdict = result_.stuck ? stuckVerdict() : calmVerdict();
    return std::move(result_);
  }

 private:
  const ProcessFacts& process(int place) const { return job_.process(place); }

  // Finds the waits of one process.
  void look(int place) {
    const ProcessFacts& own = process(place);
    if (!own.alive) {
      // Its number may belong to another process of the job now.
      const bool asked_for = !options_.pids.empty() && job_.processNamed(processKey(own)) == place;
      if (asked_for && !own.ended) addCulprit(deadProcess(job_, place));
      return;
    }
    ++result_.processes;
    uint64_t moved = 0;
    for (int i = 0; i < static_cast<int>(own.connections.size()); ++i) {
      const ConnectionFacts& connection = own.connections[static_cast<std::size_t>(i)];
      if (connection.side == record::Side::kReceiver) moved += connection.moved;
      // What a stopped process waited for is of the past.
      auto finding = isStopped(own) ? std::nullopt : whyItWaits(job_, {place, i});
      if (finding) take(std::move(*finding));
      else lookAtPeer({place, i});
    }
    if (!own.slow_setup.empty())
      addCulprit(slowSetup(job_, place, "waits for peers while its connections come up"));
    if (isStopped(own) && !own.connections.empty()) addCulprit(stoppedProcess(job_, place));
    if (own.between_ms > 0) result_.messages_per_s += moved * 1000 / own.between_ms;
  }

  // A peer that has died is a finding before anything waits for it.
  void lookAtPeer(End end) {
    const int peer = job_.otherEnd(end).process;
    if (peer >= 0 && !process(peer).alive && !process(peer).ended) addCulprit(deadProcess(job_, peer));
  }

  // A connection that waits for several culprits is one wait for each.
  void take(Finding finding) {
    if (finding.culprits.empty()) {
      result_.waits.push_back(finding.wait);
      return;
    }
    for (Culprit& culprit : finding.culprits) {
      finding.wait.culprit = addCulprit(std::move(culprit));
      result_.waits.push_back(finding.wait);
    }
  }

  // Culprits with one key are one: it gets the details of all.
  int addCulprit(Culprit culprit) {
    const auto [found, added] = by_key_.emplace(culprit.key, static_cast<int>(result_.culprits.size()));
    if (added) {
      result_.culprits.push_back(std::move(culprit));
    } else {
      Culprit& known = result_.culprits[static_cast<std::size_t>(found->second)];
      for (const std::string& detail : culprit.details) addDetail(known, detail);
    }
    return found->second;
  }
  int culpritNode(int culprit) const { return processes_ + culprit; }

  // Builds the graph of waits and finds where its chains end.
  void follow() {
    graph_.assign(static_cast<std::size_t>(processes_) + result_.culprits.size(), {});
    for (int culprit = 0; culprit < static_cast<int>(result_.culprits.size()); ++culprit) linkOwn(culprit);
    for (const Wait& wait : result_.waits) link(wait);
    for (auto& next : graph_) {
      std::ranges::sort(next);
      next.erase(std::unique(next.begin(), next.end()), next.end());
    }
    const std::vector<bool> waited_for = waitedFor();
    for (const std::vector<int>& root : rootsOf(graph_)) addRoot(root, waited_for);
  }
  // A process that is stopped, or does not call, waits for its own culprit. Its other waits are of the past.
  void linkOwn(int culprit) {
    const Culprit& own = result_.culprits[static_cast<std::size_t>(culprit)];
    const bool holds = own.kind == CulpritKind::kStoppedProcess || own.kind == CulpritKind::kIdleCaller ||
                       own.kind == CulpritKind::kHangingCall || own.kind == CulpritKind::kDeadProcess ||
                       own.kind == CulpritKind::kEndedProcess;
    if (own.process < 0 || (!holds && own.kind != CulpritKind::kHandshake)) return;
    graph_[static_cast<std::size_t>(own.process)].push_back(culpritNode(culprit));
    if (holds) held_.insert(own.process);
  }
  void link(const Wait& wait) {
    auto& next = graph_[static_cast<std::size_t>(wait.end.process)];
    if (held_.contains(wait.end.process)) return;
    if (wait.culprit >= 0) next.push_back(culpritNode(wait.culprit));
    else if (wait.other.process == wait.end.process) with_itself_.insert(wait.end.process);
    else if (wait.other.process >= 0) next.push_back(wait.other.process);
  }
  std::vector<bool> waitedFor() const {
    std::vector<bool> waited_for(graph_.size(), false);
    for (const auto& next : graph_)
      for (const int node : next) waited_for[static_cast<std::size_t>(node)] = true;
    for (const int node : with_itself_) waited_for[static_cast<std::size_t>(node)] = true;
    return waited_for;
  }
  void addRoot(const std::vector<int>& root, const std::vector<bool>& waited_for) {
    const int first = root.front();
    if (first >= processes_) return;  // a culprit already
    if (root.size() == 1 && !waited_for[static_cast<std::size_t>(first)]) return;
    Culprit culprit = root.size() == 1 ? lateProcess(first) : circle(root);
    roots_[addCulprit(std::move(culprit))] = root;
  }

  Culprit lateProcess(int place) const {
    const ProcessFacts& own = process(place);
    Culprit culprit = processCulprit(job_, place, CulpritKind::kLateProcess, "late ");
    const bool no_window = std::ranges::any_of(result_.waits, [&](const Wait& wait) {
      return wait.other.process == place && wait.why == Why::kNoWindow;
    });
    culprit.what = no_window ? "has not registered its part of a window that others put to"
                             : "does not call: its GPU or its application holds up the job";
    uint64_t moved = 0;
    uint64_t looked = kNever;
    int unfinished = 0;
    for (const ConnectionFacts& connection : own.connections) {
      moved += connection.moved;
      if (!isOneSided(connection)) looked = std::min(looked, connection.looked_ms);  // else Railwise's thread
      unfinished +=
          connection.state == ConnectionState::kConnecting || connection.state == ConnectionState::kListening;
    }
    if (unfinished > 0)
      culprit.details.push_back("it sets up a communicator: " +
                                counted(unfinished, "connection is", "connections are") + " not up yet");
    culprit.details.push_back("it waits for no peer: NCCL there has posted nothing that is open");
    if (moved > 0) culprit.details.push_back("its other connections move");
    else if (looked != kNever)
      culprit.details.push_back("NCCL last asked there for a message " + ageText(looked) + " ago");
    if (own.kernel_state == 'D')
      culprit.details.push_back("it is in the kernel and cannot be interrupted (D)");
    culprit.advice = "on " + own.host + ": " + pythonOr(own) + "; nvidia-smi; which collective is it in?";
    return culprit;
  }
  static std::string pythonOr(const ProcessFacts& own) {
    const std::string pid = std::to_string(own.pid);
    if (own.program.find("python") != std::string::npos) return "py-spy dump --pid " + pid;
    return "gdb -p " + pid + " -batch -ex 'thread apply all bt'";
  }

  Culprit circle(const std::vector<int>& members) const {
    Culprit culprit;
    culprit.kind = CulpritKind::kCircle;
    culprit.circle = circleIn(graph_, members);
    culprit.key = "circle " + std::to_string(members.front());
    culprit.process = culprit.circle.front();
    std::string way;
    for (std::size_t i = 0; i < std::min(culprit.circle.size(), kShownRanks); ++i)
      way += processName(process(culprit.circle[i])) + " waits for ";
    if (culprit.circle.size() > kShownRanks)
      way += counted(culprit.circle.size() - kShownRanks, "more", "more") + ", then ";
    culprit.name = counted(members.size(), "process", "processes");
    culprit.what = "wait for each other in a circle";
    culprit.details.push_back(way + processName(process(culprit.circle.front())));
    if (const int behind = furthestBehind(members); behind >= 0) {
      culprit.process = behind;
      culprit.details.push_back(processName(process(behind)) +
                                " has received more than it has passed on: look there first");
    }
    culprit.advice =
        "do all ranks call the same collectives in the same order, with the same sizes? Compare "
        "their stacks (py-spy dump)";
    return culprit;
  }
  // In a ring all send what they have received. The process that has completed more receives than it has sent
  // messages, by the most, keeps the others waiting. -1: no process stands out.
  int furthestBehind(const std::vector<int>& members) const {
    int most = -1;
    int64_t most_kept = 0;
    bool alone = false;
    for (const int member : members) {
      int64_t kept = 0;
      for (const ConnectionFacts& connection : process(member).connections) {
        if (connection.side == record::Side::kReceiver) kept += static_cast<int64_t>(connection.completed);
        if (connection.side == record::Side::kSender) kept -= static_cast<int64_t>(connection.posted);
      }
      if (kept < most_kept || kept <= 0) continue;
      alone = kept > most_kept;
      most_kept = kept;
      most = member;
    }
    return alone ? most : -1;
  }

  void countWaiters() {
    std::vector<std::set<std::pair<int, int>>> connections(result_.culprits.size());
    for (const Wait& wait : result_.waits) {
      const auto count = [&](int culprit) {
        if (culprit < 0) return;
        auto& own = result_.culprits[static_cast<std::size_t>(culprit)];
        connections[static_cast<std::size_t>(culprit)].insert({wait.end.process, wait.end.connection});
        own.since_ms = longer(own.since_ms, wait.since_ms);
      };
      count(wait.culprit >= 0 ? wait.culprit : culpritOf(wait.other.process));
    }
    for (std::size_t i = 0; i < result_.culprits.size(); ++i) {
      Culprit& culprit = result_.culprits[i];
      culprit.connections = static_cast<int>(connections[i].size());
      std::set<int> direct;
      for (const auto& [process, connection] : connections[i]) direct.insert(process);
      culprit.direct = static_cast<int>(direct.size());
      const auto root = roots_.find(static_cast<int>(i));
      const std::vector<int> goals =
          root != roots_.end() ? root->second : std::vector<int>{culpritNode(static_cast<int>(i))};
      culprit.processes = whoReaches(graph_, goals);
      if (culprit.process >= 0) std::erase(culprit.processes, culprit.process);
      if (culprit.kind == CulpritKind::kCircle)
        culprit.processes.insert(culprit.processes.end(), goals.begin(), goals.end());
    }
  }
  // The culprit that a process is, or that holds it; -1: none.
  int culpritOf(int place) const {
    for (std::size_t i = 0; i < result_.culprits.size(); ++i) {
      const Culprit& culprit = result_.culprits[i];
      const auto root = roots_.find(static_cast<int>(i));
      const bool is_root =
          root != roots_.end() && std::ranges::find(root->second, place) != root->second.end();
      const bool holds = culprit.process == place && culprit.kind != CulpritKind::kHandshake;
      if (is_root || holds) return static_cast<int>(i);
    }
    return -1;
  }

  // Several processes have died: who has seen no failure before made the others die, or who died first.
  // These are the dead that were asked for or are waited for.
  auto deathOrder(int place) const {
    const ProcessFacts& own = process(place);
    return std::tuple(!own.trouble.empty(), own.gone_ms == kNever,
                      own.gone_ms == kNever ? 0 : UINT64_MAX - own.gone_ms);
  }
  // Puts the dead in this order into the places that they have among all.
  void sortTheDead(std::vector<int>& order) {
    std::vector<int> dead;
    const auto at = [this](int place) -> Culprit& {
      return result_.culprits[static_cast<std::size_t>(place)];
    };
    const auto isDead = [&](int place) { return at(place).kind == CulpritKind::kDeadProcess; };
    std::ranges::copy_if(order, std::back_inserter(dead), isDead);
    if (dead.size() < 2) return;
    std::ranges::stable_sort(dead, {}, [&](int place) { return deathOrder(at(place).process); });
    Culprit& first = at(dead.front());
    const uint64_t first_ms = process(first.process).gone_ms;
    const uint64_t next_ms = process(at(dead[1]).process).gone_ms;
    const bool others_saw_it =
        process(first.process).trouble.empty() && !process(at(dead[1]).process).trouble.empty();
    const bool sure =
        others_saw_it || first_ms == kNever || (next_ms != kNever && next_ms + kSameTimeMs < first_ms);
    first.what += (sure ? "; it died first of " : "; it died at about the same time as others, of ") +
                  std::to_string(dead.size());
    for (const int place : dead) {
      const uint64_t gone_ms = process(at(place).process).gone_ms;
      if (place != dead.front() && first_ms != kNever && gone_ms < first_ms)
        at(place).details.push_back("that of " + first.name + " came " + ageText(first_ms - gone_ms) +
                                    " earlier");
    }
    auto next = dead.begin();
    for (int& place : order)
      if (isDead(place)) place = *next++;
  }

  void sortAll() {
    std::vector<int> order(result_.culprits.size());
    std::iota(order.begin(), order.end(), 0);
    const auto weight = [this](int place) {
      const Culprit& culprit = result_.culprits[static_cast<std::size_t>(place)];
      return std::tuple(certainty(culprit), -static_cast<int>(culprit.processes.size()), -culprit.connections,
                        std::string_view(culprit.name));
    };
    std::ranges::stable_sort(order, [&](int a, int b) { return weight(a) < weight(b); });
    sortTheDead(order);
    std::vector<int> new_place(order.size());
    std::vector<Culprit> sorted;
    for (const int old : order) {
      new_place[static_cast<std::size_t>(old)] = static_cast<int>(sorted.size());
      sorted.push_back(std::move(result_.culprits[static_cast<std::size_t>(old)]));
    }
    result_.culprits = std::move(sorted);
    for (Wait& wait : result_.waits)
      if (wait.culprit >= 0) wait.culprit = new_place[static_cast<std::size_t>(wait.culprit)];
    sortByAge(result_.waits);
  }

  // Which connections of living processes are up, and where the peers of the others are.
  void takeCensus() {
    std::map<std::string, Census::Missing> groups;
    std::map<std::string, std::set<std::string>> peers;  // of each group
    for (const ProcessFacts& own : job_.processes()) {
      if (!own.alive) continue;
      for (const ConnectionFacts& connection : own.connections) {
        const bool waits = connection.state == ConnectionState::kConnecting ||
                           connection.state == ConnectionState::kListening;
        ++result_.census.all;
        if (connection.state == ConnectionState::kRunning) ++result_.census.up;
        if (!waits) continue;
        const std::string name = missingName(own, connection);
        Census::Missing& group = groups[name];
        ++group.connections;
        if (!connection.peer.empty()) peers[name].insert(connection.peer);
        if (group.reason.empty()) group.reason = connection.reason;
        group.since_ms = longer(group.since_ms, connection.state_ms);
      }
    }
    for (auto& [name, group] : groups) {
      group.what = name;
      if (peers.contains(name))
        group.what += " (" + counted(peers[name].size(), "process", "processes") + ")";
      result_.census.missing.push_back(group);
    }
    sortByAge(result_.census.missing);
  }
  std::string missingName(const ProcessFacts& own, const ConnectionFacts& connection) const {
    if (connection.state == ConnectionState::kListening)
      return "a call to " + processName(own) + ": no peer has called";
    if (connection.peer.empty()) return "a peer of " + processName(own) + " that has not answered";
    const HostFacts* const host = job_.hostOf(connection.peer);
    const std::string name = hostOfPeer(connection.peer);
    if (host == nullptr) return name + ", which was not asked";
    return host->error.empty() ? name : name + ", which does not answer";
  }

  // Rails that are down, or that connections have left and not come back to. The processes of a host share
  // its rails.
  void lookAtRails() {
    struct Trouble : RailFacts {
      uint64_t processes = 0;
    };
    std::map<std::string, Trouble> troubles;
    for (const ProcessFacts& own : job_.processes()) {
      if (!own.alive) continue;
      for (std::size_t place = 0; place < own.rails.size(); ++place) {
        const RailFacts& rail = own.rails[place];
        const bool bad = record::isDown(rail.state);
        if (!bad && (rail.failovers == 0 || isUsed(own, static_cast<int>(place)))) continue;
        Trouble& trouble = troubles[railName(own, rail)];
        trouble.state = std::max(trouble.state, rail.state);
        if (bad) trouble.state_ms = longer(trouble.state_ms, rail.state_ms);
        trouble.errors += rail.errors;
        if (trouble.error.empty()) trouble.error = rail.error;
        trouble.failovers += rail.failovers;
        ++trouble.processes;
      }
    }
    for (const auto& [name, trouble] : troubles) {
      std::string text = name;
      text += trouble.state == record::RailState::kDown     ? ": down"
              : trouble.state == record::RailState::kFailed ? ": failed"
                                                            : ": its port is up";
      if (trouble.state_ms != kNever) text += " for " + ageText(trouble.state_ms);
      if (trouble.errors > 0)
        text += ", " + counted(trouble.errors, "error", "errors") + " (" + trouble.error + ")";
      if (trouble.failovers > 0)
        text += ", " + counted(trouble.failovers, "failover", "failovers") + " away from it";
      result_.rails.push_back(text + ", in " + counted(trouble.processes, "process", "processes"));
    }
  }

  // Does a connection that does not stand still run over this rail?
  static bool isUsed(const ProcessFacts& own, int rail) {
    return std::ranges::any_of(own.connections, [rail](const ConnectionFacts& connection) {
      return connection.state == ConnectionState::kRunning && !connection.still &&
             std::ranges::find(connection.pairs, rail, &record::Pair::rail) != connection.pairs.end();
    });
  }

  // A GPU that waits for a signal is not seen. But where a rank's signals have stopped and those of others go
  // on, it is the rank that is waited for; where all have stopped, the last one to signal tells how far it
  // came.
  void lookForQuietWriters() {
    for (int place = 0; place < processes_; ++place) {
      const ProcessFacts& own = process(place);
      if (!own.alive) continue;
      // A rank may put over several connections: its latest signal counts.
      std::map<std::pair<int, std::string>, QuietWriter> writers;
      uint64_t newest_ms = kNever;
      for (int i = 0; i < static_cast<int>(own.connections.size()); ++i) {
        const ConnectionFacts& target = own.connections[static_cast<std::size_t>(i)];
        if (!isOneSided(target) || target.side != record::Side::kReceiver ||
            target.state == ConnectionState::kConnecting || target.looked_ms >= kCallsWithinMs)
          continue;  // a process that does not look sees no signal
        newest_ms = std::min(newest_ms, target.last_signal_ms);
        const uint64_t since_ms = target.last_signal_ms != kNever ? target.last_signal_ms : target.state_ms;
        if (since_ms == kNever) continue;
        const End writer = job_.otherEnd({place, i});
        const auto key = std::pair(writer.process, writer.process < 0 ? target.peer : std::string());
        const auto [found, added] =
            writers.try_emplace(key, QuietWriter{.end = {place, i}, .writer = writer, .since_ms = since_ms});
        if (!added && since_ms < found->second.since_ms)
          found->second = {.end = {place, i}, .writer = writer, .since_ms = since_ms};
      }
      if (newest_ms == kNever) continue;  // nobody signals to it
      for (auto& [key, writer] : writers) {
        if (writer.since_ms < kQuietMs) continue;
        writer.newest_ms = newest_ms;
        result_.quiet.push_back(writer);
      }
    }
    sortByAge(result_.quiet);
  }

  void addNotes() {
    for (const HostFacts& host : job_.hosts()) {
      const std::string name = !host.asked.empty() ? host.asked : host.name;
      for (const std::string& note : host.notes) result_.notes.push_back(name + ": " + note);
    }
    addMissingRanks();
    addFailover();
    addDeadJob();
    uint64_t unrecorded = 0;
    for (const ProcessFacts& own : job_.processes()) unrecorded += own.alive ? own.unrecorded : 0;
    if (unrecorded > 0)
      result_.notes.push_back(counted(unrecorded, "connection has", "connections have") +
                              " no place in a record, and cannot be judged");
  }
  // Whether connections that wait may go over to another rail decides what happens next.
  void addFailover() {
    std::set<std::pair<int, int>> off;
    std::set<std::pair<int, int>> one_pair;
    for (const Wait& wait : result_.waits) {
      const ConnectionFacts& connection = job_.connection(wait.end);
      const auto its = std::pair(wait.end.process, wait.end.connection);
      if (connection.failover == record::Failover::kOff) off.insert(its);
      else if (connection.failover == record::Failover::kOn && connection.pairs.size() == 1)
        one_pair.insert(its);
    }
    if (!off.empty())
      result_.notes.push_back("failover is off for " +
                              counted(off.size(), "connection that waits", "connections that wait") +
                              " (RAILWISE_FAILOVER=0 at an end): the first failure that the NIC's "
                              "retries do not bridge ends the connection");
    if (!one_pair.empty())
      result_.notes.push_back(
          counted(one_pair.size(), "connection that waits uses", "connections that wait use") +
          " one rail pair: where it fails and no other NIC reaches the peer, the job waits "
          "RAILWISE_FAILOVER_TIMEOUT seconds and ends");
  }
  // Looks at a job whose processes agree on the number of ranks.
  void addMissingRanks() {
    std::set<int> present;
    int ranks = -1;
    for (const ProcessFacts& own : job_.processes()) {
      if (own.rank < 0 || own.ranks <= 0) continue;
      if (ranks >= 0 && own.ranks != ranks) return;
      ranks = own.ranks;
      present.insert(own.rank);
    }
    std::vector<int> missing;
    for (int rank = 0; rank < ranks; ++rank)
      if (!present.contains(rank)) missing.push_back(rank);
    if (missing.empty()) return;
    const bool one = missing.size() == 1;
    result_.notes.push_back((one ? "rank " : "ranks ") + someOf(missing) + " of " + std::to_string(ranks) +
                            (one ? " has" : " have") + " no record on the hosts that were asked");
  }

  std::string stuckVerdict() const {
    const Culprit& worst = result_.culprits.front();
    std::string text = worst.name + " " + worst.what;
    if (!worst.processes.empty()) {
      text += "; " + counted(worst.processes.size(), "process waits", "processes wait");
      text += worst.kind == CulpritKind::kCircle ? "" : " for it";
      if (worst.since_ms != kNever) text += ", the longest for " + ageText(worst.since_ms);
    }
    return text;
  }
  std::string calmVerdict() const {
    if (result_.processes == 0) return noProcess();
    const std::string who = counted(static_cast<uint64_t>(result_.processes), "process", "processes");
    if (result_.messages_per_s > 0) {
      std::string text =
          "nothing is stuck: " + who + ", " + counted(result_.messages_per_s, "message/s", "messages/s");
      if (!result_.rails.empty())
        text += "; " + counted(result_.rails.size(), "rail has", "rails have") + " failed";
      return text;
    }
    for (const ProcessFacts& own : job_.processes())
      for (const ConnectionFacts& connection : own.connections)
        if (own.alive && (record::hasOpenMessage(connection) || connection.moved > 0))
          return "nothing is stuck: " + who + " have open messages, and complete less than one a second";
    return "nothing is stuck: " + who + ", no message is open; if the job hangs, it hangs elsewhere";
  }
  // Records outlive their processes, and a process that is gone waits for nobody.
  std::string noProcess() const {
    const std::string where = job_.hosts().size() > 1 ? "on these hosts" : "here";
    if (processes_ == 0)
      return "no job runs " + where +
             ": no process of this user uses Railwise (another user's job: sudo -u USER railwise stuck), or "
             "its record cannot be written (a line of NCCL_DEBUG=INFO)";
    std::string text = "no job runs " + where + "; " +
                       counted(static_cast<uint64_t>(processes_), "record of a process that has ended",
                               "records of processes that have ended");
    const int first = firstDeathOfLastJob();
    return text + (first < 0 ? ", all in order" : "; of the last job " + deathText(first));
  }
  std::string deathText(int place) const {
    const ProcessFacts& own = process(place);
    const std::string stopped = stoppedBeforeText(job_, place);
    return processName(own) + " died first, its last sign of life is " + ageText(own.gone_ms) +
           " old: railwise postmortem " + std::to_string(own.pid) + " (" + troubleText(own) +
           (stopped.empty() ? "" : "; " + stopped) + ")";
  }
  // A job of which all have died lately, beside jobs that run.
  void addDeadJob() {
    if (result_.processes == 0) return;
    const int first = firstDeathOfLastJob();
    if (first < 0 || process(first).gone_ms > kLatelyMs) return;
    result_.dead_job = "a job that runs no more: " + deathText(first);
  }
  // Of the jobs of which no process lives, the one whose process has died last: the process that died first
  // in it. -1: there is no such job.
  int firstDeathOfLastJob() const {
    const std::vector<int> jobs = jobNumbers(job_.processes());
    const auto jobOf = [&](int place) { return jobs[static_cast<std::size_t>(place)]; };
    std::set<int> living;
    for (int place = 0; place < processes_; ++place)
      if (process(place).alive) living.insert(jobOf(place));
    std::vector<int> dead;
    // A record of the spy without a connection: `railwise perf` has tried the plugin's init, and a plugin
    // before v11 is not told the end.
    for (int place = 0; place < processes_; ++place)
      if (!process(place).ended && !living.contains(jobOf(place)) &&
          !(process(place).spy && process(place).connections.empty()))
        dead.push_back(place);
    if (dead.empty()) return -1;
    const int last = jobOf(*std::ranges::min_element(dead, {}, [&](int at) { return process(at).gone_ms; }));
    std::erase_if(dead, [&](int place) { return jobOf(place) != last; });
    return *std::ranges::min_element(dead, {}, [&](int place) { return deathOrder(place); });
  }

  const Job& job_;
  const DiagnosisOptions& options_;
  const int processes_;
  Diagnosis result_;
  Graph graph_;                            // processes, then culprits
  std::set<int> held_;                     // processes that are culprits by themselves
  std::set<int> with_itself_;              // processes with a connection to themselves that waits
  std::map<std::string, int> by_key_;      // culprits
  std::map<int, std::vector<int>> roots_;  // culprits that are roots of the graph -> their processes
};

}  // namespace

Diagnosis diagnose(const Job& job, const DiagnosisOptions& options) {
  return Diagnoser(job, options).diagnose();
}

std::vector<JudgedJob> judgeJobs(const Job& all, const DiagnosisOptions& options) {
  std::vector<JudgedJob> jobs;
  for (Job& job : all.split(!options.pids.empty())) {
    Diagnosis diagnosis = diagnose(job, options);
    if (diagnosis.processes > 0 || diagnosis.stuck) jobs.push_back({std::move(job), std::move(diagnosis)});
  }
  std::stable_partition(jobs.begin(), jobs.end(), [](const JudgedJob& each) { return each.diagnosis.stuck; });
  return jobs;
}

}  // namespace railwise::observe
