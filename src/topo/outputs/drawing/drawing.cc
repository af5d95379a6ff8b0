#include "topo/outputs/drawing/drawing.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace railwise::topo {
namespace {

bool isLeafOrSwitch(const Node& node) {
  return node.type == NodeType::kPci || node.type == NodeType::kNic || node.type == NodeType::kDev ||
         (node.type == NodeType::kGpu && node.parent == kNoNode);
}

class TreeBuilder {
 public:
  explicit TreeBuilder(const Graph& graph) : graph_(graph), seen_(graph.nodes().size(), false) {}

  std::vector<HostTree> build() {
    std::vector<HostTree> hosts;
    for (int host = 0; host < graph_.hosts(); ++host) {
      HostTree tree{.host = host};
      for (const NodeIndex cpu : graph_.of(NodeType::kCpu)) {
        if (graph_.node(cpu).host == host) tree.cpus.push_back({cpu, branches(cpu)});
      }
      const auto number = [&](const CpuTree& cpu) { return graph_.node(cpu.cpu).numa; };
      std::stable_sort(tree.cpus.begin(), tree.cpus.end(),
                       [&](const CpuTree& a, const CpuTree& b) { return number(a) < number(b); });
      hosts.push_back(std::move(tree));
    }
    for (std::size_t i = 0; i < seen_.size(); ++i) {
      const Node& node = graph_.nodes()[i];
      if (seen_[i] || !isLeafOrSwitch(node) || node.type == NodeType::kPci) continue;
      hosts[static_cast<std::size_t>(node.host)].loose.push_back(static_cast<NodeIndex>(i));
    }
    return hosts;
  }

 private:
  std::vector<Branch> branches(NodeIndex parent) {
    std::vector<Branch> found;
    for (const Link& link : graph_.node(parent).links) {
      if (link.type != LinkType::kPci || seen_[static_cast<std::size_t>(link.to)]) continue;
      if (!isLeafOrSwitch(graph_.node(link.to))) continue;
      seen_[static_cast<std::size_t>(link.to)] = true;
      found.push_back({link.to, link.bandwidth, {}});
    }
    for (Branch& branch : found) branch.children = branches(branch.node);
    std::stable_sort(found.begin(), found.end(),
                     [&](const Branch& a, const Branch& b) { return key(a) < key(b); });
    return found;
  }

  // Sort key: branches with a GPU come first, by rank; then NICs, by the number of their NET.
  std::pair<int, int> key(const Branch& branch) const {
    constexpr int kLast = std::numeric_limits<int>::max();
    const Node& node = graph_.node(branch.node);
    if (node.type == NodeType::kDev || node.type == NodeType::kGpu) {
      const auto gpus = gpusOn(graph_, branch.node);
      return {0, gpus.empty() ? kLast : graph_.node(gpus[0]).rank};
    }
    if (node.type == NodeType::kNic) {
      const auto nets = netsOn(graph_, branch.node);
      return {1, nets.empty() ? kLast : graph_.node(nets[0]).index};
    }
    std::pair<int, int> least = {2, kLast};
    for (const Branch& child : branch.children) least = std::min(least, key(child));
    return least;
  }

  const Graph& graph_;
  std::vector<bool> seen_;
};

}  // namespace

void addDrawing(Drawing& whole, Drawing part, double x, double y) {
  for (Frame& frame : part.frames) {
    frame.x += x, frame.y += y;
    whole.frames.push_back(std::move(frame));
  }
  for (Box& box : part.boxes) {
    box.x += x, box.y += y;
    whole.boxes.push_back(std::move(box));
  }
  for (Wire& wire : part.wires) {
    for (Point& point : wire.points) point.x += x, point.y += y;
    wire.label_x += x, wire.label_y += y;
    whole.wires.push_back(std::move(wire));
  }
  for (Caption& caption : part.captions) {
    caption.x += x, caption.y += y;
    whole.captions.push_back(std::move(caption));
  }
  whole.width = std::max(whole.width, x + part.width);
  whole.height = std::max(whole.height, y + part.height);
}

std::vector<HostTree> hostTrees(const Graph& graph) { return TreeBuilder(graph).build(); }

