#include "base/process.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <stdexcept>

#include "tests/ok.h"
#include "tests/wait.h"

namespace railwise {
namespace {

constexpr auto kLong = std::chrono::seconds(60);
constexpr auto kTurn = std::chrono::milliseconds(100);

ProcessPlan shell(const std::string& script) {
  ProcessPlan plan;
  plan.words = {"sh", "-c", script};
  plan.output = kStreamPipe;
  return plan;
}

ProcessPlan function(std::function<int(std::string&)> body) {
  ProcessPlan plan;
  plan.body = std::move(body);
  return plan;
}

void receiveAll(Process& process) {
  process.receiveAll(Deadline::after(kLong));
  EXPECT_FALSE(process.outputOpen());
}

// Until the output holds `text`.
void receiveUntil(Process& process, const std::string& text) {
  Process* const one[] = {&process};
  for (test::Patience patience; process.output().find(text) == std::string::npos; patience.again())
    Process::receiveAny(one, Deadline::after(kTurn));
}

bool exists(pid_t pid) { return kill(pid, 0) == 0; }

long openDescriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return std::distance(begin(all), end(all));
}

TEST(Process, KeepsWhatAProgramWritesAndHowItEnds) {
  ProcessPlan plan = shell("echo out; echo bad >&2; exit 7");
  plan.error = kStreamPipe;
  auto process = Process::start(plan);
  ASSERT_OK(process);
  receiveAll(*process);
  const ProcessEnd end = process->wait();
  process->receive();
  EXPECT_EQ(process->output(), "out\n");
  EXPECT_EQ(process->complaint(), "bad\n");
  EXPECT_FALSE(end.signalled);
  EXPECT_EQ(end.code, 7);
  EXPECT_EQ(end.shellStatus(), 7);
  EXPECT_FALSE(end.good());
}

TEST(Process, GivesTheProgramInputAndVariables) {
  setenv("PROCESS_TEST_KEPT", "kept", 1);
  setenv("PROCESS_TEST_OTHER", "old", 1);
  ProcessPlan plan = shell("read line; echo \"$line $PROCESS_TEST_KEPT $PROCESS_TEST_OTHER\"; cat");
  plan.variables = {{"PROCESS_TEST_OTHER", "new"}};
  plan.input = kStreamPipe;
  plan.input_text = "first\n";
  auto process = Process::start(plan);
  ASSERT_OK(process);
  receiveUntil(*process, "\n");
  EXPECT_EQ(process->output(), "first kept new\n");
  EXPECT_TRUE(process->running());  // cat waits for the end of its input
  process->closeInput();
  EXPECT_TRUE(process->wait().good());
}

TEST(Process, RefusesMoreInputThanAPipeHolds) {
  ProcessPlan plan = shell("cat");
  plan.input = kStreamPipe;
  plan.input_text.assign(4 << 20, 'x');
  EXPECT_FALSE(Process::start(plan).ok());
}

TEST(Process, SendsTheOutputToADescriptor) {
  std::FILE* const file = std::tmpfile();
  ProcessPlan plan = shell("echo out; echo error >&2");
  plan.output = fileno(file);
  plan.error = fileno(file);
  auto process = Process::start(plan);
  ASSERT_OK(process);
  EXPECT_TRUE(process->wait().good());
  char text[32] = {};
  EXPECT_EQ(pread(fileno(file), text, sizeof text, 0), 10);
  EXPECT_STREQ(text, "out\nerror\n");
  std::fclose(file);
}

TEST(Process, AProgramThatDoesNotExistHasTheStatusOfAShell) {
  ProcessPlan plan;
  plan.words = {"/no/such/program"};
  auto process = Process::start(plan);
  ASSERT_OK(process);
  EXPECT_EQ(process->wait().code, Process::kNoProgram);
}

TEST(Process, TellsTheSignalThatEndedTheChild) {
  auto process = Process::start(shell("kill -9 $$"));
  ASSERT_OK(process);
  const ProcessEnd end = process->wait();
  EXPECT_TRUE(end.signalled);
  EXPECT_EQ(end.code, SIGKILL);
  EXPECT_EQ(end.shellStatus(), 128 + SIGKILL);
}

TEST(Process, RunsAFunctionAndReceivesItsAnswer) {
  auto process = Process::start(function([](std::string& answer) {
    answer.assign(1 << 20, 'a');  // more than a pipe holds
    return 5;
  }));
  ASSERT_OK(process);
  receiveAll(*process);
  EXPECT_EQ(process->output().size(), 1U << 20);
  EXPECT_EQ(process->wait().code, 5);
}

TEST(Process, AFunctionThatThrowsHasAStatusOfItsOwn) {
  auto process = Process::start(function([](std::string&) -> int { throw std::runtime_error("no"); }));
  ASSERT_OK(process);
  EXPECT_EQ(process->wait().code, Process::kBodyFailed);
}

TEST(Process, KillsAChildThatIgnoresTheRequestToEnd) {
  auto process = Process::start(shell("trap '' TERM; echo ready; while :; do sleep 1; done"));
  ASSERT_OK(process);
  receiveUntil(*process, "ready\n");
  const auto& end = process->end(std::chrono::milliseconds(10));
  ASSERT_TRUE(end);
  EXPECT_TRUE(end->signalled);
  EXPECT_EQ(end->code, SIGKILL);
}

TEST(Process, AsksAChildToEndBeforeItKillsIt) {
  auto process = Process::start(shell("trap 'exit 9' TERM; echo ready; while :; do sleep 0.01; done"));
  ASSERT_OK(process);
  receiveUntil(*process, "ready\n");
  const auto& end = process->end(kLong);
  ASSERT_TRUE(end);
  EXPECT_EQ(end->shellStatus(), 9);
}

TEST(Process, WaitsNoLongerThanItsDeadline) {
  auto process = Process::start(shell("exec sleep 1000"));
  ASSERT_OK(process);
  EXPECT_FALSE(process->wait(Deadline::after(std::chrono::milliseconds(5))));
  EXPECT_TRUE(process->running());
}

TEST(Process, KeepsLittleMoreThanTheLimitOfAProgramThatWritesWithoutEnd) {
  ProcessPlan plan = shell("while :; do echo out; echo bad >&2; done");
  plan.error = kStreamPipe;
  plan.most_output = 100;
  auto process = Process::start(plan);
  ASSERT_OK(process);
  Process* const one[] = {&*process};
  for (test::Patience patience; process->output().size() <= 100; patience.again())
    Process::receiveAny(one, Deadline::after(kTurn));
  const std::size_t received = process->output().size();
  for (int i = 0; i < 20; ++i) Process::receiveAny(one, Deadline::after(kTurn));
  EXPECT_EQ(process->output().size(), received);
  EXPECT_TRUE(process->running());
  EXPECT_LT(process->complaint().size(), 100'000U);
}

TEST(Process, EndsTheChildWithTheObject) {
  pid_t pid = -1;
  {
    auto process = Process::start(shell("exec sleep 1000"));
    ASSERT_OK(process);
    pid = process->pid();
    EXPECT_TRUE(exists(pid));
  }
  EXPECT_FALSE(exists(pid));
}

TEST(Process, EndsWhatTheProgramHasStartedIfItHasAGroupOfItsOwn) {
  ProcessPlan plan = shell("sleep 1000 & echo started");
  plan.own_group = true;
  auto process = Process::start(plan);
  ASSERT_OK(process);
  receiveUntil(*process, "\n");
  EXPECT_TRUE(process->outputOpen());  // the grandchild holds the pipe
  process->end();
  receiveAll(*process);  // the pipe has an end, so the grandchild is gone
}

TEST(Process, EndsWithItsParent) {
  // The parent is a child of this test. It ends at once; its own child holds the pipe until the kernel ends
  // it, whether it came as far as prctl() before its parent's end or not.
  for (int run = 0; run < 20; ++run) {
    auto parent = Process::start(function([](std::string&) {
      ProcessPlan plan = function([](std::string&) {
        pause();
        return 0;
      });
      static auto child = Process::start(plan);
      return child.ok() ? 0 : 1;
    }));
    ASSERT_OK(parent);
    receiveAll(*parent);
    EXPECT_TRUE(parent->wait().good());
  }
}

TEST(Process, IsMovedWithItsChild) {
  std::vector<Process> all;
  for (int i = 0; i < 3; ++i) {
    auto process = Process::start(shell("echo " + std::to_string(i)));
    ASSERT_OK(process);
    all.push_back(std::move(*process));
  }
  for (std::size_t i = 0; i < all.size(); ++i) {
    receiveAll(all[i]);
    EXPECT_EQ(all[i].output(), std::to_string(i) + "\n");
    EXPECT_TRUE(all[i].wait().good());
  }
}

TEST(Process, LeavesNoDescriptorsToProgramsAndNoneBehind) {
  constexpr const char* kCount = "ls /proc/self/fd | wc -l";
  // The test itself may have been started with descriptors that all programs inherit.
  std::FILE* const plain = popen(kCount, "re");
  int inherited = 0;
  ASSERT_EQ(std::fscanf(plain, "%d", &inherited), 1);
  pclose(plain);
  const long before = openDescriptors();
  {
    ProcessPlan plan = shell(kCount);
    plan.input = kStreamPipe;
    plan.error = kStreamPipe;
    auto first = Process::start(plan);
    auto second = Process::start(plan);
    ASSERT_OK(first);
    ASSERT_OK(second);
    for (Process* each : {&*first, &*second}) {
      receiveAll(*each);
      EXPECT_EQ(std::atoi(each->output().c_str()), inherited);
    }
  }
  EXPECT_EQ(openDescriptors(), before);
}

TEST(Process, TakesAChildForEndedThatSomebodyElseHasWaitedFor) {
  auto process = Process::start(shell("exit 0"));
  ASSERT_OK(process);
  ASSERT_EQ(waitpid(process->pid(), nullptr, 0), process->pid());
  EXPECT_EQ(process->wait().code, -1);
}

}  // namespace
}  // namespace railwise
