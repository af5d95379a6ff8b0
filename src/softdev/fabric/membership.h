// The members of a fabric, by names of abstract unix sockets. A name becomes free at the moment its process
// ends, however it ends, and nothing lies in a file system. So there is one fabric per network namespace, pid
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
  int fd;  // descriptor of the segment in that process
};

// "railwise/<uid>/<pid namespace>/<fabric>/"
std::string fabricPrefix(const std::string& fabric);
std::string memberName(const std::string& prefix, Member member);

// Builds the address of an abstract name. 0: the name is too long.
socklen_t abstractAddress(const std::string& name, sockaddr_un* address);

// Binds a socket to the abstract name and returns it. If the name is taken: kSystem with EADDRINUSE, not
// logged.
Result<int> bindName(const std::string& name);

// True only if certainly no socket has the member's name. Any other error of the check gives false.
bool memberGone(const std::string& prefix, Member member);

// Takes the name `prefix`lock. Waits some seconds for the owner of the lock, then logs a WARN.
Result<int> lockElection(const std::string& prefix);

// Reads the members of this fabric from /proc/net/unix.
std::vector<Member> listMembers(const std::string& prefix);

// Names of the fabrics that have processes of this user.
std::set<std::string> fabricsInUse();

}  // namespace railwise::softdev
