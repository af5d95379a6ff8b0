// NCCL: which libraries are installed, which plugin each would load, and the settings.
#include <strings.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <set>

#include "base/installed_places.h"
#include "base/library_file.h"
#include "base/settings/setting_mistakes.h"
#include "base/settings/setting_names.h"
#include "base/text/name_selection.h"
#include "base/text/words.h"
#include "doctor/checks/check.h"
#include "doctor/facts/libraries.h"
#include "topo/machine/known_machines.h"
#include "topo/nccl_release.h"
#include "tuner/tuner.h"

namespace railwise::doctor {
namespace {

// 30 of "2.30.7". 0: another major version, or none.
int minorOf(const std::string& version) {
  constexpr int kMajor = 2;
  const auto dot = version.find('.');
  return dot == std::string::npos || std::atoi(version.c_str()) != kMajor
             ? 0
             : std::atoi(version.c_str() + dot + 1);
}

// Is it newer than the releases whose rules the topology model knows?
bool isNewer(const NcclLibrary& library) {
  const auto release = topo::parseNcclVersion(library.version);
  return !library.rccl && release && topo::rulesFor(*release).newer;
}

void checkLibraries(Examination& exam) {
  const std::vector<NcclLibrary> libraries = ncclLibraries(exam.system);
  std::set<std::string> versions;
  for (const NcclLibrary& library : libraries) {
    exam.looked.push_back((library.rccl ? "RCCL " : "NCCL ") +
                          (library.version.empty() ? "of unknown version" : library.version) + ": " +
                          library.path);
    if (!library.rccl && !library.version.empty()) versions.insert(library.version);
    if (!isNewer(library)) continue;
    exam.add(Severity::kAdvice, "this NCCL is newer than the rules that Railwise's model knows",
             {{"", library.path, library.version}},
             "`railwise explain` and this command answer by the rules of NCCL " +
                 ncclVersionName(topo::NcclVersion::kNewest) +
                 "; a newer NCCL may choose other NICs in a few cases. The plugin itself works.",
             "NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=GRAPH shows NCCL's own paths");
  }
  if (versions.size() < 2) return;
  std::vector<Seen> seen;
  for (const NcclLibrary& library : libraries)
    if (!library.rccl) seen.push_back({"", library.path, library.version});
  exam.add(
      Severity::kAdvice, "several versions of NCCL are installed", std::move(seen),
      "Ranks that load different ones fail at init, or hang.",
      "python3 -c 'import torch; print(torch.cuda.nccl.version())'    (what PyTorch uses, on every node)\n"
      "NCCL_DEBUG=VERSION prints it when a job starts");
}

// The name of a plugin that lies where the linker looks, or beside this command, and was probably meant.
std::optional<std::string> likelyPlugin(const System& system, const std::string& entry) {
  constexpr std::string_view kBefore = "libnccl-net-";
  constexpr std::string_view kAfter = ".so";
  std::vector<std::string> names = {"railwise"};
  for (const std::string& folder : librarySearchPath(system))
    for (const std::string& file : system.tree().list(folder))
      if (file.starts_with(kBefore) && file.ends_with(kAfter))
        names.push_back(file.substr(kBefore.size(), file.size() - kBefore.size() - kAfter.size()));
  for (const std::string& name : names)
    if (name == entry) return std::nullopt;  // it is right, but lies elsewhere
  for (const std::string& name : names)
    if (strcasecmp(name.c_str(), entry.c_str()) == 0) return name;
  return closest(entry, names);
}

std::string ownPluginFile(const System& system) {
  const std::string path = system.line(kOwnPluginFile);
  return path.find('/') == std::string::npos ? "/folder/of/the/plugin/libnccl-net-railwise.so" : path;
}
std::string ownPluginFolder(const System& system) {
  const std::string path = ownPluginFile(system);
  return path.substr(0, path.rfind('/'));
}

// NCCL_NET=Railwise: NCCL's init fails where the plugin is not loaded.
bool wantsRailwise(const System& system) {
  const Variable* const net = system.variable("NCCL_NET");
  return net != nullptr && strcasecmp(net->value.c_str(), "Railwise") == 0;
}

// What a job does where the plugin is not loaded.
const char* withoutPlugin(const System& system) {
  return wantsRailwise(system)
             ? "With NCCL_NET=Railwise NCCL's init then fails: \"Failed to initialize any NET plugin\" "
               "(since 2.27.3), \"network Railwise not found\" (before)."
             : "NCCL goes on with its own network without a word (only NCCL_DEBUG=INFO tells).";
}

// Of NCCL_NET_PLUGIN=none checkSettings() says so.
void checkNobodyLoadsIt(Examination& exam, const Variable* plugin) {
  if (!wantsRailwise(exam.system) || (plugin != nullptr && !plugin->value.empty())) return;
  const std::string plain = findLibrary(exam.system, "libnccl-net.so");
  if (!plain.empty() && isRailwise(exam.system, plain)) return;
  exam.add(Severity::kError, "NCCL_NET=Railwise is set, but nothing loads Railwise",
           {{"", exam.system.variable("NCCL_NET")->where, "NCCL_NET=Railwise"},
            {"", "NCCL_NET_PLUGIN", "not set"}},
           withoutPlugin(exam.system), "export NCCL_NET_PLUGIN=railwise    (or: unset NCCL_NET)");
}

void checkPlugin(Examination& exam) {
  if (!exam.system.environmentKnown()) return;
  const Variable* set = exam.system.variable("NCCL_NET_PLUGIN");
  for (const std::string& entry : pluginEntries(exam.system)) {
    if (entry == "none")
      exam.looked.push_back("NCCL_NET_PLUGIN=none: NCCL loads no plugin, and uses its own network");
    if (entry == "none" || entry == "STATIC_PLUGIN") continue;
    const std::string found = findPlugin(exam.system, entry);
    const std::string flaw = found.empty() ? "" : flawOfLibrary(exam.system, found);
    if (!flaw.empty()) {
      exam.add(Severity::kError, "NCCL cannot load the plugin that NCCL_NET_PLUGIN names",
               {{"", set->where, "NCCL_NET_PLUGIN=" + entry}, {"", found, flaw}},
               flaw == flawOf(LibraryFile::kCutOff) ? "The job ends with SIGBUS (\"Bus error\")."
                                                    : withoutPlugin(exam.system),
               found == ownPluginFile(exam.system)
                   ? exam.system.byDistribution("sudo apt install --reinstall railwise-nccl-plugin",
                                                "sudo dnf reinstall railwise-nccl-plugin")
                   : "cp " + ownPluginFile(exam.system) + " " + found + "    (on every node)");
      continue;
    }
    if (!found.empty()) {
      exam.looked.push_back("NCCL_NET_PLUGIN=" + entry + ": NCCL loads " + found);
      continue;
    }
    const auto meant = likelyPlugin(exam.system, entry);
    const bool there = meant && !findPlugin(exam.system, *meant).empty();
    exam.add(
        Severity::kError,
        meant ? "NCCL_NET_PLUGIN=" + entry + " is probably misspelt: " + *meant
              : "NCCL does not find the plugin that NCCL_NET_PLUGIN names",
        {{"", set->where, "NCCL_NET_PLUGIN=" + entry},
         {"", "looked for", joined(pluginFileNames(entry), " and ")},
         {"", "looked in", joined(librarySearchPath(exam.system), ":")}},
        withoutPlugin(exam.system),
        (meant ? "export NCCL_NET_PLUGIN=" + *meant + "    (as the file is named; capitals count)\n" : "") +
            (there ? ""
                   : "export LD_LIBRARY_PATH=" + ownPluginFolder(exam.system) +
                         ":$LD_LIBRARY_PATH    (on every node)\n") +
            (wantsRailwise(exam.system)
                 ? ""
                 : "export NCCL_NET=Railwise    (then a job without the plugin fails instead)"));
  }
  checkNobodyLoadsIt(exam, set);
}

// Up to 2.20 NCCL puts every value between "libnccl-net-" and ".so"; a path or a file's name is not found.
void checkPluginForm(Examination& exam) {
  constexpr int kTakesPaths = 21;
  const Variable* set = exam.system.variable("NCCL_NET_PLUGIN");
  if (set == nullptr || (set->value.find('/') == std::string::npos && !set->value.starts_with("lib"))) return;
  for (const NcclLibrary& library : ncclLibraries(exam.system)) {
    const int minor = minorOf(library.version);
    if (library.rccl || minor == 0 || minor >= kTakesPaths) continue;
    exam.add(Severity::kError, "this NCCL takes a plugin's short name alone",
             {{"", set->where, "NCCL_NET_PLUGIN=" + set->value}, {"", library.path, library.version}},
             "It looks for libnccl-net-" + set->value + ".so, finds nothing, and uses its own network.",
             "export NCCL_NET_PLUGIN=railwise LD_LIBRARY_PATH=/folder/of/the/plugin:$LD_LIBRARY_PATH");
  }
}

void checkUnaskedPlugin(Examination& exam) {
  if (!exam.system.environmentKnown()) return;
  const Variable* set = exam.system.variable("NCCL_NET_PLUGIN");
  const std::string plain = findLibrary(exam.system, "libnccl-net.so");
  if (set == nullptr && !plain.empty()) {
    const bool ours = isRailwise(exam.system, plain);
    exam.looked.push_back("NCCL_NET_PLUGIN is not set: NCCL loads " + plain +
                          (ours ? ", which is Railwise" : ""));
    if (ours) return;
    exam.add(Severity::kAdvice, "NCCL loads a plugin that nobody has asked for",
             {{"", plain, "libnccl-net.so in the linker's search path"}},
             "Without NCCL_NET_PLUGIN NCCL takes any libnccl-net.so (HPC-X, aws-ofi-nccl, NGC images have "
             "one). A node without it uses another network, and the job hangs.",
             "export NCCL_NET_PLUGIN=railwise    (or the plugin that you want; none: NCCL's own network)");
  } else if (set == nullptr) {
    exam.looked.push_back(
        "NCCL_NET_PLUGIN is not set, and there is no libnccl-net.so: NCCL uses its own network");
  }
}

void checkFallback(Examination& exam) {
  const std::vector<std::string> entries = pluginEntries(exam.system);
  const bool ours = std::ranges::any_of(
      entries, [](const std::string& entry) { return entry.find("railwise") != std::string::npos; });
  if (!ours || exam.system.variable("NCCL_NET") != nullptr ||
      exam.system.variable("RAILWISE_STRICT") != nullptr)
    return;
  exam.add(Severity::kAdvice, "a node where the plugin fails would use sockets without a word",
           {{"", "NCCL_NET", "not set"}},
           "NCCL goes on to the next network when a plugin cannot be loaded or finds no device.",
           "export NCCL_NET=Railwise    (the job then fails on that node, with the reason)\n"
           "export RAILWISE_STRICT=1    (also where GPUDirect is off or a port is slow)");
}

Environment environmentOf(const System& system) {
  Environment environment;
  for (const auto& [name, variable] : system.variables()) environment.emplace(name, variable.value);
  return environment;
}

std::string whereSet(const System& system, const std::string& name) {
  const auto found = system.variables().find(name);
  return found == system.variables().end() ? "the environment" : found->second.where;
}

constexpr Named<SettingMistake::Kind> kMistakes[] = {
    {SettingMistake::Kind::kValue, "the value of a setting makes no sense", ""},
    {SettingMistake::Kind::kContradiction, "settings do not go together", ""},
    {SettingMistake::Kind::kNoLongerRead, "a setting is no longer read", ""}};

// Does the check hiding-setting say more of the setting?
bool hides(const std::string& name, const std::string& value) {
  const auto all = hidingSettings();
  return std::ranges::any_of(all, [&](const HidingSetting& setting) {
    return name == setting.name && setting.kind == HidingSetting::Kind::kHangs && setting.hides(value);
  });
}

// The plugin makes no communicator with a table that has a mistake. A recording has no such files.
void checkTunerFile(Examination& exam) {
  const Variable* const set = exam.system.variable("RAILWISE_TUNER_CONFIG");
  if (set == nullptr) return;
  if (exam.skipUnknownPlace("RAILWISE_TUNER_CONFIG", set->value)) return;
  const std::string path = exam.system.pathOf(set->value);
  const bool there = exam.system.exists(path);
  if (!there && !exam.system.tree().live()) return;
  const tuner::OverrideFile file = there ? tuner::parseOverrides(exam.system.text(path), path)
                                         : tuner::OverrideFile{path, {}, {path + ": no such file"}};
  if (file.mistakes.empty()) return;
  std::vector<Seen> seen = {{"RAILWISE_TUNER_CONFIG", set->where, "RAILWISE_TUNER_CONFIG=" + set->value}};
  for (const std::string& mistake : file.mistakes)
    seen.push_back({"RAILWISE_TUNER_CONFIG", set->value, mistake});
  exam.add(Severity::kError, "the tuner's file is not there, or has mistakes", std::move(seen),
           "No communicator is made: the tuner's init fails.",
           "unset RAILWISE_TUNER_CONFIG    (or correct the file, on every host)");
}

void checkNamedFiles(Examination& exam) {
  for (const std::string_view name :
       {"RAILWISE_TOPOLOGY", "NCCL_CONF_FILE", "NCCL_GRAPH_FILE", "NCCL_TUNER_PLUGIN"}) {
    const Variable* const set = exam.system.variable(std::string(name));
    const bool told = name == "NCCL_GRAPH_FILE" && exam.machine != nullptr;  // by nccl-init
    // A plugin may be a name, which NCCL looks for.
    const bool file =
        name != "NCCL_TUNER_PLUGIN" || (set != nullptr && set->value.find('/') != std::string::npos);
    if (set == nullptr || told || !file || set->value == "auto" ||
        exam.skipUnknownPlace(std::string(name), set->value) ||
        exam.system.exists(exam.system.pathOf(set->value)))
      continue;
    exam.add(Severity::kWarning, "a setting names a file that is not there",
             {{std::string(name), set->where, std::string(name) + "=" + set->value + ": no such file"}},
             "The job runs without the file.", "unset " + std::string(name) + "    (or name the right file)");
  }
}

void checkSettings(Examination& exam) {
  const Environment environment = environmentOf(exam.system);
  for (const UnknownName& unknown : unknownNames(environment)) {
    // A newer NCCL may know a name that is near none of ours.
    if (unknown.nearest.empty() && !unknown.railwise) continue;
    exam.add(Severity::kWarning, "a setting is misspelt and has no effect",
             {{unknown.name, whereSet(exam.system, unknown.name), textOf(unknown)}},
             "NCCL ignores names that it does not know.",
             unknown.nearest.empty() ? "railwise config    (lists all settings)"
                                     : "unset " + unknown.name + "; export " + unknown.nearest + "=" +
                                           std::string(trimmed(environment.at(unknown.name))));
  }
  // NCCL's files have no shell: "export NCCL_ALGO=Ring" sets a variable of the name "export NCCL_ALGO".
  for (const auto& [name, set] : exam.system.variables())
    if (name.starts_with("export "))
      exam.add(Severity::kWarning, "a setting is misspelt and has no effect",
               {{name, set.where, name + "=" + set.value + ": a file of NCCL has no \"export\""}},
               "NCCL ignores names that it does not know.", "strike out \"export\" in " + set.where);
  for (const SettingMistake& mistake : settingMistakes(environment)) {
    if (mistake.kind == SettingMistake::Kind::kValue && hides(mistake.name, environment.at(mistake.name)))
      continue;
    const bool ours = mistake.kind == SettingMistake::Kind::kValue && mistake.name.starts_with("RAILWISE_");
    // The first word of a fix is one that can be typed.
    const std::string fix =
        mistake.fix.starts_with("unset ")
            ? mistake.fix
            : "unset " + mistake.name + "    (its default then counts; or correct it: " + mistake.fix + ")";
    exam.add(mistake.init_fails ? Severity::kError : Severity::kWarning, rowOf(kMistakes, mistake.kind).words,
             {{mistake.name, whereSet(exam.system, mistake.name), mistake.text}},
             mistake.init_fails ? "The job does not start."
             : ours             ? "The job runs with the default."
                                : "NCCL says nothing of it, or only with NCCL_DEBUG=INFO.",
             fix);
  }
  checkNamedFiles(exam);
  checkTunerFile(exam);
}

void checkHiding(Examination& exam) {
  using enum HidingSetting::Kind;
  const auto found = exam.findings.all();
  for (const HidingSetting& setting : hidingSettings()) {
    const Variable* const set = exam.system.variable(setting.name);
    if (set == nullptr || !setting.hides(set->value)) continue;
    const std::string text = std::string(setting.name) + "=" + set->value;
    const bool told = std::ranges::any_of(found, [&](const Finding& finding) {
      return std::ranges::any_of(finding.seen, [&](const Seen& seen) {
        return (seen.where + seen.value + seen.device).find(setting.name) != std::string::npos;
      });
    });
    if (told) continue;  // by another check, with more of it
    if (setting.kind == kNoRdma && exam.ports.empty()) continue;
    const bool costs = setting.kind == kHangs || setting.kind == kNoRdma;
    exam.add(costs ? Severity::kWarning : Severity::kAdvice,
             text + (setting.kind == kHangs    ? " makes a hang of an error"
                     : setting.kind == kNoRdma ? " turns off the RDMA devices that are here"
                     : setting.kind == kHides  ? " hides faults"
                                               : " looks like left from a test"),
             {{setting.name, set->where, text}}, setting.why, std::string("unset ") + setting.name);
  }
}

// The compute capabilities by major number, and the first NCCL with code for them. Source:
// makefiles/common.mk of NCCL's releases. CUDA translates the code of an older GPU where the library has it
// as PTX.
struct GpuSupport {
  int major;
  topo::NcclVersion since;
};
constexpr GpuSupport kGpuSupport[] = {
    {8, {20703}}, {9, {21501}}, {10, {22501}}, {11, {22705}}, {12, {22501}}};

void checkGpuSupport(Examination& exam) {
  const auto library = ncclOfPrograms(exam.system);
  const auto release = library && !library->rccl ? topo::parseNcclVersion(library->version) : std::nullopt;
  if (!release) return;
  for (const sysfs::PciDevice& gpu : exam.ownGpus()) {
    const topo::KnownGpu* const known = topo::knownGpu(gpu.vendor, gpu.device);
    for (const GpuSupport& support : kGpuSupport) {
      if (known == nullptr || known->sm / 10 != support.major || *release >= support.since) continue;
      const std::string since = topo::ncclVersionName(support.since);
      exam.add(Severity::kWarning, "the NCCL that programs load is older than the GPU",
               {{"GPU " + gpu.busid, library->path,
                 library->version + "; code for the " + known->name + " since " + since}},
               "NCCL's init fails (\"no kernel image is available\"), or CUDA translates code of an older "
               "GPU at each start, and NCCL takes the speeds of older NVLinks.",
               "pip install -U nvidia-nccl-cu12    (" + since + " or later; PyTorch's own: a newer PyTorch)");
    }
  }
}

// The lines of kInterfacesFile: name and address, in the order in which NCCL prefers them.
std::vector<std::vector<std::string>> interfacesOf(const System& system) {
  std::vector<std::vector<std::string>> rows;
  for (const std::string& line : linesOf(system.text(kInterfacesFile)))
    if (std::vector<std::string> words = wordsOf(line); words.size() >= 2) rows.push_back(std::move(words));
  return rows;
}

// Bridges for the containers and guests of one machine. Docker's own networks are br- and 12 hexadecimal
// digits; br-ex is the first interface of OpenShift's nodes.
bool ofOneMachine(const std::string& interface) {
  static constexpr std::array kPrefixes = {"docker", "virbr",  "veth",      "cni",         "lxcbr",
                                           "lxdbr",  "podman", "kube-ipvs", "nodelocaldns"};
  const bool named =
      std::ranges::any_of(kPrefixes, [&](const char* prefix) { return interface.starts_with(prefix); });
  constexpr std::size_t kDockerBridge = 15;
  return named || (interface.starts_with("br-") && interface.size() == kDockerBridge &&
                   interface.find_first_not_of("0123456789abcdef", 3) == std::string::npos);
}

void checkBootstrap(Examination& exam) {
  const std::vector<std::vector<std::string>> interfaces = interfacesOf(exam.system);
  if (!exam.system.exists(kInterfacesFile)) return exam.nothingHere("no interfaces in the recording");
  const Variable* set = exam.system.variable("NCCL_SOCKET_IFNAME");
  std::vector<std::string> chosen;
  for (const auto& row : interfaces)
    if (set == nullptr || nameSelected(set->value, row[0])) chosen.push_back(row[0] + " (" + row[1] + ")");
  const char* const fix =
      "ip -brief address    (which interface do the other nodes reach?)\nexport "
      "NCCL_SOCKET_IFNAME==<interface>";
  if (chosen.empty())
    return exam.add(
        Severity::kError,
        set == nullptr ? "no interface has an address" : "NCCL_SOCKET_IFNAME matches no interface that is up",
        {{"", set == nullptr ? "ip -brief address" : set->where,
          set == nullptr ? "" : "NCCL_SOCKET_IFNAME=" + set->value}},
        "NCCL's init fails: \"no socket interface found\".", fix);
  exam.looked.push_back("bootstrap of NCCL over " + chosen[0] +
                        (set == nullptr ? ", by NCCL's own order" : ", by NCCL_SOCKET_IFNAME"));
  const std::string first = chosen[0].substr(0, chosen[0].find(' '));
  const bool loopback = first == "lo" && set != nullptr;  // asked for, as for a job on one node
  if (!ofOneMachine(first) && !loopback) return;
  exam.add(loopback ? Severity::kAdvice : Severity::kWarning,
           "NCCL talks to other nodes over an interface of this machine alone",
           {{"", "ip -brief address", chosen[0]}},
           "Ranks of other nodes cannot connect: init hangs, or ends with \"Connection refused\".", fix);
}

void checkLauncher(Examination& exam) {
  const System& system = exam.system;
  const auto number = [&](const char* name) {
    const Variable* set = system.variable(name);
    return set == nullptr ? 0 : std::atoi(set->value.c_str());
  };
  const auto add = [&](Severity severity, const char* what, const char* name, const char* why,
                       const char* fix) {
    const Variable* set = &system.variables().at(name);
    exam.add(severity, what, {{"", set->where, std::string(name) + "=" + set->value}}, why, fix);
  };
  const Variable* master = system.variable("MASTER_ADDR");
  const bool several =
      number("WORLD_SIZE") > std::max(1, number("LOCAL_WORLD_SIZE")) && number("LOCAL_WORLD_SIZE") > 0;
  if (master != nullptr && several && (master->value == "localhost" || master->value.starts_with("127.")))
    add(Severity::kError, "ranks of several nodes are told to meet at this node's own loopback address",
        "MASTER_ADDR", "Every node waits for itself, until the timeout.",
        "export MASTER_ADDR=<name of the first node>    (on every node)");
  const auto visible = system.variables().find("CUDA_VISIBLE_DEVICES");
  if (visible != system.variables().end() &&
      (visible->second.value.empty() || visible->second.value.starts_with("-1") ||
       visible->second.value == "NoDevFiles"))
    add(Severity::kError, "the process sees no GPU", "CUDA_VISIBLE_DEVICES", "CUDA finds no device.",
        "unset CUDA_VISIBLE_DEVICES");
  for (const char* name : {"TORCH_NCCL_BLOCKING_WAIT", "NCCL_BLOCKING_WAIT"})
    if (number(name) == 1)
      add(Severity::kAdvice, "PyTorch waits for each collective on the CPU", name,
          "Kernels and communication no longer overlap.",
          "unset TORCH_NCCL_BLOCKING_WAIT NCCL_BLOCKING_WAIT");
  for (const char* name : {"TORCH_NCCL_ASYNC_ERROR_HANDLING", "NCCL_ASYNC_ERROR_HANDLING"})
    if (system.variable(name) != nullptr && system.variable(name)->value == "0")
      add(Severity::kAdvice, "PyTorch does not watch for errors of NCCL", name,
          "A rank whose peer has died waits for ever.",
          "unset TORCH_NCCL_ASYNC_ERROR_HANDLING NCCL_ASYNC_ERROR_HANDLING");
  if (system.variable("SLURM_JOB_ID") != nullptr && number("SLURM_CPUS_PER_TASK") == 1 &&
      number("SLURM_NTASKS_PER_NODE") > 0)
    add(Severity::kWarning, "Slurm gives each rank one CPU", "SLURM_CPUS_PER_TASK",
        "NCCL's proxy thread and the training loop share it: operations wait for each other.",
        "export SRUN_CPUS_PER_TASK=8    (or srun --cpus-per-task=8)");
}

constexpr std::array<Check, 10> kNcclChecks = {
    {{"plugin", "nccl", "the plugin that NCCL_NET_PLUGIN names, and where NCCL looks", checkPlugin,
      Needs::kEnvironment},
     {"plugin-form", "nccl", "a path as NCCL_NET_PLUGIN with an NCCL that takes names alone", checkPluginForm,
      Needs::kNccl},
     {"plugin-unasked", "nccl", "a libnccl-net.so that NCCL loads without being asked", checkUnaskedPlugin,
      Needs::kEnvironment},
     {"plugin-fallback", "nccl", "what happens where the plugin fails", checkFallback, Needs::kEnvironment},
     {"nccl-version", "nccl", "installed versions of NCCL", checkLibraries, Needs::kNccl},
     {"nccl-too-old", "nccl", "the NCCL that programs load against the GPUs", checkGpuSupport, Needs::kNccl},
     {"settings", "nccl", "NCCL_* and RAILWISE_*: misspelt, out of range, contradicting", checkSettings},
     {"hiding-setting", "nccl", "settings that hide faults, make hangs of errors, or are left from tests",
      checkHiding, Needs::kEnvironment},
     {"bootstrap-interface", "nccl", "the interface over which NCCL starts", checkBootstrap},
     {"launcher", "nccl", "variables of PyTorch and Slurm", checkLauncher, Needs::kEnvironment}}};

}  // namespace

std::span<const Check> ncclChecks() { return kNcclChecks; }

}  // namespace railwise::doctor
