// Computes the paths: a search from each node (PathFinder), then NCCL's changes to the paths (Rerouter).
#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <vector>

#include "topo/graph/constants.h"
#include "topo/paths/paths.h"
#include "topo/paths/policy.h"

namespace railwise::topo {

bool Paths::reaches(NodeType from, int from_index, NodeType to) const {
  return reached_[slot(from)][slot(to)][static_cast<std::size_t>(from_index)];
}

std::vector<const Link*> Paths::links(const Path& path) const {
  std::vector<const Link*> links;
  links.reserve(path.hops);
  // Stops after `hops` links: if links are missing in one direction, the list of cells does not end where it
  // should, as in NCCL.
  for (int32_t cell = path.first; cell >= 0 && links.size() < path.hops;
       cell = cells_[static_cast<std::size_t>(cell)].next)
    links.push_back(cells_[static_cast<std::size_t>(cell)].link);
  return links;
}

std::vector<NodeIndex> Paths::via(const Path& path) const {
  std::vector<NodeIndex> nodes;
  for (const Link* link : links(path)) nodes.push_back(link->to);
  if (!nodes.empty()) nodes.pop_back();
  return nodes;
}

std::size_t Paths::bytes() const {
  std::size_t bytes = cells_.capacity() * sizeof(Cell);
  for (const auto& row : tables_)
    for (const auto& table : row) bytes += table.capacity() * sizeof(Path);
  for (const auto& row : reached_)
    for (const auto& bits : row) bytes += bits.capacity() / 8;
  for (const auto& nets : local_nets_) bytes += sizeof nets + nets.capacity() * sizeof(int);
  for (const auto* numbers : {&local_cpu_, &local_gpu_, &local_gpu_count_, &first_of_rank_, &first_of_id_})
    bytes += numbers->capacity() * sizeof(int);
  return bytes + network_preferred_.capacity() / 8;
}

bool Paths::anyNetworkPreferred() const {
  return std::find(network_preferred_.begin(), network_preferred_.end(), true) != network_preferred_.end();
}

// The breadth-first search from one base node. It fills in the paths of all nodes TO that base
// (ncclTopoSetPaths).
class PathFinder {
 public:
  // `from`: the types of nodes whose paths are stored.
  PathFinder(Paths& paths, const Graph& graph, const Settings& settings, std::span<const NodeType> from)
      : paths_(paths),
        graph_(graph),
        from_(from),
        devs_(settings.nccl.has(NcclRule::kDeviceNodes)),
        by_type_(settings.nccl.has(NcclRule::kTypeBeforeBandwidth)),
        both_ways_(settings.nccl.has(NcclRule::kReverseLinks)),
        nvb_(settings.nvb_disable == 0),
        found_(graph.nodes().size()),
        touched_(graph.nodes().size()),
        queued_(graph.nodes().size()) {}

  // Searches from all base nodes of one type. Nodes with equal ids share the entry of the first one, as in
  // NCCL's look-ups.
  bool run(NodeType type) {
    const auto& bases = graph_.of(type);
    for (std::size_t i = 0; i < bases.size(); ++i) {
      const int place = graph_.indexOf(type, graph_.node(bases[i]).id);
      if (place != static_cast<int>(i)) continue;
      std::fill(found_.begin(), found_.end(), Path{});
      for (std::size_t j = i; j < bases.size(); ++j)
        if (graph_.node(bases[j]).id == graph_.node(bases[i]).id && !search(bases[j])) return false;
      store(type, place);
    }
    for (const NodeType from : from_) {
      auto& reached = paths_.reached_[Paths::slot(from)][Paths::slot(type)];
      for (const NodeIndex node : graph_.of(from))
        reached.push_back(touched_[static_cast<std::size_t>(node)]);
    }
    std::fill(touched_.begin(), touched_.end(), false);
    return true;
  }

  const std::string& error() const { return error_; }

 private:
  Path& at(NodeIndex node) { return found_[static_cast<std::size_t>(node)]; }

