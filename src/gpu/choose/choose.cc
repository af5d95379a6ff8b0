#include "gpu/choose/choose.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <set>
#include <tuple>

#include "base/text/text_layout.h"
#include "base/text/words.h"
#include "gpu/choose/nic_match.h"

namespace railwise::gpu {
namespace {

constexpr std::size_t kMostExact = 10;
constexpr int64_t kNoRing = -1;

// Bandwidths between the members of the set, in MB/s.
class RingPairs {
 public:
  RingPairs(const std::vector<double>& pair_gb_per_s, int gpus, const std::vector<int>& set)
      : size_(set.size()) {
    for (const int a : set)
      for (const int b : set)
        mbps_.push_back(
            a == b ? 0
                   : std::llround(pair_gb_per_s[static_cast<std::size_t>(a) * static_cast<std::size_t>(gpus) +
                                                static_cast<std::size_t>(b)] *
                                  1000));
  }
  std::size_t size() const { return size_; }
  int64_t at(std::size_t a, std::size_t b) const { return mbps_[a * size_ + b]; }

 private:
  std::size_t size_;
  std::vector<int64_t> mbps_;
};

// The best ring in which no pair of neighbours is slower than `slowest`, by Held and Karp's table of (members
// that the ring has visited, the last of them). Empty: there is none.
std::vector<std::size_t> ringOf(const RingPairs& pairs, int64_t slowest) {
  const std::size_t size = pairs.size();
  const std::size_t all = (std::size_t{1} << size) - 1;
  std::vector<int64_t> rest((all + 1) * size,
                            kNoRing);  // the most bandwidth from there back to the first member
  const auto step = [&](std::size_t visited, std::size_t last, std::size_t next) {
    const std::size_t bit = std::size_t{1} << next;
    if ((visited & bit) != 0 || pairs.at(last, next) < slowest) return kNoRing;
    const int64_t behind = rest[(visited | bit) * size + next];
    return behind == kNoRing ? kNoRing : behind + pairs.at(last, next);
  };
  for (std::size_t visited = all; visited > 0; --visited)
    for (std::size_t last = 0; last < size; ++last) {
      int64_t& best = rest[visited * size + last];
      if (visited == all && pairs.at(last, 0) >= slowest) best = pairs.at(last, 0);
      for (std::size_t next = 1; next < size; ++next) best = std::max(best, step(visited, last, next));
    }
  std::vector<std::size_t> order = {0};
  std::size_t visited = 1;
  if (rest[size] == kNoRing) return {};
  while (order.size() < size) {
    const std::size_t last = order.back();
    std::size_t next = 1;
    while (step(visited, last, next) == kNoRing || step(visited, last, next) != rest[visited * size + last])
      ++next;
    order.push_back(next);
    visited |= std::size_t{1} << next;
  }
  return order;
}

std::vector<std::size_t> exactRing(const RingPairs& pairs) {
  std::set<int64_t, std::greater<>> values;
  for (std::size_t a = 0; a < pairs.size(); ++a)
    for (std::size_t b = 0; b < a; ++b) values.insert(pairs.at(a, b));
  for (const int64_t slowest : values)
    if (auto order = ringOf(pairs, slowest); !order.empty()) return order;
  return {};  // not reached: the slowest value allows every ring
}

std::vector<std::size_t> greedyRing(const RingPairs& pairs) {
  std::vector<std::size_t> order = {0};
  std::vector<bool> used(pairs.size());
  used[0] = true;
  while (order.size() < pairs.size()) {
    std::size_t best = pairs.size();
    for (std::size_t next = 0; next < pairs.size(); ++next)
      if (!used[next] &&
          (best == pairs.size() || pairs.at(order.back(), next) > pairs.at(order.back(), best)))
        best = next;
    used[best] = true;
    order.push_back(best);
  }
  return order;
}

}  // namespace

std::vector<int> ringOrder(const std::vector<double>& pair_gb_per_s, int gpus, std::vector<int> set) {
  std::sort(set.begin(), set.end());
  if (set.size() < 3) return set;
  const RingPairs pairs(pair_gb_per_s, gpus, set);
  std::vector<int> order;
  for (const std::size_t at : set.size() <= kMostExact ? exactRing(pairs) : greedyRing(pairs))
    order.push_back(set[at]);
  return order;
}

double intraFitness(const std::vector<double>& pair_gb_per_s, int gpus, const std::vector<int>& set) {
  if (set.size() < 2) return 1;
  const auto n = static_cast<std::size_t>(gpus);
  double slowest = std::numeric_limits<double>::max();
  double fastest = 0;
  for (std::size_t a = 0; a < n; ++a)
    for (std::size_t b = a + 1; b < n; ++b) fastest = std::max(fastest, pair_gb_per_s[a * n + b]);
  for (const int a : set)
    for (const int b : set)
      if (a != b)
        slowest =
            std::min(slowest, pair_gb_per_s[static_cast<std::size_t>(a) * n + static_cast<std::size_t>(b)]);
  return fastest > 0 ? slowest / fastest : 0;
}

double interFitness(int groups_needed, int groups_available) {
  return groups_available > 0 ? 1 - static_cast<double>(groups_needed) / groups_available : 0;
}

double totalFitness(int hosts, double inter, double intra) {
  return hosts > 1 ? kInterWeight * inter + (1 - kInterWeight) * intra : intra;
}

namespace {

constexpr int64_t kNoPair = std::numeric_limits<int64_t>::max();
// Steps of the search over classes, and sets whose NICs are matched, before it stops: about a second.
constexpr int kMaxSteps = 1000000;
constexpr int kMaxMatches = 2000;

int64_t toMbps(double gb_per_s) { return std::llround(gb_per_s * 1000); }

struct Links {
  int64_t slowest = kNoPair;
  int64_t sum = 0;

