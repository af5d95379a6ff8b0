#include "net/topology/path_bandwidth.h"

#include <algorithm>
#include <cmath>

#include "base/pci.h"

namespace railwise::net {
namespace {

constexpr double kMbpsPerGigabyte = 8000;

int toMbps(float gigabytes) {
  const double mbps = std::round(static_cast<double>(gigabytes) * kMbpsPerGigabyte);
  return static_cast<int>(std::clamp(mbps, 1.0, static_cast<double>(PathBandwidth::kUnlimited)));
}

}  // namespace

PathBandwidth PathBandwidth::compute(const topo::Machine& machine, std::size_t devices) {
  PathBandwidth result;
  topo::Settings direct = *machine.settings;
  direct.pxn_disable = 1;
  const topo::Graph& graph = *machine.graph;
  const auto paths = topo::Paths::compute(graph, direct);
  if (!paths.ok()) return result;
  result.devices_ = devices;
  const int gpus = graph.count(topo::NodeType::kGpu);
  result.table_.resize(static_cast<std::size_t>(gpus) * devices);
  for (int gpu = 0; gpu < gpus; ++gpu) {
    result.gpus_.push_back(graph.of(topo::NodeType::kGpu, gpu).busid);
    for (int net = 0; net < graph.count(topo::NodeType::kNet); ++net) {
      const auto device = static_cast<std::size_t>(graph.of(topo::NodeType::kNet, net).dev);
      const topo::Path& path = paths->get(topo::NodeType::kGpu, gpu, topo::NodeType::kNet, net);
      if (device >= devices || path.type >= topo::PathType::kNet || path.bandwidth <= 0) continue;
      result.table_[static_cast<std::size_t>(gpu) * devices + device] = {toMbps(path.bandwidth), path.type};
    }
  }
  return result;
}

int PathBandwidth::findGpu(std::string_view pci_address) const {
  const std::string full = std::count(pci_address.begin(), pci_address.end(), ':') == 1
                               ? "0000:" + std::string(pci_address)
                               : std::string(pci_address);
  const int64_t wanted = busIdToNumber(full);
  const auto found = std::find_if(gpus_.begin(), gpus_.end(),
                                  [&](const std::string& busid) { return busIdToNumber(busid) == wanted; });
  return found != gpus_.end() ? static_cast<int>(found - gpus_.begin()) : -1;
}

const PathBandwidth::Entry* PathBandwidth::find(int gpu, std::size_t device) const {
  if (gpu < 0 || gpu >= gpus() || device >= devices_) return nullptr;
  return &table_[static_cast<std::size_t>(gpu) * devices_ + device];
}

int PathBandwidth::mbps(int gpu, std::size_t device) const {
  const Entry* entry = find(gpu, device);
  return entry != nullptr ? entry->mbps : kUnlimited;
}

topo::PathType PathBandwidth::type(int gpu, std::size_t device) const {
  const Entry* entry = find(gpu, device);
  return entry != nullptr ? entry->type : topo::PathType::kDis;
}

int PathBandwidth::nearestGpu(std::span<const RailPort> rails) const {
  int best = -1;
  int64_t best_mbps = -1;
  int best_distance = 0;
  for (int gpu = 0; gpu < gpus(); ++gpu) {
    int64_t total = 0;
    int distance = 0;
    for (const RailPort& rail : rails) {
      total += railMbps(*this, gpu, rail);
      distance += static_cast<int>(type(gpu, rail.device));
    }
    if (total < best_mbps || (total == best_mbps && distance >= best_distance)) continue;
    best = gpu;
    best_mbps = total;
    best_distance = distance;
  }
  return best;
}

int railMbps(const PathBandwidth& paths, int gpu, const RailPort& rail) {
  return std::max(1, std::min(rail.speed_mbps, paths.mbps(gpu, rail.device)));
}

}  // namespace railwise::net
