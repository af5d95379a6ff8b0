// The members of a fabric, by names of abstract unix sockets. A name becomes free at the moment its process
// ends, however it ends, and nothing lies in a file system. So there is one fabric per network namespace, pid
// namespace, user and name. Any user may bind any name: who reads names must ask whose they are. Thread-safe.
#pragma once

#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/status.h"

struct sock_fprog;

namespace railwise::softdev {

struct Member {
  pid_t pid;
  int fd;           // descriptor of the segment in that process
  uint32_t number;  // random, so that nobody can bind the name before the member does
};

// "railwise/<uid>/<pid namespace>/<fabric>/"
std::string fabricPrefix(const std::string& fabric);
// A number for the prefix and our network namespace. Two fabrics never have one number, but for chance.
uint64_t fabricNumber(const std::string& prefix);
std::string memberName(const std::string& prefix, Member member);
// A number that nobody can guess.
uint32_t randomNumber();

// Builds the address of an abstract name. 0: the name is too long.
socklen_t abstractAddress(const std::string& name, sockaddr_un* address);

// Binds a datagram socket to the abstract name and returns it. `filter`: what it accepts, from its first
// datagram on. If the name is taken: kSystem with EADDRINUSE, not logged.
Result<int> bindName(const std::string& name, const sock_fprog* filter = nullptr);

// An abstract name that a socket has.
struct NamedSocket {
  std::string name;
  uint32_t inode;
};

// The names that begin with `prefix`, from /proc/net/unix. Some may be forged: the kernel prints names as
// they are, and a name with a newline looks like a line of its own.
std::vector<NamedSocket> listNames(const std::string& prefix);
// Not a user: the kernel says that no socket has that name and inode. The socket is gone, or the line forged.
constexpr uid_t kNoUser = static_cast<uid_t>(-1);
// The user who made the socket, or kNoUser. Nothing: the kernel does not say (before Linux 5.3, no unix_diag,
// a seccomp filter).
std::optional<uid_t> userOf(const NamedSocket& socket);
// True only if the name is certainly no socket's of our user.
bool foreign(const NamedSocket& socket);
// Does the other end of a connected stream or seqpacket socket belong to our user?
bool peerIsOurs(int connected_fd);

// True only if certainly no socket has the member's name. Any other error of the check gives false.
bool memberGone(const std::string& prefix, Member member);

struct MemberName {
  Member member;  // names of layout 9 and before have no number: 0
  NamedSocket socket;
};

// Reads the members of this fabric from /proc/net/unix. Any user may have bound such a name: ask foreign().
std::vector<MemberName> listMembers(const std::string& prefix);

// Names of the fabrics that have processes of this user. Names that no configuration can have are left out.
std::set<std::string> fabricsInUse();

}  // namespace railwise::softdev
