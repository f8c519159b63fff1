#include "grammar/number_range.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "grammar/decimal.h"
#include "grammar/number_multiples.h"

namespace thalweg::grammar {
namespace {

struct Bound {
  Decimal value;
  bool inclusive = true;
};
using MaybeBound = std::optional<Bound>;

// Bounds of a value without its sign, as digits.
struct DigitBound {
  explicit DigitBound(const Bound& bound)
      : whole(bound.value.WholeDigits()),
        fraction(bound.value.FractionDigits()),
        inclusive(bound.inclusive) {}

  uint8_t FractionAt(size_t i) const {
    return i < fraction.size() ? static_cast<uint8_t>(fraction[i] - '0') : uint8_t{0};
  }
  uint8_t WholeAt(size_t i) const { return static_cast<uint8_t>(whole[i] - '0'); }
  bool ZeroFrom(size_t i) const { return fraction.find_first_not_of('0', i) == std::string::npos; }

  std::string whole;
  std::string fraction;
  bool inclusive;
};

enum class Fractions : uint8_t { kAny, kZeros, kNone };

// The spellings of values between two bounds, digit by digit. What has been read so far is equal to
// the beginning of a bound ("tight"), or already on the right side of it.
class DigitRange {
 public:
  DigitRange(const MaybeBound& low, const MaybeBound& high, Fractions fractions, RegexArena* arena)
      : fractions_(fractions), arena_(arena) {
    if (low) low_.emplace(*low);
    if (high) high_.emplace(*high);
  }

  // Without exponent. `first` is the least first digit of one digit alone.
  RegexId Plain() {
    const size_t shortest = low_ ? low_->whole.size() : 1;
    std::vector<RegexId> choices = {OfLength(shortest, 0)};
    if (high_) {
      const size_t longest = high_->whole.size();
      if (longest > shortest) choices.push_back(OfLength(longest, 1));
      choices.push_back(Between(shortest + 1, static_cast<int64_t>(longest) - 1));
    } else {
      choices.push_back(Between(shortest + 1, -1));
    }
    return arena_->Either(choices);
  }
  // One digit that is not 0 before the point.
  RegexId Mantissa() { return OfLength(1, 1); }

 private:
  RegexId Digit(int first, int last) {
    return first > last ? kNothing
                        : arena_->Bytes(ByteSet::Range(static_cast<uint8_t>('0' + first),
                                                       static_cast<uint8_t>('0' + last)));
  }
  RegexId AnyDigits(int64_t min, int64_t max) { return arena_->Repeat(Digit(0, 9), min, max); }

  // Whole parts of `shortest` to `longest` digits (< 0: without limit), all of them allowed.
  RegexId Between(size_t shortest, int64_t longest) {
    const auto least = static_cast<int64_t>(shortest);
    if (longest >= 0 && longest < least) return kNothing;
    const RegexId more = AnyDigits(least - 1, longest < 0 ? -1 : longest - 1);
    const RegexId whole = arena_->Concat(Digit(1, 9), more);
    return arena_->Concat(whole, Fraction(false, false));
  }

  RegexId OfLength(size_t length, int least_first) {
    const bool tight_low = low_ && low_->whole.size() == length;
    const bool tight_high = high_ && high_->whole.size() == length;
    if ((low_ && low_->whole.size() > length) || (high_ && high_->whole.size() < length)) {
      return kNothing;
    }
    return Whole(0, length, length > 1 ? 1 : least_first, tight_low, tight_high);
  }

  // From digit i of the whole part on.
  RegexId Whole(size_t i, size_t length, int least, bool tight_low, bool tight_high) {
    if (i == length) return Fraction(tight_low, tight_high);
    const auto rest = static_cast<int64_t>(length - i - 1);
    const auto next = [&](bool low, bool high) {
      if (low || high) return Whole(i + 1, length, 0, low, high);
      return arena_->Concat(AnyDigits(rest, rest), Fraction(false, false));
    };
    const int low = tight_low ? std::max<int>(low_->WholeAt(i), least) : least;
    const int high = tight_high ? high_->WholeAt(i) : 9;
    return ByDigit(low, high, tight_low && low == low_->WholeAt(i), tight_high, next);
  }

