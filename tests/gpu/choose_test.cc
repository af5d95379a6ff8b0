// Choosing GPUs: held against a slow search over all sets, and on domains of many equal GPUs.
#include "gpu/choose/choose.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <random>
#include <set>

#include "tests/ok.h"

namespace railwise::gpu {
namespace {

using Sets = std::vector<std::vector<int>>;

// Every pair has the same bandwidth.
ChoiceQuestion makeSwitched(int gpus, double gb_per_s) {
  ChoiceQuestion question;
  question.gpus = gpus;
  question.pair_gb_per_s.assign(static_cast<std::size_t>(gpus) * static_cast<std::size_t>(gpus), gb_per_s);
  return question;
}

void connect(ChoiceQuestion& question, int a, int b, double gb_per_s) {
  const auto n = static_cast<std::size_t>(question.gpus);
  question.pair_gb_per_s[static_cast<std::size_t>(a) * n + static_cast<std::size_t>(b)] = gb_per_s;
  question.pair_gb_per_s[static_cast<std::size_t>(b) * n + static_cast<std::size_t>(a)] = gb_per_s;
}

double pairOf(const ChoiceQuestion& question, int a, int b) {
  return question.pair_gb_per_s[static_cast<std::size_t>(a * question.gpus + b)];
}

ChoiceQuestion makeRandom(std::mt19937& random, int gpus) {
  const auto below = [&](int limit) { return std::uniform_int_distribution<int>(0, limit - 1)(random); };
  const std::vector<double> values = {0, 12.5, 24, 48, 370.8};
  ChoiceQuestion question = makeSwitched(gpus, 0);
  const int distinct = 1 + below(4);
  for (int a = 0; a < gpus; ++a)
    for (int b = 0; b < a; ++b) connect(question, a, b, values[static_cast<std::size_t>(below(distinct))]);
  if (below(4) == 0) return question;  // no NICs
  const int nics = 1 + below(5);
  question.nics.resize(static_cast<std::size_t>(gpus));
  for (auto& list : question.nics)
    for (int nic = 0; nic < nics; ++nic)
      if (below(2) == 0) list.push_back({nic * 10, below(3), below(2) == 0 ? 25.0 : 50.0});
  if (below(3) == 0) question.excluded = {below(gpus)};
  if (below(3) == 0) question.occupied = {below(gpus)};
  if (below(4) == 0) {
    question.allowed.emplace();
    for (int gpu = 0; gpu < gpus; ++gpu)
      if (below(3) != 0) question.allowed->push_back(gpu);
  }
  return question;
}

std::vector<int> usableOf(const ChoiceQuestion& question) {
  std::vector<int> usable;
  const auto in = [](const std::vector<int>& list, int gpu) {
    return std::count(list.begin(), list.end(), gpu) > 0;
  };
  for (int gpu = 0; gpu < question.gpus; ++gpu)
    if ((!question.allowed || in(*question.allowed, gpu)) && !in(question.excluded, gpu) &&
        !in(question.occupied, gpu))
      usable.push_back(gpu);
  return usable;
}

Sets subsetsOf(const std::vector<int>& usable, int count) {
  Sets sets;
  for (unsigned bits = 0; bits < 1U << usable.size(); ++bits) {
    std::vector<int> set;
    for (std::size_t i = 0; i < usable.size(); ++i)
      if ((bits >> i & 1U) != 0) set.push_back(usable[i]);
    if (static_cast<int>(set.size()) == count) sets.push_back(set);
  }
  std::sort(sets.begin(), sets.end());
  return sets;
}

// Tries every assignment of NICs, as a table over the NICs that are used (at most 5).
Score slowScore(const ChoiceQuestion& question, const std::vector<int>& set) {
  Score score;
  double slowest = -1;
  for (std::size_t i = 0; i < set.size(); ++i)
    for (std::size_t j = 0; j < i; ++j) {
      const double pair = pairOf(question, set[i], set[j]);
      slowest = slowest < 0 ? pair : std::min(slowest, pair);
      score.all_pairs_mbps += std::llround(pair * 1000);
    }
  score.slowest_pair_mbps = slowest < 0 ? 0 : std::llround(slowest * 1000);
  std::map<unsigned, Score> best = {{0U, score}};
  for (const int gpu : set) {
    std::map<unsigned, Score> next = best;
    for (const auto& [used, before] : best) {
      if (question.nics.empty()) break;
      for (const NicCandidate& nic : question.nics[static_cast<std::size_t>(gpu)]) {
        const unsigned bit = 1U << (nic.nic / 10);
        if ((used & bit) != 0) continue;
        Score with = before;
        with.with_nic += 1;
        with.nearness_sum += nic.nearness;
        with.nic_mbps += std::llround(nic.gb_per_s * 1000);
        const auto [at, is_new] = next.try_emplace(used | bit, with);
        if (!is_new && with.betterThan(at->second)) at->second = with;
      }
    }
    best = std::move(next);
  }
  for (const auto& [used, found] : best)
    if (found.betterThan(score)) score = found;
  std::set<int> nodes;
  for (const int gpu : set)
    if (!question.numa.empty()) nodes.insert(question.numa[static_cast<std::size_t>(gpu)]);
  score.numa_nodes = static_cast<int>(nodes.size());
  return score;
}

TEST(Choose, AgreesWithASearchOverAllSets) {
  std::mt19937 random(20261123);
  int ties = 0;
  int seconds = 0;
  for (int round = 0; round < 2000; ++round) {
    const int gpus = 2 + static_cast<int>(random() % 8);
    ChoiceQuestion question = makeRandom(random, gpus);
    for (int gpu = 0; gpu < gpus && round % 2 == 1; ++gpu)
      question.numa.push_back(static_cast<int>(random() % 3));
    const std::vector<int> usable = usableOf(question);
    const int count = 1 + static_cast<int>(random() % static_cast<unsigned>(gpus));
    const auto answer = chooseGpus(question, count);
    ASSERT_EQ(answer.ok(), count <= static_cast<int>(usable.size())) << round;
    if (!answer.ok()) continue;

    std::optional<GpuSet> best;
    std::optional<GpuSet> second;
    int equal = 0;
    for (const auto& set : subsetsOf(usable, count)) {  // in the order of rule e
      GpuSet candidate{set, {}, slowScore(question, set)};
      if (!best || candidate.score.betterThan(best->score)) {
        second = best;
        best = candidate;
        equal = 0;
      } else if (candidate.score == best->score) {
        ++equal;
      } else if (!second || candidate.score.betterThan(second->score)) {
        second = candidate;
      }
    }
    ASSERT_EQ(answer->best.gpus, best->gpus) << round;
    ASSERT_EQ(answer->best.score, best->score) << round;
    ASSERT_TRUE(answer->exact);
    ASSERT_EQ(answer->equally_good, equal) << round;
    ASSERT_EQ(answer->second.has_value(), second.has_value()) << round;
    if (second) {
      ASSERT_EQ(answer->second->gpus, second->gpus) << round;
      ASSERT_EQ(answer->second->score, second->score) << round;
    }
    ties += equal > 0 ? 1 : 0;
    seconds += second ? 1 : 0;

    // The search for many GPUs finds the same set, where no NUMA node counts.
    if (!question.numa.empty()) continue;
    question.exhaustive_up_to = 0;
    const auto by_class = chooseGpus(question, count);
    ASSERT_TRUE(by_class.ok() && by_class->exact);
    ASSERT_EQ(by_class->best.gpus, best->gpus) << round;
    ASSERT_EQ(by_class->best.score, best->score) << round;
    if (by_class->equally_good) {
      ASSERT_EQ(*by_class->equally_good, equal) << round;
    }
  }
  EXPECT_GT(ties, 200);
  EXPECT_GT(seconds, 500);
}

TEST(Choose, TheNicsOfTheAnswerAreThoseOfItsScore) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    ChoiceQuestion question = makeRandom(random, 8);
    question.exhaustive_up_to = round % 2 == 0 ? 16 : 0;
    const auto answer = chooseGpus(question, 3);
    if (!answer.ok()) continue;
    Score score;
    std::vector<int> used;
    for (std::size_t i = 0; i < answer->best.gpus.size(); ++i) {
      const int nic = answer->best.nics[i];
      if (nic < 0) continue;
      used.push_back(nic);
      for (const NicCandidate& candidate : question.nics[static_cast<std::size_t>(answer->best.gpus[i])]) {
        if (candidate.nic != nic) continue;
        score.nearness_sum += candidate.nearness;
        score.nic_mbps += std::llround(candidate.gb_per_s * 1000);
      }
    }
    std::sort(used.begin(), used.end());
    EXPECT_EQ(std::unique(used.begin(), used.end()), used.end());
    EXPECT_EQ(static_cast<int>(used.size()), answer->best.score.with_nic);
    EXPECT_EQ(score.nearness_sum, answer->best.score.nearness_sum);
    EXPECT_EQ(score.nic_mbps, answer->best.score.nic_mbps);
  }
}

