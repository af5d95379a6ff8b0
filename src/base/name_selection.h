// NCCL's grammar for choosing network interfaces (NCCL_SOCKET_IFNAME) and RDMA ports (NCCL_IB_HCA) by name.
// Source: NCCL 2.30.7, parseStringList and matchIfList in src/misc/utils.cc, and their use in
// src/transport/net_ib/init.cc. Pure functions.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace railwise {

// Is `name` chosen by `selection`? "" chooses all; "eth,mlx5" names that begin so; "=mlx5_1" just this name;
// "^docker" and "^=mlx5_1" all but these. A list without names ("=", ",") chooses all, and "^" none.
// `port` -1: of any port.
bool nameSelected(std::string_view selection, std::string_view name, int port = -1);

// "mlx5_0:1:2:3": port 1 of mlx5_0 is on rail 2 and plane 3. -1: not given.
struct PortItem {
  std::string name;
  int port = -1;
  int rail = -1;
  int plane = -1;
};

// NCCL_IB_HCA, parsed.
struct PortSelection {
  bool exclude = false;
  bool exact = false;
  std::vector<PortItem> items;
};

// Nothing when a field after a name is neither empty nor a number (-1 to 32767).
std::optional<PortSelection> parsePortSelection(std::string_view text);

// What a selection says of one port; rail and plane are those of the first item that names it.
struct PortChoice {
  bool selected = false;
  int rail = -1;
  int plane = -1;
};
PortChoice choosePort(const PortSelection& selection, std::string_view name, int port);

}  // namespace railwise
