// What the plugin asks the C library for, and what this program lets fail. main() is an executable that
// exports malloc, open, mmap and their like: the plugin's calls come here, those of everybody else go on
// unchanged.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace railwise::test {

enum class Shortage { kMemory, kDescriptors, kKernel };

// Calls of the plugin of one kind since arm(). Thread-safe.
uint64_t callsOf(Shortage kind);

// Once in a process. From now on the calls count; the `fails`-th of `kind` (from 1) is refused, and with
// `lasting` every one after it. 0: none. The plugin must be loaded; `library` is a part of its file's name.
void arm(const char* library, Shortage kind, uint64_t fails, bool lasting);
// No call fails any more.
void disarm();
// The function that was refused and who called it, for addr2line: "malloc at 0x1234 0x5678 of the library".
// Empty: none was.
std::string refused();
// The plugin's places in the calling thread's stack.
std::string where();

// Blocks that the plugin has allocated since it was armed and not freed, and where up to eight of them come
// from.
std::size_t blocksHeld();
std::string whereHeld();

}  // namespace railwise::test
