// What lies at an address of this process: the areas that the kernel keeps, as /proc/self/maps lists them.
// Asked anew each time, since a program may unmap and map at one address whatever it likes: about 0.5 us
// where the kernel answers single questions (Linux 6.11), else a read of the whole list. Thread-safe.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

namespace railwise::softdev {

struct Area {
  uint64_t begin = 0;
  uint64_t end = 0;     // first address behind it
  uint64_t offset = 0;  // of `begin` in the file
  uint64_t inode = 0;   // 0: no file
  dev_t device = 0;     // of that inode
  bool readable = false;
  bool writable = false;
  bool shared = false;
  std::string name;  // path of the file, or the kernel's words such as [stack]; only from describeArea()
};

// The area that holds `address`; false when nothing is mapped there. Does not fill `name`.
bool findArea(uint64_t address, Area* area);
// The same with its name: reads the whole list.
bool describeArea(uint64_t address, Area* area);

// Whether the page of `address` is certainly private anonymous memory: a quick no to "could peers map it?".
bool surelyPrivate(uint64_t address);

// Closes what the functions above keep open; they open it again when they need it.
void releaseAddressSpace();
// In a forked child: the files opened above belong to the parent's address space.
void forgetAddressSpace();

}  // namespace railwise::softdev
