// The collectives' state machines, all ranks in one thread over a net in memory: every number of ranks, sizes
// that do not divide, slots far smaller than the data.
#include "perf/collective/task.h"

#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <functional>
#include <map>

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
};

constexpr std::size_t kSlotBytes = 256;

struct Job {
  explicit Job(int ranks) : size(ranks), buffers(static_cast<std::size_t>(ranks)) {
    for (int rank = 0; rank < ranks; ++rank) nets.push_back(std::make_unique<NetContext>(net, failure, rank));
  }
  ~Job() {
    for (auto& [key, link] : sends) EXPECT_OK(link->close());
    for (auto& [key, link] : receives) EXPECT_OK(link->close());
    EXPECT_EQ(net.regions, 0);
  }
  SendLink& to(int rank, int peer) {
    auto& link = sends[{rank, peer}];
    if (link == nullptr) {
      link = std::make_unique<SendLink>(*nets[static_cast<std::size_t>(rank)], peer, kSlotBytes,
                                        &wires[{rank, peer}]);
      EXPECT_OK(link->open());
    }
    return *link;
  }
  RecvLink& from(int rank, int peer) {
    auto& link = receives[{rank, peer}];
    if (link == nullptr) {
      link = std::make_unique<RecvLink>(*nets[static_cast<std::size_t>(rank)], peer, kSlotBytes,
                                        &wires[{peer, rank}]);
      EXPECT_OK(link->open());
    }
    return *link;
  }
  // Runs all to the end, in an order that changes; false when one fails.
  bool run(const std::vector<std::unique_ptr<Task>>& tasks) {
    for (const auto& task : tasks) task->start();
    for (std::size_t round = 0; round < 1'000'000; ++round) {
      bool all_done = true;
      for (std::size_t i = 0; i < tasks.size(); ++i) {
        Task& task = *tasks[(i * (1 + round % 2) + round) % tasks.size()];
        if (task.done()) continue;
        all_done = false;
        if (!task.advance().ok()) return false;
      }
      if (!all_done) continue;
      bool none_left = true;
      for (const auto& task : tasks) none_left = none_left && task->done();
      if (none_left) return true;
    }
    ADD_FAILURE() << "the tasks do not end";
    return false;
  }

  int size;
  MemoryNet net;
  FailureNote failure;
  std::vector<std::unique_ptr<NetContext>> nets;
  std::map<std::pair<int, int>, Wire> wires;
  std::map<std::pair<int, int>, std::unique_ptr<SendLink>> sends;
  std::map<std::pair<int, int>, std::unique_ptr<RecvLink>> receives;
  std::vector<std::vector<int32_t>> buffers;
};

void checkRing(int ranks, std::size_t count, bool in_place) {
  SCOPED_TRACE(testing::Message() << ranks << " ranks, " << count << " elements, in place " << in_place);
  Job job(ranks);
  const ReduceValues values{DataType::kInt32, ReduceOp::kSum, ranks, 11};
  std::vector<std::vector<int32_t>> outputs(job.buffers.size(), std::vector<int32_t>(count, -1));
  std::vector<std::unique_ptr<Task>> tasks;
  for (int rank = 0; rank < ranks; ++rank) {
    auto& input = job.buffers[static_cast<std::size_t>(rank)];
    auto& output = outputs[static_cast<std::size_t>(rank)];
    input.resize(count);
    fillInput(values, rank, 0, std::as_writable_bytes(std::span(in_place ? output : input)));
    RingPlan plan{
        .rank = rank, .size = ranks, .part = {0, count}, .type = DataType::kInt32, .op = ReduceOp::kSum};
    plan.output = reinterpret_cast<std::byte*>(output.data());
    plan.input = in_place ? plan.output : reinterpret_cast<const std::byte*>(input.data());
    tasks.push_back(
        makeRing(plan, job.to(rank, (rank + 1) % ranks), job.from(rank, (rank + ranks - 1) % ranks)));
  }
  ASSERT_TRUE(job.run(tasks)) << job.failure.text();
  std::vector<int32_t> expected(count);
  fillReduced(values, 0, std::as_writable_bytes(std::span(expected)));
  for (const auto& output : outputs) EXPECT_EQ(output, expected);
}

