// The 256 printable characters that byte-level BPE files write for bytes: printable Latin-1 bytes
// stand for themselves, the others are U+0100 onwards in byte order.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace thalweg::text {

// The character of a byte.
uint32_t AlphabetChar(uint8_t byte);

// `bytes` in the alphabet, as UTF-8.
std::string ToAlphabet(std::string_view bytes);

// The bytes of a token string; nothing when a character is not of the alphabet.
std::optional<std::string> FromAlphabet(std::string_view token);

}  // namespace thalweg::text
