// The topology engine from a file's text to every answer: reading, graph, all paths, domains, and the choices
// of all GPUs. CPU time of one thread; the growth from 8 to 576 GPUs, and the memory that it takes. Run it on
// a quiet machine, with --benchmark_repetitions=11 --benchmark_report_aggregates_only=true.
// docs/topology-speed.md has a table.
#include <benchmark/benchmark.h>
#include <malloc.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#include "gpu/json.h"
#include "tests/topo/big_machines.h"
#include "tests/topo/flat_tree.h"
#include "topo/explain/gpu_topology.h"
#include "topo/graph/constants.h"
#include "topo/machine/load.h"
#include "topo/paths/decisions.h"
#include "topo/paths/policy.h"
#include "topo/sources/sysfs.h"

namespace railwise::topo {
namespace {

constexpr double kMiB = 1024.0 * 1024.0;
const Detection kDetection = {.gpu_sm = 90, .nvswitch_links = 18};  // for what a file does not describe

Machine load(const std::string& text) {
  // No limit on elements: a machine of many hosts is the fusion of its hosts' files.
  auto document = parseXml(text, "bench.xml", {.max_nodes = 0});
  if (!document.ok()) std::fputs(document.error().c_str(), stderr), std::abort();
  auto machine = loadDocument(std::move(*document), Settings{}, kDetection, "bench.xml");
  if (!machine.ok()) std::fputs(machine.error().c_str(), stderr), std::abort();
  return std::move(*machine);
}

// What NCCL asks while it makes a communicator: the NIC of every GPU on every channel, P2P of all pairs of
// GPUs, GPUDirect (both directions), flush and proxy of all GPUs and NICs.
int choose(const Paths& paths) {
  const int gpus = paths.graph().count(NodeType::kGpu);
  const int nets = paths.graph().count(NodeType::kNet);
  int sum = 0;
  for (int gpu = 0; gpu < gpus; ++gpu) {
    for (int channel = 0; channel < kMaxChannels; ++channel) {
      const auto net = localNet(paths, gpu, channel);
      sum += net.ok() ? *net : 0;
    }
    for (int peer = 0; peer < gpus; ++peer) sum += decideP2p(paths, gpu, peer).allowed ? 1 : 0;
    for (int net = 0; net < nets; ++net) {
      for (const bool read : {false, true}) sum += static_cast<int>(decideGdr(paths, gpu, net, read).mode);
      sum += decideProxy(paths, gpu, net);
    }
  }
  return sum;
}

// The same with every reason as a sentence, as explain and the JSON want it.
std::size_t chooseWithReasons(const Paths& paths) {
  const int gpus = paths.graph().count(NodeType::kGpu);
  const int nets = paths.graph().count(NodeType::kNet);
  std::size_t letters = 0;
  for (int gpu = 0; gpu < gpus; ++gpu) {
    const auto chosen = localNets(paths, gpu);
    letters += chosen.ok() ? chosen->size() : 0;
    for (int peer = 0; peer < gpus; ++peer) letters += checkP2p(paths, gpu, peer)->reason.size();
    for (int net = 0; net < nets; ++net) {
      for (const bool read : {false, true}) letters += checkGdr(paths, gpu, net, read)->reason.size();
      letters += needFlush(paths, gpu, net).reason.size();
    }
  }
  return letters;
}

void loadAndChoose(benchmark::State& state, const std::string& text) {
  for (auto _ : state) {
    const Machine machine = load(text);
    benchmark::DoNotOptimize(choose(*machine.paths));
  }
  const Machine machine = load(text);
  state.counters["GPUs"] = machine.graph->count(NodeType::kGpu);
  state.counters["NICs"] = machine.graph->count(NodeType::kNet);
  state.counters["cells"] = static_cast<double>(machine.paths->cellCount());
  state.counters["paths_MiB"] = static_cast<double>(machine.paths->bytes()) / kMiB;
}

// The goal: under 1 ms.
void hgx8(benchmark::State& state) { loadAndChoose(state, test::MachineText::hgx()); }
BENCHMARK(hgx8)->Unit(benchmark::kMicrosecond);

// A file that lists PCI devices only: also what each of NCCL's 8 ranks adds, and the fusion of their trees.
void hgx8PciOnly(benchmark::State& state) { loadAndChoose(state, test::MachineText::hgx(false)); }
BENCHMARK(hgx8PciOnly)->Unit(benchmark::kMicrosecond);

// From a recorded /sys in memory instead of a file: the walk of each of NCCL's ranks besides.
void ndv5Tree(benchmark::State& state) {
  const sysfs::MemoryTree tree = test::makeNdv5();
  for (auto _ : state) {
    auto document = readSysfs(tree, std::nullopt, Settings{}, {.detection = kDetection}, nullptr);
    if (!document.ok()) return state.SkipWithError(document.error().c_str());
    const auto machine = makeMachine(std::move(*document), Settings{}, "ndv5");
    if (!machine.ok()) return state.SkipWithError(machine.error().c_str());
    benchmark::DoNotOptimize(choose(*machine->paths));
  }
}
BENCHMARK(ndv5Tree)->Unit(benchmark::kMicrosecond);

// From the vendors' answers (JSON) about eight GPUs to the list of railwise gpus --json. The goal: under 1
// ms.
void hgx8Answers(benchmark::State& state) {
  const Machine machine = load(test::MachineText::hgx());
  const std::string answers = gpu::jsonOf(gpuTopology(machine));
  for (auto _ : state) {
    auto read = gpu::parseJson(answers);
    if (!read.ok()) return state.SkipWithError(read.error().c_str());
    gpu::sanitize(*read, "answers");
    Machine told = load(test::MachineText::hgx());
    told.gpu_answers = std::make_shared<gpu::GpuTopology>(std::move(*read));
    benchmark::DoNotOptimize(gpu::jsonOf(gpuTopology(told)));
  }
}
BENCHMARK(hgx8Answers)->Unit(benchmark::kMicrosecond);

// The goal: under 30 ms for 72 GPUs. 4 GPUs and 4 NICs in each host.
void nvlinkDomain(benchmark::State& state) {
  loadAndChoose(state, test::MachineText::nvlinkDomain(static_cast<int>(state.range(0)) / 4));
}
BENCHMARK(nvlinkDomain)
    ->ArgName("gpus")
    ->Arg(8)
    ->Arg(16)
    ->Arg(72)
    ->Arg(144)
    ->Arg(576)
    ->Unit(benchmark::kMillisecond);

void reasons(benchmark::State& state) {
  const Machine machine = load(test::MachineText::nvlinkDomain(static_cast<int>(state.range(0)) / 4));
  for (auto _ : state) benchmark::DoNotOptimize(chooseWithReasons(*machine.paths));
}
BENCHMARK(reasons)->ArgName("gpus")->Arg(8)->Arg(72)->Unit(benchmark::kMillisecond);

// Peak of the resident set of a process that does `work` and nothing else, in MiB.
template <typename Work>
double peakMiB(const Work& work) {
  const pid_t child = fork();
  if (child == 0) {
    work();
    _exit(0);
  }
  int status = 0;
  rusage usage = {};
  if (child < 0 || wait4(child, &status, 0, &usage) != child || status != 0) return -1;
  return static_cast<double>(usage.ru_maxrss) / 1024.0;  // Linux: KiB
}

// The goal: under 256 MiB at 576 GPUs. `peak_MiB` counts all of loading above a process that loads nothing.
void memory(benchmark::State& state) {
  const std::string text = test::MachineText::nvlinkDomain(static_cast<int>(state.range(0)) / 4);
  malloc_trim(0);
  double peak = 0;
  for (auto _ : state)
    peak = peakMiB([&text] { benchmark::DoNotOptimize(choose(*load(text).paths)); }) - peakMiB([] {});
  const std::size_t before = mallinfo2().uordblks + mallinfo2().hblkhd;
  const Machine machine = load(text);
  const std::size_t after = mallinfo2().uordblks + mallinfo2().hblkhd;
  state.counters["peak_MiB"] = peak;
  state.counters["kept_MiB"] = static_cast<double>(after - before) / kMiB;
}
BENCHMARK(memory)->ArgName("gpus")->Arg(8)->Arg(72)->Arg(576)->Iterations(1)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace railwise::topo
