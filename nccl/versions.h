// The versions of NCCL's plugin APIs that Railwise has: the newest and the oldest of each.
#pragma once

namespace railwise {

#define RAILWISE_NET_VERSIONS(X) X(6) X(7) X(8) X(9) X(10) X(11) X(12)
inline constexpr int kOldestApi = 6;
inline constexpr int kNewestApi = 12;
inline constexpr int kOldestRmaApi = 13;
inline constexpr int kNewestRmaApi = 16;
inline constexpr int kGinApi = 11;  // the release after it has RMA tables
inline constexpr int kOldestTuner = 2;
inline constexpr int kNewestTuner = 6;

}  // namespace railwise
