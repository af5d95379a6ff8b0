#include "doctor/pair/summary.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "base/text/printable.h"
#include "base/text/text_layout.h"
#include "base/text/words.h"
#include "topo/explain/explain.h"
#include "topo/tuning/expect.h"

namespace railwise::doctor::pair {
namespace {

constexpr const char* kStyle =
    ":root{color-scheme:light dark}body{font:15px/1.45 system-ui,sans-serif;margin:2rem "
    "auto;max-width:75rem;padding:0 "
    "1rem}table{border-collapse:collapse;font-variant-numeric:tabular-nums;margin:.5rem 0 "
    "1.5rem}th,td{padding:.25rem .6rem;text-align:right;border:1px solid "
    "#8884}th{font-weight:600}.scroll{overflow-x:auto}.good{background:#2a93}.slow{background:#e803}.failed{"
    "background:#d226;font-weight:600}.finding{border-left:4px solid #888;padding:.1rem .8rem;margin:.8rem "
    "0}.error{border-color:#d22}.warning{border-color:#e80}pre{margin:.3rem "
    "0;white-space:pre-wrap}.muted{color:#888}";

const char* healthName(Health health) {
  static constexpr const char* kNames[] = {"not measured", "good", "slow", "failed"};
  return kNames[static_cast<int>(health)];
}

// The words are the names of the classes, too.
const char* styleClass(Health health) { return health == Health::kSkipped ? "" : healthName(health); }

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
  return std::string("<p class=\"muted\">") + title + ": " + joined(lines, "; ", escapeXml) + "</p>\n";
}

// More digits than three are more than a measurement is worth.
std::string rateText(double gbytes) {
  if (gbytes <= 0) return "-";
  return formatText(gbytes < 1 ? "%.3f" : gbytes < 10 ? "%.2f" : "%.1f", gbytes);
}

const char* obstacleText(Obstacle obstacle) {
  static constexpr const char* kTexts[] = {"",           "device not usable", "port down",
                                           "ports down", "different links",   "no addresses"};
  return kTexts[static_cast<int>(obstacle)];
}

TableCell aloneCell(const PairResult& pair, const Verdict& verdict, std::size_t side) {
  const double rate = pair.halves[side].alone_gbytes;
  const bool failed = verdict.health[side] == Health::kFailed;
  std::string text = !failed ? rateText(rate) : rate > 0 ? rateText(rate) + " FAILS" : "FAILS";
  if (verdict.health[side] == Health::kSlow) text += " !";
  return {text, verdict.health[side]};
}

std::string mtuText(const NicFacts& near, const NicFacts& far) {
  const std::string text = std::to_string(near.mtu_bytes);
  return near.mtu_bytes == far.mtu_bytes ? text : text + "/" + std::to_string(far.mtu_bytes);
}

std::string gidsText(const NicFacts& near, const NicFacts& far, const NicPair& nics) {
  if (near.link == LinkKind::kIwarp) return "iWARP";
  const std::string text = gidTypeText(near.gids[nics.gids[0]]);
  const std::string other = gidTypeText(far.gids[nics.gids[1]]);
  return text == other ? text : text + " / " + other;
}

std::string textOf(const Table& table) {
  // The empty first column makes the blanks in front.
  std::vector<TextRow> rows = {{""}};
  rows[0].insert(rows[0].end(), table.header.begin(), table.header.end());
  for (const auto& row : table.rows) {
    rows.push_back({""});
    for (const TableCell& cell : row) rows.back().push_back(cell.text);
  }
  return table.title + "\n\n" + tableText(rows, 0);
}

bool anySoftware(const Results& results) {
  for (const EndFacts& end : results.ends) {
    for (const NicFacts& nic : end.nics) {
      if (nic.software) return true;
    }
  }
  return false;
}

bool anyObstacle(const Results& results, Obstacle obstacle) {
  return std::ranges::any_of(results.pairs,
                             [&](const PairResult& pair) { return pair.obstacle == obstacle; });
}

// Why the NIC is in no pair.
std::string lonelyText(const NicFacts& nic) {
  if (nic.link == LinkKind::kOther)
    return "no reliable connections (EFA and others): the pair test does not measure it";
  if (!nic.active) return "the port is down, and no other host has a NIC that belongs with it";
  return std::string("no NIC of another host has its link (") + linkName(nic.link) +
         ") and an address that it reaches";
}

// NICs that are in no pair, if there were partners at all.
void addLonelyNics(const Results& results, std::vector<std::string>& hidden) {
  std::set<std::pair<std::size_t, std::size_t>> paired;  // end, NIC
  for (const PairResult& pair : results.pairs) {
    for (const std::size_t side : kSides) paired.insert({pair.match[side], pair.nics[side]});
  }
  const auto with_nics =
      std::ranges::count_if(results.ends, [](const EndFacts& end) { return !end.nics.empty(); });
  if (with_nics < 2) return;
  for (std::size_t end = 0; end < results.ends.size(); ++end) {
    for (std::size_t nic = 0; nic < results.ends[end].nics.size(); ++nic) {
      if (!paired.contains({end, nic}))
        hidden.push_back(endNicName(results, end, nic) + ": " + lonelyText(results.ends[end].nics[nic]));
    }
  }
}

void writeNicJson(JsonWriter& json, const NicFacts& nic) {
  json.key("device").value(nic.device);
  json.key("port").value(static_cast<int>(nic.port));
  if (!nic.error.empty()) json.key("error").value(nic.error);
  json.key("active").value(nic.active);
  json.key("link").value(linkName(nic.link));
  json.key("software").value(nic.software);
  json.key("speed_mbps").value(static_cast<uint64_t>(nic.speed_mbps));
  json.key("mtu").value(static_cast<uint64_t>(nic.mtu_bytes));
  json.key("lid").value(static_cast<uint64_t>(nic.lid));
  json.key("pcie_mbps").value(static_cast<uint64_t>(nic.pcie_mbps));
  json.key("pcie").value(nic.pcie);
  json.key("numa").value(nic.numa);
  json.key("gids").rows(nic.gids,
                        [&](const verbs::Gid& gid) { json.value(gid.index).value(gidTypeText(gid)); });
  json.key("ece").beginInlineObject();
  json.key("vendor").value(static_cast<uint64_t>(nic.ece_vendor));
  json.key("options").value(static_cast<uint64_t>(nic.ece_options));
  json.endInlineObject();
}

void writePairRow(JsonWriter& json, const Results& results, const PairResult& pair, const Verdict& verdict) {
  json.key("a").value(endNicName(results, pair, 0));
  json.key("b").value(endNicName(results, pair, 1));
  json.key("obstacle").value(obstacleText(pair.obstacle));
  json.key("allowed_gb_per_s").value(verdict.allowed_gbytes);
  json.key("median_gb_per_s").value(verdict.median_gbytes);
  json.key("latency_us").value(pair.halves[0].latency_us);
  for (const std::size_t side : kSides) {
    const Half& half = pair.halves[side];
    json.key(side == 0 ? "a_to_b" : "b_to_a").beginInlineObject();
    json.key("health").value(healthName(verdict.health[side]));
    json.key("alone_gb_per_s").value(half.alone_gbytes);
    json.key("together_gb_per_s").value(half.together_gbytes);
    json.key("error").value(half.error);
    json.endInlineObject();
  }
}

void writeHosts(JsonWriter& json, const Results& results) {
  json.key("hosts").objects(results.ends, [&](const EndFacts& end) {
    json.key("host").value(end.host);
    json.key("memory").value(end.memory);
    json.key("all_reduce_model_gb_per_s").value(end.all_reduce.gbytes);
    json.key("all_reduce_rule").value(end.all_reduce.rule);
    json.key("nics").inlineObjects(end.nics, [&](const NicFacts& nic) { writeNicJson(json, nic); });
  });
}

std::string railTitle(const Results& results, const Match& match) {
  return results.ends[match[0]].host + " and " + results.ends[match[1]].host +
         ", GB/s: each NIC pair alone, and all at once in both directions";
}

std::string gbytesText(double gbytes) { return formatText("%.4g GB/s", gbytes); }

}  // namespace

