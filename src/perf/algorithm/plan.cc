#include "perf/algorithm/plan.h"

#include <bit>

namespace railwise::cli {
namespace {

int wrapped(int rank, int ranks) { return (rank % ranks + ranks) % ranks; }

// A transfer over the two neighbours on the ring, without the neighbour that its steps do not need.
Transfer ringTransfer(int rank, int ranks, std::vector<ChunkStep> steps) {
  Transfer transfer;
  for (const ChunkStep& step : steps) {
    if (step.send) transfer.to = wrapped(rank + 1, ranks);
    if (step.receive) transfer.from = wrapped(rank - 1, ranks);
  }
  transfer.steps = std::move(steps);
  return transfer;
}

// A block travels around the ring twice: first it is reduced, then the result is copied.
Transfer allReduce(int rank, int n) {
  std::vector<ChunkStep> steps;
  for (int s = 0; s <= 2 * n - 2; ++s)
    steps.push_back({.block = wrapped(rank - 1 - s, n),
                     .receive = s > 0,
                     .input = s <= n - 1,
                     .keep = s >= n - 1,
                     .send = s < 2 * n - 2});
  Transfer transfer = ringTransfer(rank, n, std::move(steps));
  transfer.cut = n;
  return transfer;
}

Transfer allGather(int rank, int n) {
  std::vector<ChunkStep> steps;
  for (int s = 0; s <= n - 1; ++s)
    steps.push_back(
        {.block = wrapped(rank - s, n), .receive = s > 0, .input = s == 0, .keep = true, .send = s < n - 1});
  return ringTransfer(rank, n, std::move(steps));
}

Transfer reduceScatter(int rank, int n) {
  std::vector<ChunkStep> steps;
  for (int s = 0; s <= n - 1; ++s)
    steps.push_back({.block = wrapped(rank - 1 - s, n),
                     .receive = s > 0,
                     .input = true,
                     .keep = s == n - 1,
                     .send = s < n - 1});
  return ringTransfer(rank, n, std::move(steps));
}

// The ring, open behind the rank before the root.
Transfer broadcast(int rank, int n, int root) {
  const int place = wrapped(rank - root, n);
  return ringTransfer(rank, n,
                      {{.receive = place > 0, .input = place == 0, .keep = true, .send = place < n - 1}});
}

// The ring, open behind the root.
Transfer reduceTo(int rank, int n, int root) {
  const int place = wrapped(rank - root - 1, n);
  return ringTransfer(rank, n,
                      {{.receive = place > 0, .input = true, .keep = place == n - 1, .send = place < n - 1}});
}

Transfer localCopy(int block) {
  Transfer transfer;
  transfer.steps = {{.block = block, .input = true, .keep = true}};
  return transfer;
}

Transfer sendTo(int peer, int block) {
  Transfer transfer;
  transfer.to = peer;
  transfer.steps = {{.block = block, .input = true, .send = true}};
  return transfer;
}

Transfer receiveFrom(int peer, int block) {
  Transfer transfer;
  transfer.from = peer;
  transfer.steps = {{.block = block, .receive = true, .keep = true}};
  return transfer;
}

// Sends one block and receives a block to the place of the block that is sent.
void addExchange(int to, int from, int block, Stage& stage) {
  stage.push_back(sendTo(to, block));
  stage.push_back(receiveFrom(from, block));
  stage.back().after_previous = true;
}

Stage sendRecv(int rank, int n) {
  if (n == 1) return {localCopy(0)};
  Stage stage;
  addExchange(wrapped(rank + 1, n), wrapped(rank - 1, n), 0, stage);
  return stage;
}

// Round k pairs rank r with rank (k - r) mod n, and that rank with r, so both ranks of a pair meet in the
// same round. So even with few pairs at a time, no two ranks wait for each other, also in place.
Stage allToAll(int rank, int n) {
  Stage stage;
  for (int round = 0; round < n; ++round) {
    const int partner = wrapped(round - rank, n);
    if (partner == rank) {
      stage.push_back(localCopy(rank));
    } else {
      addExchange(partner, partner, partner, stage);
    }
  }
  return stage;
}

Stage gather(int rank, int n, int root) {
  if (rank != root) return {sendTo(root, rank)};
  Stage stage = {localCopy(rank)};
  for (int k = 1; k < n; ++k) stage.push_back(receiveFrom(wrapped(rank + k, n), wrapped(rank + k, n)));
  return stage;
}

Stage scatter(int rank, int n, int root) {
  if (rank != root) return {receiveFrom(root, rank)};
  Stage stage = {localCopy(rank)};
  for (int k = 1; k < n; ++k) stage.push_back(sendTo(wrapped(rank + k, n), wrapped(rank + k, n)));
  return stage;
}

// In each stage a rank swaps all blocks that it has with a partner that has as many.
CollectivePlan hypercube(int rank, int n) {
  CollectivePlan plan = {{localCopy(rank)}};
  for (int width = 1; width < n; width *= 2) {
    const int own = rank & ~(width - 1);
    Stage stage = {sendTo(rank ^ width, own), receiveFrom(rank ^ width, own ^ width)};
    stage.front().from_output = true;
    for (Transfer& transfer : stage) transfer.width = width;
    plan.push_back(std::move(stage));
  }
  return plan;
}

// As sendRecv(), but also with one rank: it puts to itself.
Stage putToNext(int rank, int n) {
  return {sendTo(wrapped(rank + 1, n), 0), receiveFrom(wrapped(rank - 1, n), 0)};
}

CollectivePlan pingPong(int rank) {
  const int partner = rank ^ 1;
  const Stage send = {sendTo(partner, 0)};
  const Stage receive = {receiveFrom(partner, 0)};
  return rank < partner ? CollectivePlan{send, receive} : CollectivePlan{receive, send};
}

Stage putAllGather(int rank, int n) {
  Stage stage = {localCopy(rank)};
  for (int k = 1; k < n; ++k) {
    stage.push_back(sendTo(wrapped(rank + k, n), rank));
    stage.push_back(receiveFrom(wrapped(rank - k, n), wrapped(rank - k, n)));
  }
  return stage;
}

}  // namespace

CollectivePlan planOf(Collective collective, int rank, int ranks, int root) {
  switch (collective) {
    case Collective::kAllReduce:
      return {{allReduce(rank, ranks)}};
    case Collective::kAllGather:
      return {{allGather(rank, ranks)}};
    case Collective::kReduceScatter:
      return {{reduceScatter(rank, ranks)}};
    case Collective::kBroadcast:
      return {{broadcast(rank, ranks, root)}};
    case Collective::kReduce:
      return {{reduceTo(rank, ranks, root)}};
    case Collective::kSendRecv:
      return {sendRecv(rank, ranks)};
    case Collective::kAllToAll:
      return {allToAll(rank, ranks)};
    case Collective::kGather:
      return {gather(rank, ranks, root)};
    case Collective::kScatter:
      return {scatter(rank, ranks, root)};
    case Collective::kHypercube:
      return hypercube(rank, ranks);
    case Collective::kPut:
    case Collective::kPutSignal:
    case Collective::kGet:
      return {putToNext(rank, ranks)};
    case Collective::kSignalPingPong:
      return pingPong(rank);
    case Collective::kPutAllGather:
      return {putAllGather(rank, ranks)};
    case Collective::kPutAllToAll:
      return {allToAll(rank, ranks)};
  }
  return {};
}

int mostPeers(Collective collective, int ranks) {
  if (collective == Collective::kHypercube)
    return static_cast<int>(std::bit_width(static_cast<unsigned>(ranks))) - 1;
  if (!traitsOf(collective).ring && blocksOf(collective, 2) > 1) return ranks - 1;
  return ranks > 1 || isOneSided(collective) ? 1 : 0;
}

}  // namespace railwise::cli
