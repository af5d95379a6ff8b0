// plugin_shortages: lets each call in turn fail by which the plugin asks for memory, descriptors or other
// things of the kernel, in a process of its own, over a whole life of a job (life.h). Whatever fails: no
// crash, no hang, no wrong byte; an error comes with a warning, the end is in good order, nothing is left,
// and the next life in the same process is right. Exit status 0 when that holds; otherwise each case is
// named, with the command that repeats it.
#include <dlfcn.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <thread>

#include "plugin/api.h"
#include "plugin/logger.h"
#include "plugin/shortages/interposed.h"
#include "plugin/shortages/life.h"
#include "plugin/test_device.h"

namespace railwise::test {
namespace {

constexpr unsigned kLimit = 300;  // seconds of one case
constexpr const char* kNoneRefused = "no call was refused";
struct Kind {
  Shortage kind;
  const char* name;
};
constexpr Kind kKinds[] = {
    {Shortage::kMemory, "memory"}, {Shortage::kDescriptors, "descriptors"}, {Shortage::kKernel, "kernel"}};

struct Settings {
  const Kind* kind = nullptr;  // null: all
  uint64_t only = 0;           // the n-th call alone
  uint64_t every = 1;
  uint64_t first = 1;
  bool lasting = false;
  bool verbose = false;
  const char* device = "link=roce,count=2";  // of the software device
  Life (*live)() = test::live;
};

std::size_t descriptors(std::string* names = nullptr) {
  std::size_t count = 0;
  for (const auto& each : std::filesystem::directory_iterator("/proc/self/fd")) {
    ++count;
    std::error_code ignored;
    if (names != nullptr) *names += " " + std::filesystem::read_symlink(each.path(), ignored).string();
  }
  return count;
}

// Of the calling thread, which has none blocked by itself.
bool signalsBlocked() {
  sigset_t blocked;
  pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
  return sigismember(&blocked, SIGTERM) != 0 || sigismember(&blocked, SIGALRM) != 0;
}

// What is left of the plugin when nobody uses it.
struct Left {
  std::size_t descriptors;
  std::size_t blocks;
};

// More than usual. Empty: no.
std::string moreThan(const Left& usual) {
  const std::size_t blocks = blocksHeld();
  const std::string where = whereHeld();
  std::string names;
  const std::size_t open = descriptors(&names);
  if (open > usual.descriptors)
    return std::to_string(open - usual.descriptors) + " descriptors are left, of" + names;
  if (blocks > usual.blocks)
    return std::to_string(blocks) + " blocks of memory are left instead of " + std::to_string(usual.blocks) +
           ":" + where;
  return "";
}

// What is left for good. A thread that ends gives back its memory a moment later, so looks again for some
// time.
std::string leaksBeyond(const Left& usual) {
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(5);
  std::string more = moreThan(usual);
  while (!more.empty() && std::chrono::steady_clock::now() < limit) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    more = moreThan(usual);
  }
  return more;
}

void prepare(const char* device) {
  useDevice(device);
  setenv("RAILWISE_CONNECT_TIMEOUT", "2", 1);  // with a shortage that lasts, some attempt ends only so
  (void)openPlugin();
  // Before the plugin does it, because calls of both libraries are counted from arm() on.
  const auto folder = std::filesystem::path(RAILWISE_PLUGIN_PATH).parent_path() / "railwise-verbs";
  if (dlopen((folder / "librailwise-device.so").c_str(), RTLD_NOW) == nullptr)
    std::fprintf(stderr, "%s\n", dlerror());
}

// In the child. Empty when all was right.
std::string judge(const Settings& settings, const Kind& kind, uint64_t fails, const Left& usual,
                  std::string* story) {
  prepare(settings.device);
  arm(kind.kind, fails, settings.lasting);
  const Life life = settings.live();
  const std::string said = warnings();
  disarm();
  *story = refused() + (life.failed.empty() ? ": no call failed" : ": " + life.failed) + "\n" + said;
  if (!life.wrong.empty()) return life.wrong;
  if (refused().empty())
    return life.failed.empty() ? kNoneRefused : life.failed + " though nothing was refused";
  if (signalsBlocked()) return "signals are blocked";
  if (!life.failed.empty() && said.empty()) return life.failed + " without a warning";
  if (const std::string leaks = leaksBeyond(usual); !leaks.empty()) return leaks;
  clearLog();
  const Life next = settings.live();
  if (!next.wrong.empty()) return "in the next life: " + next.wrong;
  if (!next.failed.empty()) return "in the next life: " + next.failed + "\n" + warnings();
  const std::string leaks = leaksBeyond(usual);
  return leaks.empty() ? "" : "after the next life: " + leaks;
}

// The pipe to the parent. A child that crashes writes an empty finding and its story there.
int g_report = -1;
void reportCrash(int signal) {
  const std::string text = std::string(1, '\0') + refused() + ": it crashed at" + where();
  if (write(g_report, text.data(), text.size()) < 0) _exit(1);
  std::signal(signal, SIG_DFL);
  (void)raise(signal);
}

// Runs `body` in a child and returns what it printed; `status` as of waitpid.
template <typename Body>
std::string inChild(const Body& body, int* status) {
  int ends[2];
  if (pipe(ends) != 0) std::abort();
  std::fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    alarm(kLimit);
    close(ends[0]);
    g_report = ends[1];
    for (const int signal : {SIGABRT, SIGSEGV, SIGBUS, SIGALRM}) std::signal(signal, reportCrash);
    const std::string text = body();
    const ssize_t written = write(ends[1], text.data(), text.size());
    _exit(written == static_cast<ssize_t>(text.size()) ? 0 : 1);
  }
  close(ends[1]);
  std::string text;
  char buffer[4096];
  for (ssize_t got; (got = read(ends[0], buffer, sizeof buffer)) > 0;)
    text.append(buffer, static_cast<std::size_t>(got));
  close(ends[0]);
  if (waitpid(child, status, 0) != child) std::abort();
  return text;
}

