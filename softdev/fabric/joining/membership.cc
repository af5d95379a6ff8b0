#include "softdev/fabric/joining/membership.h"

#include <linux/filter.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <linux/unix_diag.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <span>
#include <string_view>
#include <utility>

#include "base/secrets.h"
#include "base/text/words.h"

namespace railwise::softdev {

namespace {

std::string userPrefix() {
  struct stat pid_namespace = {};
  (void)stat("/proc/self/ns/pid", &pid_namespace);
  return "railwise/" + std::to_string(geteuid()) + "/" + std::to_string(pid_namespace.st_ino) + "/";
}

// Of linux/unix_diag.h since Linux 5.3.
constexpr uint32_t kShowUid = 0x40;
constexpr uint16_t kUidAttribute = 7;

struct UserQuestion {
  nlmsghdr header;
  unix_diag_req request;
};

// What the kernel answers about the unix socket `inode`, as netlink messages. Empty: it does not answer.
std::string askKernel(int netlink_fd, uint32_t inode) {
  UserQuestion question{};
  question.header.nlmsg_len = sizeof question;
  question.header.nlmsg_type = SOCK_DIAG_BY_FAMILY;
  question.header.nlmsg_flags = NLM_F_REQUEST;
  question.request.sdiag_family = AF_UNIX;
  question.request.udiag_states = UINT32_MAX;
  question.request.udiag_ino = inode;
  question.request.udiag_show = UDIAG_SHOW_NAME | kShowUid;
  question.request.udiag_cookie[0] = question.request.udiag_cookie[1] = UINT32_MAX;  // any
  char answer[1024];
  if (send(netlink_fd, &question, sizeof question, 0) != sizeof question) return "";
  const ssize_t bytes = recv(netlink_fd, answer, sizeof answer, MSG_DONTWAIT);  // the kernel has answered
  return bytes > 0 ? std::string(answer, static_cast<size_t>(bytes)) : "";
}

bool saysNoSuchSocket(const std::string& answer) {
  nlmsgerr error;
  nlmsghdr header;
  if (answer.size() < NLMSG_HDRLEN + sizeof error) return false;
  std::memcpy(&header, answer.data(), sizeof header);
  std::memcpy(&error, answer.data() + NLMSG_HDRLEN, sizeof error);
  return header.nlmsg_type == NLMSG_ERROR && error.error == -ENOENT;
}

// A kernel without unix_diag answers ENOENT about every socket, also about one that exists.
bool knowsSockets(int netlink_fd) {
  const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return false;
  struct stat file = {};
  const std::string answer =
      fstat(fd, &file) == 0 ? askKernel(netlink_fd, static_cast<uint32_t>(file.st_ino)) : "";
  close(fd);
  nlmsghdr header;
  if (answer.size() < sizeof header) return false;
  std::memcpy(&header, answer.data(), sizeof header);
  return header.nlmsg_type == SOCK_DIAG_BY_FAMILY;
}

// Reads the kernel's answer about a socket with the abstract name `name`.
std::optional<uid_t> readAnswer(const std::string& message, const std::string& name) {
  const char* const answer = message.data();
  nlmsghdr header;
  if (message.size() < sizeof header) return std::nullopt;
  std::memcpy(&header, answer, sizeof header);
  if (header.nlmsg_type != SOCK_DIAG_BY_FAMILY || header.nlmsg_len > message.size()) return std::nullopt;
  std::optional<uid_t> user;
  bool has_name = false;
  for (size_t at = NLMSG_LENGTH(sizeof(unix_diag_msg)); at + sizeof(nlattr) <= header.nlmsg_len;) {
    nlattr attribute;
    std::memcpy(&attribute, answer + at, sizeof attribute);
    if (attribute.nla_len < sizeof attribute || attribute.nla_len > header.nlmsg_len - at) break;
    const std::string_view value(answer + at + sizeof attribute, attribute.nla_len - sizeof attribute);
    if (attribute.nla_type == UNIX_DIAG_NAME) has_name = !value.empty() && value.substr(1) == name;
    if (attribute.nla_type == kUidAttribute && value.size() == sizeof(uid_t)) {
      user.emplace();
      std::memcpy(&*user, value.data(), sizeof *user);
    }
    at += NLMSG_ALIGN(attribute.nla_len);
  }
  return has_name ? user : kNoUser;
}

// Is this a fabric's name that a configuration may give (config/values.h)? Other users can bind any bytes.
bool plainName(const std::string& name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), [](char c) { return c > ' ' && c < 0x7f; });
}

