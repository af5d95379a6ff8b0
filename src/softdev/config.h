// The devices of this process, as the user described them. Plain values, parsed once by configure().
// Grammar: devices separated by ';', each a list of key=value separated by ','. Text that begins with '/',
// './' or '@' names a file instead (one device a line or several with ';', '#' begins a comment, spaces
// separate keys as well).
//   name=TEXT               device name (default soft0, soft1 ...; numbered when count > 1)
//   count=N                 this stanza N times
//   speed=MBPS              port speed in Mb/s (default 400000)
//   link=roce|ib            also ethernet, infiniband (default roce)
//   mtu=BYTES               256, 512, 1024, 2048 or 4096 (default 4096)
//   guid=HEX                16 hexadecimal digits, ':' allowed (default made from the name); count > 1 adds
//   one each gid=ADDR[/TYPE]         next entry of the GID table: IPv6 or IPv4 text; type ib, v1 or v2
//   (default by link) pci=BDF|PATH            0000:3b:00.0 or a path below /sys that the device reports as
//   its PCI device port_state=active|down  (default active) max_qp=N  max_inline=BYTES  max_msg=BYTES limits
//   the device reports and enforces fabric=NAME             which processes can talk to each other: all with
//   the same name (default "default")
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "softdev/segment.h"

namespace railwise::softdev {

enum class GidType : uint32_t { kIb, kRoceV1, kRoceV2 };

struct DeviceConfig {
  std::string name;
  uint32_t speed_mbps = 400000;
  uint8_t active_width = 2;    // 4x
  uint8_t active_speed = 128;  // NDR
  uint8_t link_layer = IBV_LINK_LAYER_ETHERNET;
  ibv_mtu mtu = IBV_MTU_4096;
  uint64_t guid = 0;  // 0 until completed
  std::vector<Gid> gids;
  std::string pci;
  bool active = true;
  uint32_t max_qp = 16384;
  uint32_t max_inline_bytes = 220;
  uint32_t max_message_bytes = 1U << 30;
  uint32_t ports = 1;        // of the device, all alike
  bool paced = false;        // port speed and latency_ns are kept to (time.h)
  uint32_t latency_ns = 0;   // from post to completion, at least
  std::string pcie_link;     // ports with the same name share it; "": a link of its own
  uint32_t pcie_mbps = 0;    // its bandwidth, each direction; 0: no limit
  bool engine = false;       // an engine thread executes what is posted
  bool adversarial = false;  // bytes of a message become visible in an order that no program may rely on
};

struct Config {
  std::string fabric = "default";
  std::string host;  // that this process plays; "": the machine's own name
  uint64_t seed = 1;
  std::vector<DeviceConfig> devices;
};

// Parses `text` (null or "": defaults). On a mistake gives one WARN and kInvalidUsage.
Result<Config> parseConfig(const char* text);

// Width and speed codes of verbs for a port speed; false when verbs has none.
bool speedCodes(uint32_t mbps, uint8_t* width, uint8_t* speed);

}  // namespace railwise::softdev
