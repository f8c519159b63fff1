// Exact decimal numbers, as JSON writes them.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"

namespace thalweg::grammar {

// 0.d1 d2 d3 ... times 10^point. No digits: 0. The first and the last digit are not 0.
struct Decimal {
  bool negative = false;
  std::string digits = {};
  int64_t point = 0;

  bool zero() const { return digits.empty(); }
  // Before the decimal point, "0" for none; after it.
  std::string WholeDigits() const;
  std::string FractionDigits() const;
};

// A JSON number; an error for other text, and for one with more than 1000 digits on either side of
// the decimal point once the exponent is gone.
Result<Decimal> ParseDecimal(std::string_view text);
std::strong_ordering Compare(const Decimal& a, const Decimal& b);

}  // namespace thalweg::grammar
