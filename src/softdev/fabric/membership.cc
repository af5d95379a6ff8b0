#include "softdev/fabric/membership.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <thread>

#include "base/clock.h"
#include "base/log.h"

namespace railwise::softdev {

namespace {

std::string userPrefix() {
  struct stat pid_namespace = {};
  (void)stat("/proc/self/ns/pid", &pid_namespace);
  return "railwise/" + std::to_string(geteuid()) + "/" + std::to_string(pid_namespace.st_ino) + "/";
}

}  // namespace

std::string fabricPrefix(const std::string& fabric) { return userPrefix() + fabric + "/"; }

std::string memberName(const std::string& prefix, Member member) {
  return prefix + std::to_string(member.pid) + "." + std::to_string(member.fd);
}

socklen_t abstractAddress(const std::string& name, sockaddr_un* address) {
  *address = {};
  address->sun_family = AF_UNIX;
  if (name.size() + 1 > sizeof address->sun_path) return 0;
  std::memcpy(address->sun_path + 1, name.data(), name.size());
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
}

Result<int> bindName(const std::string& name) {
  sockaddr_un address{};
  const socklen_t length = abstractAddress(name, &address);
  if (length == 0) return Status{Code::kInvalidArgument, ENAMETOOLONG};
  const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return Status{Code::kSystem, errno};
  if (bind(fd, reinterpret_cast<const sockaddr*>(&address), length) == 0) return fd;
  const int error = errno;
  close(fd);
  return Status{Code::kSystem, error};
}

bool memberGone(const std::string& prefix, Member member) {
  sockaddr_un address{};
  const socklen_t length = abstractAddress(memberName(prefix, member), &address);
  const int fd = length != 0 ? socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0) : -1;
  if (fd < 0) return false;
  const bool refused = connect(fd, reinterpret_cast<const sockaddr*>(&address), length) != 0 &&
                       (errno == ECONNREFUSED || errno == ENOENT);
  close(fd);
  return refused;
}

Result<int> lockElection(const std::string& prefix) {
  // A process holds the lock for some milliseconds at most. The kernel frees the lock when its owner dies.
  const Deadline deadline = Deadline::after(std::chrono::seconds(20));
  const std::string name = prefix + "lock";
  for (;;) {
    Result<int> lock = bindName(name);
    if (lock.ok()) return lock;
    if (lock.status().sys_errno == EADDRINUSE && !deadline.passed()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      continue;
    }
    RAILWISE_WARN("software device: cannot lock the fabric (abstract socket %s): %s", name.c_str(),
                  std::strerror(lock.status().sys_errno));
    return lock;
  }
}

std::vector<Member> listMembers(const std::string& prefix) {
  std::vector<Member> members;
  std::ifstream sockets("/proc/net/unix");
  const std::string mark = " @" + prefix;
  for (std::string line; std::getline(sockets, line);) {
    const size_t at = line.find(mark);
    Member member{};
    if (at == std::string::npos) continue;
    if (std::sscanf(line.c_str() + at + mark.size(), "%d.%d", &member.pid, &member.fd) == 2)
      members.push_back(member);
  }
  return members;
}

std::set<std::string> fabricsInUse() {
  const std::string user = userPrefix();
  std::set<std::string> names;
  std::ifstream sockets("/proc/net/unix");
  for (std::string line; std::getline(sockets, line);) {
    const size_t at = line.find(" @" + user);
    if (at == std::string::npos) continue;
    const std::string rest = line.substr(at + 2 + user.size());  // "NAME/4711.9"
    const size_t slash = rest.find('/');
    Member member{};
    if (slash != std::string::npos &&
        std::sscanf(rest.c_str() + slash + 1, "%d.%d", &member.pid, &member.fd) == 2)
      names.insert(rest.substr(0, slash));
  }
  return names;
}

}  // namespace railwise::softdev
