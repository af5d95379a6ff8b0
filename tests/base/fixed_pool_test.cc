#include "base/fixed_pool.h"

#include <gtest/gtest.h>

#include <set>

namespace railwise {
namespace {

TEST(FixedPool, GivesEveryObjectOnceAndThenNull) {
  FixedPool<int, 5> pool;
  std::set<int*> taken;
  while (int* object = pool.take()) taken.insert(object);
  EXPECT_EQ(taken.size(), 5U);
  EXPECT_EQ(pool.taken(), 5U);
}

TEST(FixedPool, WhatIsGivenBackIsTakenAgain) {
  FixedPool<int, 2> pool;
  int* first = pool.take();
  int* second = pool.take();
  pool.give(first);
  EXPECT_EQ(pool.take(), first);
  EXPECT_EQ(pool.take(), nullptr);
  EXPECT_EQ(&pool[pool.indexOf(second)], second);
}

}  // namespace
}  // namespace railwise
