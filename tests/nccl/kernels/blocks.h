// What a launch of NCCL's kernel does, whatever the release.
#pragma once

#include <cstdint>

#include "block.h"

namespace kernels {

// Runs a block for each channel of `channel_mask`, side by side, until all have ended. `run(block, index)`:
// what a block does; `index` counts the channels of the launch.
template <typename Run>
void runBlocks(CommAndChannels& comm, uint64_t channel_mask, Run run) {
  Scheduler scheduler(comm.comm.abortFlag);
  int index = 0;
  for (int channel = 0; channel < MAXCHANNELS; ++channel) {
    if ((channel_mask >> channel & 1) == 0) continue;
    scheduler.spawn([&scheduler, &comm, &run, channel, index] {
      run(Block{.scheduler = scheduler,
                .comm = comm.comm,
                .channel = comm.channels[channel],
                .channel_id = channel},
          index);
    });
    ++index;
  }
  scheduler.run();
}

}  // namespace kernels
