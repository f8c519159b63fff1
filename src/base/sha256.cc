#include "base/sha256.h"

#include <fmt/format.h>
#include <openssl/evp.h>

#include "base/check.h"

namespace thalweg::base {

namespace {

// Looked up once: EVP_sha256() would search for its implementation at every digest.
const EVP_MD* Algorithm() {
  static EVP_MD* const algorithm = EVP_MD_fetch(nullptr, "SHA256", nullptr);
  return algorithm;
}

}  // namespace

struct Sha256::Context {
  EVP_MD_CTX* md = EVP_MD_CTX_new();
  ~Context() { EVP_MD_CTX_free(md); }
};

Sha256::Sha256() : context_(std::make_unique<Context>()) {
  TW_CHECK(context_->md != nullptr);
  TW_CHECK_EQ(EVP_DigestInit_ex(context_->md, Algorithm(), nullptr), 1);
}
Sha256::Sha256(Sha256&&) noexcept = default;
Sha256& Sha256::operator=(Sha256&&) noexcept = default;
Sha256::~Sha256() = default;

Sha256& Sha256::Update(std::string_view bytes) {
  TW_CHECK_EQ(EVP_DigestUpdate(context_->md, bytes.data(), bytes.size()), 1);
  return *this;
}

Sha256Digest Sha256::Finish() {
  Sha256Digest digest{};
  TW_CHECK_EQ(EVP_DigestFinal_ex(context_->md, digest.data(), nullptr), 1);
  return digest;
}

Sha256Digest Sha256Of(std::string_view bytes) { return Sha256().Update(bytes).Finish(); }

std::string HexOf(const Sha256Digest& digest) {
  std::string text;
  for (const uint8_t byte : digest) text += fmt::format("{:02x}", byte);
  return text;
}

}  // namespace thalweg::base
