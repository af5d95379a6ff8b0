// The counters of processes as monitoring systems take them: families of samples. Pure values, any thread.
//
// No label has a value that a job can make without end: a sample belongs to a process, or to a port of a
// process, and never to a connection or a peer.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "record/snapshot.h"

namespace railwise::observe {

using Labels = std::vector<std::pair<std::string, std::string>>;

enum class FamilyKind : uint8_t { kCounter, kGauge, kHistogram };

// With the unit's name in OTLP (UCUM), and the end of a family's name in Prometheus.
#define RAILWISE_METRIC_UNITS(X)     \
  X(Unit, kNone, "", "")             \
  X(Unit, kBytes, "By", "_bytes")    \
  X(Unit, kSeconds, "s", "_seconds") \
  X(Unit, kBytesPerSecond, "By/s", "_bytes_per_second")
enum class Unit : uint8_t { RAILWISE_METRIC_UNITS(RAILWISE_ENUMERATOR) };
inline constexpr Named<Unit> kUnits[] = {RAILWISE_METRIC_UNITS(RAILWISE_NAMED)};

// Values that are at most `at_most`, and larger than those of the bucket before it.
struct Bucket {
  double at_most = 0;
  uint64_t count = 0;
};
struct Histogram {
  std::vector<Bucket> buckets;  // ascending; what is larger than the last one is in count only
  uint64_t count = 0;
  double sum = 0;
};

struct Sample {
  Labels labels;
  std::variant<uint64_t, double, Histogram> value;
  std::optional<std::size_t> process;  // place in Metrics::processes; none: of no process
};

struct Family {
  std::string name;  // "railwise.rail.sent": without unit and type
  std::string help;
  FamilyKind kind = FamilyKind::kGauge;
  Unit unit = Unit::kNone;
  std::vector<Sample> samples;
};

struct Metrics {
  std::vector<record::Process> processes;
  std::vector<Family> families;
  uint64_t at_unix_ns = 0;
};

// `unreadable`: how many records were found that could not be read.
Metrics collectMetrics(std::span<const record::Snapshot> snapshots, std::size_t unreadable);

// Prometheus' text format, version 0.0.4.
std::string prometheusText(const Metrics& metrics);

// One line: an ExportMetricsServiceRequest of OTLP as JSON, as the file exporter of the OpenTelemetry
// Collector writes it.
std::string otlpLine(const Metrics& metrics);

}  // namespace railwise::observe