  auto key() const { return std::tuple(slowest == kNoPair ? 0 : slowest, sum); }
};

// The question in whole numbers.
struct Problem {
  std::size_t gpus = 0;
  std::vector<int64_t> pairs;
  std::vector<std::vector<NicEdge>> nics;
  std::vector<int> nic_names;
  std::vector<int> usable;  // ascending
  std::vector<int> numa;    // of each GPU; empty: it does not count

  int64_t pair(int a, int b) const {
    return pairs[static_cast<std::size_t>(a) * gpus + static_cast<std::size_t>(b)];
  }
  int nicCount() const { return static_cast<int>(nic_names.size()); }
};

std::string checkNumbers(const ChoiceQuestion& question) {
  const auto n = static_cast<std::size_t>(std::max(question.gpus, 0));
  if (question.pair_gb_per_s.size() != n * n)
    return "the matrix of bandwidths has " + std::to_string(question.pair_gb_per_s.size()) +
           " numbers, not " + std::to_string(n) + " x " + std::to_string(n);
  constexpr double kMost = 1e6;  // GB/s; far above any link, and sums of it stay within 64 bits
  const auto bad = [](double value) { return !std::isfinite(value) || value < 0 || value > kMost; };
  const auto pair = [](std::size_t a, std::size_t b) {
    return "the bandwidth between GPU " + std::to_string(a) + " and GPU " + std::to_string(b);
  };
  for (std::size_t a = 0; a < n; ++a)
    for (std::size_t b = 0; b < n; ++b) {
      const double there = question.pair_gb_per_s[a * n + b];
      const double back = question.pair_gb_per_s[b * n + a];
      if (a != b && bad(there)) return pair(a, b) + " is no number of GB/s";
      if (a != b && there != back && toMbps(there) != toMbps(back))
        return pair(a, b) + " depends on the direction";
    }
  if (!question.nics.empty() && question.nics.size() != n)
    return "the NICs of " + std::to_string(question.nics.size()) + " GPUs are given, not of " +
           std::to_string(n);
  for (const auto& list : question.nics)
    for (const NicCandidate& nic : list)
      if (nic.nic < 0 || nic.nearness < 0 || bad(nic.gb_per_s))
        return "a NIC has a negative number or rank, or no bandwidth";
  if (!question.numa.empty() && question.numa.size() != n)
    return "the NUMA nodes of " + std::to_string(question.numa.size()) + " GPUs are given, not of " +
           std::to_string(n);
  for (const auto* list :
       {question.allowed ? &*question.allowed : nullptr, &question.excluded, &question.occupied})
    for (const int gpu : list == nullptr ? std::vector<int>() : *list)
      if (gpu < 0 || gpu >= question.gpus)
        return "there is no GPU " + std::to_string(gpu) + ": there are " + std::to_string(question.gpus);
  return "";
}

Problem problemOf(const ChoiceQuestion& question) {
  Problem problem;
  problem.gpus = static_cast<std::size_t>(question.gpus);
  for (const double value : question.pair_gb_per_s)
    problem.pairs.push_back(std::isfinite(value) ? toMbps(value) : 0);
  std::vector<bool> usable(problem.gpus, !question.allowed);
  if (question.allowed)
    for (const int gpu : *question.allowed) usable[static_cast<std::size_t>(gpu)] = true;
  for (const auto* list : {&question.excluded, &question.occupied})
    for (const int gpu : *list) usable[static_cast<std::size_t>(gpu)] = false;
  std::map<int, int> number_of;
  problem.nics.resize(problem.gpus);
  for (std::size_t gpu = 0; gpu < problem.gpus; ++gpu) {
    if (!usable[gpu]) continue;
    problem.usable.push_back(static_cast<int>(gpu));
    if (question.nics.empty()) continue;
    for (const NicCandidate& nic : question.nics[gpu]) {
      const auto [at, is_new] = number_of.try_emplace(nic.nic, problem.nicCount());
      if (is_new) problem.nic_names.push_back(nic.nic);
      problem.nics[gpu].push_back({at->second, nic.nearness, toMbps(nic.gb_per_s)});
    }
  }
  // GPUs of one class may be on several nodes.
  if (problem.usable.size() <= static_cast<std::size_t>(question.exhaustive_up_to))
    problem.numa = question.numa;
  return problem;
}

// The two best scores so far, with the first set (by number) of each.
class Podium {
 public:
  explicit Podium(const Problem& problem) : problem_(problem) {}

