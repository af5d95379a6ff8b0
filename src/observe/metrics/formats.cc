// Metrics in Prometheus' text format and as OTLP: an ExportMetricsServiceRequest as JSON, in which numbers of
// 64 bits are strings, as the JSON form of protocol buffers has them.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

#include "base/text/json.h"
#include "observe/metrics/family.h"

namespace railwise::observe {
namespace {

constexpr int kCumulative = 2;  // AGGREGATION_TEMPORALITY_CUMULATIVE

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
    json.key("explicitBounds").row(histogram->buckets, &Bucket::at_most);
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
  if (std::ranges::none_of(family.samples, belongs)) return;
  json.beginInlineObject().key("name").value(family.name).key("description").value(family.help);
  json.key("unit").value(rowOf(kUnits, family.unit).words);
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

const char* kindText(FamilyKind kind) {
  if (kind == FamilyKind::kHistogram) return "histogram";
  return kind == FamilyKind::kCounter ? "counter" : "gauge";
}

std::string nameOf(const Family& family) {
  std::string name = family.name;
  std::ranges::replace(name, '.', '_');
  return name + rowOf(kUnits, family.unit).key + (family.kind == FamilyKind::kCounter ? "_total" : "");
}

std::string numberText(double number) {
  if (std::isnan(number)) return "NaN";
  if (std::isinf(number)) return number > 0 ? "+Inf" : "-Inf";
  char text[64];
  return {text, std::to_chars(text, text + sizeof text, number).ptr};
}

// {a="b",c="d"}, or nothing. `last`: one more pair, if it is not empty.
std::string labelText(const Labels& labels, const std::string& last = "") {
  std::string text;
  for (const auto& [name, value] : labels) {
    text += text.empty() ? "{" : ",";
    text += name + "=\"" + escapePrometheus(value, true) + "\"";
  }
  if (!last.empty()) text += (text.empty() ? "{" : ",") + last;
  return text.empty() ? "" : text + "}";
}

void writeHistogram(std::string& text, const std::string& name, const Labels& labels,
                    const Histogram& histogram) {
  uint64_t cumulative = 0;
  for (const Bucket& bucket : histogram.buckets) {
    cumulative += bucket.count;
    text += name + "_bucket" + labelText(labels, "le=\"" + numberText(bucket.at_most) + "\"") + " " +
            std::to_string(cumulative) + "\n";
  }
  text += name + "_bucket" + labelText(labels, "le=\"+Inf\"") + " " + std::to_string(histogram.count) + "\n";
  text += name + "_sum" + labelText(labels) + " " + numberText(histogram.sum) + "\n";
  text += name + "_count" + labelText(labels) + " " + std::to_string(histogram.count) + "\n";
}

}  // namespace

std::string prometheusText(const Metrics& metrics) {
  std::string text;
  for (const Family& family : metrics.families) {
    const std::string name = nameOf(family);
    text += "# HELP " + name + " " + escapePrometheus(family.help, false) + "\n";
    text += "# TYPE " + name + " " + kindText(family.kind) + "\n";
    for (const Sample& sample : family.samples) {
      if (const auto* histogram = std::get_if<Histogram>(&sample.value)) {
        writeHistogram(text, name, sample.labels, *histogram);
        continue;
      }
      const auto* whole = std::get_if<uint64_t>(&sample.value);
      text += name + labelText(sample.labels) + " " +
              (whole != nullptr ? std::to_string(*whole) : numberText(std::get<double>(sample.value))) + "\n";
    }
  }
  return text;
}

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
