#include "tests/kernel_objects.h"

#include <linux/netlink.h>
#include <rdma/rdma_netlink.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <functional>
#include <map>
#include <span>
#include <stdexcept>
#include <tuple>

namespace railwise::test {
namespace {

struct Kind {
  const char* name;
  int command;
  int table;   // the nest of all entries
  int entry;   // the nest of one
  int number;  // its number
};
constexpr Kind kKinds[] = {
    {"ctx", RDMA_NLDEV_CMD_RES_CTX_GET, RDMA_NLDEV_ATTR_RES_CTX, RDMA_NLDEV_ATTR_RES_CTX_ENTRY,
     RDMA_NLDEV_ATTR_RES_CTXN},
    {"pd", RDMA_NLDEV_CMD_RES_PD_GET, RDMA_NLDEV_ATTR_RES_PD, RDMA_NLDEV_ATTR_RES_PD_ENTRY,
     RDMA_NLDEV_ATTR_RES_PDN},
    {"mr", RDMA_NLDEV_CMD_RES_MR_GET, RDMA_NLDEV_ATTR_RES_MR, RDMA_NLDEV_ATTR_RES_MR_ENTRY,
     RDMA_NLDEV_ATTR_RES_MRN},
    {"cq", RDMA_NLDEV_CMD_RES_CQ_GET, RDMA_NLDEV_ATTR_RES_CQ, RDMA_NLDEV_ATTR_RES_CQ_ENTRY,
     RDMA_NLDEV_ATTR_RES_CQN},
    {"qp", RDMA_NLDEV_CMD_RES_QP_GET, RDMA_NLDEV_ATTR_RES_QP, RDMA_NLDEV_ATTR_RES_QP_ENTRY,
     RDMA_NLDEV_ATTR_RES_LQPN},
    {"srq", RDMA_NLDEV_CMD_RES_SRQ_GET, RDMA_NLDEV_ATTR_RES_SRQ, RDMA_NLDEV_ATTR_RES_SRQ_ENTRY,
     RDMA_NLDEV_ATTR_RES_SRQN},
    {"cm_id", RDMA_NLDEV_CMD_RES_CM_ID_GET, RDMA_NLDEV_ATTR_RES_CM_ID, RDMA_NLDEV_ATTR_RES_CM_ID_ENTRY,
     RDMA_NLDEV_ATTR_RES_CM_IDN},
};

[[noreturn]] void failed(const char* what, int error) {
  throw std::runtime_error(std::string("asking the kernel about its RDMA objects: ") + what + ": " +
                           std::strerror(error));
}

using Bytes = std::span<const std::byte>;

// Calls `each` with the number and the content of every attribute.
void forAttributes(Bytes bytes, const std::function<void(int, Bytes)>& each) {
  while (bytes.size() >= sizeof(nlattr)) {
    nlattr header;
    std::memcpy(&header, bytes.data(), sizeof header);
    if (header.nla_len < sizeof header || header.nla_len > bytes.size()) failed("a cut attribute", EPROTO);
    each(header.nla_type & NLA_TYPE_MASK,
         bytes.subspan(NLA_HDRLEN, header.nla_len - std::size_t{NLA_HDRLEN}));
    bytes = bytes.subspan(std::min<std::size_t>(NLA_ALIGN(header.nla_len), bytes.size()));
  }
}

template <typename T>
T numberOf(Bytes bytes) {
  T value = 0;
  std::memcpy(&value, bytes.data(), std::min(bytes.size(), sizeof value));
  return value;
}

class Netlink {
 public:
  Netlink() : fd_(socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_RDMA)) {
    if (fd_ < 0) failed("socket", errno);
  }
  ~Netlink() { close(fd_); }
  Netlink(const Netlink&) = delete;
  Netlink& operator=(const Netlink&) = delete;

