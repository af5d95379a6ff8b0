#include "observe/stuck/job.h"

#include <algorithm>
#include <cstddef>
#include <set>

namespace railwise::observe {
namespace {

std::size_t place(int node) { return static_cast<std::size_t>(node); }

// Tarjan's algorithm with a stack of its own: a chain of waits may be as long as a job has ranks.
class ComponentSearch {
 public:
  explicit ComponentSearch(const Graph& graph)
      : graph_(graph), found_(graph.size(), -1), low_(graph.size(), 0), component_(graph.size(), -1) {
    for (int node = 0; node < static_cast<int>(graph.size()); ++node)
      if (found_[place(node)] < 0) searchFrom(node);
  }
  std::vector<int> take() { return std::move(component_); }

 private:
  struct Step {
    int node;
    std::size_t next;  // place of the successor that is looked at next
  };

  void enter(int node) {
    found_[place(node)] = low_[place(node)] = count_++;
    open_.push_back(node);
    steps_.push_back({node, 0});
  }
  void searchFrom(int start) {
    enter(start);
    while (!steps_.empty()) {
      const int node = steps_.back().node;
      if (steps_.back().next < graph_[place(node)].size()) {
        const int successor = graph_[place(node)][steps_.back().next++];
        if (found_[place(successor)] < 0) enter(successor);
        else if (component_[place(successor)] < 0)
          low_[place(node)] = std::min(low_[place(node)], found_[place(successor)]);
        continue;
      }
      steps_.pop_back();
      if (!steps_.empty()) {
        int& above = low_[place(steps_.back().node)];
        above = std::min(above, low_[place(node)]);
      }
      if (low_[place(node)] == found_[place(node)]) closeComponent(node);
    }
  }
  void closeComponent(int first) {
    int node = -1;
    do {
      node = open_.back();
      open_.pop_back();
      component_[place(node)] = components_;
    } while (node != first);
    ++components_;
  }

