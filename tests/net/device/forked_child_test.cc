// A forked child has the descriptors of its parent's devices, and the kernel's objects belong to these. What
// the child gives back must stay, and whoever talks to the parent must not hear of it.
//
// What a child does (columns), by the state of its parent (rows). x: TouchesNothingOfItsParent, below.
//
//                             closes  closes the  deregisters  finalizes  exits with   execs
//                                     listener                            destructors
//   after init                  -         -           x            x           x         x
//   listening                   -         x           x            x           x         x
//   in the middle of a connect  -         x           -            x           x         x
//   connected                   x         -           x            x           x         x
//   with messages under way     x         -           x            x           x         x
//   in a recovery               x         -           x            x           x         x
//   with a lost device          x         -           x            x           x         x
//   with windows                x         -           x            x           x         x
//   with a put under way        x         -           x            x           x         x
//
// Elsewhere: what reaches the peer while a child lives (tests/plugin/close_test.cc), a parent that is killed
// (tests/plugin/peer_test.cc), the Resumer's port (resumer_test.cc), threads (worker_test.cc,
// event_watcher_test.cc, reopen_test.cc).
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "loop_connection.h"
#include "net/in_child.h"
#include "net/loop_traffic.h"
#include "net/own_record.h"
#include "net/rma/rma_ranks.h"
#include "port_control.h"
#include "said.h"
#include "tests/ok.h"
#include "verbs/cm/library.h"
#include "verbs/library.h"

// A child that exits does not have the threads of its parent, for which the leak sanitizer would wait, or
// whose memory it would call leaked.
static bool g_child_exits = false;
extern "C" __attribute__((visibility("default"))) int __lsan_is_turned_off() { return g_child_exits ? 1 : 0; }