TEST(Choose, TheSlowestPairCountsBeforeTheSum) {
  ChoiceQuestion question = makeSwitched(6, 0);
  for (int a = 0; a < 3; ++a)
    for (int b = 0; b < a; ++b) connect(question, a, b, a == 2 ? 20 : 500);
  for (int a = 3; a < 6; ++a)
    for (int b = 3; b < a; ++b) connect(question, a, b, 30);
  const auto answer = chooseGpus(question, 3);
  ASSERT_TRUE(answer.ok());
  EXPECT_EQ(answer->best.gpus, (std::vector<int>{3, 4, 5}));
  EXPECT_EQ(answer->second->gpus, (std::vector<int>{0, 1, 2}));
  EXPECT_EQ(namesText({3, 4, 5}, {0, 1, 2, 6, 7, 8}), "6, 7 and 8");
  EXPECT_EQ(whyText(*answer), "better than GPUs 0, 1 and 2: its slowest pair has 30 GB/s, against 20 GB/s");
}

TEST(Choose, OneGpuIsTheOneWithTheNearestNic) {
  ChoiceQuestion question = makeSwitched(3, 50);
  question.nics = {{{0, 5, 50}}, {{0, 4, 50}}, {{0, 4, 50}}};
  const auto answer = chooseGpus(question, 1);
  ASSERT_TRUE(answer.ok());
  EXPECT_EQ(answer->best.gpus, std::vector<int>{1});
  EXPECT_EQ(answer->equally_good, 1);
  EXPECT_EQ(answer->second->gpus, std::vector<int>{0});
}

