#include "cli/doctor/pair_end.h"

#include <unistd.h>

#include <cstdlib>
#include <utility>

#include "cli/device/machine.h"
#include "cli/device/tree.h"
#include "cli/hosts/run_on_hosts.h"
#include "cli/topo/nccl_option.h"
#include "doctor/pair/all_reduce.h"
#include "sysfs/tar_archive.h"
#include "topo/sources/load_machine.h"
#include "verbs/library.h"

namespace railwise::cli {
namespace {

namespace pair = doctor::pair;

// The /sys of the software machine that this process is on. Under `railwise device run` the live /sys may be
// that of another host of the machine.
std::unique_ptr<sysfs::FileTree> treeOf(const Config& config) {
  if (config.device.starts_with("software:")) {
    const auto machine =
        openDeviceMachine("doctor", {.machine = "", .host = "", .fabric = "", .settings = ""});
    if (machine) return std::make_unique<sysfs::MemoryTree>(deviceTree(machine->config.host()));
  }
  if (config.device.starts_with("software")) return std::make_unique<sysfs::MemoryTree>();
  auto opened = sysfs::openTree(config.sysfs_root);
  return opened.ok() ? std::move(*opened) : sysfs::makeLiveTree();
}

Outcome<topo::Machine> machineOf(const sysfs::FileTree& tree, const Config& config) {
  const topo::Settings settings = topo::settingsFromEnvironment(
      [](const char* name) { return std::getenv(name); }, rulesInUse(std::nullopt, true).release);
  topo::SysfsOptions options;
  auto answers = topo::askForGpus(tree, tree.live(), config);
  if (answers.ok()) options.gpu_answers = std::move(*answers);
  options.file_cpus_get_masks = tree.live();
  return topo::loadMachine({.tree = tree, .settings = settings, .options = std::move(options)});
}

}  // namespace

PairEnd openPairEnd(const PairEndOptions& options) {
  Config config = Config::load();
  if (!options.nics.empty()) config.ib_hca = options.nics;
  PairEnd opened;
  pair::EndFacts& facts = opened.end.facts;
  if (!options.takes_part) {
    facts.host = nameOfThisHost();
    facts.takes_part = false;
    return opened;
  }
  const auto tree = treeOf(config);
  if (!verbs::load(config).ok()) {
    facts.host = nameOfThisHost();
    facts.failure = config.device.starts_with("software")
                        ? "the software device (RAILWISE_DEVICE) cannot be used: see the warning on this "
                          "host; is the package railwise-device installed?"
                        : "libibverbs.so.1 cannot be loaded: install libibverbs1 and ibverbs-providers "
                          "(Debian, Ubuntu) or rdma-core, or set RAILWISE_DEVICE";
    return opened;
  }
  opened.end = pair::openEnd(config, *tree, nameOfThisHost(), options.gpu);
  auto machine = machineOf(*tree, config);
  facts.all_reduce = machine.ok() ? pair::allReduceModel(*machine) : pair::AllReduceModel{0, machine.error()};
  if (machine.ok()) opened.machine = std::move(*machine);
  return opened;
}

}  // namespace railwise::cli
