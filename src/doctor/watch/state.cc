// The state of the watch as a file, and its events as lines of JSON.
#include <array>
#include <cstdio>
#include <ctime>

#include "base/text/json_fields.h"
#include "base/text/printable.h"
#include "base/text/text_layout.h"
#include "doctor/watch/watch.h"

namespace railwise::doctor {
namespace {

constexpr auto describeCounter = [](auto& fields, auto& counter) {
  fields.text("check", counter.check);
  fields.positive("base", counter.base);
  fields.positive("base_time", counter.base_time);
};

constexpr auto describePort = [](auto& fields, auto& port) {
  fields.text("name", port.name);
  fields.text("bdf", port.bdf);
  fields.text("state", port.state);
  fields.truth("active", port.active);
  fields.truth("was_active", port.was_active);
  fields.positive("since", port.since);
  fields.index("missed", port.missed);
  fields.within("went_down", port.went_down, int64_t{-1}, INT64_MAX);
  fields.positive("flaps", port.flaps);
  fields.numbers("flap_times", port.flap_times, WatchState::kMostFlaps);
  fields.list("counters", port.counters, watchRules().size(), describeCounter);
};

constexpr auto describeLatch = [](auto& fields, auto& latch) {
  fields.text("check", latch.check);
  fields.text("port", latch.port);
  fields.text("seen", latch.seen);
  fields.positive("since", latch.since);
  fields.positive("last", latch.last);
  fields.positive("reported", latch.reported);
  fields.positive("count", latch.count);
  fields.truth("before_reboot", latch.before_reboot);
};

constexpr auto describeState = [](auto& fields, auto& state) {
  fields.text("boot", state.boot);
  fields.positive("last_look", state.last_look);
  fields.positive("next_event", state.next_event);
  fields.list("ports", state.ports, WatchState::kMostPorts, describePort);
  fields.list("latches", state.latches, WatchState::kMostLatches, describeLatch);
};

const char* phaseName(EventPhase phase) {
  constexpr const char* kNames[] = {"begin", "repeat", "end"};
  return kNames[static_cast<int>(phase)];
}

}  // namespace

std::string utcText(int64_t time) {
  const std::time_t seconds = time;
  std::tm parts = {};
  std::array<char, 32> text = {};
  if (gmtime_r(&seconds, &parts) == nullptr) return "";
  (void)std::strftime(text.data(), text.size(), "%FT%TZ", &parts);
  return text.data();
}

std::string watchStateJson(const WatchState& state) {
  JsonWriter json;
  json.beginObject();
  json.key("schema").value(WatchState::kVersion);
  FieldWriter fields(json);
  describeState(fields, state);
  json.endObject();
  return json.text();
}

Outcome<WatchState> readWatchState(const std::string& text) {
  const auto document = nlohmann::json::parse(text, nullptr, false);
  if (document.is_discarded() || !document.is_object()) return Error{"is not the JSON of a state"};
  if (document.value("schema", nlohmann::json()) != WatchState::kVersion)
    return Error{"is of another version of Railwise"};
  WatchState state;
  std::string error;
  FieldReader fields(document, "", error);
  describeState(fields, state);
  if (!error.empty()) return Error{error};
  return state;
}

std::string watchEventJson(const WatchEvent& event, const std::string& host) {
  const Latch& latch = event.latch;
  JsonWriter json;
  json.beginInlineObject();
  json.key("id").value(event.id);
  json.key("time").value(utcText(event.time));
  json.key("host").value(host);
  json.key("check").value(event.rule->check);
  json.key("severity").value(severityName(event.rule->severity));
  json.key("state").value(phaseName(event.phase));
  json.key("port").known(latch.port);
  json.key("bdf").known(event.bdf);
  json.key("what").value(event.rule->what);
  json.key("seen").value(latch.seen);
  json.key("since").value(utcText(latch.since));
  json.key("count").value(latch.count);
  json.key("action").value(event.rule->action);
  json.key("fix").value(event.rule->fix);
  json.endInlineObject();
  return json.text();
}

std::string watchEventText(const WatchEvent& event) {
  const Latch& latch = event.latch;
  return utcText(event.time) + " " + phaseName(event.phase) + " " + severityName(event.rule->severity) + " " +
         event.rule->check + (latch.port.empty() ? "" : " " + latch.port) + ": " + event.rule->what + " (" +
         withoutControls(latch.seen) + ")";
}

}  // namespace railwise::doctor