ReportStyle reportStyle(const Results& results, const MeasureOptions& options) {
  ReportStyle style;
  style.page = "doctor-pair.md";
  std::vector<std::string> hosts;
  for (const EndFacts& end : results.ends) hosts.push_back(end.host);
  style.subject = firstItems(hosts, 4);
  style.looked.push_back(
      formatText("%zu hosts, %zu NIC pairs in ", results.ends.size(), results.pairs.size()) +
      counted(results.rounds, "round") + formatText(", %.1f s in all", results.seconds));
  style.looked.push_back(formatText("RDMA writes of %llu KiB, 16 outstanding, %.2g s for each direction",
                                    static_cast<unsigned long long>(options.bytes >> 10), options.seconds));
  for (const EndFacts& end : results.ends) {
    if (end.memory != "host") style.looked.push_back(end.host + ": data in the memory of " + end.memory);
  }
  if (!results.rules.empty()) style.looked.push_back(results.rules);
  if (anySoftware(results))
    style.hidden.push_back(
        "software devices: what their ports and PCIe links allow says nothing; rails are compared with each "
        "other; their latency is the scheduler's and is not judged");
  if (anyObstacle(results, Obstacle::kBothDown)) style.hidden.push_back("ports that are down at both ends");
  addLonelyNics(results, style.hidden);
  for (const EndFacts& end : results.ends) {
    for (const std::string& line : end.hidden) style.hidden.push_back(end.host + ": " + line);
  }
  return style;
}

