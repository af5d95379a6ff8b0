// What the spy says at the end (spy.h).
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string_view>

#include "base/log.h"
#include "base/process.h"
#include "base/text/json.h"
#include "base/text/text_layout.h"
#include "base/text/words.h"
#include "spy/contract.h"
#include "spy/inner.h"
#include "spy/registry.h"
#include "spy/shadow.h"
#include "spy/spy.h"

namespace railwise::spy {
namespace {

using record::Side;

constexpr std::array<std::string_view, kWaits> kWaitNames = {"nccl_s", "peer_s", "network_s", "plugin_s"};

double seconds(uint64_t ns) { return static_cast<double>(ns) / 1e9; }

std::string bytesText(uint64_t bytes) {
  constexpr std::array kUnits = {"B", "kB", "MB", "GB", "TB", "PB"};
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (; value >= 1000 && unit + 1 < kUnits.size(); ++unit) value /= 1000;
  return formatText(unit == 0 ? "%.0f %s" : "%.1f %s", value, kUnits[unit]);
}

// What the connections of one side have done, together.
struct Sum {
  uint64_t connections = 0;
  uint64_t messages = 0;
  uint64_t bytes = 0;
  uint64_t left_open = 0;
  std::array<uint64_t, kWaits> wait_ns = {};

  uint64_t allNs() const { return wait_ns[0] + wait_ns[1] + wait_ns[2] + wait_ns[3]; }
  int percent(Wait wait) const {
    const uint64_t all = allNs();
    return all == 0 ? 0 : static_cast<int>((wait_ns[static_cast<std::size_t>(wait)] * 100 + all / 2) / all);
  }
};

struct Sums {
  Sum senders;
  Sum receivers;
  uint64_t memory_left = 0;
  uint64_t not_closed = 0;

