// A check: one thing that can be wrong with a machine. Each is a function of its own that reads the machine's
// files and adds findings. Pure; thread-safe.
//
// A new check is a function and a row in the table at the end of its family's file, and a heading in
// docs/doctor.md.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "doctor/facts/rdma_ports.h"
#include "doctor/facts/system.h"
#include "doctor/finding.h"
#include "sysfs/pci_devices.h"
#include "topo/explain/explain.h"
#include "topo/machine/machine.h"

namespace railwise::doctor {

struct ExamineOptions {
  std::vector<std::string> only;             // names of checks or families; empty: all
  std::string topology_file;                 // name of a topology file; empty: the file that NCCL would read
  std::optional<std::string> topology_text;  // its text; null: it is read from the tree
  bool preflight = false;                    // the machine is to run jobs: it must have RDMA devices and GPUs
  std::string manifest_file, manifest_text;  // the site's manifest and its text; "": none
  // Returns NCCL's variables of this computer, for a machine whose tree has no environment. Null: none is
  // set.
  topo::Lookup environment;
};

// What a check is given, and where its answers go.
struct Examination {
  const System& system;
  const ExamineOptions& options;
  std::vector<RdmaPort> ports;               // all ports of the machine
  const topo::Machine* machine = nullptr;    // the model; null: there is none (no GPU, or it cannot be made)
  topo::MachineExplanation paths;            // what `railwise explain` says of the model; empty without one
  topo::Settings settings;                   // NCCL's, of the release that programs load
  std::string topology_file;                 // the file that NCCL reads; "": none
  std::optional<std::string> topology_text;  // null: it cannot be read
  std::string graph_file;                    // NCCL_GRAPH_FILE; "": none
  std::string graph_problem;                 // why NCCL cannot read it; "": it can
  Findings findings;
  std::vector<std::string> looked;  // what was there and is fine, for people
  std::vector<std::string> hidden;  // what could not be read, and what would help
  const char* running = "";         // the name of the check that runs
  bool blind = false;               // it could look at nothing
  const char* absent = nullptr;     // what it looks at, where the machine has none

  // Adds a finding of the check that runs, unless it has seen nothing.
  void add(Severity severity, std::string what, std::vector<Seen> seen, std::string why, std::string fix);
  // Notes what the check could not read; `all`: it could look at nothing else.
  void cannotLook(const std::string& what, bool all = true);
  // Notes that the file which the setting names is not known, if so: see System::placeKnown().
  bool skipUnknownPlace(const std::string& setting, const std::string& file);
  // Notes that the machine has nothing for the check that runs: "no topology file".
  void nothingHere(const char* what) { absent = what; }
  // Ports that a job would use: given to this container, and not left out by NCCL_IB_HCA.
  std::vector<const RdmaPort*> usedPorts() const;
  // Settings with which a job fails where no NIC can be used: NCCL_NET, RAILWISE_STRICT.
  std::vector<const char*> settingsThatWantNics() const;
  // What a job does where no NIC can be used.
  const char* withoutNics() const;
  // Has it a GPU of a vendor's (isNvidiaGpu), or of any (isGpu)?
  bool hasGpu(bool (sysfs::PciDevice::*of)() const) const;
  // GPUs of this host itself: not those that it has given to virtual machines, whose isolation is meant.
  std::vector<sysfs::PciDevice> ownGpus() const;
  // True if every RDMA device is of a software machine: nothing of the hardware matters then.
  bool simulated() const;
  // As simulated(), for a check that then looks at nothing: says so.
  bool skipSimulated();
};

// Has this host given the PCI function to a virtual machine?
bool givenToGuest(const System& system, const std::string& path);

// The PCI addresses of GPUs that the vendor's library has told of, and that are no longer on the bus.
std::vector<std::string> lostGpus(const System& system);

// What a machine must have, for a check to have anything to look at.
enum class Needs {
  kNothing,
  kPort,        // an RDMA port that a job would use, in any state
  kRoce,        // an active one
  kInfiniband,  // an active one
  kGpu,
  kModel,
  kNvidiaAndPort,
  kAmdAndPort,
  kGpuAndPort,
  kTopologyFile,
  kNccl,         // a library
  kEnvironment,  // a job's variables
};

struct Check {
  const char* name;    // of its findings, too
  const char* family;  // "rdma", "gpudirect", "nvlink", "topology", "container", "nccl"
  const char* text;    // what it looks at, in a line
  void (*run)(Examination&);
  Needs needs = Needs::kNothing;
};

std::span<const Check> rdmaChecks();
std::span<const Check> portChecks();
std::span<const Check> addressChecks();
std::span<const Check> pciChecks();
std::span<const Check> gpuDirectChecks();
std::span<const Check> nvlinkChecks();
std::span<const Check> topologyChecks();
std::span<const Check> containerChecks();
std::span<const Check> ncclChecks();
// All of them, in the order in which people read the findings.
std::vector<Check> allChecks();
// True if a check or a family has this name.
bool isCheckOrFamily(const std::string& name);

// What was found, the worst first.
struct Diagnosis {
  Findings findings;
  std::vector<std::string> looked;
  std::vector<std::string> hidden;
  std::string unjudged;  // as in ReportStyle
};
Diagnosis examine(const System& system, const ExamineOptions& options);

}  // namespace railwise::doctor
