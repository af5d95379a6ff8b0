#include <algorithm>
#include <map>
#include <set>

#include "base/text/json.h"
#include "topo/explain/describe.h"
#include "topo/explain/gpu_topology.h"
#include "topo/outputs/drawing/drawing.h"
#include "topo/outputs/outputs.h"
#include "topo/outputs/parts.h"
#include "topo/search/channel_graph.h"
#include "topo/transports/transports.h"

namespace railwise::topo {
namespace {

// Writes "key": rows of [receiver, class, more...] by the sender's GPU index. `more` is the rank between the
// two GPUs, or sending NET, sending rank and receiving NET.
void writeRows(JsonWriter& json, const char* key, const Graph& graph, const TransportTable& table,
               std::size_t first_class) {
  std::vector<std::vector<const TransportRow*>> of_gpu(static_cast<std::size_t>(graph.count(NodeType::kGpu)));
  for (const TransportRow& row : table.rows)
    of_gpu[static_cast<std::size_t>(graph.gpuOfRank(row.pair.from))].push_back(&row);
  json.key(key).arrayOf(of_gpu, [&](const auto& rows) {
    json.rows(rows, [&](const TransportRow* row) {
      json.value(graph.gpuOfRank(row->pair.to)).value(static_cast<int>(first_class + row->index));
      if (row->intermediate_rank >= 0) json.value(row->intermediate_rank);
      if (row->sender.net >= 0)
        json.value(row->sender.net).value(row->sender.proxy_rank).value(row->receiver.net);
    });
  });
}

// The domains' graphs of one algorithm and one number of hosts.
using Graphs = std::vector<std::pair<const Domain*, const ChannelGraph*>>;

// How a channel is drawn: "ring" closes; "tree" hangs on the NICs of its first two GPUs; "chain" and "head"
// on one NIC.
constexpr std::pair<Pattern, const char*> kShapes[] = {{Pattern::kRing, "ring"},
                                                       {Pattern::kBalancedTree, "tree"},
                                                       {Pattern::kSplitTree, "tree"},
                                                       {Pattern::kTree, "chain"}};
const char* shapeOf(const ChannelGraph& graph) { return nameIn(kShapes, graph.pattern, "head"); }

std::string factsOf(const ChannelGraph& graph, bool network) {
  std::string text = counted(static_cast<int>(graph.channels.size()), "channel") + " of " +
                     gbText(graph.bandwidth_intra) + " GB/s, " + pathTypeName(graph.type_intra) +
                     " between GPUs";
  if (network)
    text += "; " + gbText(graph.bandwidth_inter) + " GB/s between hosts, " + pathTypeName(graph.type_inter) +
            " to the NIC";
  return text;
}

void writeChannels(JsonWriter& json, const Machine& machine, const Graphs& graphs) {
  json.beginArray();
  for (const auto& [domain, graph] : graphs) {
    for (std::size_t i = 0; i < graph->channels.size(); ++i) {
      const Channel& channel = graph->channels[i];
      // The NETs of a domain are those of the machine; its GPUs are not.
      json.beginArray().value(static_cast<int>(i)).value(channel.net_in).value(channel.net_out);
      json.row(channel.ranks, [&](const int rank) { return machine.graph->gpuOfRank(rank); }).endArray();
    }
  }
  json.endArray();
}

void writeGraphs(JsonWriter& json, const Machine& machine, int nodes, const Graphs& graphs) {
  const Algorithm algorithm = graphs[0].second->algorithm;
  const bool network = graphs[0].second->channels[0].net_in >= 0;
  json.beginObject().key("key").value(algorithmName(algorithm)).key("name");
  json.value(std::string(algorithmTitle(algorithm)) + (isCollNet(algorithm) ? ", with a plugin" : ""));
  json.key("nodes").value(nodes);
  json.key("shape").value(shapeOf(*graphs[0].second)).key("facts").value(factsOf(*graphs[0].second, network));
  json.key("channels");
  writeChannels(json, machine, graphs);
  json.endObject();
}

// "graphs": the channels that NCCL's search finds.
void writeChannelData(JsonWriter& json, const Machine& machine) {
  json.key("graphs").beginArray();
  const auto found = searchMachine(machine, {});
  for (const int nodes : {1, 2}) {
    for (const Algorithm algorithm : kListedAlgorithms) {
      Graphs graphs;
      for (std::size_t i = 0; found.ok() && i < found->size(); ++i) {
        const auto& of_domain = nodes == 1 ? (*found)[i].one_host : (*found)[i].two_hosts;
        if (of_domain && !of_domain->of(algorithm).channels.empty())
          graphs.emplace_back(&machine.domains[i], &of_domain->of(algorithm));
      }
      if (!graphs.empty()) writeGraphs(json, machine, nodes, graphs);
    }
  }
  json.endArray();
}

// "transports": of each pair of GPUs.
void writeTransportData(JsonWriter& json, const Machine& machine) {
  const Transports transports(machine, jobOn(machine));
  const TransportTable here = tabulate(transports, {});
  const TransportTable other_host = tabulate(transports, {.other_host = true});
  json.key("transports").beginObject().key("classes").beginArray();
  for (const TransportTable* table : {&here, &other_host})
    for (const TransportClass& each : table->classes)
      json.beginArray().value(each.name).value(each.reason).endArray();
  json.endArray();
  writeRows(json, "here", *machine.graph, here, 0);
  writeRows(json, "other_host", *machine.graph, other_host, here.classes.size());
  json.endObject();
}

// With more paths than this the page would have tens of megabytes. It then lists the hops of the chosen NICs
// only.
constexpr int kMostWithHops = 40000;

// An HTML parser ends a script at "</script" and is confused by "<!--".
std::string safeInScript(const std::string& json) {
  std::string safe;
  for (const char c : json) {
    if (c == '<') {
      safe += "\\u003c";
    } else {
      safe += c;
    }
  }
  return safe;
}

class DataWriter {
 public:
  DataWriter(const Machine& machine, const MachineExplanation& all)
      : machine_(machine),
        graph_(*machine.graph),
        paths_(*machine.paths),
        all_(all),
        gpus_(gpuTopology(machine)) {
    const int gpus = graph_.count(NodeType::kGpu);
    hops_ = gpus * (gpus + 2 * graph_.count(NodeType::kNet)) <= kMostWithHops;
  }

