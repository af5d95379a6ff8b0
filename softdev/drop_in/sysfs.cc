// ibv_read_sysfs_file: the attributes of /sys/class/infiniband/NAME. If the configuration has made a tree,
// its files are read. Otherwise the answer comes from the device itself. The texts are those of the kernel.
#include <endian.h>
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>

#include "base/settings/config.h"
#include "base/text/text_layout.h"
#include "softdev/config/values.h"
#include "softdev/drop_in/front.h"
#include "softdev/queues/objects.h"

namespace railwise::drop_in {
namespace {

// Reads a file as the original does: removes one trailing newline. -1: there is no such file, or no room for
// the final 0.
int readFile(const std::string& path, char* text, size_t size) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return -1;
  ssize_t length = read(fd, text, size);
  close(fd);
  if (length <= 0) return static_cast<int>(length);
  if (text[length - 1] == '\n') {
    text[--length] = '\0';
  } else if (static_cast<size_t>(length) < size) {
    text[length] = '\0';
  } else {
    errno = ENOSPC;
    return -1;
  }
  return static_cast<int>(length);
}

const char* portStateName(ibv_port_state state) {
  constexpr const char* kNames[] = {"NOP", "DOWN", "INIT", "ARMED", "ACTIVE", "ACTIVE_DEFER"};
  return state >= 0 && state <= IBV_PORT_ACTIVE_DEFER ? kNames[state] : "unknown";
}

// The attribute at ports/N/`file`. Empty: there is no such attribute.
std::string portAttribute(ibv_context* context, uint8_t port, std::string_view file) {
  ibv_port_attr attr;
  if (ibv_query_port(context, port, reinterpret_cast<_compat_ibv_port_attr*>(&attr)) != 0) return "";
  if (file == "state") return formatText("%u: %s", attr.state, portStateName(attr.state));
  if (file == "phys_state")
    return formatText("%u: %s", attr.phys_state, attr.phys_state == 5 ? "LinkUp" : "Disabled");
  if (file == "lid") return formatText("0x%x", attr.lid);
  if (file == "sm_lid") return formatText("0x%x", attr.sm_lid);
  if (file == "lid_mask_count") return formatText("%u", attr.lmc);
  if (file == "cap_mask") return formatText("0x%08x", attr.port_cap_flags);
  if (file == "link_layer") return attr.link_layer == IBV_LINK_LAYER_INFINIBAND ? "InfiniBand" : "Ethernet";
  uint64_t speed = 0;
  if (file == "rate" && softdev::queryPortSpeed(context, port, &speed) == 0)
    return formatText("%u Gb/sec", static_cast<unsigned>(speed / 10));
  unsigned index = 0;
  const std::string name(file);
  if (std::sscanf(name.c_str(), "pkeys/%u", &index) == 1) {
    __be16 pkey = 0;
    return ibv_query_pkey(context, port, static_cast<int>(index), &pkey) == 0
               ? formatText("0x%04x", be16toh(pkey))
               : "";
  }
  ibv_gid gid;
  if (std::sscanf(name.c_str(), "gids/%u", &index) == 1)
    return ibv_query_gid(context, port, static_cast<int>(index), &gid) == 0 ? softdev::sysGidText(gid.raw)
                                                                            : "";
  ibv_gid_entry entry;
  if (std::sscanf(name.c_str(), "gid_attrs/types/%u", &index) == 1 &&
      _ibv_query_gid_ex(context, port, index, &entry, 0, sizeof entry) == 0)
    return entry.gid_type == IBV_GID_TYPE_ROCE_V2 ? "RoCE v2" : "IB/RoCE v1";
  return "";
}

// Empty: there is no such attribute.
std::string attribute(softdev::Device& device, std::string_view file) {
  if (file == "fw_ver") return "railwise-" RAILWISE_VERSION;
  if (file == "board_id") return device.config.board.empty() ? "railwise-software" : device.config.board;
  if (file == "hca_type") return device.config.hca_type.empty() ? "software" : device.config.hca_type;
  if (file == "hw_rev") return "1";
  if (file == "node_type") return device.config.iwarp() ? "4: RNIC" : "1: CA";
  if (file == "node_desc") return device.name;
  if (file == "node_guid") return softdev::sysGuidText(be64toh(ibv_get_device_guid(&device)));
  if (file == "sys_image_guid") return softdev::sysGuidText(device.config.system_guid);
  unsigned port = 0;
  int consumed = 0;
  if (std::sscanf(std::string(file).c_str(), "ports/%u/%n", &port, &consumed) != 1 || consumed == 0 ||
      port > UINT8_MAX)
    return "";
  // Asks the device, not the configuration, because the table may change at run time.
  ibv_context* context = ibv_open_device(&device);
  if (context == nullptr) return "";
  const std::string text =
      portAttribute(context, static_cast<uint8_t>(port), file.substr(static_cast<size_t>(consumed)));
  ibv_close_device(context);
  return text;
}

// Finds the device with this sysfs folder.
softdev::Device* deviceOf(std::string_view folder) {
  while (folder.ends_with('/')) folder.remove_suffix(1);
  int count = 0;
  ibv_device** list = ibv_get_device_list(&count);
  softdev::Device* found = nullptr;
  for (int i = 0; i < count && found == nullptr; ++i)
    if (folder == list[i]->ibdev_path) found = static_cast<softdev::Device*>(list[i]);
  ibv_free_device_list(list);
  return found;
}

}  // namespace
}  // namespace railwise::drop_in

RAILWISE_EXPORT const char* ibv_get_sysfs_path() { return "/sys"; }

RAILWISE_EXPORT int ibv_read_sysfs_file(const char* folder, const char* file, char* text, size_t size) {
  using namespace railwise::drop_in;
  railwise::softdev::Device* device = deviceOf(folder);
  const std::string known = device != nullptr ? attribute(*device, file) : "";
  if (known.empty()) return readFile(std::string(folder) + "/" + file, text, size);
  if (known.size() >= size) {
    errno = ENOSPC;
    return -1;
  }
  std::memcpy(text, known.c_str(), known.size() + 1);
  return static_cast<int>(known.size());
}
