// The options of every command that answers about a machine, and the machine that they name: a topology file,
// a /sys tree, or a file combined with a tree in the way in which NCCL combines NCCL_TOPO_FILE with the
// machine.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/options/options.h"
#include "sysfs/file_tree.h"
#include "topo/machine/machine.h"
#include "topo/nccl_release.h"
#include "topo/search/graph_file.h"
#include "topo/sources/gpu_answers.h"

namespace railwise::cli {

struct MachineOptions {
  std::string root;                         // a folder or a .tar.gz; empty: not given
  std::string software;                     // a software machine; empty: not given
  std::string host;                         // a host of the software machine
  std::optional<topo::NcclChoice> nccl;     // whose rules; nothing: topo::chooseRules() decides
  std::optional<topo::NcclVersion> in_log;  // the release that the log of a job names
  topo::Detection detection;
  std::string cpu;
  std::string hca;  // the NICs in use, as NCCL_IB_HCA; empty: that variable decides
  bool xgmi_as_nvlink = false;
  bool net_ib = false;
  bool quiet = false;
  const std::string* file_text = nullptr;  // of FILE, if it is read already; null: it is read
  bool say_remarks = true;                 // false: the output itself contains the remarks
  // For a command to which a machine without GPUs is an answer: *without_gpus becomes true, and nothing is
  // logged. Null: such a machine is an error.
  bool* without_gpus = nullptr;
  // Receives what the vendors' libraries say of the GPUs, also of a machine without GPUs in /sys. Null:
  // nobody asks.
  topo::GpuAnswers* gpu_answers = nullptr;

  // True if the options name another machine than this computer.
  bool elsewhere() const { return !root.empty() || !software.empty(); }
};

// The name of a FILE that is standard input.
inline constexpr const char* kStandardInput = "-";

// Adds --root, --machine and --host to `table`: which machine.
void addWhichMachine(std::vector<Option>& table, MachineOptions& fields);
// Adds these, --nccl, what is assumed of a machine (--gpu-sm, --nvswitch-links, ...) and --quiet. `railwise
// help machines` describes them.
void addMachineOptions(std::vector<Option>& table, MachineOptions& fields);

// Says that `variable`, if it is set, is of this computer, and so does not count for the machine that the
// options name. `advice`: what to do instead.
void noteTopologyOfThisMachine(const char* command, const char* variable, const char* advice);

// How a message calls the machine of `file` and the options: "this machine", FILE, "machine dgx".
std::string subjectOf(const std::string& file, const MachineOptions& options);

// A recording that --machine names is a value of --root. openMachine() does it too.
void takeRecording(MachineOptions& options);
// A recording, or the name of a software machine, that stands where a command has its FILE, is a value of
// --machine; a file counts before a machine of its name. openMachine() does it too.
void takeMachine(std::string& file, MachineOptions& options);

// Opens the machine of `file` (empty: no file; "-": standard input). If --root or --machine is given too, the
// file is combined with that tree. Without a file and without these options, opens this machine. Null: the
// reason was reported to the user, and *status is the exit status: kExitUsage if the options are wrong,
// kExitFailed if the machine cannot be read. The release of NCCL with the rules in use, and assumptions, are
// printed on stderr, unless --quiet is given.
std::optional<topo::Machine> openMachine(const char* command, const std::string& file,
                                         const MachineOptions& options, int* status);

// The files of the machine that the options name: a software machine, --root, or this machine. Null and
// `status`: as openMachine().
std::unique_ptr<sysfs::FileTree> openMachineTree(const char* command, const MachineOptions& options,
                                                 int* status);

// Opens the /sys tree in a folder or in a .tar.gz; empty: this machine's /sys. Null: the reason was reported
// to the user.
std::unique_ptr<sysfs::FileTree> openRoot(const char* command, const std::string& root);

// The graph file that a command takes its graphs from, as NCCL does with NCCL_GRAPH_FILE.

// --graph-file FILE.
Option graphFileOption(std::string* field);

// The file that the option names, else the file of NCCL_GRAPH_FILE; null: neither names one. An error says
// what helps.
Outcome<std::shared_ptr<const topo::GraphFile>> graphFileOf(const char* command, const std::string& option,
                                                            bool quiet);
// Gives it to the machine. False: it cannot be read, and the reason was reported to the user.
bool takeGraphFile(const char* command, const std::string& option, bool quiet, topo::Machine& machine);

// A machine without GPUs: NCCL cannot run there, but its NICs can be shown.

// Prints the NICs of the machine that the options name, with NUMA node and PCI path. Returns the exit status.
int showWithoutGpus(const char* command, const MachineOptions& options);

// Whose rules a command applies: the option that names a release of NCCL, and the release that counts without
// it.

// An option with the name of a release, such as --nccl=2.30.
Option ncclOption(std::string name, std::optional<topo::NcclChoice>* field, std::string text);

// The rules for a machine of which the options name no topology file: as openMachine() decides.
topo::RulesInUse rulesFor(const MachineOptions& options);

// Is the file the output of a program that the doctor reads (nvidia-smi topo -m, ibstat, ...), or a log? Then
// prints what it tells, or which command reads it, and returns the exit status. Nothing: another file, or
// none.
std::optional<int> reportPaste(const char* command, const std::string& file);

}  // namespace railwise::cli
