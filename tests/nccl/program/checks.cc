#include "checks.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <iterator>
#include <string>
#include <thread>

#include "collective.h"
#include "gin_kernel.h"
#include "traffic.h"

// What NCCL has only since some release.
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 27, 3)
#define WINDOWS(check) check
#else
#define WINDOWS(check) nullptr
#endif
// Older releases capture a put and replay nothing.
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 30, 3)
#define GRAPH_OF_RMA(check) check
#else
#define GRAPH_OF_RMA(check) nullptr
#endif
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 30, 7)
#define ZERO_CTA_OF_HOSTS(check) check
#else
#define ZERO_CTA_OF_HOSTS(check) nullptr
#endif
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 29, 2)
#define RMA(check) check
#else
#define RMA(check) nullptr
#endif
#ifdef HAS_GIN_KERNEL
#define GIN(check) check
#else
#define GIN(check) nullptr
#endif
#if defined(HAS_GIN_KERNEL) && GIN_HAS_GET
#define GIN_GET(check) check
#else
#define GIN_GET(check) nullptr
#endif

const Check kChecks[] = {
    {"collectives", checkCollectives, true},
    {"types", checkTypes, true},
    {"several", checkSeveralCommunicators, true},
    {"side_by_side", checkSideBySide, true},
    {"graph", checkGraph, true},
    {"graph_p2p", checkGraphsOfSendAndReceive, true},
    {"registered", checkRegisteredBuffers, true},
    {"split", checkSplit, true},
    {"shrink", checkShrink, true},
    {"again", checkInitAgain, true},
    {"finalize", checkFinalize, true},
    {"abort", checkAbort, true},
    {"traffic", checkTraffic, false},
    {"traffic_rma", RMA(checkRmaTraffic), false},
    {"traffic_gin", GIN(checkGinTraffic), false},
    {"traffic_zero_cta", ZERO_CTA_OF_HOSTS(checkZeroCtaTraffic), false},
    {"windows", WINDOWS(checkWindows), false},
    {"zero_cta", RMA(checkZeroCta), false},
    {"zero_cta_hosts", ZERO_CTA_OF_HOSTS(checkZeroCta), false},
    {"rma", RMA(checkRma), false},
    {"large_rma", RMA(checkLargeRma), false},
    {"graph_rma", GRAPH_OF_RMA(checkGraphOfRma), false},
    {"rma_children", RMA(checkRmaOfChildren), false},
    {"rma_end", RMA(checkEndOfRma), false},
    {"gin_put", GIN(checkGinPut), false},
    {"gin_order", GIN(checkGinOrder), false},
    {"gin_counters", GIN(checkGinCounters), false},
    {"gin_flush", GIN(checkGinFlush), false},
    {"gin_get", GIN_GET(checkGinGet), false},
    {"gin_many_writers", GIN(checkGinManyWriters), false},
    {"gin_reset", GIN(checkGinReset), false},
    {"gin_contexts", GIN(checkGinContexts), false},
    {"gin_queue", GIN(checkGinQueue), false},
    {"gin_values", GIN(checkGinValues), false},
};
const std::size_t kCheckCount = std::size(kChecks);

// Sizes from nothing to options.max, each also with a count that is no power of two.
void checkCollectives(const Communicator& main) {
  uint32_t salt = 0;
  for (std::size_t i = 0; i < kCollectiveCount; ++i) {
    const NamedCollective& collective = kCollectives[i];
    for (const bool in_place : {false, true}) {
      if (in_place && !collective.in_place) continue;
      const std::string name = std::string(collective.name) + (in_place ? " in place" : "");
      beginCheck(name);
      std::size_t bad = 0;
      std::string where;
      for (std::size_t bytes = 0; bad == 0;) {
        for (const std::size_t more : {std::size_t{0}, std::size_t{3}}) {
          Call call;
          call.count =
              bytes / (collective.shares ? static_cast<std::size_t>(main.ranks) : 1) / call.element->bytes +
              more;
          call.in_place = in_place;
          call.root = static_cast<int>(salt) % main.ranks;
          call.salt = ++salt;
          bad += collective.run(main, call);
        }
        if (bad != 0) where = " of " + std::to_string(bytes) + " bytes";
        if (bytes >= options.max) break;
        bytes = std::min(bytes == 0 ? 8 : bytes * 8, options.max);
      }
      endCheck(name, bad, where);
    }
  }
}

// Every type with every reduction.
void checkTypes(const Communicator& main) {
  uint32_t salt = 1000;
  for (std::size_t i = 0; i < kCollectiveCount; ++i) {
    const NamedCollective& collective = kCollectives[i];
    const std::string name = std::string("types of ") + collective.name;
    beginCheck(name);
    std::size_t bad = 0;
    std::string where;
    for (std::size_t type = 0; type < kElementCount; ++type) {
      for (std::size_t operation = 0; operation < (collective.reduces ? kReductionCount : 1); ++operation) {
        Call call;
        call.element = &kElements[type];
        call.operation = kReductions[operation].operation;
        call.count = 1027;
        call.root = static_cast<int>(salt) % main.ranks;
        call.salt = ++salt;
        const std::size_t wrong = collective.run(main, call);
        if (wrong != 0 && bad == 0)
          where = std::string(" of ") + call.element->name + ", " + kReductions[operation].name;
        bad += wrong;
      }
    }
    endCheck(name, bad, where);
  }
}