std::vector<Match> matchesOf(const Results& results) {
  std::vector<Match> matches;
  for (const PairResult& pair : results.pairs) {
    if (matches.empty() || !(matches.back() == pair.match)) matches.push_back(pair.match);
  }
  return matches;
}

Table railTable(const Results& results, const Judgement& judgement, const Match& match) {
  const std::string& a = results.ends[match[0]].host;
  const std::string& b = results.ends[match[1]].host;
  Table table{railTitle(results, match),
              {a, b, "MTU", "GIDs", "alone ->", "alone <-", "all ->", "all <-", "latency", "allowed"},
              {}};
  double sums[2] = {0, 0};
  for (std::size_t i = 0; i < results.pairs.size(); ++i) {
    const PairResult& pair = results.pairs[i];
    if (!(pair.match == match)) continue;
    const Verdict& verdict = judgement.verdicts[i];
    const NicFacts& near = results.nic(pair, 0);
    const NicFacts& far = results.nic(pair, 1);
    std::vector<TableCell> row = {{nicName(near)}, {nicName(far)}, {mtuText(near, far)}};
    if (!pair.measured()) {
      row.push_back({});
      row.push_back({obstacleText(pair.obstacle), verdict.health[0]});
      table.rows.push_back(std::move(row));
      continue;
    }
    row.push_back({gidsText(near, far, pair)});
    for (const std::size_t side : kSides) row.push_back(aloneCell(pair, verdict, side));
    for (const std::size_t side : kSides) {
      sums[side] += pair.halves[side].together_gbytes;
      row.push_back({rateText(pair.halves[side].together_gbytes)});
    }
    const double latency = pair.halves[0].latency_us;
    row.push_back({latency > 0 ? formatText("%.2f us", latency) : "-"});
    row.push_back({rateText(verdict.allowed_gbytes)});
    table.rows.push_back(std::move(row));
  }
  table.rows.push_back({{"all"}, {}, {}, {}, {}, {}, {rateText(sums[0])}, {rateText(sums[1])}});
  return table;
}

Table hostTable(const Results& results, const Judgement& judgement) {
  Table table{
      "From each host (line) to each other (column), GB/s, all NICs at once in both directions", {""}, {}};
  for (const EndFacts& end : results.ends) table.header.push_back("-> " + end.host);
  const auto matrix = hostMatrix(results, judgement.verdicts);
  for (std::size_t from = 0; from < matrix.size(); ++from) {
    std::vector<TableCell> row = {{results.ends[from].host}};
    for (const HostCell& cell : matrix[from]) {
      const char* const mark = cell.worst == Health::kFailed ? " FAILS"
                               : cell.worst == Health::kSlow ? " !"
                                                             : "";
      row.push_back({rateText(cell.gbytes) + mark, cell.worst});
    }
    table.rows.push_back(std::move(row));
  }
  return table;
}

std::string allReduceText(const Results& results) {
  const AllReduceCheck check = checkAllReduce(results);
  std::string text = "all_reduce between these hosts, bus bandwidth: ";
  text += check.expected_gbytes > 0
              ? formatText("at most %.4g GB/s (", check.expected_gbytes) + check.rule + ")"
              : "the model does not say" + (check.rule.empty() ? "" : " (" + check.rule + ")");
  if (check.measured_gbytes <= 0) return text + "; no pair of hosts was measured";
  text += formatText("; RDMA writes of all NICs at once reach %.4g GB/s", check.measured_gbytes);
  if (anySoftware(results)) return text + ", on software devices, which says nothing about hardware";
  const double ring = results.nccl.ring_gbytes;
  const double of_rings = ringNicsGbytes(results);
  if (ring > 0 && of_rings > 0)
    return text + formatText("; the rings of NCCL want %.1f GB/s of their NICs, and get %.1f (%.0f %%)", ring,
                             of_rings, std::round(100 * of_rings / ring));
  if (check.expected_gbytes > 0 && results.nccl.gbytes <= 0)
    text += formatText(" (%.0f %%)", std::round(100 * check.measured_gbytes / check.expected_gbytes));
  return text;
}

