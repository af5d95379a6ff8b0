// Who is attached to a fabric: names of abstract unix sockets. A name is free the moment its process is gone,
// however it died, and nothing lies in a file system. A fabric is thus one per network namespace, pid
// namespace, user and name. Thread-safe.
#pragma once

#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>

#include <set>
#include <string>
#include <vector>

#include "base/status.h"

namespace railwise::softdev {

struct Member {
  pid_t pid;
  int fd;  // of the segment, in that process
};

// "railwise/<uid>/<pid namespace>/<fabric>/"
std::string fabricPrefix(const std::string& fabric);
std::string memberName(const std::string& prefix, Member member);

// The address of an abstract name; 0 when the name is too long.
socklen_t abstractAddress(const std::string& name, sockaddr_un* address);

// Binds a socket to the abstract name and returns it. Taken already: kSystem with EADDRINUSE, and no log.
Result<int> bindName(const std::string& name);

// True when certainly no socket has the member's name. Errors that say nothing about it mean false.
bool memberGone(const std::string& prefix, Member member);

// Holds `prefix`lock; waits for its owner up to some seconds, then gives a WARN.
Result<int> lockElection(const std::string& prefix);

// Members of this fabric as /proc/net/unix lists them.
std::vector<Member> listMembers(const std::string& prefix);

// Names of the fabrics that this user has processes on.
std::set<std::string> fabricsInUse();

}  // namespace railwise::softdev
