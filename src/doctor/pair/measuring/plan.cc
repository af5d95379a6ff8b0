#include "doctor/pair/measuring/plan.h"

#include <algorithm>
#include <optional>

namespace railwise::doctor::pair {
namespace {

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

using Ends = std::array<const EndFacts*, 2>;

Candidate examine(const Ends& ends, const std::array<std::size_t, 2>& nics, int subnet_bits) {
  const NicFacts& near = ends[0]->nics[nics[0]];
  const NicFacts& far = ends[1]->nics[nics[1]];
  Candidate candidate{.nics = {.nics = nics, .obstacle = obstacleOf(near, far)},
                      .same_name = nicName(near) == nicName(far)};
  NicPair& pair = candidate.nics;
  // iWARP: by IP address, which the communication manager knows.
  if (!pair.measured() || near.link == LinkKind::kIwarp) return candidate;
  const auto chosen = verbs::choosePair(near.gids, far.gids, near.link == LinkKind::kRoce, subnet_bits);
  if (!chosen) {
    pair.obstacle = Obstacle::kNoGids;
    return candidate;
  }
  pair.gids = {chosen->local, chosen->remote};
  candidate.same_subnet = chosen->reach == verbs::Reach::kSameSubnet;
  return candidate;
}

// Would another partner do better? A port that is down keeps its partner, so that the rail is named.
bool wrongPartner(const NicPair& pair) {
  return pair.obstacle == Obstacle::kLinkKind || pair.obstacle == Obstacle::kNoGids;
}

class Pairing {
 public:
  Pairing(const Ends& ends, int subnet_bits) : ends_(ends), bits_(subnet_bits) {
    for (const std::size_t side : kSides) uses_[side].resize(nics(side).size());
  }

  std::vector<NicPair> run() {
    const auto same_place = [](const Candidate& each) { return each.nics.nics[0] == each.nics.nics[1]; };
    takeAll([](const Candidate& each) { return each.same_name && !wrongPartner(each.nics); });
    takeAll([&](const Candidate& each) { return each.same_subnet && same_place(each); });
    takeAll([](const Candidate& each) { return each.same_subnet; });
    takeAll([&](const Candidate& each) {
      return (equalCounts() ? !wrongPartner(each.nics) : each.nics.measured()) && same_place(each);
    });
    for (const std::size_t side : kSides) takeRest(side);
    if (pairs_.empty()) nameObstacles();
    std::ranges::sort(pairs_, {}, &NicPair::nics);
    return std::move(pairs_);
  }

  // Every NIC with every NIC. Other links are an obstacle only between NICs that belong together.
  std::vector<NicPair> all() {
    forEach([&](const Candidate& each) {
      const bool belong = each.same_name || (equalCounts() && each.nics.nics[0] == each.nics.nics[1]);
      const Obstacle obstacle = each.nics.obstacle;
      if (belong || (obstacle != Obstacle::kLinkKind && obstacle != Obstacle::kPortDown)) take(each.nics);
    });
    return std::move(pairs_);
  }

 private:
  const std::vector<NicFacts>& nics(std::size_t side) const { return ends_[side]->nics; }
  bool equalCounts() const { return nics(0).size() == nics(1).size(); }
  Candidate with(std::size_t side, std::size_t nic, std::size_t other) const {
    return side == 0 ? examine(ends_, {nic, other}, bits_) : examine(ends_, {other, nic}, bits_);
  }

  template <typename Visit>
  void forEach(Visit&& visit) {
    for (std::size_t i = 0; i < nics(0).size(); ++i) {
      for (std::size_t j = 0; j < nics(1).size(); ++j) {
        if (!withoutConnections(nics(0)[i]) && !withoutConnections(nics(1)[j])) visit(with(0, i, j));
      }
    }
  }

  // Free NICs that `fit`, in their order.
  template <typename Fit>
  void takeAll(Fit&& fit) {
    forEach([&](const Candidate& each) {
      const bool free = uses_[0][each.nics.nics[0]] == 0 && uses_[1][each.nics.nics[1]] == 0;
      if (free && fit(each)) take(each.nics);
    });
  }

