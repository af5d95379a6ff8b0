#include <algorithm>
#include <set>

#include "topo/explain/describe.h"
#include "topo/outputs/drawing/drawing.h"
#include "topo/outputs/outputs.h"
#include "topo/outputs/parts.h"

namespace railwise::topo {
namespace {

std::string element(const char* tag, const std::string& text) {
  return std::string("<") + tag + ">" + escapeXml(text) + "</" + tag + ">";
}

std::string problemHtml(const std::string& text, const std::string& fix) {
  std::string html = "<div class=\"problem\"><div>" + escapeXml(text) + "</div>";
  if (!fix.empty()) html += "<div class=\"fix\">" + escapeXml("What to do: " + fix) + "</div>";
  return html + "</div>\n";
}

// Problems of several GPUs that have the same fix are shown once.
struct SharedProblem {
  const Problem* first;
  std::vector<int> ranks;
};

std::string problemsHtml(const MachineExplanation& all) {
  std::vector<SharedProblem> shared;
  for (const GpuExplanation& gpu : all.gpus) {
    for (const Problem& problem : gpu.problems) {
      auto known = std::find_if(shared.begin(), shared.end(), [&](const SharedProblem& s) {
        return s.first->kind == problem.kind && s.first->fix == problem.fix;
      });
      if (known == shared.end()) known = shared.insert(known, {&problem, {}});
      if (known->ranks.empty() || known->ranks.back() != gpu.rank) known->ranks.push_back(gpu.rank);
    }
  }
  std::string html;
  for (const Problem& problem : all.problems) html += problemHtml(problem.text, problem.fix);
  for (SharedProblem& problem : shared) {
    std::sort(problem.ranks.begin(), problem.ranks.end());
    const bool several = problem.ranks.size() > 1;
    html += problemHtml(
        "GPU " + rangesText(problem.ranks) + (several ? ", for example: " : ": ") + problem.first->text,
        problem.first->fix);
  }
  return html.empty() ? "" : "<section><h2>What costs speed</h2>\n" + html + "</section>\n";
}

std::string nicTableHtml(const Machine& machine, const MachineExplanation& all) {
  const Graph& graph = *machine.graph;
  std::string html =
      "<section><h2>The NIC of each GPU</h2><div class=\"scroll\"><table id=\"nics\" aria-label=\"The NIC of "
      "each GPU\"><thead><tr><th scope=\"col\">GPU</th><th scope=\"col\">address</th><th "
      "scope=\"col\">near</th><th scope=\"col\">NIC</th><th scope=\"col\">path</th><th "
      "scope=\"col\">GB/s</th><th scope=\"col\">GPUDirect</th></tr></thead><tbody>\n";
  for (const GpuExplanation& gpu : all.gpus) {
    std::vector<std::string> names;
    for (const ChosenNic& nic : gpu.chosen) names.push_back(netName(graph, nic.view.net));
    html += "<tr tabindex=\"0\" data-rank=\"" + std::to_string(gpu.rank) + "\">" +
            element("td", gpuName(graph, gpu.gpu)) + element("td", graph.of(NodeType::kGpu, gpu.gpu).busid) +
            element("td", gpu.local_cpu) + element("td", names.empty() ? "none" : listText(names));
    const ChosenNic* nic = gpu.chosen.empty() ? nullptr : &gpu.chosen[0];
    html += element("td", nic == nullptr ? "" : pathTypeName(nic->view.type)) +
            element("td", nic == nullptr ? "" : gbText(nic->view.bandwidth)) +
            element("td", nic == nullptr ? "" : gdrSummary(machine, *nic)) + "</tr>\n";
  }
  return html + "</tbody></table></div></section>\n";
}

std::string typesHtml(const Machine& machine) {
  const Graph& graph = *machine.graph;
  std::set<PathType> types;
  for (int gpu = 0; gpu < graph.count(NodeType::kGpu); ++gpu) {
    for (int other = 0; other < graph.count(NodeType::kGpu); ++other) {
      if (gpu != other) types.insert(machine.paths->get(NodeType::kGpu, gpu, NodeType::kGpu, other).type);
    }
    for (int net = 0; net < graph.count(NodeType::kNet); ++net) {
      types.insert(machine.paths->get(NodeType::kGpu, gpu, NodeType::kNet, net).type);
      types.insert(machine.paths->get(NodeType::kNet, net, NodeType::kGpu, gpu).type);
    }
  }
  std::string html = "<section><h2>Path types, nearest first</h2><dl class=\"types\">\n";
  for (const PathType type : types)
    html += element("dt", pathTypeName(type)) + element("dd", meaningText(*machine.graph, type)) + "\n";
  return html + "</dl></section>\n";
}

std::string headerHtml(const Machine& machine) {
  const Graph& graph = *machine.graph;
  std::string facts = countsText(graph);
  if (graph.hosts() > 1) facts += ", " + counted(graph.hosts(), "host");
  facts += std::string(", as ") + rulesText(machine) + " sees them. Numbers are GB/s in one direction.";
  std::string html =
      "<header>" + element("h1", machine.name) + "<p class=\"muted\">" + escapeXml(facts) + "</p>\n";
  for (const std::string& set : machine.settings->from_environment)
    html += "<p class=\"muted\">" + escapeXml("Set: " + set) + "</p>\n";
  for (const std::string& remark : machine.remarks)
    html += "<p class=\"muted\">" + escapeXml("Note: " + remark) + "</p>\n";
  return html + "</header>\n";
}

}  // namespace

std::string htmlText(const Machine& machine) {
  const MachineExplanation all = explain(machine);
  std::string html =
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n<meta "
      "http-equiv=\"Content-Security-Policy\" "
      "content=\"default-src 'none'; script-src '" +
      std::string(htmlScriptHash()) + "'; style-src '" + std::string(htmlStyleHash()) +
      "'; base-uri 'none'; form-action 'none'\">\n<meta name=\"viewport\" content=\"width=device-width, "
      "initial-scale=1\">\n"
      "<meta name=\"color-scheme\" content=\"light dark\">\n<title>" +
      escapeXml(machine.name + ": topology") + "</title>\n<style>" + std::string(htmlStyle()) +
      "</style></head>\n<body>\n";
  html += headerHtml(machine);
  const Drawing drawing = drawMachine(machine, all);
  html +=
      "<main>\n"
      "<div class=\"bar\"><div id=\"way\" role=\"status\">Select a GPU or a NIC (mouse, or Tab, arrow keys "
      "and Enter): its paths light up, and what NCCL chose is shown below.</div><input id=\"find\" "
      "type=\"search\" aria-label=\"Find a GPU or NIC; Enter opens it\" placeholder=\"Find: GPU 3, mlx5_0, "
      "bus id\" hidden><button id=\"fit\" type=\"button\" hidden aria-pressed=\"true\">Full "
      "size</button></div>\n"
      "<div class=\"picker\" id=\"picker\" hidden></div>\n"
      "<div class=\"drawing fit\" id=\"drawing\">\n";
  html += svgElement(drawing, *machine.graph, {.interactive = true});
  html +=
      "</div>\n<div class=\"panel\" id=\"panel\" aria-live=\"polite\" hidden></div>\n<section "
      "id=\"channels\" hidden></section>\n";
  html += problemsHtml(all) + nicTableHtml(machine, all) + typesHtml(machine);
  html += "</main>\n<script id=\"data\" type=\"application/json\">" + htmlData(machine, all) +
          "</script>\n<script>" + std::string(htmlScript()) + "</script>\n</body></html>\n";
  return html;
}

}  // namespace railwise::topo
