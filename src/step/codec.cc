#include "step/codec.h"

#include <fmt/format.h>

#include "step/archive.h"

namespace thalweg::step {
namespace {

constexpr uint32_t kPlanMagic = 0x4e4c5054;    // "TPLN"
constexpr uint32_t kResultMagic = 0x53455254;  // "TRES"

template <typename T>
void Encode(uint32_t magic, const T& value, std::string* bytes) {
  bytes->clear();
  Writer writer(bytes);
  writer(magic, kCodecVersion, value);
}

Status CheckHeader(std::string_view bytes, uint32_t magic) {
  uint32_t header[2] = {};
  if (bytes.size() < sizeof(header) || bytes.size() > static_cast<size_t>(kMaxMessageBytes)) {
    return base::InvalidArgument(fmt::format("a step message of {} bytes", bytes.size()));
  }
  std::memcpy(header, bytes.data(), sizeof(header));
  if (header[0] != magic) return base::InvalidArgument("these bytes are no such step message");
  if (header[1] == kCodecVersion) return {};
  return base::Unsupported(fmt::format(
      "the step message has version {} and this program speaks {}: run the same version on every "
      "rank",
      header[1], kCodecVersion));
}

template <typename T>
Status Decode(uint32_t magic, std::string_view bytes, T* value) {
  TW_TRY(CheckHeader(bytes, magic));
  Reader reader(bytes.substr(2 * sizeof(uint32_t)));
  reader(*value);
  return reader.Finish();
}

}  // namespace

void EncodePlan(const StepPlan& plan, std::string* bytes) { Encode(kPlanMagic, plan, bytes); }
void EncodeResult(const StepResult& result, std::string* bytes) {
  Encode(kResultMagic, result, bytes);
}

Status DecodePlan(std::string_view bytes, StepPlan* plan) {
  TW_TRY(Decode(kPlanMagic, bytes, plan));
  return CheckPlan(*plan);
}

Status DecodeResult(std::string_view bytes, StepResult* result) {
  TW_TRY(Decode(kResultMagic, bytes, result));
  const auto tokens = static_cast<int64_t>(result->tokens.size());
  for (const SequenceResult& r : result->sequences) {
    if (r.tokens_begin < 0 || r.tokens_count < 0 ||
        int64_t{r.tokens_begin} + r.tokens_count > tokens) {
      return base::InvalidArgument(fmt::format("step message: tokens {} to {} of {}",
                                               r.tokens_begin, r.tokens_count, tokens));
    }
  }
  return {};
}

void Reader::Get(bool& value) {
  uint8_t raw = 0;
  Get(raw);
  if (raw > 1) return Fail("a truth value that is neither 0 nor 1");
  value = raw == 1;
}

void Reader::Get(std::string& text) { text = Take(Length()); }

void Reader::Get(Status& status) {
  base::Code code = base::Code::kOk;
  std::string message;
  (*this)(code, message);
  if (code == base::Code::kOk && !message.empty()) return Fail("a message without an error");
  status = code == base::Code::kOk ? Status() : Status(code, std::move(message));
}

size_t Reader::Length() {
  uint32_t length = 0;
  Get(length);
  if (length <= left_.size()) return length;
  Fail("a length beyond the end");
  return 0;
}

std::string_view Reader::Take(size_t bytes) {
  if (bytes > left_.size()) {
    Fail("the end came too early");
    return {};
  }
  const std::string_view taken = left_.substr(0, bytes);
  left_.remove_prefix(bytes);
  return taken;
}

void Reader::Fail(std::string_view what) {
  if (ok()) error_ = what;
  left_ = {};
}

Status Reader::Finish() const {
  if (!ok()) return base::InvalidArgument(fmt::format("step message: {}", error_));
  if (left_.empty()) return {};
  return base::InvalidArgument(fmt::format("step message: {} bytes too many", left_.size()));
}

}  // namespace thalweg::step
