#include "grammar/number_multiples.h"

#include <algorithm>
#include <string>
#include <vector>

namespace thalweg::grammar {
namespace {

constexpr int64_t kMostStates = 5000;

enum ByteClass : uint8_t { kOther, kMinus, kPoint, kDigit0 };  // ten digits from kDigit0 on
constexpr int32_t kClasses = kDigit0 + 10;

RegexArena::Classes NumberClasses() {
  RegexArena::Classes classes = {};
  classes.count = kClasses;
  const auto set = [&](uint8_t byte, int name) {
    classes.class_of[byte] = static_cast<uint8_t>(name);
    classes.representative[static_cast<size_t>(name)] = byte;
  };
  set(0, kOther);
  set('-', kMinus);
  set('.', kPoint);
  for (int digit = 0; digit < 10; ++digit) set(static_cast<uint8_t>('0' + digit), kDigit0 + digit);
  return classes;
}

// Multiples of part / 10^places. State r: remainder r of the whole part; after the point, state
// part * (1 + j) + r: remainder r after j fraction digits, of which the first `places` count and
// the others are 0.
RegexId Remainders(int64_t part, int64_t places, RegexArena* arena) {
  RegexArena::Automaton automaton;
  automaton.classes = NumberClasses();
  std::vector<int64_t> scale = {1};  // 10^j mod part
  for (int64_t j = 0; j < places; ++j) scale.push_back(scale.back() * 10 % part);
  for (int64_t state = 0; state < part * (places + 2); ++state) {
    const int64_t remainder = state % part;
    const bool whole = state < part;
    const int64_t read = whole ? 0 : state / part - 1;
    const int64_t base = state - remainder;
    automaton.accepting.push_back(remainder * scale[static_cast<size_t>(places - read)] % part ==
                                  0);
    std::vector<int32_t> next(kClasses, -1);
    next[kMinus] = whole ? static_cast<int32_t>(state) : -1;
    next[kPoint] = whole ? static_cast<int32_t>(part + remainder) : -1;
    for (int64_t digit = 0; digit < 10; ++digit) {
      int64_t to = (whole ? 0 : base + part) + (remainder * 10 + digit) % part;
      if (!whole && read == places) to = digit == 0 ? state : -1;
      next[static_cast<size_t>(kDigit0 + digit)] = static_cast<int32_t>(to);
    }
    automaton.next.insert(automaton.next.end(), next.begin(), next.end());
  }
  return arena->FromAutomaton(automaton);
}

// Multiples of part * 10^zeros: a multiple of part, zeros, and no fraction but zeros; or 0.
RegexId WithZeros(RegexId multiples, int64_t zeros, RegexArena* arena) {
  const RegexId minus = arena->Repeat(arena->Literal("-"), 0, 1);
  const RegexId digits = arena->Repeat(arena->Bytes(ByteSet::Range('0', '9')), 1, -1);
  const RegexId whole = arena->Both(multiples, arena->Concat(minus, digits));
  const RegexId zero = arena->Literal("0");
  const RegexId nothing[] = {minus, zero};
  const RegexId all = arena->Either(arena->Concat(whole, arena->Repeat(zero, zeros, zeros)),
                                    arena->Concat(nothing));
  const RegexId fraction = arena->Concat(arena->Literal("."), arena->Repeat(zero, 1, -1));
  return arena->Concat(all, arena->Repeat(fraction, 0, 1));
}

}  // namespace

Result<RegexId> MultiplesOf(const Decimal& divisor, RegexArena* arena) {
  if (divisor.zero() || divisor.negative) {
    return base::InvalidArgument("multipleOf must be above 0");
  }
  const auto length = static_cast<int64_t>(divisor.digits.size());
  const int64_t places = std::max<int64_t>(length - divisor.point, 0);
  const int64_t zeros = std::max<int64_t>(divisor.point - length, 0);
  const int64_t part = length > 9 ? INT32_MAX : std::stoll(divisor.digits);
  if (part > kMostStates || part * (places + 2) > kMostStates) {
    return base::Unsupported(
        "this multipleOf is too fine: its digits times its decimal places must stay below 5000");
  }
  const RegexId multiples = Remainders(part, places, arena);
  return zeros == 0 ? multiples : WithZeros(multiples, zeros, arena);
}

}  // namespace thalweg::grammar
