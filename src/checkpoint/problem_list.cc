#include "checkpoint/problem_list.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "checkpoint/limits.h"

namespace thalweg::checkpoint {

void ProblemList::Add(std::string problem) {
  ++count_;
  if (first_.size() < kMaxListedErrors) first_.push_back(std::move(problem));
}

Status ProblemList::ToStatus(std::string_view what) const {
  if (count_ == 0) return {};
  const std::string more =
      count_ > first_.size() ? fmt::format("\n  and {} more", count_ - first_.size()) : "";
  return base::InvalidArgument(
      fmt::format("{} {}:\n  {}{}", count_, what, fmt::join(first_, "\n  "), more));
}

}  // namespace thalweg::checkpoint
