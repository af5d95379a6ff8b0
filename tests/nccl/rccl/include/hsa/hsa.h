// What RCCL takes of HSA, the runtime below HIP. The library itself is ../../hsa.cc.
#pragma once

#include <cstddef>
#include <cstdint>

enum hsa_status_t { HSA_STATUS_SUCCESS, HSA_STATUS_ERROR = 0x1000 };
enum hsa_system_info_t { HSA_SYSTEM_INFO_VERSION_MAJOR, HSA_SYSTEM_INFO_VERSION_MINOR };
