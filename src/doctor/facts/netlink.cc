#include "doctor/facts/netlink.h"

#include <linux/dcbnl.h>
#include <linux/ethtool.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <functional>
#include <string_view>
#include <vector>

#include "base/descriptor.h"

namespace railwise::doctor {
namespace {

void append(std::string& message, const void* bytes, std::size_t size) {
  message.append(static_cast<const char*>(bytes), size);
  message.append(NLMSG_ALIGN(size) - size, '\0');
}

// RTM_GETDCB with the command IEEE_GET for one interface.
std::string request(const std::string& interface) {
  dcbmsg dcb = {};
  dcb.dcb_family = AF_UNSPEC;
  dcb.cmd = DCB_CMD_IEEE_GET;
  std::string body;
  append(body, &dcb, sizeof dcb);
  rtattr name = {};
  name.rta_type = DCB_ATTR_IFNAME;
  name.rta_len = static_cast<unsigned short>(RTA_LENGTH(interface.size() + 1));
  body.append(reinterpret_cast<const char*>(&name), sizeof name);
  append(body, interface.c_str(), interface.size() + 1);
  nlmsghdr header = {};
  header.nlmsg_len = static_cast<uint32_t>(NLMSG_LENGTH(body.size()));
  header.nlmsg_type = RTM_GETDCB;
  header.nlmsg_flags = NLM_F_REQUEST;
  std::string message(reinterpret_cast<const char*>(&header), sizeof header);
  return message + body;
}

// Calls `visit` for each attribute in `bytes`.
void forAttributes(std::string_view bytes, const std::function<void(unsigned, std::string_view)>& visit) {
  while (bytes.size() >= sizeof(rtattr)) {
    rtattr attribute;
    std::memcpy(&attribute, bytes.data(), sizeof attribute);
    if (attribute.rta_len < sizeof attribute || attribute.rta_len > bytes.size()) return;
    visit(attribute.rta_type & NLA_TYPE_MASK,
          bytes.substr(sizeof attribute, attribute.rta_len - sizeof attribute));
    bytes.remove_prefix(std::min<std::size_t>(RTA_ALIGN(attribute.rta_len), bytes.size()));
  }
}

void appendPfc(std::string_view bytes, std::string& text) {
  ieee_pfc pfc = {};
  if (bytes.size() < offsetof(ieee_pfc, requests)) return;
  std::memcpy(&pfc, bytes.data(), std::min(bytes.size(), sizeof pfc));
  char line[32];
  std::snprintf(line, sizeof line, "pfc 0x%02x\n", pfc.pfc_en);
  text += line;
}

// Where the driver maps DSCPs, it trusts them.
void appendApps(std::string_view table, std::string& text) {
  bool dscp = false;
  forAttributes(table, [&](unsigned, std::string_view bytes) {
    dcb_app app = {};
    if (bytes.size() < sizeof app) return;
    std::memcpy(&app, bytes.data(), sizeof app);
    if (app.selector != IEEE_8021QAZ_APP_SEL_DSCP) return;
    dscp = true;
    text += "dscp " + std::to_string(app.protocol) + " " + std::to_string(app.priority) + "\n";
  });
  if (dscp) text += "trust dscp\n";
}

// The link modes of `enum ethtool_link_mode_bit_indices` with the speeds of RDMA NICs: first and last bit of
// a run, Mb/s. Source: Linux 6.12, include/uapi/linux/ethtool.h.
struct Modes {
  unsigned first, last;
  int mbps;
};
constexpr Modes kModes[] = {{12, 12, 10000},  {18, 20, 10000},    {23, 26, 40000},    {27, 30, 56000},
                            {31, 33, 25000},  {34, 35, 50000},    {36, 39, 100000},   {40, 40, 50000},
                            {42, 46, 10000},  {52, 56, 50000},    {57, 61, 100000},   {62, 66, 200000},
                            {69, 73, 400000}, {75, 79, 100000},   {80, 84, 200000},   {85, 89, 400000},
                            {93, 98, 800000}, {103, 108, 200000}, {109, 114, 400000}, {115, 120, 800000}};

constexpr std::size_t kMostWords = 127;  // link_mode_masks_nwords is an s8

}  // namespace

std::string dcbText(const std::string& interface) {
  const Descriptor socket(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE));
  const timeval limit = {.tv_sec = 0, .tv_usec = 200000};
  if (!socket.valid() || interface.size() >= IFNAMSIZ) return {};
  ::setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  const std::string message = request(interface);
  if (::send(socket.get(), message.data(), message.size(), 0) != static_cast<ssize_t>(message.size()))
    return {};
  std::string answer(16384, '\0');
  const ssize_t got = ::recv(socket.get(), answer.data(), answer.size(), 0);
  constexpr std::size_t kHeaders = NLMSG_HDRLEN + NLMSG_ALIGN(sizeof(dcbmsg));
  if (got < static_cast<ssize_t>(kHeaders)) return {};
  nlmsghdr header;
  std::memcpy(&header, answer.data(), sizeof header);
  if (header.nlmsg_type != RTM_GETDCB) return {};  // an error: no DCB
  std::string text;
  const auto body = std::string_view(answer).substr(kHeaders, static_cast<std::size_t>(got) - kHeaders);
  forAttributes(body, [&](unsigned type, std::string_view ieee) {
    if (type != DCB_ATTR_IEEE) return;
    forAttributes(ieee, [&](unsigned inner, std::string_view bytes) {
      if (inner == DCB_ATTR_IEEE_PFC) appendPfc(bytes, text);
      if (inner == DCB_ATTR_IEEE_APP_TABLE) appendApps(bytes, text);
    });
  });
  return text;
}

int fastestLinkMode(const std::string& interface) {
  const Descriptor socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket.valid() || interface.size() >= IFNAMSIZ) return 0;
  std::vector<uint32_t> words(sizeof(ethtool_link_settings) / sizeof(uint32_t) + 3 * kMostWords);
  const auto ask = [&](int8_t count) {
    ethtool_link_settings settings = {};
    settings.cmd = ETHTOOL_GLINKSETTINGS;
    settings.link_mode_masks_nwords = count;
    std::memcpy(words.data(), &settings, sizeof settings);
    ifreq asked = {};
    std::memcpy(asked.ifr_name, interface.c_str(), interface.size() + 1);
    asked.ifr_data = reinterpret_cast<char*>(words.data());
    if (::ioctl(socket.get(), SIOCETHTOOL, &asked) != 0) return int8_t{0};
    std::memcpy(&settings, words.data(), sizeof settings);
    return settings.link_mode_masks_nwords;
  };
  const int8_t count = ask(0);  // the kernel answers with the negative number of words
  if (count >= 0 || ask(static_cast<int8_t>(-count)) != -count) return 0;
  const uint32_t* const supported = words.data() + sizeof(ethtool_link_settings) / sizeof(uint32_t);
  const auto has = [&](unsigned bit) {
    return bit / 32 < static_cast<unsigned>(-count) && (supported[bit / 32] >> bit % 32 & 1) != 0;
  };
  int fastest = 0;
  for (const Modes& modes : kModes)
    for (unsigned bit = modes.first; bit <= modes.last; ++bit)
      if (has(bit)) fastest = std::max(fastest, modes.mbps);
  return fastest;
}

}  // namespace railwise::doctor