// Two lives in which nothing fails: how many calls the first has, and what stays.
std::string measure(const Settings& settings) {
  prepare(settings.device);
  arm(Shortage::kMemory, 0, false);
  const Life life = settings.live();
  if (!life.failed.empty() || !life.wrong.empty()) return life.failed + life.wrong + "\n" + warnings();
  std::string text;
  for (const Kind& kind : kKinds) text += std::to_string(callsOf(kind.kind)) + " ";
  const Life next = settings.live();
  if (!next.failed.empty() || !next.wrong.empty()) return next.failed + next.wrong + "\n" + warnings();
  std::this_thread::sleep_for(std::chrono::milliseconds(200));  // see leaksBeyond()
  return text + std::to_string(descriptors()) + " " + std::to_string(blocksHeld());
}

int sweep(const Settings& settings) {
  int status = 0;
  const std::string measured = inChild([&] { return measure(settings); }, &status);
  unsigned long calls[3], open = 0, blocks = 0;
  if (std::sscanf(measured.c_str(), "%lu %lu %lu %lu %lu", &calls[0], &calls[1], &calls[2], &open, &blocks) !=
      5) {
    std::printf("WRONG: a life in which nothing fails (status 0x%x): %s\n", static_cast<unsigned>(status),
                measured.c_str());
    return 1;
  }
  uint64_t cases = 0, wrong = 0;
  for (std::size_t k = 0; k < 3; ++k) {
    const Kind& kind = kKinds[k];
    if (settings.kind != nullptr && settings.kind != &kind) continue;
    uint64_t failed = 0, tried = 0;
    for (uint64_t n = settings.only != 0 ? settings.only : settings.first; n <= calls[k];
         n += settings.every) {
      std::string story;
      const std::string text = inChild(
          [&] {
            const std::string found = judge(settings, kind, n, {open, blocks}, &story);
            return found + '\0' + story;
          },
          &status);
      const std::string found = text.c_str();
      story = text.size() > found.size() ? text.substr(found.size() + 1) : "";
      if (found == kNoneRefused) continue;  // how many calls there are differs a little from run to run
      ++tried;
      failed += story.find(": no call failed") == std::string::npos ? 1 : 0;
      if (settings.verbose)
        std::printf("%s %lu: %s\n", kind.name, static_cast<unsigned long>(n), story.c_str());
      if (found.empty() && status == 0) continue;
      ++wrong;
      std::printf("WRONG:%s --device %s --kind %s --only %lu%s: %s (status 0x%x)\n%s\n",
                  settings.live == liveOneSided ? " --one-sided" : "", settings.device, kind.name,
                  static_cast<unsigned long>(n), settings.lasting ? " --lasting" : "", found.c_str(),
                  static_cast<unsigned>(status), story.c_str());
      if (settings.only != 0) break;
    }
    cases += tried;
    if (tried == 0) {
      ++wrong;
      std::printf("WRONG: no call of the kind %s was refused\n", kind.name);
    }
    std::printf("%s: %lu calls, %lu of them refused, %lu times a call of NCCL's failed for it\n", kind.name,
                calls[k], static_cast<unsigned long>(tried), static_cast<unsigned long>(failed));
  }
  std::printf("%lu cases, %lu wrong\n", static_cast<unsigned long>(cases), static_cast<unsigned long>(wrong));
  return wrong == 0 && cases > 0 ? 0 : 1;
}

int usage() {
  std::fputs(
      "plugin_shortages [--one-sided] [--device KEYS] [--kind memory|descriptors|kernel] [--only N] [--first "
      "N] [--every N] [--lasting] [--verbose]\n",
      stderr);
  return 2;
}

int main(int count, char** words) {
  Settings settings;
  for (int i = 1; i < count; ++i) {
    const std::string word = words[i];
    const char* value = i + 1 < count ? words[i + 1] : nullptr;
    if (word == "--lasting") {
      settings.lasting = true;
    } else if (word == "--one-sided") {
      settings.live = liveOneSided;
    } else if (word == "--verbose") {
      settings.verbose = true;
    } else if (value == nullptr) {
      return usage();
    } else if (word == "--device") {
      settings.device = value;
      ++i;
    } else if (word == "--kind") {
      for (const Kind& kind : kKinds)
        if (std::strcmp(kind.name, value) == 0) settings.kind = &kind;
      if (settings.kind == nullptr) return usage();
      ++i;
    } else {
      const uint64_t number = std::strtoull(value, nullptr, 10);
      if (number == 0) return usage();
      if (word == "--only") settings.only = number, settings.every = UINT64_MAX / 2;
      else if (word == "--every") settings.every = number;
      else if (word == "--first") settings.first = number;
      else return usage();
      ++i;
    }
  }
  return sweep(settings);
}

}  // namespace
}  // namespace railwise::test

int main(int count, char** words) { return railwise::test::main(count, words); }
