// The processes of all hosts that were asked, who is connected with whom, and which of them are one job.
// Pure; const methods are thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "observe/stuck/facts.h"

namespace railwise::observe {

// A connection of a process, by places. -1: not known.
struct End {
  int process = -1;
  int connection = -1;
};

class Job {
 public:
  // Processes that two answers have in common are taken once.
  explicit Job(std::vector<HostFacts> hosts);

  const std::vector<HostFacts>& hosts() const { return hosts_; }  // without their processes
  const std::vector<ProcessFacts>& processes() const { return processes_; }
  const ProcessFacts& process(int place) const { return processes_[static_cast<std::size_t>(place)]; }
  const ConnectionFacts& connection(End end) const {
    return process(end.process).connections[static_cast<std::size_t>(end.connection)];
  }

  // The other end of a connection: found by pair_id, or by the process that it names as its peer. If only the
  // process is found, its connection is -1.
  End otherEnd(End end) const;
  // The process that has the name "host:pid" now, or had it last; -1: none.
  int processNamed(const std::string& peer) const;
  // The host that has the name in "host:pid"; null: no such host was asked.
  const HostFacts* hostOf(std::string_view peer) const;
  // Each job by itself, those with living processes first. `dead`: also those without. A host that has not
  // answered belongs to the jobs with peers there; to all where no job has. Notes of hosts are in the first
  // job.
  std::vector<Job> split(bool dead) const;

 private:
  void addProcess(ProcessFacts process);
  int connectionTo(int process, End other) const;

  std::vector<HostFacts> hosts_;
  std::vector<ProcessFacts> processes_;
  std::unordered_map<uint64_t, std::vector<End>> by_pair_;
  std::map<std::string, int, std::less<>> by_name_;  // "host:pid"; the host up to its first dot
};

// The number, from 0, of the job of each process: processes of one job have a connection, a communicator, a
// peer, or a launcher in common.
std::vector<int> jobNumbers(const std::vector<ProcessFacts>& processes);

// A directed graph whose nodes are numbers: "node a waits for node b". Pure; thread-safe.

// graph[a]: the nodes that node a waits for.
using Graph = std::vector<std::vector<int>>;

// The strongly connected component of each node: nodes of one component wait for each other in a circle.
std::vector<int> componentsOf(const Graph& graph);

// The components, as lists of nodes, that wait for no other component: where the chains of waits end.
std::vector<std::vector<int>> rootsOf(const Graph& graph);

// One circle through nodes of a component of at least two nodes: each node waits for the next one, and the
// last one for the first. Of a single node: the node.
std::vector<int> circleIn(const Graph& graph, const std::vector<int>& component);

// The nodes from which a way leads to one of `goals`, without the goals.
std::vector<int> whoReaches(const Graph& graph, const std::vector<int>& goals);

}  // namespace railwise::observe
