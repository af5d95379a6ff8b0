// A plugin for the tests of perf's one-sided commands: Railwise's RMA table v14 with a mistake that
// RMA_MISTAKE names, in the process whose RAILWISE_PERF_RANK is 1:
//   byte     every put leaves out its last byte
//   value    every signal adds 2
//   twice    every signal is added once more, behind the first
//   lost     no signal is sent
//   no_iget  in all processes: the table has no iget
#include <dlfcn.h>

#include <cstdlib>
#include <mutex>
#include <string_view>
#include <vector>

#include "nccl/rma_v14.h"

extern "C" [[gnu::visibility("default")]] ncclRma_v14_t ncclRmaPlugin_v14;
ncclRma_v14_t ncclRmaPlugin_v14 = {};

namespace {

ncclRma_v14_t g_right = {};

bool has(std::string_view mistake) {
  const char* const its = std::getenv("RMA_MISTAKE");
  const char* const rank = std::getenv("RAILWISE_PERF_RANK");
  const bool all = mistake == "no_iget";
  return its != nullptr && its == mistake && (all || (rank != nullptr && std::string_view(rank) == "1"));
}

size_t without(size_t bytes) { return has("byte") && bytes > 0 ? bytes - 1 : bytes; }

// Signals that nobody waits for. They are tested with whatever the caller tests, as requests must be.
std::mutex g_mutex;
std::vector<void*> g_more;

ncclResult_t iput(void* context, int number, uint64_t from, void* from_window, size_t bytes, uint64_t to,
                  void* to_window, uint32_t rank, void** request) {
  return g_right.iput(context, number, from, from_window, without(bytes), to, to_window, rank, request);
}

ncclResult_t iputSignal(void* context, int number, uint64_t from, void* from_window, size_t bytes,
                        uint64_t to, void* to_window, uint32_t rank, uint64_t signal, void* signal_window,
                        uint64_t value, uint32_t operation, bool strong, void** request) {
  if (has("lost")) return iput(context, number, from, from_window, bytes, to, to_window, rank, request);
  if (has("value")) value = 2;
  const ncclResult_t result =
      g_right.iputSignal(context, number, from, from_window, without(bytes), to, to_window, rank, signal,
                         signal_window, value, operation, strong, request);
  if (!has("twice") || result != ncclSuccess) return result;
  void* more = nullptr;
  const ncclResult_t again = g_right.iputSignal(context, number, 0, nullptr, 0, 0, nullptr, rank, signal,
                                                signal_window, value, operation, strong, &more);
  const std::lock_guard lock(g_mutex);
  if (again == ncclSuccess) g_more.push_back(more);
  return again;
}

ncclResult_t test(void* group, void* request, int* done) {
  {
    const std::lock_guard lock(g_mutex);
    std::erase_if(g_more, [group](void* more) {
      int gone = 0;
      return g_right.test(group, more, &gone) == ncclSuccess && gone != 0;
    });
  }
  return g_right.test(group, request, done);
}

[[gnu::constructor]] void fillTable() {
  void* const library = dlopen(RAILWISE_PLUGIN_PATH, RTLD_NOW | RTLD_LOCAL);
  const void* const table = library != nullptr ? dlsym(library, "ncclRmaPlugin_v14") : nullptr;
  if (table == nullptr) return;
  g_right = ncclRmaPlugin_v14 = *static_cast<const ncclRma_v14_t*>(table);
  ncclRmaPlugin_v14.iput = iput;
  ncclRmaPlugin_v14.iputSignal = iputSignal;
  ncclRmaPlugin_v14.test = test;
  if (has("no_iget")) ncclRmaPlugin_v14.iget = nullptr;
}

}  // namespace
