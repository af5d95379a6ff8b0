#include <algorithm>
#include <map>
#include <tuple>

#include "base/text/json.h"
#include "base/text/words.h"
#include "observe/stuck/diagnosis.h"
#include "observe/stuck/facts.h"

namespace railwise::observe {
namespace {

// The text shows so many of each; --json has all.
constexpr std::size_t kShownCulprits = 8;
constexpr std::size_t kShownWaits = 16;
constexpr std::size_t kShownMissing = 12;
constexpr std::size_t kShownRails = 12;
constexpr std::size_t kShownQuiet = 12;
constexpr std::size_t kShownHosts = 4;

const char* kindKey(CulpritKind kind) {
#define RAILWISE_CULPRIT_KEY(kind, certainty, key) key,
  constexpr const char* kKeys[] = {RAILWISE_CULPRITS(RAILWISE_CULPRIT_KEY)};
#undef RAILWISE_CULPRIT_KEY
  return kKeys[static_cast<std::size_t>(kind)];
}

const ConnectionFacts& connectionOf(const Job& job, const Wait& wait) { return job.connection(wait.end); }

std::string peerName(const Job& job, const Wait& wait) {
  if (wait.other.process >= 0) return processName(job.process(wait.other.process));
  const std::string& peer = connectionOf(job, wait).peer;
  return peer.empty() ? "an unknown peer" : peer;
}

// "receive 5127 (1.0 MiB)": what a connection has open.
std::string openText(const ConnectionFacts& connection) {
  const bool puts = isOneSided(connection) && connection.side == record::Side::kSender;
  std::string text;
  if (connection.oldest != 0) text = oldestText(connection);
  if (!puts) return text;
  if (connection.posted > connection.completed) {
    if (!text.empty()) text += ", ";
    text += std::to_string(connection.completed) + " of " + counted(connection.posted, "operation") + " done";
  }
  if (connection.one_sided.signals > connection.one_sided.signals_done)
    text += ", " + std::to_string(connection.one_sided.signals_done) + " of " +
            counted(connection.one_sided.signals, "signal") + " acknowledged";
  if (connection.one_sided.gets_open > 0)
    text += ", " + counted(connection.one_sided.gets_open, "get") + " under way";
  return text;
}

// What is given and not complete.
uint64_t openOf(const ConnectionFacts& connection) {
  return record::growth(connection.completed, connection.posted);
}

// "rank 0 (gpu1:4410)", or "rank 3 of its group (gpu7:4410)" for a process without a record.
std::string writerName(const Job& job, const QuietWriter& quiet) {
  if (quiet.writer.process >= 0) return processName(job.process(quiet.writer.process));
  const ConnectionFacts& target = job.connection(quiet.end);
  return "rank " + std::to_string(target.one_sided.peer_rank) + " of its group (" + target.peer + ")";
}

// "rank 0 (gpu1:4410) has had no signal of rank 3 (gpu2:4411) for 34.0 s (5127 before); the latest one of
// another rank came 33.8 s after that; nothing is under way to it there: that rank has put nothing since"
std::string quietText(const Job& job, const QuietWriter& quiet) {
  const ConnectionFacts& target = job.connection(quiet.end);
  const bool none = target.last_signal_ms == kNever;
  std::string text = processName(job.process(quiet.end.process)) + " has had no signal of " +
                     writerName(job, quiet) + " for " + ageText(quiet.since_ms) + " (" +
                     (none ? "none" : std::to_string(target.one_sided.signals_done)) + " before)";
  if (quiet.newest_ms < quiet.since_ms)
    text += "; the latest one of another rank came " + ageText(quiet.since_ms - quiet.newest_ms) +
            (none ? " later" : " after that");
  if (quiet.writer.connection < 0) return text;
  const ConnectionFacts& writer = job.connection(quiet.writer);
  return text + (openOf(writer) > 0 ? "; " + counted(openOf(writer), "operation is", "operations are") +
                                          " under way to it there"
                                    : "; nothing is under way to it there: that rank has put nothing since");
}

std::string devicesText(const ConnectionFacts& connection) {
  const std::string peer = connection.peer_device.empty() ? "?" : connection.peer_device;
  return connection.device + (connection.side == record::Side::kReceiver ? " <- " : " -> ") + peer;
}

// Waits of one process for one peer, for one reason.
struct WaitGroup {
  const Wait* worst = nullptr;
  int connections = 0;
};

std::vector<WaitGroup> groupsOf(const Job& job, const Diagnosis& diagnosis) {
  std::map<std::tuple<int, std::string, Why>, std::size_t> places;
  std::map<std::pair<int, int>, bool> counted_ends;
  std::vector<WaitGroup> groups;
  for (const Wait& wait : diagnosis.waits) {
    const auto [found, added] =
        places.emplace(std::tuple(wait.end.process, peerName(job, wait), wait.why), groups.size());
    if (added) groups.push_back({&wait, 0});
    if (counted_ends.emplace(std::pair(wait.end.process, wait.end.connection), true).second)
      ++groups[found->second].connections;
  }
  return groups;
}

std::string groupText(const Job& job, const WaitGroup& group) {
  const Wait& wait = *group.worst;
  const ConnectionFacts& connection = connectionOf(job, wait);
  std::string text = processName(job.process(wait.end.process));
  text += wait.why == Why::kListens ? " waits for a call" : " waits for " + peerName(job, wait);
  if (wait.since_ms != kNever) text += " for " + ageText(wait.since_ms);
  text += std::string(": ") + rowOf(kWhys, wait.why).words;
  std::string details = "connection " + std::to_string(connection.slot) + ", " + devicesText(connection);
  if (const std::string open = openText(connection); !open.empty()) details += ", " + open;
  if (group.connections > 1) details += "; " + std::to_string(group.connections - 1) + " more like it";
  return wrapped(text, "  ", 4) + wrapped(details, "      ", 8);
}

std::string culpritText(const Culprit& culprit, std::size_t number) {
  std::string text = wrapped(culprit.name + " " + culprit.what, std::to_string(number) + ". ", 3);
  std::string waits;
  const auto append = [&](const std::string& part) { waits += (waits.empty() ? "" : "; ") + part; };
  if (culprit.connections > 0)
    append(counted(static_cast<uint64_t>(culprit.connections), "connection waits", "connections wait"));
  if (static_cast<int>(culprit.processes.size()) > culprit.direct && culprit.kind != CulpritKind::kCircle)
    append("with the chains behind them " + counted(culprit.processes.size(), "process", "processes"));
  if (culprit.since_ms != kNever) append("the longest for " + ageText(culprit.since_ms));
  if (!waits.empty()) text += wrapped(waits, "   ", 3);
  for (const std::string& detail : culprit.details) text += wrapped(detail, "   - ", 5);
  if (!culprit.advice.empty()) text += wrapped(culprit.advice, "   to do: ", 10);
  return text;
}

std::string censusText(const Census& census) {
  if (census.all == 0) return "";
  std::string text = "\n" + std::to_string(census.up) + " of " +
                     counted(static_cast<uint64_t>(census.all), "connection is", "connections are") + " up\n";
  if (!census.missing.empty()) text = text.substr(0, text.size() - 1) + "; the others wait for\n";
  appendSome(text, census.missing, kShownMissing, [](const Census::Missing& missing) {
    std::string line = missing.what + ": " +
                       counted(static_cast<uint64_t>(missing.connections), "connection", "connections");
    if (missing.since_ms != kNever) line += ", the longest for " + ageText(missing.since_ms);
    if (!missing.reason.empty()) line += "; " + missing.reason;
    return wrapped(line, "  ", 4);
  });
  return text;
}

void writeAge(JsonWriter& json, const char* key, uint64_t ms) {
  json.key(key).known(ms == kNever ? std::nullopt : std::optional(ms));
}

void writeCulprit(JsonWriter& json, const Job& job, const Culprit& culprit) {
  json.beginObject();
  json.key("kind").value(kindKey(culprit.kind));
  json.key("name").value(culprit.name);
  json.key("what").value(culprit.what);
  json.key("process").known(culprit.process >= 0 ? processKey(job.process(culprit.process)) : "");
  writeAge(json, "since_ms", culprit.since_ms);
  json.key("connections").value(culprit.connections);
  json.key("waiting").row(culprit.processes,
                          [&](const int process) { return processKey(job.process(process)); });
  json.key("circle").row(culprit.circle, [&](const int process) { return processKey(job.process(process)); });
  json.key("details").array(culprit.details);
  json.key("advice").value(culprit.advice);
  json.endObject();
}

void writeWait(JsonWriter& json, const Job& job, const Wait& wait) {
  const ConnectionFacts& connection = connectionOf(job, wait);
  const ProcessFacts& process = job.process(wait.end.process);
  json.beginInlineObject();
  json.key("process").value(processKey(process));
  json.key("rank").value(process.rank);
  json.key("connection").value(uint64_t{connection.slot});
  json.key("side").value(record::sideText(connection.side));
  json.key("kind").value(record::endText(connection.kind, connection.side));
  json.key("state").value(record::stateText(connection.state));
  json.key("waits_for").value(record::waitsForText(connection.waits_for));
  json.key("why").value(rowOf(kWhys, wait.why).key);
  json.key("peer").value(wait.other.process >= 0 ? processKey(job.process(wait.other.process))
                                                 : connection.peer);
  json.key("device").value(connection.device);
  json.key("peer_device").value(connection.peer_device);
  json.key("oldest").value(connection.oldest);
  json.key("oldest_bytes").value(connection.oldest_bytes);
  json.key("open").value(openOf(connection));
  json.key("completed").value(connection.completed);
  json.key("signals")
      .value(connection.one_sided.signals)
      .key("signals_done")
      .value(connection.one_sided.signals_done);
  json.key("gets_open").value(connection.one_sided.gets_open);
  writeAge(json, "since_ms", wait.since_ms);
  writeAge(json, "looked_ms", connection.looked_ms);
  json.key("failover").value(rowOf(record::kFailoverNames, connection.failover).key);
  json.key("reason").value(connection.reason);
  json.key("rails").arrayOf(connection.pairs, [&](const record::Pair& pair) {
    json.beginInlineObject();
    const bool known = pair.rail >= 0;
    const RailFacts none;
    const RailFacts& rail = known ? process.rails[static_cast<std::size_t>(pair.rail)] : none;
    json.key("device").value(rail.device).key("port").value(rail.port).key("gid").value(pair.gid);
    json.key("peer_device").value(pair.peer_device).key("peer_port").value(pair.peer_port);
    json.key("peer_gid").value(pair.peer_gid);
    json.endInlineObject();
  });
  json.key("culprit").known(wait.culprit);
  json.endInlineObject();
}

void writeQuiet(JsonWriter& json, const Job& job, const QuietWriter& quiet) {
  const ConnectionFacts& target = job.connection(quiet.end);
  json.beginInlineObject();
  json.key("process").value(processKey(job.process(quiet.end.process)));
  json.key("rank").value(job.process(quiet.end.process).rank);
  json.key("writer").value(quiet.writer.process >= 0 ? processKey(job.process(quiet.writer.process))
                                                     : target.peer);
  json.key("writer_rank_in_group").value(target.one_sided.peer_rank);
  json.key("signals").value(target.one_sided.signals_done);
  writeAge(json, "last_signal_ms", target.last_signal_ms);
  writeAge(json, "quiet_ms", quiet.since_ms);
  writeAge(json, "latest_of_any_ms", quiet.newest_ms);
  json.key("open_at_writer");
  if (quiet.writer.connection < 0) json.null();
  else json.value(openOf(job.connection(quiet.writer)));
  json.endInlineObject();
}

std::string dotText(const std::string& text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    result += c;
  }
  return result + "\"";
}

// "2 processes on gpu1 (24495, 24496): python3 train.py"
std::string jobName(const Job& job) {
  std::map<std::string, std::vector<int>> pids;  // of each host
  for (const ProcessFacts& process : job.processes())
    pids[process.host].push_back(static_cast<int>(process.pid));
  std::string hosts;
  std::size_t shown = 0;
  for (const auto& [host, its] : pids) {
    if (shown++ == kShownHosts) break;
    hosts += (hosts.empty() ? " on " : ", ") + host + " (" + someOf(its) + ")";
  }
  if (pids.size() > kShownHosts) hosts += " and " + counted(pids.size() - kShownHosts, "host") + " more";
  const auto living = std::ranges::find_if(job.processes(), &ProcessFacts::alive);
  const ProcessFacts& one = living != job.processes().end() ? *living : job.processes().front();
  return counted(job.processes().size(), "process", "processes") + hosts + ": " + one.command;
}

std::string jobText(const Job& job, const Diagnosis& diagnosis) {
  std::string text = wrapped(diagnosis.verdict, diagnosis.stuck ? "STUCK: " : "", 0);
  if (!job.processes().empty() && (diagnosis.stuck || diagnosis.processes > 0))
    text += wrapped(jobName(job), "job: ", 5);
  if (!diagnosis.culprits.empty()) text += "\n";
  std::size_t number = 0;
  appendSome(text, diagnosis.culprits, kShownCulprits,
             [&](const Culprit& culprit) { return culpritText(culprit, ++number); });
  const std::vector<WaitGroup> groups = groupsOf(job, diagnosis);
  if (!groups.empty()) text += "\nWho waits for whom\n";
  appendSome(text, groups, kShownWaits, [&](const WaitGroup& group) { return groupText(job, group); });
  if (!diagnosis.quiet.empty())
    text += "\nRanks that have not signalled (a GPU that waits for a signal is not seen)\n";
  appendSome(text, diagnosis.quiet, kShownQuiet,
             [&](const QuietWriter& quiet) { return wrapped(quietText(job, quiet), "  ", 4); });
  if (!diagnosis.rails.empty()) text += "\nRails with failures\n";
  appendSome(text, diagnosis.rails, kShownRails,
             [](const std::string& rail) { return wrapped(rail, "  ", 4); });
  text += censusText(diagnosis.census);
  for (const std::string& note : diagnosis.notes) text += wrapped(note, "note: ", 6);
  return text;
}

// One sentence about several jobs.
std::string verdictOf(const std::vector<JudgedJob>& jobs) {
  const auto stuck = static_cast<std::size_t>(
      std::ranges::count_if(jobs, [](const JudgedJob& each) { return each.diagnosis.stuck; }));
  const std::string all = counted(jobs.size(), "job");
  if (stuck == 0) return "nothing is stuck: " + all + " run here";
  return std::to_string(stuck) + " of " + all + " " + (stuck == 1 ? "is" : "are") + " stuck; " +
         jobs.front().diagnosis.verdict;
}

}  // namespace

