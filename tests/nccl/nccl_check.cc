// One rank of a check of NCCL itself, whatever net it has loaded: collectives on GPU memory whose every
// element is verified, and what programs do with communicators besides. scripts/nccl-check starts the ranks
// and judges what they say. Needs the CUDA runtime and NCCL; no kernel of its own.
//
//   nccl_check --rank R --ranks N --id FILE [--gpu G] [--max BYTES] [--figures [--repeat N]]
//
// FILE: a path that all ranks see and nobody has used; more files are made with that prefix. Says a line for
// each check, "ok NAME" or "WRONG NAME: what", and with --figures "figure NAME BYTES MICROSECONDS". Exit
// status: 0 all right, 1 something was wrong, 2 a mistake on the command line, 3 a check did not end.
#include <cuda_runtime_api.h>
#include <nccl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kCheckTime = std::chrono::seconds(180);
constexpr auto kAbortAfter = std::chrono::seconds(1);
constexpr int kReplays = 10;

struct Options {
  int rank = -1;
  int ranks = 0;
  std::string id;
  int gpu = 0;
  std::size_t max = std::size_t{64} << 20;
  bool figures = false;
  int repeat = 3;
};
Options options;

// ---- what stops the rank

[[noreturn]] void stop(int status, const std::string& what) {
  std::printf("WRONG %s\n", what.c_str());
  std::fflush(stdout);
  _exit(status);  // other threads may hang in NCCL
}

void must(cudaError_t error, const char* call) {
  if (error != cudaSuccess) stop(1, std::string(call) + ": " + cudaGetErrorString(error));
}
void must(ncclResult_t result, const char* call, ncclComm_t comm = nullptr) {
  if (result == ncclSuccess) return;
  stop(1, std::string(call) + ": " + ncclGetErrorString(result) + ": " + ncclGetLastError(comm));
}
#define MUST(call) must(call, #call)

// The check that is under way, and when it must be over.
std::atomic<const char*> current = "start";
std::atomic<Clock::rep> deadline = 0;

void begin(const char* name) {
  current = name;
  deadline = (Clock::now() + kCheckTime).time_since_epoch().count();
}

void watch() {
  for (;;) {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    if (Clock::now().time_since_epoch().count() > deadline)
      stop(3, std::string(current) + ": did not end within " + std::to_string(kCheckTime.count()) + " s");
  }
}

// ---- memory

class DeviceMemory {
 public:
  explicit DeviceMemory(std::size_t bytes) { MUST(cudaMalloc(&at_, std::max<std::size_t>(bytes, 1))); }
  ~DeviceMemory() { (void)cudaFree(at_); }
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  int32_t* at(std::size_t element = 0) const { return static_cast<int32_t*>(at_) + element; }

 private:
  void* at_ = nullptr;
};

// Element `i` of what `rank` puts in; small, so that no sum overflows.
int32_t value(int rank, std::size_t i, uint32_t salt) {
  uint64_t mixed = i * 0x9e3779b97f4a7c15ULL + static_cast<uint64_t>(rank) * 0xbf58476d1ce4e5b9ULL + salt;
  mixed ^= mixed >> 29;
  mixed *= 0x94d049bb133111ebULL;
  return static_cast<int32_t>(mixed >> 44);
}

using Expected = std::function<int32_t(std::size_t)>;

void fill(int32_t* to, std::size_t count, const Expected& expected) {
  std::vector<int32_t> host(count);
  for (std::size_t i = 0; i < count; ++i) host[i] = expected(i);
  MUST(cudaMemcpy(to, host.data(), count * sizeof(int32_t), cudaMemcpyHostToDevice));
  MUST(cudaStreamSynchronize(nullptr));  // it may return before the last bytes are there
}

// Nothing that was there before can pass for a result.
void spoil(int32_t* memory, std::size_t count) {
  MUST(cudaMemset(memory, 0xff, count * sizeof(int32_t)));
  MUST(cudaStreamSynchronize(nullptr));
}

