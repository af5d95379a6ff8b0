// NCCL's grammar for choosing network interfaces (NCCL_SOCKET_IFNAME) and RDMA ports (NCCL_IB_HCA) by name.
// Source: NCCL 2.30.7, parseStringList and matchIfList in src/misc/utils.cc, and their use in
// src/transport/net_ib/init.cc. Pure functions.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace railwise {

// Does `selection` choose `name`? "" chooses all names; "eth,mlx5" chooses names that begin with either word;
// "=mlx5_1" chooses only this name; "^docker" and "^=mlx5_1" choose all other names. A list without names
// ("=", ",") chooses all, and "^" chooses none. If `port` is -1, any port matches.
bool nameSelected(std::string_view selection, std::string_view name, int port = -1);

// One item of NCCL_IB_HCA. "mlx5_0:1:2:3" means: port 1 of mlx5_0 is on rail 2 and plane 3. A field that is
// not given is -1.
struct PortItem {
  std::string name;
  int port = -1;
  int rail = -1;
  int plane = -1;
};

// The parsed value of NCCL_IB_HCA.
struct PortSelection {
  bool exclude = false;
  bool exact = false;
  std::vector<PortItem> items;
};

// Null when a field after a name is neither empty nor a number from -1 to 32767.
std::optional<PortSelection> parsePortSelection(std::string_view text);

// The names of the selection that no device has: items which neither choose nor exclude anything.
std::vector<std::string> namesOfNoDevice(const PortSelection& selection,
                                         const std::vector<std::string>& devices);

// What a selection says about one port. Rail and plane come from the first item that names the port.
struct PortChoice {
  bool selected = false;
  int rail = -1;
  int plane = -1;
};
PortChoice choosePort(const PortSelection& selection, std::string_view name, int port);

}  // namespace railwise
