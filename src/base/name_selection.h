// NCCL's grammar for choosing network interfaces (NCCL_SOCKET_IFNAME) and RDMA ports (NCCL_IB_HCA) by name.
#pragma once

#include <string_view>

namespace railwise {

// Is `name` (port `port`, -1: has none) chosen by `selection`? "" chooses all; "eth,mlx5" names that begin
// so; "=mlx5_1" just this name; "^docker" and "^=mlx5_1" all but these. An item may name a port, "mlx5_0:1";
// further fields (rail and plane) are not looked at. Source: NCCL 2.30.7, parseStringList and matchIfList in
// src/misc/utils.cc.
bool nameSelected(std::string_view selection, std::string_view name, int port = -1);

}  // namespace railwise
