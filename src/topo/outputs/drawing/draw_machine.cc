#include "topo/outputs/drawing/draw_machine.h"

#include <algorithm>
#include <cmath>

#include "topo/outputs/drawing/host.h"

namespace railwise::topo {
namespace {

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

}  // namespace

Drawing drawMachine(const Machine& machine, const MachineExplanation& all) {
  const BoxMaker maker(machine, all);
  const auto trees = hostTrees(*machine.graph);
  const int levels = switchLevels(trees, *machine.graph);
  std::vector<Drawing> hosts;
  double width = 0;
  double height = 0;
  for (const HostTree& tree : trees) {
    hosts.push_back(drawHost(maker, tree, levels));
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

}  // namespace railwise::topo
