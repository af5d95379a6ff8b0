#include "gpu/choose/nic_match.h"

#include <algorithm>
#include <cstddef>
#include <deque>
#include <limits>

namespace railwise::gpu {
namespace {

constexpr NicCost kWithout = {1, 0, 0};
constexpr NicCost kInfinite = {std::numeric_limits<int64_t>::max() / 4, 0, 0};

NicCost costOf(const NicEdge& edge) { return {0, edge.nearness, -edge.mbps}; }

// A flow from a source over quotas, GPUs and NICs to a sink. Each unit is one chosen GPU.
class QuotaFlow {
 public:
  QuotaFlow(const std::vector<std::vector<NicEdge>>& edges, int nics, const std::vector<Quota>& quotas)
      : first_gpu_(2 + static_cast<int>(quotas.size())), heads_(2 + quotas.size(), -1) {
    for (const Quota& quota : quotas) gpus_.insert(gpus_.end(), quota.gpus.begin(), quota.gpus.end());
    std::sort(gpus_.begin(), gpus_.end());
    entry_.resize(gpus_.size());
    quota_.resize(gpus_.size());
    const int first_nic = first_gpu_ + static_cast<int>(gpus_.size());
    first_nic_ = first_nic;
    heads_.resize(static_cast<std::size_t>(first_nic + nics), -1);
    for (std::size_t q = 0; q < quotas.size(); ++q) {
      const int node = 2 + static_cast<int>(q);
      add(kSource, node, quotas[q].wanted, {});
      wanted_ += quotas[q].wanted;
      missing_ += quotas[q].wanted;
      for (const int gpu : quotas[q].gpus) {
        const auto at =
            static_cast<std::size_t>(std::lower_bound(gpus_.begin(), gpus_.end(), gpu) - gpus_.begin());
        entry_[at] = add(node, nodeOf(at), 1, {});
        quota_[at] = node;
      }
    }
    for (std::size_t at = 0; at < gpus_.size(); ++at) {
      for (const NicEdge& edge : edges[static_cast<std::size_t>(gpus_[at])])
        add(nodeOf(at), first_nic + edge.nic, 1, costOf(edge));
      add(nodeOf(at), kSink, 1, kWithout);
    }
    for (int nic = 0; nic < nics; ++nic) add(first_nic + nic, kSink, 1, {});
  }

  NicMatch solve() {
    while (wanted_ > 0 && augment()) {
    }
    preferLowIndices();
    return answer();
  }

 private:
  static constexpr int kSource = 0;
  static constexpr int kSink = 1;
  struct Arc {
    int to;
    int capacity;
    NicCost cost;
    int next;
  };

  int nodeOf(std::size_t gpu_at) const { return first_gpu_ + static_cast<int>(gpu_at); }
  Arc& arc(int i) { return arcs_[static_cast<std::size_t>(i)]; }
  const Arc& arc(int i) const { return arcs_[static_cast<std::size_t>(i)]; }
  int& head(int node) { return heads_[static_cast<std::size_t>(node)]; }

  // The arc's number; the arc back is the next number.
  int add(int from, int to, int capacity, NicCost cost) {
    arcs_.push_back({to, capacity, cost, head(from)});
    head(from) = static_cast<int>(arcs_.size()) - 1;
    arcs_.push_back({from, 0, NicCost{} - cost, head(to)});
    head(to) = static_cast<int>(arcs_.size()) - 1;
    return static_cast<int>(arcs_.size()) - 2;
  }

  void push(int i) {
    --arc(i).capacity;
    ++arc(i ^ 1).capacity;
  }

