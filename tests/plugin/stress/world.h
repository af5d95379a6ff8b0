// Two ranks that live round after round with each other: a thread of its own makes their service threads.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "plugin/stress/rank.h"

namespace railwise::test {

template <typename A>
class World {
 public:
  struct Limits {
    uint64_t rounds = UINT64_MAX;
    const std::atomic<bool>* over = nullptr;  // begin no new round
  };

  World(Process& process, uint64_t seed, int number) : process_(process), seed_(seed), number_(number) {}
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  void run(const Limits& limits) {
    for (uint64_t i = 0; i < limits.rounds && !limits.over->load(); ++i) {
      round();
      round_.fetch_add(1);
      process_.totals.rounds.fetch_add(1, std::memory_order_relaxed);
    }
    for (const Relic& relic : relics_) relic.check();
    relics_.clear();
    ended_.store(true);
  }

  std::string state() const {
    std::string text = "  world " + std::to_string(number_) + " round " + std::to_string(round_.load());
    for (std::size_t rank = 0; rank < 2; ++rank) {
      text += "\n   rank " + std::to_string(rank) + ": service: " + watched_[2 * rank].doing.load() +
              ", progress: " + watched_[2 * rank + 1].doing.load();
      if (const Rank<A>* of = ranks_[rank].load()) text += of->state();
    }
    return text + "\n";
  }

  uint64_t moves() const {
    uint64_t sum = 0;
    for (const Watched& each : watched_) sum += each.moves.load(std::memory_order_relaxed);
    return sum;
  }
  // Is what run() was called for over? begin(): from now on not, until it is.
  bool ended() const { return ended_.load(); }
  void begin() { ended_.store(false); }

 private:
  void round() {
    const uint64_t seed =
        softdev::Random(seed_ * 131 + static_cast<uint64_t>(number_) * 1'000'003 + round_.load() * 7'919)
            .next();
    const RoundPlan plan = planRound(seed, process_.devices, process_.abilities);
    Meeting meeting(plan.channels.size());
    std::array<std::unique_ptr<Rank<A>>, 2> ranks;
    for (std::size_t i = 0; i < 2; ++i) {
      ranks[i] = std::make_unique<Rank<A>>(process_, plan, meeting, static_cast<int>(i), seed + i + 1,
                                           watched_[2 * i], watched_[2 * i + 1]);
      ranks_[i].store(ranks[i].get());
    }
    const auto name = [&](int rank) {
      return "seed " + std::to_string(seed_) + " world " + std::to_string(number_) + " round " +
             std::to_string(round_.load()) + " rank " + std::to_string(rank);
    };
    std::thread other([&] { ranks[1]->run(name(1)); });
    ranks[0]->run(name(0));
    other.join();
    if (meeting.left.load()) process_.totals.aborts.fetch_add(1, std::memory_order_relaxed);
    // A whole round after they were closed.
    for (const Relic& relic : relics_) relic.check();
    relics_.clear();
    for (std::size_t i = 0; i < 2; ++i) {
      for (Relic& relic : ranks[i]->relics()) relics_.push_back(std::move(relic));
      ranks_[i].store(nullptr);
    }
  }

  Process& process_;
  const uint64_t seed_;
  const int number_;
  std::array<Watched, 4> watched_;  // service and progress of rank 0, of rank 1
  std::atomic<bool> ended_ = false;
  std::atomic<uint64_t> round_ = 0;
  std::array<std::atomic<Rank<A>*>, 2> ranks_ = {};
  std::vector<Relic> relics_;
};

}  // namespace railwise::test