  // A digit from low to high and what `next` says after it; the ends stay tight where they were.
  template <typename Next>
  RegexId ByDigit(int low, int high, bool tight_low, bool tight_high, Next next) {
    if (low > high) return kNothing;
    if (low == high) return arena_->Concat(Digit(low, low), next(tight_low, tight_high));
    std::vector<RegexId> choices;
    if (tight_low) choices.push_back(arena_->Concat(Digit(low, low), next(true, false)));
    if (tight_high) choices.push_back(arena_->Concat(Digit(high, high), next(false, true)));
    const RegexId inside = Digit(low + (tight_low ? 1 : 0), high - (tight_high ? 1 : 0));
    choices.push_back(arena_->Concat(inside, next(false, false)));
    return arena_->Either(choices);
  }

  // Whether nothing but zeros may follow fraction digit i.
  bool ZerosAllowed(size_t i, bool tight_low, bool tight_high) const {
    if (tight_low && !(low_->ZeroFrom(i) && low_->inclusive)) return false;
    return !tight_high || !high_->ZeroFrom(i) || high_->inclusive;
  }

  RegexId Fraction(bool tight_low, bool tight_high) {
    const bool zeros = ZerosAllowed(0, tight_low, tight_high);
    if (fractions_ == Fractions::kNone) return zeros ? kEmptyString : kNothing;
    RegexId digits = kNothing;
    if (fractions_ == Fractions::kZeros) {
      if (zeros) digits = arena_->Repeat(Digit(0, 0), 1, -1);
    } else {
      digits = FractionFrom(0, tight_low, tight_high);
    }
    const RegexId some = arena_->Concat(arena_->Literal("."), digits);
    return zeros ? arena_->Either(some, kEmptyString) : some;
  }

  // One fraction digit or more, from digit i on.
  RegexId FractionFrom(size_t i, bool tight_low, bool tight_high) {
    if (!tight_low && !tight_high) return AnyDigits(1, -1);
    const size_t known =
        std::max(tight_low ? low_->fraction.size() : 0, tight_high ? high_->fraction.size() : 0);
    if (i >= known) return FractionAfterBounds(tight_low, tight_high);
    const auto next = [&](bool low, bool high) {
      if (!low && !high) return AnyDigits(0, -1);
      const RegexId more = FractionFrom(i + 1, low, high);
      return ZerosAllowed(i + 1, low, high) ? arena_->Either(more, kEmptyString) : more;
    };
    const int low = tight_low ? low_->FractionAt(i) : 0;
    const int high = tight_high ? high_->FractionAt(i) : 9;
    return ByDigit(low, high, tight_low, tight_high, next);
  }

  // All digits of the bounds have been read.
  RegexId FractionAfterBounds(bool tight_low, bool tight_high) {
    const RegexId zeros = arena_->Repeat(Digit(0, 0), 1, -1);
    if (tight_high) {
      const bool equal = high_->inclusive && (!tight_low || low_->inclusive);
      return equal ? zeros : kNothing;
    }
    if (low_->inclusive) return AnyDigits(1, -1);
    const RegexId above[] = {AnyDigits(0, -1), Digit(1, 9), AnyDigits(0, -1)};
    return arena_->Concat(above);
  }

