// What connections cost before a byte is sent: 1,000 of them in one process, both ends here, on one software
// device. Time per connection (both ends, the handshake over TCP, one thread) and memory: what the process
// took from the system's allocator, the software device's own objects included, and the windows.
#include <malloc.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "loop_connection.h"

namespace {

std::size_t allocated() {
  const struct mallinfo2 info = mallinfo2();
  return info.uordblks + info.hblkhd;
}

}  // namespace

int main(int argc, char** argv) {
  using railwise::net::LoopConnection;
  const int count = argc > 1 ? std::atoi(argv[1]) : 1000;
  const int rails = argc > 2 ? std::atoi(argv[2]) : 1;
  LoopConnection loop(1 << 20, "count=" + std::to_string(rails) + ",max_qp=32000", rails);
  const std::size_t before = allocated();
  const std::size_t windows_before = loop.device().windows().bytes();
  std::size_t queue_pairs = 0;
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < count; ++i) queue_pairs += 2 * loop.connect()->queuePairs();
  const auto time = std::chrono::steady_clock::now() - begin;
  const auto per = [&](std::size_t bytes) { return static_cast<double>(bytes) / count / 1024; };
  std::printf("%d connections over %d rail(s), both ends in this process\n", count, rails);
  std::printf("%10.1f us each, set-up\n", std::chrono::duration<double, std::micro>(time).count() / count);
  std::printf("%10.1f queue pairs each\n", static_cast<double>(queue_pairs) / count);
  std::printf("%10.1f KiB each, allocated (connections and software device)\n", per(allocated() - before));
  std::printf("%10.1f KiB each, windows\n", per(loop.device().windows().bytes() - windows_before));
  std::printf("%10zu bytes: sizeof SendConnection, %zu: ReceiveConnection\n",
              sizeof(railwise::net::SendConnection), sizeof(railwise::net::ReceiveConnection));
}
