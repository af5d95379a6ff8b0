// The transports of many pairs, with equal ones put together. The outputs show it. Plain values.
#pragma once

#include "topo/transports/transports.h"

namespace railwise::topo {

struct TransportClass {
  Transport first;  // of the first pair of the class
  std::string name;
  std::string reason;
  int pairs = 0;
};

struct TransportRow {
  RankPair pair;
  std::size_t index = 0;       // in TransportTable::classes
  int intermediate_rank = -1;  // P2P through a third GPU
  NetEnd sender;               // without reasons, like `receiver`
  NetEnd receiver;
};

struct TransportTable {
  std::vector<TransportClass> classes;  // in the order in which the rows need them
  std::vector<TransportRow> rows;       // by `from`, then by `to`
};

// Which pairs to tabulate. -1: all ranks.
struct PairFilter {
  int from = -1;
  int to = -1;
  bool other_host = false;
  int channel = 0;
};
TransportTable tabulate(const Transports& transports, const PairFilter& filter);

}  // namespace railwise::topo
