#include "topo/search/vain_attempts.h"

#include <algorithm>
#include <array>
#include <optional>

namespace railwise::topo {
namespace {

constexpr int kFirstHopper = 90;
constexpr int kFirstBlackwell = 100;

// Source: search.cc of NCCL 2.28.9 to 2.30.7, and of 2.31.2 (meta-pytorch/torchcomms).
constexpr std::array kIntra = {40.0F, 30.0F, 20.0F, 18.0F, 15.0F, 12.0F, 10.0F,
                               9.0F,  7.0F,  6.0F,  5.0F,  4.0F,  3.0F};
constexpr std::array kInter = {48.0F, 30.0F, 28.0F, 24.0F, 20.0F, 18.0F, 15.0F, 12.0F, 10.0F, 9.0F,
                               7.0F,  6.0F,  5.0F,  4.0F,  3.0F,  2.4F,  1.2F,  0.24F, 0.12F};
constexpr std::array kIntraSm90 = {60.0F, 50.0F, 40.0F, 30.0F, 24.0F, 20.0F, 15.0F, 12.0F, 11.0F, 6.0F, 3.0F};
constexpr std::array kInterSm90 = {48.0F, 45.0F, 42.0F, 40.0F, 30.0F, 24.0F, 22.0F, 20.0F, 17.5F,
                                   15.0F, 12.0F, 6.0F,  3.0F,  2.4F,  1.2F,  0.24F, 0.12F};
constexpr std::array kIntraSm100 = {90.0F, 80.0F, 70.0F, 60.0F, 50.0F, 45.0F,
                                    40.0F, 30.0F, 24.0F, 20.0F, 19.0F, 18.0F};
constexpr std::array kInterSm100 = {96.0F, 90.2F, 86.0F, 80.0F, 48.0F, 45.1F, 42.0F,
                                    40.0F, 30.0F, 24.0F, 22.0F, 20.0F, 17.5F, 15.0F,
                                    12.0F, 6.0F,  3.0F,  2.4F,  1.2F,  0.24F, 0.12F};

// The speeds for sm 100 that some releases do not have.
std::optional<NcclRule> ruleOf(bool inter, float speed) {
  if (!inter && speed == 45.0F) return NcclRule::kSpeed45;
  if (inter && speed == 80.0F) return NcclRule::kSpeed80;
  if (inter && speed == 86.0F) return NcclRule::kSpeed86;
  if (inter && speed == 90.2F) return NcclRule::kSpeed90;
  return std::nullopt;
}

template <std::size_t N>
std::vector<float> listOf(const std::array<float, N>& speeds) {
  return {speeds.begin(), speeds.end()};
}

bool goesTheSameWay(const VainAttempt& known, SearchLimits limits, Candidates& candidates) {
  if (!known.noted.intra.holdFor(limits.type_intra) || !known.noted.inter.holdFor(limits.type_inter))
    return false;
  const PathType type_inter = limits.type_inter;
  limits.type_intra = known.limits.type_intra;
  limits.type_inter = known.limits.type_inter;
  if (!known.noted.cross_nic) limits.cross_nic = known.limits.cross_nic;
  // The farthest type also says which NETs an attempt tries.
  return limits == known.limits &&
         (type_inter == limits.type_inter || candidates.equalNets(type_inter, limits.type_inter));
}

}  // namespace

const VainAttempt* VainAttempts::find(const SearchLimits& limits, int hops, Candidates& candidates) const {
  const auto found = std::find_if(attempts_.begin(), attempts_.end(), [&](const VainAttempt& known) {
    return known.hops == hops && goesTheSameWay(known, limits, candidates);
  });
  return found == attempts_.end() ? nullptr : &*found;
}

std::vector<float> searchSpeeds(NcclVersion version, bool inter, int sm) {
  if (sm < kFirstHopper) return inter ? listOf(kInter) : listOf(kIntra);
  if (sm < kFirstBlackwell) return inter ? listOf(kInterSm90) : listOf(kIntraSm90);
  std::vector<float> speeds = inter ? listOf(kInterSm100) : listOf(kIntraSm100);
  std::erase_if(speeds, [&](float speed) {
    const auto rule = ruleOf(inter, speed);
    return rule && !version.has(*rule);
  });
  return speeds;
}

}  // namespace railwise::topo
