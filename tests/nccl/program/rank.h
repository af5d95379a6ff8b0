// One rank of a check of NCCL: its command line, what it says, and what stops it.
#pragma once

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <cstddef>
#include <string>

struct Options {
  int rank = -1;
  int ranks = 0;
  std::string id;  // a path that all ranks see and that no earlier job has used
  int gpu = 0;
  std::size_t max = std::size_t{64} << 20;  // bytes of the largest message
  bool figures = false;
  int repeat = 3;
  std::string stats;   // a command that prints the devices' counters, for figures
  std::string checks;  // names separated by commas; empty: all
  double seconds = 0;  // of the check "traffic"
  // "traffic" flows until the file <id>.over is there, and connections last until <id>.quiet is.
  bool until_told = false;
  bool churn = false;  // communicators come and go while "traffic" flows
};

// Set once by main().
extern Options options;

// Says "WRONG <what>" and ends the process: other threads may hang in NCCL.
[[noreturn]] void stop(int status, const std::string& what);

// Ends the process with the call's name and reason if it failed.
void must(cudaError_t error, const char* call);
void must(ncclResult_t result, const char* call, ncclComm_t comm = nullptr);
#define MUST(call) must(call, #call)

// Begins a check: it must end within the time of a check, or the process ends with status 3 and the check's
// name.
void beginCheck(const std::string& name);
// Starts the thread that holds checks to their time.
void watchChecks();

// Ends a check: "ok <name>", or "WRONG <name>: <wrong> elements<where>".
void endCheck(const std::string& name, std::size_t wrong, const std::string& where = "");
// Whether every check so far was right.
bool allRight();
// How many have ended.
int checksEnded();
