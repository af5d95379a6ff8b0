#include <algorithm>
#include <cmath>
#include <map>

#include "topo/outputs/drawing/drawing.h"

namespace railwise::topo {
namespace {

double middle(const Box& box) { return box.x + box.width / 2; }
double bottom(const Box& box) { return box.y + box.height; }

// From 100 GB/s on, labels have no decimals: "371".
std::string shortGb(float gigabytes) { return gbText(gigabytes >= 100 ? std::round(gigabytes) : gigabytes); }

// Two drawn nodes with a link between them. pairsOf() returns the links of one type, each pair once.
struct Pair {
  NodeIndex a, b;
  float bandwidth;
};
std::vector<Pair> pairsOf(const Graph& graph, const Drawing& drawing, LinkType type) {
  std::vector<Pair> pairs;
  for (std::size_t i = 0; i < graph.nodes().size(); ++i) {
    const auto a = static_cast<NodeIndex>(i);
    for (const Link& link : graph.node(a).links) {
      if (link.type != type || boxOf(drawing, a) == nullptr || boxOf(drawing, link.to) == nullptr) continue;
      const auto known = std::find_if(pairs.begin(), pairs.end(),
                                      [&](const Pair& pair) { return pair.a == link.to && pair.b == a; });
      if (known == pairs.end()) pairs.push_back({a, link.to, link.bandwidth});
    }
  }
  return pairs;
}

// All CPUs of a host are connected to each other; the drawing shows that as one bus above them.
void addBus(const BoxMaker& maker, Drawing& drawing) {
  const auto pairs = pairsOf(maker.graph(), drawing, LinkType::kSys);
  for (const Pair& pair : pairs) {
    const Box& a = *boxOf(drawing, pair.a);
    const Box& b = *boxOf(drawing, pair.b);
    const double y = a.y - kBusHeight / 2;
    Wire wire{.kind = "sys", .a = pair.a, .b = pair.b, .bandwidth = pair.bandwidth};
    wire.points = {{middle(a), a.y}, {middle(a), y}, {middle(b), y}, {middle(b), b.y}};
    if (&pair == &pairs[0]) {
      wire.label = "between NUMA nodes " + gbText(pair.bandwidth);
      wire.label_x = std::min(middle(a), middle(b)) + 8;
      wire.label_y = y - 5;
    }
    drawing.wires.push_back(std::move(wire));
  }
}

void addSwitchLinks(const BoxMaker& maker, Drawing& drawing) {
  for (const Pair& pair : pairsOf(maker.graph(), drawing, LinkType::kLoc)) {
    if (maker.graph().node(pair.a).type != NodeType::kPci) continue;
    const Box* a = boxOf(drawing, pair.a);
    const Box* b = boxOf(drawing, pair.b);
    if (a->x > b->x) std::swap(a, b);
    Wire wire{.kind = "loc", .a = pair.a, .b = pair.b, .bandwidth = pair.bandwidth};
    wire.points = {{a->x + a->width, a->y + a->height / 2}, {b->x, b->y + b->height / 2}};
    drawing.wires.push_back(std::move(wire));
  }
}

// Draws the shared C2C link of a split GPU directly below its CPU.
void addBridges(const BoxMaker& maker, Drawing& drawing) {
  const Graph& graph = maker.graph();
  for (const NodeIndex bridge : graph.of(NodeType::kCxb)) {
    const Box* first = nullptr;
    const Box* cpu = nullptr;
    for (const Link& link : graph.node(bridge).links) {
      const Box* box = boxOf(drawing, link.to);
      if (box != nullptr && box->kind == "cpu") cpu = box;
      if (box != nullptr && box->kind == "gpu" && (first == nullptr || box->x < first->x)) first = box;
    }
    if (first == nullptr || cpu == nullptr) continue;
    Box box = maker.c2cBox(bridge);
    box.x = first->x - 2;
    box.y = bottom(*cpu) + 6;
    drawing.boxes.push_back(std::move(box));
  }
}

// Draws a line straight down from a CPU to a GPU, beside the PCIe link and behind the boxes between them.
void addFromCpus(const BoxMaker& maker, Drawing& drawing, LinkType type, const char* kind) {
  constexpr double kLane = 10;  // pixels from the left edge of the GPU
  for (const Pair& pair : pairsOf(maker.graph(), drawing, type)) {
    const Box* upper = boxOf(drawing, pair.a);
    const Box* lower = boxOf(drawing, pair.b);
    if (upper->y > lower->y) std::swap(upper, lower);
    if (upper->kind != "cpu" && upper->kind != "cxb") continue;
    const double x = lower->kind == "cxb" ? middle(*lower) : lower->x + kLane;
    Wire wire{.kind = kind, .a = pair.a, .b = pair.b, .bandwidth = pair.bandwidth};
    wire.points = {{x, bottom(*upper)}, {x, lower->y}};
    wire.label = lower->kind == "cxb" ? "" : shortGb(pair.bandwidth);
    wire.label_x = x + 5;
    // If the PCIe link connects the same two boxes, its label is at the top, so this label goes to the
    // bottom.
    const bool beside = std::any_of(drawing.wires.begin(), drawing.wires.end(), [&](const Wire& other) {
      return other.kind == "pci" && std::minmax(other.a, other.b) == std::minmax(pair.a, pair.b);
    });
    wire.label_y = beside ? lower->y - 5 : bottom(*upper) + 14;
    drawing.wires.push_back(std::move(wire));
  }
}

// Draws a curve below the GPUs for each linked pair. The curve is deeper the farther apart the GPUs are.
class Arcs {
 public:
  Arcs(const BoxMaker& maker, Drawing& drawing) : maker_(maker), drawing_(drawing) {}

