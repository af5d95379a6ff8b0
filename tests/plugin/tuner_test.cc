// The tuner's tables of all versions, found as NCCL finds them. Every test runs in a process of its own
// (ctest).
#include <dlfcn.h>

#include <optional>
#include <thread>
#include <vector>

#include "api.h"
#include "nccl/tuner_v2.h"
#include "nccl/tuner_v3.h"
#include "nccl/tuner_v4.h"
#include "nccl/tuner_v5.h"
#include "nccl/tuner_v6.h"
#include "tests/ok.h"
#include "tests/scratch.h"

namespace railwise::test {
namespace {

constexpr int kAlgorithms = 7;
constexpr int kProtocols = 3;

// What NCCL asks, and what it does with the answer.
struct Asked {
  ncclFunc_t collective = ncclFuncAllReduce;
  size_t bytes = 1024;
  int pipe_ops = 1;
  bool registered = false;
};
struct Answer {
  int algorithm = NCCL_ALGO_RING;  // NCCL's own choice, see times()
  int protocol = NCCL_PROTO_SIMPLE;
  int channels = 0;
  bool operator==(const Answer&) const = default;
};

// Times as NCCL fills them in on a machine without NVLS and CollNet: ring/simple is the fastest.
using Times = std::array<std::array<float, kProtocols>, kAlgorithms>;
Times times() {
  Times its;
  for (auto& row : its) row.fill(NCCL_ALGO_PROTO_IGNORE);
  its[NCCL_ALGO_TREE] = {30, 25, 35};
  its[NCCL_ALGO_RING] = {40, 50, 20};
  return its;
}

template <int V>
struct TunerTable;
#define RAILWISE_TUNER_TYPE(v)       \
  template <>                        \
  struct TunerTable<v> {             \
    using Type = ncclTuner_v##v##_t; \
  }
RAILWISE_TUNER_TYPE(2);
RAILWISE_TUNER_TYPE(3);
RAILWISE_TUNER_TYPE(4);
RAILWISE_TUNER_TYPE(5);
RAILWISE_TUNER_TYPE(6);
#undef RAILWISE_TUNER_TYPE

template <int V>
struct TunerApi {
  static constexpr int kVersion = V;
  using Table = typename TunerTable<V>::Type;

  // Null: NCCL finds no tuner.
  static const Table* table() {
    return static_cast<const Table*>(dlsym(openPlugin(), ("ncclTunerPlugin_v" + std::to_string(V)).c_str()));
  }
  static ncclResult_t init(void** context, size_t ranks = 16, size_t nodes = 2) {
    if constexpr (V >= 5) {
      ncclNvlDomainInfo_v5_t domains = {2, 8, 8};
      ncclTunerConstants_v5_t constants = {};
      return table()->init(context, 7, ranks, nodes, keepLog, &domains, &constants);
    } else {
      return table()->init(ranks, nodes, keepLog, context);
    }
  }
  static ncclResult_t finalize(void* context) {
    if constexpr (V >= 5) return table()->finalize(context);
    else return table()->destroy(context);
  }
  static Answer ask(void* context, const Asked& asked) {
    Answer answer;
    if constexpr (V == 2) {
      EXPECT_EQ(table()->getCollInfo(context, asked.collective, asked.bytes, 0, 0, asked.pipe_ops,
                                     &answer.algorithm, &answer.protocol, &answer.channels),
                ncclSuccess);
      return answer;
    } else {
      Times its = times();
      auto** const costs = reinterpret_cast<float**>(its.data());
      if constexpr (V == 3)
        EXPECT_EQ(table()->getCollInfo(context, asked.collective, asked.bytes, asked.pipe_ops, costs,
                                       kAlgorithms, kProtocols, &answer.channels),
                  ncclSuccess);
      else
        EXPECT_EQ(table()->getCollInfo(context, asked.collective, asked.bytes, asked.pipe_ops, costs,
                                       kAlgorithms, kProtocols, asked.registered ? 1 : 0, &answer.channels),
                  ncclSuccess);
      float best = 1e9F;
      for (int algorithm = 0; algorithm < kAlgorithms; ++algorithm)
        for (int protocol = 0; protocol < kProtocols; ++protocol)
          if (const float time = its[algorithm][protocol]; time >= 0 && time < best) {
            best = time;
            answer.algorithm = algorithm;
            answer.protocol = protocol;
          }
      return answer;
    }
  }
};

// A tuner of one communicator, with a file of this text.
template <typename A>
class Tuned {
 public:
  explicit Tuned(const std::string& text, size_t ranks = 16, size_t nodes = 2)
      : file_(scratch_.file("t.csv", text)), setting_("RAILWISE_TUNER_CONFIG", file_) {
    clearLog();
    EXPECT_EQ(A::init(&context_, ranks, nodes), ncclSuccess) << warnings();
  }
  ~Tuned() { EXPECT_EQ(A::finalize(context_), ncclSuccess); }
  Tuned(const Tuned&) = delete;
  Tuned& operator=(const Tuned&) = delete;
  Answer ask(const Asked& asked = {}) const { return A::ask(context_, asked); }

