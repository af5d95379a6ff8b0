// Writes a machine in the forms that schedulers, libraries and other tools read: `railwise topo export`. Each
// function returns the whole text and notes for people: what the text leaves out or assumes. The order is
// stable: GPUs by their number (NVML's or RCCL's), NICs by the number of NCCL's net plugin. Only the command
// links this folder, not the plugin. Pure; thread-safe.
#pragma once

#include <string>
#include <vector>

#include "base/outcome.h"
#include "topo/exports/host_view.h"
#include "topo/machine/machine.h"

namespace railwise::topo {

struct ExportOptions {
  DeviceFacts facts;
  std::string node;       // the host's name in the cluster; "": not known
  std::string topo_file;  // env: the value of NCCL_TOPO_FILE; "": not set
};

struct ExportedText {
  std::string text;
  std::vector<std::string> notes;
};

// An error says why the machine cannot be written in that form, and what to do.
using Exported = Outcome<ExportedText>;

// A shell script to be sourced: NCCL with the plugin.
Exported exportEnv(const Machine& machine, const ExportOptions& options);
// A shell script to be sourced: UCX_NET_DEVICES by the local rank.
Exported exportUcx(const Machine& machine, const ExportOptions& options);
// JSON: variables and parameters of NIXL's UCX backend for each GPU.
Exported exportNixl(const Machine& machine, const ExportOptions& options);
// Slurm's gres.conf of the node, with the lines for slurm.conf and topology.conf in comments.
Exported exportSlurm(const Machine& machine, const ExportOptions& options);
// The XML of hwloc 2.
Exported exportHwlocXml(const Machine& machine, const ExportOptions& options);

}  // namespace railwise::topo
