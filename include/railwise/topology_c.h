/* librailwise-topology for C (C99) and for whatever calls C: NCCL's view of a machine, with JSON as the
 * answer. <railwise/topology.h> is the same for C++, with types; the rules that it names hold here.
 *
 * Errors: a function that can fail takes `char** error`, which may be NULL. On failure it returns NULL (or
 * -1) and sets *error to a text of its own (what is wrong, where, what to do); on success it sets *error to
 * NULL. *error is NULL in one case more: there was no memory even for the text.
 *
 * Memory: every `char*` that comes out, errors included, goes back through railwise_topology_string_free().
 *
 * Threads: a machine never changes: any number of threads may use one, until railwise_topology_free(). There
 * is no global state, the environment is not read, and nothing is printed.
 *
 * Units: GB/s (10^9 bytes per second) in one direction; Mb/s for the speed of a NIC.
 *
 * ABI: functions are added, never changed; structures begin with their size and grow at the end. */
#ifndef RAILWISE_TOPOLOGY_C_H
#define RAILWISE_TOPOLOGY_C_H

#include <stddef.h>

#if defined(__GNUC__)
#define RAILWISE_TOPOLOGY_C_API __attribute__((visibility("default")))
#else
#define RAILWISE_TOPOLOGY_C_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* "0.1.0": the version of the library that runs. Static storage: not to be freed. */
RAILWISE_TOPOLOGY_C_API const char* railwise_topology_version(void);

/* A machine; opaque. */
typedef struct railwise_topology railwise_topology_t;

#define RAILWISE_TOPOLOGY_NCCL_NEWEST 0 /* the newest with rules that are known: 2.31.2 */
#define RAILWISE_TOPOLOGY_NCCL_2_28 22809
#define RAILWISE_TOPOLOGY_NCCL_2_30 23007
#define RAILWISE_TOPOLOGY_NCCL_2_31 23102

/* The value of `nccl` for a release as people write it: "2.30.7", or "2.30" for the newest of 2.30; NULL: the
 * newest with rules that are known. -1: it is no release from 2.13 on. */
RAILWISE_TOPOLOGY_C_API int railwise_topology_nccl_release(const char* text, char** error);

/* What NCCL would know besides the file or tree. A 0 anywhere but in `size` is the default. */
typedef struct railwise_topology_options {
  size_t size; /* sizeof(railwise_topology_options_t) of the caller */
  int nccl;    /* whose rules: RAILWISE_TOPOLOGY_NCCL_*, or a release as NCCL_VERSION_CODE, e.g. 23004 */
  /* Compute capability times ten of GPUs that are not described. 0 (with nvswitch_links 0): that of GPUs that
   * are known by their PCI ids, with their NVLinks; else 80. */
  int gpu_sm;
  int nvswitch_links; /* NVLinks from each such GPU to an NVSwitch */
  int nic_speed_mbps; /* Mb/s of NICs whose speed is not known; 0: 400000 */
  int fuse_nics;      /* 1: merge NICs as NCCL does at init, also in a file that describes them */
  int xgmi_as_nvlink; /* 1: AMD links with NCCL's NVLink constants instead of RCCL's bandwidths */
  const char* cpu; /* for trees: "x86_64,GenuineIntel,6,143"; NULL: the recorded one, else the running CPU */
  /* NCCL's variables as "NAME=VALUE", ended by NULL; others than NCCL's are ignored, so that `environ`
   * serves. NULL: none is set. */
  const char* const* variables;
} railwise_topology_options_t;

#define RAILWISE_TOPOLOGY_OPTIONS_INIT \
  { sizeof(railwise_topology_options_t), RAILWISE_TOPOLOGY_NCCL_NEWEST, 0, 0, 0, 0, 0, NULL, NULL }

/* Machines. options NULL: the defaults. NULL: it failed; else to be freed.
 * load_file:   an NCCL topology file.
 * load_text:   the same from memory, `length` bytes; `name` stands for the file in messages (NULL:
 *              "topology").
 * load_sysfs:  the /sys below `root`: "/" is this machine, whose GPUs' libraries (NVIDIA's, AMD's) are asked
 *              in child processes for at most 2 s; else a folder with sys/ in it, or a .tar.gz of one.
 * load_merged: a file laid over a /sys, as NCCL lays NCCL_TOPO_FILE over the machine. */
RAILWISE_TOPOLOGY_C_API railwise_topology_t* railwise_topology_load_file(
    const char* path, const railwise_topology_options_t* options, char** error);
RAILWISE_TOPOLOGY_C_API railwise_topology_t* railwise_topology_load_text(
    const char* xml, size_t length, const char* name, const railwise_topology_options_t* options,
    char** error);
RAILWISE_TOPOLOGY_C_API railwise_topology_t* railwise_topology_load_sysfs(
    const char* root, const railwise_topology_options_t* options, char** error);
RAILWISE_TOPOLOGY_C_API railwise_topology_t* railwise_topology_load_merged(
    const char* file, const char* root, const railwise_topology_options_t* options, char** error);
/* NULL is allowed. */
RAILWISE_TOPOLOGY_C_API void railwise_topology_free(railwise_topology_t* machine);

/* How many GPUs and network devices it has; -1: machine is NULL. */
RAILWISE_TOPOLOGY_C_API int railwise_topology_gpu_count(const railwise_topology_t* machine);
RAILWISE_TOPOLOGY_C_API int railwise_topology_net_count(const railwise_topology_t* machine);