  double add() {
    for (const Pair& pair : pairsOf(maker_.graph(), drawing_, LinkType::kNvl)) {
      if (boxOf(drawing_, pair.a)->kind == "gpu" && boxOf(drawing_, pair.b)->kind == "gpu")
        pairs_.push_back(pair);
    }
    if (pairs_.empty()) return 0;
    std::vector<double> xs;
    for (Pair& pair : pairs_) {
      if (boxOf(drawing_, pair.a)->x > boxOf(drawing_, pair.b)->x) std::swap(pair.a, pair.b);
      for (const NodeIndex node : {pair.a, pair.b}) places_[node] = 0;
    }
    for (const auto& [node, place] : places_) xs.push_back(boxOf(drawing_, node)->x);
    std::sort(xs.begin(), xs.end());
    for (auto& [node, place] : places_) {
      place = static_cast<int>(std::lower_bound(xs.begin(), xs.end(), boxOf(drawing_, node)->x) - xs.begin());
    }
    for (const Pair& pair : pairs_) addArc(pair);
    return deepest_ + 12;
  }

 private:
  // Where an arc starts at its GPU. Arcs to the left start on the left side, and arcs to near GPUs start
  // farther outside, so that arcs do not cross there.
  double attach(NodeIndex node, NodeIndex other) const {
    const Box& box = *boxOf(drawing_, node);
    std::vector<std::pair<int, NodeIndex>> order;
    for (const Pair& pair : pairs_) {
      if (pair.a != node && pair.b != node) continue;
      const NodeIndex end = pair.a == node ? pair.b : pair.a;
      const int distance = places_.at(end) - places_.at(node);
      order.push_back({distance < 0 ? -1000 - distance : 1000 - distance, end});
    }
    std::sort(order.begin(), order.end());
    const auto at =
        std::find_if(order.begin(), order.end(), [&](const auto& entry) { return entry.second == other; });
    const auto slot = static_cast<double>(at - order.begin()) + 1;
    return box.x + box.width * slot / (static_cast<double>(order.size()) + 1);
  }

