#include "cli/topo/machine_options.h"

#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <utility>

#include "cli/device/machine.h"
#include "cli/device/tree.h"
#include "cli/options/command_line.h"
#include "cli/options/message.h"
#include "sysfs/pci_devices.h"
#include "sysfs/tar_archive.h"
#include "topo/sources/cpu_identity.h"
#include "topo/sources/gpu_answers.h"
#include "topo/sources/load_machine.h"

namespace railwise::cli {
namespace {

// The /sys of a software machine, in memory. `machine` is a value of --machine (cli/device/machine.h). `host`
// is one of its hosts; "": the host that a process would have by default. Null: the reason was reported to
// the user.
std::unique_ptr<sysfs::FileTree> deviceRoot(const char* command, const std::string& machine,
                                            const std::string& host) {
  DeviceMachineOptions options;
  options.machine = machine;
  options.host = host;
  const auto opened = openDeviceMachine(command, options);
  if (!opened) return nullptr;
  return std::make_unique<sysfs::MemoryTree>(deviceTree(opened->config.host()));
}

constexpr std::array<Choice<topo::NcclVersion>, 2> kVersions = {
    {{"2.30", topo::NcclVersion::k2_30}, {"2.28", topo::NcclVersion::k2_28}}};
constexpr std::array<Choice<bool>, 2> kNetPlugins = {{{"railwise", false}, {"net_ib", true}}};
constexpr std::array<Choice<bool>, 2> kXgmi = {{{"rccl", false}, {"nvlink", true}}};

// The settings of NCCL's environment variables and of --nccl. Values that NCCL would not understand are
// reported on stderr.
topo::Settings settingsOf(const char* command, const MachineOptions& options) {
  topo::Settings settings =
      topo::settingsFromEnvironment([](const char* name) { return std::getenv(name); }, options.nccl);
  settings.xgmi_as_nvlink = options.xgmi_as_nvlink;
  settings.net_ib = options.net_ib;
  for (const std::string& warning : settings.warnings) say("%s: %s", command, warning.c_str());
  return settings;
}

// The topology file that NCCL itself would use on this machine (ncclTopoGetSystem). With --root the machine
// is another one, and the file is not used.
std::string fileOfNccl(const char* command, const MachineOptions& options) {
  const char* named = std::getenv("NCCL_TOPO_FILE");
  if (options.elsewhere()) {
    if (named != nullptr && !options.quiet)
      say("%s: note: NCCL_TOPO_FILE=%s is this machine's: not used here (give it as FILE)", command, named);
    return "";
  }
  const std::string file = named != nullptr                            ? named
                           : access(topo::kVirtualTopology, R_OK) == 0 ? topo::kVirtualTopology
                                                                       : "";
  if (!file.empty() && !options.quiet) say("%s: note: with %s, as NCCL reads it here", command, file.c_str());
  return file;
}

// What the user can do if this machine cannot be read and the options name no other.
const char* hintFor(const MachineOptions& options) {
  if (options.elsewhere()) return "";
  return "; give a topology FILE or --root DIR|TAR, or look whether this container sees the GPUs (ls "
         "/sys/bus/pci/devices)";
}

std::optional<topo::Machine> fromTree(const char* command, std::string file, const MachineOptions& options,
                                      const topo::Settings& settings) {
  const auto tree = openMachineTree(command, options);
  if (!tree) return std::nullopt;
  if (file.empty()) file = fileOfNccl(command, options);
  topo::SysfsOptions sysfs;
  sysfs.detection = options.detection;
  // For a recorded tree, NCCL's own answers were made without the masks.
  sysfs.file_cpus_get_masks = tree->live();
  if (!options.cpu.empty()) {
    auto cpu = topo::parseCpuIdentity(options.cpu);
    if (!cpu.ok()) return say("%s: --cpu: %s", command, cpu.error().c_str()), std::nullopt;
    sysfs.cpu = *cpu;
  }
  auto answers = topo::askForGpus(*tree, !options.elsewhere(), Config::load());
  if (!answers.ok()) return say("%s: %s", command, answers.error().c_str()), std::nullopt;
  if (options.gpu_answers != nullptr) *options.gpu_answers = *answers;
  sysfs.gpu_answers = std::move(*answers);
  auto machine = topo::loadMachine({.tree = *tree,
                                    .settings = settings,
                                    .options = std::move(sysfs),
                                    .topology_file = file.empty() ? nullptr : &file});
  if (machine.ok()) return std::move(*machine);
  if (options.without_gpus != nullptr && sysfs::gpuDevices(*tree).empty())
    return *options.without_gpus = true, std::nullopt;
  const char* const hint = machine.failure().code == Code::kNoDevice ? hintFor(options) : "";
  return say("%s: %s%s", command, machine.error().c_str(), hint), std::nullopt;
}

// Is it a recorded machine, not the name of a software machine?
bool isRecording(const std::string& machine) {
  std::error_code error;
  return machine.ends_with(".tar.gz") || machine.ends_with(".tgz") || machine.ends_with(".tar") ||
         std::filesystem::is_directory(machine, error);
}

}  // namespace

void addMachineOptions(std::vector<Option>& table, MachineOptions& fields) {
  table.push_back(textOption(0, "root", "DIR|TAR", &fields.root,
                             "the machine whose /sys is below DIR or recorded in TAR (railwise topo record); "
                             "without a FILE: this machine"));
  table.push_back(
      textOption('m', "machine", "NAME|FILE", &fields.software,
                 "a software machine (railwise device list), or one that railwise topo record has recorded"));
  table.push_back(
      textOption('H', "host", "NAME", &fields.host, "which host of --machine (default: its first)"));
  table.push_back(choiceOption<topo::NcclVersion>(
      0, "nccl", kVersions, &fields.nccl, "whose rules: 2.30 (2.30.7, default) or 2.28 (up to 2.30.4)"));
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
  table.push_back(flagOption(0, "any-size", &fields.detection.any_size,
                             "read a FILE with more than the 255 elements that NCCL reads"));
  table.push_back(textOption(0, "cpu", "ARCH,VENDOR,FAMILY,MODEL", &fields.cpu,
                             "with --root: the CPU of that machine, e.g. x86_64,GenuineIntel,6,143"));
  table.push_back(
      choiceOption<bool>(0, "xgmi", kXgmi, &fields.xgmi_as_nvlink,
                         "AMD links: rccl (RCCL's bandwidths) or nvlink (as NCCL would count them)"));
  table.push_back(flagOption('q', "quiet", &fields.quiet, "do not say what was assumed"));
}

std::unique_ptr<sysfs::FileTree> openRoot(const char* command, const std::string& root) {
  // Under `railwise device run` this machine is the software machine.
  auto tree = sysfs::openTree(root.empty() ? Config::load().sysfs_root : root);
  if (tree.ok()) return std::move(*tree);
  say("%s: %s%s", command, tree.error().c_str(),
      root.ends_with(".xml") ? "; a topology file is given without --root" : "");
  return nullptr;
}

std::unique_ptr<sysfs::FileTree> openMachineTree(const char* command, const MachineOptions& options) {
  return options.software.empty() ? openRoot(command, options.root)
                                  : deviceRoot(command, options.software, options.host);
}

void takeRecording(MachineOptions& options) {
  if (options.root.empty() && isRecording(options.software)) std::swap(options.root, options.software);
}

std::optional<topo::Machine> openMachine(const char* command, const std::string& file,
                                         const MachineOptions& given) {
  MachineOptions options = given;
  takeRecording(options);
  if (!options.software.empty() && !options.root.empty())
    return say("%s: --root and --machine are two machines: name one", command), std::nullopt;
  if (!options.host.empty() && options.software.empty())
    return say("%s: --host is a host of --machine", command), std::nullopt;
  if (!options.cpu.empty() && !options.elsewhere() && !file.empty())
    return say("%s: --cpu is for --root: %s says itself what its CPUs are", command, file.c_str()),
           std::nullopt;
  const topo::Settings settings = settingsOf(command, options);
  std::optional<topo::Machine> machine;
  if (options.elsewhere() || file.empty()) {
    machine = fromTree(command, file, options, settings);
  } else {
    auto loaded = topo::loadFile(file, settings, options.detection);
    if (!loaded.ok() && options.without_gpus != nullptr && loaded.failure().code == Code::kNoDevice)
      return *options.without_gpus = true, std::nullopt;
    if (!loaded.ok()) return say("%s: %s", command, loaded.error().c_str()), std::nullopt;
    machine = std::move(*loaded);
  }
  if (machine && !options.quiet && options.say_remarks) sayNotes(command, machine->remarks);
  return machine;
}

}  // namespace railwise::cli
