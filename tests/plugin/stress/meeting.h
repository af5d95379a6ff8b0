// What the ranks of the stress share: the process, and in a round the two ranks with each other.
#pragma once

#include <atomic>
#include <mutex>
#include <vector>

#include "plugin/api.h"
#include "plugin/random_transfers/slab.h"
#include "plugin/stress/plan.h"
#include "plugin/stress/watch.h"

namespace railwise::test {

// What all ranks of the process share.
struct Process {
  Pages source{2 * kSourceBytes};
  Abilities abilities;
  Totals totals;
  std::mutex net_mutex;                 // NCCL's netPluginMutex: init, finalize
  std::vector<int> devices;             // physical and virtual ones, all of which reach each other
  std::atomic<bool> disturbed = false;  // ports go down: any call may fail
};

// What the two ranks of a round share: NCCL's bootstrap, and the application that aborts.
struct Meeting {
  struct Mailbox {
    std::atomic<bool> full = false;
    Handle handle;
  };
  explicit Meeting(std::size_t channels) : mailboxes(channels) {}
  std::vector<Mailbox> mailboxes;     // of each channel, from its receiver
  std::atomic<bool> aborted = false;  // the application has told all ranks
  std::atomic<bool> left = false;     // some rank has begun to leave early: errors are to be expected
  std::atomic<int> done = 0;          // ranks that have transferred everything
};

}  // namespace railwise::test
