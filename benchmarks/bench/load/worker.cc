#include "benchmarks/bench/load/worker.h"

#include <fcntl.h>
#include <unistd.h>

#include <cinttypes>
#include <cstdio>
#include <string>
#include <string_view>
#include <thread>

#include "benchmarks/bench/load/load.h"
#include "cli/options/message.h"
#include "cli/options/options.h"

// callgrind finds this function by its name.
extern "C" [[gnu::noinline]] bool railwiseBenchCounted(railwise::cli::BenchLoad* load, uint64_t messages) {
  return load->count(messages).has_value();
}

namespace railwise::cli {
namespace {

// Gives the answers a descriptor of their own, because a plugin may print to stdout.
std::FILE* takeStdout() {
  std::FILE* const answers = fdopen(fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3), "w");
  dup2(STDERR_FILENO, STDOUT_FILENO);
  return answers;
}

bool timedRun(BenchLoad& load, uint64_t messages, std::FILE* answers) {
  const auto ran = load.run(messages);
  if (!ran) return false;
  std::fprintf(answers, "ran %" PRIu64 " %" PRIu64, ran->cpu_ns, ran->wall_ns);
  if (const auto& way = ran->latency)
    std::fprintf(answers, " %f %f %f %f", way->min_ns, way->p50_ns, way->p90_ns, way->p99_ns);
  std::fputs("\n", answers);
  return true;
}

bool countedRun(BenchLoad& load, uint64_t messages, std::FILE* answers) {
  const bool ran = railwiseBenchCounted(&load, messages);
  if (ran) std::fprintf(answers, "counted %s\n", load.origin().file.c_str());
  return ran;
}

void sayReady(const BenchLoad& load, std::FILE* answers) {
  std::fprintf(answers, "ready %d %s\n", load.origin().api, load.origin().name.c_str());
  std::fflush(answers);
}

bool connectMore(BenchLoad& load, int connections, std::FILE* answers) {
  sayReady(load, answers);
  const auto each = load.connectMore(connections);
  if (each)
    std::fprintf(answers, "connected %f %f %f %f %f\n", each->cpu_ns, each->wall_ns, each->bytes,
                 each->close_cpu_ns, each->register_cpu_ns);
  std::fflush(answers);
  return each.has_value();
}

// Runs the orders from stdin until its end. False: an order failed, and the load's error() says why.
bool obey(BenchLoad& load, std::FILE* answers) {
  if (!load.check()) return false;
  sayReady(load, answers);
  char order[64];
  char what[16];
  unsigned long long messages = 0;
  while (std::fgets(order, sizeof order, stdin) != nullptr &&
         std::sscanf(order, "%15s %llu", what, &messages) == 2) {
    const bool ran = std::string_view(what) == "count" ? countedRun(load, messages, answers)
                                                       : timedRun(load, messages, answers);
    if (!ran) return false;
    std::fflush(answers);
  }
  return true;
}

}  // namespace

int benchWorker(Args args) {
  const auto task = readTask(args);
  std::FILE* const answers = takeStdout();
  if (answers == nullptr || !task) return kExitUsage;
  setPluginLog(task->verbose ? PluginLog::kInfo : PluginLog::kWarn);
  const auto load = BenchLoad::create(*task);
  bool right = load->start();
  if (right && task->set_ups > 0) {
    right = connectMore(*load, task->set_ups, answers);
  } else if (right) {
    std::thread([&] { right = obey(*load, answers); }).join();
  }
  if (right && load->close()) return kExitOk;
  std::fprintf(answers, "error %s\n", load->error().c_str());
  std::fflush(answers);
  _exit(kExitFailed);  // an end in another thread or process may wait for its peer for a long time
}

}  // namespace railwise::cli
