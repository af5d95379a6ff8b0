// One attempt of the search: all channels that fit under given limits, by trying GPUs and NICs in depth
// first order, until the channels are perfect or the steps are spent (ncclTopoSearchRec). One thread at a
// time.
#pragma once

#include <string>
#include <vector>

#include "topo/search/candidates.h"
#include "topo/search/channel_graph.h"
#include "topo/search/links/remaining.h"
#include "topo/search/links/routes.h"
#include "topo/search/vain_attempts.h"

namespace railwise::topo {

// What the searches of all graphs of one communicator have in common.
struct SearchSpace {
  SearchSpace(const Paths& all_paths, bool network)
      : paths(all_paths),
        graph(all_paths.graph()),
        inter(network),
        routes(all_paths),
        candidates(all_paths),
        remaining(routes, graph) {}

  const Paths& paths;
  const Graph& graph;
  const bool inter;     // the network takes part
  std::string failure;  // why NCCL's init fails, and what helps after the last "; "; empty: it does not
  Routes routes;
  Candidates candidates;
  Remaining remaining;
};

// Why NCCL's init fails: no NIC for the GPU of that rank.
std::string noNicText(int rank);

class ChannelSearch {
 public:
  // As many channels as the limit allows were found: nothing is left to try.
  static constexpr int kPerfect = -1;

  // Searches under the limits of `current`, and copies into `best` each set of channels that is better than
  // `best`.
  ChannelSearch(SearchSpace& space, ChannelSet& current, ChannelSet& best);

  // Tries at most `steps` GPUs. Returns how many steps are left (0: it ran out of steps), or kPerfect.
  int run(int steps);
  const LimitsNoted& noted() const { return noted_; }

 private:
  // The first attempt of each search with the GPUs in the order of the list may take as many steps.
  static constexpr int kStepsOfListedOrder = 1 << 10;

  enum class Order { kFree, kAsListed, kAsLastChannel };
  // Where the current channel stands. Steps are positions in its order of GPUs.
  struct Stage {
    int step = 0;
    int net_step = -1;   // the GPU at this step returns to the network; -1: none
    int loop_step = -1;  // the GPU at this step closes the ring; -1: none
    Order order = Order::kFree;
    int* steps_left = nullptr;
  };

  // The functions that return bool return false if NCCL gives up this channel with an error, because a GPU
  // reaches no NIC. NCCL then gives nothing back of what it took, and neither do these functions.
  void nextChannel(int& steps_left);
  bool startAtGpus(Stage stage);
  bool startAtNets(const Stage& stage);
  bool startHead(int net, bool more_nets, const Stage& stage, bool& found);
  bool startChain(int net, const Stage& stage);
  bool enter(int net, int gpu, const Stage& stage);
  bool begin(int gpu, const Stage& stage);
  bool visit(int gpu, const Stage& stage);
  bool returnToNet(int gpu, const Stage& stage);
  bool goOn(int gpu, const Stage& stage);
  bool closeRing(int gpu, const Stage& stage);
  bool finish(int gpu, const Stage& stage);
  void complete(const Stage& stage);
  bool pullByAll(int head, const Stage& stage);
  bool scatterFrom(int head, const Stage& stage);
  template <typename Forth, typename Back>
  bool throughAll(int head, const Stage& stage, const Forth& forth, const Back& back, float times);

  // Walks a path and takes the bandwidth of a channel from its links, `times` over (negative: gives it back).
  // False: there is no path within the limits, or too little bandwidth.
  bool follow(NodeType from, int from_index, NodeType to, int to_index, float times, float share = 1);
  bool better();
  bool fits(int start, int net, int step);
  bool oneRail(const Node& from, const Node& to) const;
  bool failWithoutNet(int gpu);
  void failWithoutPath(NodeType from, int from_index, NodeType to, int to_index);
  std::string placeOf(const Node& net) const;
  const SearchLimits& limits() const { return current_.limits; }

  SearchSpace& space_;
  ChannelSet& current_;
  ChannelSet& best_;
  const int gpus_;
  const bool rails_;
  const bool errors_count_;
  std::vector<int> untried_;  // the GPUs to try, of all depths of the recursion
  LimitsNoted noted_;
};

}  // namespace railwise::topo
