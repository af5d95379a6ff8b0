// A device of the drop-in, opened by name for one test. The devices come from RAILWISE_DEVICE, which main.cc
// sets.
#pragma once

#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include <string_view>

namespace railwise::drop_in::test {

class Opened {
 public:
  explicit Opened(std::string_view name) {
    ibv_device** list = ibv_get_device_list(nullptr);
    for (ibv_device** each = list; each != nullptr && *each != nullptr; ++each)
      if (name == ibv_get_device_name(*each)) context_ = ibv_open_device(*each);
    if (list != nullptr) ibv_free_device_list(list);
    EXPECT_NE(context_, nullptr) << name;
  }
  ~Opened() {
    if (context_ != nullptr) EXPECT_EQ(ibv_close_device(context_), 0);
  }
  Opened(const Opened&) = delete;
  Opened& operator=(const Opened&) = delete;
  ibv_context* get() const { return context_; }
  operator ibv_context*() const { return context_; }  // NOLINT: stands for the context

 private:
  ibv_context* context_ = nullptr;
};

}  // namespace railwise::drop_in::test
