// Finds out what lies at an address of this process: the areas that the kernel keeps, as /proc/self/maps
// lists them. Every call asks the kernel anew, because a program may unmap an address and map something else
// there at any time. A call takes about 0.5 us if the kernel answers queries about one address (Linux 6.11);
// otherwise it reads the whole list. Thread-safe.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

namespace railwise::softdev {

struct Area {
  uint64_t begin = 0;
  uint64_t end = 0;     // the first address behind the area
  uint64_t offset = 0;  // offset of `begin` in the file
  uint64_t inode = 0;   // 0: no file
  dev_t device = 0;     // device of that inode
  bool readable = false;
  bool writable = false;
  bool shared = false;
  // Path of the file, or a label of the kernel such as [stack]; only describeArea() always sets it.
  std::string name;
};

// Finds the area that holds `address`. False if nothing is mapped there. Need not set `name`.
bool findArea(uint64_t address, Area* area);
// Like findArea(), but sets `name`, for which it reads the whole list.
bool describeArea(uint64_t address, Area* area);

// Is the page of `address` certainly private anonymous memory? This excludes quickly that peers could map it.
bool surelyPrivate(uint64_t address);

// Closes the files that the functions above keep open. They open them again on demand.
void releaseAddressSpace();
// Called in a forked child: the files opened above belong to the parent's address space.
void forgetAddressSpace();

}  // namespace railwise::softdev
