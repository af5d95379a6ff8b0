#include <algorithm>
#include <set>

#include "base/text/text_layout.h"
#include "topo/explain/explain.h"
#include "topo/outputs/outputs.h"

namespace railwise::topo {
namespace {

// After this number of rows the header is repeated, so that it is always in sight.
constexpr int kHeaderEvery = 24;

// A GPU or a NIC, which has a row and a column of the matrix.
struct Device {
  NodeType type = NodeType::kGpu;
  int index = 0;
  int host = 0;
  std::string name;  // "GPU0": 0 is the rank; "NIC0": 0 is the position in the list of NICs
};

std::vector<Device> devicesOf(const Graph& graph) {
  std::vector<Device> devices;
  for (const NodeIndex i : graph.of(NodeType::kGpu)) {
    const Node& gpu = graph.node(i);
    devices.push_back({NodeType::kGpu, gpu.index, gpu.host, "GPU" + std::to_string(gpu.rank)});
  }
  for (const NodeIndex i : graph.of(NodeType::kNet)) {
    const Node& net = graph.node(i);
    devices.push_back({NodeType::kNet, net.index, net.host, "NIC" + std::to_string(net.index)});
  }
  return devices;
}

class Matrix {
 public:
  Matrix(const Machine& machine, std::size_t columns)
      : machine_(machine),
        graph_(*machine.graph),
        devices_(devicesOf(graph_)),
        xgmi_(isXgmi(graph_)),
        columns_(columns) {}

  std::string text() {
    layOut();
    for (const Part& part : parts()) {
      if (!text_.empty()) text_ += '\n';
      for (std::size_t row = 0; row < devices_.size(); ++row) {
        if (row % kHeaderEvery == 0) addHeader(part, row > 0);
        if (row > 0 && row % kHeaderEvery != 0 && newGroup(row)) text_ += '\n';
        addRow(part, row);
      }
    }
    addLegend();
    addDevices();
    addNicTable();
    return text_;
  }

 private:
  // "NV18" if the path's bandwidth is that of 18 links; "NVL" if the bandwidth is not a multiple of a link's.
  std::string nvlinkText(const Device& from, const Path& path) const {
    if (xgmi_) return "XGMI";
    const int count = nvlinkCount(graph_.of(NodeType::kGpu, from.index), path.bandwidth);
    return count > 0 ? "NV" + std::to_string(count) : "NVL";
  }

  std::string cell(const Device& from, const Device& to) const {
    if (from.type == to.type && from.index == to.index) return "X";
    const Path& path = machine_.paths->get(from.type, from.index, to.type, to.index);
    const bool gpus = from.type == NodeType::kGpu && to.type == NodeType::kGpu;
    if (gpus && path.type == PathType::kNvl) return nvlinkText(from, path);
    return pathTypeName(path.type);
  }

  // True if a new group begins at `i`: a wider gap stands before the NICs and between hosts.
  bool newGroup(std::size_t i) const {
    return devices_[i].type != devices_[i - 1].type || devices_[i].host != devices_[i - 1].host;
  }

  void layOut() {
    for (const Device& from : devices_) {
      std::vector<std::string> row;
      for (const Device& to : devices_) row.push_back(cell(from, to));
      cells_.push_back(std::move(row));
      name_width_ = std::max(name_width_, from.name.size());
      const int cpu = nextCpu(*machine_.paths, from.type, from.index);
      affinities_.push_back(cpu < 0 ? "-" : cpuList(graph_.of(NodeType::kCpu, cpu).affinity));
      if (affinities_.back().empty()) affinities_.back() = "-";
      affinity_width_ = std::max(affinity_width_, affinities_.back().size());
    }
    for (std::size_t column = 0; column < devices_.size(); ++column) {
      std::size_t width = devices_[column].name.size();
      for (const auto& row : cells_) width = std::max(width, row[column].size());
      widths_.push_back(width + (column > 0 && newGroup(column) ? 3 : 1));
    }
  }

  // Columns that stand side by side.
  struct Part {
    std::size_t first = 0;
    std::size_t last = 0;   // behind it
    bool affinity = false;  // the columns of the CPUs follow
  };

  // The matrix in parts of at most `columns_`. A group of devices is cut only if it fits nowhere.
  std::vector<Part> parts() const {
    constexpr std::size_t kNuma = 15;
    const std::size_t affinity = 3 + affinity_width_ + kNuma + (graph_.hosts() > 1 ? 10 : 0);
    const auto fits = [this](std::size_t width) { return columns_ == 0 || width <= columns_; };
    std::vector<Part> all = {{}};
    std::size_t width = name_width_;
    for (std::size_t i = 0; i < devices_.size(); ++i) {
      std::size_t group = 0;
      for (std::size_t of = i; of < devices_.size() && (of == i || !newGroup(of)); ++of) group += widths_[of];
      const bool begins = i > 0 && newGroup(i) && !fits(width + group) && fits(name_width_ + group);
      if (i > all.back().first && (begins || !fits(width + widths_[i]))) {
        all.push_back({.first = i});
        width = name_width_;
      }
      all.back().last = i + 1;
      width += widths_[i];
    }
    if (!fits(width + affinity)) all.push_back({.first = devices_.size(), .last = devices_.size()});
    all.back().affinity = true;
    return all;
  }

