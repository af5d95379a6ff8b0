// What a device says of itself. The runtime and the driver number their attributes alike.
#pragma once

#include <optional>

#include "device.h"

namespace softgpu {

// Nothing: the software GPU does not know the attribute.
std::optional<int> deviceAttribute(const Device& device, int attribute);

}  // namespace softgpu
