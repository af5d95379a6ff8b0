// What the plugin and the software device ask the C library for, and what this program lets fail. main() is
// an executable that exports malloc, open, mmap and their like: the calls of these two libraries come here,
// those of everybody else go on unchanged. "The plugin" means both libraries below.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace railwise::test {

enum class Shortage { kMemory, kDescriptors, kKernel };

// Calls of the plugin of one kind since arm(). Thread-safe.
uint64_t callsOf(Shortage kind);

// Once in a process. From now on the calls count; the `fails`-th of `kind` (from 1) is refused, and with
// `lasting` every one after it. 0: none. Both libraries must be loaded.
void arm(Shortage kind, uint64_t fails, bool lasting);
// No call fails any more.
void disarm();
// The function that was refused and who called it, for addr2line: "malloc at plugin+0x1234 device+0x5678".
// Empty: none was.
std::string refused();
// The plugin's places in the calling thread's stack.
std::string where();

// Blocks that the plugin has allocated since it was armed and not freed, and where up to eight of them come
// from.
std::size_t blocksHeld();
std::string whereHeld();

}  // namespace railwise::test
