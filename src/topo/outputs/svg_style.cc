#include "topo/outputs/svg_parts.h"

namespace railwise::topo {

std::string_view svgStyle() {
  return R"css(:root {
  color-scheme: light dark;
  --bg: #ffffff; --ink: #1c2733; --muted: #5a6a7b; --frame: #c9d3dd; --numa: #f3f6f9; --line: #8a9bac;
  --cpu: #3b4d61; --cpu-ink: #ffffff; --pci: #e2e8ee; --pci-line: #8fa1b3;
  --gpu: #e3f4e8; --gpu-line: #2f8f57; --nic: #e4edfd; --nic-line: #3f6fce; --nvs: #2f8f57; --nvs-ink: #ffffff;
  --nvl: #2f9e5f; --c2c: #8b4fc1; --sys: #b98211; --bad: #d2470e; --bad-fill: #fff0e6; --pick: #0b63e5;
}
@media (prefers-color-scheme: dark) {
  :root {
    --bg: #11171d; --ink: #e4ebf2; --muted: #98a8b8; --frame: #3a4856; --numa: #192129; --line: #6d7f90;
    --cpu: #55697e; --cpu-ink: #ffffff; --pci: #2a3641; --pci-line: #6d7f90;
    --gpu: #173323; --gpu-line: #4bb87a; --nic: #1a2a48; --nic-line: #6d9bf0; --nvs: #2f7d50; --nvs-ink: #ffffff;
    --nvl: #43b678; --c2c: #b68ae0; --sys: #d8a63f; --bad: #ff8a4c; --bad-fill: #3b2418; --pick: #69a7ff;
  }
}
.rw { background: var(--bg); font: 12px system-ui, "Segoe UI", "DejaVu Sans", Arial, sans-serif; }
.rw text { fill: var(--ink); text-anchor: middle; }
.rw .name { font-size: 13px; font-weight: 600; }
.rw .small { font: 11px ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; fill: var(--muted); }
.rw .head { font-size: 17px; font-weight: 600; text-anchor: start; }
.rw .sub, .rw .key text { fill: var(--muted); text-anchor: start; }
.rw .frame { fill: none; stroke: var(--frame); }
.rw .frame.numa { fill: var(--numa); stroke: none; }
.rw .frame.loose { fill: none; stroke: var(--bad); stroke-dasharray: 4 3; }
.rw .title { font-weight: 600; fill: var(--muted); text-anchor: start; }
.rw .wire { fill: none; stroke: var(--line); }
.rw .wire.nvl, .rw .wire.fabric { stroke: var(--nvl); }
.rw .wire.c2c { stroke: var(--c2c); }
.rw .wire.sys { stroke: var(--sys); }
.rw .wire.loc { stroke-dasharray: 3 3; }
.rw .wire.slow { stroke: var(--bad); stroke-dasharray: 6 3; }
.rw .speed { font-size: 10.5px; fill: var(--muted); text-anchor: start; paint-order: stroke; stroke: var(--bg); stroke-width: 3px; }
.rw .numa-speed { stroke: var(--numa); }
.rw .speed.slow { fill: var(--bad); font-weight: 700; }
.rw .box rect { stroke-width: 1.5; }
.rw .cpu rect { fill: var(--cpu); stroke: none; }
.rw .cpu text, .rw .cpu .small { fill: var(--cpu-ink); }
.rw .pci rect, .rw .cxb rect { fill: var(--pci); stroke: var(--pci-line); }
.rw .gpu rect { fill: var(--gpu); stroke: var(--gpu-line); }
.rw .net rect { fill: var(--nic); stroke: var(--nic-line); }
.rw .nic rect { fill: none; stroke: var(--nic-line); stroke-dasharray: 3 3; }
.rw .nvs rect { fill: var(--nvs); stroke: none; }
.rw .nvs text { fill: var(--nvs-ink); }
.rw .bad rect { stroke: var(--bad); stroke-width: 2.5; fill: var(--bad-fill); }
.rw .bad .state { fill: var(--bad); font-weight: 700; }
)css";
}

}  // namespace railwise::topo
