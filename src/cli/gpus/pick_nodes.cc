// railwise gpus pick of several machines: which of them, and which GPUs of each.
#include <algorithm>
#include <map>

#include "base/text/json.h"
#include "base/text/text_layout.h"
#include "cli/gpus/pick.h"
#include "cli/options/command_line.h"
#include "cli/options/message.h"
#include "gpu/choose/hosts.h"
#include "sysfs/tar_archive.h"
#include "topo/explain/describe.h"

namespace railwise::cli {
namespace {

struct Node {
  std::string name;
  std::vector<int> ranks;  // of the chosen GPUs
  gpu::NodeCandidate candidate;
};

// A recording, a topology file or a description of a software machine is called as its file is.
std::string nodeName(const std::string& machine) {
  std::string name = sysfs::archiveName(machine);
  for (const std::string_view ending : {".xml", ".conf"})
    if (name.ends_with(ending)) name.resize(name.size() - ending.size());
  return name;
}

// Fills the node's best set. "" or why it has none. A machine that cannot be opened is reported to the user,
// and `failure` becomes the exit status.
std::string fillNode(Node& node, int count, const std::string& name, const PickOptions& options,
                     int& failure) {
  MachineOptions one = options.machine;
  const bool is_file = name.ends_with(".xml");
  one.software = is_file ? "" : name;
  one.quiet = true;
  bool without_gpus = false;
  one.without_gpus = &without_gpus;
  int status = kExitOk;
  const auto machine = openMachine(kPick, is_file ? name : "", one, &status);
  if (without_gpus) return "it has no GPU";
  if (!machine) return failure = status, "";
  const topo::GpuTable table = topo::gpuTable(*machine);
  const auto question = topo::makePickQuestion(*machine, table, options.wishes);
  if (!question.ok()) return "--" + question.error();
  const auto pick = topo::pickGpus(*question, count);
  if (!pick.ok()) return pick.error();
  for (const int row : pick->answer.best.gpus)
    node.ranks.push_back(table.rows[static_cast<std::size_t>(row)].rank());
  node.candidate.score = pick->answer.best.score;
  node.candidate.intra = pick->intra;
  return "";
}

struct PickedNodes {
  const std::vector<Node>& nodes;
  const gpu::NodesAnswer& answer;
  const std::vector<std::string>& group_names;
  std::vector<std::string> left_out;