  // A set with these links cannot change the answer.
  bool isBehind(const Links& links) const { return second_ && links.key() < linksOf(*second_); }

  void offer(const Links& links, const NicMatch& match, double sets) {
    GpuSet set = setOf(links, match);
    if (!best_ || set.score.betterThan(best_->score)) {
      second_ = std::move(best_);
      best_ = std::move(set);
      best_sets_ = sets;
    } else if (set.score == best_->score) {
      if (set.gpus == best_->gpus) return;
      best_sets_ += sets;
      if (set.gpus < best_->gpus) best_ = std::move(set);
    } else if (!second_ || set.score.betterThan(second_->score) ||
               (set.score == second_->score && set.gpus < second_->gpus)) {
      second_ = std::move(set);
    }
  }

  ChoiceAnswer answer() const {
    ChoiceAnswer answer;
    answer.best = *best_;
    answer.second = second_;
    answer.equally_good = best_sets_ - 1;
    return answer;
  }

 private:
  static std::tuple<int64_t, int64_t> linksOf(const GpuSet& set) {
    return {set.score.slowest_pair_mbps, set.score.all_pairs_mbps};
  }

  GpuSet setOf(const Links& links, const NicMatch& match) const {
    GpuSet set{.gpus = match.gpus, .nics = match.nics, .score = {}};
    for (int& nic : set.nics) nic = nic < 0 ? -1 : problem_.nic_names[static_cast<std::size_t>(nic)];
    set.score.slowest_pair_mbps = links.slowest == kNoPair ? 0 : links.slowest;
    set.score.all_pairs_mbps = links.sum;
    set.score.with_nic = static_cast<int>(static_cast<int64_t>(match.gpus.size()) - match.cost.without);
    set.score.nearness_sum = match.cost.nearness;
    set.score.nic_mbps = -match.cost.minus_mbps;
    std::set<int> nodes;
    if (!problem_.numa.empty())
      for (const int gpu : set.gpus) nodes.insert(problem_.numa[static_cast<std::size_t>(gpu)]);
    set.score.numa_nodes = static_cast<int>(nodes.size());
    return set;
  }

  const Problem& problem_;
  std::optional<GpuSet> best_;
  std::optional<GpuSet> second_;
  double best_sets_ = 0;
};

// Every set, in the order of rule e.
class EverySet {
 public:
  EverySet(const Problem& problem, int count)
      : problem_(problem), count_(static_cast<std::size_t>(count)), podium_(problem) {}

  ChoiceAnswer run() {
    extend(0, {});
    return podium_.answer();
  }

 private:
  void extend(std::size_t from, const Links& links) {
    if (podium_.isBehind({links.slowest, std::numeric_limits<int64_t>::max()}) && links.slowest != kNoPair)
      return;
    if (set_.size() == count_) {
      if (podium_.isBehind(links)) return;
      podium_.offer(links, matchNics(problem_.nics, problem_.nicCount(), set_), 1);
      return;
    }
    const std::size_t missing = count_ - set_.size();
    for (std::size_t at = from; at + missing <= problem_.usable.size(); ++at) {
      Links more = links;
      const int gpu = problem_.usable[at];
      for (const int other : set_) {
        more.slowest = std::min(more.slowest, problem_.pair(gpu, other));
        more.sum += problem_.pair(gpu, other);
      }
      set_.push_back(gpu);
      extend(at + 1, more);
      set_.pop_back();
    }
  }

