// Machines for the tests of the exports: those of output_machines.h, and files of tests/topo/machines.
#pragma once

#include <fstream>
#include <sstream>
#include <string>

#include "tests/ok.h"
#include "tests/topo/output_machines.h"
#include "topo/exports/exports.h"

namespace railwise::topo::test {

inline std::string machinePath(const std::string& name) {
  return std::string(RAILWISE_SOURCE_DIR) + "/tests/topo/machines/" + name;
}

inline Machine fileMachine(const std::string& name) {
  auto machine = loadFile(machinePath(name), Settings{}, Detection{});
  EXPECT_OK(machine);
  return std::move(*machine);
}

inline ExportedText exported(const Exported& outcome) {
  EXPECT_OK(outcome);
  return outcome.ok() ? *outcome : ExportedText{};
}

// The first line names the machine and the release of NCCL.
inline std::string withoutFirstLine(const std::string& text) { return text.substr(text.find('\n') + 1); }

// Does a note contain the words?
inline bool noted(const ExportedText& text, const std::string& words) {
  for (const std::string& note : text.notes)
    if (railwise::test::has(note, words)) return true;
  return false;
}

// A NIC with another speed, in Mb/s.
inline std::string slowNic(int dev, const std::string& busid, const std::string& name,
                           const std::string& mbps) {
  std::string text = nic(dev, busid, name);
  return text.replace(text.find("400000"), 6, mbps);
}

// A NIC whose port is not the first.
inline std::string secondPort(int dev, const std::string& busid, const std::string& name) {
  std::string text = nic(dev, busid, name);
  return text.replace(text.find("port=\"1\""), 8, "port=\"2\"");
}

}  // namespace railwise::topo::test
