#include "tensor/formats.h"

namespace thalweg::tensor {

uint8_t FloatToE4M3(float x) {
  const auto bits = std::bit_cast<uint32_t>(x);
  const auto sign = static_cast<uint8_t>((bits >> 24) & 0x80u);
  const float magnitude = std::fabs(x);
  if (std::isnan(x)) return static_cast<uint8_t>(sign | 0x7fu);
  if (magnitude >= 448.0f) return static_cast<uint8_t>(sign | 0x7eu);
  if (magnitude < 0x1p-6f) {  // denormal grid of 2^-9; adding and removing 1.5 * 2^(23-9) rounds to
                              // it, ties to even
    constexpr float kRounder = 0x1.8p14f;
    const float steps = ((magnitude + kRounder) - kRounder) * 0x1p9f;
    return static_cast<uint8_t>(sign | static_cast<uint8_t>(steps));
  }
  uint32_t m = bits & 0x7fffffffu;
  m += 0x7ffffu + ((m >> 20) & 1u);  // keep 3 mantissa bits, ties to even
  const uint32_t code = (m >> 20) - (120u << 3);
  return static_cast<uint8_t>(sign | (code > 0x7eu ? 0x7eu : code));
}

uint8_t FloatToE2M1(float x) {
  const auto sign = static_cast<uint8_t>(std::signbit(x) ? 8 : 0);
  const float a = std::fabs(x);
  // Midpoints; at a tie the even code wins, so odd codes need "greater", even codes "greater or
  // equal".
  uint8_t code = 0;
  code = static_cast<uint8_t>((a > 0.25f) + (a >= 0.75f) + (a > 1.25f) + (a >= 1.75f) + (a > 2.5f) +
                              (a >= 3.5f) + (a > 5.0f));
  return static_cast<uint8_t>(sign | code);
}

}  // namespace thalweg::tensor