std::string stuckText(const Job& all, const Diagnosis& diagnosis, const std::vector<JudgedJob>& jobs) {
  const std::string dead = diagnosis.dead_job.empty() ? "" : wrapped(diagnosis.dead_job, "note: ", 6);
  if (jobs.size() == 1) return jobText(jobs.front().job, jobs.front().diagnosis) + dead;
  if (jobs.empty()) return jobText(all, diagnosis);
  std::string text = wrapped(verdictOf(jobs), diagnosis.stuck ? "STUCK: " : "", 0);
  text += wrapped("one job alone: railwise stuck PID, with the number of any of its processes");
  std::size_t number = 0;
  for (const JudgedJob& each : jobs)
    text += "\n---- job " + std::to_string(++number) + " of " + std::to_string(jobs.size()) + "\n" +
            jobText(each.job, each.diagnosis);
  return text + dead;
}

std::string stuckJson(const Job& job, const Diagnosis& diagnosis, const std::vector<JudgedJob>& jobs) {
  JsonWriter json;
  json.beginObject();
  json.key("schema").value("railwise-stuck");
  json.key("schema_version").value(1);
  json.key("stuck").value(diagnosis.stuck);
  json.key("verdict").value(jobs.size() > 1 ? verdictOf(jobs) : diagnosis.verdict);
  json.key("jobs").arrayOf(jobs, [&](const JudgedJob& each) {
    json.beginInlineObject();
    json.key("stuck").value(each.diagnosis.stuck).key("verdict").value(each.diagnosis.verdict);
    json.key("name").value(jobName(each.job)).key("processes").row(each.job.processes(), processKey);
    json.key("notes").row(each.diagnosis.notes);
    json.endInlineObject();
  });
  json.key("processes").value(diagnosis.processes);
  json.key("messages_per_s").value(diagnosis.messages_per_s);
  json.key("culprits").arrayOf(diagnosis.culprits, [&](const Culprit& culprit) {
    writeCulprit(json, job, culprit);
  });
  json.key("waits").arrayOf(diagnosis.waits, [&](const Wait& wait) { writeWait(json, job, wait); });
  json.key("quiet").arrayOf(diagnosis.quiet, [&](const QuietWriter& quiet) { writeQuiet(json, job, quiet); });
  json.key("census").beginObject();
  json.key("up").value(diagnosis.census.up).key("all").value(diagnosis.census.all);
  json.key("missing").arrayOf(diagnosis.census.missing, [&](const Census::Missing& missing) {
    json.beginInlineObject();
    json.key("what").value(missing.what).key("connections").value(missing.connections);
    writeAge(json, "since_ms", missing.since_ms);
    json.key("reason").value(missing.reason);
    json.endInlineObject();
  });
  json.endObject();
  json.key("rails").array(diagnosis.rails);
  json.key("dead_job").known(diagnosis.dead_job);
  json.key("notes").array(diagnosis.notes);
  json.endObject();
  return json.text();
}