  // Bellman and Ford with a queue: costs from the nodes in the queue, whose costs are set.
  void relax(std::deque<int> queue) {
    std::vector<bool> queued(heads_.size());
    for (const int node : queue) queued[static_cast<std::size_t>(node)] = true;
    while (!queue.empty()) {
      const int node = queue.front();
      queue.pop_front();
      queued[static_cast<std::size_t>(node)] = false;
      for (int i = head(node); i >= 0; i = arc(i).next) {
        if (arc(i).capacity == 0) continue;
        const auto to = static_cast<std::size_t>(arc(i).to);
        const NicCost cost = costs_[static_cast<std::size_t>(node)] + arc(i).cost;
        if (cost >= costs_[to]) continue;
        costs_[to] = cost;
        by_[to] = i;
        if (!queued[to]) queue.push_back(arc(i).to);
        queued[to] = true;
      }
    }
  }

  // Finds the cost of the cheapest path to the sink and sends units by paths of that cost until there is none
  // left. There are as many rounds as different costs, which are few, however many GPUs there are.
  bool augment() {
    costs_.assign(heads_.size(), kInfinite);
    by_.assign(heads_.size(), -1);
    costs_[kSource] = {};
    relax({kSource});
    if (by_[kSink] < 0) return false;
    do {
      seen_.assign(heads_.size(), false);
    } while (wanted_ > 0 && send(kSource));
    return true;
  }

  // One unit from the node to the sink, by a path of the least cost.
  bool send(int node) {
    if (node == kSink) {
      --wanted_;
      return true;
    }
    seen_[static_cast<std::size_t>(node)] = true;
    for (int i = head(node); i >= 0; i = arc(i).next) {
      if (!isFree(i) || seen_[static_cast<std::size_t>(arc(i).to)] || !send(arc(i).to)) continue;
      push(i);
      return true;
    }
    return false;
  }

  // Sets of the least cost differ by cycles without cost in the residual graph. From the lowest GPU up: takes
  // the GPU in by such a cycle where there is one, and then never gives it up.
  void preferLowIndices() {
    std::deque<int> all;
    for (std::size_t node = 0; node < heads_.size(); ++node) all.push_back(static_cast<int>(node));
    costs_.assign(heads_.size(), NicCost{});
    by_.assign(heads_.size(), -1);
    relax(std::move(all));  // from now on no residual arc has a negative reduced cost
    chosen_.assign(gpus_.size(), false);
    for (std::size_t at = 0; at < gpus_.size() && missing_ > 0; ++at) {
      const int entry = entry_[at];
      chosen_[at] = arc(entry).capacity == 0 || takeIn(at);
      missing_ -= chosen_[at] ? 1 : 0;
      arc(entry).capacity = 0;
      arc(entry ^ 1).capacity = 0;
    }
  }

  // Room is left on the arc, and by the costs from relax() it costs nothing.
  bool isFree(int i) const {
    const auto from = static_cast<std::size_t>(arc(i ^ 1).to);
    return arc(i).capacity > 0 && costs_[from] + arc(i).cost == costs_[static_cast<std::size_t>(arc(i).to)];
  }

  bool takeIn(std::size_t at) {
    if (!isFree(entry_[at])) return false;
    by_.assign(heads_.size(), -1);
    std::deque<int> queue = {nodeOf(at)};
    const int goal = quota_[at];
    while (!queue.empty() && by_[static_cast<std::size_t>(goal)] < 0) {
      const int node = queue.front();
      queue.pop_front();
      for (int i = head(node); i >= 0; i = arc(i).next) {
        const int to = arc(i).to;
        if (!isFree(i) || by_[static_cast<std::size_t>(to)] >= 0 || to == nodeOf(at)) continue;
        by_[static_cast<std::size_t>(to)] = i;
        queue.push_back(to);
      }
    }
    if (by_[static_cast<std::size_t>(goal)] < 0) return false;
    push(entry_[at]);
    for (int node = goal; node != nodeOf(at);) {
      const int i = by_[static_cast<std::size_t>(node)];
      push(i);
      node = arc(i ^ 1).to;
    }
    return true;
  }

