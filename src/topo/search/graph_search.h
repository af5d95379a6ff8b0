// The search of one graph: attempt after attempt, each with other limits, until the channels cannot become
// better (ncclTopoCompute). One thread at a time.
#pragma once

#include <optional>
#include <vector>

#include "base/outcome.h"
#include "topo/paths/policy.h"
#include "topo/search/channel_graph.h"
#include "topo/search/channel_search.h"
#include "topo/search/vain_attempts.h"

namespace railwise::topo {

struct SearchTask {
  Algorithm algorithm = Algorithm::kRing;
  int min_channels = 1;
  int max_channels = 1;
  // The graph that a file describes. With channels it is the result; without, the search begins with its
  // types and pattern. None: there is no such file.
  std::optional<ChannelGraph> given;
};

class GraphSearch {
 public:
  // `trace` receives what was tried. Null: nobody asks.
  GraphSearch(SearchSpace& space, SearchBandwidth bandwidth, SearchTask task, GraphTrace* trace);

  // An error if NCCL's init fails: a GPU reaches no NIC.
  Outcome<ChannelGraph> run();

 private:
  void setTypes();
  void takeGiven();
  bool splitNvlink() const;
  void chooseFirstSpeed();
  int attempt(SearchMove move);
  int runAttempt(int steps);
  bool saturated() const { return best_.bandwidthInter() >= bandwidth_.gpu; }
  void firstPass();
  void endWith(SearchEnd end);
  bool relax(int steps_left, SearchMove& move);
  bool lowerSpeed();
  void doubleChannels();
  void secondPass();
  bool raise(SearchMove& move);
  Outcome<void> takeSimpleOrder();
  BlockedWalk findBlocked();
  ChannelGraph result() const;

  const Graph& graph() const { return space_.graph; }
  float speed() const { return speeds_[speed_]; }

  SearchSpace& space_;
  const SearchBandwidth bandwidth_;
  const SearchTask task_;
  GraphTrace* const trace_;
  const int gpus_;
  const int sm_;  // the lowest of all GPUs
  const std::vector<float> speeds_;
  std::size_t speed_ = 0;  // index in speeds_
  ChannelSet current_;     // under the limits of the next attempt
  ChannelSet best_;
  PathType min_intra_ = PathType::kLoc;
  PathType max_intra_ = PathType::kSys;
  PathType min_inter_ = PathType::kPix;
  PathType max_inter_ = PathType::kSys;
  int cross_nic_ = 0;  // what NCCL_CROSS_NIC permits for this graph
  long steps_left_ = 0;
  bool try_same_ = true;
  VainAttempts vain_;
  ChannelOrigin origin_ = ChannelOrigin::kSearch;
};

}  // namespace railwise::topo
