// Redirects paths for a program that runs below `railwise device run`: the parts of /sys that the tree in
// RAILWISE_SYSFS_ROOT has. Allocates nothing. Thread-safe after the first call. Keeps errno.
#pragma once

#include <cstddef>

namespace railwise::sysfs_preload {

constexpr std::size_t kPathSize = 4096;  // PATH_MAX

// The path to use instead of `path`, written to `buffer`. `path` itself if it is not redirected.
const char* redirected(const char* path, char (&buffer)[kPathSize]);

// Removes the root from a path that the kernel gave us, in place: programs must see /sys/devices/...
void restore(char* path);

}  // namespace railwise::sysfs_preload
