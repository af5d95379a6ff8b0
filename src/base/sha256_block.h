// One block of SHA-256, in two ways. Any thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace railwise::sha256 {

inline constexpr std::size_t kBlockBytes = 64;
using State = std::array<uint32_t, 8>;

void addBlockPortably(State& state, const std::byte* block);

// Does this processor have instructions for SHA-256 that this build knows (x86-64's SHA extensions)?
bool hasInstructions();
// By these instructions: some 250 instead of 3,000. Only where hasInstructions().
void addBlockByInstructions(State& state, const std::byte* block);

}  // namespace railwise::sha256
