// A run as CSV (perf/results/report.h).
#include "cli/options/message.h"
#include "perf/measuring/spread.h"
#include "perf/results/report.h"

namespace railwise::cli {
namespace {

constexpr const char* kNames =
    "collective,ranks,size_b,count,type,redop,root,place,time_us,algbw_gbps,busbw_gbps,wrong,warmup_us,"
    "samples,"
    "min_us,p25_us,median_us,p75_us,p99_us,max_us";

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

}  // namespace

std::string csvText(const Report& report) {
  std::string text = std::string(kNames) + "\n";
  for (const Row& row : report.rows)
    text +=
        lineOf(report, row, "out_of_place", row.out_of_place) + lineOf(report, row, "in_place", row.in_place);
  return text;
}

}  // namespace railwise::cli