  bool search(NodeIndex base) {
    const Node& node = graph_.node(base);
    const bool is_gpu = node.type == NodeType::kGpu;
    base_device_ = is_gpu && devs_ ? node.parent : base;
    longest_ = is_gpu && devs_ ? 2 : 1;
    touched_[static_cast<std::size_t>(base)] = true;
    at(base) = {kLocalBandwidth, PathType::kLoc, 0, -1};
    current_.assign(1, base);
    while (!current_.empty()) {
      next_.clear();
      for (const NodeIndex from : current_)
        for (const Link& link : graph_.node(from).links)
          if (!follow(from, link)) return false;
      for (const NodeIndex queued : next_) queued_[static_cast<std::size_t>(queued)] = false;
      std::swap(current_, next_);
    }
    return true;
  }

  bool follow(NodeIndex from, const Link& link) {
    touched_[static_cast<std::size_t>(link.to)] = true;
    const Path path = at(from);
    if (blockedByGpu(from, path, link)) return true;
    const float bandwidth = std::min(path.bandwidth, link.bandwidth);
    const PathType type = stepType(from, path, link);
    if (!better(at(link.to), path, type, bandwidth)) return true;
    const Link* back = reverse(link.to, from, link.type);
    Path& remote = at(link.to);
    if (back == nullptr) {
      if (remote.first < 0 || both_ways_) return failReverse(from, link);
      // NCCL keeps the first step of the earlier path.
      back = paths_.cells_[static_cast<std::size_t>(remote.first)].link;
    }
    paths_.cells_.push_back({back, path.first});
    remote = {bandwidth, type, static_cast<uint16_t>(path.hops + 1),
              static_cast<int32_t>(paths_.cells_.size() - 1)};
    if (!queued_[static_cast<std::size_t>(link.to)]) {
      queued_[static_cast<std::size_t>(link.to)] = true;
      next_.push_back(link.to);
    }
    return true;
  }

  // A path may pass through a GPU only to the GPU's own rank, or as one NVLink hop to the next GPU (NVB).
  bool blockedByGpu(NodeIndex from, const Path& path, const Link& link) const {
    const Node& node = graph_.node(from);
    const Node& remote = graph_.node(link.to);
    if (from == base_device_ || node.type != (devs_ ? NodeType::kDev : NodeType::kGpu)) return false;
    if (devs_ && link.type == LinkType::kLoc && remote.type == NodeType::kGpu) return false;
    return !nvb_ || link.type != LinkType::kNvl || remote.type != node.type || path.hops > longest_;
  }

  PathType stepType(NodeIndex from, const Path& path, const Link& link) const {
    const Node& node = graph_.node(from);
    const Node& remote = graph_.node(link.to);
    auto type = link.type == LinkType::kNet ? PathType::kLoc : static_cast<PathType>(link.type);
    if (node.type == NodeType::kPci && remote.type == NodeType::kPci) type = PathType::kPxb;
    if (link.type == LinkType::kPci && (node.type == NodeType::kCpu || remote.type == NodeType::kCpu))
      type = PathType::kPhb;
    const bool through_gpu = devs_ ? node.type == NodeType::kDev && path.hops == longest_
                                   : node.type == NodeType::kGpu && path.hops + 1 > 1;
    if (through_gpu && path.type == PathType::kNvl && type == PathType::kNvl) type = PathType::kNvb;
    return std::max(path.type, type);
  }

  bool better(const Path& known, const Path& path, PathType type, float bandwidth) const {
    if (!by_type_) return (known.bandwidth == 0 || known.hops > path.hops) && known.bandwidth < bandwidth;
    if (type != known.type) return type < known.type;
    if (known.bandwidth != bandwidth) return known.bandwidth < bandwidth;
    return known.hops > path.hops + 1;
  }

  const Link* reverse(NodeIndex from, NodeIndex to, LinkType type) const {
    for (const Link& link : graph_.node(from).links)
      if (link.to == to && link.type == type) return &link;
    return nullptr;
  }

