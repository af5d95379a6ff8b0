// Every collective, all ranks in one thread over a net in memory: every number of ranks, sizes that do not
// divide, slots far smaller than the data. Every element of every output is compared.
#include "perf/collective/task.h"

#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <functional>
#include <map>

#include "perf/algorithm/contents.h"
#include "tests/ok.h"

namespace railwise::cli {
namespace {

// One wire per comm pointer; the sender's and the receiver's comm are the same object.
struct Wire {
  std::deque<std::vector<std::byte>> messages;
};
struct Pending {
  Wire* wire;
  void* data;
  std::size_t bytes;
  bool receive;
};

class MemoryNet final : public NetApi {
 public:
  MemoryNet() : NetApi(kNewestApi) {}
  const char* name() const override { return "Memory"; }
  ncclResult_t init(uint64_t, ncclDebugLogger_t) override { return ncclSuccess; }
  ncclResult_t devices(int* count) override { return *count = 1, ncclSuccess; }
  ncclResult_t getProperties(int, NetProperties*) override { return ncclSuccess; }
  ncclResult_t listen(int, void*, void**) override { return ncclInternalError; }
  ncclResult_t connect(int, void*, void**) override { return ncclInternalError; }
  ncclResult_t accept(void*, void**) override { return ncclInternalError; }
  ncclResult_t regMr(void*, void*, std::size_t, int, void** mhandle) override {
    return *mhandle = this, ++regions, ncclSuccess;
  }
  ncclResult_t deregMr(void*, void*) override { return --regions, ncclSuccess; }
  ncclResult_t isend(void* comm, void* data, std::size_t bytes, int, void*, void** request) override {
    *request = nullptr;
    if (++calls % 3 == 0) return ncclSuccess;  // not now
    const auto* from = static_cast<const std::byte*>(data);
    static_cast<Wire*>(comm)->messages.emplace_back(from, from + bytes);
    *request = &requests.emplace_back(Pending{static_cast<Wire*>(comm), nullptr, bytes, false});
    return ncclSuccess;
  }
  ncclResult_t irecvGroup(void* comm, std::span<const Buffer> buffers, void** request) override {
    *request =
        &requests.emplace_back(Pending{static_cast<Wire*>(comm), buffers[0].data, buffers[0].bytes, true});
    return ncclSuccess;
  }
  ncclResult_t test(void* request, int* done, int* bytes) override {
    auto* pending = static_cast<Pending*>(request);
    *done = 0;
    if (pending->receive) {
      auto& messages = pending->wire->messages;
      if (messages.empty()) return ncclSuccess;
      EXPECT_LE(messages.front().size(), pending->bytes);
      pending->bytes = messages.front().size();
      if (pending->bytes > 0) std::memcpy(pending->data, messages.front().data(), pending->bytes);
      if (pending->bytes > 0 && corrupt-- == 0) *static_cast<std::byte*>(pending->data) ^= std::byte{1};
      messages.pop_front();
      if (shorten && pending->bytes > 0) --pending->bytes;
    }
    *done = 1;
    *bytes = static_cast<int>(pending->bytes);
    return ncclSuccess;
  }
  ncclResult_t closeSend(void*) override { return ncclSuccess; }
  ncclResult_t closeRecv(void*) override { return ncclSuccess; }
  ncclResult_t closeListen(void*) override { return ncclSuccess; }
  ncclResult_t finalize() override { return ncclSuccess; }

  std::deque<Pending> requests;
  int regions = 0;
  int calls = 0;
  bool shorten = false;
  int corrupt = -1;  // the number of the received message that gets a wrong bit; below 0: none
};

constexpr std::size_t kSlotBytes = 256;

struct Job {
  explicit Job(int ranks) : size(ranks) {
    for (int rank = 0; rank < ranks; ++rank) nets.push_back(NetContext{{failure, gate, rank, received}, net});
  }
  ~Job() {
    for (auto& [key, link] : sends) EXPECT_OK(link->close());
    for (auto& [key, link] : receives) EXPECT_OK(link->close());
    EXPECT_EQ(net.regions, 0);
  }
  SendLink& to(int rank, int peer) {
    auto& link = sends[{rank, peer}];
    if (link == nullptr) {
      link = std::make_unique<SendLink>(nets[static_cast<std::size_t>(rank)], peer, kSlotBytes,
                                        &wires[{rank, peer}]);
      EXPECT_OK(link->open());
    }
    return *link;
  }
  RecvLink& from(int rank, int peer) {
    auto& link = receives[{rank, peer}];
    if (link == nullptr) {
      link = std::make_unique<RecvLink>(nets[static_cast<std::size_t>(rank)], peer, kSlotBytes,
                                        &wires[{peer, rank}]);
      EXPECT_OK(link->open());
    }
    return *link;
  }