/* The network devices (by index) of a GPU (by index) for channel 0, 1, ... until they repeat. Writes at most
 * `capacity` of them and returns how many there are; -1: it failed. */
RAILWISE_TOPOLOGY_C_API int railwise_topology_chosen_nets(const railwise_topology_t* machine, int gpu,
                                                          int* nets, int capacity, char** error);

/* The machine as text, to be freed; NULL: it failed. Schema of the JSON: docs/topology-json.md.
 * json:    everything.  matrix: the look of `nvidia-smi topo -m`.  xml: as NCCL would dump it.
 * svg:     a drawing.  html: one page that needs nothing else. */
RAILWISE_TOPOLOGY_C_API char* railwise_topology_json(const railwise_topology_t* machine, char** error);
RAILWISE_TOPOLOGY_C_API char* railwise_topology_matrix(const railwise_topology_t* machine, char** error);
RAILWISE_TOPOLOGY_C_API char* railwise_topology_xml(const railwise_topology_t* machine, char** error);
RAILWISE_TOPOLOGY_C_API char* railwise_topology_svg(const railwise_topology_t* machine, char** error);
RAILWISE_TOPOLOGY_C_API char* railwise_topology_html(const railwise_topology_t* machine, char** error);

/* The GPUs as their vendors describe them, their links, and the NICs of each. Schema: docs/gpus.md. */
RAILWISE_TOPOLOGY_C_API char* railwise_topology_gpus_json(const railwise_topology_t* machine, char** error);

/* Why each GPU uses the NICs that it uses; gpu: an index, -1: all. */
RAILWISE_TOPOLOGY_C_API char* railwise_topology_explain(const railwise_topology_t* machine, int gpu,
                                                        char** error);
RAILWISE_TOPOLOGY_C_API char* railwise_topology_explain_json(const railwise_topology_t* machine, int gpu,
                                                             char** error);

/* Which GPUs railwise_topology_pick_json() may take. Lists name ranks, "0-3,7". */
typedef struct railwise_topology_pick_options {
  size_t size;         /* sizeof(railwise_topology_pick_options_t) of the caller */
  const char* of;      /* only among these; NULL: all */
  const char* exclude; /* not these; NULL: none */
  const char* nic;     /* only these NICs count, "mlx5_0,mlx5_1"; NULL: all */
  int occupied;        /* 1: also GPUs on which a process has memory */
} railwise_topology_pick_options_t;

#define RAILWISE_TOPOLOGY_PICK_OPTIONS_INIT \
  { sizeof(railwise_topology_pick_options_t), NULL, NULL, NULL, 0 }

/* Which `count` GPUs a job should take, and why, as `railwise gpus pick --json` tells it. options NULL: the
 * defaults. */
RAILWISE_TOPOLOGY_C_API char* railwise_topology_pick_json(const railwise_topology_t* machine, int count,
                                                          const railwise_topology_pick_options_t* options,
                                                          char** error);

/* What differs between two machines; `equal` in the JSON says whether anything does. */
RAILWISE_TOPOLOGY_C_API char* railwise_topology_diff(const railwise_topology_t* left,
                                                     const railwise_topology_t* right, char** error);
RAILWISE_TOPOLOGY_C_API char* railwise_topology_diff_json(const railwise_topology_t* left,
                                                          const railwise_topology_t* right, char** error);

/* What is wrong with a file although NCCL may say nothing: {"file", "accepted", "findings": [{"severity",
 * "rule", "line", "column", "text", "fix"}]}. A file that NCCL refuses, or that cannot be read, is accepted:
 * false. */
RAILWISE_TOPOLOGY_C_API char* railwise_topology_lint_json(const char* path, char** error);

typedef struct railwise_topology_generate_options {
  size_t size;                /* sizeof(railwise_topology_generate_options_t) of the caller */
  const char* pairing;        /* "order", "bus" or "table"; NULL: "order" */
  const char* table;          /* for "table": one bridge for each line: PCI addresses, and node=N */
  int gpus_per_bridge;        /* for "order"; 0: by the generation of the GPUs' links */
  int force;                  /* 1: also where a PCIe tree is really there */
  const char* nic_class;      /* "0x0207", a prefix; NULL: InfiniBand where there is any, else Ethernet */
  const char* nic_device;     /* "0x101e" or "0x15b3:0x101e"; NULL: any */
  const char* cpu;            /* as in railwise_topology_options_t */
  const char* const* exclude; /* PCI addresses or device ids, ended by NULL; NULL: none */
} railwise_topology_generate_options_t;

#define RAILWISE_TOPOLOGY_GENERATE_OPTIONS_INIT \
  { sizeof(railwise_topology_generate_options_t), NULL, NULL, 0, 0, NULL, NULL, NULL, NULL }

/* The topology file of a VM whose PCIe tree is hidden, for NCCL_TOPO_FILE. remarks: NULL, or where to put a
 * text of what was decided and why, one remark a line (NULL on failure). */
RAILWISE_TOPOLOGY_C_API char* railwise_topology_generate(const char* root,
                                                         const railwise_topology_generate_options_t* options,
                                                         char** remarks, char** error);

/* Of every text that came out of a function above; NULL is allowed. */
RAILWISE_TOPOLOGY_C_API void railwise_topology_string_free(char* text);

#ifdef __cplusplus
}
#endif

#endif
