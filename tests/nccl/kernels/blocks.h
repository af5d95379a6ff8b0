// What a launch of NCCL's kernel does, whatever the release.
#pragma once

#include <cstdint>

#include "block.h"

namespace kernels {

// Runs a block for each channel of `channel_masks` (64 channels each), side by side, until all have ended.
// `run(block, index)`: what a block does; `index` counts the channels of the launch.
template <typename Run>
void runBlocks(CommAndChannels& comm, const uint64_t* channel_masks, Run run) {
  Scheduler scheduler(comm.comm.abortFlag);
  int index = 0;
  for (int channel = 0; channel < MAXCHANNELS; ++channel) {
    if ((channel_masks[channel / 64] >> channel % 64 & 1) == 0) continue;
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