  int size;
  MemoryNet net;
  FailureNote failure;
  CallGate gate;
  std::atomic<uint64_t> received = 0;
  std::deque<NetContext> nets;
  std::map<std::pair<int, int>, Wire> wires;
  std::map<std::pair<int, int>, std::unique_ptr<SendLink>> sends;
  std::map<std::pair<int, int>, std::unique_ptr<RecvLink>> receives;
};

// One rank: its buffers, and the stages of its plan.
class TestRank {
 public:
  TestRank(Job& job, Collective collective, const Variant& variant, int rank, uint64_t count, bool in_place)
      : contents_(collective, variant, rank, job.size, count, in_place, 11),
        type_(variant.type),
        send_(contents_.bytes()),
        receive_(contents_.bytes()) {
    auto& in_buffer = in_place ? receive_ : send_;
    input_ = std::span(in_buffer).subspan(contents_.inputAt(), contents_.inputBytes());
    output_ = std::span(receive_).subspan(contents_.outputAt(), contents_.outputBytes());
    contents_.fillOutput(output_);
    contents_.fillInput(input_);
    TaskPlan plan{.input = {input_.data(), contents_.firstInput()},
                  .output = {output_.data(), contents_.firstOutput()},
                  .block = count,
                  .type = variant.type,
                  .op = variant.op,
                  .ranks = job.size,
                  .empty_message = traitsOf(collective).empty_message};
    for (const Stage& stage : planOf(collective, rank, job.size, variant.root)) {
      Tasks tasks;
      const TransferTask* last = nullptr;
      for (const Transfer& transfer : stage) {
        plan.transfer = transfer;
        plan.part = {0, count * static_cast<std::size_t>(transfer.width)};
        const bool waits = in_place && transfer.after_previous;
        auto task = std::make_unique<TransferTask>(
            plan, transfer.to < 0 ? nullptr : &job.to(rank, transfer.to),
            transfer.from < 0 ? nullptr : &job.from(rank, transfer.from), waits ? last : nullptr);
        last = task.get();
        tasks.push_back(std::move(task));
      }
      stages_.push_back(std::move(tasks));
    }
  }

  void start() {
    stage_ = 0;
    startStage();
  }
  bool done() const { return stage_ == stages_.size(); }
  // Takes the tasks in an order that changes with `round`. False: a task failed.
  bool advance(std::size_t round) {
    Tasks& tasks = stages_[stage_];
    bool all_done = true;
    for (std::size_t i = 0; i < tasks.size(); ++i) {
      Task& task = *tasks[(i + round) % tasks.size()];
      if (!task.done() && !task.advance().ok()) return false;
      all_done = all_done && task.done();
    }
    if (all_done && ++stage_ < stages_.size()) startStage();
    return true;
  }

  uint64_t wrong() const {
    std::vector<std::byte> expected(output_.size());
    contents_.fillExpected(0, expected);
    Wrong wrong;
    compare(type_, expected, output_, 0, wrong);
    return wrong.count;
  }

 private:
  void startStage() {
    for (const auto& task : stages_[stage_]) task->start();
  }

