// Checks of collectives whose buffers are memory windows.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "checks.h"
#include "traffic.h"
#include "window.h"

#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 27, 3)

namespace {

std::size_t size(int ranks) { return static_cast<std::size_t>(ranks); }

// From every rank to every rank; a window has a share for each.
std::size_t allGather(const Communicator& main, const Communicator& on, const Window& from, const Window& to,
                      std::size_t bytes, uint32_t round) {
  to.clear();
  from.write(0, message(bytes, on.rank, 0, round));
  barrier(main);
  MUST(ncclAllGather(from.at(), to.at(), bytes, ncclInt8, on.comm, on.stream));
  on.wait();
  std::vector<unsigned char> expected;
  for (int rank = 0; rank < on.ranks; ++rank) {
    const std::vector<unsigned char> share = message(bytes, rank, 0, round);
    expected.insert(expected.end(), share.begin(), share.end());
  }
  expected.resize(to.bytes(), Window::kEmpty);
  return differing(to.read(), expected);
}

std::size_t allReduce(const Communicator& main, const Communicator& on, const Window& from, const Window& to,
                      std::size_t bytes, uint32_t round) {
  to.clear();
  from.write(0, message(bytes, on.rank, 1, round));
  barrier(main);
  MUST(ncclAllReduce(from.at(), to.at(), bytes, ncclUint8, ncclSum, on.comm, on.stream));
  on.wait();
  std::vector<unsigned char> expected(bytes, 0);
  for (int rank = 0; rank < on.ranks; ++rank) {
    const std::vector<unsigned char> share = message(bytes, rank, 1, round);
    for (std::size_t i = 0; i < bytes; ++i) expected[i] = static_cast<unsigned char>(expected[i] + share[i]);
  }
  expected.resize(to.bytes(), Window::kEmpty);
  return differing(to.read(), expected);
}

std::size_t shiftByOne(const Communicator& main, const Communicator& on, const Window& from, const Window& to,
                       std::size_t bytes, uint32_t round) {
  to.clear();
  const int previous = (on.rank + on.ranks - 1) % on.ranks;
  from.write(0, message(bytes, on.rank, 2, round));
  barrier(main);
  MUST(ncclGroupStart());
  MUST(ncclSend(from.at(), bytes, ncclInt8, (on.rank + 1) % on.ranks, on.comm, on.stream));
  MUST(ncclRecv(to.at(), bytes, ncclInt8, previous, on.comm, on.stream));
  MUST(ncclGroupEnd());
  on.wait();
  std::vector<unsigned char> expected = message(bytes, previous, 2, round);
  expected.resize(to.bytes(), Window::kEmpty);
  return differing(to.read(), expected);
}

}  // namespace

// Windows of both modes: as a registration of buffers alone, and symmetric.
void checkWindows(const Communicator& main) {
  for (const int flags : {NCCL_WIN_DEFAULT, NCCL_WIN_COLL_SYMMETRIC}) {
    const std::string name = flags == NCCL_WIN_DEFAULT ? "windows" : "symmetric windows";
    beginCheck(name);
    std::size_t bad = 0;
    const Communicator on(flags == NCCL_WIN_DEFAULT ? "windows" : "symmetric_windows");
    const Window from(on, options.max, flags);
    const Window to(on, options.max * size(on.ranks), flags);
    if (flags != NCCL_WIN_DEFAULT && !isSymmetric(to)) return;
    for (const std::size_t bytes : {std::size_t{1}, std::size_t{4099}, options.max}) {
      const auto round = static_cast<uint32_t>(bytes);
      bad += allGather(main, on, from, to, bytes, round) + allReduce(main, on, from, to, bytes, round) +
             shiftByOne(main, on, from, to, bytes, round);
    }
    endCheck(name, bad);
  }
}
#endif

#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 29, 2)

namespace {

std::size_t allToAll(const Communicator& main, const Communicator& on, const Window& from, const Window& to,
                     std::size_t bytes, uint32_t round) {
  to.clear();
  std::vector<unsigned char> expected;
  for (int rank = 0; rank < on.ranks; ++rank) {
    from.write(size(rank) * bytes, message(bytes, on.rank, rank, round));
    const std::vector<unsigned char> share = message(bytes, rank, on.rank, round);
    expected.insert(expected.end(), share.begin(), share.end());
  }
  barrier(main);
  MUST(ncclAlltoAll(from.at(), to.at(), bytes, ncclInt8, on.comm, on.stream));
  on.wait();
  expected.resize(to.bytes(), Window::kEmpty);
  return differing(to.read(), expected);
}

ncclConfig_t withoutCta() {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.CTAPolicy = NCCL_CTA_POLICY_ZERO;
  return config;
}

class ZeroCtaTraffic : public OneSidedTraffic {
 public:
  ZeroCtaTraffic(const Communicator& main, const std::string& name)
      : main_(main),
        on_(name, &config_),
        from_(on_, bytes(), NCCL_WIN_COLL_SYMMETRIC),
        to_(on_, bytes(), NCCL_WIN_COLL_SYMMETRIC) {}

  bool isPossible() const { return isSymmetric(to_); }

  std::size_t exchange(std::size_t bytes, std::size_t round) override {
    const auto salt = static_cast<uint32_t>(round);
    return round % 2 == 0 ? allGather(main_, on_, from_, to_, bytes, salt)
                          : allToAll(main_, on_, from_, to_, bytes, salt);
  }
  // The next collective would show it.
  std::size_t surplus() override { return exchange(8, 0) + exchange(8, 1); }

 private:
  static std::size_t bytes() { return options.max * size(options.ranks); }

  const Communicator& main_;
  ncclConfig_t config_ = withoutCta();
  const Communicator on_;
  const Window from_;
  const Window to_;
};

std::unique_ptr<OneSidedTraffic> makeZeroCtaTraffic(const Communicator& main, const std::string& name) {
  auto made = std::make_unique<ZeroCtaTraffic>(main, name);
  return made->isPossible() ? std::move(made) : nullptr;
}

}  // namespace

void checkZeroCtaTraffic(const Communicator& main) { checkOneSidedTraffic(main, makeZeroCtaTraffic); }

// Collectives without a CTA: copy engines inside a host, RMA between hosts.
void checkZeroCta(const Communicator& main) {
  beginCheck("zero-CTA collectives");
  ncclConfig_t config = withoutCta();
  const Communicator on("zero_cta", &config);
  const Window from(on, options.max * size(on.ranks), NCCL_WIN_COLL_SYMMETRIC);
  const Window to(on, options.max * size(on.ranks), NCCL_WIN_COLL_SYMMETRIC);
  if (!isSymmetric(to)) return;
  std::size_t bad = 0;
  for (const std::size_t bytes : {std::size_t{8}, std::size_t{4099}, options.max, std::size_t{64}}) {
    const auto round = static_cast<uint32_t>(bytes);
    bad += allGather(main, on, from, to, bytes, round) + allToAll(main, on, from, to, bytes, round);
  }
  endCheck("zero-CTA collectives", bad);
}
#endif