  const Problem& problem_;
  const std::size_t count_;
  Podium podium_;
  std::vector<int> set_;
};

// Branch and bound over how many GPUs of each class are taken. GPUs are of one class when their bandwidths to
// all others are equal; a set's links then depend on these counts only.
class EveryCount {
 public:
  EveryCount(const Problem& problem, int count) : problem_(problem), count_(count), podium_(problem) {
    for (const int gpu : problem.usable) {
      const auto alike = std::find_if(classes_.begin(), classes_.end(),
                                      [&](const Quota& known) { return areAlike(known.gpus[0], gpu); });
      if (alike == classes_.end()) {
        classes_.push_back({{gpu}, 0});
      } else {
        alike->gpus.push_back(gpu);
      }
    }
    left_.assign(classes_.size() + 1, 0);
    most_.assign(classes_.size() + 1, 0);
    for (std::size_t at = classes_.size(); at-- > 0;) {
      left_[at] = left_[at + 1] + sizeOf(at);
      most_[at] = std::max(most_[at + 1], sizeOf(at) > 1 ? within(at) : 0);
      for (std::size_t other = at + 1; other < classes_.size(); ++other)
        most_[at] = std::max(most_[at], between(at, other));
    }
  }

  ChoiceAnswer run() {
    if (classes_.size() > 1) takeGreedily();
    extend(0, count_, {}, std::vector<int64_t>(classes_.size(), 0));
    ChoiceAnswer answer = podium_.answer();
    answer.exact = !gave_up_;
    const bool only_one = count_ == left_[0];
    if (gave_up_ || !(only_one || nicsAreAlike())) answer.equally_good.reset();
    return answer;
  }

 private:
  bool areAlike(int a, int b) const {
    return std::all_of(problem_.usable.begin(), problem_.usable.end(), [&](int other) {
      return other == a || other == b || problem_.pair(a, other) == problem_.pair(b, other);
    });
  }
  int sizeOf(std::size_t at) const { return static_cast<int>(classes_[at].gpus.size()); }
  int64_t within(std::size_t at) const { return problem_.pair(classes_[at].gpus[0], classes_[at].gpus[1]); }
  int64_t between(std::size_t a, std::size_t b) const {
    return problem_.pair(classes_[a].gpus[0], classes_[b].gpus[0]);
  }

  // `to_taken`: for each class, the bandwidth of one of its GPUs to all that are taken.
  Links taking(std::size_t at, int count, Links links, const std::vector<int64_t>& to_taken) const {
    if (count == 0) return links;
    const auto many = static_cast<int64_t>(count);
    if (count > 1) {
      links.slowest = std::min(links.slowest, within(at));
      links.sum += many * (many - 1) / 2 * within(at);
    }
    for (std::size_t other = 0; other < classes_.size(); ++other)
      if (other != at && classes_[other].wanted > 0)
        links.slowest = std::min(links.slowest, between(at, other));
    links.sum += many * to_taken[at];
    return links;
  }

  std::vector<int64_t> afterTaking(std::size_t at, int count, std::vector<int64_t> to_taken) const {
    for (std::size_t other = 0; other < classes_.size() && count > 0; ++other)
      if (other != at || sizeOf(at) > 1)
        to_taken[other] += static_cast<int64_t>(count) * (other == at ? within(at) : between(at, other));
    return to_taken;
  }

  // The most that a set can still reach with `missing` GPUs of the classes from `at` on.
  Links bound(std::size_t at, int missing, Links links, const std::vector<int64_t>& to_taken) const {
    int64_t most = 0;
    for (std::size_t other = at; other < classes_.size(); ++other) most = std::max(most, to_taken[other]);
    const auto many = static_cast<int64_t>(missing);
    links.sum += many * most + many * (many - 1) / 2 * most_[at];
    return links;
  }

