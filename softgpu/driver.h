// The driver's functions that a program gets through cudaGetDriverEntryPoint.
#pragma once

#include <string_view>

namespace softgpu {

// Null: the software GPU has no such function.
void* driverFunction(std::string_view name);

}  // namespace softgpu
