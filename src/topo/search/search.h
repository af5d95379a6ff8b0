// NCCL's search for rings, trees and the graphs of CollNet and NVLS, with NCCL's results: the ranks of a
// domain, alone or with an equal second host. The graphs follow from the machine and NCCL's settings alone.
// Those of CollNet are searched as if each NIC had a CollNet plugin (NCCL searches them only with one).
// Thread-safe.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/outcome.h"
#include "topo/machine/machine.h"
#include "topo/search/channel_graph.h"
#include "topo/search/graph_file.h"

namespace railwise::topo {

struct SearchOptions {
  // Hosts of the communicator. 1: the machine alone; the network takes part only if the machine falls apart
  // into several domains. 2 or more: the network takes part.
  int nodes = 1;
  bool several_domains = false;
  // False: the driver has no multicast, or NCCL_NVLS_ENABLE=0. An error of the search for NVLS does not
  // count.
  bool nvls = true;
  // NCCL_GRAPH_FILE: its graphs are taken instead of searched. Null: there is no such file.
  const GraphFile* file = nullptr;
  // Receives what was tried. Null: nobody asks.
  SearchTrace* trace = nullptr;
};

// An error if NCCL's init would fail. After the last "; " it says what helps.
Outcome<CommunicatorGraphs> searchGraphs(const Domain& domain, const Settings& settings,
                                         const SearchOptions& options);

// The graphs of the communicators that are of interest on a machine, for one domain.
struct DomainGraphs {
  std::optional<CommunicatorGraphs> one_host;   // the ranks of the machine; none: they reach no NIC
  std::optional<CommunicatorGraphs> two_hosts;  // with a second, equal machine; none: there is no NIC
  SearchTrace one_host_trace;
  SearchTrace two_hosts_trace;
};
struct MachineSearch {
  bool one_host = true;
  bool two_hosts = true;
  bool nvls = true;  // as in SearchOptions
  bool traces =
      false;  // also tell what was tried. It takes longer: the search then makes all of NCCL's attempts
};
// One entry for each domain of the machine, in its order.
Outcome<std::vector<DomainGraphs>> searchMachine(const Machine& machine, const MachineSearch& wanted);

// Returns why NCCL's init fails on the machine, alone or with a second one, as the error of searchMachine();
// "": it does not. A graph file is made for one number of hosts: it must fit one of the two.
std::string initFailure(const Machine& machine);

}  // namespace railwise::topo
