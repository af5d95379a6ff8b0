// Each breach of the contract that the spy finds, by NCCL and by the plugin (bad_plugin.h).
#include <algorithm>
#include <atomic>
#include <thread>

#include "tests/ok.h"
#include "tests/spy/bad_plugin.h"
#include "tests/spy/spied.h"
#include "tests/wait.h"

namespace railwise::test {
namespace {

using A = Api<12>;

Orders& orders() {
  static Orders& its = *[] {
    void* const library = dlopen(SPIED_PLUGIN, RTLD_NOW | RTLD_LOCAL);
    return reinterpret_cast<decltype(&badPlugin)>(dlsym(library, "badPlugin"))();
  }();
  return its;
}

// A connection over the bad plugin, which obeys from then on.
template <typename V>
class Spied {
 public:
  Spied() {
    // A machine on which the port of bad0 is down, and that of bad1 is active.
    setenv("RAILWISE_SYSFS_ROOT", spyFolder().path("machine").c_str(), 1);
    for (const auto& [name, state] : {std::pair("bad0", "1: DOWN"), std::pair("bad1", "4: ACTIVE")}) {
      const std::filesystem::path port =
          spyFolder().path("machine") + "/sys/class/infiniband/" + name + "/ports/1";
      std::filesystem::create_directories(port);
      std::ofstream(port / "state") << state << "\n";
      std::ofstream(port / "link_layer") << "Ethernet\n";
    }
    (void)V::table();  // loads the plugin
    orders() = {};
    clearLog();
    EXPECT_EQ(V::init(&context_), ncclSuccess) << warnings();
    typename V::Properties properties = {};
    for (const int device : {1, 0}) EXPECT_EQ(V::table().getProperties(device, &properties), ncclSuccess);
    void* listener = nullptr;
    Handle handle;
    EXPECT_EQ(V::listen(context_, 0, handle.bytes(), &listener), ncclSuccess);
    EXPECT_EQ(V::connect(context_, 0, handle.bytes(), &send_), ncclSuccess);
    EXPECT_EQ(V::accept(listener, &receive_), ncclSuccess);
    EXPECT_EQ(V::table().closeListen(listener), ncclSuccess);
  }
  ~Spied() {
    EXPECT_EQ(V::table().closeSend(send_), ncclSuccess);
    EXPECT_EQ(V::table().closeRecv(receive_), ncclSuccess);
    EXPECT_EQ(V::finalize(context_), ncclSuccess);
  }
  Spied(const Spied&) = delete;
  Spied& operator=(const Spied&) = delete;

  void* context() const { return context_; }
  void* send() const { return send_; }
  void* receive() const { return receive_; }
  ncclResult_t isend(void** request) { return V::isend(send_, nullptr, 4, 1, nullptr, request); }
  ncclResult_t irecv(void** request, int buffers = 1, std::size_t bytes = 4) {
    return V::irecv(
        receive_,
        std::vector<typename V::Buffer>(static_cast<std::size_t>(buffers), {nullptr, bytes, 1, nullptr}),
        request);
  }