  std::string whole() {
    json_.beginInlineObject();
    json_.key("names").beginArray();
    for (std::size_t i = 0; i < graph_.nodes().size(); ++i) json_.value(nameOf(static_cast<NodeIndex>(i)));
    json_.endArray();
    json_.key("gpus").arrayOf(all_.gpus, [&](const GpuExplanation& gpu) { writeGpu(gpu); });
    json_.key("nets").beginArray();
    for (int net = 0; net < graph_.count(NodeType::kNet); ++net) writeNet(net);
    json_.endArray();
    writePaths("gpu_gpu", NodeType::kGpu, NodeType::kGpu);
    writePaths("gpu_net", NodeType::kGpu, NodeType::kNet);
    writePaths("net_gpu", NodeType::kNet, NodeType::kGpu);
    writeChannelData(json_, machine_);
    writeTransportData(json_, machine_);
    json_.endInlineObject();
    return safeInScript(json_.text());
  }

 private:
  // A NIC with one port is called by the name of the port.
  std::string nameOf(NodeIndex i) const {
    if (graph_.node(i).type == NodeType::kNic) {
      const auto nets = netsOn(graph_, i);
      if (nets.size() == 1) return nodeName(graph_, nets[0]);
    }
    return nodeName(graph_, i);
  }

  void writeGpu(const GpuExplanation& gpu) {
    const Node& node = graph_.of(NodeType::kGpu, gpu.gpu);
    json_.beginObject();
    json_.key("node").value(graph_.at(NodeType::kGpu, gpu.gpu));
    json_.key("name").value(gpuName(graph_, gpu.gpu));
    const gpu::Device* device = physicalGpu(gpus_, graph_, gpu.gpu);
    const bool known = device != nullptr && !device->model.empty();
    json_.key("facts").value(
        (known ? gpuModelText(*device) + ", " + memoryText(device->memory_bytes) + ", " : "") +
        gpuFacts(graph_, node) + ", " + gpu.local_cpu);
    json_.key("details").beginArray();
    if (known) writeDetails(*device);
    json_.endArray().key("chosen").beginArray();
    for (const ChosenNic& nic : gpu.chosen) {
      const char* flush[] = {"none: ", "always: ", "through C2C: "};
      json_.beginObject().key("net").value(nic.view.net);
      json_.key("channels")
          .value(gpu.nets.size() == 1
                     ? "all"
                     : rangesText(nic.channels) + " of every " + std::to_string(gpu.nets.size()));
      json_.key("receive").value(gdrSentence(nic.receive)).key("send").value(gdrSentence(nic.send));
      json_.key("flush").value(flush[static_cast<int>(nic.flush.flush)] + nic.flush.reason).endObject();
    }
    json_.endArray().key("rejected").beginObject();
    for (const RejectedNic& nic : gpu.rejected) json_.key(std::to_string(nic.view.net)).value(nic.reason);
    json_.endObject();
    writeRemote(gpu);
    writeProblems(gpu.problems);
    json_.endObject();
  }

