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

// Two NICs that might become a pair.
struct Candidate {
  NicPair nics;
  bool same_name = false;
  bool same_subnet = false;
};

bool withoutConnections(const NicFacts& nic) { return nic.error.empty() && nic.link == LinkKind::kOther; }

Obstacle obstacleOf(const NicFacts& near, const NicFacts& far) {
  if (!near.error.empty() || !far.error.empty()) return Obstacle::kNotOpened;
  if (!near.active && !far.active) return Obstacle::kBothDown;
  if (!near.active || !far.active) return Obstacle::kPortDown;
  return near.link == far.link ? Obstacle::kNone : Obstacle::kLinkKind;
}

Candidate examine(const EndFacts& a, std::size_t a_nic, const EndFacts& b, std::size_t b_nic,
                  int subnet_bits) {
  const NicFacts& near = a.nics[a_nic];
  const NicFacts& far = b.nics[b_nic];
  Candidate candidate{.nics = {.a_nic = a_nic, .b_nic = b_nic, .obstacle = obstacleOf(near, far)},
                      .same_name = nicName(near) == nicName(far)};
  NicPair& pair = candidate.nics;
  // iWARP: by IP address, which the communication manager knows.
  if (pair.obstacle != Obstacle::kNone || near.link == LinkKind::kIwarp) return candidate;
  const auto chosen = verbs::choosePair(gidsOf(near), gidsOf(far), near.link == LinkKind::kRoce, subnet_bits);
  if (!chosen) {
    pair.obstacle = Obstacle::kNoGids;
    return candidate;
  }
  pair.a_gid = chosen->local;
  pair.b_gid = chosen->remote;
  candidate.same_subnet = chosen->reach == verbs::Reach::kSameSubnet;
  return candidate;
}

// Would another partner do better? A port that is down keeps its partner, so that the rail is named.
bool wrongPartner(const NicPair& pair) {
  return pair.obstacle == Obstacle::kLinkKind || pair.obstacle == Obstacle::kNoGids;
}

class Pairing {
 public:
  Pairing(const EndFacts& a, const EndFacts& b, int subnet_bits)
      : a_(a),
        b_(b),
        bits_(subnet_bits),
        equal_counts_(a.nics.size() == b.nics.size()),
        a_uses_(a.nics.size()),
        b_uses_(b.nics.size()) {}

  std::vector<NicPair> run() {
    const auto same_place = [](const Candidate& each) { return each.nics.a_nic == each.nics.b_nic; };
    takeAll([](const Candidate& each) { return each.same_name && !wrongPartner(each.nics); });
    takeAll([&](const Candidate& each) { return each.same_subnet && same_place(each); });
    takeAll([](const Candidate& each) { return each.same_subnet; });
    takeAll([&](const Candidate& each) {
      const bool counts = equal_counts_ ? !wrongPartner(each.nics) : each.nics.obstacle == Obstacle::kNone;
      return counts && same_place(each);
    });
    takeRest(true);
    takeRest(false);
    if (pairs_.empty()) nameObstacles();
    std::sort(pairs_.begin(), pairs_.end(), [](const NicPair& x, const NicPair& y) {
      return x.a_nic != y.a_nic ? x.a_nic < y.a_nic : x.b_nic < y.b_nic;
    });
    return std::move(pairs_);
  }

 private:
  Candidate with(std::size_t nic, std::size_t other, bool of_a) const {
    return of_a ? examine(a_, nic, b_, other, bits_) : examine(a_, other, b_, nic, bits_);
  }

  // Free NICs that `fit`, in their order.
  template <typename Fit>
  void takeAll(Fit&& fit) {
    for (std::size_t i = 0; i < a_.nics.size(); ++i) {
      for (std::size_t j = 0; j < b_.nics.size() && a_uses_[i] == 0; ++j) {
        if (b_uses_[j] > 0 || withoutConnections(a_.nics[i]) || withoutConnections(b_.nics[j])) continue;
        if (const Candidate candidate = with(i, j, true); fit(candidate)) take(candidate.nics);
      }
    }
  }

  void takeRest(bool of_a) {
    const std::vector<NicFacts>& nics = of_a ? a_.nics : b_.nics;
    for (std::size_t i = 0; i < nics.size(); ++i) {
      if ((of_a ? a_uses_ : b_uses_)[i] > 0 || withoutConnections(nics[i])) continue;
      if (const auto pair = bestFor(i, of_a)) take(*pair);
    }
  }

  // The least used NIC of the other end that can talk with this one, else the partner that it should have,
  // with the obstacle. Nothing: the NIC has no partner.
  std::optional<NicPair> bestFor(std::size_t nic, bool of_a) const {
    const std::vector<NicFacts>& others = of_a ? b_.nics : a_.nics;
    const std::vector<int>& uses = of_a ? b_uses_ : a_uses_;
    std::optional<NicPair> named;
    std::optional<std::size_t> best;
    for (std::size_t other = 0; other < others.size(); ++other) {
      if (withoutConnections(others[other])) continue;
      const Candidate candidate = with(nic, other, of_a);
      if (candidate.same_name) named = candidate.nics;
      const bool fits = candidate.nics.obstacle == Obstacle::kNone;
      if (fits && (!best || uses[other] < uses[*best])) best = other;
    }
    if (best) return with(nic, *best, of_a).nics;
    return named ? named : partnerByPlace(nic, of_a);
  }

  // A NIC that cannot be opened is worth a line whatever its partner is.
  std::optional<NicPair> partnerByPlace(std::size_t nic, bool of_a) const {
    const std::vector<NicFacts>& others = of_a ? b_.nics : a_.nics;
    const std::size_t place = nic % others.size();
    const bool named_anyhow = !(of_a ? a_ : b_).nics[nic].error.empty();
    if (!named_anyhow && (!equal_counts_ || withoutConnections(others[place]))) return std::nullopt;
    return with(nic, place, of_a).nics;
  }

  // No NIC of one host reaches one of the other: say why, place by place.
  void nameObstacles() {
    for (std::size_t i = 0; i < std::min(a_.nics.size(), b_.nics.size()); ++i) {
      if (!withoutConnections(a_.nics[i]) && !withoutConnections(b_.nics[i])) take(with(i, i, true).nics);
    }
  }

  void take(const NicPair& pair) {
    pairs_.push_back(pair);
    ++a_uses_[pair.a_nic];
    ++b_uses_[pair.b_nic];
  }

  const EndFacts& a_;
  const EndFacts& b_;
  const int bits_;
  const bool equal_counts_;
  std::vector<int> a_uses_;
  std::vector<int> b_uses_;
  std::vector<NicPair> pairs_;
};

// Every NIC with every NIC. Other links are an obstacle only between NICs that belong together.
std::vector<NicPair> allPairs(const EndFacts& a, const EndFacts& b, int subnet_bits) {
  std::vector<NicPair> pairs;
  for (std::size_t i = 0; i < a.nics.size(); ++i) {
    for (std::size_t j = 0; j < b.nics.size(); ++j) {
      if (withoutConnections(a.nics[i]) || withoutConnections(b.nics[j])) continue;
      const Candidate each = examine(a, i, b, j, subnet_bits);
      const bool belong = each.same_name || (i == j && a.nics.size() == b.nics.size());
      const Obstacle obstacle = each.nics.obstacle;
      if (belong || (obstacle != Obstacle::kLinkKind && obstacle != Obstacle::kPortDown))
        pairs.push_back(each.nics);
    }
  }
  return pairs;
}

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
  return full ? allPairs(a, b, subnet_bits) : Pairing(a, b, subnet_bits).run();
}

}  // namespace railwise::doctor::pair