TEST(Ring, ReducesForAllRanksAndCounts) {
  for (const int ranks : {2, 3, 4, 7}) {
    for (const std::size_t count : {1ul, 2ul, 15ul, 16ul, 17ul, 64ul, 449ul, 5000ul}) {
      checkRing(ranks, count, false);
      checkRing(ranks, count, true);
    }
  }
}

TEST(Ring, RunsAgainOverTheSameLinks) {
  Job job(3);
  std::vector<std::unique_ptr<Task>> tasks;
  for (int rank = 0; rank < 3; ++rank) {
    auto& buffer = job.buffers[static_cast<std::size_t>(rank)];
    buffer.assign(1000, 1);
    RingPlan plan{.rank = rank, .size = 3, .part = {0, 1000}, .type = DataType::kInt32, .op = ReduceOp::kSum};
    plan.output = reinterpret_cast<std::byte*>(buffer.data());
    plan.input = plan.output;
    tasks.push_back(makeRing(plan, job.to(rank, (rank + 1) % 3), job.from(rank, (rank + 2) % 3)));
  }
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(job.run(tasks));
  for (const auto& buffer : job.buffers) EXPECT_EQ(buffer, std::vector<int32_t>(1000, 27));
}

TEST(Ring, AMessageOfAnotherSizeFails) {
  Job job(2);
  job.net.shorten = true;
  std::vector<std::unique_ptr<Task>> tasks;
  for (int rank = 0; rank < 2; ++rank) {
    auto& buffer = job.buffers[static_cast<std::size_t>(rank)];
    buffer.assign(100, 1);
    RingPlan plan{.rank = rank, .size = 2, .part = {0, 100}, .type = DataType::kInt32, .op = ReduceOp::kSum};
    plan.output = reinterpret_cast<std::byte*>(buffer.data());
    plan.input = plan.output;
    tasks.push_back(makeRing(plan, job.to(rank, 1 - rank), job.from(rank, 1 - rank)));
  }
  EXPECT_FALSE(job.run(tasks));
  EXPECT_NE(job.failure.text().find("instead of one of"), std::string::npos) << job.failure.text();
}

void checkExchange(std::size_t bytes, bool in_place) {
  SCOPED_TRACE(testing::Message() << bytes << " bytes, in place " << in_place);
  constexpr int kRanks = 3;
  Job job(kRanks);
  std::vector<std::vector<std::byte>> sent(kRanks);
  std::vector<std::vector<std::byte>> received(kRanks);
  std::vector<std::unique_ptr<Task>> tasks;
  for (int rank = 0; rank < kRanks; ++rank) {
    auto& from = sent[static_cast<std::size_t>(rank)];
    auto& to = received[static_cast<std::size_t>(rank)];
    from.resize(bytes);
    fillMessage(DataType::kInt8, 5, rank, (rank + 1) % kRanks, 0, from);
    to = in_place ? from : std::vector<std::byte>(bytes);
    tasks.push_back(makeExchange({.send = in_place ? to.data() : from.data(),
                                  .receive = to.data(),
                                  .bytes = bytes,
                                  .empty_message = true,
                                  .in_place = in_place},
                                 job.to(rank, (rank + 1) % kRanks), job.from(rank, (rank + 2) % kRanks)));
  }
  ASSERT_TRUE(job.run(tasks)) << job.failure.text();
  for (int rank = 0; rank < kRanks; ++rank)
    EXPECT_EQ(received[static_cast<std::size_t>(rank)], sent[static_cast<std::size_t>((rank + 2) % kRanks)]);
}

TEST(Exchange, MovesEverySizeOutOfPlaceAndInPlace) {
  for (const std::size_t bytes : {0ul, 1ul, 255ul, 256ul, 257ul, 10'000ul}) {
    checkExchange(bytes, false);
    checkExchange(bytes, true);
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
