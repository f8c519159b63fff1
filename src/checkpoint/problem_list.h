// Collects what is wrong with a checkpoint's tensors into one error: the first ten and the count.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"

namespace thalweg::checkpoint {

class ProblemList {
 public:
  void Add(std::string problem);
  size_t count() const { return count_; }
  // Ok when nothing was added. `what` names the things that are counted ("tensors").
  Status ToStatus(std::string_view what) const;

 private:
  std::vector<std::string> first_;
  size_t count_ = 0;
};

}  // namespace thalweg::checkpoint
