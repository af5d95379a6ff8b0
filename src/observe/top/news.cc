#include <algorithm>
#include <optional>
#include <set>

#include "base/text/text_layout.h"
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

// The middle of what the other ports of a rail's host with its speed have; null: none has anything.
template <typename Figure>
std::optional<double> middleOfOthers(const Model& model, const RailRow& rail, Figure figure) {
  std::vector<double> figures;
  for (const RailRow& other : model.rails) {
    if (&other == &rail || other.host != rail.host || other.claimed_mbps != rail.claimed_mbps) continue;
    const std::optional<double> its = figure(other);
    if (its) figures.push_back(*its);
  }
  if (figures.empty()) return std::nullopt;
  std::sort(figures.begin(), figures.end());
  return figures[figures.size() / 2];
}

// Ports without errors that hold up the others. More traffic makes messages slow, too: a port that carries
// more than the others is not slow. Where messages are spread over ports, the sender measures each.
void appendSlow(const Model& model, Writer& news) {
  constexpr double kSlow = 3;
  constexpr double kNoMore = 1.25;
  const auto message_ns = [](const RailRow& rail) { return rail.messageNs(); };
  const auto sent = [](const RailRow& rail) { return std::optional(rail.traffic.bytes_out); };
  const auto measured = [](const RailRow& rail) {
    return rail.measured_mbps == 0 || rail.traffic.bytes_out == 0 ? std::nullopt
                                                                  : std::optional<double>(rail.measured_mbps);
  };
  for (const RailRow& rail : model.rails) {
    const auto message = middleOfOthers(model, rail, message_ns);
    const auto speed = middleOfOthers(model, rail, measured);
    const std::string slow = shortRailText(rail) + " is slow: ";
    if (message && rail.messageNs() && *rail.messageNs() > kSlow * *message &&
        rail.traffic.bytes_out <= kNoMore * *middleOfOthers(model, rail, sent))
      append(news, Severity::kWarning,
             slow + formatText("a message takes %.3g ms, over the other rails %.3g ms",
                               *rail.messageNs() / 1e6, *message / 1e6));
    else if (speed && measured(rail) && kSlow * *measured(rail) < *speed)
      append(news, Severity::kWarning,
             slow + "it delivers " + rateText(*measured(rail) * 1e6 / 8, false) + " GB/s, the other rails " +
                 rateText(*speed * 1e6 / 8, false));
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
  appendSlow(model, news);
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
