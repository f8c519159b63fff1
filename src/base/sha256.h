// SHA-256 (FIPS 180-4), by libcrypto.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace thalweg::base {

using Sha256Digest = std::array<uint8_t, 32>;

// Feed bytes, then take the digest once.
class Sha256 {
 public:
  Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;
  ~Sha256();

  Sha256& Update(std::string_view bytes);
  Sha256Digest Finish();

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

Sha256Digest Sha256Of(std::string_view bytes);
// Lower-case hexadecimal, 64 characters.
std::string HexOf(const Sha256Digest& digest);

}  // namespace thalweg::base
