#include "hub/blob_writer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <openssl/evp.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <system_error>
#include <vector>

#include "base/check.h"

namespace thalweg::hub {
namespace {

namespace fs = std::filesystem;

constexpr size_t kReadBytes = size_t{1} << 20;

Status SystemError(const fs::path& file, std::string_view verb) {
  const int number = errno;
  const std::string message =
      fmt::format("cannot {} {}: {}", verb, file.string(), std::generic_category().message(number));
  const bool full = number == ENOSPC || number == EDQUOT || number == EFBIG;
  if (!full) return base::IoError(message);
  return base::ResourceExhausted(message + "; what has arrived is kept, make room and repeat");
}

}  // namespace

void ContentHash::Free::operator()(evp_md_ctx_st* context) const { EVP_MD_CTX_free(context); }

ContentHash::ContentHash(const RepoFile& file) : context_(EVP_MD_CTX_new()) {
  TW_CHECK(context_ != nullptr);
  const bool git = file.hash.size() == 40;
  TW_CHECK_EQ(EVP_DigestInit_ex(context_.get(), git ? EVP_sha1() : EVP_sha256(), nullptr), 1);
  if (!git) return;
  const std::string head = fmt::format("blob {}", file.size_bytes);
  Update({head.c_str(), head.size() + 1});
}

void ContentHash::Update(std::string_view bytes) {
  TW_CHECK_EQ(EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()), 1);
}

std::string ContentHash::Finish() {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest = {};
  unsigned int bytes = 0;
  TW_CHECK_EQ(EVP_DigestFinal_ex(context_.get(), digest.data(), &bytes), 1);
  std::string text;
  for (unsigned int i = 0; i < bytes; ++i) text += fmt::format("{:02x}", digest[i]);
  return text;
}

Result<std::unique_ptr<BlobWriter>> BlobWriter::Open(const fs::path& incomplete,
                                                     const fs::path& blob, const RepoFile& file) {
  const int descriptor =
      open(incomplete.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0644);
  if (descriptor < 0) return SystemError(incomplete, "open");
  struct stat info = {};
  const bool regular = fstat(descriptor, &info) == 0 && S_ISREG(info.st_mode);
  const auto bytes = regular ? static_cast<uint64_t>(info.st_size) : 0;
  std::unique_ptr<BlobWriter> writer(new BlobWriter(descriptor, incomplete, blob, file, bytes));
  if (!regular) return base::IoError(incomplete.string() + " is not a regular file: remove it");
  if (bytes > file.size_bytes) TW_TRY(writer->StartOver());
  return writer;
}

BlobWriter::BlobWriter(int descriptor, fs::path incomplete, fs::path blob, RepoFile file,
                       uint64_t bytes)
    : descriptor_(descriptor),
      incomplete_(std::move(incomplete)),
      blob_(std::move(blob)),
      file_(std::move(file)),
      bytes_(bytes),
      hash_(file_) {}

BlobWriter::~BlobWriter() { close(descriptor_); }

Status BlobWriter::CatchUp(uint64_t most_bytes) {
  std::vector<char> buffer(kReadBytes);
  const uint64_t end = std::min(bytes_, hashed_bytes_ + most_bytes);
  while (hashed_bytes_ < end) {
    const size_t want = std::min<uint64_t>(buffer.size(), end - hashed_bytes_);
    const ssize_t got = pread(descriptor_, buffer.data(), want, static_cast<off_t>(hashed_bytes_));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return SystemError(incomplete_, "read");
    if (got == 0) return base::IoError(incomplete_.string() + " was cut by another program");
    hash_.Update({buffer.data(), static_cast<size_t>(got)});
    hashed_bytes_ += static_cast<uint64_t>(got);
  }
  return {};
}

Status BlobWriter::Append(std::string_view bytes) {
  TW_CHECK(caught_up());
  if (bytes.size() > file_.size_bytes - bytes_)
    return base::InvalidArgument(fmt::format("{}: the server sends more than the {} bytes it said",
                                             file_.name, file_.size_bytes));
  while (!bytes.empty()) {
    const ssize_t put = pwrite(descriptor_, bytes.data(), bytes.size(), static_cast<off_t>(bytes_));
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return SystemError(incomplete_, "write");
    const auto count = static_cast<size_t>(put);
    hash_.Update(bytes.substr(0, count));
    bytes_ += count;
    hashed_bytes_ += count;
    bytes.remove_prefix(count);
  }
  return {};
}

Status BlobWriter::StartOver() {
  if (ftruncate(descriptor_, 0) != 0) return SystemError(incomplete_, "empty");
  bytes_ = 0;
  hashed_bytes_ = 0;
  hash_ = ContentHash(file_);
  return {};
}

Status BlobWriter::Finish() {
  TW_CHECK(caught_up() && complete());
  const std::string found = hash_.Finish();
  if (found != file_.hash) {
    TW_TRY(StartOver());
    return base::InvalidArgument(fmt::format("{}: the bytes that arrived have the hash {}, not {}",
                                             file_.name, found, file_.hash));
  }
  if (fdatasync(descriptor_) != 0) return SystemError(incomplete_, "sync");
  if (rename(incomplete_.c_str(), blob_.c_str()) != 0) return SystemError(blob_, "put in place");
  return {};
}

}  // namespace thalweg::hub
