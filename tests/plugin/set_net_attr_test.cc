// setNetAttr is the call that NCCL makes most often: its instructions are counted, one by one.
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

#include <optional>

#include "api.h"
#include "tests/plugin/sanitizers.h"
#include "tests/wait.h"

namespace railwise::test {
namespace {

// More than an empty function: two checks for null, two numbers loaded and stored. A lock and its release
// take more, and so does a call of another function.
constexpr long kMostInstructions = 10;

#if defined(__GNUC__) && !defined(__clang__)
[[gnu::optimize("O2")]]
#endif
ncclResult_t
doNothing(void*, ncclNetAttr_v12_t*) {
  return ncclSuccess;
}

// Between two signals, in single steps of a child. Nothing: this system lets nobody be traced.
template <typename Body>
std::optional<long> countSteps(const Body& body) {
  const pid_t child = fork();
  if (child == 0) {
    if (ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) _exit(1);
    for (int i = 0; i < 3; ++i) {  // the first time, the dynamic linker may look for names
      raise(SIGSTOP);
      body();
    }
    raise(SIGSTOP);
    _exit(0);
  }
  long steps = 0;
  int stops = 0;
  int status = 0;
  for (Patience patience; waitpid(child, &status, 0) == child && WIFSTOPPED(status); patience.again()) {
    if (WSTOPSIG(status) == SIGSTOP) ++stops;
    if (stops == 4) break;
    if (stops == 3) ++steps;
    if (ptrace(stops == 3 ? PTRACE_SINGLESTEP : PTRACE_CONT, child, nullptr, nullptr) != 0) break;
  }
  if (WIFSTOPPED(status)) {
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
  }
  return stops == 4 ? std::optional(steps) : std::nullopt;
}

TEST(SetNetAttr, TakesFewInstructions) {
#ifndef NDEBUG
  GTEST_SKIP() << "the plugin is not optimised";
#endif
  if (kAddressSanitizer || kThreadSanitizer) GTEST_SKIP() << "a sanitizer adds instructions of its own";
  using A = Api<12>;
  Session<A> session;
  ncclNetAttr_v12_t attributes = {};
  attributes.sendCommAttr.maxConcurrentPeers = 3;
  attributes.sendCommAttr.maxFlowsPerPeer = 2;
  const auto stepsOf = [&](decltype(A::table().setNetAttr) call) {
    return countSteps([&] { call(session.context(), &attributes); });
  };
  const auto nothing = stepsOf(doNothing);
  if (!nothing) GTEST_SKIP() << "no ptrace here";
  const auto all = stepsOf(A::table().setNetAttr);
  ASSERT_TRUE(all.has_value());
  EXPECT_LE(*all - *nothing, kMostInstructions);
  RecordProperty("instructions_more_than_an_empty_function", static_cast<int>(*all - *nothing));
}

}  // namespace
}  // namespace railwise::test
