#include "doctor/pair/page.h"

#include "base/text/escape_xml.h"

namespace railwise::doctor::pair {
namespace {

constexpr const char* kStyle =
    ":root{color-scheme:light dark}"
    "body{font:15px/1.45 system-ui,sans-serif;margin:2rem auto;max-width:75rem;padding:0 1rem}"
    "table{border-collapse:collapse;font-variant-numeric:tabular-nums;margin:.5rem 0 1.5rem}"
    "th,td{padding:.25rem .6rem;text-align:right;border:1px solid #8884}"
    "th{font-weight:600}.scroll{overflow-x:auto}"
    ".good{background:#2a93}.slow{background:#e803}.failed{background:#d226;font-weight:600}"
    ".finding{border-left:4px solid #888;padding:.1rem .8rem;margin:.8rem 0}"
    ".error{border-color:#d22}.warning{border-color:#e80}"
    "pre{margin:.3rem 0;white-space:pre-wrap}.muted{color:#888}";

const char* styleClass(Health health) {
  switch (health) {
    case Health::kGood:
      return "good";
    case Health::kSlow:
      return "slow";
    case Health::kFailed:
      return "failed";
    case Health::kSkipped:
      break;
  }
  return "";
}

std::string tableHtml(const Table& table) {
  std::string html = "<h2>" + escapeXml(table.title) + "</h2>\n<div class=\"scroll\"><table><thead><tr>";
  for (const std::string& title : table.header) html += "<th scope=\"col\">" + escapeXml(title) + "</th>";
  html += "</tr></thead><tbody>\n";
  for (const auto& row : table.rows) {
    html += "<tr>";
    for (const TableCell& cell : row)
      html += std::string("<td class=\"") + styleClass(cell.health) + "\">" + escapeXml(cell.text) + "</td>";
    html += "</tr>\n";
  }
  return html + "</tbody></table></div>\n";
}

std::string findingHtml(const Finding& finding) {
  std::string html = std::string("<div class=\"finding ") + severityName(finding.severity) + "\"><h3>" +
                     severityName(finding.severity) + ": " + escapeXml(finding.what) + "</h3>\n<ul>";
  for (const Seen& seen : finding.seen)
    html += "<li>" + escapeXml(seen.device) + " (" + escapeXml(seen.where) + "): " + escapeXml(seen.value) +
            "</li>";
  html += "</ul>\n<p>" + escapeXml(finding.why) + "</p>\n";
  if (!finding.fix.empty()) html += "<pre>" + escapeXml(finding.fix) + "</pre>\n";
  return html + "</div>\n";
}

std::string linesHtml(const char* title, const std::vector<std::string>& lines) {
  if (lines.empty()) return "";
  std::string html = std::string("<p class=\"muted\">") + title + ": ";
  for (std::size_t i = 0; i < lines.size(); ++i) html += (i == 0 ? "" : "; ") + escapeXml(lines[i]);
  return html + "</p>\n";
}

}  // namespace

std::string pageHtml(const Results& results, const Judgement& judgement, const MeasureOptions& options) {
  const ReportStyle style = reportStyle(results, options);
  std::string html =
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n<meta "
      "http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>" +
      escapeXml(style.subject) + ": NIC pairs</title>\n<style>" + kStyle + "</style></head>\n<body>\n<h1>" +
      escapeXml(style.subject) + "</h1>\n";
  if (judgement.findings.empty()) html += "<p>Nothing is wrong with these NIC pairs.</p>\n";
  for (const Finding& finding : judgement.findings.all()) html += findingHtml(finding);
  const auto matches = matchesOf(results);
  if (matches.size() > 1) html += tableHtml(hostTable(results, judgement));
  html += "<p>" + escapeXml(allReduceText(results)) + "</p>\n";
  if (const std::string nccl = ncclText(results); !nccl.empty()) html += "<p>" + escapeXml(nccl) + "</p>\n";
  for (const Match& match : matches) html += tableHtml(railTable(results, judgement, match));
  html += linesHtml("Looked at", style.looked) + linesHtml("Not looked at", style.hidden);
  return html + "</body></html>\n";
}

}  // namespace railwise::doctor::pair