 private:
  Scratch scratch_;
  std::string file_;
  Setting setting_;
  void* context_ = nullptr;
};

template <typename A>
class TunerTest : public testing::Test {};
using TunerVersions = testing::Types<TunerApi<2>, TunerApi<3>, TunerApi<4>, TunerApi<5>, TunerApi<6>>;
TYPED_TEST_SUITE(TunerTest, TunerVersions, VersionName);

TYPED_TEST(TunerTest, NcclFindsNoTunerWithoutTheSetting) {
  {
    const Setting off("RAILWISE_TUNER_CONFIG", "");
    EXPECT_EQ(TypeParam::table(), nullptr);
  }
  const Setting on("RAILWISE_TUNER_CONFIG", "/tmp/t.csv");
  ASSERT_NE(TypeParam::table(), nullptr);
  EXPECT_STREQ(TypeParam::table()->name, "Railwise");
}

TYPED_TEST(TunerTest, ARowChangesAlgorithmProtocolAndChannels) {
  const Tuned<TypeParam> tuned("allreduce,0,65536,tree,ll,2,-1,-1\n");
  EXPECT_EQ(tuned.ask(), (Answer{NCCL_ALGO_TREE, NCCL_PROTO_LL, 2}));
}

TYPED_TEST(TunerTest, WithoutChannelsNcclsNumberStays) {
  const Tuned<TypeParam> tuned("allreduce,0,65536,tree,ll,-1,-1,-1\n");
  EXPECT_EQ(tuned.ask(), (Answer{NCCL_ALGO_TREE, NCCL_PROTO_LL, 0}));
}

TYPED_TEST(TunerTest, WhatNoRowFitsStays) {
  const Tuned<TypeParam> tuned("allreduce,0,1023,tree,ll,2,-1,-1\nallreduce,0,65536,tree,ll,2,3,-1\n");
  EXPECT_EQ(tuned.ask(), Answer{});
  EXPECT_EQ(tuned.ask({ncclFuncAllGather, 8}), Answer{});
}

TYPED_TEST(TunerTest, WhatNcclDoesNotOfferStays) {
  const Tuned<TypeParam> tuned(
      "allreduce,0,65536,nvls,simple,2,-1,-1\nallreduce,0,65536,pat,simple,2,-1,-1\n");
  EXPECT_EQ(tuned.ask(), Answer{});
  EXPECT_EQ(warnings(), "");
}

TYPED_TEST(TunerTest, ACollectiveThatATunerIsNotAskedForStays) {
  const Tuned<TypeParam> tuned("allreduce,0,65536,tree,ll,2,-1,-1\n");
  EXPECT_EQ(tuned.ask({static_cast<ncclFunc_t>(8), 8}), Answer{});
}

TYPED_TEST(TunerTest, CommunicatorsOfOneProcessDoNotMeet) {
  const Tuned<TypeParam> small("allreduce,0,65536,tree,ll,-1,-1,8\n", 8, 1);
  const Tuned<TypeParam> large("allreduce,0,65536,tree,ll,-1,-1,8\n", 16, 2);
  EXPECT_EQ(small.ask().algorithm, NCCL_ALGO_TREE);
  EXPECT_EQ(large.ask().algorithm, NCCL_ALGO_RING);
}

TYPED_TEST(TunerTest, AProcessReadsAFileOnce) {
  const Scratch scratch;
  const Setting file("RAILWISE_TUNER_CONFIG", scratch.file("t.csv", "allreduce,0,65536,tree,ll,-1,-1,-1\n"));
  for (int communicator = 0; communicator < 2; ++communicator) {
    void* context = nullptr;
    ASSERT_EQ(TypeParam::init(&context), ncclSuccess);
    EXPECT_EQ(TypeParam::ask(context, {}).algorithm, NCCL_ALGO_TREE);
    EXPECT_EQ(TypeParam::finalize(context), ncclSuccess);
    scratch.file("t.csv", "half a fi");  // the user edits it for the next job
  }
}

TYPED_TEST(TunerTest, AFileWithAMistakeMakesNoCommunicator) {
  const Scratch scratch;
  const std::string path =
      scratch.file("t.csv", "allreduce,0,1,ring,ll,-1,-1,-1\nallreduce,0,1,treee,ll,-1,-1,-1\n");
  const Setting file("RAILWISE_TUNER_CONFIG", path);
  clearLog();
  void* context = kStale;
  EXPECT_EQ(TypeParam::init(&context), ncclInvalidUsage);
  EXPECT_EQ(context, nullptr);
  EXPECT_HAS(warnings(), "RAILWISE_TUNER_CONFIG: " + path + ":2:15: 'treee' is no algorithm");
  EXPECT_EQ(TypeParam::finalize(context), ncclSuccess) << "NCCL calls it after an init that failed";
}

TYPED_TEST(TunerTest, AFileThatIsMissingMakesNoCommunicator) {
  const Setting file("RAILWISE_TUNER_CONFIG", "/no/such.csv");
  clearLog();
  void* context = nullptr;
  EXPECT_EQ(TypeParam::init(&context), ncclInvalidUsage);
  EXPECT_HAS(warnings(), "/no/such.csv: cannot be opened: No such file or directory");
}

TYPED_TEST(TunerTest, CommunicatorsInSeveralThreads) {
  const Scratch scratch;
  const Setting file(
      "RAILWISE_TUNER_CONFIG",
      scratch.file("t.csv", "allreduce,0,65536,tree,ll,2,-1,-1\nallgather,0,9,ring,ll,-1,-1,-1\n"));
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([] {
      for (int communicator = 0; communicator < 20; ++communicator) {
        void* context = nullptr;
        ASSERT_EQ(TypeParam::init(&context), ncclSuccess);
        for (int call = 0; call < 20; ++call) EXPECT_EQ(TypeParam::ask(context, {}).channels, 2);
        EXPECT_EQ(TypeParam::finalize(context), ncclSuccess);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(TunerVersion, RegistrationIsKnownFromVersion4) {
  const std::string text = "allreduce,0,65536,tree,ll,-1,-1,-1,-1,1\n";
  EXPECT_EQ(Tuned<TunerApi<4>>(text).ask({ncclFuncAllReduce, 8, 1, true}).algorithm, NCCL_ALGO_TREE);
  EXPECT_EQ(Tuned<TunerApi<4>>(text).ask({ncclFuncAllReduce, 8, 1, false}).algorithm, NCCL_ALGO_RING);
  EXPECT_EQ(Tuned<TunerApi<3>>(text).ask({ncclFuncAllReduce, 8, 1, true}).algorithm, NCCL_ALGO_RING);
}

// Version 2 has no table that tells where LL128 would corrupt data.
TEST(TunerVersion, Version2NeverTakesLl128) {
  const std::string text = "allreduce,0,65536,tree,ll128,-1,-1,-1\n";
  EXPECT_EQ(Tuned<TunerApi<2>>(text).ask(), Answer{});
  EXPECT_EQ(Tuned<TunerApi<3>>(text).ask().protocol, NCCL_PROTO_LL128);
}

// A release with fewer algorithms than ours has a smaller table.
TEST(TunerVersion, ASmallTableIsNotOverrun) {
  const Scratch scratch;
  const Setting file("RAILWISE_TUNER_CONFIG",
                     scratch.file("t.csv", "allgather,0,65536,pat,simple,2,-1,-1\n"));
  void* context = nullptr;
  ASSERT_EQ(TunerApi<3>::init(&context), ncclSuccess);
  std::vector<float> table(6 * 3, 1.0F);  // NCCL 2.22: no PAT
  int channels = 0;
  EXPECT_EQ(TunerApi<3>::table()->getCollInfo(context, ncclFuncAllGather, 8, 1,
                                              reinterpret_cast<float**>(table.data()), 6, 3, &channels),
            ncclSuccess);
  EXPECT_EQ(channels, 0);
  EXPECT_EQ(table, std::vector<float>(6 * 3, 1.0F));
  EXPECT_EQ(TunerApi<3>::finalize(context), ncclSuccess);
}

}  // namespace
}  // namespace railwise::test