  NicMatch answer() const {
    NicMatch match;
    for (std::size_t at = 0; at < gpus_.size(); ++at) {
      if (!chosen_[at]) continue;
      int nic = -1;
      for (int i = heads_[static_cast<std::size_t>(nodeOf(at))]; i >= 0; i = arc(i).next) {
        // Even arcs were added forward; one without capacity carries this GPU's unit.
        if (i % 2 != 0 || arc(i).capacity != 0) continue;
        match.cost = match.cost + arc(i).cost;
        if (arc(i).to != kSink) nic = arc(i).to - first_nic_;
      }
      match.gpus.push_back(gpus_[at]);
      match.nics.push_back(nic);
    }
    return match;
  }

  std::vector<int> gpus_;   // all of the quotas, ascending
  std::vector<int> entry_;  // of each GPU: the arc from its quota
  std::vector<int> quota_;  // of each GPU: the node of its quota
  int first_gpu_;
  int first_nic_ = 0;
  int wanted_ = 0;   // units that are not sent yet
  int missing_ = 0;  // GPUs that are not chosen for good yet
  std::vector<int> heads_;
  std::vector<Arc> arcs_;
  std::vector<NicCost> costs_;
  std::vector<int> by_;  // the arc by which a node was reached
  std::vector<bool> seen_;
  std::vector<bool> chosen_;
};

}  // namespace

// The Hungarian method with one column more for each GPU, which stands for "no NIC".
NicMatch matchNics(const std::vector<std::vector<NicEdge>>& edges, int nics, const std::vector<int>& gpus) {
  const std::size_t rows = gpus.size();
  const std::size_t columns = static_cast<std::size_t>(nics) + rows;
  std::vector<NicCost> costs(rows * columns, kWithout);
  for (std::size_t row = 0; row < rows; ++row)
    for (const NicEdge& edge : edges[static_cast<std::size_t>(gpus[row])]) {
      NicCost& cost = costs[row * columns + static_cast<std::size_t>(edge.nic)];
      cost = std::min(cost, costOf(edge));
    }
  std::vector<NicCost> row_price(rows + 1);
  std::vector<NicCost> column_price(columns + 1);
  std::vector<std::size_t> row_of(columns + 1, 0);  // 1-based; 0: free
  std::vector<std::size_t> before(columns + 1, 0);
  std::vector<NicCost> least;
  std::vector<bool> used;
  for (std::size_t row = 1; row <= rows; ++row) {
    row_of[0] = row;
    std::size_t column = 0;
    least.assign(columns + 1, kInfinite);
    used.assign(columns + 1, false);
    do {
      used[column] = true;
      const std::size_t from = row_of[column];
      NicCost delta = kInfinite;
      std::size_t next = 0;
      for (std::size_t to = 1; to <= columns; ++to) {
        if (used[to]) continue;
        const NicCost reduced = costs[(from - 1) * columns + to - 1] - row_price[from] - column_price[to];
        if (reduced < least[to]) {
          least[to] = reduced;
          before[to] = column;
        }
        if (least[to] < delta) {
          delta = least[to];
          next = to;
        }
      }
      for (std::size_t to = 0; to <= columns; ++to) {
        if (used[to]) {
          row_price[row_of[to]] = row_price[row_of[to]] + delta;
          column_price[to] = column_price[to] - delta;
        } else {
          least[to] = least[to] - delta;
        }
      }
      column = next;
    } while (row_of[column] != 0);
    for (; column != 0; column = before[column]) row_of[column] = row_of[before[column]];
  }
  NicMatch match{.cost = {}, .gpus = gpus, .nics = std::vector<int>(rows, -1)};
  for (std::size_t column = 1; column <= columns; ++column) {
    if (row_of[column] == 0) continue;
    const NicCost cost = costs[(row_of[column] - 1) * columns + column - 1];
    match.cost = match.cost + cost;
    if (cost.without == 0) match.nics[row_of[column] - 1] = static_cast<int>(column) - 1;
  }
  return match;
}

NicMatch matchQuotas(const std::vector<std::vector<NicEdge>>& edges, int nics,
                     const std::vector<Quota>& quotas) {
  return QuotaFlow(edges, nics, quotas).solve();
}

}  // namespace railwise::gpu