TEST(Choose, ManyEqualGpusAreCountedNotTried) {
  for (const int gpus : {72, 576}) {
    ChoiceQuestion question = makeSwitched(gpus, 900);
    question.nics.resize(static_cast<std::size_t>(gpus));
    // Hosts of 4 GPUs and 4 NICs; the NICs of the first two hosts are farther away.
    for (int gpu = 0; gpu < gpus; ++gpu)
      for (int nic = gpu / 4 * 4; nic < gpu / 4 * 4 + 4; ++nic)
        question.nics[static_cast<std::size_t>(gpu)].push_back(
            {nic, (nic == gpu ? 4 : 8) + (gpu < 8 ? 1 : 0), 50});
    question.excluded = {9};
    for (const int count : {1, 8, gpus / 2}) {
      const auto start = std::chrono::steady_clock::now();
      const auto answer = chooseGpus(question, count);
      const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
      ASSERT_TRUE(answer.ok());
      EXPECT_TRUE(answer->exact);
      std::vector<int> expected;
      for (int gpu = 8; static_cast<int>(expected.size()) < count; ++gpu)
        if (gpu != 9) expected.push_back(gpu);
      EXPECT_EQ(answer->best.gpus, expected);
      EXPECT_EQ(answer->best.score.with_nic, count);
      RecordProperty("milliseconds_" + std::to_string(gpus) + "_" + std::to_string(count),
                     std::to_string(took.count()));
      EXPECT_LT(took.count(), 5000) << "a guard for sanitizers; without them a few milliseconds";
    }
  }
}

TEST(Choose, CountsTheSetsOfAClass) {
  const auto answer = chooseGpus(makeSwitched(72, 900), 4);
  ASSERT_TRUE(answer.ok());
  EXPECT_EQ(answer->best.gpus, (std::vector<int>{0, 1, 2, 3}));
  EXPECT_EQ(answer->equally_good, 1028789);  // 72 over 4, less one
  EXPECT_EQ(whyText(*answer), "1028789 other sets are equally good, and this one has the lowest numbers");
  EXPECT_FALSE(answer->second);
}

TEST(Choose, TakesASetFromOneDomainOfSeveral) {
  ChoiceQuestion question = makeSwitched(144, 50);
  for (int a = 0; a < 144; ++a)
    for (int b = 0; b < a; ++b)
      if (a / 72 == b / 72) connect(question, a, b, 900);
  question.excluded = {0};  // so that only the second domain has 72
  const auto answer = chooseGpus(question, 72);
  ASSERT_TRUE(answer.ok());
  EXPECT_TRUE(answer->exact);
  EXPECT_EQ(answer->best.gpus.front(), 72);
  EXPECT_EQ(answer->best.gpus.back(), 143);
  ASSERT_TRUE(answer->second);
  EXPECT_EQ(answer->second->score.slowest_pair_mbps, 50000);
}

TEST(Choose, SaysWhenItCannotTryAll) {
  std::mt19937 random(1);
  ChoiceQuestion question = makeSwitched(80, 0);
  for (int a = 0; a < 80; ++a)
    for (int b = 0; b < a; ++b) connect(question, a, b, 1 + static_cast<double>(random() % 1000));
  const auto answer = chooseGpus(question, 20);
  ASSERT_TRUE(answer.ok());
  EXPECT_FALSE(answer->exact);
  EXPECT_EQ(answer->best.gpus.size(), 20U);
  EXPECT_HAS(whyText(*answer), "not all sets were looked at");
}