  bool failReverse(NodeIndex from, const Link& link) {
    const Node& one = graph_.node(from);
    const Node& other = graph_.node(link.to);
    const bool switches = one.type == NodeType::kPci && other.type == NodeType::kPci;
    const bool gpus = link.type == LinkType::kNvl && one.type == other.type;
    const std::string kind = switches ? "PCIe switch " : gpus ? "GPU at " : "";
    const std::string tag = switches ? "pcilink" : "nvlink";
    error_ = (kind.empty() ? graph_.label(from) : "the " + kind + one.busid) + " has a " +
             (kind.empty() ? std::string("link of type ") + linkTypeName(link.type) : "<" + tag + ">") +
             " to " + (kind.empty() ? graph_.label(link.to) : "the " + kind + other.busid) +
             ", which has none back: NCCL fails its init; " +
             (kind.empty() ? "describe the link at both ends"
                           : "write <" + tag + " target=\"" + one.busid + "\"> at " + other.busid +
                                 " too, or at neither");
    return false;
  }

  void store(NodeType type, int place) {
    for (const NodeType from : from_) {
      const auto& nodes = graph_.of(from);
      for (std::size_t i = 0; i < nodes.size(); ++i)
        paths_.at(from, static_cast<int>(i), type, place) = at(nodes[i]);
    }
  }

  Paths& paths_;
  const Graph& graph_;
  const std::span<const NodeType> from_;
  const bool devs_;
  const bool by_type_;
  const bool both_ways_;
  const bool nvb_;
  NodeIndex base_device_ = kNoNode;
  int longest_ = 1;
  std::vector<Path> found_;
  std::vector<bool> touched_;
  std::vector<bool> queued_;
  std::vector<NodeIndex> current_;
  std::vector<NodeIndex> next_;
  std::string error_;
};

// Changes the paths after the search: the decisions of ncclTopoComputePaths (P2P, network, P2C, PXN,
// GPUDirect) in NCCL's order. Each decision uses the paths as earlier decisions left them.
class Rerouter {
 public:
  Rerouter(Paths& paths, bool with_communicator)
      : paths_(paths),
        graph_(*paths.graph_),
        settings_(*paths.settings_),
        nccl_(settings_.nccl),
        communicator_(with_communicator),
        gpus_(graph_.count(NodeType::kGpu)),
        nets_(graph_.count(NodeType::kNet)) {}

  bool run() {
    if (!findLocalCpus() || !allReachNets()) return false;
    findNetworkSpeeds();
    for (int g = 0; g < gpus_; ++g)
      if (!reroutePeersOf(g)) return false;
    markP2c();
    for (int n = 0; n < nets_; ++n) refreshNet(n);
    for (int g = 0; g < gpus_; ++g) refreshGpu(g);
    for (int n = 0; n < nets_; ++n)
      if (!rerouteNet(n)) return false;
    paths_.local_gpu_.resize(static_cast<std::size_t>(nets_), -1);
    for (int n = 0; n < nets_; ++n) paths_.local_gpu_[static_cast<std::size_t>(n)] = localGpu(n);
    return true;
  }

  const std::string& error() const { return error_; }

 private:
  Path& at(NodeType from, int i, NodeType to, int j) { return paths_.at(from, i, to, j); }
  const Node& gpu(int g) const { return graph_.of(NodeType::kGpu, g); }

  bool fail(const std::string& what) {
    error_ = what;
    return false;
  }

  PathType merged(PathType a, PathType b) const {  // mergePathType
    const PathType most = std::max(a, b);
    if (!nccl_.has(NcclRule::kP2cByCpus)) return most;
    return most == PathType::kPhb && std::min(a, b) == PathType::kC2c ? PathType::kP2c : most;
  }