  const Contents contents_;
  const DataType type_;
  std::vector<std::byte> send_;
  std::vector<std::byte> receive_;
  std::span<std::byte> input_;
  std::span<std::byte> output_;
  std::vector<Tasks> stages_;
  std::size_t stage_ = 0;
};

std::vector<std::unique_ptr<TestRank>> makeRanks(Job& job, Collective collective, const Variant& variant,
                                                 uint64_t count, bool in_place) {
  std::vector<std::unique_ptr<TestRank>> ranks;
  for (int rank = 0; rank < job.size; ++rank)
    ranks.push_back(std::make_unique<TestRank>(job, collective, variant, rank, count, in_place));
  return ranks;
}

// Runs all ranks to the end, in an order that changes. False: a task failed.
bool run(const std::vector<std::unique_ptr<TestRank>>& ranks) {
  for (const auto& rank : ranks) rank->start();
  for (std::size_t round = 0; round < 1'000'000; ++round) {
    bool all_done = true;
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      TestRank& rank = *ranks[(i * (1 + round % 2) + round) % ranks.size()];
      if (rank.done()) continue;
      all_done = false;
      if (!rank.advance(round)) return false;
    }
    if (!all_done) continue;
    bool none_left = true;
    for (const auto& rank : ranks) none_left = none_left && rank->done();
    if (none_left) return true;
  }
  ADD_FAILURE() << "the ranks do not end";
  return false;
}

uint64_t wrongOf(const std::vector<std::unique_ptr<TestRank>>& ranks) {
  uint64_t wrong = 0;
  for (const auto& rank : ranks) wrong += rank->wrong();
  return wrong;
}

std::vector<int> rootsOf(Collective collective, int ranks) {
  if (!traitsOf(collective).rooted) return {-1};
  return ranks > 1 ? std::vector<int>{0, ranks - 1} : std::vector<int>{0};
}

class EveryCollective : public testing::TestWithParam<Collective> {};

TEST_P(EveryCollective, GivesEachRankItsDataForAllRanksAndCounts) {
  const Collective collective = GetParam();
  for (const int ranks : {1, 2, 3, 4, 7, 8}) {
    if (impossibleWith(collective, ranks) != nullptr) continue;
    for (const int root : rootsOf(collective, ranks)) {
      for (const uint64_t count : {0ul, 1ul, 15ul, 16ul, 17ul, 64ul, 449ul, 1000ul}) {
        for (const bool in_place : {false, true}) {
          SCOPED_TRACE(testing::Message() << ranks << " ranks, root " << root << ", " << count
                                          << " elements, in place " << in_place);
          Job job(ranks);
          const auto all =
              makeRanks(job, collective, {DataType::kInt32, ReduceOp::kSum, root}, count, in_place);
          ASSERT_TRUE(run(all)) << job.failure.text();
          EXPECT_EQ(wrongOf(all), 0u);
        }
      }
    }
  }
}

TEST_P(EveryCollective, RunsAgainOverItsConnections) {
  Job job(4);
  const auto all = makeRanks(job, GetParam(), {DataType::kFloat, ReduceOp::kMax, 1}, 500, false);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(run(all));
  EXPECT_EQ(wrongOf(all), 0u);
}

TEST_P(EveryCollective, OneWrongBitIsFound) {
  for (const bool in_place : {false, true}) {
    Job job(4);
    job.net.corrupt = 3;
    const auto all = makeRanks(job, GetParam(), {DataType::kInt32, ReduceOp::kSum, 1}, 500, in_place);
    ASSERT_TRUE(run(all)) << job.failure.text();
    EXPECT_GT(wrongOf(all), 0u);
  }
}

TEST_P(EveryCollective, ARunThatDoesNothingIsFound) {
  Job job(4);
  uint64_t wrong = 0;
  for (const auto& rank : makeRanks(job, GetParam(), {DataType::kInt32, ReduceOp::kSum, 1}, 50, false))
    wrong += rank->wrong();
  EXPECT_GE(wrong, 50u);
}

TEST_P(EveryCollective, AMessageOfAnotherSizeFails) {
  Job job(2);
  job.net.shorten = true;
  const auto all = makeRanks(job, GetParam(), {DataType::kInt32, ReduceOp::kSum, 0}, 100, false);
  EXPECT_FALSE(run(all));
  EXPECT_HAS(job.failure.text(), "instead of one of");
}

INSTANTIATE_TEST_SUITE_P(Task, EveryCollective,
                         testing::Values(Collective::kAllReduce, Collective::kAllGather,
                                         Collective::kReduceScatter, Collective::kBroadcast,
                                         Collective::kReduce, Collective::kSendRecv, Collective::kAllToAll,
                                         Collective::kGather, Collective::kScatter, Collective::kHypercube),
                         [](const auto& test) { return std::string(collectiveName(test.param)); });

TEST(Task, EveryReductionOfEveryTypeIsExact) {
  for (const Collective collective :
       {Collective::kAllReduce, Collective::kReduceScatter, Collective::kReduce}) {
    for (const DataType type : {DataType::kUint8, DataType::kHalf, DataType::kBFloat16, DataType::kDouble}) {
      for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kProd, ReduceOp::kMin, ReduceOp::kAvg}) {
        Job job(3);
        const auto all = makeRanks(job, collective, {type, op, 2}, 300, false);
        ASSERT_TRUE(run(all)) << job.failure.text();
        EXPECT_EQ(wrongOf(all), 0u) << collectiveName(collective) << " " << static_cast<int>(type) << " "
                                    << static_cast<int>(op);
      }
    }
  }
}

TEST(SplitParts, CoversAllInGranules) {
  const auto parts = splitParts(1000, 3, 64);
  std::size_t next = 0;
  for (const Part& part : parts) {
    EXPECT_EQ(part.first, next);
    next += part.count;
  }
  EXPECT_EQ(next, 1000u);
  EXPECT_EQ(parts[0].count % 64, 0u);
  EXPECT_EQ(splitParts(10, 4, 64)[0].count, 10u);
  EXPECT_EQ(splitParts(10, 4, 64)[1].count, 0u);
  EXPECT_EQ(splitParts(0, 2, 64)[0].count, 0u);
}

}  // namespace
}  // namespace railwise::cli
