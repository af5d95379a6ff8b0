#include "gpu/choose/nodes.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "gpu/choose/ring.h"

namespace railwise::gpu {
namespace {

class NodeChooser {
 public:
  NodeChooser(const std::vector<NodeCandidate>& candidates, int count, int groups_available)
      : candidates_(candidates),
        count_(count),
        groups_available_(groups_available),
        best_first_(candidates.size()) {
    std::iota(best_first_.begin(), best_first_.end(), 0);
    std::stable_sort(best_first_.begin(), best_first_.end(),
                     [&](int a, int b) { return at(a).score.betterThan(at(b).score); });
  }

  std::optional<NodesAnswer> choose() {
    if (count_ < 1 || candidates_.size() < static_cast<std::size_t>(count_)) return std::nullopt;
    if (groups_available_ < 1) return answerOf({best_first_.begin(), best_first_.begin() + count_});
    // The worst node decides about intra. So each intra is tried as the least that counts: of the nodes above
    // it, the groups with most of them need the fewest groups.
    std::vector<double> levels;
    for (const NodeCandidate& candidate : candidates_) levels.push_back(candidate.intra);
    std::sort(levels.rbegin(), levels.rend());
    levels.erase(std::unique(levels.begin(), levels.end()), levels.end());
    std::optional<NodesAnswer> best;
    for (const double least : levels) {
      std::optional<NodesAnswer> answer = withAtLeast(least);
      if (answer && (!best || answer->total > best->total)) best = std::move(answer);
    }
    return best;
  }

 private:
  const NodeCandidate& at(int node) const { return candidates_[static_cast<std::size_t>(node)]; }

  std::optional<NodesAnswer> withAtLeast(double least) const {
    std::map<int, std::vector<int>> members;  // of each group, the best first
    for (const int node : best_first_)
      if (at(node).intra >= least) members[at(node).group].push_back(node);
    std::vector<const std::vector<int>*> groups;
    for (const auto& [group, nodes] : members) groups.push_back(&nodes);
    std::vector<int> nodes;
    for (auto left = static_cast<std::size_t>(count_); left > 0 && !groups.empty();) {
      // The largest group; but the last group that is needed only has to be large enough, so its nodes
      // decide.
      auto next = groups.begin();
      for (auto group = groups.begin(); group != groups.end(); ++group)
        if (const auto fit = std::min((*group)->size(), left), best = std::min((*next)->size(), left);
            fit > best || (fit == best && betterNodes(**group, **next, left)))
          next = group;
      const std::size_t taken = std::min(left, (*next)->size());
      nodes.insert(nodes.end(), (*next)->begin(), (*next)->begin() + static_cast<std::ptrdiff_t>(taken));
      left -= taken;
      groups.erase(next);
    }
    if (nodes.size() < static_cast<std::size_t>(count_)) return std::nullopt;
    return answerOf(std::move(nodes));
  }

  // Are the first `count` nodes of `a` better than those of `b`? Both begin with their best nodes.
  bool betterNodes(const std::vector<int>& a, const std::vector<int>& b, std::size_t count) const {
    for (std::size_t i = 0; i < std::min({count, a.size(), b.size()}); ++i) {
      const Score& mine = at(a[i]).score;
      const Score& other = at(b[i]).score;
      if (mine.betterThan(other)) return true;
      if (other.betterThan(mine)) return false;
    }
    return false;
  }

  NodesAnswer answerOf(std::vector<int> nodes) const {
    std::sort(nodes.begin(), nodes.end());
    NodesAnswer answer;
    answer.intra = 1;
    std::map<int, int> groups;
    for (const int node : nodes) {
      answer.intra = std::min(answer.intra, at(node).intra);
      if (at(node).group >= 0) ++groups[at(node).group];
    }
    answer.groups = static_cast<int>(groups.size());
    if (groups_available_ > 0) answer.inter = interFitness(answer.groups, groups_available_);
    answer.total = groups_available_ > 0
                       ? totalFitness(static_cast<int>(nodes.size()), answer.inter, answer.intra)
                       : answer.intra;
    answer.nodes = std::move(nodes);
    return answer;
  }

  const std::vector<NodeCandidate>& candidates_;
  const int count_;
  const int groups_available_;
  std::vector<int> best_first_;
};

}  // namespace

std::optional<NodesAnswer> chooseNodes(const std::vector<NodeCandidate>& candidates, int count,
                                       int groups_available) {
  return NodeChooser(candidates, count, groups_available).choose();
}

}  // namespace railwise::gpu
