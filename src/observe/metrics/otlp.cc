// OTLP as JSON: an ExportMetricsServiceRequest. Numbers of 64 bits are strings there, as the JSON form of
// protocol buffers has them.
#include <algorithm>
#include <optional>

#include "base/text/json.h"
#include "observe/metrics/family.h"

namespace railwise::observe {
namespace {

constexpr int kCumulative = 2;  // AGGREGATION_TEMPORALITY_CUMULATIVE

// UCUM, as OpenTelemetry wants it.
const char* unitText(Unit unit) {
  switch (unit) {
    case Unit::kBytes:
      return "By";
    case Unit::kSeconds:
      return "s";
    case Unit::kBytesPerSecond:
      return "By/s";
    case Unit::kNone:
      break;
  }
  return "";
}

void writeAttribute(JsonWriter& json, const std::string& name, const std::string& value) {
  json.beginInlineObject().key("key").value(name);
  json.key("value").beginInlineObject().key("stringValue").value(value).endInlineObject();
  json.endInlineObject();
}

void writeValue(JsonWriter& json, const Sample& sample) {
  if (const auto* histogram = std::get_if<Histogram>(&sample.value)) {
    json.key("count").value(std::to_string(histogram->count)).key("sum").value(histogram->sum);
    uint64_t inside = 0;
    json.key("bucketCounts").beginRow();
    for (const Bucket& bucket : histogram->buckets) {
      json.value(std::to_string(bucket.count));
      inside += bucket.count;
    }
    json.value(std::to_string(histogram->count - inside)).endRow();
    json.key("explicitBounds").beginRow();
    for (const Bucket& bucket : histogram->buckets) json.value(bucket.at_most);
    json.endRow();
  } else if (const auto* whole = std::get_if<uint64_t>(&sample.value); whole == nullptr) {
    json.key("asDouble").value(std::get<double>(sample.value));
  } else if (*whole <= INT64_MAX) {
    json.key("asInt").value(std::to_string(*whole));
  } else {
    json.key("asDouble").value(static_cast<double>(*whole));
  }
}

// The samples of `process`, or those without a process if there is none.
void writeFamily(JsonWriter& json, const Metrics& metrics, const Family& family,
                 const std::optional<std::size_t>& process) {
  const auto belongs = [&](const Sample& sample) { return sample.process == process; };
  if (std::none_of(family.samples.begin(), family.samples.end(), belongs)) return;
  json.beginInlineObject().key("name").value(family.name).key("description").value(family.help);
  json.key("unit").value(unitText(family.unit));
  const bool sum = family.kind == FamilyKind::kCounter;
  const bool gauge = family.kind == FamilyKind::kGauge;
  json.key(sum ? "sum" : gauge ? "gauge" : "histogram").beginInlineObject();
  if (!gauge) json.key("aggregationTemporality").value(kCumulative);
  if (sum) json.key("isMonotonic").value(true);
  json.key("dataPoints").beginRow();
  for (const Sample& sample : family.samples) {
    if (!belongs(sample)) continue;
    json.beginInlineObject().key("attributes").beginRow();
    for (const auto& [name, value] : sample.labels) writeAttribute(json, name, value);
    json.endRow();
    if (!gauge && process)
      json.key("startTimeUnixNano").value(std::to_string(metrics.processes[*process].started_unix_ns));
    json.key("timeUnixNano").value(std::to_string(metrics.at_unix_ns));
    writeValue(json, sample);
    json.endInlineObject();
  }
  json.endRow().endInlineObject().endInlineObject();
}

void writeResource(JsonWriter& json, const Metrics& metrics, const std::optional<std::size_t>& process) {
  json.beginInlineObject().key("resource").beginInlineObject().key("attributes").beginRow();
  writeAttribute(json, "service.name", "railwise");
  if (process) {
    const record::Process& its = metrics.processes[*process];
    writeAttribute(json, "host.name", its.host);
    writeAttribute(json, "process.pid", std::to_string(its.pid));
    writeAttribute(json, "process.executable.name", its.program);
  }
  json.endRow().endInlineObject().key("scopeMetrics").beginRow().beginInlineObject();
  json.key("scope").beginInlineObject().key("name").value("railwise");
  json.key("version").value(RAILWISE_VERSION).endInlineObject();
  json.key("metrics").beginRow();
  for (const Family& family : metrics.families) writeFamily(json, metrics, family, process);
  json.endRow().endInlineObject().endRow().endInlineObject();
}

}  // namespace

std::string otlpLine(const Metrics& metrics) {
  JsonWriter json;
  json.beginInlineObject().key("resourceMetrics").beginRow();
  writeResource(json, metrics, std::nullopt);
  for (std::size_t process = 0; process < metrics.processes.size(); ++process)
    writeResource(json, metrics, process);
  json.endRow().endInlineObject();
  return json.text();
}

}  // namespace railwise::observe
