// NCCL's kernels as the software GPU's: the tables that NCCL's host code links to, and what a launch does.
//
// Of NCCL 2.22 and later, whose kernels read batches of work from their arguments or from a buffer.
#include <algorithm>
#include <cstring>
#include <ctime>
#include <vector>

#include "block.h"
#include "blocks.h"
#include "collective.h"
#include "collectives.h"  // NCCL's
#include "device.h"       // NCCL's
#include "send_receive.h"
#include "softgpu/kernel.h"
#include "tables.h"

#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 22, 0)

#include "bitops.h"  // NCCL's

namespace {

using kernels::Block;
using kernels::Collective;
using kernels::Exchange;
using kernels::Function;
using kernels::Message;

// ---- one block

// Works that belong together: up to the batch that does not extend into the next.
struct Works {
  ncclDevWorkType type = ncclDevWorkTypeP2p;
  int function = 0;
  size_t count = 0;
  size_t bytes = 0;  // of each
  std::vector<char> storage;

  template <typename Work>
  Work* at(size_t index) {
    return reinterpret_cast<Work*>(storage.data() + index * bytes);
  }
};

// Reads the works that begin at batch `index`; returns the index of the next batch, or -1.
int readWorks(const ncclDevKernelArgs& args, int index, Works& works) {
  const auto* batches = reinterpret_cast<const ncclDevWorkBatch*>(&args + 1);
  works = Works{};
  for (;;) {
    const ncclDevWorkBatch& batch = batches[index];
    works.type = static_cast<ncclDevWorkType>(batch.workType);
    works.function = static_cast<int>(batch.funcId);
    works.bytes = ncclDevWorkSize(works.type);
    for (unsigned bit = 0; bit < 64; ++bit) {
      if ((batch.offsetBitset >> bit & 1) == 0) continue;
      const auto offset = static_cast<uint32_t>(batch.offsetBase + bit * works.bytes);
      works.storage.resize((works.count + 1) * works.bytes);
      char* to = works.at<char>(works.count++);
      if (args.workStorageType == ncclDevWorkStorageTypeArgs) {
        std::memcpy(to, reinterpret_cast<const char*>(&args) + offset, works.bytes);
        continue;
      }
      // The buffer is a ring; a work may lie across its end, in units of 16 bytes.
      for (uint32_t done = 0; done < works.bytes; done += 16) {
        std::memcpy(to + done, static_cast<const char*>(args.workBuf) + ((offset + done) & args.workMask),
                    16);
      }
    }
    if (!batch.nextExtends) return batch.nextJump == 0 ? -1 : index + static_cast<int>(batch.nextJump);
    index += static_cast<int>(batch.nextJump);
  }
}

Collective collectiveOf(const Block& block, const Function& function, ncclDevWorkColl& work) {
  Collective collective{.input = work.sendbuff,
                        .output = work.recvbuff,
                        .root = static_cast<int>(work.root),
                        .argument = work.redOpArg,
                        .argument_by_address = work.redOpArgIsPtr != 0};
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 24, 0)
  collective.registered = work.netRegUsed;
  if (work.regUsed) {
    collective.outputs_at_peers = work.recvbuffRmtAddrs;
    collective.output_offset = work.recvbuffOffset;
  }
  collective.one_rank_per_host = work.isOneRPN;
#endif
#ifdef RCCL
  collective.connection = work.connIndex;
#endif
  ncclCollCbdPart(&work, static_cast<uint32_t>(block.channel_id), function.protocol,
                  static_cast<int>(kernels::elementBytes(function)), &collective.share.count,
                  &collective.share.offset, &collective.share.length, &collective.share.chunk);
  return collective;
}

