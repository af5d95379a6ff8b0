#include <algorithm>
#include <cmath>

#include "topo/outputs/drawing/drawing.h"

namespace railwise::topo {
namespace {

// One column below a switch or CPU: a subtree, a GPU, or a stack of NICs.
struct Column {
  std::vector<const Branch*> items;
  double width = 0;
  bool stacked = false;
};

int levelsBelow(const Branch& branch, const Graph& graph) {
  if (graph.node(branch.node).type != NodeType::kPci) return 0;
  int most = 0;
  for (const Branch& child : branch.children) most = std::max(most, levelsBelow(child, graph));
  return most + 1;
}

class HostLayout {
 public:
  HostLayout(const BoxMaker& maker, int levels)
      : maker_(maker), graph_(maker.graph()), metrics_(maker.metrics()), levels_(levels) {}

  Drawing draw(const HostTree& host) {
    const double margin = metrics_.margin;
    const bool bus = host.cpus.size() > 1;
    top_ = margin + (graph_.hosts() > 1 ? kTitle : 0) + (bus ? kBusHeight : 0);
    double x = margin;
    for (const CpuTree& cpu : host.cpus) {
      x += placeCpu(cpu, x) + metrics_.numa_gap;
    }
    if (!host.loose.empty()) x += placeLoose(host, x) + metrics_.numa_gap;
    drawing_.width = x - metrics_.numa_gap + margin;
    for (const Box& box : drawing_.boxes) drawing_.height = std::max(drawing_.height, box.y + box.height);
    drawing_.height += margin;
    for (Frame& frame : drawing_.frames) frame.height = drawing_.height - frame.y;
    return std::move(drawing_);
  }

 private:
  double levelY(int level) const {  // y of the switches of a level; level 0 is directly below the CPU
    return top_ + metrics_.cpu_height + metrics_.level_gap +
           level * (metrics_.pci_height + metrics_.level_gap);
  }
  double leafY() const { return levelY(levels_); }

  bool isNic(const Branch& branch) const { return graph_.node(branch.node).type == NodeType::kNic; }
  bool isSwitch(const Branch& branch) const { return graph_.node(branch.node).type == NodeType::kPci; }

  std::vector<Box> leafBoxes(const Branch& branch) const {
    if (isNic(branch)) return maker_.nicBoxes(branch.node);
    std::vector<Box> boxes = maker_.gpuBoxes(branch.node);
    for (std::size_t i = 1; i < boxes.size(); ++i) boxes[i].x = boxes[i - 1].x + boxes[i - 1].width + 2;
    return boxes;
  }

  static double right(const std::vector<Box>& boxes) {
    double most = 0;
    for (const Box& box : boxes) most = std::max(most, box.x + box.width);
    return most;
  }

  double width(const Branch& branch) const {
    if (!isSwitch(branch)) return right(leafBoxes(branch));
    return std::max(width(columns(branch.children)), 96.0);
  }

  double width(const std::vector<Column>& list) const {
    double sum = 0;
    for (const Column& column : list) sum += column.width + (&column == &list[0] ? 0 : gapBefore(column));
    return sum;
  }

  // Leaves more space before a switch, so that the devices of one switch stand together.
  double gapBefore(const Column& column) const {
    return isSwitch(*column.items[0]) ? 2 * metrics_.gap : metrics_.gap;
  }

  // Stacks NICs if there are many of them or if space is scarce.
  std::vector<Column> columns(const std::vector<Branch>& children) const {
    std::vector<Column> list;
    std::vector<const Branch*> nics;
    for (const Branch& child : children) {
      const bool plain = isNic(child) && netsOn(graph_, child.node).size() <= 1;
      if (plain) {
        nics.push_back(&child);
      } else {
        list.push_back({{&child}, width(child)});
      }
    }
    const auto count = static_cast<int>(nics.size());
    const bool stacked = count > 2 || (count == 2 && maker_.many());
    const int rows = stacked ? std::max(kStack, (count + kStack - 1) / kStack) : 1;
    for (int i = 0; i < count; ++i) {
      if (i % rows == 0)
        list.push_back({{}, (stacked ? kSpine : 0) + width(*nics[static_cast<std::size_t>(i)]), stacked});
      list.back().items.push_back(nics[static_cast<std::size_t>(i)]);
    }
    return list;
  }

