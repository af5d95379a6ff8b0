// What RCCL takes of ROCm SMI: ../../amd.cc.
#pragma once

#include <cstddef>
#include <cstdint>

enum RSMI_IO_LINK_TYPE { RSMI_IOLINK_TYPE_UNDEFINED, RSMI_IOLINK_TYPE_PCIEXPRESS, RSMI_IOLINK_TYPE_XGMI };
enum rsmi_status_t { RSMI_STATUS_SUCCESS };
enum rsmi_fw_block_t { RSMI_FW_BLOCK_MEC };

rsmi_status_t rsmi_init(std::uint64_t flags);
rsmi_status_t rsmi_dev_firmware_version_get(std::uint32_t device, rsmi_fw_block_t block,
                                            std::uint64_t* version);
