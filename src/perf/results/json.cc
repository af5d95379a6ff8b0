// A run as one JSON document (perf/results/report.h).
#include "base/text/json.h"

#include "perf/measuring/measuring.h"
#include "perf/results/report.h"

namespace railwise::cli {
namespace {

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
