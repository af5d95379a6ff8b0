// Codes of static rates, with their value as a multiple of 2.5 Gb/s and in Mb/s on the wire. Rates of lanes
// with 64b/66b coding (14, 25, 28, 53 and 106 Gb/s per lane) are not multiples of 2500. ibv_rate_to_mult(3)
// gives some of them a rounded multiple and others none, and callers depend on that.
#include "softdev/drop_in/front.h"

namespace {

constexpr int kNone = -1;

struct Rate {
  ibv_rate code;
  int multiple;  // of 2.5 Gb/s
  int mbps;
};

constexpr Rate kRates[] = {
    {IBV_RATE_2_5_GBPS, 1, 2500},       {IBV_RATE_5_GBPS, 2, 5000},
    {IBV_RATE_10_GBPS, 4, 10000},       {IBV_RATE_20_GBPS, 8, 20000},
    {IBV_RATE_30_GBPS, 12, 30000},      {IBV_RATE_40_GBPS, 16, 40000},
    {IBV_RATE_60_GBPS, 24, 60000},      {IBV_RATE_80_GBPS, 32, 80000},
    {IBV_RATE_120_GBPS, 48, 120000},    {IBV_RATE_14_GBPS, kNone, 14062},
    {IBV_RATE_56_GBPS, kNone, 56250},   {IBV_RATE_112_GBPS, kNone, 112500},
    {IBV_RATE_168_GBPS, kNone, 168750}, {IBV_RATE_25_GBPS, kNone, 25781},
    {IBV_RATE_100_GBPS, kNone, 103125}, {IBV_RATE_200_GBPS, kNone, 206250},
    {IBV_RATE_300_GBPS, kNone, 309375}, {IBV_RATE_28_GBPS, 11, 28125},
    {IBV_RATE_50_GBPS, 20, 53125},      {IBV_RATE_400_GBPS, 160, 425000},
    {IBV_RATE_600_GBPS, 240, 637500},   {IBV_RATE_800_GBPS, 320, 850000},
    {IBV_RATE_1200_GBPS, 480, 1275000},
};

}  // namespace

RAILWISE_EXPORT int ibv_rate_to_mult(ibv_rate code) {
  for (const Rate& rate : kRates)
    if (rate.code == code) return rate.multiple;
  return kNone;
}

RAILWISE_EXPORT ibv_rate mult_to_ibv_rate(int multiple) {
  for (const Rate& rate : kRates)
    if (rate.multiple == multiple && multiple != kNone) return rate.code;
  return IBV_RATE_MAX;
}

RAILWISE_EXPORT int ibv_rate_to_mbps(ibv_rate code) {
  for (const Rate& rate : kRates)
    if (rate.code == code) return rate.mbps;
  return kNone;
}

RAILWISE_EXPORT ibv_rate mbps_to_ibv_rate(int mbps) {
  for (const Rate& rate : kRates)
    if (rate.mbps == mbps) return rate.code;
  return IBV_RATE_MAX;
}
