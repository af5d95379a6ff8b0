// Makes private memory shareable, on demand of the configuration (mover=remap): its pages move into a memory
// file mapped at the same address, so that peers can map them too (shared_memory.h). No write of another
// thread is lost: while the pages are copied they are write-protected with userfaultfd, and who writes waits.
// What the swap changes for the program: a forked child does not have the memory (as with ibv_fork_init), and
// a system call of another thread that writes there just then may fail with EFAULT where userfaultfd may not
// hold up the kernel. Not for every program, therefore never the default.
#pragma once

#include <cstdint>

namespace railwise::softdev {

// Moves the pages of [address, address + length). False, with everything as it was, for memory that cannot
// be moved: stacks, files, huge pages of hugetlbfs, read-only memory, what lies in several files already, and
// everything where the kernel has no userfaultfd for us (one WARN). Pages that were moved stay so for as long
// as they are mapped. Thread-safe.
bool remapPrivate(uint64_t address, uint64_t length);

}  // namespace railwise::softdev