TEST(Choose, MistakesAreNamed) {
  const auto error = [](const ChoiceQuestion& question, int count) {
    return chooseGpus(question, count).error();
  };
  ChoiceQuestion question = makeSwitched(4, 10);
  EXPECT_EQ(error(question, 5), "5 GPUs are wanted, and 4 of 4 may be used");
  EXPECT_EQ(error(question, 0), "at least one GPU must be chosen");
  question.excluded = {4};
  EXPECT_EQ(error(question, 1), "there is no GPU 4: there are 4");
  question.excluded = {};
  question.pair_gb_per_s[1] = 11;
  EXPECT_EQ(error(question, 1), "the bandwidth between GPU 0 and GPU 1 depends on the direction");
  question.pair_gb_per_s[1] = -1;
  EXPECT_EQ(error(question, 1), "the bandwidth between GPU 0 and GPU 1 is no number of GB/s");
  question.pair_gb_per_s.pop_back();
  EXPECT_EQ(error(question, 1), "the matrix of bandwidths has 15 numbers, not 4 x 4");
  question = makeSwitched(2, 10);
  question.nics = {{}};
  EXPECT_EQ(error(question, 1), "the NICs of 1 GPUs are given, not of 2");
  question.nics = {{}, {{-1, 0, 1}}};
  EXPECT_EQ(error(question, 1), "a NIC has a negative number or rank, or no bandwidth");
}

// Slowest pair and sum of the neighbours in a ring.
std::pair<double, double> ringValue(const ChoiceQuestion& question, const std::vector<int>& ring) {
  double slowest = 1e9;
  double sum = 0;
  for (std::size_t i = 0; i < ring.size(); ++i) {
    const double pair = pairOf(question, ring[i], ring[(i + 1) % ring.size()]);
    slowest = std::min(slowest, pair);
    sum += pair;
  }
  return {slowest, sum};
}

TEST(RingOrder, IsTheBestAndLowestOfAllOrders) {
  std::mt19937 random(3);
  for (int round = 0; round < 100; ++round) {
    const int gpus = 3 + static_cast<int>(random() % 5);
    const ChoiceQuestion question = makeRandom(random, gpus);
    std::vector<int> order;
    for (int gpu = 0; gpu < gpus; ++gpu) order.push_back(gpu);
    std::vector<int> best = order;
    while (std::next_permutation(order.begin() + 1, order.end()))
      if (ringValue(question, order) > ringValue(question, best)) best = order;
    std::vector<int> reversed(best.rbegin(), best.rend());
    EXPECT_EQ(ringOrder(question.pair_gb_per_s, gpus, reversed), best) << round;
  }
}

TEST(RingOrder, TakesTheFastNeighboursOfManyGpus) {
  ChoiceQuestion question = makeSwitched(16, 10);
  for (int gpu = 0; gpu < 16; ++gpu) connect(question, gpu, (gpu + 5) % 16, 100);
  std::vector<int> all;
  for (int gpu = 0; gpu < 16; ++gpu) all.push_back(gpu);
  const auto ring = ringOrder(question.pair_gb_per_s, 16, all);
  EXPECT_EQ(ring[1], 5);
  EXPECT_EQ(ringValue(question, ring).first, 100);
  EXPECT_EQ(ringOrder(question.pair_gb_per_s, 16, {7}), std::vector<int>{7});
  EXPECT_EQ(ringOrder(question.pair_gb_per_s, 16, {7, 2}), (std::vector<int>{2, 7}));
}

TEST(Fitness, FollowsTheFormulas) {
  ChoiceQuestion question = makeSwitched(4, 25);
  connect(question, 0, 1, 100);
  EXPECT_DOUBLE_EQ(intraFitness(question.pair_gb_per_s, 4, {0, 1}), 1);
  EXPECT_DOUBLE_EQ(intraFitness(question.pair_gb_per_s, 4, {0, 1, 2}), 0.25);
  EXPECT_DOUBLE_EQ(intraFitness(question.pair_gb_per_s, 4, {3}), 1);
  EXPECT_DOUBLE_EQ(intraFitness(makeSwitched(2, 0).pair_gb_per_s, 2, {0, 1}), 0);
  EXPECT_DOUBLE_EQ(interFitness(1, 4), 0.75);
  EXPECT_DOUBLE_EQ(interFitness(4, 4), 0);
  EXPECT_DOUBLE_EQ(interFitness(1, 0), 0);
  EXPECT_DOUBLE_EQ(totalFitness(2, 0.75, 0.25), 0.7 * 0.75 + 0.3 * 0.25);
  EXPECT_DOUBLE_EQ(totalFitness(1, 0.75, 0.25), 0.25);
}

}  // namespace
}  // namespace railwise::gpu