// One direction of a work, cut to what this channel carries.
Message messageOf(const Block& block, const ncclDevWorkP2p& work, bool sends) {
  const int parts = sends ? work.nSendChannels : work.nRecvChannels;
#ifdef RCCL
  const int part = ncclP2pChannelToPart(work.nP2pChannels, work.channelBase, block.channel_id,
                                        block.comm.p2pnChannelsPerPeer, block.comm.nNodes);
#else
  const int part = ncclP2pChannelToPart(work.nP2pChannels, work.channelBase, block.channel_id);
#endif
  if (part >= parts) return {};
  size_t begin = 0;
  size_t end = 0;
  ncclP2pPartBounds(parts, part, sends ? work.sendBytes : work.recvBytes, &begin, &end);
  Message message{.rank = sends ? work.sendRank : work.recvRank,
                  .data = static_cast<char*>(sends ? work.sendAddr : work.recvAddr) + begin,
                  .bytes = end - begin,
                  .ll = (sends ? work.sendProtoLL : work.recvProtoLL) != 0};
#ifdef RCCL
  message.connection = sends ? work.sendConnIndex : work.recvConnIndex;
#endif
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 24, 0)
  message.registered = sends ? work.sendNetReg : work.recvNetReg;
  message.peer = sends ? work.sendIpcReg : work.recvIpcReg;
  message.large_chunk = message.registered || (message.peer && block.comm.isAllNvlink != 0);
  message.chunk = message.large_chunk
                      ? size_t{NCCL_MAX_NET_SIZE}
                      : u32fp8Decode(sends ? work.sendChunkSize_u32fp8 : work.recvChunkSize_u32fp8);
#else
  message.registered = sends ? work.sendRegistered : work.recvRegistered;
  message.chunk = u32fp8Decode(sends ? work.sendChunkSize_u32fp8 : work.recvChunkSize_u32fp8);
  if (message.registered) message.chunk = std::max(message.bytes, message.chunk);  // one step
#endif
  return message;
}

void runWorks(Block& block, Works& works) {
  const Function& function = kernels::functionOf(works.function);
  switch (works.type) {
    case ncclDevWorkTypeP2p: {
      std::vector<Exchange> exchanges;
      for (size_t i = 0; i < works.count; ++i) {
        const ncclDevWorkP2p& work = *works.at<ncclDevWorkP2p>(i);
        exchanges.push_back({.send = messageOf(block, work, true), .receive = messageOf(block, work, false)});
      }
      return kernels::runSendReceive(block, exchanges);
    }
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 29, 0)
    case ncclDevWorkTypeBcast:
      return kernels::runAllGatherV(block, function, works.at<ncclDevWorkBcast>(0),
                                    static_cast<int>(works.count));
#endif
    default:
      for (size_t i = 0; i < works.count; ++i)
        kernels::runCollective(block, function, collectiveOf(block, function, *works.at<ncclDevWorkColl>(i)));
  }
}

#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 27, 0)
// Tells NCCL's profiler that works have begun or ended.
void profile(Block& block, Works& works, ncclDevProfiler* profiler) {
  if (profiler == nullptr) return;
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  for (size_t i = 0; i < works.count; ++i) {
    const bool enabled = works.type == ncclDevWorkTypeP2p ? works.at<ncclDevWorkP2p>(i)->profilerEnabled
                                                          : works.at<ncclDevWorkColl>(i)->profilerEnabled;
    if (!enabled) continue;
    const uint64_t number = block.channel.workCounter + 1 + i;
    auto& slot = profiler[block.channel_id].data[number % MAX_PROFILER_EVENTS_PER_CHANNEL];
    slot.timestamp = static_cast<uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(now.tv_nsec);
    __atomic_store_n(&slot.counter, number, __ATOMIC_RELEASE);
  }
}
#endif

void runBlock(Block block, const ncclDevKernelArgs& args, int index) {
  Works works;
  for (int batch = index; batch != -1;) {
    batch = readWorks(args, batch, works);
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 27, 0)
    profile(block, works, block.comm.workStarted);
#endif
    runWorks(block, works);
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 27, 0)
    profile(block, works, block.comm.workCompleted);
    block.channel.workCounter += works.count;
#endif
  }
}

// ---- one launch

void launch(const softgpu::Launch& launch) {
  const auto& args = *static_cast<const ncclDevKernelArgs*>(launch.parameters[0]);
  auto& comm = *reinterpret_cast<kernels::CommAndChannels*>(args.comm);
#ifdef RCCL
  const uint64_t* const channel_masks = args.channelMask.masks;
#else
  const uint64_t* const channel_masks = &args.channelMask;
#endif
  kernels::runBlocks(comm, channel_masks,
                     [&args](const Block& block, int index) { runBlock(block, args, index); });
}

[[maybe_unused]] const bool defined = [] {
  constexpr size_t kArguments[] = {sizeof(ncclDevKernelArgs4K)};
  softgpuDefineKernel(kernels::kKernel, "ncclKernel", kArguments, 1, launch);
  return true;
}();

}  // namespace

#endif
