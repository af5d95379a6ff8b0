// A run as a table, as nccl-tests prints it, as CSV, and as one JSON document (perf/results/report.h).
#include <algorithm>
#include <ctime>

#include "base/text/json.h"
#include "cli/options/message.h"
#include "cli/plugin/plugin_loader.h"
#include "perf/measuring/measuring.h"
#include "perf/results/report.h"

namespace railwise::cli {
namespace {

constexpr const char* kNames =
    "collective,ranks,size_b,count,type,redop,root,place,time_us,algbw_gb_per_s,busbw_gb_per_s,wrong,"
    "warmup_us,samples,min_us,p25_us,median_us,p75_us,p99_us,max_us";

std::string lineOf(const Report& report, const Row& row, const char* place, const Measurement& measured) {
  const PerfOptions& options = report.options;
  const Spread its = spreadOf(measured.samples);
  std::string line = textOf("%s,%d,%llu,%llu,%s,%s,%d,%s", collectiveName(options.collective), report.ranks,
                            static_cast<unsigned long long>(row.bytes),
                            static_cast<unsigned long long>(row.count), dataTypeName(row.variant.type),
                            opColumn(options.collective, row.variant), row.variant.root, place);
  line += textOf(",%.9g,%.9g,%.9g,", measured.seconds * 1e6, report.algorithmBandwidth(row, measured),
                 report.busBandwidth(row, measured));
  // Empty: not checked.
  if (options.check != 0) line += std::to_string(measured.wrong);
  line += textOf(",%.9g,%d", measured.warmup_seconds * 1e6, its.samples);
  for (const double seconds : {its.least, its.quarter, its.median, its.three_quarters, its.p99, its.largest})
    line += its.samples > 0 ? textOf(",%.9g", seconds * 1e6) : std::string(",");
  return line + "\n";
}

// Writes `value` in at most `width` characters if possible: with two decimals, or fewer if the value is
// large.
std::string fitted(double value, int width) {
  for (const int decimals : {2, 1, 0}) {
    std::string text = textOf("%*.*f", width, decimals, value);
    if (text.size() <= static_cast<std::size_t>(width)) return text;
  }
  return textOf("%*.*e", width, width >= 7 ? 1 : 0, value);
}

constexpr const char* kTimeOfDay = "%Y-%m-%d %H:%M:%S";

std::string iterationsText(const Measurement& measured) {
  const Spread its = spreadOf(measured.samples);
  return "  " + fitted(its.least * 1e6, 7) + "  " + fitted(its.largest * 1e6, 7) + "  " +
         fitted(its.p99 * 1e6, 7) + "  " + fitted(its.variation(), 7);
}

std::string measurementText(const Report& report, const Row& row, const Measurement& measured) {
  const std::string wrong =
      report.options.check != 0 ? textOf("%6g", static_cast<double>(measured.wrong)) : std::string("   N/A");
  return "  " + fitted(measured.seconds * 1e6, 7) + "  " +
         fitted(report.algorithmBandwidth(row, measured), 6) + "  " +
         fitted(report.busBandwidth(row, measured), 6) + "  " + wrong +
         (report.options.iteration_columns ? iterationsText(measured) : "");
}

// The cells of a half of the table that is not measured.
std::string emptyText(const PerfOptions& options) {
  return textOf("  %7s  %6s  %6s  %6s", "N/A", "N/A", "N/A", "N/A") +
         (options.iteration_columns ? textOf("  %7s  %7s  %7s  %7s", "N/A", "N/A", "N/A", "N/A") : "");
}

std::string timestampText() {
  const std::time_t now = std::time(nullptr);
  std::tm local = {};
  localtime_r(&now, &local);
  char text[32] = "";
  (void)std::strftime(text, sizeof text, kTimeOfDay, &local);
  return textOf("%21s", text);
}

std::string timesSentence(const PerfOptions& options) {
  constexpr const char* kOverRanks[] = {"of rank 0", "average over ranks", "minimum over ranks",
                                        "maximum over ranks"};
  return std::string("# time: average over iterations, ") + kOverRanks[static_cast<int>(options.average)] +
         (traitsOf(options.collective).ways == 2 ? "; half of a round trip" : "");
}

// The names of the columns of one half, in two lines.
struct ColumnNames {
  std::string names;
  std::string units;
};
ColumnNames columnsOfHalf(const PerfOptions& options) {
  ColumnNames its = {textOf("  %7s  %6s  %6s  %6s", "time", "algbw", "busbw", "#wrong"),
                     textOf("  %7s  %6s  %6s  %6s", "(us)", "(GB/s)", "(GB/s)", "")};
  if (!options.iteration_columns) return its;
  its.names += textOf("  %7s  %7s  %7s  %7s", "i_min", "i_max", "i_p99", "i_cv%");
  its.units += textOf("  %7s  %7s  %7s  %7s", "(us)", "(us)", "(us)", "(%)");
  return its;
}

std::string columnHeads(const PerfOptions& options) {
  const ColumnNames half = columnsOfHalf(options);
  const char* const halves = options.iteration_columns
                                 ? "              out-of-place (+ per-iteration)                             "
                                   "   in-place (+ per-iteration)"
                                 : "           out-of-place                       in-place          ";
  const std::string before = textOf("# %10s  %12s  %8s  %6s  %6s", "", "", "", "", "");
  const std::string names = textOf("# %10s  %12s  %8s  %6s  %6s", "size", "count", "type", "redop", "root");
  const std::string units = textOf("# %10s  %12s  %8s  %6s  %6s", "(B)", "(elements)", "", "", "");
  const std::string stamp = options.timestamps ? textOf("%21s", "timestamp") : "";
  const std::string form = options.timestamps ? textOf("%21s", kTimeOfDay) : "";
  return before + halves + "\n" + names + half.names + half.names + stamp + "\n" + units + half.units +
         half.units + form + "\n";
}

void addIterations(JsonWriter& json, const Measurement& measured) {
  const Spread its = spreadOf(measured.samples);
  if (measured.warmup_seconds > 0) json.key("warmup_us").value(measured.warmup_seconds * 1e6);
  if (its.samples == 0) return;
  json.key("iterations").beginInlineObject();
  json.key("samples").value(its.samples);
  json.key("min_us").value(its.least * 1e6);
  json.key("p25_us").value(its.quarter * 1e6);
  json.key("median_us").value(its.median * 1e6);
  json.key("p75_us").value(its.three_quarters * 1e6);
  json.key("p99_us").value(its.p99 * 1e6);
  json.key("max_us").value(its.largest * 1e6);
  json.key("avg_us").value(its.mean * 1e6);
  json.key("stdev_us").value(its.deviation * 1e6);
  json.endInlineObject();
}

void addMeasurement(JsonWriter& json, const Report& report, const char* key, const Row& row,
                    const Measurement& measured) {
  json.key(key).beginObject();
  json.key("time_us").value(measured.seconds * 1e6);
  json.key("alg_bw").value(report.algorithmBandwidth(row, measured));
  json.key("bus_bw").value(report.busBandwidth(row, measured));
  json.key("wrong").known(report.options.check != 0 ? std::optional(measured.wrong) : std::nullopt);
  addIterations(json, measured);
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
  json.key("aggregated_iterations").value(options.aggregated);
  json.key("channels").value(options.channels);
  json.key("validation").value(options.check != 0);
  json.key("checked_iterations").value(options.check);
  json.key("fused").value(options.fuse);
  json.endObject();
  json.key("ranks").objects(report.rank_lines, [&](const RankLine& line) {
    json.key("rank").value(line.rank);
    json.key("pid").value(line.pid);
    json.key("host").value(line.host);
    json.key("devices").value(line.devices);
  });
}

void addReached(JsonWriter& json, const Report& report, const Reached& its) {
  json.key("expectation").beginObject();
  json.key("reached_gb_per_s").value(its.gbytes);
  json.key("reached_bytes").value(its.bytes);
  json.key("ports_gb_per_s").value(its.ports->gbytes);
  json.key("ports_limit").value(its.ports->port);
  json.key("ports_share").value(its.gbytes / its.ports->gbytes);
  if (its.model) {
    json.key("model").value(its.model->release);
    json.key("model_gb_per_s").value(its.model->gbytes);
    json.key("model_algorithm").value(its.model->algorithm);
    json.key("model_limit").value(its.model->limit);
    json.key("model_ring_network_gb_per_s").value(its.model->ring_network);
    json.key("model_share");
    isLikeTheRings(report, *its.model) ? json.value(its.gbytes / its.model->ring_network) : json.null();
  }
  json.endObject();
}

}  // namespace

std::string headerText(const Report& report) {
  const PerfOptions& options = report.options;
  const bool by_factor = options.step_factor > 1;
  const uint64_t step = by_factor ? static_cast<uint64_t>(options.step_factor) : options.step_bytes;
  std::string text = textOf("# railwise %s perf %s\n", RAILWISE_VERSION, collectiveName(options.collective));
  text += textOf("# plugin %s (%s, API v%d)\n", report.plugin_path.c_str(), report.plugin_name.c_str(),
                 report.api);
  text += textOf("# Collective test starting: %s_perf\n", collectiveName(options.collective));
  if (report.software_fallback) text += textOf("# %s\n", kSoftwareFallbackText);
  if (!report.fabric.empty() && !report.rank_lines.empty()) {
    const std::string& devices = report.rank_lines.front().devices;
    text += textOf("# fabric %s: to take a port down meanwhile: railwise device port %s:1 down --fabric %s\n",
                   report.fabric.c_str(), devices.substr(0, devices.find_first_of(",+")).c_str(),
                   report.fabric.c_str());
  }
  text += textOf(
      "# ranks %d channels %d minBytes %llu maxBytes %llu step: %llu(%s) warmup iters: %d iters: %d agg "
      "iters: %d validation: %d\n",
      report.ranks, options.channels, static_cast<unsigned long long>(options.min_bytes),
      static_cast<unsigned long long>(options.max_bytes), static_cast<unsigned long long>(step),
      by_factor ? "factor" : "bytes", options.warmup_iters, options.iters, options.aggregated, options.check);
  for (const std::string& note : options.notes) text += "# " + note + "\n";
  text += timesSentence(options) + "\n#\n# Using devices\n";
  for (const RankLine& line : report.rank_lines)
    text += textOf("#  Rank %2d Pid %6d on %10s device %s\n", line.rank, line.pid, line.host.c_str(),
                   line.devices.c_str());
  text += "#\n";
  return text + columnHeads(options);
}

std::string rowText(const Report& report, const Row& row) {
  const PerfOptions& options = report.options;
  return textOf("%12llu  %12llu  %8s  %6s  %6d", static_cast<unsigned long long>(row.bytes),
                static_cast<unsigned long long>(row.count), dataTypeName(row.variant.type),
                opColumn(options.collective, row.variant), row.variant.root) +
         measurementText(report, row, row.out_of_place) +
         (placesOf(options.collective).size() > 1 ? measurementText(report, row, row.in_place)
                                                  : emptyText(options)) +
         (options.timestamps ? timestampText() : "") + "\n";
}

namespace {

// Says that a few iterations were far longer than the others, so that averages say little.
std::string outliersText(const Report& report) {
  constexpr double kFar = 2;
  double furthest = 0;
  for (const Row& row : report.rows) {
    for (const Measurement* half : report.measurementsOf(row)) {
      const Spread its = spreadOf(half->samples);
      if (its.median > 0) furthest = std::max(furthest, its.mean / its.median);
    }
  }
  if (furthest < kFar) return "";
  return textOf(
      "# a few iterations were far longer than the others: averages are up to %.0f times the median\n",
      furthest);
}

// "2.31 of 2.5 GB/s (92 %)"
std::string shareText(double part, double whole) {
  return textOf("%.4g of %.4g GB/s (%.0f %%)", part, whole, 100 * part / whole);
}

// A line of the footer; without a name it goes on with what the line before says.
std::string footerLine(const char* name, const std::string& text) {
  return textOf("# %-20s %s ", name, *name != '\0' ? ":" : " ") + text + "\n";
}

std::string modelText(const Report& report, const Reached& its) {
  const ModelAnswer& model = *its.model;
  const std::string expected =
      textOf("%.4g GB/s with %d GPU%s on each of %d hosts like this (%s, %s)", model.gbytes, model.gpus,
             model.gpus == 1 ? "" : "s", model.hosts, model.release.c_str(), model.algorithm.c_str());
  if (!isLikeTheRings(report, model))
    return footerLine("NCCL's model", expected) +
           footerLine("", textOf("not compared: that takes one rank on each host, and --channels %zu",
                                 model.ring_nics.size()));
  return footerLine("NCCL's model",
                    shareText(its.gbytes, model.ring_network) + " that its rings take of these NICs") +
         footerLine("", expected);
}

std::string reachedText(const Report& report, const Reached& its) {
  return footerLine("You get", shareText(its.gbytes, its.ports->gbytes) +
                                   textOf(" that the ports allow, at %llu bytes",
                                          static_cast<unsigned long long>(its.bytes))) +
         footerLine("",
                    textOf("%s fills first: %.4g GB/s", its.ports->port.c_str(), its.ports->port_gbytes)) +
         (its.model ? modelText(report, its) : "");
}

}  // namespace

std::string surroundingsText(const Report& report) {
  if (!report.surroundings) return "";
  const Surroundings& surroundings = *report.surroundings;
  std::string text;
  if (surroundings.ranks_on_host > surroundings.cores)
    text += textOf("# %d ranks share %d cores: those that wait give theirs away, and slept %llu times\n",
                   surroundings.ranks_on_host, surroundings.cores,
                   static_cast<unsigned long long>(surroundings.naps));
  if (surroundings.load > surroundings.cores)
    text += textOf("# this machine was busy: its load was %.1f on %d cores when the run began\n",
                   surroundings.load, surroundings.cores);
  if (surroundings.others && surroundings.others->worthSaying())
    text += "# this machine was busy: " + surroundings.others->text() + "\n";
  return text;
}

std::string footerText(const Report& report) {
  const auto wrong = static_cast<unsigned long long>(report.wrong());
  return surroundingsText(report) + outliersText(report) +
         (report.software_device ? "# software device: these figures say nothing about a NIC\n" : "") +
         textOf("# %-20s : %llu %s\n", "Out of bounds values", wrong, wrong == 0 ? "OK" : "FAILED") +
         textOf("# %-20s : %g \n", "Avg bus bandwidth", report.averageBusBandwidth()) +
         (report.reached ? reachedText(report, *report.reached) : "") + report.comparison + "#\n" +
         textOf("# Collective test concluded: %s_perf\n", collectiveName(report.options.collective));
}

std::string csvText(const Report& report) {
  std::string text = std::string(kNames) + "\n";
  for (const Row& row : report.rows) {
    for (const bool in_place : placesOf(report.options.collective))
      text += lineOf(report, row, in_place ? "in_place" : "out_of_place", row.at(in_place));
  }
  return text;
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
  json.key("software_device").value(report.software_device);
  addSetup(json, report);
  json.key("results").objects(report.rows, [&](const Row& row) {
    json.key("size").value(row.bytes);
    json.key("count").value(row.count);
    json.key("type").value(dataTypeName(row.variant.type));
    json.key("redop").value(opColumn(report.options.collective, row.variant));
    json.key("root").value(row.variant.root);
    if (row.passes > 1) json.key("passes").value(row.passes);
    addMeasurement(json, report, "out_of_place", row, row.out_of_place);
    if (placesOf(report.options.collective).size() > 1)
      addMeasurement(json, report, "in_place", row, row.in_place);
  });
  json.key("out_of_bounds").value(report.wrong());
  json.key("average_bus_bandwidth").value(report.averageBusBandwidth());
  if (report.surroundings) {
    const Surroundings& its = *report.surroundings;
    json.key("cores").value(its.cores);
    json.key("ranks_on_host").value(its.ranks_on_host);
    json.key("naps").value(its.naps);
    json.key("load").value(its.load);
    if (its.others) {
      json.key("others_cpu").value(its.others->processes);
      json.key("hypervisor_cpu").value(its.others->hypervisor);
    }
  }
  if (report.reached) addReached(json, report, *report.reached);
  if (more) more(json);
  json.endObject();
  return json.text();
}

}  // namespace railwise::cli
