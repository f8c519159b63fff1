#include "text/byte_alphabet.h"

#include <array>

#include "text/utf8.h"

namespace thalweg::text {
namespace {

constexpr uint32_t kFirstStandIn = 0x100;
constexpr size_t kCodePoints = 0x144;  // one beyond the largest character of the alphabet

constexpr bool StandsForItself(uint32_t byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

struct Alphabet {
  std::array<uint16_t, 256> char_of{};
  std::array<int16_t, kCodePoints> byte_of{};

  constexpr Alphabet() {
    byte_of.fill(-1);
    uint32_t stand_in = kFirstStandIn;
    for (uint32_t byte = 0; byte < 256; ++byte) {
      const uint32_t code_point = StandsForItself(byte) ? byte : stand_in++;
      char_of[byte] = static_cast<uint16_t>(code_point);
      byte_of[code_point] = static_cast<int16_t>(byte);
    }
  }
};

constexpr Alphabet kAlphabet;

}  // namespace

uint32_t AlphabetChar(uint8_t byte) { return kAlphabet.char_of[byte]; }

std::string ToAlphabet(std::string_view bytes) {
  std::string token;
  token.reserve(bytes.size() * 2);
  for (const char byte : bytes) AppendUtf8(AlphabetChar(static_cast<uint8_t>(byte)), token);
  return token;
}

std::optional<std::string> FromAlphabet(std::string_view token) {
  std::string bytes;
  while (!token.empty()) {
    const Utf8Step step = DecodeUtf8(token);
    if (step.code_point >= kCodePoints || kAlphabet.byte_of[step.code_point] < 0) {
      return std::nullopt;
    }
    bytes.push_back(static_cast<char>(kAlphabet.byte_of[step.code_point]));
    token.remove_prefix(step.length);
  }
  return bytes;
}

}  // namespace thalweg::text
