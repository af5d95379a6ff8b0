// What lies in the tables of a fabric, and whose it is: for tests that nothing was left behind.
#pragma once

#include <cstdint>

#include "softdev/fabric/fabric.h"

namespace railwise::softdev::test {

struct Census {
  struct Records {
    uint32_t processes = 0;
    uint32_t contexts = 0;
    uint32_t qps = 0;
    uint32_t cqs = 0;
    uint32_t srqs = 0;
    uint32_t mrs = 0;
    uint32_t arena_pages = 0;
    uint32_t locks = 0;  // held
    bool operator==(const Records&) const = default;
  };
  Records of_living;
  Records of_dead;
};

// Counts under the table lock.
Census takeCensus(const Fabric& fabric);

}  // namespace railwise::softdev::test
