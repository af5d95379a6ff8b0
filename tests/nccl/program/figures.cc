#include "figures.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <thread>

namespace {

// CPU time of NCCL's proxy progress threads in this process so far, in nanoseconds. From
// /proc/self/task/*/schedstat, whose first number it is.
double proxyNanoseconds() {
  double all = 0;
  bool found = false;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string name;
    std::getline(std::ifstream(task.path() / "comm"), name);
    if (name.rfind("NCCL Progress", 0) != 0) continue;
    double time = 0;
    if (std::ifstream(task.path() / "schedstat") >> time) all += time;
    found = true;
  }
  if (!found)
    stop(1, "no thread of this process is named NCCL Progress: the CPU time of the proxy is not known");
  return all;
}

struct Cost {
  double microseconds = 0;        // an operation, at best
  double proxy_microseconds = 0;  // CPU time of the proxy threads for one, on the average
};

Cost costOf(const Communicator& main, std::size_t bytes, const std::function<void()>& enqueue) {
  const int row = bytes <= (std::size_t{64} << 10) ? 20 : 4;
  cudaEvent_t from = nullptr;
  cudaEvent_t to = nullptr;
  MUST(cudaEventCreate(&from));
  MUST(cudaEventCreate(&to));
  Cost cost;
  double proxy_before = 0;
  for (int repeat = -1; repeat < options.repeat; ++repeat) {  // the first warms up
    if (repeat == 0) proxy_before = proxyNanoseconds();
    MUST(cudaEventRecord(from, main.stream));
    for (int i = 0; i < row; ++i) enqueue();
    MUST(cudaEventRecord(to, main.stream));
    main.wait();
    float ms = 0;
    MUST(cudaEventElapsedTime(&ms, from, to));
    const double each = static_cast<double>(ms) * 1000 / row;
    if (repeat == 0 || (repeat > 0 && each < cost.microseconds)) cost.microseconds = each;
  }
  cost.proxy_microseconds = (proxyNanoseconds() - proxy_before) / 1000 / (row * options.repeat);
  MUST(cudaEventDestroy(from));
  MUST(cudaEventDestroy(to));
  return cost;
}

// Operations between two looks at the devices' counters.
constexpr int kCounted = 50;
// For what other ranks, and a proxy that is still busy, have to do before counters are looked at.
constexpr auto kSettle = std::chrono::milliseconds(30);

// Rank 0 looks; the others wait until it has: a rank that goes on or ends meanwhile would change what it
// sees.
std::string lookAtCounters(const Communicator& main, const std::string& name) {
  const std::string file = options.id + "." + name + ".json";
  const std::string looked = file + ".looked";
  if (main.rank != 0) {
    while (!std::filesystem::exists(looked)) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return file;
  }
  std::this_thread::sleep_for(kSettle);
  if (std::system((options.stats + " > " + file).c_str()) != 0) stop(1, "cannot run " + options.stats);
  std::ofstream(looked).flush();
  return file;
}

void countWork(const Communicator& main, const std::string& name, std::size_t bytes,
               const std::function<void()>& enqueue) {
  const std::string prefix = name + "." + std::to_string(bytes);
  const std::string before = lookAtCounters(main, prefix + ".before");
  for (int i = 0; i < kCounted; ++i) enqueue();
  main.wait();
  const std::string after = lookAtCounters(main, prefix + ".after");
  if (main.rank == 0)
    std::printf("counts %s %zu %d %s %s\n", name.c_str(), bytes, kCounted, before.c_str(), after.c_str());
}

}  // namespace

void figures(const Communicator& main) {
  const auto ranks = static_cast<std::size_t>(main.ranks);
  const DeviceMemory from(options.max * ranks);
  const DeviceMemory to(options.max * ranks);
  for (std::size_t bytes = 8;; bytes = std::min(bytes * 8, options.max)) {
    const std::size_t count = bytes / sizeof(int32_t);
    const auto measure = [&](const char* name, const std::function<void()>& enqueue) {
      beginCheck("figures");
      const Cost cost = costOf(main, bytes, enqueue);
      std::printf("figure %s %zu %.2f %.2f\n", name, bytes, cost.microseconds, cost.proxy_microseconds);
      if (!options.stats.empty()) countWork(main, name, bytes, enqueue);
      std::fflush(stdout);
    };
    measure("all_reduce", [&] {
      MUST(ncclAllReduce(from.at(), to.at(), count, ncclInt32, ncclSum, main.comm, main.stream));
    });
    measure("sendrecv", [&] {
      MUST(ncclGroupStart());
      MUST(ncclSend(from.at(), count, ncclInt32, (main.rank + 1) % main.ranks, main.comm, main.stream));
      MUST(ncclRecv(to.at(), count, ncclInt32, (main.rank + main.ranks - 1) % main.ranks, main.comm,
                    main.stream));
      MUST(ncclGroupEnd());
    });
    if (main.ranks > 2) {
      measure("alltoall", [&] {
        MUST(ncclGroupStart());
        for (std::size_t peer = 0; peer < ranks; ++peer) {
          MUST(ncclSend(from.at(peer * bytes), count, ncclInt32, static_cast<int>(peer), main.comm,
                        main.stream));
          MUST(ncclRecv(to.at(peer * bytes), count, ncclInt32, static_cast<int>(peer), main.comm,
                        main.stream));
        }
        MUST(ncclGroupEnd());
      });
    }
    if (bytes >= options.max) break;
  }
}
