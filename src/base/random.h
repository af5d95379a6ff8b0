// Random bytes that nobody can guess: for secrets, tokens and names. Thread-safe.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace railwise {

// From getrandom. Where the kernel gives none (before it has entropy, or a seccomp filter refuses the call),
// libstdc++ asks the processor. Never waits.
void fillRandom(std::span<std::byte> bytes);

// 128 random bits, as 32 hexadecimal digits.
std::string randomHex();

}  // namespace railwise