namespace {

// With --churn there is another communicator every so many rounds.
constexpr std::size_t kRoundsOfCommunicator = 4;
// With --churn windows and their communicator last for so many rounds.
constexpr std::size_t kRoundsOfWindows = 12;
// So many one-sided exchanges between two collectives: a fault meets a put.
constexpr std::size_t kExchangesOfRound = 4;

bool isTold(const char* word) { return access((options.id + "." + word).c_str(), F_OK) == 0; }

// An all_reduce and an all-to-all of about so many bytes: how many elements are wrong.
std::size_t exchange(const Communicator& main, std::size_t bytes, std::size_t salt) {
  std::size_t bad = 0;
  for (const Collective collective : {allReduce, allToAll}) {
    Call call;
    call.count = std::min(bytes, options.max) / call.element->bytes;
    if (collective == allToAll)
      call.count = std::max<std::size_t>(call.count / static_cast<std::size_t>(main.ranks), 1);
    call.salt = static_cast<uint32_t>(salt);
    bad += collective(main, call);
  }
  return bad;
}

// What rank 0 thinks. An all_reduce, not a broadcast: where no data get through to some rank, no rank is
// through.
bool agreeToGoOn(const Communicator& main, bool rank0_goes_on) {
  const DeviceMemory memory(sizeof(int32_t));
  int32_t more = main.rank != 0 || rank0_goes_on ? 1 : 0;
  MUST(cudaMemcpy(memory.at(), &more, sizeof more, cudaMemcpyHostToDevice));
  MUST(ncclAllReduce(memory.at(), memory.at(), 1, ncclInt32, ncclMin, main.comm, main.stream));
  main.wait();
  MUST(cudaMemcpy(&more, memory.at(), sizeof more, cudaMemcpyDeviceToHost));
  return more != 0;
}

// Exchanges of many sizes for options.seconds, or until told: faults strike meanwhile. Returns how many
// elements are wrong.
std::size_t flow(const Communicator& main,
                 const std::function<std::size_t(std::size_t bytes, std::size_t round)>& exchangeOf) {
  using Clock = std::chrono::steady_clock;
  // The smallest and the largest first: then all ranks are connected.
  std::size_t bad = exchangeOf(8, 1) + exchangeOf(options.max, 2);
  std::puts("info traffic begins");
  std::fflush(stdout);
  const auto end = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                      std::chrono::duration<double>(options.seconds));
  std::size_t rounds = 0;
  for (bool more = true; more && bad == 0; ++rounds) {
    beginCheck("traffic");
    bad = exchangeOf(std::min(std::size_t{8} << (rounds * 5 % 19), options.max), 3 + rounds);
    more = agreeToGoOn(main, options.until_told ? !isTold("over") : Clock::now() < end);
  }
  std::printf("info traffic: %zu rounds\n", rounds);
  return bad;
}

void endTraffic(std::size_t bad) {
  endCheck("traffic", bad);
  if (!options.until_told) return;
  beginCheck("traffic, waiting for the other ranks");
  while (!isTold("quiet")) std::this_thread::sleep_for(std::chrono::milliseconds(5));
}

}  // namespace

void checkTraffic(const Communicator& main) {
  beginCheck("traffic");
  endTraffic(flow(main, [&](std::size_t bytes, std::size_t round) {
    std::size_t bad = exchange(main, bytes, round);
    if (options.churn && round >= 3 && (round - 3) % kRoundsOfCommunicator == 0)
      bad += makeUseAndEnd(main, (round - 3) / kRoundsOfCommunicator);
    return bad;
  }));
}

void checkOneSidedTraffic(const Communicator& main, MakeTraffic make) {
  beginCheck("traffic");
  std::size_t made = 0;
  const auto another = [&] { return make(main, "traffic" + std::to_string(++made)); };
  std::unique_ptr<OneSidedTraffic> traffic = another();
  if (traffic == nullptr) return;
  std::size_t exchanges = 0;
  std::size_t bad = flow(main, [&](std::size_t bytes, std::size_t round) {
    std::size_t wrong = 0;
    if (options.churn && round % kRoundsOfWindows == 0) {
      wrong += traffic->surplus();
      traffic.reset();
      traffic = another();
    }
    for (std::size_t i = 0; i < kExchangesOfRound; ++i) wrong += traffic->exchange(bytes, ++exchanges);
    return wrong;
  });
  bad += traffic->surplus();
  endTraffic(bad);
}