  // addInterStep: from -> middle -> to.
  void goThrough(NodeType middle, int m, NodeType from, int f, NodeType to, int t) {
    const Path first = at(from, f, middle, m);
    const Path second = at(middle, m, to, t);
    int32_t cell = second.first;
    const auto links = paths_.links(first);
    for (std::size_t i = links.size(); i-- > 0;) {
      paths_.cells_.push_back({links[i], cell});
      cell = static_cast<int32_t>(paths_.cells_.size() - 1);
    }
    Path& path = at(from, f, to, t);
    path.first = cell;
    path.hops = static_cast<uint16_t>(first.hops + second.hops);
    path.type = middle == NodeType::kGpu ? PathType::kPxn : merged(first.type, second.type);
    path.bandwidth = std::min(first.bandwidth, second.bandwidth);
  }

  bool findLocalCpus() {  // ncclGetLocalCpu
    for (int g = 0; g < gpus_; ++g) {
      int best = -1;
      if (!nccl_.has(NcclRule::kNearestCpu)) {
        for (int c = 0; c < graph_.count(NodeType::kCpu); ++c) {
          const int hops = at(NodeType::kGpu, g, NodeType::kCpu, c).hops;
          if (hops > 0 && (best < 0 || hops < at(NodeType::kGpu, g, NodeType::kCpu, best).hops)) best = c;
        }
      } else {
        for (const int c : localNodes(paths_, NodeType::kGpu, g, NodeType::kCpu))
          if (best < 0 || at(NodeType::kGpu, g, NodeType::kCpu, c).hops <
                              at(NodeType::kGpu, g, NodeType::kCpu, best).hops)
            best = c;
      }
      if (best < 0)
        return fail("no path from the GPU at " + gpu(g).busid +
                    " to a CPU: NCCL fails its init; correct link_width of its <pci> and of those above it");
      paths_.local_cpu_.push_back(best);
    }
    return true;
  }

  // NCCL has no table of paths to NETs for a GPU that reaches none of them, and reads it nevertheless
  // (ncclTopoComputePaths).
  bool allReachNets() {
    for (int g = 0; g < gpus_ && nets_ > 0; ++g)
      if (!paths_.reaches(NodeType::kGpu, g, NodeType::kNet))
        return fail("rank " + std::to_string(gpu(g).rank) + " (" + gpu(g).busid +
                    ") reaches no NIC, but others of its NVLink domain do: NCCL crashes at its "
                    "init; give that host a NIC, or leave it out");
    return true;
  }

  void findNetworkSpeeds() {
    for (int g = 0; g < gpus_; ++g) network_speed_.push_back(nearNicBandwidth(paths_, g));
  }

  bool reroutePeersOf(int g) {
    for (int p = 0; p < gpus_; ++p) {
      const P2pDecision decision = decideP2p(paths_, p, g);
      if (decision.failed)
        return fail("the NVLink path from " + gpu(p).busid + " to " + gpu(g).busid +
                    " goes through a GPU that no rank uses: NCCL fails its init; give that GPU a rank");
      if (!decision.allowed)
        goThrough(NodeType::kCpu, paths_.localCpu(g), NodeType::kGpu, p, NodeType::kGpu, g);
    }
    for (int p = 0; p < gpus_; ++p) {
      if (p == g || connects(p, g)) continue;
      paths_.network_preferred_[static_cast<std::size_t>(p) * static_cast<std::size_t>(gpus_) +
                                static_cast<std::size_t>(g)] = true;
      if (communicator_) at(NodeType::kGpu, p, NodeType::kGpu, g).type = PathType::kNet;
    }
    return true;
  }

  bool networkIsFaster(int from, int to) {
    if (!nccl_.has(NcclRule::kNetworkInsideHost) || !networkAllowedInside(settings_, graph_.rccl()))
      return false;
    const float speed = at(NodeType::kGpu, from, NodeType::kGpu, to).bandwidth;
    return network_speed_[static_cast<std::size_t>(from)] > speed &&
           network_speed_[static_cast<std::size_t>(to)] > speed;
  }