// Reads "4711.9.3405691582", or "4711.9" of layout 9 and before.
std::optional<Member> parseMember(const char* text) {
  Member member{};
  int end = 0;
  const bool whole = std::sscanf(text, "%d.%d.%u%n", &member.pid, &member.fd, &member.number, &end) == 3;
  if (!whole) member.number = 0;
  if (!whole && std::sscanf(text, "%d.%d%n", &member.pid, &member.fd, &end) != 2) return std::nullopt;
  if (text[end] != '\0') return std::nullopt;
  return member;
}

}  // namespace

std::string fabricPrefix(const std::string& fabric) { return userPrefix() + fabric + "/"; }

uint64_t fabricNumber(const std::string& prefix) {
  struct stat network = {};
  (void)stat("/proc/self/ns/net", &network);
  return stableHash(prefix + std::to_string(network.st_ino));
}

std::string memberName(const std::string& prefix, Member member) {
  return prefix + std::to_string(member.pid) + "." + std::to_string(member.fd) + "." +
         std::to_string(member.number);
}

uint32_t randomNumber() {
  uint32_t number = 0;
  fillRandom(std::as_writable_bytes(std::span(&number, 1)));
  return number;
}

socklen_t abstractAddress(const std::string& name, sockaddr_un* address) {
  *address = {};
  address->sun_family = AF_UNIX;
  if (name.size() + 1 > sizeof address->sun_path) return 0;
  std::memcpy(address->sun_path + 1, name.data(), name.size());
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
}

Result<int> bindName(const std::string& name, const sock_fprog* filter) {
  sockaddr_un address{};
  const socklen_t length = abstractAddress(name, &address);
  if (length == 0) return Status{Code::kInvalidArgument, ENAMETOOLONG};
  const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return Status{Code::kSystem, errno};
  // Without filters (some emulations of Linux lack them) the socket takes every datagram.
  if (filter != nullptr) (void)setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, filter, sizeof *filter);
  if (bind(fd, reinterpret_cast<const sockaddr*>(&address), length) == 0) return fd;
  const int error = errno;
  close(fd);
  return Status{Code::kSystem, error};
}

std::vector<NamedSocket> listNames(const std::string& prefix) {
  std::vector<NamedSocket> names;
  std::ifstream sockets("/proc/net/unix");
  const std::string mark = "@" + prefix;
  for (std::string line; std::getline(sockets, line);) {
    unsigned inode = 0;
    int end = 0;
    if (std::sscanf(line.c_str(), "%*s %*x %*x %*x %*x %*x %u %n", &inode, &end) != 1 || end == 0) continue;
    if (line.compare(static_cast<size_t>(end), mark.size(), mark) != 0) continue;
    names.push_back({line.substr(static_cast<size_t>(end) + 1), inode});
  }
  return names;
}

std::optional<uid_t> userOf(const NamedSocket& named) {
  const int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
  if (fd < 0) return std::nullopt;
  const std::string answer = askKernel(fd, named.inode);
  std::optional<uid_t> user = readAnswer(answer, named.name);
  if (saysNoSuchSocket(answer) && knowsSockets(fd)) user = kNoUser;
  close(fd);
  return user;
}

bool foreign(const NamedSocket& named) {
  const std::optional<uid_t> user = userOf(named);
  return user.has_value() && *user != geteuid();
}

bool peerIsOurs(int connected_fd) {
  ucred peer{};
  socklen_t size = sizeof peer;
  return getsockopt(connected_fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.uid == geteuid();
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

std::vector<MemberName> listMembers(const std::string& prefix) {
  std::vector<MemberName> members;
  for (NamedSocket& named : listNames(prefix)) {
    if (const auto member = parseMember(named.name.c_str() + prefix.size()))
      members.push_back({*member, std::move(named)});
  }
  return members;
}

std::set<std::string> fabricsInUse() {
  const std::string user = userPrefix();
  std::set<std::string> names;
  for (const NamedSocket& named : listNames(user)) {
    const std::string rest = named.name.substr(user.size());  // "NAME/4711.9.3405691582"
    const size_t slash = rest.find('/');
    if (slash != std::string::npos && plainName(rest.substr(0, slash)) &&
        parseMember(rest.c_str() + slash + 1) && !foreign(named))
      names.insert(rest.substr(0, slash));
  }
  return names;
}

}  // namespace railwise::softdev
