#include "doctor/log/reading/trail.h"

#include <set>
#include <vector>

#include "doctor/log/reading/line.h"

namespace railwise::doctor {
namespace {

bool hasErrors(const Job& job, int process) {
  for (const Event& event : job.events)
    if (event.process == process && event.kind != EventKind::kRemark) return true;
  return false;
}

}  // namespace

Trail::Trail(const Job& job, const Ranks& ranks) : job_(job), ranks_(ranks) {
  for (std::size_t i = 0; i < job.processes.size(); ++i) {
    const Process& process = job.processes[i];
    processes_.emplace(process.host + ":" + process.pid, static_cast<int>(i));
    // On a software machine peers name the host that the process plays.
    const auto played = process.settings.find("RAILWISE_HOST");
    if (played != process.settings.end())
      processes_.emplace(played->second.value + ":" + process.pid, static_cast<int>(i));
    for (const std::string& address : process.addresses) {
      const auto [known, first] = hosts_.emplace(address, process.host);
      if (!first && known->second != process.host) known->second.clear();
    }
  }
  for (const Event& event : job.events) {
    if (event.process < 0) continue;
    if (const int peer = peerOf(event); peer >= 0 && peer != event.process)
      blames_.emplace(event.process, peer);
  }
}

// Railwise: "mlx5_0: connection from node2.cluster:4711 (mlx5_0): ..."; NCCL writes host names up to the
// first dot.
int Trail::peerOf(const Event& event) const {
  for (const std::string_view key : {": connection from ", ": connection to "}) {
    const std::string_view name = firstWord(after(event.line.value, key), " ,;");
    const std::size_t colon = name.rfind(':');
    if (colon == std::string_view::npos) continue;
    const std::string pid(name.substr(colon));
    const std::string_view host = name.substr(0, colon);
    for (const std::string_view written : {host, firstWord(host, ".")}) {
      const auto process = processes_.find(std::string(written) + pid);
      if (process != processes_.end()) return process->second;
    }
  }
  return -1;
}

// NCCL's own: "10.0.0.2<41000>" in the line.
std::string Trail::hostText(const Event& event) const {
  const std::string& text = event.line.value;
  const std::size_t bracket = text.find('<');
  if (bracket == std::string::npos) return "";
  const std::size_t begin = text.find_last_of(" (=", bracket) + 1;
  const std::string address = text.substr(begin, bracket - begin);
  const auto host = hosts_.find(address);
  return host == hosts_.end() || host->second.empty() ? ""
                                                      : " The peer " + address + " is " + host->second + ".";
}

std::string Trail::textOf(const Event& event) const {
  int at = peerOf(event);
  if (at < 0) return hostText(event);
  std::vector<int> chain = {at};
  std::set<int> seen = {event.process, at};
  for (auto next = blames_.find(at); next != blames_.end() && seen.insert(next->second).second;
       next = blames_.find(at))
    chain.push_back(at = next->second);
  std::string text = " It blames " + ranks_.label(chain.front());
  constexpr std::size_t kMostShown = 4;
  if (chain.size() > kMostShown) {
    text += ", and so on over " + std::to_string(chain.size() - 2) + " others to " + ranks_.label(at);
  } else {
    for (std::size_t i = 1; i < chain.size(); ++i) text += ", and that one " + ranks_.label(chain[i]);
  }
  return text + (hasErrors(job_, at) ? "." : ", whose log has no error: look there first.");
}

}  // namespace railwise::doctor
