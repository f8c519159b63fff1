#include "tensor/view.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace thalweg::tensor {

int64_t Shape::elements() const {
  int64_t product = 1;
  for (const int64_t dim : dims()) product *= dim;
  return product;
}

std::string Shape::ToString() const { return fmt::format("[{}]", fmt::join(dims(), ", ")); }

}  // namespace thalweg::tensor