std::string stuckDot(const Job& job, const Diagnosis& diagnosis) {
  std::string text = "digraph stuck {\n  rankdir=LR;\n  node [shape=box];\n";
  std::vector<bool> shown(job.processes().size(), false);
  const auto processNode = [&](int place) {
    shown[static_cast<std::size_t>(place)] = true;
    return "p" + std::to_string(place);
  };
  std::string edges;
  for (const WaitGroup& group : groupsOf(job, diagnosis)) {
    const Wait& wait = *group.worst;
    std::string goal;
    if (wait.culprit >= 0) goal = "c" + std::to_string(wait.culprit);
    else if (wait.other.process >= 0) goal = processNode(wait.other.process);
    else continue;
    std::string label = rowOf(kWhys, wait.why).words;
    if (wait.since_ms != kNever) label += ", " + ageText(wait.since_ms);
    edges += "  " + processNode(wait.end.process) + " -> " + goal + " [label=" + dotText(label) + "];\n";
  }
  for (std::size_t i = 0; i < diagnosis.culprits.size(); ++i) {
    const Culprit& culprit = diagnosis.culprits[i];
    text += "  c" + std::to_string(i) +
            " [style=filled, fillcolor=salmon, label=" + dotText(culprit.name + " " + culprit.what) + "];\n";
    const bool is_process = culprit.process >= 0 && culprit.kind != CulpritKind::kHandshake;
    if (is_process)
      edges += "  " + processNode(culprit.process) + " -> c" + std::to_string(i) + " [style=dashed];\n";
  }
  for (std::size_t i = 0; i < shown.size(); ++i) {
    if (!shown[i]) continue;
    const ProcessFacts& process = job.processes()[i];
    text += "  p" + std::to_string(i) + " [label=" + dotText(processName(process)) +
            (process.alive ? "" : ", style=dashed") + "];\n";
  }
  return text + edges + "}\n";
}

}  // namespace railwise::observe