  void extend(std::size_t at, int missing, const Links& links, const std::vector<int64_t>& to_taken) {
    if (gave_up_) return;
    if (++steps_ > kMaxSteps || matches_ > kMaxMatches) {
      gave_up_ = true;
      return;
    }
    if (missing == 0) return counts() == greedy_ ? void() : offer(links);
    if (links.slowest != kNoPair && podium_.isBehind(bound(at, missing, links, to_taken))) return;
    for (int count = std::min(missing, sizeOf(at)); count >= 0 && missing - count <= left_[at + 1]; --count) {
      const Links more = taking(at, count, links, to_taken);
      classes_[at].wanted = count;
      extend(at + 1, missing - count, more, afterTaking(at, count, to_taken));
      classes_[at].wanted = 0;
    }
  }

  std::vector<int> counts() const {
    std::vector<int> counts;
    for (const Quota& quota : classes_) counts.push_back(quota.wanted);
    return counts;
  }

  void offer(const Links& links) {
    if (podium_.isBehind(links)) return;
    ++matches_;
    double sets = 1;
    for (const Quota& quota : classes_)
      for (int i = 0; i < quota.wanted; ++i)
        sets *= static_cast<double>(quota.gpus.size() - static_cast<std::size_t>(i)) / (i + 1);
    podium_.offer(links, matchQuotas(problem_.nics, problem_.nicCount(), classes_), std::round(sets));
  }

  // From each class: always the next GPU that leaves the best links. A first answer, good enough to cut the
  // search short, and the whole answer where the search gives up.
  void takeGreedily() {
    std::optional<Links> best;
    for (std::size_t start = 0; start < classes_.size(); ++start) {
      Links links;
      std::vector<int64_t> to_taken(classes_.size(), 0);
      std::size_t next = start;
      for (int taken = 0; taken < count_; ++taken) {
        if (taken > 0) next = bestNext(links, to_taken);
        links = addingOne(next, links, to_taken);
        to_taken = afterTaking(next, 1, to_taken);
        ++classes_[next].wanted;
      }
      if (!best || links.key() > best->key()) {
        best = links;
        greedy_ = counts();
      }
      for (Quota& quota : classes_) quota.wanted = 0;
    }
    for (std::size_t at = 0; at < classes_.size(); ++at) classes_[at].wanted = greedy_[at];
    offer(*best);
    for (Quota& quota : classes_) quota.wanted = 0;
  }

  Links addingOne(std::size_t at, Links links, const std::vector<int64_t>& to_taken) const {
    if (classes_[at].wanted > 0) links.slowest = std::min(links.slowest, within(at));
    return taking(at, 1, links, to_taken);
  }

  std::size_t bestNext(const Links& links, const std::vector<int64_t>& to_taken) const {
    std::optional<std::size_t> best;
    Links best_links;
    for (std::size_t at = 0; at < classes_.size(); ++at) {
      if (classes_[at].wanted == sizeOf(at)) continue;
      const Links more = addingOne(at, links, to_taken);
      if (best && more.key() <= best_links.key()) continue;
      best = at;
      best_links = more;
    }
    return *best;
  }

  // GPUs of one class can change places without changing a set's NICs: each has NICs that no other GPU uses,
  // of one kind, or all have the same NICs. Then all sets with equal counts are equally good.
  bool nicsAreAlike() const {
    std::vector<int> users(problem_.nic_names.size(), 0);
    for (const int gpu : problem_.usable)
      for (const NicEdge& edge : nicsOf(gpu)) ++users[static_cast<std::size_t>(edge.nic)];
    const auto row = [&](int gpu, bool with_name) {
      std::vector<std::tuple<int64_t, int64_t, int>> kinds;
      for (const NicEdge& edge : nicsOf(gpu))
        kinds.emplace_back(edge.nearness, edge.mbps, with_name ? edge.nic : -1);
      std::sort(kinds.begin(), kinds.end());
      return kinds;
    };
    const auto own = [&](int gpu) {
      return std::all_of(nicsOf(gpu).begin(), nicsOf(gpu).end(),
                         [&](const NicEdge& edge) { return users[static_cast<std::size_t>(edge.nic)] == 1; });
    };
    return std::all_of(classes_.begin(), classes_.end(), [&](const Quota& quota) {
      const int first = quota.gpus[0];
      return std::all_of(quota.gpus.begin(), quota.gpus.end(), [&](int gpu) {
        return row(gpu, true) == row(first, true) ||
               (own(gpu) && own(first) && row(gpu, false) == row(first, false));
      });
    });
  }
  const std::vector<NicEdge>& nicsOf(int gpu) const { return problem_.nics[static_cast<std::size_t>(gpu)]; }

