// What the state of the watch says to programs of a site: one line, Prometheus, NVSentinel, the catalogue.
#include <algorithm>
#include <map>

#include "base/text/json.h"
#include "base/text/printable.h"
#include "base/text/words.h"
#include "doctor/watch/watch.h"

namespace railwise::doctor {
namespace {

// The worst first, and of those the oldest.
std::vector<const Latch*> worstFirst(const WatchState& state) {
  std::vector<const Latch*> latches;
  for (const Latch& latch : state.latches)
    if (ruleOf(latch.check) != nullptr) latches.push_back(&latch);
  std::ranges::stable_sort(latches, [](const Latch* a, const Latch* b) {
    return ruleOf(a->check)->severity < ruleOf(b->check)->severity;
  });
  return latches;
}

// "mlx5_3/1: the port is down since 2026-11-28T12:04:07Z"
std::string textOf(const Latch& latch) {
  return (latch.port.empty() ? "" : latch.port + ": ") + ruleOf(latch.check)->what + " since " +
         utcText(latch.since) + (latch.before_reboot ? ", before the reboot" : "");
}

// One metric: its head, and a line for each value.
class Metrics {
 public:
  void head(const char* name, const char* type, const char* help) {
    name_ = name;
    text_ += "# HELP " + name_ + " " + help + "\n# TYPE " + name_ + " " + type + "\n";
  }
  void value(const std::string& labels, int64_t value) {
    text_ += name_ + (labels.empty() ? "" : "{" + labels + "}") + " " + std::to_string(value) + "\n";
  }
  const std::string& text() const { return text_; }

 private:
  std::string name_;
  std::string text_;
};

// nic="mlx5_3",port="1"
std::string portLabels(const std::string& port) {
  const auto slash = port.find('/');
  return "nic=\"" + escapePrometheus(port.substr(0, slash), true) + "\",port=\"" +
         (slash == std::string::npos ? "" : escapePrometheus(port.substr(slash + 1), true)) + "\"";
}

const char* sentinelAction(const std::string& action) {
  return action == "replace" ? "REPLACE_VM" : action == "drain" ? "CONTACT_SUPPORT" : "NONE";
}

}  // namespace

Health healthOf(const WatchState& state, int64_t now, std::size_t most) {
  Health health{.watched = now - state.last_look <= kWatchSilence && state.last_look > 0};
  health.known = health.watched && std::ranges::any_of(state.ports, &WatchedPort::was_active);
  const std::vector<const Latch*> latches = worstFirst(state);
  if (!latches.empty()) health.worst = ruleOf(latches.front()->check)->severity;
  std::string text = joined(latches, "; ", [](const Latch* latch) { return textOf(*latch); });
  if (!health.watched)
    text = "nobody watches since " + (state.last_look > 0 ? utcText(state.last_look) : "ever") +
           (text.empty() ? "" : "; then: " + text);
  else if (text.empty())
    text = health.known ? "the RDMA ports of this node are fine"
                        : "the watch has seen no active RDMA port yet (railwise doctor says why)";
  std::ranges::replace(text, '"', '\'');
  health.text = withoutControls(text).substr(0, most);
  return health;
}

std::string watchPrometheus(const WatchState& state, int64_t now) {
  Metrics metrics;
  metrics.head("railwise_watch_up", "gauge", "1 while the watch looks at this node.");
  metrics.value("", healthOf(state, now).watched ? 1 : 0);
  metrics.head("railwise_watch_last_look_timestamp_seconds", "gauge", "When the watch last looked.");
  metrics.value("", state.last_look);
  if (!state.ports.empty()) {
    metrics.head("railwise_watch_port_active", "gauge", "1 if the port is active.");
    for (const WatchedPort& port : state.ports)
      metrics.value(portLabels(port.name), port.active && port.missed == 0 ? 1 : 0);
    metrics.head("railwise_watch_port_flaps_total", "counter",
                 "Times that the port went down since the watch knows it.");
    for (const WatchedPort& port : state.ports) metrics.value(portLabels(port.name), port.flaps);
  }
  if (!state.latches.empty()) {
    metrics.head("railwise_watch_finding", "gauge", "1 for each thing that is wrong.");
    for (const Latch* latch : worstFirst(state))
      metrics.value("check=\"" + latch->check + "\",severity=\"" +
                        severityName(ruleOf(latch->check)->severity) + "\"," + portLabels(latch->port),
                    1);
  }
  return metrics.text();
}

std::string watchNvsentinel(const WatchState& state, const std::string& host) {
  JsonWriter json;
  json.beginObject().key("version").value(1).key("events");
  json.objects(worstFirst(state), [&](const Latch* latch) {
    const WatchRule& rule = *ruleOf(latch->check);
    json.key("version").value(1).key("agent").value("railwise").key("componentClass").value("NIC");
    json.key("checkName").value(rule.check);
    json.key("isFatal").value(rule.severity == Severity::kError).key("isHealthy").value(false);
    json.key("message").value(textOf(*latch) + ": " + latch->seen);
    json.key("recommendedAction").value(sentinelAction(rule.action));
    json.key("errorCode").row(std::vector<std::string>{rule.check});
    const auto slash = latch->port.find('/');
    std::vector<std::pair<const char*, std::string>> entities;
    if (!latch->port.empty())
      entities = {{"NIC", latch->port.substr(0, slash)}, {"NICPort", latch->port.substr(slash + 1)}};
    json.key("entitiesImpacted").inlineObjects(entities, [&](const auto& entity) {
      json.key("entityType").value(entity.first).key("entityValue").value(entity.second);
    });
    json.key("generatedTimestamp").value(utcText(latch->last)).key("nodeName").value(host);
    json.key("processingStrategy").value("STORE_ONLY");
  });
  json.endObject();
  return json.text();
}

std::string watchCatalogueJson() {
  JsonWriter json;
  json.inlineObjects(watchRules(), [&](const WatchRule& rule) {
    json.key("id").value(rule.check).key("family").value("watch").key("scope").value("node");
    json.key("kind").value(watchKindName(rule.kind)).key("source").value(rule.source);
    json.key("threshold").value(rule.limit).key("window_seconds").value(rule.window);
    json.key("cadence_seconds")
        .value(rule.kind == WatchKind::kCounter || rule.kind == WatchKind::kFlaps ||
                       rule.kind == WatchKind::kPciLink
                   ? 10
                   : 1);
    json.key("severity").value(severityName(rule.severity)).key("action").value(rule.action);
    json.key("what").value(rule.what).key("doc").value("doctor-watch.md#rules");
  });
  return json.text();
}

}  // namespace railwise::doctor