  double placeCpu(const CpuTree& tree, double x) {
    Box box = maker_.cpuBox(tree.cpu);
    const double text = static_cast<double>(box.lines[0].size()) * kNameCharacter + 12;
    const auto list = columns(tree.children);
    const double inner = std::max(width(list), text);
    const double pad = metrics_.margin / 2;
    drawing_.frames.push_back({.kind = "numa", .x = x, .y = top_ - pad, .width = inner + 2 * pad});
    box.x = x + pad;
    box.y = top_;
    box.width = inner;
    drawing_.boxes.push_back(box);
    placeColumns(list, x + pad + (inner - width(list)) / 2, tree.cpu, top_ + box.height, 0);
    return inner + 2 * pad;
  }

  // Returns the x of the middle of the first and of the last column.
  std::pair<double, double> placeColumns(const std::vector<Column>& list, double x, NodeIndex parent,
                                         double parent_bottom, int level) {
    std::pair<double, double> ends = {x, x};
    for (const Column& column : list) {
      if (&column != &list[0]) x += gapBefore(column);
      const double middle = column.stacked ? placeStack(column, x, parent, parent_bottom)
                            : isSwitch(*column.items[0])
                                ? placeSwitch(*column.items[0], x, parent, parent_bottom, level)
                                : placeLeaf(*column.items[0], x, parent, parent_bottom);
      if (&column == &list[0]) ends.first = middle;
      ends.second = middle;
      x += column.width;
    }
    return ends;
  }

  void addWire(const Branch& branch, NodeIndex parent, std::vector<Point> points) {
    Wire wire{.kind = "pci",
              .a = parent,
              .b = branch.node,
              .bandwidth = branch.bandwidth,
              .points = std::move(points)};
    wire.slow = maker_.isSlow(parent, branch.node);
    // 5000 is NCCL's number for "no limit".
    wire.label = branch.bandwidth >= 5000 ? "" : gbText(branch.bandwidth);
    wire.label_x = wire.points[0].x + 5;
    wire.label_y = std::min(wire.points[0].y + metrics_.level_gap / 2 + 4, wire.points.back().y - 4);
    drawing_.wires.push_back(std::move(wire));
  }

  double placeSwitch(const Branch& branch, double x, NodeIndex parent, double parent_bottom, int level) {
    const auto list = columns(branch.children);
    const double whole = width(branch);
    Box box = maker_.switchBox(branch.node);
    box.y = levelY(level);
    const auto ends =
        placeColumns(list, x + (whole - width(list)) / 2, branch.node, box.y + box.height, level + 1);
    box.x = std::max(x, ends.first - kSwitchOverhang);
    box.width = std::min(x + whole, ends.second + kSwitchOverhang) - box.x;
    if (box.width < 96) {
      box.x = x + (whole - 96) / 2;
      box.width = 96;
    }
    drawing_.boxes.push_back(box);
    const double middle = box.x + box.width / 2;
    addWire(branch, parent, {{middle, parent_bottom}, {middle, box.y}});
    return middle;
  }

  double placeLeaf(const Branch& branch, double x, NodeIndex parent, double parent_bottom) {
    const double y = parent == kNoNode ? parent_bottom : leafY();
    auto boxes = leafBoxes(branch);
    const double middle = x + right(boxes) / 2;
    if (parent != kNoNode) addWire(branch, parent, {{middle, parent_bottom}, {middle, y}});
    for (Box& box : boxes) {
      box.x += x;
      box.y += y;
      drawing_.boxes.push_back(std::move(box));
    }
    return middle;
  }

  double placeStack(const Column& column, double x, NodeIndex parent, double parent_bottom) {
    double y = leafY();
    const double spine = x + 4;
    for (const Branch* nic : column.items) {
      Box box = maker_.nicBoxes(nic->node)[0];
      box.x = x + kSpine;
      box.y = y;
      addWire(*nic, parent,
              {{spine, parent_bottom}, {spine, y + box.height / 2}, {box.x, y + box.height / 2}});
      // Links of equal speed share one label.
      if (nic != column.items[0] && nic->bandwidth == column.items[0]->bandwidth)
        drawing_.wires.back().label.clear();
      y += box.height + 6;
      drawing_.boxes.push_back(std::move(box));
    }
    return spine;
  }

  double placeLoose(const HostTree& host, double x) {
    double width_of_all = 0;
    double y = top_ + kTitle;
    drawing_.frames.push_back(
        {.kind = "loose", .title = "not connected", .x = x, .y = top_ - metrics_.margin / 2});
    const std::size_t frame = drawing_.frames.size() - 1;
    for (const NodeIndex node : host.loose) {
      const Branch branch{node, 0, {}};
      placeLeaf(branch, x + 8, kNoNode, y);
      width_of_all = std::max(width_of_all, width(branch));
      y = drawing_.boxes.back().y + drawing_.boxes.back().height + 8;
    }
    drawing_.frames[frame].width = std::max(width_of_all + 16, 110.0);
    return drawing_.frames[frame].width;
  }

