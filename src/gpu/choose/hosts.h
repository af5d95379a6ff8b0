// Which switch group each host of a cluster is in, from a table or from Slurm's topology.conf, and Slurm's
// lists of hosts. The readers are strict: an error names the file and the line. Pure but for readHostGroups;
// thread-safe.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/outcome.h"
#include "gpu/choose/choose.h"

namespace railwise::gpu {

struct HostGroups {
  std::map<std::string, std::string> group_of;  // host -> name of its group

  int groups() const;  // how many there are
  // How many groups these hosts are in. An error names a host that is not there.
  Outcome<int> groupsOf(const std::vector<std::string>& hosts) const;
};

// "node[1-3,07],login" -> node1, node2, node3, node07, login. Zeros in front keep the width of the number.
Outcome<std::vector<std::string>> expandHosts(std::string_view list);

// One host a line: "host TAB group". Lines that are empty or begin with # say nothing. `name`: of the file.
Outcome<HostGroups> parseHostTable(std::string_view text, const std::string& name);

// Slurm's topology.conf: "SwitchName=s1 Nodes=node[1-4]" and "SwitchName=top Switches=s[1-2]". The group of a
// host is the switch whose line lists it.
Outcome<HostGroups> parseSlurmTopology(std::string_view text, const std::string& name);

// A file of either kind: Slurm's has "SwitchName=" at the beginning of its first line with content.
Outcome<HostGroups> readHostGroups(const std::string& path);

// Which nodes a job should take, when each of them gives the same number of GPUs. Pure; thread-safe.

// What a node has to give: its best set of GPUs.
struct NodeCandidate {
  Score score;       // of the set
  double intra = 0;  // fitness of the set within the node
  int group = -1;    // switch group, 0 or more; -1: no groups are known
};

struct NodesAnswer {
  std::vector<int> nodes;  // ascending
  int groups = 0;          // that these nodes are in; 0: no groups are known
  double inter = 0;
  double intra = 0;  // of the worst of these nodes
  double total = 0;  // fitness
};

// The `count` nodes with the best fitness (choose/choose.h); of equal ones those whose sets are better, then
// the first ones. Without groups the sets alone decide. `groups_available`: how many groups there are, of
// which the candidates may be in some. Nothing: there are not so many nodes.
std::optional<NodesAnswer> chooseNodes(const std::vector<NodeCandidate>& candidates, int count,
                                       int groups_available);

}  // namespace railwise::gpu