  const Graph& graph_;
  std::vector<int> found_;  // order in which nodes were found; -1: not yet
  std::vector<int> low_;    // the earliest node that is reached from a node
  std::vector<int> component_;
  std::vector<int> open_;  // found, and of no component yet
  std::vector<Step> steps_;
  int count_ = 0;
  int components_ = 0;
};

// An IP address stays whole.
std::string_view withoutDomain(std::string_view host) {
  const bool address = host.find_first_not_of("0123456789.") == std::string_view::npos ||
                       host.find(':') != std::string_view::npos;
  return address ? host : host.substr(0, host.find('.'));
}

// "gpu2" of "gpu2.example.org:4411".
std::string_view hostIn(std::string_view peer) { return withoutDomain(peer.substr(0, peer.rfind(':'))); }

bool isCalled(const HostFacts& host, std::string_view name) {
  std::string_view asked = host.asked;
  if (const std::size_t at = asked.find('@'); at != std::string_view::npos) asked.remove_prefix(at + 1);
  return withoutDomain(host.name) == name || (!asked.empty() && withoutDomain(asked) == name);
}

// "gpu2.example.org:4411" as "gpu2:4411": a host may be called by either name.
std::string nameOf(std::string_view host, std::string_view pid) {
  return std::string(withoutDomain(host)) + ":" + std::string(pid);
}

}  // namespace

Job::Job(std::vector<HostFacts> hosts) : hosts_(std::move(hosts)) {
  for (HostFacts& host : hosts_) {
    for (ProcessFacts& process : host.processes) addProcess(std::move(process));
    host.processes.clear();
  }
  for (int at = 0; at < static_cast<int>(processes_.size()); ++at) {
    const ProcessFacts& own = process(at);
    const auto [found, added] = by_name_.emplace(nameOf(own.host, std::to_string(own.pid)), at);
    // The number of a process that is gone may belong to another one now.
    if (!added && (own.alive || !process(found->second).alive)) found->second = at;
    for (int i = 0; i < static_cast<int>(own.connections.size()); ++i) {
      const uint64_t pair = own.connections[static_cast<std::size_t>(i)].pair_id;
      if (pair != 0) by_pair_[pair].push_back({at, i});
    }
  }
}

// A process may have a record of the plugin and another one of the spy. The plugin knows more.
void Job::addProcess(ProcessFacts process) {
  const auto known = std::ranges::find_if(processes_, [&](const ProcessFacts& other) {
    return isOneProcess(other, process) && other.boot_id == process.boot_id && other.host == process.host;
  });
  if (known == processes_.end()) processes_.push_back(std::move(process));
  else if (known->spy && !process.spy) *known = std::move(process);
}

int Job::processNamed(const std::string& peer) const {
  const std::size_t colon = peer.rfind(':');
  if (colon == std::string::npos) return -1;
  const auto found = by_name_.find(nameOf(peer.substr(0, colon), peer.substr(colon + 1)));
  return found == by_name_.end() ? -1 : found->second;
}

// The only connection of `process` that can be the other end of `other`; -1: none, or several.
int Job::connectionTo(int place, End other) const {
  const ConnectionFacts& from = connection(other);
  int only = -1;
  const auto& connections = process(place).connections;
  for (int i = 0; i < static_cast<int>(connections.size()); ++i) {
    const ConnectionFacts& to = connections[static_cast<std::size_t>(i)];
    const bool fits = to.side != from.side && to.side != record::Side::kListener &&
                      (from.pair_id == 0 || to.pair_id == 0) && to.communicator == from.communicator &&
                      processNamed(to.peer) == other.process &&
                      (from.peer_device.empty() || to.device == from.peer_device) &&
                      (to.peer_device.empty() || to.peer_device == from.device);
    if (!fits) continue;
    if (only >= 0) return -1;
    only = i;
  }
  return only;
}

End Job::otherEnd(End end) const {
  const ConnectionFacts& own = connection(end);
  if (own.side == record::Side::kListener) return {};
  if (const auto found = by_pair_.find(own.pair_id); own.pair_id != 0 && found != by_pair_.end()) {
    for (const End other : found->second) {
      const ConnectionFacts& candidate = connection(other);
      if (candidate.side != own.side && candidate.side != record::Side::kListener) return other;
    }
  }
  const int peer = processNamed(own.peer);
  if (peer < 0) return {};
  return {peer, connectionTo(peer, end)};
}

const HostFacts* Job::hostOf(std::string_view peer) const {
  const std::string_view name = hostIn(peer);
  const auto found =
      std::ranges::find_if(hosts_, [&](const HostFacts& host) { return isCalled(host, name); });
  return found == hosts_.end() ? nullptr : &*found;
}

std::vector<Job> Job::split(bool dead) const {
  const std::vector<int> numbers = jobNumbers(processes_);
  std::vector<std::vector<ProcessFacts>> members;
  for (std::size_t at = 0; at < processes_.size(); ++at) {
    members.resize(std::max(members.size(), place(numbers[at]) + 1));
    members[place(numbers[at])].push_back(processes_[at]);
  }
  const auto end = std::stable_partition(members.begin(), members.end(), [](const auto& job) {
    return std::ranges::any_of(job, [](const ProcessFacts& process) { return process.alive; });
  });
  if (!dead) members.erase(end, members.end());
  std::vector<std::set<std::string_view>> peers(members.size());  // the hosts on which a job has peers
  for (std::size_t job = 0; job < members.size(); ++job)
    for (const ProcessFacts& process : members[job])
      for (const ConnectionFacts& connection : process.connections)
        peers[job].insert(hostIn(connection.peer));
  std::vector<std::vector<HostFacts>> hosts(members.size());
  for (const HostFacts& host : hosts_) {
    const auto has_peers = [&](const std::set<std::string_view>& names) {
      return std::ranges::any_of(names, [&](std::string_view name) { return isCalled(host, name); });
    };
    const bool of_some = !host.error.empty() && std::ranges::any_of(peers, has_peers);
    for (std::size_t job = 0; job < members.size(); ++job) {
      if (of_some && !has_peers(peers[job])) continue;
      hosts[job].push_back(host);
      if (job > 0) hosts[job].back().notes.clear();
    }
  }
  std::vector<Job> jobs;
  for (std::size_t job = 0; job < members.size(); ++job) {
    hosts[job].front().processes = std::move(members[job]);
    jobs.emplace_back(std::move(hosts[job]));
  }
  return jobs;
}

std::vector<int> jobNumbers(const std::vector<ProcessFacts>& processes) {
  // Each process points to what it has in common with others, and these point back: jobs are components.
  Graph graph(processes.size());
  std::map<std::string, int> nodes;
  const auto join = [&](std::size_t process, const std::string& common) {
    const auto [found, added] = nodes.emplace(common, static_cast<int>(graph.size()));
    if (added) graph.emplace_back();
    graph[process].push_back(found->second);
    graph[place(found->second)].push_back(static_cast<int>(process));
  };
  for (std::size_t at = 0; at < processes.size(); ++at) {
    const ProcessFacts& own = processes[at];
    join(at, "process " + nameOf(own.host, std::to_string(own.pid)));
    // A shell may start several jobs, but not two with as many ranks as one.
    if (own.parent > 1 && own.ranks > 1)
      join(at, "parent " + own.boot_id + " " + std::to_string(own.parent) + " " + std::to_string(own.ranks));
    for (const ConnectionFacts& connection : own.connections) {
      if (connection.pair_id != 0) join(at, "pair " + std::to_string(connection.pair_id));
      if (connection.communicator != 0) join(at, "communicator " + std::to_string(connection.communicator));
      const std::size_t colon = connection.peer.rfind(':');
      if (colon != std::string::npos)
        join(at, "process " + nameOf(connection.peer.substr(0, colon), connection.peer.substr(colon + 1)));
    }
  }
  const std::vector<int> components = componentsOf(graph);
  std::map<int, int> numbers;
  std::vector<int> jobs;
  for (std::size_t at = 0; at < processes.size(); ++at)
    jobs.push_back(numbers.emplace(components[at], static_cast<int>(numbers.size())).first->second);
  return jobs;
}

std::vector<int> componentsOf(const Graph& graph) { return ComponentSearch(graph).take(); }

std::vector<std::vector<int>> rootsOf(const Graph& graph) {
  const std::vector<int> component = componentsOf(graph);
  std::vector<std::vector<int>> members;
  std::vector<bool> leaves;
  for (std::size_t node = 0; node < graph.size(); ++node) {
    const std::size_t own = place(component[node]);
    if (own >= members.size()) members.resize(own + 1), leaves.resize(own + 1);
    members[own].push_back(static_cast<int>(node));
    for (const int next : graph[node]) leaves[own] = leaves[own] || component[place(next)] != component[node];
  }
  std::vector<std::vector<int>> roots;
  for (std::size_t i = 0; i < members.size(); ++i)
    if (!leaves[i]) roots.push_back(std::move(members[i]));
  return roots;
}

std::vector<int> circleIn(const Graph& graph, const std::vector<int>& component) {
  std::vector<bool> inside(graph.size(), false);
  for (const int node : component) inside[place(node)] = true;
  std::vector<int> way;
  std::vector<int> seen(graph.size(), -1);  // place in the way
  int node = component.front();
  while (seen[place(node)] < 0) {
    seen[place(node)] = static_cast<int>(way.size());
    way.push_back(node);
    for (const int next : graph[place(node)]) {
      if (!inside[place(next)] || next == node) continue;
      node = next;
      break;
    }
  }
  way.erase(way.begin(), way.begin() + seen[place(node)]);
  return way;
}

std::vector<int> whoReaches(const Graph& graph, const std::vector<int>& goals) {
  Graph back(graph.size());
  for (std::size_t node = 0; node < graph.size(); ++node)
    for (const int next : graph[node]) back[place(next)].push_back(static_cast<int>(node));
  std::vector<bool> seen(graph.size(), false);
  for (const int goal : goals) seen[place(goal)] = true;
  std::vector<int> reached;
  std::vector<int> waiting = goals;
  while (!waiting.empty()) {
    const int node = waiting.back();
    waiting.pop_back();
    for (const int before : back[place(node)]) {
      if (seen[place(before)]) continue;
      seen[place(before)] = true;
      reached.push_back(before);
      waiting.push_back(before);
    }
  }
  std::ranges::sort(reached);
  return reached;
}

}  // namespace railwise::observe
