// regMr of memory that lies in an earlier registration: the way that NCCL goes once per operation with
// registered user buffers. `entries` is how many other registrations the cache holds.
#include <benchmark/benchmark.h>
#include <unistd.h>

#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "net/device/memory.h"

namespace railwise::net {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kRegionPages = 4;

// The software device with `entries` regions of four pages, every other four pages.
class MemoryFixture : public benchmark::Fixture {
 public:
  void SetUp(const benchmark::State& state) override {
    Config config;
    config.device = "software:name=soft0,fabric=bench" + std::to_string(getpid());
    if (!verbs::load(config).ok()) std::abort();
    int count = 0;
    ibv_device** list = verbs::library().get_device_list(&count);
    context_.reset(verbs::library().open_device(list[0]));
    verbs::library().free_device_list(list);
    pd_.reset(verbs::library().alloc_pd(context_.get()));
    cache_ = std::make_unique<MemoryCache>(std::vector<RailDomain>{pd_.get()});
    const auto entries = static_cast<std::size_t>(state.range(0));
    memory_.resize((2 * entries * kRegionPages + 1) * kPage);
    first_ = (reinterpret_cast<uint64_t>(memory_.data()) + kPage - 1) & ~(kPage - 1);
    for (std::size_t i = 0; i < entries; ++i)
      handles_.push_back(*cache_->acquire(regionAt(i), kRegionPages * kPage, MemoryKind::kHost));
    std::mt19937_64 random(1);
    for (uint64_t& address : wanted_) address = regionAt(random() % entries) + random() % kPage;
  }
  void TearDown(const benchmark::State&) override {
    for (MemoryHandle* handle : handles_) cache_->release(handle);
    handles_.clear();
    cache_.reset();
    pd_.reset();
    context_.reset();
    verbs::unload();
  }

 protected:
  uint64_t regionAt(std::size_t i) const { return first_ + 2 * i * kRegionPages * kPage; }

  std::vector<char> memory_;
  uint64_t first_ = 0;
  std::array<uint64_t, 1024> wanted_ = {};
  verbs::Context context_;
  verbs::Pd pd_;
  std::unique_ptr<MemoryCache> cache_;
  std::vector<MemoryHandle*> handles_;
};

BENCHMARK_DEFINE_F(MemoryFixture, RegisterInside)(benchmark::State& state) {
  std::size_t i = 0;
  for (auto _ : state) {
    MemoryHandle* handle = *cache_->acquire(wanted_[i++ % wanted_.size()], 2 * kPage, MemoryKind::kHost);
    benchmark::DoNotOptimize(handle);
    cache_->release(handle);
  }
}
BENCHMARK_REGISTER_F(MemoryFixture, RegisterInside)->Arg(1)->Arg(64)->Arg(1024)->Arg(8192);

// The release apart: what is left of RegisterInside is the registration.
BENCHMARK_DEFINE_F(MemoryFixture, RegisterOnly)(benchmark::State& state) {
  std::size_t i = 0;
  std::vector<MemoryHandle*> held;
  held.reserve(wanted_.size());
  for (auto _ : state) {
    held.push_back(*cache_->acquire(wanted_[i++ % wanted_.size()], 2 * kPage, MemoryKind::kHost));
    if (held.size() < wanted_.size()) continue;
    state.PauseTiming();
    for (MemoryHandle* handle : held) cache_->release(handle);
    held.clear();
    state.ResumeTiming();
  }
  for (MemoryHandle* handle : held) cache_->release(handle);
}
BENCHMARK_REGISTER_F(MemoryFixture, RegisterOnly)->Arg(1)->Arg(64)->Arg(1024)->Arg(8192);

}  // namespace
}  // namespace railwise::net
