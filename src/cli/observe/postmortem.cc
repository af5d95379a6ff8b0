// railwise postmortem: the record of a process, in words.
#include <algorithm>

#include "cli/observe/records.h"
#include "cli/options/command_line.h"
#include "cli/options/commands.h"
#include "cli/options/message.h"
#include "observe/stuck/diagnosis.h"

namespace railwise::cli {
namespace {

constexpr const char* kPostmortem = "postmortem";

constexpr const char* kPostmortemHelp =
    "usage: railwise postmortem FILE|PID [options]\n\n"
    "Says how a process ended, what it had open, what went wrong first, and its last events. FILE is a "
    "record; with PID\n"
    "the record is looked for in --dir. Works on living processes too. The record of a killed process\n"
    "stays for RAILWISE_METRICS_KEEP seconds (3600) of whoever looks: each process of this user that loads "
    "Railwise,\n"
    "and each of these commands, removes what is older than its own value, so the shortest counts. Copy a "
    "record to\n"
    "keep it.\n"
    "Exit status: 0 the record was read, 1 it cannot be read, 2 a mistake on the command line.\n\n";

// Several processes may have had the number: takes the living one, else the last.
Outcome<record::Snapshot> snapshotOf(const std::string& name, const std::string& folder) {
  if (!parseInt(name, 1, INT32_MAX)) return record::readRecord(name);
  std::vector<std::string> notes;
  auto read = readRecords(folder, {name}, true, &notes);
  if (!read.ok()) return read.failure();
  if (read->empty()) return Error{notes.empty() ? "process " + name + " has no record" : notes.front()};
  const auto last = std::ranges::max_element(*read, [](const auto& a, const auto& b) {
    if (a.process.alive != b.process.alive) return b.process.alive;
    if (a.process.spy != b.process.spy) return a.process.spy;
    return a.process.started_ns < b.process.started_ns;
  });
  return std::move(*last);
}

// What the other records in the folder say of its end.
std::string stoppedBefore(const record::Snapshot& snapshot, const std::string& folder) {
  std::vector<std::string> notes;
  const auto all = readRecords(folder, {}, true, &notes);
  if (!all.ok()) return "";
  observe::HostFacts here;
  here.processes = observe::factsOfAll({}, *all);
  std::vector<observe::HostFacts> hosts;
  hosts.push_back(std::move(here));
  const observe::Job job(std::move(hosts));
  for (int place = 0; place < static_cast<int>(job.processes().size()); ++place) {
    const record::Process& process = job.process(place);
    if (process.pid == snapshot.process.pid && process.started_ns == snapshot.process.started_ns)
      return observe::stoppedBeforeText(job, place);
  }
  return "";
}

}  // namespace

int postmortemCommand(Args args) {
  bool json = false;
  int events = 40;
  std::string folder;
  const std::vector<Option> table = {
      flagOption('j', "json", &json, "JSON instead of a text"),
      intOption('n', "events", &events, 0, 4096, "how many of the last events (default 40)"),
      recordFolderOption(&folder)};
  int status = kExitOk;
  const auto arguments = parseOrLeave(kPostmortem, table, args, kPostmortemHelp, 1, &status);
  if (!arguments) return status;
  if (arguments->positional.empty())
    return say("%s: which FILE or PID? ls /dev/shm/railwise-* shows the records", kPostmortem), kExitUsage;
  const auto snapshot = snapshotOf(arguments->positional[0], folder);
  if (!snapshot.ok()) return say("%s: %s", kPostmortem, snapshot.error().c_str()), kExitFailed;
  const auto shown = static_cast<std::size_t>(events);
  const std::string stopped = stoppedBefore(*snapshot, folder);
  return writeOutput(kPostmortem, "",
                     json ? observe::postmortemJson(*snapshot, shown, stopped)
                          : observe::postmortemText(*snapshot, shown, stopped));
}

}  // namespace railwise::cli