  void takeRest(std::size_t side) {
    for (std::size_t i = 0; i < nics(side).size(); ++i) {
      if (uses_[side][i] > 0 || withoutConnections(nics(side)[i])) continue;
      if (const auto pair = bestFor(side, i)) take(*pair);
    }
  }

  // The least used NIC of the other end that can talk with this one, else the partner that it should have,
  // with the obstacle. Nothing: the NIC has no partner.
  std::optional<NicPair> bestFor(std::size_t side, std::size_t nic) const {
    const std::vector<NicFacts>& others = nics(1 - side);
    const std::vector<int>& uses = uses_[1 - side];
    std::optional<NicPair> named;
    std::optional<std::size_t> best;
    for (std::size_t other = 0; other < others.size(); ++other) {
      if (withoutConnections(others[other])) continue;
      const Candidate candidate = with(side, nic, other);
      if (candidate.same_name) named = candidate.nics;
      if (candidate.nics.measured() && (!best || uses[other] < uses[*best])) best = other;
    }
    if (best) return with(side, nic, *best).nics;
    return named ? named : partnerByPlace(side, nic);
  }

  // A NIC that cannot be opened is worth a line whatever its partner is.
  std::optional<NicPair> partnerByPlace(std::size_t side, std::size_t nic) const {
    const std::vector<NicFacts>& others = nics(1 - side);
    const std::size_t place = nic % others.size();
    const bool named_anyhow = !nics(side)[nic].error.empty();
    if (!named_anyhow && (!equalCounts() || withoutConnections(others[place]))) return std::nullopt;
    return with(side, nic, place).nics;
  }

  // No NIC of one host reaches one of the other: say why, place by place.
  void nameObstacles() {
    forEach([&](const Candidate& each) {
      if (each.nics.nics[0] == each.nics.nics[1]) take(each.nics);
    });
  }

  void take(const NicPair& pair) {
    pairs_.push_back(pair);
    for (const std::size_t side : kSides) ++uses_[side][pair.nics[side]];
  }

  const Ends ends_;
  const int bits_;
  std::array<std::vector<int>, 2> uses_;
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
  Pairing pairing({&a, &b}, subnet_bits);
  return full ? pairing.all() : pairing.run();
}

std::vector<NicPair> acrossRails(const EndFacts& a, const EndFacts& b, const std::vector<NicPair>& rails,
                                 int subnet_bits) {
  std::vector<NicPair> across;
  for (std::size_t i = 0; i < rails.size(); ++i) {
    const LinkKind link = a.nics[rails[i].nics[0]].link;
    for (std::size_t step = 1; step < rails.size(); ++step) {
      const NicPair& next = rails[(i + step) % rails.size()];
      if (b.nics[next.nics[1]].link != link || next.nics[1] == rails[i].nics[1]) continue;
      across.push_back(examine({&a, &b}, {rails[i].nics[0], next.nics[1]}, subnet_bits).nics);
      break;
    }
  }
  return across;
}

const char* linkName(LinkKind link) {
  static constexpr const char* kNames[] = {"another link", "InfiniBand", "RoCE", "iWARP"};
  return kNames[static_cast<int>(link)];
}

std::string gidTypeText(const verbs::Gid& gid) {
  if (gid.roce_version == 0) return "IB";
  const char* const family = verbs::isIpv4(gid.value)        ? "IPv4"
                             : verbs::isLinkLocal(gid.value) ? "link-local"
                                                             : "IPv6";
  return "RoCE v" + std::to_string(gid.roce_version) + " " + family;
}

std::string nicName(const NicFacts& nic) {
  return nic.port == 1 ? nic.device : nic.device + " port " + std::to_string(nic.port);
}

double allowedGbytes(const NicFacts& nic) {
  constexpr double kMbpsPerGbyte = 8000;
  const uint32_t mbps = nic.pcie_mbps == 0    ? nic.speed_mbps
                        : nic.speed_mbps == 0 ? nic.pcie_mbps
                                              : std::min(nic.speed_mbps, nic.pcie_mbps);
  return mbps / kMbpsPerGbyte;
}

double medianOf(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace railwise::doctor::pair
