#include "cli/observe/gather.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <thread>

#include "cli/hosts/this_host.h"
#include "cli/observe/records.h"
#include "observe/stuck/words.h"

namespace railwise::cli {
namespace {

bool isAskedFor(const std::vector<std::string>& pids, const record::Snapshot& snapshot) {
  const std::string pid = std::to_string(snapshot.process.pid);
  return pids.empty() || std::find(pids.begin(), pids.end(), pid) != pids.end();
}

// The state of a process in the kernel (field 3 of /proc/PID/stat); 0 if the number belongs to another
// process: the record may be a container's, or older than this process.
char kernelState(uint32_t pid, uint64_t process_start) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  const std::string stat{std::istreambuf_iterator<char>(file), {}};
  std::size_t at = stat.rfind(')');  // the program's name may have spaces
  if (at == std::string::npos || at + 2 >= stat.size()) return 0;
  const char state = stat[at + 2];
  for (int field = 2; field < 22 && at != std::string::npos; ++field) at = stat.find(' ', at + 1);
  if (at == std::string::npos) return 0;
  return std::strtoull(stat.c_str() + at, nullptr, 10) == process_start ? state : '\0';
}

}  // namespace

Outcome<observe::HostFacts> gatherHere(const GatherOptions& options) {
  observe::HostFacts facts;
  facts.name = observe::plainText(nameOfThisHost());
  auto first = readRecords(options.folder, options.pids, true, &facts.notes);
  if (!first.ok()) return first.failure();
  if (options.seconds <= 0 || first->empty()) {
    facts.processes = observe::factsOfAll({}, *first);
  } else {
    std::this_thread::sleep_for(std::chrono::duration<double>(options.seconds));
    facts.notes.clear();  // what cannot be read is said once
    auto second = readRecords(options.folder, {}, true, &facts.notes);
    if (!second.ok()) return second.failure();
    std::erase_if(*second,
                  [&](const record::Snapshot& snapshot) { return !isAskedFor(options.pids, snapshot); });
    facts.processes = observe::factsOfAll(*first, *second);
  }
  for (std::string& note : facts.notes) note = observe::plainText(note);
  for (observe::ProcessFacts& process : facts.processes)
    if (process.alive) process.kernel_state = kernelState(process.pid, process.process_start);
  return facts;
}

}  // namespace railwise::cli
