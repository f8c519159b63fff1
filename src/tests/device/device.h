// The device that these tests run on.
#pragma once

#include <gtest/gtest.h>

#include "kernels/ops.h"

namespace thalweg::tests {

// Skipped where there is none; the reason is printed.
class OnDevice : public ::testing::Test {
 protected:
  void SetUp() override;
  const kernels::Ops& ops() const { return *ops_; }

 private:
  const kernels::Ops* ops_ = nullptr;
};

}  // namespace thalweg::tests