std::vector<NodeIndex> netsOn(const Graph& graph, NodeIndex nic) {
  std::vector<NodeIndex> nets;
  for (const Link& link : graph.node(nic).links) {
    if (graph.node(link.to).type == NodeType::kNet) nets.push_back(link.to);
  }
  std::sort(nets.begin(), nets.end());
  return nets;
}

namespace {

constexpr double kChipHeight = 24;
constexpr int kChipRows = 8;

// Adds a line break and `line` to `tip`, unless `line` is empty.
void addLine(std::string& tip, const std::string& line) {
  if (line.empty()) return;
  if (!tip.empty()) tip += '\n';
  tip += line;
}

std::string speedText(float gigabytes) { return gbText(gigabytes * 8) + " Gb/s"; }

// Counts the characters (not the bytes) of a text.
std::size_t length(const std::string& text) {
  return static_cast<std::size_t>(std::count_if(
      text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

}  // namespace

std::string fittedText(const std::string& text, double width, double character) {
  const auto room = static_cast<std::size_t>(std::max(1.0, (width - 6) / character));
  if (length(text) <= room) return text;
  std::string cut;
  std::size_t count = 0;
  for (const char c : text) {
    if ((static_cast<unsigned char>(c) & 0xc0) != 0x80 && ++count == room) break;
    cut += c;
  }
  return cut + "\xe2\x80\xa6";
}

BoxMaker::BoxMaker(const Machine& machine, const MachineExplanation& all)
    : graph_(*machine.graph),
      all_(all),
      many_(machine.graph->count(NodeType::kGpu) > kMany),
      metrics_(many_ ? kManyGpus : kFewGpus),
      nic_width_(metrics_.nic_width) {
  for (int net = 0; net < graph_.count(NodeType::kNet); ++net) {
    const auto wanted = static_cast<double>(length(netName(graph_, net))) * kNameCharacter + 12;
    if (graph_.hosts() == 1) nic_width_ = std::clamp(wanted, nic_width_, kMostNicWidth);
  }
  for (const GpuExplanation& gpu : all.gpus) {
    for (const Problem& problem : gpu.problems) {
      if (problem.kind != "slow-link") continue;
      slow_.insert({std::min(problem.from, problem.to), std::max(problem.from, problem.to)});
    }
  }
}

bool BoxMaker::isSlow(NodeIndex a, NodeIndex b) const {
  return slow_.count({std::min(a, b), std::max(a, b)}) != 0;
}

std::string BoxMaker::pciTip(const Node& node) const {
  if (node.link_speed.empty()) return node.busid;
  return node.busid + "\nPCIe " + node.link_speed + " x" +
         std::to_string(node.link_width == 0 ? 16 : node.link_width);
}

std::vector<Box> BoxMaker::gpuBoxes(NodeIndex device) const {
  std::vector<Box> boxes;
  for (const NodeIndex i : gpusOn(graph_, device)) {
    const Node& gpu = graph_.node(i);
    const GpuExplanation& why = all_.gpus[static_cast<std::size_t>(gpu.index)];
    Box box{.kind = "gpu", .nodes = {i}, .width = metrics_.gpu_width, .height = metrics_.gpu_height};
    if (device != i) box.nodes.push_back(device);
    box.lines = {gpuName(graph_, gpu.index)};
    if (!many_) box.lines.push_back(gpu.busid);
    std::string state;
    for (const ChosenNic& nic : why.chosen) {
      const std::string gdr = gdrSummary(nic);
      if (&nic == &why.chosen[0])
        state = std::string(gdr == "on" ? "NIC " : "no GDR, ") + pathTypeName(nic.view.type);
      addLine(box.tip, netName(graph_, nic.view.net) + ": " + viewText(nic.view) + ", GPUDirect " + gdr);
    }
    if (why.chosen.empty()) state = graph_.count(NodeType::kNet) == 0 ? "" : "no NIC";
    if (!state.empty()) box.lines.push_back(state);
    box.bad = !why.problems.empty();
    for (const Problem& problem : why.problems) addLine(box.tip, "! " + problem.text);
    box.tip = gpuName(graph_, gpu.index) + ", NVML index " + std::to_string(gpu.dev) + "\n" +
              pciTip(graph_.node(device)) + (box.tip.empty() ? "" : "\n" + box.tip);
    boxes.push_back(std::move(box));
  }
  if (!boxes.empty()) return boxes;
  const Node& node = graph_.node(device);  // this GPU is used by no rank
  return {Box{.kind = "gpu",
              .nodes = {device},
              .width = metrics_.gpu_width,
              .height = metrics_.gpu_height,
              .lines = {"GPU", "no rank"},
              .tip = pciTip(node)}};
}

Box BoxMaker::netBox(NodeIndex i) const {
  const Node& net = graph_.node(i);
  // The frame of the host already says which host it is.
  const std::string name = graph_.hosts() > 1 && !net.name.empty() ? net.name : netName(graph_, net.index);
  Box box{.kind = "net", .nodes = {i}, .width = nic_width_, .height = kChipHeight, .lines = {name}};
  box.tip = netName(graph_, net.index) + ", device " + std::to_string(net.dev) + "\n" +
            speedText(net.bandwidth) + " = " + gbText(net.bandwidth) + " GB/s";
  if (net.gdr == 0) addLine(box.tip, "offers no GPUDirect");
  return box;
}

std::vector<Box> BoxMaker::nicBoxes(NodeIndex nic) const {
  const Node& node = graph_.node(nic);
  const auto nets = netsOn(graph_, nic);
  if (nets.size() == 1) {
    Box box = netBox(nets[0]);
    box.nodes.push_back(nic);
    box.height = metrics_.nic_height;
    if (!many_ && !node.busid.empty()) box.lines.push_back(node.busid);
    box.lines.push_back(speedText(graph_.node(nets[0]).bandwidth));
    box.tip += "\n" + pciTip(node);
    return {box};
  }
  const auto count = static_cast<int>(nets.size());
  const int rows = std::max(1, std::min(count, kChipRows));
  const int columns = std::max(1, (count + rows - 1) / rows);
  Box frame{.kind = "nic", .nodes = {nic}, .lines = {nodeName(graph_, nic)}, .tip = pciTip(node)};
  frame.width = columns * (nic_width_ + 6) + 6;
  frame.height = kTitle + rows * (kChipHeight + 4) + 4;
  std::vector<Box> boxes = {frame};
  for (int i = 0; i < count; ++i) {
    Box box = netBox(nets[static_cast<std::size_t>(i)]);
    box.x = 6 + (nic_width_ + 6) * (i / rows);
    box.y = kTitle + (kChipHeight + 4) * (i % rows);
    boxes.push_back(std::move(box));
  }
  return boxes;
}

Box BoxMaker::cpuBox(NodeIndex i) const {
  const Node& cpu = graph_.node(i);
  const std::string list = cpuList(cpu.affinity);
  Box box{.kind = "cpu", .nodes = {i}, .height = metrics_.cpu_height};
  box.lines = {"NUMA node " + std::to_string(cpu.numa)};
  if (!list.empty()) box.lines.push_back("CPUs " + list);
  box.tip = nodeName(graph_, i) + (list.empty() ? "" : "\nCPUs " + list);
  return box;
}

Box BoxMaker::switchBox(NodeIndex i) const {
  const Node& node = graph_.node(i);
  return {.kind = "pci",
          .nodes = {i},
          .height = metrics_.pci_height,
          .lines = {"switch", node.busid},
          .tip = "PCIe switch " + pciTip(node)};
}

Box BoxMaker::nvswitchBox(NodeIndex i) const {
  Box box{.kind = "nvs", .nodes = {i}, .height = kNvsHeight, .lines = {"NVSwitch"}, .tip = "NVSwitch"};
  if (graph_.hosts() > 1) box.tip += ", one for all " + std::to_string(graph_.hosts()) + " hosts";
  return box;
}

Box BoxMaker::c2cBox(NodeIndex i) const {
  return {
      .kind = "cxb", .nodes = {i}, .width = 44, .height = 18, .lines = {"C2C"}, .tip = nodeName(graph_, i)};
}

}  // namespace railwise::topo