  void addCell(std::string text, std::size_t width) {
    text_ += std::string(width - std::min(width, text.size()), ' ') + text;
  }

  void addHeader(const Part& part, bool again) {
    if (again) text_ += '\n';
    text_ += std::string(name_width_, ' ');
    for (std::size_t i = part.first; i < part.last; ++i) addCell(devices_[i].name, widths_[i]);
    if (part.affinity)
      text_ += "   CPU Affinity" +
               std::string(affinity_width_ - std::min<std::size_t>(affinity_width_, 12), ' ') +
               "  NUMA Affinity";
    text_ += '\n';
  }

  void addRow(const Part& part, std::size_t row) {
    const Device& device = devices_[row];
    text_ += device.name + std::string(name_width_ - device.name.size(), ' ');
    for (std::size_t i = part.first; i < part.last; ++i) {
      used_.insert(cells_[row][i]);
      addCell(cells_[row][i], widths_[i]);
    }
    if (part.affinity) addAffinity(row);
    text_ += '\n';
  }

  void addAffinity(std::size_t row) {
    const Device& device = devices_[row];
    const int cpu = nextCpu(*machine_.paths, device.type, device.index);
    text_ += "   " + affinities_[row] +
             std::string(std::max<std::size_t>(affinity_width_, 12) - affinities_[row].size(), ' ');
    text_ += "  " + (cpu < 0 ? std::string("-") : std::to_string(graph_.of(NodeType::kCpu, cpu).numa));
    if (graph_.hosts() > 1) text_ += " of host " + std::to_string(device.host);
  }

  void addLegend() {
    text_ += "\nLegend (read a row as from, a column as to; nearest first)\n\n  X     the device itself\n";
    for (int type = 0; type < kPathTypes; ++type) {
      const auto path_type = static_cast<PathType>(type);
      if (path_type == PathType::kNvl && xgmi_ && used_.count("XGMI") != 0) {
        text_ += "  XGMI  xGMI from GPU to GPU\n";
      } else if (path_type == PathType::kNvl && usesNv()) {
        text_ += "  NV#   NVLink directly or through an NVSwitch; # links from each GPU\n";
      }
      if (used_.count(pathTypeName(path_type)) == 0) continue;
      text_ += std::string("  ") + pathTypeName(path_type) + "   " + meaningText(graph_, path_type) + "\n";
    }
    if (used_.count("PXN") != 0) {
      const std::string sentence = std::string("PXN stands in the rows of the GPUs only: ") +
                                   libraryName(graph_) +
                                   " sends that way, but receives by the way of the column.";
      text_ += "\n" + (columns_ == 0 ? sentence + "\n" : wrappedText(sentence, "", "", columns_));
    }
  }

  bool usesNv() const {
    return std::any_of(used_.begin(), used_.end(), [](const std::string& cell) {
      return cell.size() > 2 && cell.compare(0, 2, "NV") == 0 && cell[2] >= '0' && cell[2] <= '9';
    });
  }

  void addDevices() {
    text_ += "\nGPU Legend (by rank)\n\n";
    for (const Device& device : devices_) {
      if (device.type != NodeType::kGpu) continue;
      const Node& gpu = graph_.of(NodeType::kGpu, device.index);
      text_ += "  " + device.name + ": " + gpuFacts(graph_, gpu) + "\n";
    }
    if (graph_.count(NodeType::kNet) > 0) text_ += "\nNIC Legend\n\n";
    for (const Device& device : devices_) {
      if (device.type != NodeType::kNet) continue;
      const Node& net = graph_.of(NodeType::kNet, device.index);
      text_ += "  " + device.name + ": " + netName(graph_, device.index) + ", " + gbText(net.bandwidth * 8) +
               " Gb/s";
      for (const Link& link : net.links) {
        if (!graph_.node(link.to).busid.empty()) text_ += ", " + graph_.node(link.to).busid;
      }
      text_ += "\n";
    }
  }

  void addNicTable() {
    const MachineExplanation all = explain(machine_);
    text_ += "\nNIC of each GPU, as " + rulesText(machine_) + " chooses it (railwise explain says why)\n\n" +
             nicTable(machine_, all);
  }

  const Machine& machine_;
  const Graph& graph_;
  const std::vector<Device> devices_;
  const bool xgmi_;
  const std::size_t columns_;  // 0: as many as it takes
  std::vector<std::vector<std::string>> cells_;
  std::vector<std::string> affinities_;
  std::vector<std::size_t> widths_;
  std::size_t name_width_ = 4;
  std::size_t affinity_width_ = 12;
  std::set<std::string> used_;
  std::string text_;
};

}  // namespace

std::string matrixText(const Machine& machine, std::size_t columns) {
  return Matrix(machine, columns).text();
}

}  // namespace railwise::topo
