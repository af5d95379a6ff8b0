#include "softdev/engine/placement.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace railwise::softdev {
namespace {

// Bytes that are contiguous in the source and in the target.
struct Run {
  std::byte* target;
  const std::byte* source;
  uint64_t length;
};

// Cuts the message at each end of a source piece, of a target piece and of an aligned block of the target.
std::vector<Run> cut(const Pieces& target, const Pieces& source) {
  std::vector<Run> runs;
  int from = 0;
  uint64_t from_offset = 0;
  for (int i = 0; i < target.count; ++i) {
    const Piece& piece = target.list[i];
    for (uint64_t at = 0; at < piece.length;) {
      while (from < source.count && from_offset == source.list[from].length) {
        ++from;
        from_offset = 0;
      }
      if (from == source.count) return runs;
      const uint64_t in_block = kBlockBytes - reinterpret_cast<uint64_t>(piece.address + at) % kBlockBytes;
      const uint64_t length = std::min({in_block, piece.length - at, source.list[from].length - from_offset});
      runs.push_back({piece.address + at, source.list[from].address + from_offset, length});
      at += length;
      from_offset += length;
    }
  }
  return runs;
}

// Shuffles the blocks. The runs of one block stay together and in order.
std::vector<Run> shuffle(const std::vector<Run>& runs, Random& random) {
  std::vector<std::pair<size_t, size_t>> blocks;  // index of the first run, and of the run behind the last
  const auto blockOf = [](const Run& run) { return reinterpret_cast<uint64_t>(run.target) / kBlockBytes; };
  for (size_t first = 0; first < runs.size();) {
    size_t end = first + 1;
    while (end < runs.size() && blockOf(runs[end]) == blockOf(runs[first])) ++end;
    blocks.emplace_back(first, end);
    first = end;
  }
  for (size_t i = blocks.size(); i > 1; --i) std::swap(blocks[i - 1], blocks[random.below(i)]);
  std::vector<Run> order;
  order.reserve(2 * runs.size());
  for (const auto& [first, end] : blocks) {
    order.insert(order.end(), runs.begin() + static_cast<std::ptrdiff_t>(first),
                 runs.begin() + static_cast<std::ptrdiff_t>(end));
    // Makes the last 8 bytes of the block a run of their own, if one run holds them and more.
    Run& last = order.back();
    if (last.length <= kTailBytes) continue;
    const uint64_t body = last.length - kTailBytes;
    const Run tail{last.target + body, last.source + body, kTailBytes};
    last.length = body;
    order.push_back(tail);
  }
  return order;
}

}  // namespace

void placeHere(const Pieces& target, const Pieces& source, Random& random) {
  for (const Run& run : shuffle(cut(target, source), random)) writeHere(run.target, run.source, run.length);
}

int placeThere(PeerMemory& peer, const Pieces& target, const Pieces& source, Random& random,
               uint64_t* calls) {
  constexpr size_t kAtOnce = 512;  // below IOV_MAX
  const std::vector<Run> order = shuffle(cut(target, source), random);
  iovec here[kAtOnce];
  iovec there[kAtOnce];
  for (size_t first = 0; first < order.size(); first += kAtOnce) {
    const size_t count = std::min(kAtOnce, order.size() - first);
    for (size_t i = 0; i < count; ++i) {
      const Run& run = order[first + i];
      here[i] = {const_cast<std::byte*>(run.source), run.length};
      there[i] = {run.target, run.length};
    }
    int error = 0;
    peer.transfer(true, here, static_cast<int>(count), there, static_cast<int>(count), &error, calls);
    if (error != 0) return error;
  }
  return 0;
}

}  // namespace railwise::softdev