  void addArc(const Pair& pair) {
    const Box& a = *boxOf(drawing_, pair.a);
    const Box& b = *boxOf(drawing_, pair.b);
    const double depth = kArcUnit * (places_[pair.b] - places_[pair.a]) + 8;
    const double start = attach(pair.a, pair.b);
    const double end = attach(pair.b, pair.a);
    Wire wire{.kind = "nvl", .a = pair.a, .b = pair.b, .bandwidth = pair.bandwidth, .curved = true};
    wire.points = {{start, bottom(a)},
                   {start, bottom(a) + depth * 4 / 3},
                   {end, bottom(b) + depth * 4 / 3},
                   {end, bottom(b)}};
    deepest_ = std::max(deepest_, depth);
    drawing_.wires.push_back(std::move(wire));
  }

  const BoxMaker& maker_;
  Drawing& drawing_;
  std::vector<Pair> pairs_;
  std::map<NodeIndex, int> places_;  // position of each GPU from left to right
  double deepest_ = 0;
};

// Writes one line for each bandwidth of the arcs.
void captionArcs(const BoxMaker& maker, Drawing& drawing, double y) {
  std::map<float, int> counts;
  float most = 0;
  for (const Wire& wire : drawing.wires) {
    if (wire.kind == "nvl" && wire.curved) ++counts[wire.bandwidth], most = std::max(most, wire.bandwidth);
  }
  if (counts.empty()) return;
  const bool xgmi = isXgmi(maker.graph());
  std::string text = xgmi ? "xGMI" : "NVLink";
  for (const auto& [bandwidth, count] : counts) {
    text += (&bandwidth == &counts.begin()->first ? " between GPUs: " : ", ") + counted(count, "pair") +
            " at " + gbText(bandwidth) + " GB/s";
    if (counts.size() > 1 && bandwidth == most) text += " (thick)";
  }
  drawing.captions.push_back({text, drawing.width / 2, y});
}

void addNvswitch(const BoxMaker& maker, Drawing& drawing, double y) {
  const Graph& graph = maker.graph();
  if (graph.count(NodeType::kNvs) == 0) return;
  const NodeIndex nvs = graph.of(NodeType::kNvs)[0];
  std::vector<Wire> wires;
  for (const Link& link : graph.node(nvs).links) {
    const Box* gpu = boxOf(drawing, link.to);
    if (gpu == nullptr || link.type != LinkType::kNvl) continue;
    Wire wire{.kind = "nvl", .a = nvs, .b = link.to, .bandwidth = link.bandwidth};
    wire.points = {{middle(*gpu), bottom(*gpu)}, {middle(*gpu), y}};
    wire.label = shortGb(link.bandwidth);
    wire.label_x = middle(*gpu) + 5;
    wire.label_y = bottom(*gpu) + 16;
    wires.push_back(std::move(wire));
  }
  if (wires.empty()) return;
  const int links = nvlinkCount(graph.of(NodeType::kGpu, 0), wires[0].bandwidth);
  Box box = maker.nvswitchBox(nvs);
  if (links > 0) box.lines[0] += ", " + counted(links, "NVLink") + " from each GPU";
  box.x = maker.metrics().margin;
  box.y = y;
  box.width = drawing.width - 2 * maker.metrics().margin;
  drawing.boxes.push_back(std::move(box));
  drawing.wires.insert(drawing.wires.end(), wires.begin(), wires.end());
  drawing.height = y + kNvsHeight + maker.metrics().margin;
}

}  // namespace

void addCpuLinks(const BoxMaker& maker, Drawing& drawing) {
  addBus(maker, drawing);
  addSwitchLinks(maker, drawing);
  addBridges(maker, drawing);
  addFromCpus(maker, drawing, LinkType::kC2c, "c2c");
  addFromCpus(maker, drawing, LinkType::kNvl, "nvl");
}

void addNvlinks(const BoxMaker& maker, Drawing& drawing) {
  double lowest = 0;
  for (const Box& box : drawing.boxes) lowest = std::max(lowest, bottom(box));
  const double depth = Arcs(maker, drawing).add();
  if (depth > 0) {
    captionArcs(maker, drawing, lowest + depth + 16);
    lowest += depth + 24;
    drawing.height = lowest + maker.metrics().margin;
  }
  addNvswitch(maker, drawing, lowest + maker.metrics().level_gap);
}

}  // namespace railwise::topo
