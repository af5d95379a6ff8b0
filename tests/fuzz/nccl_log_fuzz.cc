// Arbitrary bytes as the log of a job: read, judged and printed. Also behind lines that are right, where they
// reach what only a rank's lines reach.
#include <cstdlib>
#include <string>

#include "doctor/log/judging/judge.h"
#include "doctor/log/ranks.h"
#include "doctor/log/reading/reader.h"
#include "doctor/results/comparison.h"

namespace {

using namespace railwise::doctor;

void readInto(JobReader& reader, std::string_view text, std::string_view before) {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    reader.line(std::string(before) + std::string(text.substr(0, end)));
    text.remove_prefix(std::min(text.size(), end + 1));
  }
}

// Tables of nccl-tests, with what stands before them on a line.
void useResults(std::string_view text, std::string_view before) {
  NcclTestsReader reader;
  reader.beginFile("fuzz");
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    reader.line(std::string(before) + std::string(text.substr(0, end)));
    text.remove_prefix(std::min(text.size(), end + 1));
  }
  Findings findings;
  railwise::JsonWriter json;
  json.beginObject();
  for (const TestRun& run : reader.take()) {
    if (run.rows.empty() || run.best() == nullptr) std::abort();
    const Comparison its = compare(run, {.why_none = "no machine"});
    if (its.obstacle.empty() || readText(its).empty() || headlineText(its).empty()) std::abort();
    judgeResults({&its, 1}, findings);
    writeResultsJson(json, {&its, 1});
  }
  json.endObject();
}

void use(Job job, int expected) {
  const Ranks ranks(job, expected);
  const Findings findings = judgeJob(job, ranks);
  const ReportStyle style = logStyle(job, ranks);
  for (const Finding& finding : findings.all())
    if (finding.check.empty() || finding.what.empty() || finding.seen.empty()) std::abort();
  if (reportText(findings, style).empty()) std::abort();
  railwise::JsonWriter json;
  json.beginObject();
  writeReportJson(json, findings, style);
  writeJobJson(json, job, ranks);
  json.endObject();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  JobReader reader;
  reader.beginFile("fuzz");
  readInto(reader, bytes, "");
  readInto(reader, bytes, "[1,3]<stdout>:n1:7:8 [0] NCCL INFO ");
  readInto(reader, bytes, "[2026-01-02 03:04:05] n2:9:9 [1] a.cc:1 NCCL WARN ");
  readInto(reader, bytes, "n3:9:9 [1] NCCL INFO comm 0x1 rank 1 nranks 2 ");
  readInto(reader, bytes, "n3:9:9 [1] NCCL INFO NET/Plugin: ");
  use(reader.take(), size % 2 == 0 ? 0 : 5);
  useResults(bytes, "");
  useResults(bytes, "8388608 2097152 float sum -1 992.6 8.45 16.20 0 ");
  useResults(bytes, "[1,3]<stdout>:8388608 2097152 ");
  return 0;
}
