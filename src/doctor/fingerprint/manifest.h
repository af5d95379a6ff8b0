// The manifest of a kind of node: what each node of the kind must have. It is the JSON of a fingerprint with
// ports and settings, of which a person strikes out what may vary (docs/doctor.md#manifest). Pure functions
// of a tree and of a text; thread-safe.
#pragma once

#include <string>
#include <vector>

#include "base/outcome.h"
#include "gpu/topology.h"
#include "sysfs/file_tree.h"

namespace railwise::doctor::fingerprint {

// What a node has, as a manifest, with its newline. Of the settings only those of NCCL's configuration files:
// the environment is that of a job.
std::string manifestOf(const sysfs::FileTree& tree, const gpu::GpuTopology& gpus);

// The text of a manifest. An error names the file: it cannot be read, or is no manifest.
Outcome<std::string> readManifest(const std::string& file);

struct ManifestDifference {
  std::string key;  // "ports", "settings.NCCL_IB_HCA"
  int line = 0;     // of the manifest, from 1
  std::string expected;
  std::string found;
  bool device = false;  // GPUs, NICs or ports, not versions and settings
  bool read = true;     // false: the node does not tell, so it may be no difference
};

// Where a node is not what the manifest says. Every key may be left out, and null says nothing but of a
// setting, which must then not be set. A text may have `*` and `?`, or be a list of which one must fit. NICs,
// ports and GPUs count in the narrowest group that they fit. An error names file, line and key of what is no
// manifest.
Outcome<std::vector<ManifestDifference>> compareWithManifest(const std::string& text, const std::string& name,
                                                             const sysfs::FileTree& tree,
                                                             const gpu::GpuTopology& gpus);

}  // namespace railwise::doctor::fingerprint
