#include "cli/topo/machine_options.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <utility>

#include "base/settings/setting_mistakes.h"
#include "base/text/name_selection.h"
#include "base/text/text_layout.h"
#include "base/text/words.h"
#include "cli/device/machine.h"
#include "cli/device/tree.h"
#include "cli/options/command_line.h"
#include "cli/options/commands.h"
#include "cli/options/help_page.h"
#include "cli/options/message.h"
#include "cli/options/nccl_environment.h"
#include "doctor/facts/libraries.h"
#include "doctor/facts/system.h"
#include "sysfs/pci_devices.h"
#include "sysfs/tar_archive.h"
#include "topo/explain/describe.h"
#include "topo/lint/lint.h"
#include "topo/sources/cpu_identity.h"
#include "topo/sources/gpu_answers.h"
#include "topo/sources/net_devices.h"
#include "topo/sources/sysfs.h"

namespace railwise::cli {
namespace {

// The variables by which programs find libraries here.
std::string loaderEnvironment() {
  std::string environment;
  for (const char* name : {"LD_PRELOAD", "LD_LIBRARY_PATH", "VIRTUAL_ENV", "CONDA_PREFIX"})
    if (const char* value = std::getenv(name)) environment += std::string(name) + "=" + value + "\n";
  return environment;
}

// The rules for a machine. `tree`: its files; null: a topology file alone.
topo::RulesInUse rulesOf(const MachineOptions& options, const sysfs::FileTree* tree) {
  topo::ReleaseHints hints{.asked = options.nccl, .in_log = options.in_log};
  hints.looked = tree != nullptr && !options.elsewhere();
  const auto library = hints.looked      ? doctor::ncclOnThisMachine(loaderEnvironment())
                       : tree != nullptr ? doctor::ncclOfPrograms(doctor::System(*tree))
                                         : std::nullopt;
  if (library) hints.library = library->path, hints.library_release = library->version;
  return topo::chooseRules(hints);
}

// "0000:10:00.0 > 0000:11:00.0", from the root port to the switch above the device; "-": it is on a root bus.
std::string portsAbove(const sysfs::FileTree& tree, const std::string& busid) {
  const auto path = busid.empty() ? std::nullopt : sysfs::pciPath(tree, busid);
  if (!path) return "-";
  std::vector<std::string> above = sysfs::busIdsAbove(*path);
  std::ranges::reverse(above);
  return above.empty() ? "-" : joined(above, " > ");
}

std::string numaText(const std::vector<sysfs::PciDevice>& devices, const std::string& busid) {
  const auto at = std::ranges::find(devices, busid, &sysfs::PciDevice::busid);
  return at == devices.end() || at->numa < 0 ? "-" : std::to_string(at->numa);
}

// The /sys of a software machine, in memory. `machine` is a value of --machine (cli/device/machine.h). `host`
// is one of its hosts; "": the host that a process would have by default. Null: the reason was reported to
// the user.
std::unique_ptr<sysfs::FileTree> deviceRoot(const char* command, const std::string& machine,
                                            const std::string& host) {
  if (machine.ends_with(".xml"))
    return say("%s: %s: a topology file is given without --machine", command, machine.c_str()), nullptr;
  DeviceMachineOptions options;
  options.machine = machine;
  options.host = host;
  const auto opened = openDeviceMachine(command, options);
  if (!opened) return nullptr;
  return std::make_unique<sysfs::MemoryTree>(deviceTree(opened->config.host()));
}

constexpr std::array<Choice<bool>, 2> kNetPlugins = {{{"railwise", false}, {"net_ib", true}}};
constexpr std::array<Choice<bool>, 2> kXgmi = {{{"rccl", false}, {"nvlink", true}}};

// The settings of NCCL's environment variables and of the options.
topo::Settings settingsOf(const MachineOptions& options, topo::NcclVersion release) {
  topo::Settings settings = topo::settingsFromEnvironment(std::getenv, release);
  settings.xgmi_as_nvlink = options.xgmi_as_nvlink;
  settings.net_ib = options.net_ib;
  if (!options.hca.empty()) settings.ib_hca = options.hca;
  return settings;
}

// Values that NCCL would not understand are reported on stderr.
topo::Settings checkedSettings(const char* command, const MachineOptions& options,
                               topo::NcclVersion release) {
  topo::Settings settings = settingsOf(options, release);
  for (std::string& set : settings.from_environment) {
    const ConfVariable* const line = confLineOf(set.substr(0, set.find('=')).c_str());
    if (line != nullptr) set += " (" + line->where() + ")";
  }
  if (!parsePortSelection(settings.ib_hca))
    say("%s: %s='%s' is no list of ports like =mlx5_0:1,mlx5_1 or ^mlx5_3: all NICs count", command,
        options.hca.empty() ? "NCCL_IB_HCA" : "--hca", settings.ib_hca.c_str());
  for (const std::string& warning : settings.warnings) say("%s: %s", command, warning.c_str());
  return settings;
}

// The topology file that NCCL itself would use on this machine (ncclTopoGetSystem). With --root the machine
// is another one, and the file is not used.
std::string fileOfNccl(const char* command, const MachineOptions& options) {
  if (options.elsewhere()) {
    if (!options.quiet) noteTopologyOfThisMachine(command, "NCCL_TOPO_FILE", "give it as FILE");
    return "";
  }
  const char* named = std::getenv("NCCL_TOPO_FILE");
  const std::string file = named != nullptr                            ? named
                           : access(topo::kVirtualTopology, R_OK) == 0 ? topo::kVirtualTopology
                                                                       : "";
  const std::string by_plugin = Config::load().topology;
  if (file.empty() && !by_plugin.empty() && !options.quiet)
    say("%s: note: without RAILWISE_TOPOLOGY=%s, by which the plugin gives NCCL a topology in jobs (%s)",
        command, by_plugin.c_str(),
        by_plugin == "auto" ? "railwise topo generate > FILE, and give FILE" : "give it as FILE");
  if (!file.empty() && !options.quiet) say("%s: note: with %s, as NCCL reads it here", command, file.c_str());
  return file;
}

// What the user can do if this machine cannot be read and the options name no other.
const char* hintFor(const MachineOptions& options) {
  if (options.elsewhere()) return "";
  return "; give a topology FILE or --root DIR|TAR, or look whether this container sees the GPUs (ls "
         "/sys/bus/pci/devices)";
}

// How the tree of a machine is read. Nothing and `status`: as openMachine().
std::optional<topo::SysfsOptions> sysfsOptions(const char* command, const MachineOptions& options,
                                               const sysfs::FileTree& tree, int* status) {
  topo::SysfsOptions sysfs;
  // For a recorded tree, NCCL's own answers were made without the masks.
  sysfs.file_cpus_get_masks = tree.live();
  if (!options.cpu.empty()) {
    auto cpu = topo::parseCpuIdentity(options.cpu);
    if (!cpu.ok())
      return *status = leave(kExitUsage, "%s: --cpu: %s", command, cpu.error().c_str()), std::nullopt;
    sysfs.cpu = *cpu;
  }
  auto answers = topo::askForGpus(tree, !options.elsewhere(), Config::load());
  if (!answers.ok())
    return *status = leave(kExitFailed, "%s: %s", command, answers.error().c_str()), std::nullopt;
  if (options.gpu_answers != nullptr) *options.gpu_answers = *answers;
  sysfs.gpu_answers = std::move(*answers);
  return sysfs;
}

// Says whose rules are in use, as the first note.
void noteRules(const char* command, const topo::RulesInUse& rules, const MachineOptions& options,
               topo::Machine& machine) {
  const std::string note = (machine.graph->rccl() ? "RCCL's rules, else " : "") + rules.note;
  if (!options.quiet && !rules.warning.empty()) say("%s: warning: %s", command, rules.warning.c_str());
  if (!rules.asked || note != "the rules of NCCL " + ncclVersionName(rules.release)) {
    machine.remarks.insert(machine.remarks.begin(), note);
  } else if (!options.quiet && options.say_remarks) {
    say("%s: note: %s", command, note.c_str());
  }
}

void noteWithoutRdma(topo::Machine& machine) {
  for (const HidingSetting& setting : hidingSettings())
    if (const char* const value = std::getenv(setting.name);
        setting.kind == HidingSetting::Kind::kNoRdma && value != nullptr && setting.hides(value))
      machine.remarks.push_back(std::string(setting.name) + "=" + value +
                                " is set here: a job uses sockets, and none of these NICs");
}

// What the answers of a file do not show: that NCCL misreads it, and that NCCL would merge NICs which the
// file has apart, as the dump of an NCCL that merged none has them.
void addLintRemarks(const MachineOptions& options, const std::string& path, topo::Machine& machine) {
  std::error_code error;
  // A pipe gives its bytes once.
  if (options.detection.any_size || !std::filesystem::is_regular_file(path, error)) return;
  const topo::Settings& settings = *machine.settings;
  int errors = 0;
  bool merges = false;
  bool same_dev = false;
  for (const topo::Finding& finding : topo::lintFile(path, settings.nccl).findings) {
    if (finding.severity == topo::Finding::kError) ++errors;
    merges = merges || finding.rule == "nics-merge";
    same_dev = same_dev || finding.rule == "duplicate-net-dev";
  }
  if (errors > 0)
    machine.remarks.push_back("railwise topo lint finds " + counted(errors, "error") + " in " + path);
  if (same_dev && !machine.completed)
    machine.remarks.emplace_back(
        "the file gives several NICs one dev, and so they are taken here; in a job NCCL takes the plugin's "
        "numbers");
  if (merges && !machine.completed && settings.net_merge_level >= topo::PathType::kNvl &&
      settings.nccl.has(topo::NcclRule::kFusion))
    machine.remarks.emplace_back(
        "the file has NICs apart that NCCL merges, as ports of one card; --fuse-nics merges them here "
        "(railwise topo lint names them)");
}

constexpr const char* kMachinesHelp =
    "usage: railwise COMMAND [FILE] [--root DIR|TAR] [--machine NAME|FILE [--host NAME]] [options]\n\n"
    "Which machine a command answers about, and what it assumes of it. FILE is an NCCL (or RCCL) topology "
    "file, - standard input. --root and --machine name a /sys; with a FILE too, the machine with "
    "NCCL_TOPO_FILE=FILE. Without any of them: this machine. What neither tells is assumed, and said on "
    "stderr: GPUs are known by their PCI ids, and the options say otherwise. The rules are those of --nccl, "
    "else of the NCCL that a log names, else of the one installed on the machine, else the newest known. "
    "NCCL's variables count as this environment and NCCL's configuration files (railwise config) set "
    "them.\n\n";

}  // namespace

void addWhichMachine(std::vector<Option>& table, MachineOptions& fields) {
  table.push_back(textOption(0, "root", "DIR|TAR", &fields.root,
                             "the machine whose /sys is below DIR or recorded in TAR (railwise topo record); "
                             "without a FILE: this machine"));
  table.push_back(
      textOption('m', "machine", "NAME|FILE", &fields.software,
                 "a software machine (railwise device list), or one that railwise topo record has recorded"));
  table.push_back(
      textOption('H', "host", "NAME", &fields.host, "which host of --machine (default: its first)"));
}

void addMachineOptions(std::vector<Option>& table, MachineOptions& fields) {
  const std::size_t first = table.size();
  addWhichMachine(table, fields);
  table.push_back(ncclOption("nccl", &fields.nccl,
                             "whose rules, 2.13 to 2.32: 2.30 or 2.30.7 (default: those of the machine's "
                             "libnccl; for a file, or without one, the newest known)"));
  table.push_back(intOption(0, "gpu-sm", &fields.detection.gpu_sm, 1, 999,
                            "compute capability of GPUs that are not described (90 = 9.0)"));
  table.push_back(intOption(0, "nvswitch-links", &fields.detection.nvswitch_links, 0, 64,
                            "NVLinks from each such GPU to an NVSwitch (default 0)"));
  table.push_back(intOption(0, "nic-speed", &fields.detection.nic_speed, 1, 100000000,
                            "Mb/s of NICs whose speed is not known (default 400000)"));
  table.push_back(flagOption(0, "fuse-nics", &fields.detection.fuse_nics,
                             "merge NICs as NCCL does at init, also in a file that describes them"));
  table.push_back(
      choiceOption<bool>(0, "net-plugin", kNetPlugins, &fields.net_ib,
                         "who tells NCCL the NICs of a machine: railwise (default) or net_ib, NCCL's own"));
  table.push_back(textOption(0, "hca", "LIST", &fields.hca,
                             "the NICs in use, as NCCL_IB_HCA: ^=mlx5_3 is all but mlx5_3 (default: "
                             "NCCL_IB_HCA)"));
  table.push_back(flagOption(0, "any-size", &fields.detection.any_size,
                             "read a FILE with more than the 255 elements that NCCL reads"));
  table.push_back(textOption(0, "cpu", "ARCH,VENDOR,FAMILY,MODEL", &fields.cpu,
                             "with --root: the CPU of that machine, e.g. x86_64,GenuineIntel,6,143"));
  table.push_back(
      choiceOption<bool>(0, "xgmi", kXgmi, &fields.xgmi_as_nvlink,
                         "AMD links: rccl (RCCL's bandwidths) or nvlink (as NCCL would count them)"));
  table.push_back(flagOption('q', "quiet", &fields.quiet, "do not say what was assumed"));
  for (std::size_t i = first; i < table.size(); ++i) table[i].topic = kMachinesTopic;
}

int machinesHelp(Args) {
  MachineOptions fields;
  HelpPage page{.intro = kMachinesHelp};
  addMachineOptions(page.options, fields);
  for (Option& option : page.options) option.topic = nullptr;
  showHelp(std::move(page));
  return kExitOk;
}

std::unique_ptr<sysfs::FileTree> openRoot(const char* command, const std::string& root) {
  // Under `railwise device run` this machine is the software machine.
  auto tree = sysfs::openTree(root.empty() ? Config::load().sysfs_root : root);
  if (tree.ok()) return std::move(*tree);
  say("%s: %s%s", command, tree.error().c_str(),
      root.ends_with(".xml") ? "; a topology file is given without --root" : "");
  return nullptr;
}

std::unique_ptr<sysfs::FileTree> openMachineTree(const char* command, const MachineOptions& given,
                                                 int* status) {
  MachineOptions options = given;
  takeRecording(options);
  *status = kExitUsage;
  if (!options.software.empty() && !options.root.empty())
    return say("%s: --root and --machine are two machines: name one", command), nullptr;
  if (!options.host.empty() && options.software.empty())
    return say("%s: --host is a host of --machine", command), nullptr;
  if (!options.software.empty()) return deviceRoot(command, options.software, options.host);
  *status = kExitFailed;
  return openRoot(command, options.root);
}

void noteTopologyOfThisMachine(const char* command, const char* variable, const char* advice) {
  if (const char* const value = std::getenv(variable); value != nullptr && *value != '\0')
    say("%s: note: %s=%s is this machine's: not used here (%s)", command, variable, value, advice);
}

std::string subjectOf(const std::string& file, const MachineOptions& options) {
  if (!options.root.empty()) return options.root;
  if (!options.software.empty()) return "machine " + options.software;
  return file == kStandardInput ? "standard input" : file.empty() ? "this machine" : file;
}

void takeRecording(MachineOptions& options) {
  if (options.root.empty() && isRecording(options.software)) std::swap(options.root, options.software);
}

void takeMachine(std::string& file, MachineOptions& options) {
  std::error_code error;
  if (options.elsewhere() || file.empty() || file == kStandardInput) return;
  const bool machine = !std::filesystem::exists(file, error) && isShippedMachine(file);
  if (machine || isRecording(file)) options.software = std::exchange(file, "");
}

std::optional<topo::Machine> openMachine(const char* command, const std::string& named,
                                         const MachineOptions& given, int* status) {
  MachineOptions options = given;
  std::string file = named;
  takeMachine(file, options);
  takeRecording(options);
  *status = kExitUsage;
  if (!options.host.empty() && options.software.empty())
    return say("%s: --host is a host of --machine", command), std::nullopt;
  if (!options.cpu.empty() && !options.elsewhere() && !file.empty())
    return say("%s: --cpu is for --root: %s says itself what its CPUs are", command, file.c_str()),
           std::nullopt;
  std::string path = file;
  const bool standard_input = path == kStandardInput;
  if (standard_input) path = "/dev/stdin";
  std::unique_ptr<sysfs::FileTree> tree;
  topo::SysfsOptions sysfs;
  if (options.elsewhere() || file.empty()) {
    tree = openMachineTree(command, options, status);
    if (!tree) return std::nullopt;
    if (path.empty()) path = fileOfNccl(command, options);
    auto read = sysfsOptions(command, options, *tree, status);
    if (!read) return std::nullopt;
    sysfs = std::move(*read);
  }
  *status = kExitFailed;
  sysfs.detection = options.detection;
  const topo::RulesInUse rules = rulesOf(options, tree.get());
  const topo::Settings settings = checkedSettings(command, options, rules.release);
  auto machine = topo::loadMachine({.tree = tree.get(),
                                    .settings = settings,
                                    .options = std::move(sysfs),
                                    .topology_file = path.empty() ? nullptr : &path,
                                    .topology_text = options.file_text,
                                    .name = standard_input ? "standard input" : ""});
  if (!machine.ok()) {
    const bool no_gpu =
        tree != nullptr ? sysfs::gpuDevices(*tree).empty() : machine.failure().code == Code::kNoDevice;
    if (options.without_gpus != nullptr && no_gpu) return *options.without_gpus = true, std::nullopt;
    const bool of_tree = tree != nullptr && machine.failure().code == Code::kNoDevice;
    std::string text = machine.error();
    if (standard_input && text.starts_with(path)) text = "standard input" + text.substr(path.size());
    std::error_code error;
    if (!file.empty() && !standard_input && !std::filesystem::exists(file, error))
      text += "; no software machine is called so either (railwise device list)";
    return say("%s: %s%s", command, text.c_str(), of_tree ? hintFor(options) : ""), std::nullopt;
  }
  noteRules(command, rules, options, *machine);
  noteWithoutRdma(*machine);
  if (!options.quiet && !path.empty() && !standard_input) addLintRemarks(options, path, *machine);
  if (options.quiet && !options.say_remarks) machine->remarks.clear();
  if (!options.quiet && options.say_remarks) sayNotes(command, machine->remarks);
  return std::move(*machine);
}

topo::RulesInUse rulesFor(const MachineOptions& options) {
  const auto tree = options.elsewhere() ? nullptr : sysfs::makeLiveTree();
  return rulesOf(options, tree.get());
}

Option graphFileOption(std::string* field) {
  return textOption('g', "graph-file", "FILE", field, "take the graphs of FILE (default: NCCL_GRAPH_FILE)");
}

Outcome<std::shared_ptr<const topo::GraphFile>> graphFileOf(const char* command, const std::string& option,
                                                            bool quiet) {
  const char* const named = option.empty() ? std::getenv("NCCL_GRAPH_FILE") : option.c_str();
  if (named == nullptr) return std::shared_ptr<const topo::GraphFile>();
  if (option.empty() && !quiet)
    say("%s: note: with the graphs of NCCL_GRAPH_FILE=%s, as NCCL takes them", command, named);
  auto read = topo::GraphFile::read(named);
  if (!read.ok()) return Error{read.error() + (option.empty() ? std::string("; ") + topo::kNoGraphFile : "")};
  return std::make_shared<const topo::GraphFile>(std::move(*read));
}

bool takeGraphFile(const char* command, const std::string& option, bool quiet, topo::Machine& machine) {
  auto file = graphFileOf(command, option, quiet);
  if (!file.ok()) return say("%s: %s", command, file.error().c_str()), false;
  machine.graph_file = std::move(*file);
  return true;
}

int showWithoutGpus(const char* command, const MachineOptions& options) {
  int status = kExitOk;
  const auto tree = openMachineTree(command, options, &status);
  if (!tree) return status;
  const topo::Settings settings = settingsOf(options, topo::NcclVersion{});
  std::vector<std::string> remarks;
  const auto nics = topo::netDevices(*tree, settings, {options.detection.nic_speed, true}, &remarks);
  const auto devices = sysfs::pciDevices(*tree);
  const auto nodes = static_cast<int>(sysfs::numaNodes(*tree).size());
  std::string text = wrappedText((tree->name() == "/" ? std::string("this machine") : tree->name()) +
                                     ": no GPU (no display device by NVIDIA or AMD), so NCCL cannot run; " +
                                     counted(static_cast<int>(nics.size()), "RDMA port") + ", " +
                                     counted(nodes, "NUMA node"),
                                 "", "  ");
  if (tree->live())
    text += wrappedText("if it has GPUs: does this container see them? ls /sys/bus/pci/devices",
                        "  note: ", "    ");
  text +=
      wrappedText("another machine: a topology FILE, --root DIR|TAR or --machine NAME", "  note: ", "    ");
  if (!options.quiet)
    for (const std::string& remark : remarks) text += wrappedText(remark, "  note: ", "    ");
  std::vector<TextRow> rows = {{"NIC", "port", "Gb/s", "link", "NUMA", "PCI address", "below"}};
  for (const topo::NetDevice& nic : nics) {
    rows.push_back({nic.name, std::to_string(nic.port),
                    topo::gbText(static_cast<float>(nic.speed_mbps) / 1000),
                    nic.link.empty() ? "-" : nic.link, numaText(devices, nic.busid),
                    nic.busid.empty() ? "-" : nic.busid, portsAbove(*tree, nic.busid)});
  }
  if (!nics.empty()) text += "\n" + tableText(rows);
  return writeOutput(command, "", text);
}

Option ncclOption(std::string name, std::optional<topo::NcclChoice>* field, std::string text) {
  return valueOption(0, std::move(name), "RELEASE", std::move(text),
                     "a release of NCCL from 2.13 to 2.32, such as 2.30 or 2.30.7",
                     [field](std::string_view value) {
                       const auto choice = topo::rulesFor(value);
                       if (choice) *field = choice;
                       return choice.has_value();
                     });
}

}  // namespace railwise::cli