 private:
  void* context_ = nullptr;
  void* send_ = nullptr;
  void* receive_ = nullptr;
};

// The only warning has `text`.
void expectOneWarning(const std::string& text) {
  const std::string all = warnings();
  EXPECT_HAS(all, text);
  EXPECT_EQ(std::count(all.begin(), all.end(), '\n'), 1) << all;
}

TEST(SpyContract, NothingIsSaidOfAGoodRun) {
  Spied<A> spied;
  void* send = nullptr;
  void* receive = nullptr;
  ASSERT_EQ(spied.isend(&send), ncclSuccess);
  ASSERT_EQ(spied.irecv(&receive, 2), ncclSuccess);
  finish<A>(send);
  std::array<int, 2> sizes = {};
  finish<A>(receive, sizes.data());
  EXPECT_EQ(sizes, (std::array{4, 4}));
  EXPECT_EQ(warnings(), "");
}

// ---- NCCL

TEST(SpyContract, NcclTestsARequestThatWasDone) {
  Spied<A> spied;
  void* send = nullptr;
  ASSERT_EQ(spied.isend(&send), ncclSuccess);
  finish<A>(send);
  int done = 1;
  EXPECT_EQ(A::table().test(send, &done, nullptr), ncclInvalidUsage);
  EXPECT_EQ(done, 0);
  expectOneWarning("NCCL breaks the contract: test: of a request of sender");
}

TEST(SpyContract, NcclTestsNoRequest) {
  Spied<A> spied;
  int done = 1;
  EXPECT_EQ(A::table().test(nullptr, &done, nullptr), ncclInvalidUsage);
  expectOneWarning("test: the request is null");
  uint64_t other = 5;
  clearLog();
  EXPECT_EQ(A::table().test(&other, &done, nullptr), ncclInvalidUsage);
  expectOneWarning("test: the plugin has not given this request");
}

TEST(SpyContract, NcclTestsARequestOfAClosedConnection) {
  void* send = nullptr;
  {
    Spied<A> spied;
    ASSERT_EQ(spied.isend(&send), ncclSuccess);
  }
  int done = 1;
  EXPECT_EQ(A::table().test(send, &done, nullptr), ncclInvalidUsage);
  expectOneWarning("which is closed");
}

TEST(SpyContract, NcclMistakesOneKindOfCommunicatorForAnother) {
  Spied<A> spied;
  void* request = nullptr;
  EXPECT_EQ(A::isend(spied.context(), nullptr, 4, 1, nullptr, &request), ncclInvalidUsage);
  expectOneWarning("isend: this is no send or receive communicator");
  EXPECT_EQ(orders().isends, 0) << "the plugin would take it for one";
}

TEST(SpyContract, NcclHasTooManyRequestsOpen) {
  Spied<A> spied;
  orders().done = 0;
  void* request = nullptr;
  for (int i = 0; i < NCCL_NET_MAX_REQUESTS; ++i) ASSERT_EQ(spied.irecv(&request), ncclSuccess);
  EXPECT_EQ(warnings(), "");
  for (int i = 0; i < 3; ++i) ASSERT_EQ(spied.irecv(&request), ncclSuccess);
  expectOneWarning("irecv with 32 requests open, 32 is the most");
}

// A sender may have as many for each buffer of a receive.
TEST(SpyContract, ASenderMayHaveMoreRequestsOpen) {
  Spied<A> spied;
  void* request = nullptr;
  for (int i = 0; i < 2 * NCCL_NET_MAX_REQUESTS; ++i) ASSERT_EQ(spied.isend(&request), ncclSuccess);
  EXPECT_EQ(warnings(), "");
  ASSERT_EQ(spied.isend(&request), ncclSuccess);
  expectOneWarning("isend with 64 requests open, 64 is the most");
}

TEST(SpyContract, NcclReceivesIntoTooManyBuffers) {
  Spied<A> spied;
  void* request = nullptr;
  ASSERT_EQ(spied.irecv(&request, 3), ncclSuccess);
  expectOneWarning("irecv of 3 buffers, the plugin takes 1 to 2");
}

TEST(SpyContract, NcclSendsANegativeSize) {
  Spied<Api<8>> spied;
  void* request = nullptr;
  ASSERT_EQ(Api<8>::table().isend(spied.send(), nullptr, -4, 1, nullptr, &request), ncclSuccess);
  expectOneWarning("isend of -4 bytes");
  finish<Api<8>>(request);
}

TEST(SpyContract, NcclFlushesNothing) {
  Spied<A> spied;
  void* data = nullptr;
  void* memory = nullptr;
  int size = 0;
  void* request = nullptr;
  ASSERT_EQ(A::table().iflush(spied.receive(), 1, &data, &size, &memory, &request), ncclSuccess);
  expectOneWarning("iflush of 1 buffers with 0 bytes");
}

TEST(SpyContract, NcclDeregistersMemoryTwice) {
  Spied<A> spied;
  char data = 0;
  void* memory = nullptr;
  ASSERT_EQ(A::regMr(spied.send(), &data, 1, &memory), ncclSuccess);
  EXPECT_EQ(A::table().deregMr(spied.send(), memory), ncclSuccess);
  EXPECT_EQ(A::table().deregMr(spied.send(), nullptr), ncclSuccess) << "as NCCL does after a failure";
  EXPECT_EQ(warnings(), "");
  EXPECT_EQ(A::table().deregMr(spied.send(), memory), ncclSuccess);
  expectOneWarning("which is not registered with this connection");
  EXPECT_EQ(orders().deregistered, 3) << "the plugin hears all of it";
}

TEST(SpyContract, NcclUsesAContextThatHasEnded) {
  void* context = nullptr;
  { context = Spied<A>().context(); }
  clearLog();
  Handle handle;
  void* listener = nullptr;
  EXPECT_EQ(A::listen(context, 0, handle.bytes(), &listener), ncclInvalidUsage);
  expectOneWarning("listen: finalize has ended the context");
}

// ---- the plugin

TEST(SpyContract, ThePluginListensAndMakesNothing) {
  Spied<A> spied;
  orders().no_listener = true;
  Handle handle;
  void* listener = kStale;
  EXPECT_EQ(A::listen(spied.context(), 0, handle.bytes(), &listener), ncclSuccess);
  EXPECT_EQ(listener, nullptr);
  expectOneWarning("the plugin breaks the contract: listen succeeded and gave no listen communicator");
}

TEST(SpyContract, ThePluginDoesNotWriteTheRequest) {
  Spied<A> spied;
  orders().leave_request = true;
  void* request = kStale;
  EXPECT_EQ(spied.isend(&request), ncclSuccess);
  EXPECT_EQ(request, nullptr) << "NCCL would test the last request of the slot";
  expectOneWarning("isend left the request as it was");
}

TEST(SpyContract, ThePluginMayLeaveANullRequest) {
  Spied<A> spied;
  orders().leave_request = true;
  void* request = nullptr;
  EXPECT_EQ(spied.isend(&request), ncclSuccess);
  EXPECT_EQ(request, nullptr);
  EXPECT_EQ(warnings(), "");
}

TEST(SpyContract, ThePluginGivesARequestTwice) {
  Spied<A> spied;
  char only = 0;
  orders().request = &only;
  void* request = nullptr;
  ASSERT_EQ(spied.isend(&request), ncclSuccess);
  ASSERT_EQ(spied.isend(&request), ncclSuccess);
  expectOneWarning("which is still open");
}

TEST(SpyContract, ThePluginDoesNotSayWhetherARequestIsDone) {
  Spied<A> spied;
  void* request = nullptr;
  ASSERT_EQ(spied.isend(&request), ncclSuccess);
  orders().leave_done = true;
  int done = 9;
  EXPECT_EQ(A::table().test(request, &done, nullptr), ncclSuccess);
  EXPECT_EQ(done, 0);
  expectOneWarning("test left done as it was");
}

TEST(SpyContract, ThePluginSaysMoreThanTheBufferHolds) {
  Spied<A> spied;
  void* request = nullptr;
  ASSERT_EQ(spied.irecv(&request, 1, 3), ncclSuccess);
  int size = 0;
  finish<A>(request, &size);
  EXPECT_EQ(size, 4) << "NCCL sees what the plugin said";
  expectOneWarning("4 bytes have arrived in a buffer of 3");
}

TEST(SpyContract, ThePluginSaysANegativeSize) {
  Spied<A> spied;
  void* request = nullptr;
  ASSERT_EQ(spied.irecv(&request), ncclSuccess);
  orders().size = -1;
  int size = 0;
  finish<A>(request, &size);
  expectOneWarning("test said that -1 bytes have arrived");
}

TEST(SpyContract, ThePluginDoesNotWriteTheSize) {
  Spied<A> spied;
  void* request = nullptr;
  ASSERT_EQ(spied.irecv(&request), ncclSuccess);
  orders().leave_size = true;
  int size = 6;
  finish<A>(request, &size);
  EXPECT_EQ(size, 6);
  expectOneWarning("did not write the size of buffer 0 of 1");
}

TEST(SpyContract, ASizeThatNcclDoesNotNeedMayBeLeftOut) {
  Spied<A> spied;
  void* request = reinterpret_cast<void*>(NCCL_NET_OPTIONAL_RECV_COMPLETION);
  ASSERT_EQ(spied.irecv(&request), ncclSuccess);
  orders().leave_size = true;
  int size = 6;
  finish<A>(request, &size);
  EXPECT_EQ(warnings(), "");
}

TEST(SpyContract, ThePluginBlocks) {
  Spied<A> spied;
  orders().isend_takes = std::chrono::milliseconds(1050);
  void* request = nullptr;
  ASSERT_EQ(spied.isend(&request), ncclSuccess);
  expectOneWarning("isend took 1.");
  finish<A>(request);
}

// What railwise stuck and top see of a plugin that hangs.
TEST(SpyContract, TheRecordTellsInWhichCallThePluginIs) {
  Spied<A> spied;
  const auto callNow = [] {
    int call = 0;
    for (const record::Connection& each : spyRecord().connections) call = std::max(call, each.in_call);
    return call;
  };
  orders().isend_hangs = true;
  void* request = nullptr;
  std::thread progress([&] { EXPECT_EQ(spied.isend(&request), ncclSuccess); });
  test::waitUntil([&] { return callNow() == static_cast<int>(record::CallKind::kIsend) + 1; });
  std::atomic_ref(orders().isend_hangs).store(false);
  progress.join();
  EXPECT_EQ(callNow(), 0);
  finish<A>(request);
}

TEST(SpyContract, ThePluginDescribesAnImpossibleDevice) {
  Spied<A> spied;
  orders().impossible_speed = true;
  A::Properties properties = {};
  EXPECT_EQ(A::table().getProperties(2, &properties), ncclSuccess);
  expectOneWarning("getProperties(2): the speed is not positive");
}

// ---- what is no breach

TEST(SpyContract, ErrorsOfThePluginReachNccl) {
  Spied<A> spied;
  void* request = nullptr;
  ASSERT_EQ(spied.isend(&request), ncclSuccess);
  orders().fail = true;
  int done = 1;
  EXPECT_EQ(A::table().test(request, &done, nullptr), ncclRemoteError);
  void* second = kStale;
  EXPECT_EQ(spied.isend(&second), ncclSystemError);
  EXPECT_EQ(second, nullptr);
  EXPECT_EQ(warnings(), "");
}

TEST(SpyContract, AConsumedReceiveIsThePluginsOwn) {
  Spied<A> spied;
  void* request = nullptr;
  ASSERT_EQ(spied.irecv(&request), ncclSuccess);
  int size = 0;
  finish<A>(request, &size);
  ASSERT_EQ(A::table().irecvConsumed(spied.receive(), 1, request), ncclSuccess);
  EXPECT_EQ(orders().consumed, orders().last_request);
}

TEST(SpyContract, BreachesAreInTheReport) {
  {
    Spied<A> spied;
    int done = 0;
    for (int i = 0; i < 5; ++i) (void)A::table().test(nullptr, &done, nullptr);
  }
  const auto report = spyReport();
  bool found = false;
  for (const auto& breach : report["breaches"]) {
    if (breach["kind"] != "no-such-request") continue;
    found = true;
    EXPECT_EQ(breach["by"], "nccl");
    EXPECT_GE(breach["count"], 5);
  }
  EXPECT_TRUE(found) << report["breaches"];
}

TEST(SpyContract, BreachesAreEventsOfTheRecord) {
  Spied<A> spied;
  void* request = nullptr;
  ASSERT_EQ(spied.irecv(&request, 3), ncclSuccess);
  const record::Snapshot record = spyRecord();
  const auto found = std::find_if(record.events.begin(), record.events.end(), [](const record::Event& event) {
    return event.kind == record::EventKind::kContract;
  });
  ASSERT_NE(found, record.events.end());
  EXPECT_HAS(found->text, "NCCL: irecv of 3 buffers");
  EXPECT_NE(found->connection_id, 0U);
  EXPECT_EQ(A::table().closeRecv(spied.send()), ncclInvalidUsage) << "of the wrong direction";
}

TEST(SpyContract, SaysWhatNcclDoesNotFindThroughTheSpy) {
  Spied<A> spied;
  EXPECT_HAS(logText(), "also exports ncclTunerPlugin_v3");
}

TEST(SpyContract, AVersionThatThePluginLacksIsNotFound) {
  (void)spyFolder();
  for (int version = 6; version <= 12; ++version) {
    const std::string symbol = "ncclNetPlugin_v" + std::to_string(version);
    const bool found = dlsym(openPlugin(), symbol.c_str()) != nullptr;
    EXPECT_EQ(found, version == 8 || version == 12) << symbol;
  }
}

TEST(Shadow, APortThatIsDownBesideOneThatIsActive) {
  {
    Spied<A> spied;
    orders().fail = true;
    void* request = nullptr;
    EXPECT_EQ(spied.isend(&request), ncclSystemError);
    EXPECT_EQ(spied.isend(&request), ncclSystemError);
  }
  const nlohmann::json lines = spyReport()["shadow"];
  ASSERT_EQ(lines.size(), 1U) << "one for each device: " << lines;
  const std::string line = lines[0];
  EXPECT_HAS(line, "its port was down (1: DOWN); bad1 was active: Railwise would have gone on over it");
}

TEST(Shadow, NothingIsClaimedWhereThePortIsActive) {
  {
    Spied<A> spied;
    std::ofstream(spyFolder().path("machine") + "/sys/class/infiniband/bad0/ports/1/state") << "4: ACTIVE\n";
    orders().fail = true;
    void* request = nullptr;
    EXPECT_EQ(spied.isend(&request), ncclSystemError);
  }
  const nlohmann::json lines = spyReport()["shadow"];
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_LACKS(lines[0].get<std::string>(), "would have gone on") << lines[0];
}

}  // namespace
}  // namespace railwise::test
