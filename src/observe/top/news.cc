#include <algorithm>
#include <set>

#include "observe/top/model.h"
#include "observe/top/text.h"

namespace railwise::observe::top {
namespace {

using Writer = std::vector<News>;

void append(Writer& news, Severity severity, std::string text) {
  news.push_back({severity, std::move(text)});
}

// The connections of a stage: how many, of which processes, since when.
struct Group {
  uint64_t connections = 0;
  uint64_t longest_ns = 0;
  std::set<const record::Snapshot*> processes;

  const record::Process& process() const { return (*processes.begin())->process; }
};

Group groupOf(const Model& model, Stage stage, uint64_t least_ns = 0) {
  Group group;
  for (const ConnectionRow& row : model.connections) {
    if (row.stage != stage || row.age_ns < least_ns) continue;
    ++group.connections;
    group.longest_ns = std::max(group.longest_ns, row.age_ns);
    group.processes.insert(row.snapshot);
  }
  return group;
}

std::string connectionsText(const Group& group) {
  return counted(group.connections, "connection", "connections") +
         (group.processes.size() > 1 ? " of " + std::to_string(group.processes.size()) + " processes" : "");
}

std::string since(uint64_t ns) { return ns == 0 ? "" : " since " + ageText(ns); }

void appendFailed(const Model& model, Writer& news) {
  const Group group = groupOf(model, Stage::kFailed);
  if (group.connections == 0) return;
  const std::string have = group.connections == 1 ? " has failed" : " have failed";
  append(news, Severity::kBad,
         (group.processes.size() == 1 ? processText(group.process()) + ": " : "") + connectionsText(group) +
             have);
}

void appendRails(const Model& model, Writer& news) {
  const std::string of = " of " + counted(model.rails.size(), "rail", "rails");
  const bool one_host = !model.host().empty();
  for (const auto& [state, word] :
       {std::pair(record::RailState::kDown, " down"), std::pair(record::RailState::kFailed, " failed")}) {
    constexpr uint64_t kNamed = 2;
    uint64_t number = 0, age_ns = 0;
    std::string names;
    for (const RailRow& rail : model.rails) {
      if (rail.state != state) continue;
      if (++number <= kNamed)
        names += (names.empty() ? "" : ", ") + (one_host ? "" : rail.host + " ") + shortRailText(rail);
      age_ns = rail.state_age_ns;
    }
    if (number == 0) continue;
    if (number == 1) names += since(age_ns);
    if (number > kNamed) names += ", ...";
    append(news, Severity::kBad, std::to_string(number) + of + word + " (" + names + ")");
  }
}

void appendNoPath(const Model& model, Writer& news) {
  const Group group = groupOf(model, Stage::kNoPath);
  if (group.connections == 0) return;
  if (group.processes.size() == 1)
    append(news, Severity::kBad,
           processText(group.process()) + ": looking for a path" + since(group.longest_ns));
  else append(news, Severity::kBad, connectionsText(group) + " look for a path" + since(group.longest_ns));
}

// Processes that stand still for a reason that `age` has: the longest by name, or how many.
void appendStanding(const Model& model, uint64_t ProcessRow::*age, const char* what, Writer& news) {
  const ProcessRow* first = nullptr;
  uint64_t number = 0;
  for (const ProcessRow& process : model.processes) {
    if (process.*age == 0) continue;
    ++number;
    if (first == nullptr || process.*age > first->*age) first = &process;
  }
  if (number == 0) return;
  const std::string who =
      number == 1 ? processText(first->snapshot->process) : std::to_string(number) + " processes";
  append(news, Severity::kBad, who + ": " + what + since(first->*age));
}

void appendWaiting(const Model& model, Writer& news) {
  const Group slow = groupOf(model, Stage::kWaiting, kLongWaitNs);
  if (slow.connections > 0) {
    append(news, Severity::kBad,
           counted(slow.connections, "connection waits", "connections wait") + " > " + ageText(kLongWaitNs) +
               " (longest " + ageText(slow.longest_ns) + ")");
    return;
  }
  const Group waiting = groupOf(model, Stage::kWaiting);
  if (waiting.connections > 0)
    append(news, Severity::kWarning,
           counted(waiting.connections, "connection waits", "connections wait") + " (longest " +
               ageText(waiting.longest_ns) + ")");
}

void appendComingUp(const Model& model, Writer& news) {
  const Group group = groupOf(model, Stage::kComingUp);
  if (group.connections == 0) return;
  const std::string longest = group.longest_ns >= kWaitNs ? " since " + ageText(group.longest_ns) : "";
  append(news, group.longest_ns >= kLongWaitNs ? Severity::kBad : Severity::kWarning,
         counted(group.connections, "connection", "connections") + " coming up" + longest);
}

void appendErrors(const Model& model, Writer& news) {
  for (const RailRow& rail : model.rails) {
    std::vector<std::string> parts;
    record::visitErrors(rail.grown, [&](const char* words, uint64_t number) {
      parts.push_back(std::to_string(number) + " x " + words);
    });
    if (rail.grown.failovers > 0) parts.push_back(counted(rail.grown.failovers, "failover"));
    if (parts.empty()) continue;
    append(news, Severity::kWarning, "now on " + shortRailText(rail) + ": " + joined(parts));
  }
}

void appendRest(const Model& model, Writer& news) {
  if (model.sums.degraded > 0)
    append(news, Severity::kWarning,
           counted(model.sums.degraded, "connection runs", "connections run") + " with fewer or other rails");
  uint64_t died = 0;
  for (const ProcessRow& process : model.processes)
    died += !process.snapshot->process.alive && process.snapshot->process.ended_ns == 0 ? 1 : 0;
  if (died > 0)
    append(news, Severity::kWarning,
           counted(died, "process has", "processes have") + " died without closing Railwise");
  if (model.sums.unrecorded > 0)
    append(news, Severity::kWarning,
           counted(model.sums.unrecorded, "connection", "connections") +
               " not recorded (RAILWISE_METRICS_CONNECTIONS)");
  for (const std::string& note : model.notes) append(news, Severity::kWarning, note);
}

}  // namespace

std::vector<News> newsOf(const Model& model, const std::string& folder) {
  Writer news;
  appendFailed(model, news);
  appendRails(model, news);
  appendNoPath(model, news);
  appendStanding(model, &ProcessRow::still_ns, "stopped, or without a processor", news);
  appendStanding(model, &ProcessRow::hangs_ns, "in a call of its network plugin that does not return", news);
  appendStanding(model, &ProcessRow::not_called_ns, "NCCL does not call", news);
  appendWaiting(model, news);
  appendComingUp(model, news);
  appendErrors(model, news);
  appendRest(model, news);
  std::ranges::stable_sort(news, {}, &News::severity);
  if (model.sums.processes == 0)
    append(news, Severity::kGood, "no process of this user runs Railwise (records in " + folder + ")");
  if (!news.empty()) return news;
  append(news, Severity::kGood,
         "all well: " + counted(model.rails.size(), "rail", "rails") + ", " +
             counted(model.sums.processes, "process", "processes") + ", " +
             counted(model.sums.up, "connection", "connections") + " up");
  return news;
}

}  // namespace railwise::observe::top
