// What the logs of a job tell around one event: the process, its peer, both ends' addresses, names that all
// hosts know. The rules (rules.cc) ask it. Pure; thread-safe.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "doctor/log/job.h"

namespace railwise::doctor {

// Of the whole job, made once.
class Evidence {
 public:
  explicit Evidence(const Job& job);

  const Job& job() const { return job_; }
  // The host whose socket has the address; "": none or several have it.
  std::string hostOf(std::string_view address) const;
  // The events that say why the process's network is Socket.
  const std::vector<const Event*>& networkEvents(int process) const;
  // The interface that every host of the job lists, without those that no other host can reach (link-local,
  // veth, docker, ...); "": there is none.
  const std::string& commonInterface() const { return common_interface_; }
  // The interface with this address, of any host; "": not known.
  std::string interfaceOf(std::string_view address) const;

  // NICs by host. `most` and `few` are hosts with the most and the fewest; equal lists have no `few`.
  struct Nics {
    std::string most, few;
    std::size_t number_most = 0, number_few = 0;
    std::vector<std::string> missing;  // at the host with few
    std::vector<std::string> common;   // at all hosts
    bool mixed = false;                // InfiniBand and Ethernet stand in one list
    std::string only_ib, only_roce;    // hosts with NICs of that kind alone; "": there is none
    std::vector<std::string> of_most;  // the NICs of the link layer that most NICs have
  };
  const Nics& nics() const { return nics_; }
  // Of NCCL: "2.29.7".
  const std::set<std::string>& versions() const { return versions_; }
  // Has a process of the host an error that can be a cause?
  bool hasCause(const std::string& host) const { return hosts_with_cause_.count(host) > 0; }
  bool isHost(std::string_view name) const { return names_of_hosts_.find(name) != names_of_hosts_.end(); }
  // As the environment of any process has set it; null: the logs do not say.
  const Fact* setting(const std::string& name) const;

 private:
  void findInterface();
  void findNics();

  const Job& job_;
  struct Owner {
    std::string host;  // "": several have the address
    std::string interface;
  };
  std::map<std::string, Owner, std::less<>> owners_;  // by address
  std::map<int, std::vector<const Event*>> network_events_;
  std::set<std::string, std::less<>> names_of_hosts_, hosts_with_cause_;
  std::map<std::string, const Fact*> settings_;
  std::set<std::string> versions_;
  std::string common_interface_;
  Nics nics_;
};

// Can only its own host reach the interface?
bool isVirtualInterface(std::string_view name);

// One event, or a state of one process (`event` null), before the evidence.
class Situation {
 public:
  Situation(const Evidence& evidence, int process, const Event* event);

  const Evidence& evidence;
  const Process* process = nullptr;  // null: the line does not say which
  const Event* event = nullptr;
  // Of the event with what was joined to it; of a state the lines that explain the process's network.
  std::string line;
  std::string peer_host;       // "": not known
  std::string peer_interface;  // that has the address in the line
  std::string local_gid, remote_gid;
  std::string bad_interface;  // that the line or the process uses, and no other host can reach

  // Fills {names}. What the evidence lacks becomes <a placeholder>, so that no name is invented.
  std::string named(std::string_view text) const;
  const Fact* setting(const std::string& name) const;

 private:
  void findPeer();
  void findNames();
  std::map<std::string, std::string, std::less<>>
      names_;  // what {braces} may hold; "": the evidence lacks it
};

// "172.18.2.0/24"; of another form of GID its first half. "": no GID.
std::string subnetOf(const std::string& gid);

// What the evidence makes of a line (rules.cc): causes in order of likelihood, each with what shows it.
struct Advice {
  std::string why, fix;
};
// `check`: of the event, or of the process's state ("socket-network"). `general`: what its family says, which
// stays where no rule is certain. Names in braces are filled in.
Advice adviceOf(const Situation& situation, const std::string& check, const Advice& general);
// Does a rule of the check hold with certainty?
bool ruleHolds(const Situation& situation, const std::string& check);

}  // namespace railwise::doctor
