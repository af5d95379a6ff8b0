#include "rank.h"

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <mutex>
#include <thread>

Options options;

namespace {

using Clock = std::chrono::steady_clock;

// Emulated GPUs of 16 ranks on two cores need a good part of it.
constexpr auto kCheckTime = std::chrono::seconds(180);

// The check that is under way.
std::mutex current_mutex;
std::string current = "start";
Clock::time_point deadline;
bool all_right = true;
int checks_ended = 0;

}  // namespace

void stop(int status, const std::string& what) {
  std::printf("WRONG %s\n", what.c_str());
  std::fflush(stdout);
  _exit(status);
}

void must(cudaError_t error, const char* call) {
  if (error != cudaSuccess) stop(1, std::string(call) + ": " + cudaGetErrorString(error));
}

void must(ncclResult_t result, const char* call, ncclComm_t comm) {
  if (result == ncclSuccess) return;
  stop(1, std::string(call) + ": " + ncclGetErrorString(result) + ": " + ncclGetLastError(comm));
}

void beginCheck(const std::string& name) {
  const std::lock_guard lock(current_mutex);
  current = name;
  deadline = Clock::now() + kCheckTime;
}

void watchChecks() {
  std::thread([] {
    for (;;) {
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
      const std::lock_guard lock(current_mutex);
      if (Clock::now() > deadline) {
        stop(3, current + ": did not end within " + std::to_string(kCheckTime.count()) + " s");
      }
    }
  }).detach();
}

void endCheck(const std::string& name, std::size_t wrong, const std::string& where) {
  all_right = all_right && wrong == 0;
  ++checks_ended;
  if (wrong == 0) {
    std::printf("ok %s\n", name.c_str());
  } else {
    std::printf("WRONG %s: %zu elements%s\n", name.c_str(), wrong, where.c_str());
  }
  std::fflush(stdout);
}

bool allRight() { return all_right; }

int checksEnded() { return checks_ended; }