  const BoxMaker& maker_;
  const Graph& graph_;
  const Metrics& metrics_;
  const int levels_;
  double top_ = 0;  // y of the top of the CPUs
  Drawing drawing_;
};

// The number of columns of hosts with which the drawing has about the proportions of a screen.
int columnsFor(std::size_t hosts, double width, double height) {
  constexpr double kScreen = 1.7;  // ratio of width to height
  int best = 1;
  double least = 1e9;
  for (int columns = 1; columns <= static_cast<int>(hosts); ++columns) {
    const double rows = std::ceil(static_cast<double>(hosts) / columns);
    const double off = std::fabs(std::log(columns * width / (rows * height) / kScreen));
    if (off < least) {
      least = off;
      best = columns;
    }
  }
  return best;
}

// One NVSwitch node serves all hosts. Connects its bars along each row, and connects the rows on the left
// side.
void joinNvswitches(const Graph& graph, Drawing& whole) {
  std::vector<const Box*> bars;
  for (const Box& box : whole.boxes) {
    if (box.kind == "nvs") bars.push_back(&box);
  }
  if (bars.size() < 2) return;
  std::sort(bars.begin(), bars.end(),
            [](const Box* a, const Box* b) { return std::pair(a->y, a->x) < std::pair(b->y, b->x); });
  const NodeIndex nvs = graph.of(NodeType::kNvs)[0];
  constexpr double kLeft = 8;
  const auto level = [](const Box* bar) { return bar->y + bar->height / 2; };
  const Box* last = nullptr;
  for (const Box* bar : bars) {
    const bool same_row = last != nullptr && last->y == bar->y;
    const double from = same_row ? last->x + last->width : kLeft;
    whole.wires.push_back(
        {.kind = "fabric", .a = nvs, .b = nvs, .points = {{from, level(bar)}, {bar->x, level(bar)}}});
    last = bar;
  }
  if (bars.front()->y == bars.back()->y) return;
  whole.wires.push_back({.kind = "fabric",
                         .a = nvs,
                         .b = nvs,
                         .points = {{kLeft, level(bars.front()) - 3}, {kLeft, level(bars.back()) + 3}}});
}

// The number of levels of switches between a CPU and its leaves, over the whole machine, so that the leaves
// of all hosts are at the same height.
int switchLevels(const std::vector<HostTree>& hosts, const Graph& graph) {
  int most = 0;
  for (const HostTree& host : hosts) {
    for (const CpuTree& cpu : host.cpus) {
      for (const Branch& branch : cpu.children) most = std::max(most, levelsBelow(branch, graph));
    }
  }
  return most;
}

}  // namespace

Drawing drawMachine(const Machine& machine, const MachineExplanation& all) {
  const BoxMaker maker(machine, all);
  const auto trees = hostTrees(*machine.graph);
  const int levels = switchLevels(trees, *machine.graph);
  std::vector<Drawing> hosts;
  double width = 0;
  double height = 0;
  for (const HostTree& tree : trees) {
    hosts.push_back(HostLayout(maker, levels).draw(tree));
    addCpuLinks(maker, hosts.back());
    addNvlinks(maker, hosts.back());
    width = std::max(width, hosts.back().width);
    height = std::max(height, hosts.back().height);
  }
  Drawing whole;
  const bool several = hosts.size() > 1;
  const double gap = several ? maker.metrics().host_gap : 0;
  const int columns = columnsFor(hosts.size(), width + gap, height + gap);
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    const double x = gap + (static_cast<int>(i) % columns) * (width + gap);
    const double y = (static_cast<int>(i) / columns) * (height + gap);
    if (several) {
      whole.frames.push_back({"host", "host " + std::to_string(trees[i].host), x, y, width, height});
    }
    addDrawing(whole, std::move(hosts[i]), x, y);
  }
  whole.width = std::max(whole.width, width + gap) + (several ? 1 : 0);
  whole.height += several ? 1 : 0;
  joinNvswitches(*machine.graph, whole);
  return whole;
}

const Box* boxOf(const Drawing& drawing, NodeIndex node) {
  for (const Box& box : drawing.boxes) {
    if (std::find(box.nodes.begin(), box.nodes.end(), node) != box.nodes.end()) return &box;
  }
  return nullptr;
}

}  // namespace railwise::topo
