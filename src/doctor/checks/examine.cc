#include <algorithm>
#include <cctype>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "base/files.h"
#include "base/text/words.h"
#include "doctor/checks/check.h"
#include "doctor/facts/libraries.h"
#include "topo/search/graph_file.h"
#include "topo/sources/sysfs.h"

namespace railwise::doctor {
namespace {

constexpr std::size_t kMostFileBytes = 16 << 20;

topo::NcclVersion rulesOf(const System& system) {
  const NcclLibrary library = ncclOfPrograms(system).value_or(NcclLibrary());
  return topo::chooseRules({.library = library.path, .library_release = library.version}).release;
}

// Reads NCCL's settings and returns its graph file, whose variables are those of the machine, or else of this
// computer. Null: there is none.
std::shared_ptr<const topo::GraphFile> readSettings(Examination& exam, const topo::Lookup& environment) {
  const System& system = exam.system;
  const bool of_machine = system.environmentKnown() || !environment;
  const auto lookup = [&](const char* name) -> const char* {
    if (!of_machine) return environment(name);
    const Variable* set = system.variable(name);
    return set == nullptr ? nullptr : set->value.c_str();
  };
  exam.settings = topo::settingsFromEnvironment(lookup, rulesOf(system));
  const char* const graphs = lookup("NCCL_GRAPH_FILE");
  if (graphs == nullptr) return nullptr;
  exam.graph_file = graphs;
  if (of_machine && exam.skipUnknownPlace("NCCL_GRAPH_FILE", graphs)) return nullptr;
  std::optional<std::string> text;
  if (of_machine) text = system.tree().read(system.pathOf(graphs), kMostFileBytes);
  else if (auto read = wholeFile(graphs, kMostFileBytes); read.ok()) text = std::move(*read);
  auto file = text ? topo::GraphFile::parse(*text, graphs)
                   : Error{"NCCL_GRAPH_FILE=" + exam.graph_file + " cannot be read; " + topo::kNoGraphFile};
  if (file.ok()) return std::make_shared<const topo::GraphFile>(std::move(*file));
  exam.graph_problem = file.error();
  return nullptr;
}

// The file that NCCL reads (ncclTopoGetSystem). "": none.
std::string topologyFileOf(const System& system) {
  if (const Variable* named = system.variable("NCCL_TOPO_FILE"); named != nullptr) return named->value;
  return system.exists(topo::kVirtualTopology) ? topo::kVirtualTopology : "";
}

Outcome<topo::Machine> modelOf(const Examination& exam, const topo::Settings& settings) {
  std::optional<topo::XmlDocument> document;
  if (exam.topology_text) {
    auto read = topo::parseXml(*exam.topology_text, exam.topology_file);
    if (!read.ok()) return read.failure();
    document = std::move(*read);
  }
  const bool alone = exam.system.tree().list("/sys/bus/pci/devices").empty() && document.has_value();
  return topo::loadMachine({.tree = alone ? nullptr : &exam.system.tree(),
                            .settings = settings,
                            .document = std::move(document),
                            .name = exam.topology_file});
}

std::string stateText(const RdmaPort& port) {
  if (port.not_given) return ", not given to this container";
  return port.left_out ? ", left out by NCCL_IB_HCA" : "";
}

// "8 RDMA ports: 8 x MT4129, InfiniBand, 400 Gb/s, active (mlx5_0 ... mlx5_7)"
void lookAtPorts(Examination& exam) {
  std::map<std::string, std::vector<std::string>> kinds;
  for (const RdmaPort& port : exam.ports) {
    const std::string layer = port.iwarp ? "iWARP" : port.roce() ? "RoCE" : port.layer;
    const std::string kind = (port.type.empty() ? "" : port.type + ", ") +
                             (layer.empty() ? "" : layer + ", ") +
                             (port.rate_mbps > 0 ? gbpsText(port.rate_mbps) + ", " : "") +
                             (port.active() ? "active" : "not active") + stateText(port);
    kinds[kind].push_back(port.number == 1 ? port.device : port.label());
  }
  for (const auto& [kind, names] : kinds) {
    exam.looked.push_back(counted(names.size(), "RDMA port") + " (" + kind + "): " + firstItems(names, 8));
  }
}

void lookAtGpus(Examination& exam) {
  const std::size_t gpus = sysfs::gpuDevices(exam.system.tree()).size();
  if (gpus > 0) exam.looked.push_back(counted(gpus, "GPU") + " in /sys/bus/pci/devices");
  if (!exam.topology_file.empty()) exam.looked.push_back("topology file " + exam.topology_file);
  if (!exam.graph_file.empty()) exam.looked.push_back("graph file " + exam.graph_file + " (NCCL_GRAPH_FILE)");
}

// What `railwise explain` calls a problem may be how the board is made, and is no finding.
void lookAtPaths(Examination& exam) {
  std::vector<std::string> kinds;
  const auto add = [&](const std::vector<topo::Problem>& problems) {
    for (const topo::Problem& problem : problems)
      if (std::ranges::find(kinds, problem.kind) == kinds.end()) kinds.push_back(problem.kind);
  };
  add(exam.paths.problems);
  for (const topo::GpuExplanation& gpu : exam.paths.gpus) add(gpu.problems);
  if (!kinds.empty()) exam.looked.push_back("paths: " + listText(kinds) + " (railwise explain --brief)");
}

// Names what the check needs and the machine lacks. Null: the machine has all of it.
const char* lackOf(const Examination& exam, Needs needs) {
  const std::vector<const RdmaPort*> ports = exam.usedPorts();
  const auto anyPort = [&](bool (RdmaPort::*of)() const) {
    return std::ranges::any_of(ports, [&](const RdmaPort* port) { return port->active() && (port->*of)(); });
  };
  const auto withPort = [&](bool gpu, const char* none) {
    return !gpu ? none : ports.empty() ? "no RDMA port" : nullptr;
  };
  switch (needs) {
    case Needs::kNothing:
      return nullptr;
    case Needs::kPort:
      return ports.empty() ? "no RDMA port" : nullptr;
    case Needs::kRoce:
      return anyPort(&RdmaPort::roce) ? nullptr : "no active RoCE port";
    case Needs::kInfiniband:
      return anyPort(&RdmaPort::infiniband) ? nullptr : "no active InfiniBand port";
    case Needs::kGpu:
      return exam.hasGpu(&sysfs::PciDevice::isGpu) ? nullptr : "no GPU";
    case Needs::kModel:
      return exam.machine == nullptr ? "no model of GPUs and NICs" : nullptr;
    case Needs::kNvidiaAndPort:
      return withPort(exam.hasGpu(&sysfs::PciDevice::isNvidiaGpu), "no GPU of NVIDIA");
    case Needs::kAmdAndPort:
      return withPort(exam.hasGpu(&sysfs::PciDevice::isAmdGpu), "no GPU of AMD");
    case Needs::kGpuAndPort:
      return withPort(exam.hasGpu(&sysfs::PciDevice::isGpu), "no GPU");
    case Needs::kTopologyFile:
      return exam.topology_file.empty() ? "no topology file" : nullptr;
    case Needs::kNccl:
      return ncclLibraries(exam.system).empty() ? "no library of NCCL" : nullptr;
    case Needs::kEnvironment:
      return exam.system.environmentKnown() ? nullptr : "no environment of a job";
  }
  return nullptr;
}

}  // namespace

bool isCheckOrFamily(const std::string& name) {
  const std::vector<Check> checks = allChecks();
  return std::ranges::any_of(checks,
                             [&](const Check& check) { return name == check.name || name == check.family; });
}

Diagnosis examine(const System& system, const ExamineOptions& options) {
  Examination exam{.system = system, .options = options};
  exam.ports = rdmaPorts(system);
  exam.topology_file = options.topology_file.empty() ? topologyFileOf(system) : options.topology_file;
  exam.topology_text = options.topology_text;
  if (!exam.topology_text && !exam.topology_file.empty() && system.placeKnown(exam.topology_file))
    exam.topology_text = system.tree().read(system.pathOf(exam.topology_file), kMostFileBytes);
  auto graph_file = readSettings(exam, options.environment);
  Outcome<topo::Machine> machine = modelOf(exam, exam.settings);
  if (machine.ok()) {
    machine->graph_file = std::move(graph_file);
    exam.machine = &*machine;
    exam.paths = topo::explain(*machine);
  } else if (machine.failure().code !=
             Code::kNoDevice) {  // without a GPU there is no model, which is no fault
    exam.hidden.push_back("the machine's model: " + machine.error());
  }
  lookAtPorts(exam);
  lookAtGpus(exam);
  lookAtPaths(exam);
  std::size_t ran = 0, blind = 0;
  std::map<std::string, std::vector<std::string>> absent;  // and the checks that look at it
  for (const Check& check : allChecks()) {
    const auto named = [&](const std::string& name) { return name == check.name || name == check.family; };
    if (!options.only.empty() && std::ranges::none_of(options.only, named)) continue;
    exam.running = check.name;
    exam.blind = false;
    exam.absent = options.only.empty() ? nullptr : lackOf(exam, check.needs);
    const std::size_t found = exam.findings.all().size();
    check.run(exam);
    ++ran;
    const bool nothing = exam.absent != nullptr && exam.findings.all().size() == found;
    if (nothing) absent[exam.absent].emplace_back(check.name);
    if (exam.blind || nothing) ++blind;
  }
  // No machine has what all checks look at; who asks for some of them wants to know.
  if (!options.only.empty())
    for (const auto& [what, checks] : absent) exam.hidden.push_back(listText(checks) + ": " + what);
  if (system.isRoot() && system.variable("SUDO_USER") != nullptr)
    exam.hidden.push_back("as the job's user (without sudo): environment, limits, and rights to the devices");
  exam.looked.push_back(counted(ran, "check") + " (railwise doctor --list)");
  exam.findings.sort();
  const bool no_devices = options.only.empty() && options.topology_file.empty() && exam.ports.empty() &&
                          !system.environmentKnown();
  return {std::move(exam.findings), std::move(exam.looked), std::move(exam.hidden),
          blind == ran ? "no check could look"
          : no_devices ? "the recording has no RDMA devices"
                       : ""};
}

std::vector<const RdmaPort*> Examination::usedPorts() const {
  std::vector<const RdmaPort*> used;
  for (const RdmaPort& port : ports)
    if (!port.left_out && !port.not_given) used.push_back(&port);
  return used;
}

std::vector<const char*> Examination::settingsThatWantNics() const {
  std::vector<const char*> names;
  for (const char* const name : {"NCCL_NET", "RAILWISE_STRICT"}) {
    const Variable* const set = system.variable(name);
    if (set != nullptr && set->value != "0" && upperCase(set->value) != "SOCKET") names.push_back(name);
  }
  return names;
}

const char* Examination::withoutNics() const {
  return settingsThatWantNics().empty()
             ? "NCCL falls back to TCP sockets, often at less than a tenth of the speed, and does not say so."
             : "A job with NCCL_NET or RAILWISE_STRICT as they are set fails when it starts.";
}

bool givenToGuest(const System& system, const std::string& path) {
  return sysfs::realPathOf(system.tree(), path + "/driver").ends_with("/vfio-pci");
}

std::vector<sysfs::PciDevice> Examination::ownGpus() const {
  std::vector<sysfs::PciDevice> gpus = sysfs::gpuDevices(system.tree());
  std::erase_if(gpus, [&](const sysfs::PciDevice& gpu) { return givenToGuest(system, gpu.path); });
  return gpus;
}

bool Examination::hasGpu(bool (sysfs::PciDevice::*of)() const) const {
  return std::ranges::any_of(ownGpus(), std::mem_fn(of));
}

bool Examination::simulated() const {
  return !ports.empty() && std::ranges::all_of(ports, [](const RdmaPort& port) { return port.simulated; });
}

bool Examination::skipSimulated() {
  if (simulated()) cannotLook("simulated: what only hardware has (drivers, GPUDirect, limits)");
  return simulated();
}

// A shell cannot unset what a configuration file of NCCL sets: the fix makes a comment of the line, so the
// numbers of the other lines stay.
static std::string fixWithFiles(const System& system, std::string fix) {
  for (const auto& [name, variable] : system.variables()) {
    const std::string unset = "unset " + name;
    const auto colon = variable.where.rfind(':');
    if (colon == std::string::npos) continue;  // set by the environment
    for (auto at = fix.find(unset); at != std::string::npos; at = fix.find(unset, at + 1)) {
      const auto end = at + unset.size();
      if (end < fix.size() && (fix[end] == '_' || std::isalnum(static_cast<unsigned char>(fix[end])) != 0))
        continue;
      fix.replace(
          at, unset.size(),
          "sed -i '" + variable.where.substr(colon + 1) + "s/^/#/' " + variable.where.substr(0, colon));
    }
  }
  return fix;
}

void Examination::add(Severity severity, std::string what, std::vector<Seen> seen, std::string why,
                      std::string fix) {
  if (seen.empty()) return;
  findings.add(running, severity, std::move(what), std::move(seen), std::move(why),
               fixWithFiles(system, std::move(fix)));
}

bool Examination::skipUnknownPlace(const std::string& setting, const std::string& file) {
  if (system.placeKnown(file)) return false;
  cannotLook(setting + "=" + file + ": a job reads it from its working folder, which is not known here",
             false);
  return true;
}

void Examination::cannotLook(const std::string& what, bool all) {
  blind = blind || all;
  if (std::ranges::find(hidden, what) == hidden.end()) hidden.push_back(what);
}

std::vector<Check> allChecks() {
  std::vector<Check> all;
  for (const auto family : {rdmaChecks, portChecks, addressChecks, pciChecks, gpuDirectChecks, nvlinkChecks,
                            topologyChecks, containerChecks, ncclChecks}) {
    const std::span<const Check> checks = family();
    all.insert(all.end(), checks.begin(), checks.end());
  }
  return all;
}

}  // namespace railwise::doctor
