// Runs schedules that seeds draw, each in a child process, and counts what came of them.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "base/clock.h"
#include "base/log.h"

namespace railwise::test {

struct SeedOptions {
  uint64_t first = 1;
  uint64_t count = 200;
  std::size_t jobs = 4;
  bool verbose = false;
};

// Nothing: the arguments are wrong, which was said.
inline std::optional<SeedOptions> seedOptions(int argc, char** argv) {
  SeedOptions options;
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    if (name == "--verbose") {
      options.verbose = true;
      continue;
    }
    char* rest = nullptr;
    const uint64_t value = i + 1 < argc ? std::strtoull(argv[++i], &rest, 10) : 0;
    const bool number = rest != nullptr && *rest == '\0';
    if (number && name == "--first") options.first = value;
    else if (number && name == "--count") options.count = value;
    else if (number && name == "--jobs" && value > 0) options.jobs = value;
    else {
      std::fprintf(stderr, "usage: %s [--first SEED] [--count N] [--jobs N] [--verbose]\n", argv[0]);
      return std::nullopt;
    }
  }
  return options;
}

// What came of a schedule. What derives from it goes through a pipe as it is.
struct SeedReport {
  enum Outcome : uint32_t { kFailed, kCompleted, kUnreachable };
  Outcome outcome = kFailed;
  char problem[1024] = {};

  void setProblem(const std::string& text) { std::snprintf(problem, sizeof problem, "%s", text.c_str()); }
};

// `Report` derives from SeedReport, and adds another report of its kind to itself by add().
template <typename Report, typename Run>
class SeedProcesses {
  static_assert(std::is_trivially_copyable_v<Report>);

 public:
  // `run`: makes a Report of a seed, in a child. `limit_s`: beyond every limit of a schedule.
  SeedProcesses(const SeedOptions& options, unsigned limit_s, Run run)
      : options_(options), limit_s_(limit_s), run_(std::move(run)) {}

  // Runs all seeds, and prints which have failed, and the tally of outcomes.
  void runAll() {
    std::vector<Child> running;
    uint64_t next = options_.first;
    const Clock::time_point begun = Clock::now();
    while (next < options_.first + options_.count || !running.empty()) {
      while (running.size() < options_.jobs && next < options_.first + options_.count)
        running.push_back(begin(next++));
      std::vector<pollfd> waits;
      for (const Child& child : running) waits.push_back({child.pipe, POLLIN, 0});
      (void)poll(waits.data(), waits.size(), -1);
      for (std::size_t i = waits.size(); i-- > 0;) {
        if (waits[i].revents == 0 && waits[i].fd >= 0) continue;
        const Child child = running[i];
        running.erase(running.begin() + static_cast<std::ptrdiff_t>(i));
        take(child, end(child));
      }
    }
    std::printf("%llu schedules, %.0f s: %llu completed, %llu without a path, %llu failed\n",
                static_cast<unsigned long long>(options_.count), secondsSince(begun),
                static_cast<unsigned long long>(outcomes_[SeedReport::kCompleted]),
                static_cast<unsigned long long>(outcomes_[SeedReport::kUnreachable]),
                static_cast<unsigned long long>(outcomes_[SeedReport::kFailed]));
  }
  const Report& sum() const { return sum_; }
  double longestS() const { return longest_s_; }
  bool allGood() const { return outcomes_[SeedReport::kFailed] == 0; }

 private:
  // A schedule that runs in a child.
  struct Child {
    uint64_t seed = 0;
    pid_t pid = -1;
    int pipe = -1;
    Clock::time_point begun = {};
  };

  static void logNothing(int, unsigned long, const char*, int, const char*, ...) {}
  static double secondsSince(Clock::time_point time) {
    return std::chrono::duration<double>(Clock::now() - time).count();
  }

  Child begin(uint64_t seed) {
    Child child;
    child.seed = seed;
    child.begun = Clock::now();
    int ends[2];
    if (pipe(ends) != 0) return child;
    child.pid = fork();
    if (child.pid == 0) {
      alarm(limit_s_);
      close(ends[0]);
      if (options_.verbose) log::setStderrLevel(log::kInfo);
      else log::setSink(logNothing);
      Report report;
      try {
        report = run_(seed);
      } catch (const std::exception& error) {
        report.setProblem(error.what());
      }
      if (testing::Test::HasFailure()) report.outcome = SeedReport::kFailed;
      (void)!write(ends[1], &report, sizeof report);
      _exit(0);
    }
    close(ends[1]);
    child.pipe = ends[0];
    return child;
  }
  static Report end(const Child& child) {
    Report report;
    const ssize_t got = child.pipe >= 0 ? read(child.pipe, &report, sizeof report) : -1;
    if (child.pipe >= 0) close(child.pipe);
    int status = -1;
    waitpid(child.pid, &status, 0);
    const bool whole = got == static_cast<ssize_t>(sizeof report);
    if (whole && status == 0) return report;
    if (!whole) report = {};
    report.outcome = SeedReport::kFailed;
    const bool late = WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM;
    report.setProblem(std::string("its process ended ") + (late ? "because of its time" : "badly") +
                      " (status " + std::to_string(status) + ")");
    return report;
  }
  void take(const Child& child, const Report& report) {
    ++outcomes_[report.outcome];
    longest_s_ = std::max(longest_s_, secondsSince(child.begun));
    sum_.add(report);
    if (report.outcome == SeedReport::kFailed || options_.verbose)
      std::printf("seed %llu: %s%s\n", static_cast<unsigned long long>(child.seed),
                  report.outcome == SeedReport::kFailed ? "FAILED: " : "good", report.problem);
    std::fflush(stdout);
  }

  const SeedOptions options_;
  const unsigned limit_s_;
  const Run run_;
  std::array<uint64_t, 3> outcomes_ = {};
  Report sum_;
  double longest_s_ = 0;
};

}  // namespace railwise::test
