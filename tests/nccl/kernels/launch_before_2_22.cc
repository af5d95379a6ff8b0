// NCCL's kernels as the software GPU's, as launch.cc has them, of NCCL before 2.22: a channel's works are a
// chain in a buffer, each with elements for up to 9 collectives or 16 sends and receives.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "block.h"
#include "blocks.h"
#include "collective.h"
#include "collectives.h"  // NCCL's
#include "device.h"       // NCCL's
#include "send_receive.h"
#include "softgpu/kernel.h"
#include "tables.h"

#if NCCL_VERSION_CODE < NCCL_VERSION(2, 22, 0)

namespace {

using kernels::Block;
using kernels::Collective;
using kernels::Exchange;
using kernels::Function;
using kernels::Message;

Collective collectiveOf(const ncclWorkElem& element) {
  return {.input = element.sendbuff,
          .output = element.recvbuff,
          .root = static_cast<int>(element.root),
          .argument = element.redOpArg,
          .argument_by_address = element.redOpArgIsPtr != 0,
          .share = {.count = static_cast<ssize_t>(element.count),
                    .offset = static_cast<ssize_t>(element.workOffset),
                    .length = static_cast<ssize_t>(element.workCount),
                    .chunk = static_cast<ssize_t>(element.chunkCount)}};
}

Message messageOf(const ncclWorkElemP2p& element) {
  if (element.p2pType == ncclWorkP2pTypeUnused) return {};
  Message message{
      .rank = element.peer,
      .data = reinterpret_cast<char*>(uint64_t{element.buffHi32} << 32 | element.buffLo32),
      .bytes = size_t{element.countHi32} << 32 | element.countLo32,
      .chunk = static_cast<size_t>(element.chunkSize),
      .registered = element.reg != 0,
      .ll = element.proto == NCCL_PROTO_LL,
  };
  if (message.ll) message.chunk /= 2;                                              // the other half is flags
  if (message.registered) message.chunk = std::max(message.bytes, message.chunk);  // one step
  return message;
}

void runWork(Block& block, const ncclWork& work) {
  if (work.header.type == ncclWorkTypeP2p) {
    // Receives and sends take turns.
    std::vector<Exchange> exchanges;
    for (int i = 0; i < work.p2pElems[0].ngroups; i += 2) {
      exchanges.push_back({.send = messageOf(work.p2pElems[i + 1]), .receive = messageOf(work.p2pElems[i])});
    }
    return kernels::runSendReceive(block, exchanges);
  }
  const Function& function = kernels::functionOf(work.header.funcIndex);
  const bool registered = work.header.type == ncclWorkTypeRegColl;
  const size_t count = registered ? NCCL_MAX_WORK_ELEMENTS_REG : NCCL_MAX_WORK_ELEMENTS;
  for (size_t i = 0; i < count; ++i) {
    const ncclWorkElem& element = registered ? work.regElems[i].elem : work.elems[i];
    if (!element.isUsed) break;
    kernels::runCollective(block, function, collectiveOf(element));
  }
}

void runBlock(Block block, const ncclWork* head, int index) {
  for (;;) {
    const ncclWork work = head[index];
    // The slots of the buffer are NCCL's again once the last work has been read.
    if (work.header.isLast && work.header.inFifo)
      __atomic_store_n(block.channel.workFifoDone, work.header.doneAcks, __ATOMIC_RELEASE);
    runWork(block, work);
    if (work.header.isLast) return;
    index = work.header.workNext;
  }
}

void launch(const softgpu::Launch& launch) {
  auto& comm = **static_cast<kernels::CommAndChannels* const*>(launch.parameters[0]);
  const uint64_t channel_mask = *static_cast<const uint64_t*>(launch.parameters[1]);
  const ncclWork* const head = *static_cast<const ncclWork* const*>(launch.parameters[2]);
  kernels::runBlocks(comm, &channel_mask,
                     [head](const Block& block, int index) { runBlock(block, head, index); });
}

[[maybe_unused]] const bool defined = [] {
  constexpr size_t kArguments[] = {sizeof(void*), sizeof(uint64_t), sizeof(void*)};
  softgpuDefineKernel(kernels::kKernel, "ncclKernel", kArguments, 3, launch);
  return true;
}();

}  // namespace

#endif
