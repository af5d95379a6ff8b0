// ibv_read_sysfs_file: the attributes of /sys/class/infiniband/NAME. A tree that the configuration has made
// is read as it is; where there is none, what the device itself knows is answered. Texts are those of the
// kernel.
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>

#include "base/config.h"
#include "softdev/objects.h"
#include "verbs_front/front.h"

namespace railwise::verbs_front {
namespace {

// Read like the original: one trailing newline goes; -1 when there is no such file or no room for the final
// 0.
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

std::string guidText(uint64_t guid) {
  char text[40];
  std::snprintf(text, sizeof text, "%04x:%04x:%04x:%04x", static_cast<unsigned>(guid >> 48),
                static_cast<unsigned>(guid >> 32 & 0xffff), static_cast<unsigned>(guid >> 16 & 0xffff),
                static_cast<unsigned>(guid & 0xffff));
  return text;
}

// Empty: no such attribute.
std::string attribute(const softdev::Device& device, std::string_view file) {
  if (file == "fw_ver") return "railwise-" RAILWISE_VERSION;
  if (file == "board_id") return "railwise-software";
  if (file == "hca_type") return "software";
  if (file == "hw_rev") return "1";
  if (file == "node_type") return "1: CA";
  if (file == "node_desc") return device.name;
  if (file == "node_guid" || file == "sys_image_guid") return guidText(device.config.guid);
  return "";
}

// The device whose folder this is.
const softdev::Device* deviceOf(std::string_view folder) {
  while (folder.ends_with('/')) folder.remove_suffix(1);
  int count = 0;
  ibv_device** list = ibv_get_device_list(&count);
  const softdev::Device* found = nullptr;
  for (int i = 0; i < count && found == nullptr; ++i)
    if (folder == list[i]->ibdev_path) found = static_cast<const softdev::Device*>(list[i]);
  ibv_free_device_list(list);
  return found;
}

}  // namespace
}  // namespace railwise::verbs_front

RAILWISE_EXPORT const char* ibv_get_sysfs_path() { return "/sys"; }

RAILWISE_EXPORT int ibv_read_sysfs_file(const char* folder, const char* file, char* text, size_t size) {
  using namespace railwise::verbs_front;
  const railwise::softdev::Device* device = deviceOf(folder);
  const std::string known = device != nullptr ? attribute(*device, file) : "";
  if (known.empty()) return readFile(std::string(folder) + "/" + file, text, size);
  if (known.size() >= size) {
    errno = ENOSPC;
    return -1;
  }
  std::memcpy(text, known.c_str(), known.size() + 1);
  return static_cast<int>(known.size());
}