  uint64_t requestsLeft() const { return senders.left_open + receivers.left_open; }
};

Sums sumUp(const Registry::Report& report) {
  Sums sums;
  for (const ConnectionReport& each : report.connections) {
    Sum& sum = each.side == Side::kSender ? sums.senders : sums.receivers;
    ++sum.connections;
    sum.messages += each.figures.messages;
    sum.bytes += each.figures.bytes;
    sum.left_open += each.figures.open;
    for (std::size_t i = 0; i < kWaits; ++i) sum.wait_ns[i] += each.figures.wait_ns[i];
    sums.memory_left += each.memory_left;
    sums.not_closed += each.closed ? 0 : 1;
  }
  return sums;
}

// Calls visit(breaches, kind, whose) for each kind of breach that there was.
template <typename Visit>
void visitBreaches(Visit visit) {
  const auto all = breaches();
  for (const Named<Breach>& kind : kBreachNames)
    if (const Breaches& its = all[static_cast<std::size_t>(kind.value)]; its.count != 0)
      visit(its, kind.words, byNccl(kind.value));
}

std::string breachesText() {
  std::vector<std::string> found;
  visitBreaches([&](const Breaches& its, const char* kind, bool by_nccl) {
    found.push_back((by_nccl ? "NCCL " : "the plugin ") + std::to_string(its.count) + " x " + kind);
  });
  return found.empty() ? "no breach of the contract" : "breaches of the contract: " + joined(found);
}

void writeConnection(JsonWriter& json, const ConnectionReport& each) {
  constexpr auto kWide = [](uint32_t count) { return uint64_t{count}; };
  const Figures& figures = each.figures;
  json.beginObject();
  json.key("number").value(each.number);
  json.key("side").value(each.side == Side::kSender ? "sender" : "receiver");
  json.key("device").value(each.device);
  json.key("communicator").value(formatText("0x%llx", static_cast<unsigned long long>(each.communicator)));
  json.key("setup_s").value(seconds(each.setup_ns));
  json.key("closed").value(each.closed);
  json.key("messages").value(figures.messages);
  json.key("done").value(figures.done);
  json.key("bytes").value(figures.bytes);
  json.key("open").value(figures.open);
  json.key("most_open").value(figures.most_open);
  json.key("memory_left").value(uint64_t{each.memory_left});
  json.key("longest_gap_s").value(seconds(figures.longest_gap_ns));
  json.key("waits").beginInlineObject();
  for (std::size_t i = 0; i < kWaits; ++i) json.key(kWaitNames[i]).value(seconds(figures.wait_ns[i]));
  json.endInlineObject();
  json.key("calls").beginObject();
  for (std::size_t i = 0; i < record::kCalls; ++i) {
    if (figures.calls[i].calls == 0) continue;
    json.key(record::kCallNames[i]).beginInlineObject();
    json.key("calls").value(uint64_t{figures.calls[i].calls});
    json.key("idle").value(uint64_t{figures.calls[i].idle});
    json.key("errors").value(figures.errors[i]);
    json.key("s").value(seconds(figures.calls[i].ns));
    json.key("longest_s").value(seconds(figures.longest_ns[i]));
    json.endInlineObject();
  }
  json.endObject();
  json.key("latency_ns_log2").row(figures.latency, kWide);
  json.key("bytes_log2").row(figures.size, kWide);
  if (each.side == Side::kReceiver) json.key("buffers_of_irecv").row(figures.groups, kWide);
  json.endObject();
}

std::string summaryText() {
  const Registry::Report report = Registry::get().report();
  const Sums sums = sumUp(report);
  const auto count = [](uint64_t value) { return static_cast<unsigned long long>(value); };
  std::string lines =
      formatText("%s: %llu connections, %llu sends of %s, %llu receives of %s; %s", inner().file.c_str(),
                 count(sums.senders.connections + sums.receivers.connections), count(sums.senders.messages),
                 bytesText(sums.senders.bytes).c_str(), count(sums.receivers.messages),
                 bytesText(sums.receivers.bytes).c_str(), breachesText().c_str());
  if (sums.senders.allNs() != 0)
    lines += formatText(
        "\nsenders: %d %% of the time nothing from NCCL, %d %% no receive of the peer, %d %% under way, %d "
        "%% in the plugin",
        sums.senders.percent(Wait::kNccl), sums.senders.percent(Wait::kPeer),
        sums.senders.percent(Wait::kNetwork), sums.senders.percent(Wait::kPlugin));
  if (sums.receivers.allNs() != 0)
    lines += formatText(
        "\nreceivers: %d %% of the time nothing from NCCL, %d %% waiting for data, %d %% in the plugin",
        sums.receivers.percent(Wait::kNccl), sums.receivers.percent(Wait::kNetwork),
        sums.receivers.percent(Wait::kPlugin));
  if (const record::OneSidedTotals& its = report.one_sided; its.puts + its.gets != 0)
    lines += formatText("\none-sided: %llu puts of %s, %llu signals, %llu gets of %s", count(its.puts),
                        bytesText(its.put_bytes).c_str(), count(its.signals_sent), count(its.gets),
                        bytesText(its.get_bytes).c_str());
  if (sums.requestsLeft() + sums.memory_left + sums.not_closed + report.listeners != 0)
    lines += formatText(
        "\nleft open: %llu connections, %llu listeners, %llu requests, %llu registrations of memory",
        count(sums.not_closed), count(report.listeners), count(sums.requestsLeft()), count(sums.memory_left));
  for (const std::string& line : shadowLines()) lines += "\nshadow: " + line;
  return lines;
}

std::string reportJson() {
  const Registry::Report report = Registry::get().report();
  const Sums sums = sumUp(report);
  JsonWriter json;
  json.beginObject();
  json.key("plugin").value(pluginName());
  json.key("file").value(inner().file);
  json.key("api").value(apiInUse());
  json.key("pid").value(static_cast<int>(getpid()));
  json.key("breaches").beginArray();
  visitBreaches([&](const Breaches& its, const char* kind, bool by_nccl) {
    json.beginObject();
    json.key("by").value(by_nccl ? "nccl" : "plugin");
    json.key("kind").value(kind);
    json.key("count").value(its.count);
    json.key("first").value(its.first);
    json.endObject();
  });
  json.endArray();
  json.key("shadow").beginArray();
  for (const std::string& line : shadowLines()) json.value(line);
  json.endArray();
  json.key("left_open").beginInlineObject();
  json.key("connections").value(sums.not_closed);
  json.key("listeners").value(uint64_t{report.listeners});
  json.key("requests").value(sums.requestsLeft());
  json.key("memory").value(sums.memory_left);
  json.endInlineObject();
  json.key("calls").beginObject();
  for (const Named<Function>& function : kFunctionNames) {
    const FunctionCounts& its = Registry::get().counts(function.value);
    if (its.calls == 0) continue;
    json.key(function.words).beginInlineObject();
    json.key("calls").value(its.calls.load());
    json.key("errors").value(its.errors.load());
    json.key("s").value(seconds(its.ns));
    json.key("longest_s").value(seconds(its.longest_ns));
    json.endInlineObject();
  }
  json.endObject();
  const record::OneSidedTotals& one_sided = report.one_sided;
  json.key("one_sided").beginInlineObject();
  json.key("puts").value(one_sided.puts).key("put_bytes").value(one_sided.put_bytes);
  json.key("gets").value(one_sided.gets).key("get_bytes").value(one_sided.get_bytes);
  json.key("signals").value(one_sided.signals_sent);
  json.endInlineObject();
  json.key("connections").arrayOf(report.connections, [&](const ConnectionReport& each) {
    writeConnection(json, each);
  });
  json.key("connections_not_listed").value(report.forgotten);
  json.endObject();
  return json.text();
}

// `name` with %p, the process, and %h, the host, as in NCCL_DEBUG_FILE.
std::string reportFile(const std::string& name, const std::string& host, int process) {
  std::string file;
  for (std::size_t i = 0; i < name.size(); ++i) {
    const char next = name[i] == '%' && i + 1 < name.size() ? name[i + 1] : '\0';
    if (next == 'p') file += std::to_string(process);
    else if (next == 'h') file += host;
    else {
      file += name[i];
      continue;
    }
    ++i;
  }
  return file;
}

}  // namespace

void writeReport() {
  const std::string& name = inner().config.spy_report;
  if (name.empty()) return;
  const std::string file = reportFile(name, hostName(), getpid());
  FILE* const stream = std::fopen(file.c_str(), "we");
  const std::string json = stream != nullptr ? reportJson() : "";
  const bool written = stream != nullptr && std::fwrite(json.data(), 1, json.size(), stream) == json.size();
  const bool closed = stream != nullptr && std::fclose(stream) == 0;
  if (!written || !closed)
    RAILWISE_WARN("RAILWISE_SPY_REPORT=%s: the file %s cannot be written: %s", name.c_str(), file.c_str(),
                  std::strerror(errno));
}

void reportNow() {
  const std::string lines = summaryText();
  for (std::size_t begin = 0; begin < lines.size();) {
    const std::size_t end = std::min(lines.find('\n', begin), lines.size());
    RAILWISE_INFO(log::kInit | log::kNet, "%s", lines.substr(begin, end - begin).c_str());
    begin = end + 1;
  }
  writeReport();
}

}  // namespace railwise::spy
