// Runs the checks of one machine. Pure; thread-safe.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "doctor/checks/check.h"

namespace railwise::doctor {

struct ExamineOptions {
  std::vector<std::string> only;             // names of checks or families; empty: all
  std::string topology_file;                 // name of a topology file; empty: the file that NCCL would read
  std::optional<std::string> topology_text;  // its text; null: it is read from the tree
  bool preflight = false;                    // the machine is to run jobs: it must have RDMA devices
};

// What was found, the worst first.
struct Diagnosis {
  Findings findings;
  std::vector<std::string> looked;
  std::vector<std::string> hidden;
};
Diagnosis examine(const System& system, const ExamineOptions& options);

// True if a check or a family has this name.
bool isCheckOrFamily(const std::string& name);

}  // namespace railwise::doctor
