// Makes private memory shareable, if the configuration says so (mover=remap): its pages move into a memory
// file mapped at the same address, so that peers can map them too (shared_memory.h). No write of another
// thread is lost: during the copy userfaultfd write-protects the pages, and a thread that writes waits.
// The swap has two effects on the program. A forked child does not have the memory (as with ibv_fork_init). A
// system call of another thread that writes there during the copy may fail with EFAULT, if userfaultfd may
// not stop the kernel. Not every program bears that, so it is never the default.
#pragma once

#include <cstdint>

namespace railwise::softdev {

// Moves the pages of [address, address + length). False, and everything is unchanged, for memory that cannot
// be moved: stacks, files, huge pages of hugetlbfs, read-only memory, and ranges that lie in several files
// already. Also false for all memory if the kernel does not give us userfaultfd (one WARN). Moved pages stay
// in the file as long as they are mapped. Thread-safe.
bool remapPrivate(uint64_t address, uint64_t length);

}  // namespace railwise::softdev
