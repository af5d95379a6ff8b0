#include "sysfs/tar_archive.h"
#include "topo/api/state.h"
#include "topo/sources/cpu_identity.h"
#include "topo/sources/generate/generate.h"
#include "topo/sources/gpu_answers.h"
#include "topo/sources/load_machine.h"

namespace railwise::topology {
namespace {

Result<Machine> finished(Outcome<topo::Machine> machine) {
  if (!machine.ok()) return Failure{machine.error()};
  return MachineState::make(std::move(*machine));
}

// Null for "": the caller does not say which processor it is.
Result<std::optional<topo::CpuIdentity>> cpuOf(const std::string& text) {
  if (text.empty()) return std::optional<topo::CpuIdentity>();
  auto cpu = topo::parseCpuIdentity(text);
  if (!cpu.ok()) return Failure{"cpu: " + cpu.error()};
  return std::optional<topo::CpuIdentity>(std::move(*cpu));
}

// `file` null: no topology file is combined with the tree.
Result<Machine> fromTree(const std::string* file, const std::string& root, const Options& options) {
  auto load = loadOptions(options);
  if (!load) return Failure{load.error()};
  auto cpu = cpuOf(options.cpu);
  if (!cpu) return Failure{cpu.error()};
  const auto tree = sysfs::openTree(root);
  if (!tree.ok()) return Failure{tree.error()};
  topo::SysfsOptions sysfs;
  sysfs.detection = load->detection;
  sysfs.cpu = std::move(*cpu);
  auto answers = topo::askForGpus(**tree, (*tree)->live(), Config());
  if (!answers.ok()) return Failure{answers.error()};
  sysfs.gpu_answers = std::move(*answers);
  return finished(topo::loadMachine(
      {.tree = **tree, .settings = load->settings, .options = std::move(sysfs), .topology_file = file}));
}

Result<topo::Pairing> pairingOf(const std::string& text) {
  if (text == "order") return topo::Pairing::kOrder;
  if (text == "bus") return topo::Pairing::kBus;
  if (text == "table") return topo::Pairing::kTable;
  return Failure{"pairing: '" + text + "' is not order, bus or table"};
}

Result<Generated> generateFrom(const std::string& root, const GenerateOptions& options) {
  const auto pairing = pairingOf(options.pairing);
  if (!pairing) return Failure{pairing.error()};
  if (options.gpus_per_bridge < 0) return Failure{"gpus_per_bridge is negative"};
  auto cpu = cpuOf(options.cpu);
  if (!cpu) return Failure{cpu.error()};
  const auto tree = sysfs::openTree(root);
  if (!tree.ok()) return Failure{tree.error()};
  topo::GenerateOptions wanted;
  wanted.pairing = *pairing;
  wanted.table = options.table;
  wanted.table_name = "table";
  wanted.gpus_per_bridge = options.gpus_per_bridge;
  wanted.nic_class = options.nic_class;
  wanted.nic_device = options.nic_device;
  wanted.exclude = options.exclude;
  wanted.cpu = std::move(*cpu);
  wanted.force = options.force;
  Generated generated;
  auto xml = topo::generateTopology(**tree, wanted, &generated.remarks);
  if (!xml.ok()) return Failure{xml.error()};
  generated.xml = std::move(*xml);
  return generated;
}

}  // namespace

Result<Machine> Machine::loadFile(const std::string& path, const Options& options) {
  return guarded([&]() -> Result<Machine> {
    const auto load = loadOptions(options);
    if (!load) return Failure{load.error()};
    return finished(topo::loadFile(path, load->settings, load->detection));
  });
}

Result<Machine> Machine::parse(const std::string& xml, const std::string& name, const Options& options) {
  return guarded([&]() -> Result<Machine> {
    const auto load = loadOptions(options);
    if (!load) return Failure{load.error()};
    auto document = topo::parseXml(xml, name);
    if (!document.ok()) return Failure{document.error()};
    return finished(topo::loadDocument(std::move(*document), load->settings, load->detection, name));
  });
}

Result<Machine> Machine::loadTree(const std::string& root, const Options& options) {
  return guarded([&] { return fromTree(nullptr, root, options); });
}

Result<Machine> Machine::loadMerged(const std::string& file, const std::string& root,
                                    const Options& options) {
  return guarded([&] { return fromTree(&file, root, options); });
}

Result<Generated> generate(const std::string& root, const GenerateOptions& options) {
  return guarded([&] { return generateFrom(root, options); });
}

}  // namespace railwise::topology
