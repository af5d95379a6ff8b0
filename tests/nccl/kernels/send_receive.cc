#include "send_receive.h"

#include <algorithm>
#include <cstring>

#include "collectives.h"  // NCCL's
#include "primitives.h"

namespace kernels {

namespace {

// One message to or from another rank, in chunks. An empty one is one empty chunk.
void transfer(Block& block, const Message& message, bool sends) {
  Primitives::Options options;
  (sends ? options.send_to : options.receive_from) = Peers{&message.rank, 1};
  options.input = sends ? message.data : nullptr;
  options.output = sends ? nullptr : message.data;
  options.connection = message.connection;
  options.step_bytes = message.registered || message.large_chunk
                           ? message.chunk
                           : static_cast<size_t>(block.comm.p2pChunkSize);
  options.registration = {.network = message.registered, .peers = message.peer, .p2p = true};
  Primitives prims(block, message.ll ? Protocol{.id = NCCL_PROTO_LL} : simple(1, 1), noReduction(1), options);
  size_t done = 0;
  do {
    const auto length = static_cast<ssize_t>(std::min(message.chunk, message.bytes - done));
    const auto offset = static_cast<ssize_t>(done);
    if (sends) {
      prims.directSend(offset, offset, length);
    } else {
      prims.directRecv(offset, length);
    }
    done += static_cast<size_t>(length);
  } while (done < message.bytes);
  prims.finish();
}

}  // namespace

void runSendReceive(Block& block, const std::vector<Exchange>& exchanges) {
  std::vector<std::function<void()>> transfers;
  for (const auto& [send, receive] : exchanges) {
    if (send.rank == block.comm.rank) {  // to itself
      if (receive.data != send.data) std::memmove(receive.data, send.data, send.bytes);
      continue;
    }
    if (send.rank >= 0) transfers.push_back([&block, &message = send] { transfer(block, message, true); });
    if (receive.rank >= 0)
      transfers.push_back([&block, &message = receive] { transfer(block, message, false); });
  }
  block.scheduler.together(std::move(transfers));
}

}  // namespace kernels