  // Can the P2P transport or the shared memory transport connect two ranks (p2pCanConnect, shmCanConnect)?
  bool connects(int from, int to) {
    const P2pDecision decision = decideP2p(paths_, from, to);
    if (decision.allowed) return decision.intermediate_rank != -1 || !networkIsFaster(from, to);
    return settings_.shm_disable != 1 && !networkIsFaster(from, to) && gpu(from).host == gpu(to).host;
  }

  void markP2c() {
    for (int g = 0; g < gpus_ && nccl_.has(NcclRule::kP2c); ++g) {
      std::vector<int> nets;
      if (!nccl_.has(NcclRule::kP2cOfNearest)) {
        for (int n = 0; n < nets_; ++n) nets.push_back(n);
      } else {
        nets = localNodes(paths_, NodeType::kGpu, g, NodeType::kNet);
      }
      const int cpu = paths_.localCpu(g);
      for (const int n : nets) {
        if (!isP2c(g, n, cpu)) continue;
        for (Path* path :
             {&at(NodeType::kGpu, g, NodeType::kNet, n), &at(NodeType::kNet, n, NodeType::kGpu, g)})
          path->type = std::min(PathType::kP2c, path->type);
      }
    }
  }

  bool isP2c(int g, int n, int cpu) {
    const PathType to_cpu = at(NodeType::kGpu, g, NodeType::kCpu, cpu).type;
    if (!nccl_.has(NcclRule::kP2cByCpus))
      return to_cpu == PathType::kC2c && at(NodeType::kGpu, g, NodeType::kNet, n).type == PathType::kPhb;
    return merged(to_cpu, at(NodeType::kNet, n, NodeType::kCpu, cpu).type) == PathType::kP2c;
  }

  void refreshGpu(int g) {
    paths_.local_nets_.resize(static_cast<std::size_t>(gpus_));
    paths_.local_nets_[static_cast<std::size_t>(g)] = localNodes(paths_, NodeType::kGpu, g, NodeType::kNet);
  }

  void refreshNet(int n) {
    net_gpus_.resize(static_cast<std::size_t>(nets_));
    paths_.local_gpu_count_.resize(static_cast<std::size_t>(nets_));
    net_gpus_[static_cast<std::size_t>(n)] = localNodes(paths_, NodeType::kNet, n, NodeType::kGpu);
    paths_.local_gpu_count_[static_cast<std::size_t>(n)] =
        static_cast<int>(net_gpus_[static_cast<std::size_t>(n)].size());
  }

  // ncclTopoGetLocalGpu: the first of the GPUs nearest to the NET that chooses this NET on some channel.
  int localGpu(int net) {
    const int64_t id = graph_.of(NodeType::kNet, net).id;
    const auto& nearest = net_gpus_[static_cast<std::size_t>(net)];
    for (int channel = 0; channel < kMaxChannels; ++channel)
      for (const int g : nearest) {
        const auto& nets = paths_.localNets(g);
        const int sharers = nets.empty() ? 0 : paths_.localGpuCount(nets[0]);
        const int picked = pickLocalNet(graph_, settings_, g, nets, sharers, channel);
        if (picked >= 0 && graph_.of(NodeType::kNet, picked).id == id) return g;
      }
    return -1;
  }

