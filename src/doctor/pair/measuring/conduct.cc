#include "doctor/pair/measuring/conduct.h"

#include <algorithm>
#include <memory>
#include <set>

#include "base/clock.h"
#include "doctor/pair/measuring/endpoint.h"

namespace railwise::doctor::pair {
namespace {

// Latency needs fewer seconds than bandwidth: some hundred round trips are enough for a median.
constexpr double kLatencyShare = 0.2;
// A rail below this share of the median of its round is measured again, at most so many times: a moment in
// which something else ran on the host is not a slow rail.
constexpr double kMeasureAgain = 0.8;
constexpr int kRepeats = 2;
constexpr auto kArrivalLimit = std::chrono::seconds(1);

Clock::duration durationOf(double seconds) {
  return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

Error garbled(const std::string& host) {
  return {host + " sent something that is no message of the pair test: is it the same version of railwise?"};
}

// The part of a round that concerns one match: its NIC pairs, and what both ends found.
struct MatchState {
  Match match;
  std::vector<PairResult> pairs;
};

// One round, as one end sees it.
class Round {
 public:
  Round(Exchange& exchange, OpenEnd& end, const MeasureOptions& options, const std::vector<EndFacts>& ends,
        std::vector<MatchState> matches)
      : exchange_(exchange), end_(end), options_(options), ends_(ends), matches_(std::move(matches)) {
    for (MatchState& state : matches_) {
      most_pairs_ = std::max(most_pairs_, state.pairs.size());
      for (const std::size_t side : kSides) {
        if (state.match[side] != exchange.rank()) continue;
        mine_ = &state;
        side_ = side;
      }
    }
  }

  Outcome<void> run(const std::function<void(const std::string&)>& progress) {
    openEndpoints();
    if (auto connected = connectAll(); !connected.ok()) return connected;
    progress("which NICs reach each other");
    if (auto probed = probeAll(); !probed.ok()) return probed;
    for (std::size_t index = 0; index < most_pairs_; ++index) {
      progress("NIC pair " + std::to_string(index + 1) + " of " + std::to_string(most_pairs_) + " alone");
      if (auto alone = measureAlone(index); !alone.ok()) return alone;
    }
    if (auto again = measureSlowAgain(progress); !again.ok()) return again;
    progress("all NICs at once");
    if (auto together = measureTogether(); !together.ok()) return together;
    return shareHalves();  // nobody closes a queue pair that another end still writes to
  }

  // Only whether writes arrive.
  Outcome<void> runReach() {
    openEndpoints();
    if (auto connected = connectAll(); !connected.ok()) return connected;
    if (auto probed = probeAll(); !probed.ok()) return probed;
    return shareHalves();  // nobody closes a queue pair that another end still writes to
  }

  std::vector<MatchState> take() { return std::move(matches_); }

 private:
  std::size_t pairCount() const { return mine_ == nullptr ? 0 : mine_->pairs.size(); }
  PairResult& pair(std::size_t index) { return mine_->pairs[index]; }
  Half& ownHalf(std::size_t index) { return pair(index).halves[side_]; }
  const Half& otherHalf(std::size_t index) { return pair(index).halves[1 - side_]; }
  std::size_t partner() const { return mine_->match[1 - side_]; }

  Lane lane(std::size_t index) { return {endpoints_[index].get(), &ownHalf(index)}; }
  bool usable(std::size_t index) {
    return index < endpoints_.size() && endpoints_[index] != nullptr && endpoints_[index]->error().empty();
  }
  // Do the writes of both ends arrive? A queue pair whose own writes have failed answers none of the other
  // end's, so one direction alone cannot be measured.
  bool works(std::size_t index) {
    const Half& other = otherHalf(index);
    return usable(index) && ownHalf(index).reach == Reach::kAll && other.reach == Reach::kAll &&
           other.error.empty();
  }

  void openEndpoints() {
    for (std::size_t index = 0; index < pairCount(); ++index) {
      endpoints_.emplace_back();
      const NicPair& its = pair(index);
      if (!its.measured()) continue;
      endpoints_[index] = Endpoint::open(end_.nics[its.nics[side_]], end_.config, its.gids[side_],
                                         static_cast<std::size_t>(options_.bytes), kWindow, side_ == 1);
      endpoints_[index]->fillData();
    }
  }

  Outcome<void> connectAll() {
    std::vector<QueueAddress> mine;
    for (const auto& endpoint : endpoints_)
      mine.push_back(endpoint == nullptr ? QueueAddress{} : endpoint->address());
    auto gathered = exchange_.allGather(encodeAddresses(mine));
    if (!gathered.ok()) return gathered.failure();
    if (mine_ == nullptr) return barrier();
    const auto theirs = decodeAddresses((*gathered)[partner()]);
    if (!theirs || theirs->size() != endpoints_.size()) return garbled(ends_[partner()].host);
    for (std::size_t index = 0; index < endpoints_.size(); ++index) {
      if (endpoints_[index] == nullptr) continue;
      const std::size_t far = 1 - side_;
      endpoints_[index]->connect(ends_[partner()].nics[pair(index).nics[far]], pair(index).gids[far],
                                 (*theirs)[index]);
      if (!endpoints_[index]->error().empty()) ownHalf(index).error = endpoints_[index]->error();
    }
    return barrier();
  }

  Outcome<void> probeAll() {
    const std::vector<Lane> lanes = ownLanes([this](std::size_t index) { return usable(index); });
    probe(lanes);
    if (auto shared = shareHalves(); !shared.ok()) return shared;
    for (std::size_t index = 0; index < pairCount(); ++index) {
      if (otherHalf(index).reach != Reach::kAll || endpoints_[index] == nullptr) continue;
      const std::size_t bytes = std::min(kProbeBytes, endpoints_[index]->bytes());
      ownHalf(index).wrong_data = !arrives(*endpoints_[index], bytes);
    }
    return {};
  }

  // On iWARP a write completes when its bytes have left.
  static bool arrives(const Endpoint& endpoint, std::size_t bytes) {
    const Deadline deadline = Deadline::after(kArrivalLimit);
    bool there = endpoint.dataArrived(bytes);
    while (!there && !deadline.passed()) there = endpoint.dataArrived(bytes);
    return there;
  }

  template <typename Wanted>
  std::vector<Lane> ownLanes(Wanted&& wanted) {
    std::vector<Lane> lanes;
    for (std::size_t index = 0; index < pairCount(); ++index) {
      if (wanted(index)) lanes.push_back(lane(index));
    }
    return lanes;
  }

  // First the first end of each match sends, then the second, then the first end asks and the second answers.
  Outcome<void> measureAlone(std::size_t index) {
    for (const std::size_t sender : kSides) {
      if (auto started = barrier(); !started.ok()) return started;
      sendAlone(index, sender);
    }
    if (auto started = barrier(); !started.ok()) return started;
    if (index >= pairCount() || !works(index)) return {};
    if (side_ == 0) leadLatency(lane(index), durationOf(options_.seconds * kLatencyShare));
    else followLatency(lane(index));
    return {};
  }

  void sendAlone(std::size_t index, std::size_t sender) {
    if (index >= pairCount() || side_ != sender || !works(index)) return;
    const Lane only = lane(index);
    measureBandwidth({&only, 1}, durationOf(options_.seconds), &Half::alone_gbytes);
  }

  Outcome<void> measureSlowAgain(const std::function<void(const std::string&)>& progress) {
    for (int repeat = 0; repeat < kRepeats; ++repeat) {
      if (auto shared = shareHalves(); !shared.ok()) return shared;
      const double limit = medianAlone() * kMeasureAgain;
      for (const auto& [index, side] : slowerThan(limit)) {
        progress("NIC pair " + std::to_string(index + 1) + " again");
        if (auto started = barrier(); !started.ok()) return started;
        if (index < pairCount() && ownHalf(index).alone_gbytes < limit) sendAlone(index, side);
      }
    }
    return {};
  }

  double medianAlone() const {
    std::vector<double> rates;
    forEachHalf([&](std::size_t, std::size_t, const Half& half) {
      if (half.alone_gbytes > 0) rates.push_back(half.alone_gbytes);
    });
    return medianOf(std::move(rates));
  }

  // The index of the pair and the side of the sender. All ends know all rates, so they agree which to repeat.
  std::set<std::pair<std::size_t, std::size_t>> slowerThan(double limit) const {
    std::set<std::pair<std::size_t, std::size_t>> slow;
    forEachHalf([&](std::size_t index, std::size_t side, const Half& half) {
      if (half.alone_gbytes > 0 && half.alone_gbytes < limit) slow.insert({index, side});
    });
    return slow;
  }

  template <typename Visit>
  void forEachHalf(Visit&& visit) const {
    for (const MatchState& state : matches_) {
      for (std::size_t index = 0; index < state.pairs.size(); ++index) {
        for (const std::size_t side : kSides) visit(index, side, state.pairs[index].halves[side]);
      }
    }
  }

  Outcome<void> measureTogether() {
    if (auto started = barrier(); !started.ok()) return started;
    const std::vector<Lane> lanes = ownLanes([this](std::size_t index) { return works(index); });
    measureBandwidth(lanes, durationOf(options_.seconds), &Half::together_gbytes);
    return {};
  }

  Outcome<void> barrier() {
    auto gathered = exchange_.allGather({});
    if (!gathered.ok()) return gathered.failure();
    return {};
  }

  // Gives the results of this end to all, and takes those of all, its own too: all ends must compute with the
  // same digits, since they decide from them what is measured again.
  Outcome<void> shareHalves() {
    std::vector<Half> halves;
    for (std::size_t index = 0; index < pairCount(); ++index) halves.push_back(ownHalf(index));
    auto gathered = exchange_.allGather(encodeHalves(halves));
    if (!gathered.ok()) return gathered.failure();
    for (MatchState& state : matches_) {
      for (const std::size_t side : kSides) {
        const std::size_t rank = state.match[side];
        const auto theirs = decodeHalves((*gathered)[rank]);
        if (!theirs || theirs->size() != state.pairs.size()) return garbled(ends_[rank].host);
        for (std::size_t index = 0; index < theirs->size(); ++index)
          state.pairs[index].halves[side] = (*theirs)[index];
      }
    }
    return {};
  }

  Exchange& exchange_;
  OpenEnd& end_;
  const MeasureOptions& options_;
  const std::vector<EndFacts>& ends_;
  std::vector<MatchState> matches_;
  MatchState* mine_ = nullptr;  // null: this end has a rest
  std::size_t side_ = 0;        // of the match: this end
  std::size_t most_pairs_ = 0;
  std::vector<std::unique_ptr<Endpoint>> endpoints_;
};

Outcome<std::vector<EndFacts>> shareFacts(Exchange& exchange, const OpenEnd& end) {
  auto gathered = exchange.allGather(encodeFacts(end.facts));
  if (!gathered.ok()) return gathered.failure();
  std::vector<EndFacts> ends;
  for (std::size_t rank = 0; rank < gathered->size(); ++rank) {
    auto facts = decodeFacts((*gathered)[rank]);
    if (!facts) return garbled("end " + std::to_string(rank));
    ends.push_back(std::move(*facts));
  }
  return ends;
}

// The pairs across rails of the matches of one round, as a round of their own.
std::vector<MatchState> acrossOf(const std::vector<MatchState>& ran, const std::vector<EndFacts>& ends,
                                 int subnet_bits) {
  std::vector<MatchState> matches;
  for (const MatchState& state : ran) {
    const Match& match = state.match;
    const auto works = [&](const NicPair& rail) {
      return std::ranges::any_of(state.pairs, [&](const PairResult& pair) {
        return pair.nics == rail.nics && pair.measured() && pair.halves[0].reach == Reach::kAll &&
               pair.halves[1].reach == Reach::kAll;
      });
    };
    std::vector<NicPair> rails = pairNics(ends[match[0]], ends[match[1]], false, subnet_bits);
    std::erase_if(rails, [&](const NicPair& rail) { return !works(rail); });
    matches.push_back({match, {}});
    for (const NicPair& nics : acrossRails(ends[match[0]], ends[match[1]], rails, subnet_bits))
      matches.back().pairs.push_back({nics, match, {}});
  }
  return matches;
}

// Two ends with one name would be one in the report.
void tellApart(std::vector<EndFacts>& ends) {
  std::set<std::string> seen;
  for (std::size_t rank = 0; rank < ends.size(); ++rank) {
    if (!seen.insert(ends[rank].host).second) ends[rank].host += " (end " + std::to_string(rank) + ")";
  }
}

// Leaves out the ends that measured nothing because another end of their host did, or because they only
// coordinated.
void dropIdle(Results& results, const std::vector<std::size_t>& measuring) {
  std::vector<std::size_t> place(results.ends.size(), 0);
  std::vector<EndFacts> kept;
  for (const std::size_t rank : measuring) {
    place[rank] = kept.size();
    kept.push_back(std::move(results.ends[rank]));
  }
  for (auto* const pairs : {&results.pairs, &results.across}) {
    for (PairResult& pair : *pairs) {
      for (std::size_t& end : pair.match) end = place[end];
    }
  }
  results.ends = std::move(kept);
}

}  // namespace

std::vector<std::size_t> measuringEnds(const std::vector<EndFacts>& ends) {
  std::set<std::string> hosts;
  std::vector<std::size_t> first;
  for (std::size_t rank = 0; rank < ends.size(); ++rank) {
    if (ends[rank].takes_part && hosts.insert(ends[rank].host).second) first.push_back(rank);
  }
  const bool alone = first.size() == 1 && ends.size() > first[0] + 1;
  if (alone && ends[first[0] + 1].takes_part) first.push_back(first[0] + 1);
  return first;
}

Outcome<Results> conduct(Exchange& exchange, OpenEnd& end, const MeasureOptions& options,
                         const std::function<void(const std::string&)>& progress) {
  const Clock::time_point begin = Clock::now();
  auto shared = shareFacts(exchange, end);
  if (!shared.ok()) return shared.failure();
  const std::vector<std::size_t> measuring = measuringEnds(*shared);
  const auto rounds = tournament(measuring);
  // Between two NICs of one host packets may never leave it.
  const bool one_host = measuring.size() == 2 && (*shared)[measuring[0]].host == (*shared)[measuring[1]].host;
  tellApart(*shared);
  Results results;
  results.ends = std::move(*shared);
  results.rounds = rounds.size();
  for (std::size_t number = 0; number < rounds.size(); ++number) {
    std::vector<MatchState> matches;
    for (const Match& match : rounds[number]) {
      matches.push_back({match, {}});
      const auto pairs =
          pairNics(results.ends[match[0]], results.ends[match[1]], options.full, options.subnet_bits);
      for (const NicPair& nics : pairs) matches.back().pairs.push_back({nics, match, {}});
    }
    Round round(exchange, end, options, results.ends, std::move(matches));
    const std::string prefix = rounds.size() == 1 ? ""
                                                  : "round " + std::to_string(number + 1) + " of " +
                                                        std::to_string(rounds.size()) + ": ";
    auto ran = round.run([&](const std::string& text) { progress(prefix + text); });
    if (!ran.ok()) return ran.failure();
    const std::vector<MatchState> done = round.take();
    for (const MatchState& state : done)
      results.pairs.insert(results.pairs.end(), state.pairs.begin(), state.pairs.end());
    // Every host is in a match of the first round, or of the first two.
    if (one_host || number > measuring.size() % 2) continue;
    progress(prefix + "do rails route to each other");
    Round across(exchange, end, options, results.ends, acrossOf(done, results.ends, options.subnet_bits));
    if (auto crossed = across.runReach(); !crossed.ok()) return crossed.failure();
    for (const MatchState& state : across.take())
      results.across.insert(results.across.end(), state.pairs.begin(), state.pairs.end());
  }
  dropIdle(results, measuring);
  results.seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  return results;
}

}  // namespace railwise::doctor::pair
