// What becomes of the paths once they are found: the decisions of ncclTopoComputePaths, in its order, each
// made on the paths as they are by then. Used by compute.cc only.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "topo/graph/constants.h"
#include "topo/paths/decisions.h"
#include "topo/paths/paths.h"

namespace railwise::topo {

// What ncclTopoComputePaths does after the search: P2P, network, P2C, PXN, GPUDirect, in its order.
class Rerouter {
 public:
  Rerouter(Paths& paths, bool with_communicator)
      : paths_(paths),
        graph_(*paths.graph_),
        settings_(*paths.settings_),
        old_(settings_.nccl == NcclVersion::k2_28),
        communicator_(with_communicator),
        gpus_(graph_.count(NodeType::kGpu)),
        nets_(graph_.count(NodeType::kNet)) {}

  bool run() {
    if (!findLocalCpus()) return false;
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

  static PathType merged(PathType a, PathType b) {  // mergePathType
    const PathType most = std::max(a, b);
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
      if (old_) {
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
      if (best < 0) return fail("no path from the GPU at " + gpu(g).busid + " to a CPU; NCCL fails its init");
      paths_.local_cpu_.push_back(best);
    }
    return true;
  }

  // The fastest NIC of a GPU that the CPU is not in the way of (ncclTopoCheckNet).
  void findNetworkSpeeds() {
    for (int g = 0; g < gpus_; ++g) {
      float speed = 0;
      for (int n = 0; n < nets_; ++n) {
        const Path& path = at(NodeType::kGpu, g, NodeType::kNet, n);
        if (path.type <= PathType::kPxb) speed = std::max(speed, path.bandwidth);
      }
      network_speed_.push_back(speed);
    }
  }

  bool reroutePeersOf(int g) {
    for (int p = 0; p < gpus_; ++p) {
      const P2pDecision decision = decideP2p(paths_, p, g);
      if (decision.failed)
        return fail("the NVLink path from " + gpu(p).busid + " to " + gpu(g).busid +
                    " goes through a GPU that no rank uses; NCCL fails its init");
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
    const int disabled = settings_.net_disable_intra;
    if (disabled == 1 || (disabled == Settings::kUnset && graph_.rccl())) return false;
    const float speed = at(NodeType::kGpu, from, NodeType::kGpu, to).bandwidth;
    return network_speed_[static_cast<std::size_t>(from)] > speed &&
           network_speed_[static_cast<std::size_t>(to)] > speed;
  }

  // Whether the P2P or the shared memory transport joins two ranks (p2pCanConnect, shmCanConnect).
  bool connects(int from, int to) {
    const P2pDecision decision = decideP2p(paths_, from, to);
    if (decision.allowed) return decision.intermediate_rank != -1 || !networkIsFaster(from, to);
    return settings_.shm_disable != 1 && !networkIsFaster(from, to) && gpu(from).host == gpu(to).host;
  }

  void markP2c() {
    for (int g = 0; g < gpus_; ++g) {
      std::vector<int> nets;
      if (old_) {
        for (int n = 0; n < nets_; ++n) nets.push_back(n);
      } else {
        nets = localNodes(paths_, NodeType::kGpu, g, NodeType::kNet);
      }
      const int cpu = paths_.localCpu(g);
      for (const int n : nets) {
        if (merged(at(NodeType::kGpu, g, NodeType::kCpu, cpu).type,
                   at(NodeType::kNet, n, NodeType::kCpu, cpu).type) != PathType::kP2c)
          continue;
        for (Path* path :
             {&at(NodeType::kGpu, g, NodeType::kNet, n), &at(NodeType::kNet, n, NodeType::kGpu, g)})
          path->type = std::min(PathType::kP2c, path->type);
      }
    }
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

  // ncclTopoGetLocalGpu: the first of the NET's nearest GPUs that picks it on some channel.
  int localGpu(int net) {
    const int64_t id = graph_.of(NodeType::kNet, net).id;
    const auto& nearest = net_gpus_[static_cast<std::size_t>(net)];
    for (int channel = 0; channel < kMaxChannels; ++channel)
      for (const int g : nearest) {
        const auto& nets = paths_.localNets(g);
        const int sharers = nets.empty() ? 0 : paths_.localGpuCount(nets[0]);
        const int picked = pickLocalNet(settings_, gpu(g).dev, nets, sharers, channel);
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
        if ((gdr.mode != GdrMode::kOff || old_) && relayHelps(local, g, n)) {
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
    return near.type <= level && at(NodeType::kGpu, relay, NodeType::kGpu, g).type <= PathType::kNvl &&
           gpu(relay).host == gpu(g).host && (near.bandwidth > own.bandwidth || own.type > PathType::kPxn);
  }

  bool failProxy(int g, int n) {
    return fail("no rank uses the GPU that relays from " + gpu(g).busid + " to " +
                graph_.label(graph_.of(NodeType::kNet)[static_cast<std::size_t>(n)]) +
                "; NCCL fails its init");
  }

  Paths& paths_;
  const Graph& graph_;
  const Settings& settings_;
  const bool old_;
  const bool communicator_;
  const int gpus_;
  const int nets_;
  std::vector<float> network_speed_;
  std::vector<std::vector<int>> net_gpus_;
  std::string error_;
};

}  // namespace railwise::topo
