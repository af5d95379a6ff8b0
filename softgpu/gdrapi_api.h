// What we need of gdrapi.h: GDRCopy 2.5's documented names, values and structures.
#pragma once

#include <cstddef>
#include <cstdint>

extern "C" {

struct gdr;
typedef struct gdr* gdr_t;

// A pinned range of device memory.
struct gdr_mh_t {
  unsigned long h;
};

enum gdr_mapping_type_t { GDR_MAPPING_TYPE_NONE = 0, GDR_MAPPING_TYPE_CACHING = 2 };

// What gdr_get_info() fills in; gdr_get_info_v2() adds the last field.
struct gdr_info_t {
  uint64_t va;
  uint64_t mapped_size;
  uint32_t page_size;
  uint64_t tm_cycles;
  uint32_t cycles_per_ms;
  unsigned mapped : 1;
  unsigned wc_mapping : 1;
};
struct gdr_info_v2_t {
  gdr_info_t info;
  gdr_mapping_type_t mapping_type;
};
static_assert(sizeof(gdr_info_t) == 40);

enum { GDR_PIN_FLAG_DEFAULT = 0, GDR_PIN_FLAG_FORCE_PCIE = 1 };

enum gdr_attr_t { GDR_ATTR_USE_PERSISTENT_MAPPING = 1, GDR_ATTR_SUPPORT_PIN_FLAG_FORCE_PCIE = 2 };

}  // extern "C"
