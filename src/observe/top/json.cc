// The model of railwise top as JSON.
#include "base/text/json.h"

#include <cmath>
#include <span>
#include <string>

#include "base/text/text_layout.h"
#include "observe/top/screen.h"

namespace railwise::observe::top {
namespace {

// The newest of each process. railwise postmortem has all.
constexpr std::size_t kEventsShown = 100;

// A number of 64 bits without an order: programs that read JSON keep 53 bits.
std::string hex(uint64_t number) { return formatText("%016llx", static_cast<unsigned long long>(number)); }

// To the millisecond.
double secondsOf(uint64_t ns) { return std::floor(static_cast<double>(ns) / 1e6) / 1000; }

void writeSeconds(JsonWriter& json, const char* key, uint64_t ns) {
  json.key(key);
  ns == 0 ? json.null() : json.value(secondsOf(ns));
}

void writeTraffic(JsonWriter& json, const Traffic& traffic) {
  const auto write = [&](const char* key, double rate) {
    json.key(key);
    traffic.known ? json.value(rate) : json.null();
  };
  write("bytes_received_per_s", traffic.bytes_in);
  write("bytes_sent_per_s", traffic.bytes_out);
  write("messages_received_per_s", traffic.messages_in);
  write("messages_sent_per_s", traffic.messages_out);
}

void writeTotals(JsonWriter& json, const record::Totals& totals) {
  json.key("bytes_received").value(totals.bytes_received).key("bytes_sent").value(totals.bytes_sent);
  json.key("messages_received").value(totals.messages_received);
  json.key("messages_sent").value(totals.messages_sent);
  json.key("work_requests").value(totals.work_requests).key("control_bytes").value(totals.control_bytes);
  json.key("completions").value(totals.completions);
}

void writeErrors(JsonWriter& json, const char* key, const record::RailCounters& counters) {
  json.key(key).beginInlineObject();
  record::visitErrors(counters, [&](const char* words, uint64_t number) { json.key(words).value(number); });
  json.endInlineObject();
}

void writeSums(JsonWriter& json, const Model& model) {
  const Sums& sums = model.sums;
  json.key("totals").beginObject();
  json.key("processes").value(sums.processes).key("rails").value(static_cast<uint64_t>(model.rails.size()));
  json.key("rails_down").value(sums.rails_down).key("connections").value(sums.connections);
  json.key("connections_up").value(sums.up).key("connections_failed").value(sums.in(Stage::kFailed));
  json.key("connections_without_path").value(sums.in(Stage::kNoPath));
  json.key("connections_waiting").value(sums.in(Stage::kWaiting));
  json.key("connections_coming_up").value(sums.in(Stage::kComingUp));
  json.key("connections_degraded").value(sums.degraded);
  json.key("connections_unrecorded").value(sums.unrecorded).key("open_messages").value(sums.open);
  json.key("errors").value(errorSum(sums.rails)).key("failovers").value(sums.rails.failovers);
  writeTotals(json, sums.rails.totals);
  writeTraffic(json, sums.traffic);
  json.endObject();
}

void writeRail(JsonWriter& json, const RailRow& rail) {
  json.key("host").value(rail.host).key("device").value(rail.device).key("port").value(rail.port);
  json.key("link").value(rowOf(record::kLinkNames, rail.link).words);
  json.key("state").value(record::railStateText(rail.state));
  writeSeconds(json, "state_since_s", rail.state_age_ns);
  json.key("rail").known(rail.rail);
  json.key("plane").known(rail.plane);
  json.key("claimed_mbps").value(uint64_t{rail.claimed_mbps});
  json.key("measured_mbps").value(uint64_t{rail.measured_mbps});
  json.key("load");
  rail.load() >= 0 && rail.traffic.known ? json.value(rail.load()) : json.null();
  json.key("processes").value(rail.processes).key("connections").value(rail.connections);
  writeTotals(json, rail.totals);
  writeTraffic(json, rail.traffic);
  json.key("message_us");
  rail.messageNs() ? json.value(*rail.messageNs() / 1000) : json.null();
  writeErrors(json, "errors", rail);
  writeErrors(json, "new_errors", rail.grown);
  json.key("failovers").value(rail.failovers).key("new_failovers").value(rail.grown.failovers);
  json.key("returns").value(rail.returns).key("device_lives").value(rail.device_lives);
}

void writeEvents(JsonWriter& json, const record::Snapshot& snapshot) {
  const std::size_t shown = std::min(snapshot.events.size(), kEventsShown);
  json.key("events").inlineObjects(std::span(snapshot.events).last(shown), [&](const record::Event& event) {
    json.key("number").value(event.number).key("kind").value(record::eventText(event.kind));
    json.key("ago_s").value(snapshot.read_ns > event.at_ns ? secondsOf(snapshot.read_ns - event.at_ns) : 0.0);
    const record::Rail* const rail = railAt(snapshot, event.rail);
    json.key("rail").known(rail != nullptr ? record::railText(*rail) : "");
    json.key("connection").known(event.slot >= 0 ? hex(event.connection_id) : "");
    json.key("numbers").row(event.numbers);
    json.key("text").value(event.text);
  });
}

void writeProcess(JsonWriter& json, const ProcessRow& row) {
  const record::Snapshot& snapshot = *row.snapshot;
  const record::Process& process = snapshot.process;
  json.key("pid").value(uint64_t{process.pid}).key("record").value(snapshot.file);
  json.key("alive").value(process.alive).key("ended").value(process.ended_ns != 0);
  json.key("spy").value(process.spy);
  json.key("rank").known(process.rank);
  json.key("ranks").known(process.ranks);
  json.key("program").value(process.program).key("host").value(hostOf(process));
  json.key("plugin").value(process.plugin).key("plugin_file").value(process.plugin_file);
  json.key("started_unix_ns").value(process.started_unix_ns).key("read_unix_ns").value(snapshot.read_unix_ns);
  json.key("torn").value(snapshot.torn);
  json.key("connections").value(row.connections).key("connections_up").value(row.up);
  json.key("connections_unrecorded").value(snapshot.unrecorded).key("open_messages").value(row.open);
  writeSeconds(json, "oldest_message_s", row.oldest_age_ns);
  writeSeconds(json, "stopped_s", row.still_ns);
  writeSeconds(json, "not_called_s", row.not_called_ns);
  json.key("waits_for").value(waitsText(row));
  writeTotals(json, row.totals);
  writeTraffic(json, row.traffic);
  writeEvents(json, snapshot);
}

void writeOneSided(JsonWriter& json, const record::Connection& connection, uint64_t now_ns) {
  const record::OneSided& its = connection.one_sided;
  json.key("one_sided").beginObject();
  json.key("peer_rank").known(its.peer_rank);
  json.key("puts").value(its.totals.puts).key("put_bytes").value(its.totals.put_bytes);
  json.key("gets").value(its.totals.gets).key("get_bytes").value(its.totals.get_bytes);
  json.key("gets_open").value(its.gets_open);
  json.key("signals").value(its.signals).key("signals_done").value(its.signals_done);
  const bool known = its.last_signal_ns != 0 && its.last_signal_ns <= now_ns;
  writeSeconds(json, "last_signal_s", known ? std::max<uint64_t>(now_ns - its.last_signal_ns, 1) : 0);
  json.endObject();
}

void writeConnection(JsonWriter& json, const ConnectionRow& row) {
  const record::Connection& connection = *row.connection;
  const uint64_t now_ns = row.snapshot->read_ns;
  const auto age = [&](uint64_t since_ns) {
    return since_ns == 0 || since_ns > now_ns ? uint64_t{0} : now_ns - since_ns;
  };
  json.key("pid").value(uint64_t{row.snapshot->process.pid});
  json.key("id").value(hex(connection.id)).key("pair_id").value(hex(connection.pair_id));
  json.key("communicator").value(hex(connection.communicator));
  json.key("side").value(record::sideText(connection.side));
  json.key("kind").value(record::endText(connection.kind, connection.side));
  json.key("state").value(record::stateText(connection.state));
  json.key("stage").value(rowOf(kStageNames, row.stage).words);
  writeSeconds(json, "state_since_s", age(connection.state_since_ns));
  json.key("device").value(connection.device).key("peer").value(connection.peer);
  json.key("peer_device").value(connection.peer_device).key("reason").value(connection.reason);
  json.key("epoch").value(connection.epoch).key("degraded").value(connection.degraded);
  json.key("failovers").value(connection.failovers).key("slow_messages").value(connection.slow_messages);
  json.key("waits_for").value(record::waitsForText(connection.waits_for));
  writeSeconds(json, "waits_since_s", age(connection.waits_since_ns));
  json.key("open_messages").value(row.open).key("messages_posted").value(connection.posted);
  json.key("messages_complete").value(connection.completed);
  const bool open = row.stage == Stage::kWaiting || row.stage == Stage::kWorking;
  writeSeconds(json, "oldest_message_s", open ? row.age_ns : 0);
  writeSeconds(json, "looked_s", age(connection.looked_ns));
  writeTraffic(json, row.traffic);
  if (isOneSided(connection)) writeOneSided(json, connection, now_ns);
  else json.key("one_sided").null();
  json.key("queue_pairs").value(static_cast<uint64_t>(connection.queue_pairs.size()));
}

}  // namespace

std::string modelJson(const Model& model) {
  JsonWriter json;
  json.beginObject().key("schema").value("railwise-top").key("schema_version").value(1);
  json.key("host").value(model.host()).key("read_unix_ns").value(model.unix_ns);
  json.key("interval_s").value(model.interval_s);
  json.key("news").inlineObjects(model.news, [&](const News& news) {
    json.key("severity").value(rowOf(kSeverityNames, news.severity).words).key("text").value(news.text);
  });
  json.key("notes").array(model.notes);
  writeSums(json, model);
  json.key("rails").objects(model.rails, [&](const RailRow& rail) { writeRail(json, rail); });
  json.key("processes").objects(model.processes, [&](const ProcessRow& row) { writeProcess(json, row); });
  json.key("connections").objects(model.connections, [&](const ConnectionRow& row) {
    writeConnection(json, row);
  });
  json.endObject();
  return json.text();
}

}  // namespace railwise::observe::top
