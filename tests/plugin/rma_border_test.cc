// What the tables of one-sided communication refuse, and in which orders they let go: before any byte moves.
#include "rma_api.h"
#include "tests/ok.h"

namespace railwise::test {
namespace {

template <typename A>
class RmaBorderTest : public testing::Test {
 protected:
  RmaBorderTest() {
    useDevice();
    clearLog();
  }
  void expectWarning(const std::string& text) {
    EXPECT_HAS(warnings(), text) << "no \"" << text << "\" in:\n";
    clearLog();
  }
};
TYPED_TEST_SUITE(RmaBorderTest, AllRmaVersions, VersionName);

template <typename A>
class RmaContextBorderTest : public RmaBorderTest<A> {};
TYPED_TEST_SUITE(RmaContextBorderTest, ContextRmaVersions, VersionName);

TYPED_TEST(RmaBorderTest, NullsOfSetUpAreNamed) {
  const auto& table = TypeParam::table();
  RmaRank<TypeParam> rank;  // the first init sets the logger
  EXPECT_EQ(table.init(nullptr, 1, keepLog), ncclInvalidArgument);
  this->expectWarning("init: context is null");
  Handle handle;
  void* made = kStale;
  EXPECT_EQ(table.listen(nullptr, 0, handle.bytes(), &made), ncclInvalidArgument);
  this->expectWarning("listen: context is null");
  EXPECT_EQ(made, nullptr);
  EXPECT_EQ(table.listen(rank.net(), 0, nullptr, &made), ncclInvalidArgument);
  this->expectWarning("listen: handle is null");
  EXPECT_EQ(table.listen(rank.net(), 0, handle.bytes(), nullptr), ncclInvalidArgument);
  this->expectWarning("listen: listener is null");

  rank.listen(handle);
  void* handles[] = {handle.bytes(), nullptr};
  EXPECT_EQ(table.connect(foreignContext(), nullptr, 1, 0, rank.listener(), &made), ncclInvalidArgument);
  this->expectWarning("connect: handles is null");
  EXPECT_EQ(table.connect(foreignContext(), handles, 2, 0, rank.listener(), &made), ncclInvalidArgument);
  this->expectWarning("connect: the handle of rank 1 is null");
  made = kStale;
  EXPECT_EQ(table.connect(foreignContext(), handles, 1, 0, nullptr, &made), ncclInvalidArgument);
  this->expectWarning("connect: listener is null");
  EXPECT_EQ(made, nullptr);
  EXPECT_EQ(table.connect(foreignContext(), handles, 1, 0, rank.listener(), nullptr), ncclInvalidArgument);
  this->expectWarning("connect: group is null");
}

TYPED_TEST(RmaBorderTest, RanksThatAreNotThereAreRefused) {
  RmaRank<TypeParam> rank;
  Handle handle;
  rank.listen(handle);
  void* handles[] = {handle.bytes()};
  for (const auto& [ranks, number] : {std::pair(1, 1), {1, -1}, {0, 0}, {-1, 0}}) {
    void* made = kStale;
    EXPECT_EQ(TypeParam::table().connect(foreignContext(), handles, ranks, number, rank.listener(), &made),
              ncclInvalidArgument);
    EXPECT_EQ(made, nullptr);
    this->expectWarning("connect: there is no rank " + std::to_string(number) + " of " +
                        std::to_string(ranks));
  }
}

TYPED_TEST(RmaBorderTest, AHandleOfAnotherPluginIsRefused) {
  RmaRank<TypeParam> rank;
  Handle mine, foreign;
  rank.listen(mine);
  void* handles[] = {mine.bytes(), foreign.bytes()};
  void* made = kStale;
  EXPECT_EQ(TypeParam::table().connect(foreignContext(), handles, 2, 0, rank.listener(), &made),
            ncclInvalidUsage);
  EXPECT_EQ(made, nullptr);
  EXPECT_NE(warnings(), "");
}

TYPED_TEST(RmaBorderTest, ADeviceThatIsNotThereIsRefused) {
  RmaRank<TypeParam> rank;
  Handle handle;
  for (const int device : {-1, 500}) {
    void* listener = kStale;
    EXPECT_EQ(TypeParam::table().listen(rank.net(), device, handle.bytes(), &listener), ncclInvalidArgument);
    EXPECT_EQ(listener, nullptr);
  }
}

TYPED_TEST(RmaBorderTest, NullsOfWindowsAreNamed) {
  RmaRanks<TypeParam> ranks(1);
  char data[64];
  void* window = kStale;
  EXPECT_EQ(TypeParam::regMrSym(nullptr, data, 64, &window), ncclInvalidArgument);
  this->expectWarning("regMrSym: collComm is null");
  EXPECT_EQ(window, nullptr);
  EXPECT_EQ(TypeParam::regMrSym(ranks[0].group(), nullptr, 64, &window), ncclInvalidArgument);
  this->expectWarning("regMrSym: data is null");
  EXPECT_EQ(window, nullptr);
  EXPECT_EQ(TypeParam::regMrSym(ranks[0].group(), data, 64, &window, 0, NCCL_PTR_DMABUF),
            ncclInvalidArgument);
  this->expectWarning("regMrSym: pointer type 4 is neither host nor CUDA memory");
  EXPECT_EQ(window, nullptr);
  EXPECT_EQ(TypeParam::regMrSymDmaBuf(nullptr, data, 64, 0, 0, &window), ncclInvalidArgument);
  this->expectWarning("regMrSymDmaBuf: collComm is null");
  EXPECT_EQ(TypeParam::table().deregMrSym(ranks[0].group(), nullptr), ncclSuccess);
  EXPECT_EQ(TypeParam::table().deregMrSym(nullptr, nullptr), ncclSuccess);
}

TYPED_TEST(RmaBorderTest, NullsOfPutsAreNamed) {
  RmaRanks<TypeParam> ranks(1);
  ranks.add(64);
  ranks.addSignals(1);
  void* const context = ranks[0].context();
  const Place data = {ranks[0].part(0).window, 0};
  const Signal signal = ranks.signalOf(0, 1, 0);
  void* request = kStale;
  EXPECT_EQ(TypeParam::put(nullptr, 0, data, 8, data, 0, &request), ncclInvalidArgument);
  this->expectWarning("iput: context is null");
  EXPECT_EQ(request, nullptr);
  request = kStale;
  EXPECT_EQ(TypeParam::put(context, 0, {}, 8, data, 0, &request), ncclInvalidArgument);
  this->expectWarning("iput: from is null");
  EXPECT_EQ(request, nullptr);
  EXPECT_EQ(TypeParam::put(context, 0, data, 8, {}, 0, &request), ncclInvalidArgument);
  this->expectWarning("iput: to is null");
  EXPECT_EQ(TypeParam::put(context, 0, data, 8, data, 0, nullptr), ncclInvalidArgument);
  this->expectWarning("iput: request is null");

  request = kStale;
  EXPECT_EQ(TypeParam::putSignal(nullptr, 0, data, 8, data, 0, signal, &request), ncclInvalidArgument);
  this->expectWarning("iputSignal: context is null");
  EXPECT_EQ(request, nullptr);
  EXPECT_EQ(TypeParam::putSignal(context, 0, {}, 8, data, 0, signal, &request), ncclInvalidArgument);
  this->expectWarning("iputSignal: from is null");
  EXPECT_EQ(TypeParam::putSignal(context, 0, data, 8, {}, 0, signal, &request), ncclInvalidArgument);
  this->expectWarning("iputSignal: to is null");
  EXPECT_EQ(TypeParam::putSignal(context, 0, data, 8, data, 0, {}, &request), ncclInvalidArgument);
  this->expectWarning("iputSignal: signal is null");
  EXPECT_EQ(TypeParam::putSignal(context, 0, data, 8, data, 0, signal, nullptr), ncclInvalidArgument);
  this->expectWarning("iputSignal: request is null");
  EXPECT_EQ(ranks[0].part(1).signal(0), 0U);
}

TYPED_TEST(RmaBorderTest, AnUnknownSignalOperationIsRefused) {
  RmaRanks<TypeParam> ranks(1);
  ranks.addSignals(1);
  for (const uint32_t operation : {0U, 3U, 0xffffffffU}) {
    void* request = kStale;
    EXPECT_EQ(TypeParam::putSignal(ranks[0].context(), 0, {}, 0, {}, 0, ranks.signalOf(0, 0, 0, 1, operation),
                                   &request),
              ncclInvalidArgument);
    EXPECT_EQ(request, nullptr);
    this->expectWarning("iputSignal: signal operation " + std::to_string(operation));
  }
}

TYPED_TEST(RmaBorderTest, NullsOfTheProgressThreadAreNamed) {
  RmaRanks<TypeParam> ranks(1);
  const auto& table = TypeParam::table();
  int done = kUnwritten;
  EXPECT_EQ(table.test(ranks[0].group(), nullptr, &done), ncclInvalidArgument);
  this->expectWarning("test: request is null");
  EXPECT_EQ(done, 0);
  done = kUnwritten;
  EXPECT_EQ(table.test(nullptr, kStale, &done), ncclInvalidArgument);
  this->expectWarning("test: group is null");
  EXPECT_EQ(done, 0);
  EXPECT_EQ(table.test(ranks[0].group(), kStale, nullptr), ncclInvalidArgument);
  this->expectWarning("test: done is null");
  EXPECT_EQ(TypeParam::progress(nullptr), ncclInvalidArgument);
  this->expectWarning("rmaProgress: context is null");
  bool error = true;
  EXPECT_EQ(table.queryLastError(nullptr, &error), ncclInvalidArgument);
  EXPECT_FALSE(error);
  this->expectWarning("queryLastError: context is null");
  EXPECT_EQ(table.queryLastError(ranks[0].context(), nullptr), ncclInvalidArgument);
  this->expectWarning("queryLastError: has_error is null");
  error = true;
  EXPECT_EQ(table.queryLastError(ranks[0].context(), &error), ncclSuccess);
  EXPECT_FALSE(error);
}

TYPED_TEST(RmaBorderTest, NullsAreClosed) {
  const auto& table = TypeParam::table();
  EXPECT_EQ(table.closeColl(nullptr), ncclSuccess);
  EXPECT_EQ(table.closeListen(nullptr), ncclSuccess);
  EXPECT_EQ(table.finalize(nullptr), ncclSuccess);
  EXPECT_EQ(TypeParam::destroyContext(nullptr), ncclSuccess);
}

TYPED_TEST(RmaBorderTest, HandlesOfAnotherKindAreRefused) {
  const auto& table = TypeParam::table();
  RmaRanks<TypeParam> ranks(1);
  ranks.add(64);
  RmaRank<TypeParam> other;
  Handle handle;
  other.listen(handle);
  void* const window = ranks[0].part(0).window;
  void* made = kStale;
  void* handles[] = {handle.bytes()};
  for (void* const wrong : {ranks[0].group(), window, static_cast<void*>(&made)}) {
    EXPECT_EQ(table.connect(foreignContext(), handles, 1, 0, wrong, &made), ncclInvalidArgument);
    EXPECT_EQ(table.closeListen(wrong), ncclInvalidArgument);
  }
  this->expectWarning(
      "closeListen: the handle is a window, and a listener of one-sided communication is needed");
  for (void* const wrong : {other.listener(), window, static_cast<void*>(&made)}) {
    char data[64];
    EXPECT_EQ(TypeParam::regMrSym(wrong, data, 64, &made), ncclInvalidArgument);
    EXPECT_EQ(made, nullptr);
    EXPECT_EQ(table.closeColl(wrong), ncclInvalidArgument);
  }
  this->expectWarning("closeColl: the handle is a listener of one-sided communication, and a group of ");
  for (void* const wrong : {other.listener(), ranks[0].group(), static_cast<void*>(&made)})
    EXPECT_EQ(table.deregMrSym(ranks[0].group(), wrong), ncclInvalidArgument);
  this->expectWarning("deregMrSym: the handle is not a window, or it was closed before");
}

TYPED_TEST(RmaBorderTest, AWindowOfAnotherGroupIsRefused) {
  RmaRanks<TypeParam> ranks(2);
  ranks.add(64);
  EXPECT_EQ(TypeParam::table().deregMrSym(ranks[0].group(), ranks[1].part(0).window), ncclInvalidArgument);
  this->expectWarning("deregMrSym: the handle is a window of another group");
}

// The net table has its own listeners.
TYPED_TEST(RmaBorderTest, ListenersOfTheNetTableAreRefused) {
  Session<Api<12>> session;
  RmaRank<TypeParam> rank;
  Handle handle;
  void *listener = nullptr, *made = nullptr;
  ASSERT_EQ(Api<12>::listen(session.context(), 0, handle.bytes(), &listener), ncclSuccess);
  void* handles[] = {handle.bytes()};
  EXPECT_EQ(TypeParam::table().connect(session.context(), handles, 1, 0, listener, &made),
            ncclInvalidArgument);
  this->expectWarning(
      "connect: the handle is a listener, and a listener of one-sided communication is needed");
  EXPECT_EQ(TypeParam::table().closeListen(listener), ncclInvalidArgument);
  rank.listen(handle);
  EXPECT_EQ(Api<12>::table().closeListen(rank.listener()), ncclInvalidArgument);
  EXPECT_EQ(Api<12>::table().closeListen(listener), ncclSuccess);
}

TYPED_TEST(RmaBorderTest, FinalizeFreesWhatNcclForgets) {
  std::vector<Handle> handles(3);
  void *net = nullptr, *group = nullptr, *context = nullptr, *window = nullptr, *listener = nullptr;
  char data[64];
  ASSERT_EQ(TypeParam::init(&net), ncclSuccess);
  for (Handle& handle : handles)
    ASSERT_EQ(TypeParam::table().listen(net, 0, handle.bytes(), &listener), ncclSuccess);
  void* all[] = {handles[2].bytes()};
  ASSERT_EQ(TypeParam::table().connect(foreignContext(), all, 1, 0, listener, &group), ncclSuccess);
  ASSERT_EQ(TypeParam::createContext(group, 1, &context), ncclSuccess);
  ASSERT_EQ(TypeParam::regMrSym(group, data, 64, &window), ncclSuccess);
  EXPECT_EQ(TypeParam::table().finalize(net), ncclSuccess);
  // None of them is known any more.
  EXPECT_EQ(TypeParam::table().closeListen(listener), ncclInvalidArgument);
  EXPECT_EQ(TypeParam::table().closeColl(group), ncclInvalidArgument);
  EXPECT_EQ(TypeParam::table().deregMrSym(group, window), ncclInvalidArgument);
}

TYPED_TEST(RmaBorderTest, WindowsMayEndAfterTheirGroup) {
  void *net = nullptr, *listener = nullptr, *group = nullptr;
  void* windows[2] = {};
  char data[64];
  Handle handle;
  void* handles[] = {handle.bytes()};
  const auto& table = TypeParam::table();
  ASSERT_EQ(TypeParam::init(&net), ncclSuccess);
  ASSERT_EQ(table.listen(net, 0, handle.bytes(), &listener), ncclSuccess);
  ASSERT_EQ(table.connect(foreignContext(), handles, 1, 0, listener, &group), ncclSuccess);
  for (void*& window : windows) ASSERT_EQ(TypeParam::regMrSym(group, data, 64, &window), ncclSuccess);
  EXPECT_EQ(table.closeColl(group), ncclSuccess);
  EXPECT_EQ(table.closeColl(group), ncclInvalidArgument);
  for (void* window : windows) {
    EXPECT_EQ(table.deregMrSym(group, window), ncclSuccess);
    EXPECT_EQ(table.deregMrSym(group, window), ncclInvalidArgument);
  }
  EXPECT_EQ(table.closeListen(listener), ncclSuccess);
  EXPECT_EQ(table.finalize(net), ncclSuccess);
}

TYPED_TEST(RmaContextBorderTest, NullsOfContextsAreNamed) {
  RmaRanks<TypeParam> ranks(1);
  const auto& table = TypeParam::table();
  void* const group = ranks[0].group();
  void* context = kStale;
  EXPECT_EQ(TypeParam::createContext(nullptr, 1, &context), ncclInvalidArgument);
  this->expectWarning("createContext: group is null");
  EXPECT_EQ(context, nullptr);
  if constexpr (TypeParam::kVersion == 13) {
    EXPECT_EQ(table.createContext(group, nullptr, &context, nullptr), ncclInvalidArgument);
    this->expectWarning("createContext: config is null");
    ncclGinConfig_v13_t config = {.nContexts = 1};
    EXPECT_EQ(table.createContext(group, &config, nullptr, nullptr), ncclInvalidArgument);
  } else {
    EXPECT_EQ(table.createContext(group, nullptr, &context), ncclInvalidArgument);
    this->expectWarning("createContext: config is null");
    ncclRmaConfig_v14_t config = {.nContexts = 1};
    EXPECT_EQ(table.createContext(group, &config, nullptr), ncclInvalidArgument);
  }
  this->expectWarning("createContext: context is null");
}

TYPED_TEST(RmaContextBorderTest, AtLeastOneContextIsNeeded) {
  RmaRanks<TypeParam> ranks(1);
  for (const int contexts : {0, -1}) {
    void* context = kStale;
    EXPECT_EQ(TypeParam::createContext(ranks[0].group(), contexts, &context), ncclInvalidArgument);
    EXPECT_EQ(context, nullptr);
    this->expectWarning("createContext: " + std::to_string(contexts) + " contexts, at least one is needed");
  }
}

TYPED_TEST(RmaContextBorderTest, NullsOfGetsAndFlushesAreNamed) {
  RmaRanks<TypeParam> ranks(1);
  ranks.add(64);
  const Place data = {ranks[0].part(0).window, 0};
  void* request = kStale;
  EXPECT_EQ(TypeParam::get(nullptr, 0, data, 8, data, 0, &request), ncclInvalidArgument);
  this->expectWarning("iget: context is null");
  EXPECT_EQ(request, nullptr);
  EXPECT_EQ(TypeParam::get(ranks[0].context(), 0, {}, 8, data, 0, &request), ncclInvalidArgument);
  this->expectWarning("iget: from is null");
  EXPECT_EQ(TypeParam::get(ranks[0].context(), 0, data, 8, {}, 0, &request), ncclInvalidArgument);
  this->expectWarning("iget: to is null");
  EXPECT_EQ(TypeParam::get(ranks[0].context(), 0, data, 8, data, 0, nullptr), ncclInvalidArgument);
  this->expectWarning("iget: request is null");
  request = kStale;
  EXPECT_EQ(TypeParam::table().iflush(nullptr, 0, data.window, 0, &request), ncclInvalidArgument);
  this->expectWarning("iflush: context is null");
  EXPECT_EQ(request, nullptr);
  EXPECT_EQ(TypeParam::table().iflush(ranks[0].context(), 0, data.window, 0, nullptr), ncclInvalidArgument);
  this->expectWarning("iflush: request is null");
}

TYPED_TEST(RmaContextBorderTest, ContextsAndRanksThatAreNotThereAreRefused) {
  RmaRanks<TypeParam> ranks(1, 2);
  ranks.add(64);
  ranks.addSignals(1);
  void* const context = ranks[0].context();
  const Place data = {ranks[0].part(0).window, 0};
  for (const auto& [index, rank] : {std::pair(2, 0), {-1, 0}, {0, 1}, {0, -1}}) {
    void* request = kStale;
    EXPECT_EQ(TypeParam::put(context, index, data, 8, data, rank, &request), ncclInvalidArgument);
    EXPECT_EQ(request, nullptr);
    EXPECT_EQ(TypeParam::putSignal(context, index, data, 8, data, rank, ranks.signalOf(0, 1, 0), &request),
              ncclInvalidArgument);
    EXPECT_EQ(TypeParam::get(context, index, data, 8, data, rank, &request), ncclInvalidArgument);
    EXPECT_EQ(TypeParam::table().iflush(context, index, data.window, static_cast<uint32_t>(rank), &request),
              ncclInvalidArgument);
    EXPECT_EQ(request, nullptr);
    EXPECT_NE(warnings(), "");
    clearLog();
  }
}

TYPED_TEST(RmaContextBorderTest, DestroyContextRefusesOtherHandles) {
  RmaRanks<TypeParam> ranks(1);
  ranks.add(64);
  for (void* const wrong : {ranks[0].group(), ranks[0].part(0).window, static_cast<void*>(&ranks)})
    EXPECT_EQ(TypeParam::table().destroyContext(wrong), ncclInvalidArgument);
  this->expectWarning(
      "destroyContext: the handle is a window, and a context of one-sided communication is needed");
  void* context = nullptr;
  ASSERT_EQ(TypeParam::createContext(ranks[0].group(), 1, &context), ncclSuccess);
  EXPECT_EQ(TypeParam::table().destroyContext(context), ncclSuccess);
  EXPECT_EQ(TypeParam::table().destroyContext(context), ncclInvalidArgument);
}

// A context, a window and their group end in this order; whoever comes after closeColl finds a group that
// takes nothing new.
TYPED_TEST(RmaContextBorderTest, EveryOrderOfTheEndIsTaken) {
  std::vector<char> order = {'c', 'd', 'w'};
  do {
    SCOPED_TRACE(std::string(order.begin(), order.end()));
    void *net = nullptr, *listener = nullptr, *group = nullptr, *context = nullptr, *window = nullptr;
    char data[64];
    Handle handle;
    void* handles[] = {handle.bytes()};
    const auto& table = TypeParam::table();
    ASSERT_EQ(TypeParam::init(&net), ncclSuccess);
    ASSERT_EQ(table.listen(net, 0, handle.bytes(), &listener), ncclSuccess);
    ASSERT_EQ(table.connect(foreignContext(), handles, 1, 0, listener, &group), ncclSuccess);
    ASSERT_EQ(table.closeListen(listener), ncclSuccess);
    ASSERT_EQ(TypeParam::createContext(group, 1, &context), ncclSuccess);
    ASSERT_EQ(TypeParam::regMrSym(group, data, 64, &window), ncclSuccess);
    bool closed = false;
    for (const char step : order) {
      if (step == 'c') EXPECT_EQ(table.closeColl(group), ncclSuccess);
      if (step == 'd') EXPECT_EQ(table.destroyContext(context), ncclSuccess);
      if (step == 'w') EXPECT_EQ(table.deregMrSym(group, window), ncclSuccess);
      closed = closed || step == 'c';
      if (!closed) continue;
      void* made = kStale;
      EXPECT_EQ(TypeParam::regMrSym(group, data, 64, &made), ncclInvalidArgument);
      EXPECT_EQ(TypeParam::createContext(group, 1, &made), ncclInvalidArgument);
      EXPECT_EQ(table.closeColl(group), ncclInvalidArgument);
    }
    EXPECT_EQ(table.finalize(net), ncclSuccess);
  } while (std::next_permutation(order.begin(), order.end()));
}

}  // namespace
}  // namespace railwise::test