// How many elements are not as expected.
std::size_t wrong(const int32_t* from, std::size_t count, const Expected& expected) {
  std::vector<int32_t> host(count);
  MUST(cudaMemcpy(host.data(), from, count * sizeof(int32_t), cudaMemcpyDeviceToHost));
  std::size_t bad = 0;
  for (std::size_t i = 0; i < count; ++i) bad += host[i] != expected(i) ? 1 : 0;
  return bad;
}

// ---- communicators

// Rank 0's, through a file that appears as a whole.
ncclUniqueId meet(const std::string& name) {
  const std::string path = options.id + "." + name;
  ncclUniqueId id;
  if (options.rank == 0) {
    MUST(ncclGetUniqueId(&id));
    const std::string part = path + ".part";
    std::FILE* const file = std::fopen(part.c_str(), "w");
    if (file == nullptr || std::fwrite(&id, sizeof id, 1, file) != 1 || std::fclose(file) != 0 ||
        std::rename(part.c_str(), path.c_str()) != 0)
      stop(1, "cannot write " + path);
    return id;
  }
  for (;;) {
    if (std::FILE* const file = std::fopen(path.c_str(), "r"); file != nullptr) {
      const bool whole = std::fread(&id, sizeof id, 1, file) == 1;
      (void)std::fclose(file);
      if (whole) return id;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

class Communicator {
 public:
  explicit Communicator(const std::string& name) {
    const ncclUniqueId id = meet(name);
    MUST(ncclCommInitRank(&comm, options.ranks, id, options.rank));
    MUST(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  }
  explicit Communicator(ncclComm_t other) : comm(other) {
    MUST(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    MUST(ncclCommCount(comm, &ranks));
    MUST(ncclCommUserRank(comm, &rank));
  }
  ~Communicator() {
    (void)cudaStreamDestroy(stream);
    if (comm != nullptr) (void)ncclCommDestroy(comm);
  }
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  ncclComm_t comm = nullptr;
  cudaStream_t stream = nullptr;
  int ranks = options.ranks;
  int rank = options.rank;
};

// An error of the network ends no kernel, so both are looked at.
void finish(const Communicator& of) {
  cudaError_t state = cudaErrorNotReady;
  while ((state = cudaStreamQuery(of.stream)) == cudaErrorNotReady) {
    ncclResult_t error = ncclSuccess;
    MUST(ncclCommGetAsyncError(of.comm, &error));
    must(error, "asynchronous error", of.comm);
    std::this_thread::yield();
  }
  must(state, "a stream");
}

int32_t sum(int ranks, std::size_t i, uint32_t salt) {
  int32_t all = 0;
  for (int rank = 0; rank < ranks; ++rank) all += value(rank, i, salt);
  return all;
}

// ---- collectives: each answers how many elements are wrong. `count`: of one rank's share

using Collective = std::size_t (*)(const Communicator& on, std::size_t count, bool in_place, uint32_t salt);

std::size_t allReduce(const Communicator& on, std::size_t count, bool in_place, uint32_t salt) {
  const DeviceMemory from(count * sizeof(int32_t));
  const DeviceMemory to(in_place ? 0 : count * sizeof(int32_t));
  fill(from.at(), count, [&](std::size_t i) { return value(on.rank, i, salt); });
  int32_t* const result = in_place ? from.at() : to.at();
  if (!in_place) spoil(result, count);
  MUST(ncclAllReduce(from.at(), result, count, ncclInt32, ncclSum, on.comm, on.stream));
  finish(on);
  return wrong(result, count, [&](std::size_t i) { return sum(on.ranks, i, salt); });
}

std::size_t allGather(const Communicator& on, std::size_t count, bool in_place, uint32_t salt) {
  const auto ranks = static_cast<std::size_t>(on.ranks);
  const DeviceMemory all(ranks * count * sizeof(int32_t));
  const DeviceMemory own(in_place ? 0 : count * sizeof(int32_t));
  int32_t* const from = in_place ? all.at(static_cast<std::size_t>(on.rank) * count) : own.at();
  spoil(all.at(), ranks * count);
  fill(from, count, [&](std::size_t i) { return value(on.rank, i, salt); });
  MUST(ncclAllGather(from, all.at(), count, ncclInt32, on.comm, on.stream));
  finish(on);
  return wrong(all.at(), ranks * count,
               [&](std::size_t i) { return value(static_cast<int>(i / count), i % count, salt); });
}

std::size_t reduceScatter(const Communicator& on, std::size_t count, bool in_place, uint32_t salt) {
  const auto ranks = static_cast<std::size_t>(on.ranks);
  const DeviceMemory all(ranks * count * sizeof(int32_t));
  const DeviceMemory own(in_place ? 0 : count * sizeof(int32_t));
  const std::size_t share = static_cast<std::size_t>(on.rank) * count;
  int32_t* const to = in_place ? all.at(share) : own.at();
  if (!in_place) spoil(to, count);
  fill(all.at(), ranks * count, [&](std::size_t i) { return value(on.rank, i, salt); });
  MUST(ncclReduceScatter(all.at(), to, count, ncclInt32, ncclSum, on.comm, on.stream));
  finish(on);
  return wrong(to, count, [&](std::size_t i) { return sum(on.ranks, share + i, salt); });
}

// By sends and receives; in place there is none.
std::size_t allToAll(const Communicator& on, std::size_t count, bool, uint32_t salt) {
  const auto ranks = static_cast<std::size_t>(on.ranks);
  const DeviceMemory from(ranks * count * sizeof(int32_t));
  const DeviceMemory to(ranks * count * sizeof(int32_t));
  fill(from.at(), ranks * count, [&](std::size_t i) { return value(on.rank, i, salt); });
  spoil(to.at(), ranks * count);
  MUST(ncclGroupStart());
  for (std::size_t peer = 0; peer < ranks; ++peer) {
    MUST(ncclSend(from.at(peer * count), count, ncclInt32, static_cast<int>(peer), on.comm, on.stream));
    MUST(ncclRecv(to.at(peer * count), count, ncclInt32, static_cast<int>(peer), on.comm, on.stream));
  }
  MUST(ncclGroupEnd());
  finish(on);
  const std::size_t share = static_cast<std::size_t>(on.rank) * count;
  return wrong(to.at(), ranks * count,
               [&](std::size_t i) { return value(static_cast<int>(i / count), share + i % count, salt); });
}

struct Named {
  const char* name;
  Collective run;
  bool in_place;
  bool shares;  // the largest memory is `count` for each rank
};
constexpr Named kCollectives[] = {
    {"all_reduce", allReduce, false, false},
    {"all_reduce in place", allReduce, true, false},
    {"all_gather", allGather, false, true},
    {"all_gather in place", allGather, true, true},
    {"reduce_scatter", reduceScatter, false, true},
    {"reduce_scatter in place", reduceScatter, true, true},
    {"all_to_all by send and recv", allToAll, false, true},
};

// ---- checks

bool all_right = true;

// The size behind `bytes`; the last is --max. 0: that was it.
std::size_t next(std::size_t bytes, std::size_t factor) {
  return bytes >= options.max ? 0 : std::min(bytes * factor, options.max);
}

void say(const char* name, std::size_t bad, const std::string& where = "") {
  all_right = all_right && bad == 0;
  if (bad == 0) std::printf("ok %s\n", name);
  else std::printf("WRONG %s: %zu elements%s\n", name, bad, where.c_str());
  std::fflush(stdout);
}

void checkCollectives(const Communicator& on) {
  uint32_t salt = 0;
  for (const Named& collective : kCollectives) {
    begin(collective.name);
    std::size_t bad = 0;
    std::string where;
    // Sizes that are no power of two, too.
    for (std::size_t bytes = 8; bytes != 0 && bad == 0; bytes = next(bytes, 8)) {
      for (const std::size_t more : {std::size_t{0}, std::size_t{3}}) {
        const std::size_t share = bytes / (collective.shares ? static_cast<std::size_t>(on.ranks) : 1);
        bad = collective.run(on, std::max<std::size_t>(share / sizeof(int32_t), 1) + more,
                             collective.in_place, ++salt);
        if (bad != 0) where = " of " + std::to_string(bytes) + " bytes";
      }
    }
    say(collective.name, bad, where);
  }
}

void checkSeveralCommunicators(const Communicator& first) {
  begin("several communicators");
  const Communicator second("second");
  const Communicator third("third");
  std::size_t bad = 0;
  for (uint32_t round = 0; round < 4; ++round) {
    uint32_t salt = 3 * round;
    for (const Communicator* on : {&first, &second, &third}) bad += allReduce(*on, 50001, false, ++salt);
  }
  say("several communicators", bad);
}

void checkGraph(const Communicator& on) {
  begin("graph replay");
  constexpr std::size_t kCount = 100000;
  const DeviceMemory from(kCount * sizeof(int32_t));
  const DeviceMemory to(kCount * sizeof(int32_t));
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  MUST(cudaStreamBeginCapture(on.stream, cudaStreamCaptureModeThreadLocal));
  MUST(ncclAllReduce(from.at(), to.at(), kCount, ncclInt32, ncclSum, on.comm, on.stream));
  MUST(cudaStreamEndCapture(on.stream, &graph));
  MUST(cudaGraphInstantiate(&executable, graph, 0));
  std::size_t bad = 0;
  for (uint32_t replay = 0; replay < kReplays; ++replay) {
    fill(from.at(), kCount, [&](std::size_t i) { return value(on.rank, i, replay); });
    spoil(to.at(), kCount);
    MUST(cudaGraphLaunch(executable, on.stream));
    finish(on);
    bad += wrong(to.at(), kCount, [&](std::size_t i) { return sum(on.ranks, i, replay); });
  }
  MUST(cudaGraphExecDestroy(executable));
  MUST(cudaGraphDestroy(graph));
  say("graph replay", bad);
}

void checkRegistered(const Communicator& on) {
  begin("registered buffers");
  constexpr std::size_t kCount = std::size_t{1} << 20;
  void* from = nullptr;
  void* to = nullptr;
  MUST(ncclMemAlloc(&from, kCount * sizeof(int32_t)));
  MUST(ncclMemAlloc(&to, kCount * sizeof(int32_t)));
  void* handles[2] = {};
  MUST(ncclCommRegister(on.comm, from, kCount * sizeof(int32_t), &handles[0]));
  MUST(ncclCommRegister(on.comm, to, kCount * sizeof(int32_t), &handles[1]));
  std::size_t bad = 0;
  for (uint32_t round = 0; round < 3; ++round) {
    fill(static_cast<int32_t*>(from), kCount, [&](std::size_t i) { return value(on.rank, i, round); });
    spoil(static_cast<int32_t*>(to), kCount);
    MUST(ncclAllReduce(from, to, kCount, ncclInt32, ncclSum, on.comm, on.stream));
    finish(on);
    bad += wrong(static_cast<int32_t*>(to), kCount, [&](std::size_t i) { return sum(on.ranks, i, round); });
  }
  for (void* const handle : handles) MUST(ncclCommDeregister(on.comm, handle));
  MUST(ncclMemFree(from));
  MUST(ncclMemFree(to));
  say("registered buffers", bad);
}

// Halves of two ranks or more, in another order.
void checkSplit(const Communicator& on) {
  begin("split");
  const int colors = std::max(on.ranks / 2, 1);
  ncclComm_t half = nullptr;
  MUST(ncclCommSplit(on.comm, on.rank % colors, on.ranks - on.rank, &half, nullptr));
  const Communicator split(half);
  say("split", allReduce(split, 70000, false, 5) + allToAll(split, 3000, false, 6));
}

// Rank 0 does not come; the others are given up in the middle of it. Then all begin anew.
void checkAbort() {
  begin("abort in the middle");
  {
    // The same collective before: NCCL connects what it needs at the first, with all ranks.
    constexpr std::size_t kCount = std::size_t{4} << 20;
    Communicator doomed("doomed");
    const std::size_t before = allReduce(doomed, kCount, true, 1);
    const DeviceMemory memory(kCount * sizeof(int32_t));
    if (doomed.rank != 0)
      MUST(ncclAllReduce(memory.at(), memory.at(), kCount, ncclInt32, ncclSum, doomed.comm, doomed.stream));
    std::this_thread::sleep_for(kAbortAfter);
    const bool stuck = doomed.rank == 0 || cudaStreamQuery(doomed.stream) == cudaErrorNotReady;
    MUST(ncclCommAbort(doomed.comm));
    doomed.comm = nullptr;
    MUST(cudaStreamSynchronize(doomed.stream));
    if (!stuck) stop(1, "abort in the middle: the collective ended without rank 0");
    if (before != 0) stop(1, "abort in the middle: wrong before it");
  }
  const Communicator anew("anew");
  say("abort in the middle", allReduce(anew, 70000, false, 2));
}

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

// ---- figures

// The least time of a collective over some repeats, each of so many in a row.
double microseconds(const Communicator& on, std::size_t bytes, const std::function<void()>& enqueue) {
  const int row = bytes <= (std::size_t{1} << 20) ? 20 : 4;
  cudaEvent_t from = nullptr;
  cudaEvent_t to = nullptr;
  MUST(cudaEventCreate(&from));
  MUST(cudaEventCreate(&to));
  double least = 0;
  for (int repeat = -1; repeat < options.repeat; ++repeat) {  // the first warms up
    MUST(cudaEventRecord(from, on.stream));
    for (int i = 0; i < row; ++i) enqueue();
    MUST(cudaEventRecord(to, on.stream));
    finish(on);
    float ms = 0;
    MUST(cudaEventElapsedTime(&ms, from, to));
    const double each = static_cast<double>(ms) * 1000 / row;
    if (repeat == 0 || (repeat > 0 && each < least)) least = each;
  }
  MUST(cudaEventDestroy(from));
  MUST(cudaEventDestroy(to));
  return least;
}

void figures(const Communicator& on) {
  const DeviceMemory from(options.max);
  const DeviceMemory to(options.max);
  for (std::size_t bytes = 8; bytes != 0; bytes = next(bytes, 4)) {
    begin("figures");
    const std::size_t count = bytes / sizeof(int32_t);
    const double reduce = microseconds(on, bytes, [&] {
      MUST(ncclAllReduce(from.at(), to.at(), count, ncclInt32, ncclSum, on.comm, on.stream));
    });
    const double shift = microseconds(on, bytes, [&] {
      MUST(ncclGroupStart());
      MUST(ncclSend(from.at(), count, ncclInt32, (on.rank + 1) % on.ranks, on.comm, on.stream));
      MUST(ncclRecv(to.at(), count, ncclInt32, (on.rank + on.ranks - 1) % on.ranks, on.comm, on.stream));
      MUST(ncclGroupEnd());
    });
    std::printf("figure all_reduce %zu %.2f\nfigure sendrecv %zu %.2f\n", bytes, reduce, bytes, shift);
    std::fflush(stdout);
  }
}

// ---- command line

bool parse(int count, char** words) {
  for (int i = 1; i < count; ++i) {
    const std::string word = words[i];
    if (word == "--figures") {
      options.figures = true;
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
    else return false;
  }
  return options.rank >= 0 && options.rank < options.ranks && !options.id.empty() && options.max >= 8 &&
         options.repeat > 0;
}

}  // namespace

int main(int count, char** words) {
  if (!parse(count, words)) {
    std::fprintf(
        stderr,
        "usage: nccl_check --rank R --ranks N --id FILE [--gpu G] [--max BYTES] [--figures [--repeat N]]\n");
    return 2;
  }
  begin("start");
  std::thread(watch).detach();
  MUST(cudaSetDevice(options.gpu));
  int version = 0;
  int runtime = 0;
  int driver = 0;
  MUST(ncclGetVersion(&version));
  MUST(cudaRuntimeGetVersion(&runtime));
  MUST(cudaDriverGetVersion(&driver));
  cudaDeviceProp gpu;
  MUST(cudaGetDeviceProperties(&gpu, options.gpu));
  std::printf("versions nccl %d cuda %d driver %d gpu %s\n", version, runtime, driver, gpu.name);
  probePinnedMemory();
  {
    const Communicator main("main");
    if (options.figures) {
      figures(main);
    } else {
      checkCollectives(main);
      checkSeveralCommunicators(main);
      checkGraph(main);
      checkRegistered(main);
      checkSplit(main);
    }
  }
  if (!options.figures) checkAbort();
  return all_right ? 0 : 1;
}
