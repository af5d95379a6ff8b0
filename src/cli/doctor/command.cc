// railwise doctor: what is wrong with this machine, and what to type. --log and --pair are commands of their
// own (log.cc, pair.cc).
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <string_view>

#include "base/files.h"
#include "base/settings/config.h"
#include "base/text/words.h"
#include "cli/options/command_line.h"
#include "cli/options/commands.h"
#include "cli/options/help_page.h"
#include "cli/options/message.h"
#include "cli/options/nccl_environment.h"
#include "cli/plugin/plugin_loader.h"
#include "cli/topo/machine_options.h"
#include "doctor/checks/check.h"
#include "doctor/facts/gather.h"
#include "doctor/facts/libraries.h"
#include "doctor/facts/trees.h"
#include "doctor/finding.h"
#include "doctor/fingerprint/manifest.h"
#include "gpu/json.h"
#include "sysfs/tar_archive.h"
#include "topo/sources/gpu_answers.h"

namespace railwise::cli {
namespace {

constexpr std::array<Subcommand, 4> kDoctorModes = {{
    {"--log", doctorLogCommand, "what NCCL_DEBUG=INFO logs say"},
    {"--pair", doctorPairCommand, "measure the NICs of two hosts"},
    {"--watch", doctorWatchCommand, "watch the RDMA ports of this node"},
    {"--health", doctorHealthCommand, "what the watch knows, for Slurm, Kubernetes and Prometheus"},
}};

constexpr const char* kHelp =
    "usage: railwise doctor [FILE...] [options]\n"
    "       railwise doctor --log FILE...       what NCCL_DEBUG=INFO logs say (railwise doctor --log "
    "--help)\n"
    "       railwise doctor --pair [HOST]       measures the NICs of two hosts (railwise doctor --pair "
    "--help)\n"
    "       railwise doctor --watch             watches the RDMA ports of this node (railwise doctor --watch "
    "--help)\n"
    "       railwise doctor --health FORM       what the watch knows (railwise doctor --health --help)\n\n"
    "Says what is wrong with this machine for NCCL over RDMA, the worst first: what was seen and where, what "
    "it\n"
    "costs, and what to type. Needs no root; what root would add is said at the end. FILE: only this NCCL\n"
    "topology file; logs and outputs of other programs (nvidia-smi topo -m, dmesg, ibstat, lspci -vv) are "
    "read as\n"
    "with --log. docs/doctor.md explains each check.\n"
    "Exit status: 0 fine (advice at most), 1 warnings, 2 errors or a mistake on the command line.\n\n";

struct DoctorOptions {
  Output output;
  ColorChoice color = ColorChoice::kAuto;
  bool list = false;
  bool masked = false;
  bool strict = false;
  std::vector<std::string> only;
  std::string report;
  std::string manifest;
  std::string save_manifest;
  int watch_ms = 1000;
  MachineOptions machine;
};

Option onlyOption(std::vector<std::string>* only) {
  return {.long_name = "only",
          .value = Option::kRequired,
          .value_name = "CHECK,..",
          .text = "only these checks, or families: rdma, gpudirect, nvlink, topology, container, nccl",
          .accepted = "a list of checks and families, see railwise doctor --list",
          .accept = [only](std::string_view value) {
            const std::vector<std::string> names = fullPartsOf(value, ',');
            only->insert(only->end(), names.begin(), names.end());
            return !names.empty() && std::ranges::all_of(names, doctor::isCheckOrFamily);
          }};
}

std::vector<Option> optionTable(DoctorOptions& options) {
  std::vector<Option> table = {
      onlyOption(&options.only),
      flagOption(0, "strict", &options.strict,
                 "for a preflight: warnings count as errors (exit status 2), and RDMA devices must be there"),
      flagOption(0, "list", &options.list, "list the checks"),
      textOption(0, "report", "FILE.tar.gz", &options.report,
                 "also write all that was read, for somebody who helps you; --root reads it"),
      flagOption(0, "mask", &options.masked,
                 "with --report: addresses, GUIDs and host names made unreadable"),
      textOption(0, "manifest", "FILE", &options.manifest,
                 "also compare the machine with a manifest: each difference is a finding"),
      textOption(0, "save-manifest", "FILE", &options.save_manifest,
                 "write what the machine has as a manifest, and leave (-: standard output)"),
      intOption(0, "counters-for", &options.watch_ms, 0, 60000,
                "milliseconds to watch error counters (default 1000)")};
  addOutputOptions(table, options.output);
  addColorOption(table, options.color);
  addWhichMachine(table, options.machine);
  return table;
}

int listChecks() {
  for (const doctor::Check& check : doctor::allChecks())
    std::printf("%-20s %-10s %s\n", check.name, check.family, check.text);
  return kExitOk;
}

std::string subjectOf(const doctor::System& system, const std::string& file, const MachineOptions& machine) {
  const std::string host = system.line("/proc/sys/kernel/hostname");
  const bool named = !file.empty() || machine.elsewhere();
  return named || host.empty() ? subjectOf(file, machine) : host;
}

doctor::ReportStyle styleOf(const doctor::Diagnosis& diagnosis, const std::string& subject) {
  return {.subject = subject,
          .unjudged = diagnosis.unjudged,
          .looked = diagnosis.looked,
          .hidden = diagnosis.hidden};
}

int printDiagnosis(const doctor::Diagnosis& diagnosis, const std::string& subject,
                   const DoctorOptions& options) {
  const Output& output = options.output;
  const doctor::ReportStyle style = styleOf(diagnosis, subject);
  std::string text;
  if (output.json()) {
    JsonWriter json;
    json.beginObject();
    json.key("schema").value("railwise-doctor").key("schema_version").value(1);
    json.key("machine").value(subject);
    doctor::writeReportJson(json, diagnosis.findings, style);
    json.endObject();
    text = json.text();
  } else {
    text = doctor::reportText(diagnosis.findings, style);
    if (outputHasColor(options.color) && output.file.empty()) text = paintedFindings(text);
  }
  if (writeOutput("doctor", output, text) != kExitOk) return kExitUsage;
  return diagnosis.findings.exitStatus();
}

// Writes all that was read, with the findings beside it. Returns the exit status of a failure, or kExitOk.
int writeReport(const DoctorOptions& options, const sysfs::MemoryTree& read,
                const doctor::Diagnosis& diagnosis, const std::string& subject) {
  sysfs::MemoryTree tree = read;
  JsonWriter json;
  json.beginObject();
  json.key("schema").value("railwise-doctor").key("schema_version").value(1);
  json.key("railwise").value(RAILWISE_VERSION);
  json.key("machine").value(options.masked ? "masked" : subject);
  doctor::writeReportJson(json, diagnosis.findings, styleOf(diagnosis, subject));
  json.endObject();
  tree.folder("/sys").file("/railwise/doctor.json", json.text());
  if (options.masked) tree = doctor::masked(tree);
  const auto bytes = sysfs::writeArchive(tree, "doctor");
  if (!bytes.ok()) return say("doctor: %s: %s", options.report.c_str(), bytes.error().c_str()), kExitUsage;
  if (const int status = writeOutput("doctor", options.report, *bytes); status != kExitOk) return kExitUsage;
  say("doctor: %s has all that was read (%s); `railwise doctor --root %s` finds the same",
      options.report.c_str(), options.masked ? "addresses masked" : "with addresses: --mask hides them",
      options.report.c_str());
  return kExitOk;
}

// What the vendors' libraries say of this machine's GPUs, without UUIDs, which are made of serial numbers.
// "": nothing.
std::string gpuAnswers(const sysfs::FileTree& machine, const Config& config) {
  const auto answers = topo::askForGpus(machine, true, config);
  if (!answers.ok() || *answers == nullptr) return "";
  gpu::GpuTopology known = **answers;
  for (gpu::Device& device : known.gpus) device.uuid.clear();
  return gpu::jsonOf(known);
}

// What this machine has in no file.
sysfs::MemoryTree factsOfThisMachine(const DoctorOptions& options, const sysfs::FileTree& machine) {
  const Config config = Config::load();
  const std::vector<const char*> environment = environmentAlone();  // the doctor names the files itself
  sysfs::MemoryTree facts = doctor::gatherFacts(
      machine, {.watch = std::chrono::milliseconds(options.watch_ms), .environment = environment.data()},
      config);
  facts.file(doctor::kOwnPluginFile, ownPluginFile() + "\n");
  const doctor::OverlayTree files(sysfs::liveTree(), facts);
  facts.file(doctor::kLibrariesFile, doctor::librariesText(doctor::System(files)));
  if (const std::string gpus = gpuAnswers(machine, config); !gpus.empty())
    facts.file(topo::kGpuAnswersPath, gpus);
  return facts;
}

int saveManifest(const DoctorOptions& options, const sysfs::FileTree& tree) {
  const auto gpus = topo::recordedGpus(tree);
  if (!gpus.ok()) return say("doctor: %s", gpus.error().c_str()), kExitUsage;
  const std::string manifest =
      doctor::fingerprint::manifestOf(tree, *gpus == nullptr ? gpu::GpuTopology() : **gpus);
  const std::string& to = options.save_manifest;
  return writeOutput("doctor", to == "-" ? "" : to, manifest) == kExitOk ? kExitOk : kExitUsage;
}

// A recording may not have its machine's environment. The settings of this command then count, as they do for
// the machine's model. Settings that name files of this computer, or choose the machine, do not.
void assumeSettings(doctor::System& system) {
  static constexpr std::string_view kOwn[] = {"RAILWISE_DEVICE", "RAILWISE_HOST", "RAILWISE_GPU",
                                              "RAILWISE_SYSFS_ROOT", "RAILWISE_TOPOLOGY"};
  for (const char* const entry : environmentAlone()) {
    if (entry == nullptr) break;
    const std::string name(entry, std::strcspn(entry, "="));
    const bool setting = name.starts_with("NCCL_") || name.starts_with("RAILWISE_");
    const bool file = name.ends_with("_FILE") || name.ends_with("_PLUGIN") || name.ends_with("_DIR");
    if (setting && !file && std::ranges::find(kOwn, name) == std::end(kOwn))
      system.assume(name, std::getenv(name.c_str()));
  }
}

// `tree`: the machine; `file`: only this topology file. Returns the exit status.
int examineAndPrint(const DoctorOptions& options, const sysfs::FileTree& tree, const std::string& file,
                    const std::optional<std::string>& topology_text) {
  if (!options.save_manifest.empty()) return saveManifest(options, tree);
  std::string manifest;
  if (!options.manifest.empty()) {
    const Outcome<std::string> text = doctor::fingerprint::readManifest(options.manifest);
    if (!text.ok()) return say("doctor: %s", text.error().c_str()), kExitUsage;
    manifest = *text;
  }
  const doctor::TracingTree traced(tree);
  doctor::System system(traced);
  assumeSettings(system);
  const std::string subject = subjectOf(system, file, options.machine);
  const doctor::Diagnosis diagnosis = doctor::examine(system, {.only = options.only,
                                                               .topology_file = file,
                                                               .topology_text = topology_text,
                                                               .preflight = options.strict,
                                                               .manifest_file = options.manifest,
                                                               .manifest_text = manifest,
                                                               .environment = std::getenv});
  if (!options.report.empty()) {
    if (const int status = writeReport(options, traced.copy(), diagnosis, subject); status != kExitOk)
      return status;
  }
  const int status = printDiagnosis(diagnosis, subject, options);
  const bool passed = status == kExitOk && diagnosis.unjudged.empty();
  return options.strict && !passed ? kExitUsage : status;
}

int examineFile(const DoctorOptions& options, const std::string& file) {
  const Outcome<std::string> text = wholeFile(file == kStandardInput ? "/dev/stdin" : file);
  if (!text.ok()) return say("doctor: %s: %s", file.c_str(), text.error().c_str()), kExitUsage;
  return examineAndPrint(options, sysfs::MemoryTree(file), file, *text);
}

int examineMachine(const DoctorOptions& options) {
  int status = kExitOk;  // not used: 1 would say that there are warnings
  const std::unique_ptr<sysfs::FileTree> machine = openMachineTree("doctor", options.machine, &status);
  if (machine == nullptr) return kExitUsage;
  if (options.machine.elsewhere()) {
    noteTopologyOfThisMachine("doctor", "NCCL_TOPO_FILE", "railwise doctor FILE examines the file");
    noteTopologyOfThisMachine("doctor", "RAILWISE_TOPOLOGY", "the plugin reads it in a job");
    return examineAndPrint(options, *machine, "", std::nullopt);
  }
  const sysfs::MemoryTree facts = factsOfThisMachine(options, *machine);
  // With RAILWISE_SYSFS_ROOT only /sys is elsewhere.
  const doctor::SplitTree split(sysfs::liveTree(), *machine);
  const doctor::OverlayTree live(*machine, facts);
  const doctor::OverlayTree rooted(split, facts);
  return examineAndPrint(options, machine->live() ? live : rooted, "", std::nullopt);
}

constexpr std::size_t kMostFiles = 1UL << 20;

constexpr std::size_t kBegin = 4096;

// A pipe without a name, of "-" or of <(...): to look into a FIFO would take what it has from the next
// reader.
bool isPipe(const std::string& path) {
  struct statfs of;
  return statfs(path.c_str(), &of) == 0 && of.f_type == PIPEFS_MAGIC;
}

// The first bytes that a pipe has, which stay in it.
std::string beginOfPipe(const std::string& path) {
  int copy[2];
  const int pipe_end = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (pipe_end < 0 || pipe(copy) != 0) return "";
  std::string text(kBegin, '\0');
  const ssize_t copied = tee(pipe_end, copy[1], kBegin, 0);
  const ssize_t got = copied > 0 ? read(copy[0], text.data(), text.size()) : 0;
  for (const int end : {pipe_end, copy[0], copy[1]}) close(end);
  text.resize(static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  return text;
}

// One file that is XML; all others are logs, or outputs of other programs.
bool isTopologyFile(const std::vector<std::string>& files) {
  if (files.size() != 1) return false;
  if (files[0].ends_with(".xml")) return true;
  const std::string path = files[0] == kStandardInput ? "/dev/stdin" : files[0];
  std::error_code error;
  const bool piped = isPipe(path);
  if (!piped && !std::filesystem::is_regular_file(path, error))
    return files[0] == kStandardInput || !std::filesystem::exists(path, error);
  const Outcome<std::string> text = piped ? beginOfPipe(path) : wholeFile(path, kBegin);
  const std::string_view begin = text.ok() ? trimmed(*text) : "";
  constexpr std::string_view kTags[] = {"<?xml", "<!--", "<system", "<graphs"};
  return begin.empty() ||
         std::ranges::any_of(kTags, [&](std::string_view tag) { return begin.starts_with(tag); });
}

}  // namespace

int doctorCommand(Args args) {
  offerSubcommands(kDoctorModes);
  // Each mode has options of its own; --pair and --hosts may have a value.
  const auto asks_for_pairs = [](std::string_view arg) {
    return arg.starts_with("--pair") || arg == "--hosts" || arg.starts_with("--hosts=");
  };
  for (const Subcommand& mode : kDoctorModes) {
    if (mode.run == doctorPairCommand) continue;
    const auto is_mode = [&](std::string_view arg) { return arg == mode.name; };
    std::vector<const char*> rest(args.begin(), args.end());
    if (std::erase_if(rest, is_mode) > 0) return mode.run(rest);
  }
  if (std::ranges::any_of(args, asks_for_pairs)) return doctorPairCommand(args);
  DoctorOptions options;
  int status = kExitOk;
  const auto arguments = parseOrLeave("doctor", optionTable(options), args, kHelp, kMostFiles, &status);
  if (!arguments) return status;
  if (options.list) return listChecks();
  if (options.masked && options.report.empty())
    return say("doctor: --mask is for --report FILE.tar.gz"), kExitUsage;
  std::string file = arguments->positional.size() == 1 ? arguments->first() : "";
  std::error_code error;
  const bool logs = std::filesystem::is_directory(file, error) && sysfs::findTreeRoot(file).empty();
  if (!logs) takeMachine(file, options.machine);
  takeRecording(options.machine);
  if (file.empty() && arguments->positional.size() < 2) return examineMachine(options);
  if (!isTopologyFile(arguments->positional)) return doctorLogCommand(args);
  if (options.machine.elsewhere())
    return say("doctor: FILE and --root or --machine are two machines: name one"), kExitUsage;
  if (!options.manifest.empty() || !options.save_manifest.empty())
    return say("doctor: a manifest is of a machine, not of a topology file: leave out %s, or the option",
               file.c_str()),
           kExitUsage;
  return examineFile(options, file);
}

}  // namespace railwise::cli
