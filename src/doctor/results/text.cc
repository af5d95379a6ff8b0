#include "doctor/results/text.h"

#include "base/text/words.h"
#include "doctor/report.h"

namespace railwise::doctor {
namespace {

std::string shareText(const Comparison& its) {
  return formatted("%.1f of %.1f GB/s (%.0f %%)", its.measured(), its.expected[*its.judged],
                   100 * its.share());
}

std::string collectiveText(const Comparison& its) {
  return its.run.collective.empty() ? "nccl-tests" : its.run.collective;
}

}  // namespace

std::string ranksText(const Comparison& its) {
  return its.ranks <= 0 ? "" : counted(its.ranks, "rank") + " on " + counted(its.hosts, "host");
}

std::string jobText(const Comparison& its) {
  return collectiveText(its) + (its.ranks > 0 ? ", " : "") + ranksText(its);
}

std::string youGetText(const Comparison& its) {
  return shareText(its) + " at " + sizeText(its.run.rows[*its.judged].bytes);
}

std::string headlineText(const Comparison& its) {
  const ResultRow* const best = its.run.best();
  if (its.judged) return collectiveText(its) + " " + shareText(its);
  return collectiveText(its) + formatted(" %.1f GB/s", best == nullptr ? 0 : best->best());
}

std::string readText(const Comparison& its) {
  const ResultRow* const best = its.run.best();
  std::string text = "nccl-tests: " + jobText(its);
  if (!its.run.gpu.empty()) text += " (" + its.run.gpu + ")";
  text += ", " + counted(its.run.rows.size(), "size");
  if (best != nullptr) text += formatted(", at most %.2f GB/s at ", best->best()) + sizeText(best->bytes);
  return text;
}

std::string tableText(const Comparison& its) {
  if (!its.obstacle.empty()) return "";
  std::string text = jobText(its) + ": ";
  text += its.judged ? "you get " + youGetText(its)
                     : std::string("all sizes are too small to tell a bandwidth; try -b 8M -e 8G -f 2");
  text += ".\n" + its.model + ". " + its.limit + (its.doubt.empty() ? "" : " ") + its.doubt + "\n\n";
  text += "      size  measured GB/s  expected GB/s   share\n";
  for (std::size_t i = 0; i < its.expected.size(); ++i) {
    const ResultRow& row = its.run.rows[i];
    text += formatted("%10s  %13.2f  %13.2f  %4.0f %%\n", sizeText(row.bytes).c_str(), row.best(),
                      its.expected[i], its.expected[i] > 0 ? 100 * row.best() / its.expected[i] : 0);
  }
  return text;
}

void writeResultsJson(JsonWriter& json, std::span<const Comparison> comparisons) {
  json.key("results").beginArray();
  for (const Comparison& its : comparisons) {
    json.beginObject();
    json.key("file").value(its.run.file);
    json.key("collective").value(its.run.collective);
    json.key("ranks").value(its.ranks);
    json.key("hosts").value(its.hosts);
    json.key("gpu").value(its.run.gpu);
    json.key("nccl").value(its.run.nccl);
    json.key("not_compared").value(its.obstacle);
    json.key("model").value(its.model);
    json.key("limit").value(its.limit);
    json.key("doubt").value(its.doubt);
    json.key("judged_bytes");
    if (its.judged) json.value(its.run.rows[*its.judged].bytes);
    else json.null();
    json.key("share");
    if (its.judged) json.value(its.share());
    else json.null();
    json.key("sizes").beginArray();
    for (std::size_t i = 0; i < its.run.rows.size(); ++i) {
      const ResultRow& row = its.run.rows[i];
      json.beginInlineObject();
      json.key("bytes").value(row.bytes);
      json.key("out_of_place_gb_per_s").value(row.out_of_place).key("in_place_gb_per_s").value(row.in_place);
      json.key("expected_gb_per_s");
      if (i < its.expected.size()) json.value(its.expected[i]);
      else json.null();
      json.key("wrong").value(row.wrong);
      json.endInlineObject();
    }
    json.endArray();
    json.endObject();
  }
  json.endArray();
}

}  // namespace railwise::doctor
