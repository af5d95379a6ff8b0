#include "spy/report.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <string_view>

#include "base/log.h"
#include "base/text/json.h"
#include "spy/contract.h"
#include "spy/inner.h"
#include "spy/registry.h"
#include "spy/spy.h"

namespace railwise::spy {
namespace {

using record::Side;

constexpr std::array kDataFunctions = {"isend", "irecv", "iflush", "test"};
constexpr std::array<std::string_view, kWaits> kWaitNames = {"nccl_s", "peer_s", "network_s", "plugin_s"};

std::string text(const char* format, ...) __attribute__((format(printf, 1, 2)));
std::string text(const char* format, ...) {
  char line[512];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(line, sizeof line, format, arguments);
  va_end(arguments);
  return line;
}

double seconds(uint64_t ns) { return static_cast<double>(ns) / 1e9; }

std::string bytesText(uint64_t bytes) {
  constexpr std::array kUnits = {"B", "kB", "MB", "GB", "TB", "PB"};
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (; value >= 1000 && unit + 1 < kUnits.size(); ++unit) value /= 1000;
  return text(unit == 0 ? "%.0f %s" : "%.1f %s", value, kUnits[unit]);
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
};

Sums sumUp(const std::vector<ConnectionReport>& connections) {
  Sums sums;
  for (const ConnectionReport& each : connections) {
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

std::string breachesText() {
  const auto counts = breachCounts();
  std::string found;
  for (int i = 0; i < kBreaches; ++i) {
    if (counts[static_cast<std::size_t>(i)] == 0) continue;
    const auto breach = static_cast<Breach>(i);
    found += text("%s%s %llu x %s", found.empty() ? "" : ", ", byNccl(breach) ? "NCCL" : "the plugin",
                  static_cast<unsigned long long>(counts[static_cast<std::size_t>(i)]), breachName(breach));
  }
  return found.empty() ? "no breach of the contract" : "breaches of the contract: " + found;
}

void writeHistogram(JsonWriter& json, const char* name, const auto& buckets) {
  json.key(name).beginRow();
  for (const uint32_t count : buckets) json.value(uint64_t{count});
  json.endRow();
}

void writeConnection(JsonWriter& json, const ConnectionReport& each) {
  const Figures& figures = each.figures;
  json.beginObject();
  json.key("number").value(each.number);
  json.key("side").value(each.side == Side::kSender ? "sender" : "receiver");
  json.key("device").value(each.device);
  json.key("communicator").value(text("0x%llx", static_cast<unsigned long long>(each.communicator)));
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
    json.key(kDataFunctions[i]).beginInlineObject();
    json.key("calls").value(uint64_t{figures.calls[i].calls});
    json.key("idle").value(uint64_t{figures.calls[i].idle});
    json.key("errors").value(figures.errors[i]);
    json.key("s").value(seconds(figures.calls[i].ns));
    json.key("longest_s").value(seconds(figures.longest_ns[i]));
    json.endInlineObject();
  }
  json.endObject();
  writeHistogram(json, "latency_ns_log2", figures.latency);
  writeHistogram(json, "bytes_log2", figures.size);
  if (each.side == Side::kReceiver) writeHistogram(json, "buffers_of_irecv", figures.groups);
  json.endObject();
}

}  // namespace

std::string summaryText() {
  Registry& registry = Registry::get();
  const std::vector<ConnectionReport> connections = registry.connections();
  const Sums sums = sumUp(connections);
  const auto count = [](uint64_t value) { return static_cast<unsigned long long>(value); };
  std::string lines =
      text("%s: %llu connections, %llu sends of %s, %llu receives of %s; %s", inner().file.c_str(),
           count(sums.senders.connections + sums.receivers.connections), count(sums.senders.messages),
           bytesText(sums.senders.bytes).c_str(), count(sums.receivers.messages),
           bytesText(sums.receivers.bytes).c_str(), breachesText().c_str());
  if (sums.senders.allNs() != 0)
    lines += text(
        "\nsenders: %d %% of the time nothing from NCCL, %d %% no receive of the peer, %d %% under way, %d "
        "%% in the plugin",
        sums.senders.percent(Wait::kNccl), sums.senders.percent(Wait::kPeer),
        sums.senders.percent(Wait::kNetwork), sums.senders.percent(Wait::kPlugin));
  if (sums.receivers.allNs() != 0)
    lines +=
        text("\nreceivers: %d %% of the time nothing from NCCL, %d %% waiting for data, %d %% in the plugin",
             sums.receivers.percent(Wait::kNccl), sums.receivers.percent(Wait::kNetwork),
             sums.receivers.percent(Wait::kPlugin));
  if (const record::OneSidedTotals its = registry.oneSided(); its.puts + its.gets != 0)
    lines += text("\none-sided: %llu puts of %s, %llu signals, %llu gets of %s", count(its.puts),
                  bytesText(its.put_bytes).c_str(), count(its.signals_sent), count(its.gets),
                  bytesText(its.get_bytes).c_str());
  const uint64_t requests = sums.senders.left_open + sums.receivers.left_open;
  const uint64_t listeners = registry.openListeners() + registry.listenersLeft();
  if (requests + sums.memory_left + sums.not_closed + listeners != 0)
    lines +=
        text("\nleft open: %llu connections, %llu listeners, %llu requests, %llu registrations of memory",
             count(sums.not_closed), count(listeners), count(requests), count(sums.memory_left));
  return lines;
}

std::string reportJson() {
  Registry& registry = Registry::get();
  const std::vector<ConnectionReport> connections = registry.connections();
  const Sums sums = sumUp(connections);
  JsonWriter json;
  json.beginObject();
  json.key("plugin").value(pluginName());
  json.key("file").value(inner().file);
  json.key("api").value(apiInUse());
  json.key("pid").value(static_cast<int>(getpid()));
  json.key("breaches").beginArray();
  const auto counts = breachCounts();
  for (int i = 0; i < kBreaches; ++i) {
    if (counts[static_cast<std::size_t>(i)] == 0) continue;
    const auto breach = static_cast<Breach>(i);
    json.beginObject();
    json.key("by").value(byNccl(breach) ? "nccl" : "plugin");
    json.key("kind").value(breachName(breach));
    json.key("count").value(counts[static_cast<std::size_t>(i)]);
    json.key("first").value(firstBreach(breach));
    json.endObject();
  }
  json.endArray();
  json.key("left_open").beginInlineObject();
  json.key("connections").value(sums.not_closed);
  json.key("listeners").value(uint64_t{registry.openListeners() + registry.listenersLeft()});
  json.key("requests").value(sums.senders.left_open + sums.receivers.left_open);
  json.key("memory").value(sums.memory_left);
  json.endInlineObject();
  json.key("calls").beginObject();
  for (int i = 0; i < kFunctions; ++i) {
    const auto function = static_cast<Function>(i);
    const FunctionCounts& its = registry.counts(function);
    if (its.calls == 0) continue;
    json.key(functionName(function)).beginInlineObject();
    json.key("calls").value(its.calls.load());
    json.key("errors").value(its.errors.load());
    json.key("s").value(seconds(its.ns));
    json.key("longest_s").value(seconds(its.longest_ns));
    json.endInlineObject();
  }
  json.endObject();
  const record::OneSidedTotals one_sided = registry.oneSided();
  json.key("one_sided").beginInlineObject();
  json.key("puts").value(one_sided.puts).key("put_bytes").value(one_sided.put_bytes);
  json.key("gets").value(one_sided.gets).key("get_bytes").value(one_sided.get_bytes);
  json.key("signals").value(one_sided.signals_sent);
  json.endInlineObject();
  json.key("connections").beginArray();
  for (const ConnectionReport& each : connections) writeConnection(json, each);
  json.endArray();
  json.key("connections_not_listed").value(registry.forgotten());
  json.endObject();
  return json.text() + "\n";
}

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

void writeReport() {
  const std::string& name = inner().config.spy_report;
  if (name.empty()) return;
  char host[256] = {};
  (void)gethostname(host, sizeof host - 1);
  const std::string file = reportFile(name, host, getpid());
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