  std::optional<DigitBound> low_;
  std::optional<DigitBound> high_;
  Fractions fractions_;
  RegexArena* arena_;
};

Bound WholeBound(int64_t value) {
  Decimal decimal;
  decimal.digits = std::to_string(value);
  decimal.point = static_cast<int64_t>(decimal.digits.size());
  return {value == 0 ? Decimal{} : decimal};
}

RegexId WholeNumbers(int64_t first, int64_t last, RegexArena* arena) {
  if (first > last) return kNothing;
  return DigitRange(WholeBound(first), WholeBound(last), Fractions::kNone, arena).Plain();
}

// `e` and an exponent of first to last.
RegexId Exponent(int64_t first, int64_t last, RegexArena* arena) {
  constexpr int64_t kLeast = -400;
  constexpr int64_t kMost = 307;
  first = std::max(first, kLeast);
  last = std::min(last, kMost);
  const RegexId up = WholeNumbers(std::max<int64_t>(first, 0), last, arena);
  const RegexId down = WholeNumbers(std::max<int64_t>(-last, 1), -first, arena);
  const RegexId plus = arena->Repeat(arena->Literal("+"), 0, 1);
  const RegexId zeros = arena->Repeat(arena->Literal("0"), 0, -1);
  const RegexId positive[] = {plus, zeros, up};
  const RegexId negative[] = {arena->Literal("-"), zeros, down};
  ByteSet e;
  e.Add('e');
  e.Add('E');
  return arena->Concat(arena->Bytes(e),
                       arena->Either(arena->Concat(positive), arena->Concat(negative)));
}

// A mantissa (kAnything: any) with the exponents that it may have; of whole values when `integer`.
RegexId WithExponent(RegexId mantissa, int64_t first, int64_t last, bool integer,
                     RegexArena* arena) {
  constexpr int64_t kFractionDigits = 16;
  if (first > last) return kNothing;
  const RegexId one = arena->Bytes(ByteSet::Range('1', '9'));
  const RegexId digit = arena->Bytes(ByteSet::Range('0', '9'));
  if (!integer) {
    if (mantissa == kAnything) mantissa = DigitRange({}, {}, Fractions::kAny, arena).Mantissa();
    return arena->Concat(mantissa, Exponent(first, last, arena));
  }
  const RegexId fraction =
      arena->Concat(arena->Literal("."), arena->Repeat(digit, 1, kFractionDigits));
  const RegexId short_ones = arena->Both(mantissa, one);
  const RegexId long_ones =
      arena->Both(mantissa, arena->Concat(one, arena->Repeat(fraction, 0, 1)));
  const RegexId small =
      Exponent(std::max<int64_t>(first, 0), std::min(last, kFractionDigits - 1), arena);
  const RegexId large = Exponent(std::max(first, kFractionDigits), last, arena);
  return arena->Either(arena->Concat(short_ones, small), arena->Concat(long_ones, large));
}

// As one digit, a fraction and a power of ten: 1.5e-07.
RegexId Scientific(const MaybeBound& low, const MaybeBound& high, bool integer, RegexArena* arena) {
  if (high && high->value.zero()) return kNothing;
  const auto mantissa = [&](bool use_low, bool use_high) {
    MaybeBound from = use_low ? low : std::nullopt;
    MaybeBound to = use_high ? high : std::nullopt;
    if (from) from->value.point = 1;
    if (to) to->value.point = 1;
    return DigitRange(from, to, Fractions::kAny, arena).Mantissa();
  };
  const bool has_low = low && !low->value.zero();
  const int64_t first = has_low ? low->value.point - 1 : INT32_MIN;
  const int64_t last = high ? high->value.point - 1 : INT32_MAX;
  const auto part = [&](RegexId digits, int64_t from, int64_t to) {
    return WithExponent(digits, from, to, integer, arena);
  };
  if (first == last) return part(mantissa(true, true), first, first);
  std::vector<RegexId> choices = {part(kAnything, first + 1, last - 1)};
  if (has_low) choices.push_back(part(mantissa(true, false), first, first));
  if (high) choices.push_back(part(mantissa(false, true), last, last));
  return arena->Either(choices);
}

struct Range {
  MaybeBound low;
  MaybeBound high;
};

bool Contradict(const MaybeBound& low, const MaybeBound& high) {
  if (!low || !high) return false;
  const auto order = Compare(low->value, high->value);
  return order > 0 || (order == 0 && !(low->inclusive && high->inclusive));
}

Bound Negated(Bound bound) {
  if (!bound.value.zero()) bound.value.negative = !bound.value.negative;
  return bound;
}

// Values from 0 up, in the range: their spellings without sign.
RegexId Magnitudes(Range range, bool integer, bool exponents, RegexArena* arena) {
  if (range.low && range.low->value.negative) range.low = std::nullopt;
  if (range.high && range.high->value.negative) return kNothing;
  if (Contradict(range.low, range.high)) return kNothing;
  const Bound zero = {};
  if (Contradict(zero, range.high)) return kNothing;
  const RegexId plain =
      DigitRange(range.low, range.high, integer ? Fractions::kZeros : Fractions::kAny, arena)
          .Plain();
  if (!exponents) return plain;
  return arena->Either(plain, Scientific(range.low, range.high, integer, arena));
}

// The tighter of two bounds that `tighter` orders.
Status Tighten(const std::optional<std::string>& text, bool inclusive, std::strong_ordering tighter,
               MaybeBound* bound) {
  if (!text) return {};
  TW_ASSIGN(const Decimal value, ParseDecimal(*text));
  const bool take = !*bound || Compare(value, (*bound)->value) == tighter ||
                    (Compare(value, (*bound)->value) == 0 && !inclusive);
  if (take) *bound = Bound{value, inclusive};
  return {};
}

Result<Range> RangeOf(const NumberBounds& bounds) {
  constexpr auto kGreater = std::strong_ordering::greater;
  constexpr auto kLess = std::strong_ordering::less;
  Range range;
  TW_TRY(Tighten(bounds.minimum, true, kGreater, &range.low));
  TW_TRY(Tighten(bounds.exclusive_minimum, false, kGreater, &range.low));
  TW_TRY(Tighten(bounds.maximum, true, kLess, &range.high));
  TW_TRY(Tighten(bounds.exclusive_maximum, false, kLess, &range.high));
  return range;
}

// -?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?
RegexId AnyNumber(RegexArena* arena) {
  const RegexId digit = arena->Bytes(ByteSet::Range('0', '9'));
  const RegexId digits = arena->Repeat(digit, 1, -1);
  const RegexId plain = DigitRange({}, {}, Fractions::kAny, arena).Plain();
  ByteSet e;
  e.Add('e');
  e.Add('E');
  ByteSet sign;
  sign.Add('+');
  sign.Add('-');
  const RegexId exponent[] = {arena->Bytes(e), arena->Repeat(arena->Bytes(sign), 0, 1), digits};
  const RegexId parts[] = {arena->Repeat(arena->Literal("-"), 0, 1), plain,
                           arena->Repeat(arena->Concat(exponent), 0, 1)};
  return arena->Concat(parts);
}

}  // namespace

Result<RegexId> NumberRange(const NumberBounds& bounds, const Limits& limits, RegexArena* arena) {
  TW_ASSIGN(const Range range, RangeOf(bounds));
  const bool divided = bounds.multiple_of.has_value();
  if (!bounds.integer && !range.low && !range.high && !divided) return AnyNumber(arena);
  Range mirrored;
  if (range.high) mirrored.low = Negated(*range.high);
  if (range.low) mirrored.high = Negated(*range.low);
  const RegexId negative = Magnitudes(mirrored, bounds.integer, !divided, arena);
  RegexId all = arena->Either(Magnitudes(range, bounds.integer, !divided, arena),
                              arena->Concat(arena->Literal("-"), negative));
  if (divided) {
    TW_ASSIGN(const Decimal divisor, ParseDecimal(*bounds.multiple_of));
    TW_ASSIGN(const RegexId multiples, MultiplesOf(divisor, arena));
    all = arena->Both(all, multiples);
  }
  constexpr int64_t kMostStates = 20000;
  if (!arena->Positive(all)) all = arena->Determinise(all, kMostStates).value_or(all);
  if (arena->exhausted() || arena->size() > limits.expressions) {
    return base::OutOfRange("the bounds of this number need too many expressions");
  }
  return all;
}

}  // namespace thalweg::grammar