std::string tablesText(const Results& results, const Judgement& judgement) {
  std::string text;
  const auto matches = matchesOf(results);
  if (matches.size() > 1) text += "\n" + textOf(hostTable(results, judgement));
  if (matches.size() == 1) text += "\n" + textOf(railTable(results, judgement, matches[0]));
  text += "\n" + allReduceText(results) + "\n";
  const std::string across = acrossText(results);
  return across.empty() ? text : text + "\n" + across + "\n";
}

std::string pairJson(const Results& results, const Judgement& judgement, const MeasureOptions& options) {
  JsonWriter json;
  json.beginObject();
  json.key("schema").value("railwise-doctor-pair");
  json.key("schema_version").value(1);
  writeReportJson(json, judgement.findings, reportStyle(results, options));
  json.key("seconds").value(results.seconds);
  json.key("write_bytes").value(options.bytes);
  writeHosts(json, results);
  json.key("pairs").objects(results.pairs, [&](const PairResult& pair) {
    writePairRow(json, results, pair,
                 judgement.verdicts[static_cast<std::size_t>(&pair - results.pairs.data())]);
  });
  json.key("matrix_gb_per_s").arrayOf(hostMatrix(results, judgement.verdicts), [&](const auto& row) {
    json.row(row, &HostCell::gbytes);
  });
  const AllReduceCheck check = checkAllReduce(results);
  writeAcrossJson(json, results);
  json.key("all_reduce").beginInlineObject();
  json.key("model_gb_per_s").value(check.expected_gbytes);
  json.key("measured_gb_per_s").value(check.measured_gbytes);
  json.key("rule").value(check.rule);
  json.key("nccl_gb_per_s").value(results.nccl.gbytes);
  json.key("nccl_rings_gb_per_s").value(results.nccl.ring_gbytes);
  json.key("nccl_rings_measured_gb_per_s").value(results.nccl.gbytes > 0 ? ringNicsGbytes(results) : 0);
  json.key("nccl_algorithm").value(results.nccl.algorithm);
  json.key("nccl_limit").value(results.nccl.limit);
  json.endInlineObject();
  json.endObject();
  return json.text();
}

// What NCCL's own model says of all_reduce.
AllReduceModel allReduceModel(const topo::Machine& machine) {
  std::map<int, double> nics;  // GB/s of each NIC that a channel uses, over the best path to it
  for (const topo::GpuExplanation& gpu : topo::explain(machine).gpus) {
    for (const topo::ChosenNic& nic : gpu.chosen) {
      double& gbytes = nics[nic.view.net];
      gbytes = std::max(gbytes, static_cast<double>(nic.view.bandwidth));
    }
  }
  double sum = 0;
  for (const auto& [net, gbytes] : nics) sum += gbytes;
  double inside = 0;
  for (const topo::Domain& domain : machine.domains)
    inside = std::max(inside, static_cast<double>(domain.total_bandwidth));
  if (sum <= 0) return {0, "the model finds no NIC for any GPU"};
  const std::string nics_text = counted(nics.size(), "NIC") + " that NCCL's channels use: " + gbytesText(sum);
  const bool one_gpu = machine.graph->count(topo::NodeType::kGpu) == 1;
  if (one_gpu || inside <= 0 || sum <= inside) return {sum, nics_text};
  return {inside, nics_text + ", but a GPU sends " + gbytesText(inside) + " to the next one inside the host"};
}

NcclModel ncclModel(const topo::Machine& machine, int hosts) {
  // RCCL has a model of its own, and ranks that NCCL keeps apart have no common expectation.
  if (machine.graph->rccl() || machine.domains.size() != 1) return {};
  const auto answers = topo::tuning::expectOn(machine, {.nodes = hosts}, {});
  if (!answers.ok() || !answers->front().peak_choice) return {};
  const topo::tuning::Expectation& answer = answers->front();
  return {.gbytes = answer.peak,
          .ring_gbytes = answer.ring_network,
          .ring_nics = answer.ring_nics,
          .text = "NCCL " + ncclVersionName(machine.settings->nccl) + "'s model of " + std::to_string(hosts) +
                  " hosts with " + counted(answer.ranks.size(), "GPU") + " each",
          .algorithm = nameOf(answer.peak_choice->algorithm),
          .limit = answer.limit};
}

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
  for (const std::string& text : {allReduceText(results), acrossText(results)})
    if (!text.empty()) html += "<p>" + escapeXml(text) + "</p>\n";
  for (const Match& match : matches) html += tableHtml(railTable(results, judgement, match));
  html += linesHtml("Looked at", style.looked) + linesHtml("Not looked at", style.hidden);
  return html + "</body></html>\n";
}

}  // namespace railwise::doctor::pair