  // Asks `command`, of a device or of all (negative); calls `each` with the attributes of every answer.
  void dump(int command, int64_t device, const std::function<void(Bytes)>& each) {
    struct {
      nlmsghdr header = {};
      nlattr attribute = {};
      uint32_t device = 0;
    } request;
    request.header.nlmsg_len = device < 0 ? NLMSG_HDRLEN : sizeof request;
    request.header.nlmsg_type = static_cast<uint16_t>(RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, command));
    request.header.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
    request.attribute.nla_len = sizeof request.attribute + sizeof request.device;
    request.attribute.nla_type = RDMA_NLDEV_ATTR_DEV_INDEX;
    request.device = static_cast<uint32_t>(device);
    if (send(fd_, &request, request.header.nlmsg_len, 0) < 0) failed("send", errno);
    while (receive(each)) {
    }
  }

 private:
  // False: that was the end.
  bool receive(const std::function<void(Bytes)>& each) {
    const ssize_t got = recv(fd_, buffer_.data(), buffer_.size(), 0);
    if (got < 0) failed("recv", errno);
    Bytes left(buffer_.data(), static_cast<std::size_t>(got));
    while (left.size() >= sizeof(nlmsghdr)) {
      nlmsghdr header;
      std::memcpy(&header, left.data(), sizeof header);
      if (header.nlmsg_len < NLMSG_HDRLEN || header.nlmsg_len > left.size()) failed("a cut message", EPROTO);
      const Bytes content = left.subspan(NLMSG_HDRLEN, header.nlmsg_len - std::size_t{NLMSG_HDRLEN});
      if (header.nlmsg_type == NLMSG_DONE) return false;
      if (header.nlmsg_type == NLMSG_ERROR) failed("refused", -numberOf<int32_t>(content));
      each(content);
      left = left.subspan(std::min<std::size_t>(NLMSG_ALIGN(header.nlmsg_len), left.size()));
    }
    return true;
  }

  int fd_;
  std::array<std::byte, 1 << 16> buffer_;
};

std::map<uint32_t, std::string> devices(Netlink& netlink) {
  std::map<uint32_t, std::string> found;
  netlink.dump(RDMA_NLDEV_CMD_GET, -1, [&](Bytes message) {
    uint32_t index = 0;
    std::string name;
    forAttributes(message, [&](int type, Bytes content) {
      if (type == RDMA_NLDEV_ATTR_DEV_INDEX) index = numberOf<uint32_t>(content);
      if (type == RDMA_NLDEV_ATTR_DEV_NAME) name = reinterpret_cast<const char*>(content.data());
    });
    found[index] = name;
  });
  return found;
}

}  // namespace

std::vector<KernelObject> kernelObjects(pid_t process) {
  Netlink netlink;
  std::vector<KernelObject> found;
  for (const auto& [index, name] : devices(netlink)) {
    for (const Kind& kind : kKinds) {
      const auto add = [&, device = name](Bytes entry) {
        KernelObject object{device, kind.name};
        pid_t owner = 0;  // the kernel's own have a name instead
        forAttributes(entry, [&](int type, Bytes content) {
          if (type == RDMA_NLDEV_ATTR_RES_PID) owner = numberOf<pid_t>(content);
          if (type == RDMA_NLDEV_ATTR_RES_MRLEN) object.bytes = numberOf<uint64_t>(content);
          if (type == kind.number) object.number = numberOf<uint32_t>(content);
        });
        if (owner == process) found.push_back(object);
      };
      netlink.dump(kind.command, index, [&](Bytes message) {
        forAttributes(message, [&](int type, Bytes table) {
          if (type != kind.table) return;
          forAttributes(table, [&](int each, Bytes entry) {
            if (each == kind.entry) add(entry);
          });
        });
      });
    }
  }
  std::ranges::sort(found, {}, [](const KernelObject& o) { return std::tie(o.device, o.kind, o.number); });
  return found;
}

std::string describe(const std::vector<KernelObject>& objects) {
  if (objects.empty()) return "nothing";
  std::string text;
  for (std::size_t i = 0; i < objects.size(); ++i) {
    const KernelObject& object = objects[i];
    if (i == 0 || object.device != objects[i - 1].device) text += (i == 0 ? "" : "; ") + object.device + ":";
    text += " " + object.kind + " " + std::to_string(object.number);
    if (object.bytes > 0) text += " (" + std::to_string(object.bytes) + " bytes)";
  }
  return text;
}

}  // namespace railwise::test
