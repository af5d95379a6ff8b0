// A process of the kill test: it exchanges random traffic with another worker until that one is gone, checks
// every byte and every completion, tells what it saw, and is ready for the next. Commands and answers are
// datagrams of a socket pair.
#pragma once

#include <cstdint>

#include "softdev/endpoint.h"

namespace railwise::softdev::test {

constexpr int kWorkerQps = 3;

enum class WorkerLock : uint32_t { kTables, kOwnCq, kPeerCq, kPeerResponder, kPeerReceive, kCount };

struct WorkerCommand {
  enum Kind : uint32_t { kConfigure, kConnect, kGo, kDieHolding, kLeave } kind;
  char config[256];
  uint64_t seed;
  WorkerLock lock;
  Address peers[kWorkerQps];
};

struct WorkerAnswer {
  enum Kind : uint32_t { kReady, kConnected, kLost } kind;
  Address addresses[kWorkerQps];  // kReady: of fresh queue pairs
  int64_t first_error_ns;         // kLost: CLOCK_MONOTONIC
  char first_error[100];
  uint64_t completions;
  char complaint[200];  // "" or what was wrong
};

// Body of the program; `fd` is the connection to the test.
int runWorker(int fd);

}  // namespace railwise::softdev::test
