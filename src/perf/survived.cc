#include "perf/survived.h"

#include <unistd.h>

#include <algorithm>
#include <map>
#include <utility>

#include "base/text/text_layout.h"
#include "cli/observe/records.h"
#include "record/reader.h"

namespace railwise::cli {

std::string survivedText(const std::vector<record::Snapshot>& ranks) {
  struct Moves {
    uint64_t left = 0;
    uint64_t returned = 0;
  };
  std::map<std::string, Moves> ports;
  uint64_t longest_us = 0;
  for (const record::Snapshot& rank : ranks) {
    for (const record::Rail& rail : rank.rails) {
      if (rail.failovers == 0) continue;
      Moves& moves = ports[record::railText(rail)];
      moves.left += rail.failovers;
      moves.returned += rail.returns;
    }
    for (const record::Event& event : rank.events)
      if (event.kind == record::EventKind::kPathFound) longest_us = std::max(longest_us, event.numbers[1]);
  }
  std::string text;
  for (const auto& [port, moves] : ports)
    text += formatText("# %s failed: %llu ends of connections moved away from it, %llu moved back\n",
                       port.c_str(), static_cast<unsigned long long>(moves.left),
                       static_cast<unsigned long long>(moves.returned));
  if (!ports.empty())
    text += formatText("# Longest time that a connection was without a path: %.1f ms\n",
                       static_cast<double>(longest_us) / 1000);
  return text;
}

std::vector<record::Snapshot> recordsOf(std::span<const int> pids) {
  std::vector<record::Snapshot> found;
  for (const record::RecordFile& file : record::listRecords(chosenRecordFolder(""), geteuid())) {
    if (std::find(pids.begin(), pids.end(), static_cast<int>(file.pid)) == pids.end()) continue;
    auto read = record::readRecord(file.path, geteuid());
    if (read.ok()) found.push_back(std::move(*read));
  }
  return found;
}

}  // namespace railwise::cli