namespace railwise::net {
namespace {

// Calls of the devices by a child. In memory of both processes: what runs at the child's exit counts, too.
std::atomic<int>& touches() {
  static auto& count = *static_cast<std::atomic<int>*>(
      mmap(nullptr, sizeof(std::atomic<int>), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  return count;
}

// From now on the function does nothing but count.
template <typename Return, typename... Args>
void count(Return (*&function)(Args...)) {
  function = [](Args...) -> Return {
    ++touches();
    return Return();
  };
}

void countTouches() {
  auto& verbs = const_cast<verbs::Library&>(verbs::library());
  count(verbs.dereg_mr);
  count(verbs.dealloc_pd);
  count(verbs.destroy_cq);
  count(verbs.destroy_qp);
  count(verbs.modify_qp);
  count(verbs.close_device);
  count(verbs.ack_async_event);
  if (const Result<const verbs::CmLibrary*> found = verbs::cmLibrary(); found.ok()) {
    auto& manager = const_cast<verbs::CmLibrary&>(**found);
    count(manager.destroy_id);
    count(manager.disconnect);
    count(manager.reject);
    count(manager.accept);
    count(manager.connect);
    count(manager.destroy_event_channel);
    count(manager.ack_cm_event);
  }
  const Net& net = *Net::current();
  for (int i = 0; i < net.physicalDevices(); ++i) {
    ibv_context_ops& calls = net.device(i)->rails()[0].hca->context()->ops;
    count(calls.post_send);
    count(calls.post_recv);
    count(calls.poll_cq);
  }
}

enum class Act : uint8_t { kCloses, kClosesListener, kDeregisters, kFinalizes, kExits, kExecs };
enum class State : uint8_t {
  kInitialized,
  kListening,
  kConnecting,
  kConnected,
  kUnderWay,
  kRecovering,
  kDeviceLost,
  kWindows,
  kPutUnderWay
};
constexpr const char* kActs[] = {"closes", "closes_listener", "deregisters", "finalizes", "exits", "execs"};
constexpr const char* kStates[] = {"initialized", "listening",   "connecting", "connected",    "under_way",
                                   "recovering",  "device_lost", "windows",    "put_under_way"};

// A program that a child becomes has none of the parent's descriptors. Those that the test itself was started
// with it may have.
[[noreturn]] void becomeAnotherProgram(int first) {
  const std::string script = "for each in /proc/self/fd/*; do [ ${each##*/} -lt " + std::to_string(first) +
                             " ] || case $(readlink $each) in socket:*|anon_inode:*|*infiniband*|*railwise*) "
                             "exit 1;; esac; done";
  execl("/bin/sh", "sh", "-c", script.c_str(), nullptr);
  _exit(126);
}
int lowestFree() {
  const int lowest = dup(0);
  close(lowest);
  return lowest;
}

// The parent, in one state. `link`: of its devices.
class Parent {
 public:
  virtual ~Parent() = default;
  virtual void act(Act act) = 0;
  // It goes on as if there had been no child.
  virtual void goOn() = 0;
};

class TwoSided : public Parent {
 public:
  // `steps`: of a connect.
  TwoSided(State state, const std::string& link, int steps = 0)
      : state_(state), loop_(std::in_place, 2 * kHalf, "count=3,link=" + link) {
    switch (state) {
      case State::kInitialized:
        Context::close(&loop_->sender());
        Context::close(&loop_->receiver());
        return;
      case State::kListening:
      case State::kConnecting:
        listener_ = *loop_->context().listen(loop_->device(), handle_);
        for (int i = 0; i < steps; ++i) connectOnce();
        return;
      case State::kUnderWay:
        test::addFault("device=soft0 opcode=any nth=2 delay=200ms");  // behind the clear-to-send
        receive_ = loop_->receive(1, kHalf, 512);
        send_ = loop_->sendWhenReady(0, 512);
        return;
      case State::kRecovering:
      case State::kDeviceLost:
        test::changePort("soft0:1", state == State::kDeviceLost ? "fatal" : "down");
        receive_ = loop_->receive(1, kHalf, 512);
        for (test::Patience patience; loop_->receiver().running(); patience.again()) {
          bool done = false;
          EXPECT_TRUE(loop_->receiver().test(*receive_, &done, nullptr).ok());
        }
        return;
      default:
        return;
    }
  }

  void act(Act act) override {
    if (act == Act::kCloses) {
      Context::close(&loop_->sender());
      Context::close(&loop_->receiver());
    } else if (act == Act::kClosesListener) {
      Context::close(listener_);
    } else if (act == Act::kDeregisters) {
      loop_->device().memory().release(loop_->memory());
    } else {
      LoopConnection::at_end = nullptr;
      loop_.reset();
    }
  }
  void goOn() override {
    if (state_ == State::kInitialized) loop_->useAnother();
    for (test::Patience patience; listener_ != nullptr && !connectOnce(); patience.again()) {
    }
    if (receive_ != nullptr) {
      for (test::Patience patience; send_ == nullptr; patience.again()) {
        send_ = loop_->send(0, 512);
        bool done = false;
        ASSERT_TRUE(loop_->receiver().test(*receive_, &done, nullptr).ok());
      }
      ASSERT_TRUE(LoopConnection::finishBoth(receive_, send_));
    }
    EXPECT_TRUE(Traffic(*loop_).run(16, 512));
  }

 private:
  // True: the second connection stands.
  bool connectOnce() {
    if (sender_ == nullptr) sender_ = *loop_->context().connect(loop_->device(), handle_, -1);
    if (receiver_ == nullptr) receiver_ = *Context::accept(*listener_);
    return sender_ != nullptr && receiver_ != nullptr;
  }

  const State state_;
  std::optional<LoopConnection> loop_;
  char handle_[kHandleBytes] = {};
  Listener* listener_ = nullptr;
  SendConnection* sender_ = nullptr;
  ReceiveConnection* receiver_ = nullptr;
  Request* receive_ = nullptr;
  Request* send_ = nullptr;
};

class OneSided : public Parent {
 public:
  OneSided(State state, const std::string& link) : ranks_(std::in_place, RmaShape{}, "link=" + link) {
    for (std::size_t rank = 0; rank < 2; ++rank)
      windows_[rank] = *ranks_->group(static_cast<int>(rank))
                            .registerMemory(reinterpret_cast<uint64_t>(words_[rank].data()),
                                            sizeof words_[rank], MemoryKind::kHost, kRmaStrongOrder);
    EXPECT_TRUE(ranks_->run(8)) << ranks_->problem();
    if (state != State::kPutUnderWay) return;
    test::addFault("device=soft0 opcode=any nth=1 delay=200ms");
    put();
  }
  ~OneSided() override {
    if (!ranks_) return;
    for (int rank = 0; rank < 2; ++rank)
      ranks_->group(rank).deregister(windows_[static_cast<std::size_t>(rank)]);
  }

  void act(Act act) override {
    if (act == Act::kCloses) {
      for (int rank = 0; rank < 2; ++rank) RmaContext::destroy(&ranks_->context(rank));
    } else if (act == Act::kDeregisters) {
      for (int rank = 0; rank < 2; ++rank)
        ranks_->group(rank).deregister(windows_[static_cast<std::size_t>(rank)]);
    } else {
      ranks_.reset();
    }
  }
  void goOn() override {
    if (put_ == nullptr) put();
    int done = 0;
    for (test::Patience patience; done == 0 || __atomic_load_n(&words_[1][8], __ATOMIC_ACQUIRE) == 0;
         patience.again()) {
      if (done == 0) ASSERT_TRUE(ranks_->group(0).test(*put_, &done).ok());
      ranks_->drive();
    }
    EXPECT_EQ(words_[1][7], 7U);
    EXPECT_TRUE(ranks_->run(16)) << ranks_->problem();
    // Frames of its own go on where the latest one has ended.
    for (int rank = 0; rank < 2; ++rank)
      ranks_->group(rank).deregister(windows_[static_cast<std::size_t>(rank)]);
    EXPECT_TRUE(ranks_->run(64)) << ranks_->problem();
  }

 private:
  void put() {
    words_[0].fill(7);
    const RmaSignal signal = {{windows_[0], 64}, 1};
    EXPECT_TRUE(
        ranks_->context(0).putSignal(0, {windows_[0], 0}, 64, {windows_[0], 0}, 1, signal, &put_).ok());
  }

  std::array<std::array<uint64_t, 9>, 2> words_ = {};
  std::optional<RmaRanks> ranks_;
  std::array<RmaWindow*, 2> windows_ = {};
  RmaRequest* put_ = nullptr;
};

// What others see of the parent's connections.
std::vector<std::tuple<uint64_t, record::ConnectionState>> shown() {
  std::vector<std::tuple<uint64_t, record::ConnectionState>> all;
  if (const auto snapshot = test::ownRecord(); snapshot.ok()) {
    for (const record::Connection& each : snapshot->connections) all.emplace_back(each.id, each.state);
  }
  return all;
}

void expectUntouched(Parent& parent, Act act, int first_descriptor) {
  touches() = 0;
  const test::Said said;
  const auto before = shown();
  std::fflush(nullptr);  // else exit() says it once more
  const pid_t child = fork();
  if (child == 0) {
    alarm(30);
    countTouches();
    if (act == Act::kExecs) becomeAnotherProgram(first_descriptor);
    g_child_exits = act == Act::kExits;
    if (act == Act::kExits) exit(0);
    parent.act(act);
    _exit(0);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0) << "of the child";
  EXPECT_EQ(touches(), 0) << "calls of the parent's devices";
  EXPECT_EQ(shown(), before);
  parent.goOn();
  EXPECT_LACKS(said.warnings(), "somebody sent") << "the child has told the peer something";
}

using Case = std::tuple<State, Act, const char*>;
void PrintTo(const Case& its, std::ostream* to) {
  *to << kStates[static_cast<int>(std::get<0>(its))] << ' ' << kActs[static_cast<int>(std::get<1>(its))];
}

class ForkedChild : public testing::TestWithParam<Case> {};

TEST_P(ForkedChild, TouchesNothingOfItsParent) {
  const auto [state, act, link] = GetParam();
  const int first_descriptor = lowestFree();
  if (state >= State::kWindows) {
    OneSided parent(state, link);
    return expectUntouched(parent, act, first_descriptor);
  }
  for (const int steps : state == State::kConnecting ? std::vector{1, 2, 3, 4} : std::vector{0}) {
    TwoSided parent(state, link, steps);
    ASSERT_NO_FATAL_FAILURE(expectUntouched(parent, act, first_descriptor)) << steps;
  }
}

// What there is to do in the state.
bool makesSense(State state, Act act) {
  const bool connects = state == State::kListening || state == State::kConnecting;
  if (act == Act::kClosesListener) return connects;
  if (act == Act::kCloses) return !connects && state != State::kInitialized;
  return act != Act::kDeregisters || state != State::kConnecting;
}
std::vector<Case> allCases() {
  std::vector<Case> all;
  for (int state = 0; state < static_cast<int>(std::size(kStates)); ++state) {
    for (int act = 0; act < static_cast<int>(std::size(kActs)); ++act) {
      if (!makesSense(static_cast<State>(state), static_cast<Act>(act))) continue;
      for (const char* const link : {"roce", "iwarp"})
        all.emplace_back(static_cast<State>(state), static_cast<Act>(act), link);
    }
  }
  return all;
}
INSTANTIATE_TEST_SUITE_P(States, ForkedChild, testing::ValuesIn(allCases()), [](const auto& its) {
  return std::string(kStates[static_cast<int>(std::get<0>(its.param))]) + "_" +
         kActs[static_cast<int>(std::get<1>(its.param))] + "_" + std::get<2>(its.param);
});

class ClosedInAForkedChild : public testing::TestWithParam<const char*> {};

// The objects of a forked child are its parent's.
TEST_P(ClosedInAForkedChild, TouchesNoDevice) {
  const test::Setting no_failover("RAILWISE_FAILOVER", "0");
  LoopConnection loop(2 * kHalf, std::string("count=1,link=") + GetParam());
  Traffic traffic(loop);
  ASSERT_TRUE(traffic.run(16, 512));
  EXPECT_EQ("", inChild([&]() -> std::string {
              Context::close(&loop.sender());
              Context::close(&loop.receiver());
              return "";
            }));
  EXPECT_TRUE(traffic.run(16, 512));
}
INSTANTIATE_TEST_SUITE_P(, ClosedInAForkedChild, testing::Values("ib", "roce", "iwarp"),
                         [](const auto& each) { return std::string(each.param); });

}  // namespace
}  // namespace railwise::net