  const Problem& problem_;
  const int count_;
  Podium podium_;
  std::vector<Quota> classes_;  // by their first GPU; `wanted` is what the search takes at the moment
  std::vector<int> left_;       // GPUs in this class and those behind it
  std::vector<int64_t> most_;   // the fastest pair in this class and those behind it
  std::vector<int> greedy_;     // what takeGreedily() has offered
  int steps_ = 0;
  int matches_ = 0;
  bool gave_up_ = false;
};

std::string gbPerS(int64_t mbps) { return formatText("%.4g GB/s", static_cast<double>(mbps) / 1000); }

}  // namespace

bool Score::betterThan(const Score& other) const {
  return std::tuple(slowest_pair_mbps, all_pairs_mbps, with_nic, -nearness_sum, nic_mbps, -numa_nodes) >
         std::tuple(other.slowest_pair_mbps, other.all_pairs_mbps, other.with_nic, -other.nearness_sum,
                    other.nic_mbps, -other.numa_nodes);
}

std::string whyBetter(const Score& better, const Score& worse) {
  if (better.slowest_pair_mbps != worse.slowest_pair_mbps)
    return "its slowest pair has " + gbPerS(better.slowest_pair_mbps) + ", against " +
           gbPerS(worse.slowest_pair_mbps);
  if (better.all_pairs_mbps != worse.all_pairs_mbps)
    return "the slowest pairs are equal, but all its pairs together have " + gbPerS(better.all_pairs_mbps) +
           ", against " + gbPerS(worse.all_pairs_mbps);
  if (better.with_nic != worse.with_nic)
    return "the links are equal, but " + std::to_string(better.with_nic) +
           " of its GPUs have a NIC of their own, against " + std::to_string(worse.with_nic);
  if (better.nearness_sum != worse.nearness_sum) return "the links are equal, but its NICs are nearer";
  if (better.nic_mbps != worse.nic_mbps)
    return "the links are equal, but its NICs have " + gbPerS(better.nic_mbps) + " together, against " +
           gbPerS(worse.nic_mbps);
  if (better.numa_nodes != worse.numa_nodes)
    return "links and NICs are equal, but its GPUs are on " + counted(better.numa_nodes, "NUMA node") +
           ", against " + std::to_string(worse.numa_nodes);
  return "they are equally good, and it has the lower numbers";
}

std::string namesText(const std::vector<int>& gpus, const std::vector<int>& numbers) {
  std::vector<std::string> names;
  for (const int gpu : gpus)
    names.push_back(std::to_string(numbers.empty() ? gpu : numbers[static_cast<std::size_t>(gpu)]));
  return listText(names);
}

std::string whyText(const ChoiceAnswer& answer, const std::vector<int>& numbers) {
  std::string text;
  if (answer.second) {
    text = std::string("better than ") + (answer.second->gpus.size() == 1 ? "GPU " : "GPUs ") +
           namesText(answer.second->gpus, numbers) + ": " +
           whyBetter(answer.best.score, answer.second->score);
  }
  const std::string equal =
      !answer.equally_good || *answer.equally_good < 1
          ? ""
          : (*answer.equally_good < 1e15 ? std::to_string(static_cast<int64_t>(*answer.equally_good))
                                         : "many") +
                " other set" + (*answer.equally_good < 2 ? " is" : "s are") +
                " equally good, and this one has the lowest numbers";
  if (!equal.empty()) text += (text.empty() ? "" : "; ") + equal;
  if (text.empty())
    text = answer.equally_good
               ? "it is the only set"
               : "no other set has better links, and of the sets with these links it has the best NICs";
  if (!answer.exact) text += "; not all sets were looked at, there may be a better one";
  return text;
}

Outcome<ChoiceAnswer> chooseGpus(const ChoiceQuestion& question, int count) {
  if (std::string wrong = checkNumbers(question); !wrong.empty())
    return Error{std::move(wrong), Code::kInvalidArgument};
  if (count < 1) return Error{"at least one GPU must be chosen", Code::kInvalidArgument};
  const Problem problem = problemOf(question);
  const auto usable = static_cast<int>(problem.usable.size());
  if (count > usable)
    return Error{std::to_string(count) + " GPUs are wanted, and " + std::to_string(usable) + " of " +
                     std::to_string(question.gpus) + " may be used",
                 Code::kInvalidArgument};
  return usable <= question.exhaustive_up_to ? EverySet(problem, count).run()
                                             : EveryCount(problem, count).run();
}

}  // namespace railwise::gpu
