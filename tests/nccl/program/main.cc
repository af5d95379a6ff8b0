// One rank of a check of NCCL itself, whatever net it has loaded: collectives on GPU memory whose every
// element is verified, and what programs do with communicators besides. scripts/nccl-check starts the ranks
// and judges what they say. It needs the CUDA runtime and NCCL, and has no kernel of its own.
//
//   nccl_check --rank R --ranks N --id FILE [--gpu G] [--max BYTES] [--checks A,B] [--seconds S]
//   [--until-told] [--figures [--repeat N] [--stats COMMAND]]
//
// FILE: a path that all ranks see and that no earlier job has used; more files are made with that prefix.
// --until-told, --churn: of the check "traffic", see rank.h.
// Says a line for each check, "ok NAME" or "WRONG NAME: what", then "ran CHECK" or "skipped CHECK"; "lacks
// CHECK" where this NCCL has nothing to check; with --figures what figures.h says. Exit status: 0 all right,
// 1 something was wrong, 2 a mistake on the command line, 3 a check did not end.
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "checks.h"
#include "figures.h"

namespace {

// How the software device can reach what NCCL gives a network without GPUDirect: host memory that CUDA
// pinned.
void probePinnedMemory() {
  void* pinned = nullptr;
  MUST(cudaHostAlloc(&pinned, sizeof(int64_t), cudaHostAllocMapped));
  int64_t word = 1;
  iovec here{&word, sizeof word};
  iovec there{pinned, sizeof word};
  const bool reached = process_vm_writev(getpid(), &here, 1, &there, 1, 0) == sizeof word;
  std::printf("info pinned host memory: process_vm_writev %s\n",
              reached ? "reaches it" : std::strerror(errno));
  MUST(cudaFreeHost(pinned));
}

void sayVersions() {
  int version = 0;
  int runtime = 0;
  int driver = 0;
  MUST(ncclGetVersion(&version));
  MUST(cudaRuntimeGetVersion(&runtime));
  MUST(cudaDriverGetVersion(&driver));
  cudaDeviceProp gpu;
  MUST(cudaGetDeviceProperties(&gpu, options.gpu));
  std::printf("versions nccl %d cuda %d driver %d gpu %s\n", version, runtime, driver, gpu.name);
}

bool isWanted(const Check& check) {
  if (options.checks.empty()) return check.by_default;
  return ("," + options.checks + ",").find("," + std::string(check.name) + ",") != std::string::npos;
}

// Whether every name of --checks is one.
bool areKnown(const std::string& names) {
  for (std::size_t begin = 0; begin < names.size();) {
    const std::size_t end = std::min(names.find(',', begin), names.size());
    bool known = false;
    for (std::size_t i = 0; i < kCheckCount; ++i)
      known = known || names.substr(begin, end - begin) == kChecks[i].name;
    if (!known) {
      std::fprintf(stderr,
                   "nccl_check: no check is named %s; there are:", names.substr(begin, end - begin).c_str());
      for (std::size_t i = 0; i < kCheckCount; ++i) std::fprintf(stderr, " %s", kChecks[i].name);
      std::fputc('\n', stderr);
      return false;
    }
    begin = end + 1;
  }
  return true;
}

bool parse(int count, char** words) {
  for (int i = 1; i < count; ++i) {
    const std::string word = words[i];
    if (word == "--figures") {
      options.figures = true;
      continue;
    }
    if (word == "--until-told") {
      options.until_told = true;
      continue;
    }
    if (word == "--churn") {
      options.churn = true;
      continue;
    }
    if (i + 1 == count) return false;
    const char* const value = words[++i];
    if (word == "--rank") options.rank = std::atoi(value);
    else if (word == "--ranks") options.ranks = std::atoi(value);
    else if (word == "--id") options.id = value;
    else if (word == "--gpu") options.gpu = std::atoi(value);
    else if (word == "--max") options.max = std::strtoull(value, nullptr, 10);
    else if (word == "--repeat") options.repeat = std::atoi(value);
    else if (word == "--checks") options.checks = value;
    else if (word == "--stats") options.stats = value;
    else if (word == "--seconds") options.seconds = std::atof(value);
    else return false;
  }
  return options.rank >= 0 && options.rank < options.ranks && !options.id.empty() && options.max >= 8 &&
         options.repeat > 0;
}

}  // namespace

int main(int count, char** words) {
  if (!parse(count, words)) {
    std::fputs(
        "usage: nccl_check --rank R --ranks N --id FILE [--gpu G] [--max BYTES] [--checks A,B] [--seconds S] "
        "[--until-told] [--churn] [--figures [--repeat N] [--stats COMMAND]]\n",
        stderr);
    return 2;
  }
  if (!areKnown(options.checks)) return 2;
  setenv("NCCL_SET_THREAD_NAME", "1", 1);  // figures.cc knows the proxy threads by name
  beginCheck("start");
  watchChecks();
  MUST(cudaSetDevice(options.gpu));
  sayVersions();
  probePinnedMemory();
  const Communicator main("main");
  if (options.figures) {
    figures(main);
  } else {
    for (std::size_t i = 0; i < kCheckCount; ++i) {
      if (!isWanted(kChecks[i])) continue;
      if (kChecks[i].run == nullptr) {
        std::printf("lacks %s\n", kChecks[i].name);
        continue;
      }
      const int before = checksEnded();
      kChecks[i].run(main);
      // A check may need more ranks, or a newer NCCL.
      std::printf("%s %s\n", checksEnded() > before ? "ran" : "skipped", kChecks[i].name);
    }
  }
  beginCheck("end");
  return allRight() ? 0 : 1;
}