  // What the vendor's library says besides model and memory.
  void writeDetails(const gpu::Device& device) {
    json_.value("State: " + stateText(device) + ".");
    std::string software = device.driver.empty() ? "" : "Driver " + device.driver;
    if (!device.firmware.empty())
      software += (software.empty() ? "Firmware " : ", firmware ") + device.firmware;
    if (!software.empty()) json_.value(software + ".");
    if (!device.fabric_cluster.empty())
      json_.value("NVLink domain " + device.fabric_cluster + ", clique " +
                  std::to_string(device.fabric_clique) + ".");
    for (const gpu::Device& part : gpus_.gpus)
      if (part.parent == device.index)
        json_.value(gpuModelText(part) + ": " + memoryText(part.memory_bytes) + ", " + stateText(part) + ".");
  }

  // Writes "GPU 0-3 by mlx5_0": remote GPUs in groups, by the NIC and the proxy rank.
  void writeRemote(const GpuExplanation& gpu) {
    std::map<std::pair<int, int>, std::vector<int>> groups;
    for (const PeerRoute& route : gpu.peers) {
      if (route.channel == 0) groups[{route.net, route.proxy_rank}].push_back(route.peer_dev);
    }
    json_.key("remote").beginArray();
    for (const auto& [by, devs] : groups) {
      json_.value((groups.size() == 1 ? "every GPU" : "GPU " + rangesText(devs)) + " by " +
                  netName(graph_, by.first) +
                  (by.second == gpu.rank ? "" : " through GPU " + std::to_string(by.second)));
    }
    json_.endArray();
  }

  void writeProblems(const std::vector<Problem>& problems) {
    json_.key("problems").rows(problems, [&](const Problem& problem) {
      json_.value(problem.text).value(problem.fix);
    });
  }

  void writeNet(int net) {
    const Node& node = graph_.of(NodeType::kNet, net);
    json_.beginObject();
    json_.key("node").value(graph_.at(NodeType::kNet, net));
    json_.key("name").value(netName(graph_, net));
    std::string facts = "device " + std::to_string(node.dev) + ", " + gbText(node.bandwidth * 8) + " Gb/s";
    if (!node.links.empty() && !graph_.node(node.links[0].to).busid.empty()) {
      facts = graph_.node(node.links[0].to).busid + ", " + facts;
    }
    json_.key("facts").value(facts + (node.gdr != 0 ? "" : ", offers no GPUDirect"));
    json_.key("users").beginArray();
    for (const GpuExplanation& gpu : all_.gpus) {
      if (std::count(gpu.nets.begin(), gpu.nets.end(), net) != 0) json_.value(gpu.gpu);
    }
    json_.endArray().endObject();
  }

  bool withHops(NodeType from, int i, NodeType to, int j) const {
    if (hops_) return true;
    if (from != NodeType::kGpu || to != NodeType::kNet) return false;
    const auto& nets = all_.gpus[static_cast<std::size_t>(i)].nets;
    return std::count(nets.begin(), nets.end(), j) != 0;
  }

  void writePaths(const char* key, NodeType from, NodeType to) {
    json_.key(key).beginArray();
    for (int i = 0; i < graph_.count(from); ++i) {
      json_.beginArray();
      for (int j = 0; j < graph_.count(to); ++j) {
        const Path& path = paths_.get(from, i, to, j);
        json_.beginArray().value(pathTypeName(path.type));
        if (path.type != PathType::kDis) {
          json_.value(path.bandwidth).value(path.hops);
          if (withHops(from, i, to, j)) json_.row(paths_.via(path));
        }
        json_.endArray();
      }
      json_.endArray();
    }
    json_.endArray();
  }

  const Machine& machine_;
  const Graph& graph_;
  const Paths& paths_;
  const MachineExplanation& all_;
  const gpu::GpuTopology gpus_;
  bool hops_ = true;
  JsonWriter json_;
};

std::string htmlData(const Machine& machine, const MachineExplanation& all) {
  return DataWriter(machine, all).whole();
}

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
      "http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; script-src '" +
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