  bool rerouteNet(int n) {
    int local = localGpu(n);
    for (int g = 0; g < gpus_; ++g) {
      bool changed = false;
      if (settings_.pxn_disable != 1 && local != g && local != -1) {
        const GdrDecision gdr = decideGdr(paths_, local, n, true);
        if (gdr.failed) return failProxy(local, n);
        if ((gdr.mode != GdrMode::kOff || !nccl_.has(NcclRule::kRelayNeedsGpuDirect)) &&
            relayHelps(local, g, n)) {
          goThrough(NodeType::kGpu, local, NodeType::kGpu, g, NodeType::kNet, n);
          changed = true;
        }
      }
      if (at(NodeType::kGpu, g, NodeType::kNet, n).type < PathType::kPhb) {
        const GdrDecision gdr = decideGdr(paths_, g, n, false);
        if (gdr.failed) return failProxy(g, n);
        if (gdr.mode == GdrMode::kOff) {
          const int cpu = paths_.localCpu(g);
          goThrough(NodeType::kCpu, cpu, NodeType::kNet, n, NodeType::kGpu, g);
          goThrough(NodeType::kCpu, cpu, NodeType::kGpu, g, NodeType::kNet, n);
          refreshNet(n);
          changed = true;
        }
      }
      if (!changed) continue;
      refreshGpu(g);
      local = localGpu(n);
    }
    return true;
  }

  bool relayHelps(int relay, int g, int n) {
    const PathType level = settings_.pxn_c2c != 0 ? PathType::kP2c : PathType::kPxb;
    const Path& near = at(NodeType::kGpu, relay, NodeType::kNet, n);
    const Path& own = at(NodeType::kGpu, g, NodeType::kNet, n);
    const PathType without = nccl_.has(NcclRule::kRelayBeyondPxn) ? PathType::kPxn
                             : nccl_.has(NcclRule::kP2cByCpus)    ? level
                                                                  : PathType::kPxb;
    return near.type <= level && at(NodeType::kGpu, relay, NodeType::kGpu, g).type <= PathType::kNvl &&
           gpu(relay).host == gpu(g).host && (near.bandwidth > own.bandwidth || own.type > without);
  }

  bool failProxy(int g, int n) {
    return fail("no rank uses the GPU that relays from " + gpu(g).busid + " to " +
                graph_.label(graph_.of(NodeType::kNet)[static_cast<std::size_t>(n)]) +
                ": NCCL fails its init; give that GPU a rank");
  }

  Paths& paths_;
  const Graph& graph_;
  const Settings& settings_;
  const NcclVersion nccl_;
  const bool communicator_;
  const int gpus_;
  const int nets_;
  std::vector<float> network_speed_;
  std::vector<std::vector<int>> net_gpus_;
  std::string error_;
};

Outcome<Paths> Paths::compute(const Graph& graph, const Settings& settings, const Options& options) {
  // Of each list the first types always, the last ones only for the search of rings and trees.
  static constexpr std::array kFrom = {NodeType::kGpu, NodeType::kNet, NodeType::kCpu, NodeType::kDev,
                                       NodeType::kNvs};
  static constexpr std::array kTo = {NodeType::kCpu, NodeType::kGpu, NodeType::kNet, NodeType::kDev,
                                     NodeType::kNvs};
  const auto from_types = std::span(kFrom).first(options.for_search ? 5 : 4);
  const auto to_types = std::span(kTo).first(options.for_search ? 5 : 3);
  Paths paths;
  paths.graph_ = &graph;
  paths.settings_ = &settings;
  for (const NodeType from : from_types)
    for (const NodeType to : to_types)
      paths.table(from, to).resize(static_cast<std::size_t>(graph.count(from)) *
                                   static_cast<std::size_t>(graph.count(to)));
  const auto gpus = static_cast<std::size_t>(graph.count(NodeType::kGpu));
  paths.network_preferred_.resize(gpus * gpus);

  for (const NodeIndex gpu : graph.of(NodeType::kGpu))
    paths.first_of_rank_.push_back(graph.gpuOfRank(graph.node(gpu).rank));
  for (const NodeIndex net : graph.of(NodeType::kNet))
    paths.first_of_id_.push_back(graph.indexOf(NodeType::kNet, graph.node(net).id));

  PathFinder finder(paths, graph, settings, from_types);
  for (const NodeType type : to_types)
    if (!finder.run(type)) return Error{finder.error()};
  Rerouter rerouter(paths, options.with_communicator);
  if (!rerouter.run()) return Error{rerouter.error()};
  return paths;
}

}  // namespace railwise::topo
