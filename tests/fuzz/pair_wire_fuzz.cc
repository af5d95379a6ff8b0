// Arbitrary bytes as what an end of the pair test sends, and as its file of hosts. What is accepted must be
// written and read again without a change, and must be usable: pairs are planned and judged.
#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "cli/hosts/run_on_hosts.h"
#include "doctor/pair/judge.h"
#include "doctor/pair/measuring/wire.h"
#include "doctor/pair/summary.h"

namespace {

namespace pair = railwise::doctor::pair;

pair::EndFacts start() {
  pair::EndFacts facts;
  facts.host = "node1";
  facts.all_reduce = {370, "8 NICs"};
  for (int i = 0; i < 2; ++i) {
    pair::NicFacts nic;
    nic.device = "mlx5_0";
    nic.active = true;
    nic.link = i == 0 ? pair::LinkKind::kInfiniBand : pair::LinkKind::kRoce;
    nic.speed_mbps = 400'000;
    nic.mtu_bytes = 4096;
    nic.gids.push_back({3, {{0xfe, 0x80}}, 2});
    facts.nics.push_back(nic);
  }
  return facts;
}

void use(const pair::EndFacts& facts) {
  pair::Results results;
  results.ends = {start(), facts};
  const pair::Match match = {0, 1};
  for (const pair::NicPair& nics : pair::pairNics(results.ends[0], facts, false, 24))
    results.pairs.push_back({nics, match, {}});
  const pair::Judgement judgement = pair::judge(results);
  if (judgement.verdicts.size() != results.pairs.size()) std::abort();
  (void)pair::tablesText(results, judgement);
}

void read(const pair::Bytes& bytes) {
  if (const auto facts = pair::decodeFacts(bytes)) {
    const pair::Bytes written = pair::encodeFacts(*facts);
    if (const auto again = pair::decodeFacts(written); !again || pair::encodeFacts(*again) != written)
      std::abort();
    use(*facts);
  }
  if (const auto addresses = pair::decodeAddresses(bytes)) {
    if (pair::decodeAddresses(pair::encodeAddresses(*addresses)) != addresses) std::abort();
  }
  if (const auto halves = pair::decodeHalves(bytes)) {
    const pair::Bytes written = pair::encodeHalves(*halves);
    if (const auto again = pair::decodeHalves(written); !again || pair::encodeHalves(*again) != written)
      std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, size_t size) {
  const auto* const bytes = reinterpret_cast<const std::byte*>(data);
  read({bytes, bytes + size});
  (void)railwise::cli::parseHostFile({reinterpret_cast<const char*>(data), size}, "fuzz");
  // The same bytes over a message that is right, at a place that they choose.
  if (size < 3) return 0;
  const pair::Half half = {.reach = pair::Reach::kAll, .error = "lost", .alone_gbytes = 48};
  pair::Bytes changed = data[0] % 2 == 0 ? pair::encodeFacts(start()) : pair::encodeHalves({half});
  const size_t at = (data[1] * 256U + data[2]) % changed.size();
  std::copy_n(bytes + 3, std::min(size - 3, changed.size() - at),
              changed.begin() + static_cast<std::ptrdiff_t>(at));
  read(changed);
  return 0;
}