  const Node& at(int node) const { return nodes[static_cast<std::size_t>(node)]; }
  std::string groupOf(const Node& node) const {
    return node.candidate.group < 0 ? "" : group_names[static_cast<std::size_t>(node.candidate.group)];
  }
};

std::string nodesText(const PickedNodes& picked, std::size_t columns) {
  std::string all = counted(static_cast<int>(picked.answer.nodes.size()), "node") + " of " +
                    std::to_string(picked.nodes.size() + picked.left_out.size()) + "\n";
  for (const int index : picked.answer.nodes) {
    const Node& node = picked.at(index);
    std::string words = "GPUs " + topo::rangesText(node.ranks);
    if (node.ranks.size() > 1)
      words += ", slowest pair " + mbpsText(node.candidate.score.slowest_pair_mbps) +
               ", all pairs together " + mbpsText(node.candidate.score.all_pairs_mbps);
    words += ", " + std::to_string(node.candidate.score.with_nic) + " with a NIC of their own";
    if (const std::string group = picked.groupOf(node); !group.empty()) words += ", switch group " + group;
    all += wrappedText(words, "  " + node.name + "  ", "      ", columns);
  }
  all += "  fitness " + textOf("%.4g", picked.answer.total);
  if (picked.answer.groups > 0) all += ": " + counted(picked.answer.groups, "switch group");
  all += "\n";
  for (const std::string& line : picked.left_out) all += wrappedText(line, "  left out: ", "      ", columns);
  return all;
}

std::string nodesJson(const PickedNodes& picked) {
  JsonWriter json;
  json.beginObject().key("schema").value("railwise-gpus-pick-nodes").key("schema_version").value(1);
  json.key("fitness").value(picked.answer.total).key("intra").value(picked.answer.intra).key("inter");
  picked.answer.groups > 0 ? json.value(picked.answer.inter) : json.null();
  json.key("nodes").beginArray();
  for (const int index : picked.answer.nodes) {
    const Node& node = picked.at(index);
    json.beginObject().key("node").value(node.name).key("gpus").row(node.ranks);
    json.key("group").known(picked.groupOf(node));
    json.key("slowest_pair_gb_per_s")
        .value(static_cast<double>(node.candidate.score.slowest_pair_mbps) / 1000);
    json.key("all_pairs_gb_per_s").value(static_cast<double>(node.candidate.score.all_pairs_mbps) / 1000);
    json.key("gpus_with_nic").value(node.candidate.score.with_nic);
    json.key("fitness_intra").value(node.candidate.intra).endObject();
  }
  json.endArray().key("left_out").array(picked.left_out);
  json.endObject();
  return json.text();
}

// Gives each node its switch group. Not kExitOk: the reason was said.
int addGroups(std::vector<Node>& nodes, const std::string& file, std::vector<std::string>& names,
              int& available) {
  const auto groups = gpu::readHostGroups(file);
  if (!groups.ok()) return leave(kExitFailed, "%s: --hosts: %s", kPick, groups.error().c_str());
  available = groups->groups();
  std::map<std::string, int> numbers;
  for (Node& node : nodes) {
    const auto group = groups->group_of.find(node.name);
    if (group == groups->group_of.end())
      return leave(kExitUsage,
                   "%s: --hosts: %s does not name the host %s; add it there, or call the recording as the "
                   "host is called",
                   kPick, file.c_str(), node.name.c_str());
    const auto [at, is_new] = numbers.try_emplace(group->second, static_cast<int>(names.size()));
    if (is_new) names.push_back(group->second);
    node.candidate.group = at->second;
  }
  return kExitOk;
}

}  // namespace

int pickOfNodes(int count, const PickOptions& options) {
  std::vector<Node> nodes;
  std::vector<std::string> left_out;
  int failure = kExitOk;
  for (const std::string& name : options.machines) {
    Node node{.name = nodeName(name), .ranks = {}, .candidate = {}};
    const bool twice =
        std::any_of(nodes.begin(), nodes.end(), [&](const Node& other) { return other.name == node.name; });
    if (twice) return leave(kExitUsage, "%s: --machine: %s is named twice", kPick, node.name.c_str());
    const std::string without = fillNode(node, count, name, options, failure);
    if (failure != kExitOk) return failure;
    if (without.empty()) nodes.push_back(std::move(node));
    else left_out.push_back(node.name + ": " + without);
  }
  std::vector<std::string> group_names;
  int available = 0;
  if (!options.hosts.empty())
    if (const int status = addGroups(nodes, options.hosts, group_names, available); status != kExitOk)
      return status;
  std::vector<gpu::NodeCandidate> candidates;
  for (const Node& node : nodes) candidates.push_back(node.candidate);
  const int wanted = std::max(options.nodes, 1);
  const auto answer = gpu::chooseNodes(candidates, wanted, available);
  if (!answer) {
    for (const std::string& line : left_out) say("%s: left out: %s", kPick, line.c_str());
    return leave(kExitUsage, "%s: %s wanted that can give %s, and there are %zu; ask for fewer", kPick,
                 (counted(wanted, "machine") + (wanted == 1 ? " is" : " are")).c_str(),
                 counted(count, "GPU").c_str(), nodes.size());
  }
  const PickedNodes picked{
      .nodes = nodes, .answer = *answer, .group_names = group_names, .left_out = left_out};
  return writeOutput(
      kPick, options.output,
      options.output.json() ? nodesJson(picked) : nodesText(picked, outputColumns(options.output.file)));
}

}  // namespace railwise::cli
