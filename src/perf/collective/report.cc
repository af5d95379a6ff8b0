#include "perf/collective/report.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "base/json.h"
#include "cli/options/message.h"
#include "cli/plugin/device_choice.h"

namespace railwise::cli {
namespace {

// Writes `value` in at most `width` characters if possible: with two decimals, or fewer if the value is
// large.
std::string fitted(double value, int width) {
  for (const int decimals : {2, 1, 0}) {
    std::string text = textOf("%*.*f", width, decimals, value);
    if (text.size() <= static_cast<std::size_t>(width)) return text;
  }
  return textOf("%*.*e", width, width >= 7 ? 1 : 0, value);
}

const char* opColumn(const PerfOptions& options) {
  return options.collective == Collective::kAllReduce ? reduceOpName(options.op) : "none";
}

std::string measurementText(const Report& report, uint64_t bytes, const Measurement& measured) {
  const double algbw = algorithmBandwidth(bytes, measured.seconds);
  const double busbw = algbw * busFactor(report.options.collective, report.ranks);
  const std::string wrong =
      report.options.check != 0 ? textOf("%6g", static_cast<double>(measured.wrong)) : std::string("   N/A");
  return "  " + fitted(measured.seconds * 1e6, 7) + "  " + fitted(algbw, 6) + "  " + fitted(busbw, 6) + "  " +
         wrong;
}

void addMeasurement(JsonWriter& json, const Report& report, const char* key, uint64_t bytes,
                    const Measurement& measured) {
  const double algbw = algorithmBandwidth(bytes, measured.seconds);
  json.key(key).beginObject();
  json.key("time_us").value(measured.seconds * 1e6);
  json.key("alg_bw").value(algbw);
  json.key("bus_bw").value(algbw * busFactor(report.options.collective, report.ranks));
  json.key("wrong");
  if (report.options.check != 0) {
    json.value(measured.wrong);
  } else {
    json.null();
  }
  json.endObject();
}

void addSetup(JsonWriter& json, const Report& report) {
  const PerfOptions& options = report.options;
  json.key("config").beginObject();
  json.key("minimum_bytes").value(options.min_bytes);
  json.key("maximum_bytes").value(options.max_bytes);
  if (options.step_factor > 1) {
    json.key("step_factor").value(options.step_factor);
  } else {
    json.key("step_bytes").value(options.step_bytes);
  }
  json.key("warmup_iters").value(options.warmup_iters);
  json.key("iterations").value(options.iters);
  if (options.duration_s > 0) json.key("duration_s").value(options.duration_s);
  json.key("channels").value(options.channels);
  json.key("validation").value(options.check != 0);
  json.key("checked_iterations").value(options.check);
  json.key("fused").value(options.fuse);
  json.endObject();
  json.key("ranks").beginArray();
  for (const RankLine& line : report.rank_lines) {
    json.beginObject();
    json.key("rank").value(line.rank);
    json.key("pid").value(line.pid);
    json.key("host").value(line.host);
    json.key("devices").value(line.devices);
    json.endObject();
  }
  json.endArray();
}

}  // namespace

double algorithmBandwidth(uint64_t bytes, double seconds) {
  return seconds > 0 ? static_cast<double>(bytes) / 1e9 / seconds : 0;
}

double busFactor(Collective collective, int ranks) {
  const double n = ranks;
  switch (collective) {
    case Collective::kAllReduce:
      return 2 * (n - 1) / n;
    case Collective::kAllToAll:
      return (n - 1) / n;
    case Collective::kSendRecv:
      return 1;
  }
  return 1;
}

double Report::averageBusBandwidth() const {
  double sum = 0;
  for (const Row& row : rows) {
    sum += algorithmBandwidth(row.bytes, row.out_of_place.seconds);
    sum += algorithmBandwidth(row.bytes, row.in_place.seconds);
  }
  const double factor = busFactor(options.collective, ranks);
  return rows.empty() ? 0 : sum * factor / (2.0 * static_cast<double>(rows.size()));
}

uint64_t Report::wrong() const {
  uint64_t sum = 0;
  for (const Row& row : rows) sum += row.out_of_place.wrong + row.in_place.wrong;
  return sum;
}

std::string headerText(const Report& report) {
  const PerfOptions& options = report.options;
  const bool by_factor = options.step_factor > 1;
  const uint64_t step = by_factor ? static_cast<uint64_t>(options.step_factor) : options.step_bytes;
  std::string text = textOf("# railwise %s perf %s\n", RAILWISE_VERSION, collectiveName(options.collective));
  text += textOf("# plugin %s (%s, API v%d)\n", report.plugin_path.c_str(), report.plugin_name.c_str(),
                 report.api);
  if (report.software_fallback) text += textOf("# %s\n", kSoftwareFallbackText);
  text += textOf(
      "# ranks %d channels %d minBytes %llu maxBytes %llu step: %llu(%s) warmup iters: %d iters: %d "
      "validation: %d\n",
      report.ranks, options.channels, static_cast<unsigned long long>(options.min_bytes),
      static_cast<unsigned long long>(options.max_bytes), static_cast<unsigned long long>(step),
      by_factor ? "factor" : "bytes", options.warmup_iters, options.iters, options.check);
  text += "# time: average over iterations, maximum over ranks\n#\n# Using devices\n";
  for (const RankLine& line : report.rank_lines)
    text += textOf("#  Rank %2d Pid %6d on %10s device %s\n", line.rank, line.pid, line.host.c_str(),
                   line.devices.c_str());
  text += "#\n";
  text +=
      textOf("# %10s  %12s  %8s  %6s  %6s           out-of-place                       in-place          \n",
             "", "", "", "", "");
  text +=
      textOf("# %10s  %12s  %8s  %6s  %6s  %7s  %6s  %6s  %6s  %7s  %6s  %6s  %6s\n", "size", "count", "type",
             "redop", "root", "time", "algbw", "busbw", "#wrong", "time", "algbw", "busbw", "#wrong");
  text += textOf("# %10s  %12s  %8s  %6s  %6s  %7s  %6s  %6s  %6s  %7s  %6s  %6s  %6s\n", "(B)", "(elements)",
                 "", "", "", "(us)", "(GB/s)", "(GB/s)", "", "(us)", "(GB/s)", "(GB/s)", "");
  return text;
}

std::string rowText(const Report& report, const Row& row) {
  const PerfOptions& options = report.options;
  return textOf("%12llu  %12llu  %8s  %6s  %6d", static_cast<unsigned long long>(row.bytes),
                static_cast<unsigned long long>(row.count), dataTypeName(options.type), opColumn(options),
                -1) +
         measurementText(report, row.bytes, row.out_of_place) +
         measurementText(report, row.bytes, row.in_place) + "\n";
}

namespace {

// Says what made the results worse than they could be.
std::string surroundingsText(const Surroundings& surroundings) {
  std::string text;
  if (surroundings.ranks_on_host > surroundings.cores)
    text += textOf("# %d ranks share %d cores: those that wait give theirs away, and slept %llu times\n",
                   surroundings.ranks_on_host, surroundings.cores,
                   static_cast<unsigned long long>(surroundings.naps));
  if (surroundings.others && surroundings.others->worthSaying())
    text += "# this machine was busy: " + surroundings.others->text() + "\n";
  return text;
}

}  // namespace

std::string footerText(const Report& report) {
  const auto wrong = static_cast<unsigned long long>(report.wrong());
  return (report.surroundings ? surroundingsText(*report.surroundings) : "") +
         textOf("# %-20s : %llu %s\n", "Out of bounds values", wrong, wrong == 0 ? "OK" : "FAILED") +
         textOf("# %-20s : %g \n#\n", "Avg bus bandwidth", report.averageBusBandwidth());
}

std::string jsonText(const Report& report, const std::function<void(JsonWriter&)>& more) {
  JsonWriter json;
  json.beginObject();
  json.key("version").value(RAILWISE_VERSION);
  json.key("command").value(std::string("perf ") + collectiveName(report.options.collective));
  json.key("plugin").value(report.plugin_path);
  json.key("plugin_name").value(report.plugin_name);
  json.key("api").value("v" + std::to_string(report.api));
  json.key("software_device_fallback").value(report.software_fallback);
  addSetup(json, report);
  json.key("results").beginArray();
  for (const Row& row : report.rows) {
    json.beginObject();
    json.key("size").value(row.bytes);
    json.key("count").value(row.count);
    json.key("type").value(dataTypeName(report.options.type));
    json.key("redop").value(opColumn(report.options));
    json.key("root").value(-1);
    addMeasurement(json, report, "out_of_place", row.bytes, row.out_of_place);
    addMeasurement(json, report, "in_place", row.bytes, row.in_place);
    json.endObject();
  }
  json.endArray();
  json.key("out_of_bounds").value(report.wrong());
  json.key("average_bus_bandwidth").value(report.averageBusBandwidth());
  if (report.surroundings) {
    const Surroundings& its = *report.surroundings;
    json.key("cores").value(its.cores);
    json.key("ranks_on_host").value(its.ranks_on_host);
    json.key("naps").value(its.naps);
    if (its.others) {
      json.key("others_cpu").value(its.others->processes);
      json.key("hypervisor_cpu").value(its.others->hypervisor);
    }
  }
  if (more) more(json);
  json.endObject();
  return json.text();
}

bool writeDocument(const std::string& file, const std::string& text) {
  if (file.empty()) return std::fputs(text.c_str(), stdout) >= 0 && std::fflush(stdout) == 0;
  const std::string temporary = file + ".part" + std::to_string(getpid());
  FILE* stream = std::fopen(temporary.c_str(), "we");
  bool written = stream != nullptr && std::fputs(text.c_str(), stream) >= 0;
  written = stream != nullptr && std::fclose(stream) == 0 && written;
  if (written && std::rename(temporary.c_str(), file.c_str()) == 0) return true;
  say("cannot write %s: %s", file.c_str(), std::strerror(errno));
  if (stream != nullptr) std::remove(temporary.c_str());
  return false;
}

}  // namespace railwise::cli
