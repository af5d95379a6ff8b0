#include "doctor/pair/measuring/plan.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "verbs/gid.h"

namespace railwise::doctor::pair {
namespace {

std::vector<verbs::Gid> gidsOf(const NicFacts& nic) {
  std::vector<verbs::Gid> gids;
  for (const GidFacts& facts : nic.gids) {
    verbs::Gid gid;
    gid.index = facts.index;
    gid.roce_version = facts.roce_version;
    std::memcpy(gid.value.raw, facts.value.data(), facts.value.size());
    gids.push_back(gid);
  }
  return gids;
}

NicPair examine(const EndFacts& a, std::size_t a_nic, const EndFacts& b, std::size_t b_nic, int subnet_bits) {
  const NicFacts& near = a.nics[a_nic];
  const NicFacts& far = b.nics[b_nic];
  NicPair pair{.a_nic = a_nic, .b_nic = b_nic};
  const auto blocked = [&](Obstacle obstacle) {
    pair.obstacle = obstacle;
    return pair;
  };
  if (!near.error.empty() || !far.error.empty()) return blocked(Obstacle::kNotOpened);
  if (!near.active && !far.active) return blocked(Obstacle::kBothDown);
  if (!near.active || !far.active) return blocked(Obstacle::kPortDown);
  if (near.link != far.link || near.link == LinkKind::kOther) return blocked(Obstacle::kLinkKind);
  if (near.link == LinkKind::kIwarp) return pair;  // by IP address, which the communication manager knows
  const auto chosen = verbs::choosePair(gidsOf(near), gidsOf(far), near.link == LinkKind::kRoce, subnet_bits);
  if (!chosen) return blocked(Obstacle::kNoGids);
  pair.a_gid = chosen->local;
  pair.b_gid = chosen->remote;
  return pair;
}

// Would another partner do better? A port that is down keeps its partner, so that the rail is named.
bool wrongPartner(const NicPair& pair) {
  return pair.obstacle == Obstacle::kLinkKind || pair.obstacle == Obstacle::kNoGids;
}

class Pairing {
 public:
  Pairing(const EndFacts& a, const EndFacts& b, int subnet_bits)
      : a_(a), b_(b), bits_(subnet_bits), a_used_(a.nics.size()), b_used_(b.nics.size()) {}

  std::vector<NicPair> run() {
    for (std::size_t i = 0; i < std::min(a_.nics.size(), b_.nics.size()); ++i) {
      const NicPair pair = examine(a_, i, b_, i, bits_);
      if (!wrongPartner(pair)) take(pair);
    }
    for (std::size_t i = 0; i < a_.nics.size(); ++i) {
      if (!a_used_[i]) take(bestFor(i, true));
    }
    for (std::size_t i = 0; i < b_.nics.size(); ++i) {
      if (!b_used_[i]) take(bestFor(i, false));
    }
    std::sort(pairs_.begin(), pairs_.end(), [](const NicPair& x, const NicPair& y) {
      return x.a_nic != y.a_nic ? x.a_nic < y.a_nic : x.b_nic < y.b_nic;
    });
    return std::move(pairs_);
  }

 private:
  // The first free NIC of the other end that can talk with this one, else the first that can, else the one at
  // the equal position, with the obstacle.
  NicPair bestFor(std::size_t nic, bool of_a) const {
    const std::size_t others = of_a ? b_.nics.size() : a_.nics.size();
    const auto with = [&](std::size_t other) {
      return of_a ? examine(a_, nic, b_, other, bits_) : examine(a_, other, b_, nic, bits_);
    };
    std::optional<NicPair> shared;
    for (std::size_t other = 0; other < others; ++other) {
      const NicPair pair = with(other);
      if (pair.obstacle != Obstacle::kNone) continue;
      if (!(of_a ? b_used_ : a_used_)[other]) return pair;
      if (!shared) shared = pair;
    }
    return shared ? *shared : with(nic % others);
  }

  void take(const NicPair& pair) {
    pairs_.push_back(pair);
    a_used_[pair.a_nic] = true;
    b_used_[pair.b_nic] = true;
  }

  const EndFacts& a_;
  const EndFacts& b_;
  const int bits_;
  std::vector<bool> a_used_;
  std::vector<bool> b_used_;
  std::vector<NicPair> pairs_;
};

}  // namespace

std::vector<std::vector<Match>> tournament(const std::vector<std::size_t>& ends) {
  // The circle method: the first seat stays, the others move on by one place each round. With an odd number
  // one seat is empty, and who sits opposite has a rest.
  std::vector<std::optional<std::size_t>> seats(ends.begin(), ends.end());
  if (seats.size() % 2 == 1) seats.emplace_back();
  std::vector<std::vector<Match>> rounds;
  for (std::size_t round = 0; round + 1 < seats.size(); ++round) {
    std::vector<Match> matches;
    for (std::size_t i = 0; i < seats.size() / 2; ++i) {
      const auto& one = seats[i];
      const auto& other = seats[seats.size() - 1 - i];
      if (one && other) matches.push_back({std::min(*one, *other), std::max(*one, *other)});
    }
    rounds.push_back(std::move(matches));
    std::rotate(seats.begin() + 1, seats.end() - 1, seats.end());
  }
  return rounds;
}

std::vector<NicPair> pairNics(const EndFacts& a, const EndFacts& b, bool full, int subnet_bits) {
  if (a.nics.empty() || b.nics.empty()) return {};
  if (!full) return Pairing(a, b, subnet_bits).run();
  std::vector<NicPair> pairs;
  for (std::size_t i = 0; i < a.nics.size(); ++i) {
    for (std::size_t j = 0; j < b.nics.size(); ++j) pairs.push_back(examine(a, i, b, j, subnet_bits));
  }
  return pairs;
}

}  // namespace railwise::doctor::pair
