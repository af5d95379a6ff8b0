// Makes a copy of a machine's files unreadable where it could tell strangers who the machine is. Pure;
// thread-safe.
#pragma once

#include "sysfs/file_tree.h"

namespace railwise::doctor {

// IPv4, IPv6 and MAC addresses, GUIDs and the host's name become numbered stand-ins ("10.0.0.7",
// "0200:0000:0000:0007"); equal ones stay equal, and link-local addresses stay link-local. Values of
// variables that may hold a secret (KEY, TOKEN, SECRET, PASS in the name), another host (MASTER_ADDR) or the
// name of a person (HOME) become "masked".
sysfs::MemoryTree masked(const sysfs::MemoryTree& tree);

}  // namespace railwise::doctor
