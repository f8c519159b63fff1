// The C interface over the C++ one. Nothing leaves it as an exception.
#include <thalweg/llm.h>
#include <thalweg/thalweg.h>
#include <thalweg/version.h>

#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>
#include <string>

#include "api/errors.h"
#include "api/output_json.h"
#include "api/request_json.h"

struct thalweg_llm {
  explicit thalweg_llm(thalweg::LLM loaded) : llm(std::move(loaded)) {}
  thalweg::LLM llm;
  std::mutex mutex = {};
  std::string last_error = {};
};

namespace thalweg::api {
namespace {

std::string& ErrorOfThread() {
  static thread_local std::string message;
  return message;
}

void Remember(thalweg_llm* llm, const std::string& message) {
  if (llm == nullptr) {
    ErrorOfThread() = message;
    return;
  }
  const std::scoped_lock lock(llm->mutex);
  llm->last_error = message;
}

// Runs `body`, which returns a Status, and turns whatever comes out into a code and a message.
template <typename Body>
thalweg_code Guard(thalweg_llm* llm, Body&& body) noexcept {
  Status status;
  try {
    status = body();
  } catch (const std::bad_alloc&) {
    status = base::ResourceExhausted("out of memory");
  } catch (const std::exception& error) {
    status = base::Internal(error.what());
  }
  if (!status.ok()) Remember(llm, status.message());
  return static_cast<thalweg_code>(status.code());
}

// The same for functions of a handle.
template <typename Body>
thalweg_code GuardHandle(thalweg_llm* llm, Body&& body) noexcept {
  if (llm != nullptr) return Guard(llm, std::forward<Body>(body));
  return Guard(nullptr, [] { return base::InvalidArgument("the handle is NULL"); });
}

Status NotNull(const void* pointer, const char* name) {
  if (pointer != nullptr) return {};
  return base::InvalidArgument(std::string(name) + " is NULL");
}

// Memory that thalweg_free takes back.
Result<void*> Allocate(size_t bytes) {
  void* memory = std::malloc(bytes > 0 ? bytes : 1);
  if (memory == nullptr) return base::ResourceExhausted("out of memory");
  return memory;
}

Status HandOut(const std::string& text, char** out) {
  TW_ASSIGN(void* memory, Allocate(text.size() + 1));
  std::memcpy(memory, text.c_str(), text.size() + 1);
  *out = static_cast<char*>(memory);
  return {};
}

template <typename T>
Result<T> Unwrap(Expected<T> expected) {
  if (!expected.ok()) return ToStatus(expected.error());
  return std::move(expected).value();
}

Json OptionJson(const OptionInfo& option) {
  return {{"name", option.name},
          {"type", option.type},
          {"default", option.default_value},
          {"environment", option.environment},
          {"help", option.help},
          {"choices", option.choices},
          {"least", option.least},
          {"most", option.most}};
}

Status LoadInto(const char* options_json, thalweg_llm** out) {
  TW_TRY(NotNull(out, "llm"));
  *out = nullptr;
  TW_ASSIGN(const LLMOptions options, OptionsFromJson(options_json == nullptr ? "" : options_json));
  TW_ASSIGN(LLM llm, Unwrap(LLM::Load(options)));
  *out = new thalweg_llm(std::move(llm));
  return {};
}

Status GenerateInto(LLM& llm, const char* request_json, char** results_json) {
  TW_TRY(NotNull(request_json, "request_json"));
  TW_TRY(NotNull(results_json, "results_json"));
  TW_ASSIGN(const BatchRequest request, BatchFromJson(request_json));
  TW_ASSIGN(const std::vector<RequestOutput> outputs,
            Unwrap(llm.Generate(std::span(request.prompts), std::span(request.params))));
  Json json = Json::array();
  for (const RequestOutput& output : outputs) json.push_back(OutputJson(output));
  return HandOut(DumpJson(json), results_json);
}

Status StreamInto(LLM& llm, const char* request_json, thalweg_callback callback, void* user,
                  char** request_id) {
  TW_TRY(NotNull(request_json, "request_json"));
  TW_TRY(NotNull(reinterpret_cast<const void*>(callback), "callback"));
  TW_ASSIGN(const SingleRequest request, SingleFromJson(request_json));
  const auto forward = [callback, user](const RequestOutput& output) {
    callback(output.ToJson().c_str(), user);
  };
  TW_ASSIGN(const std::string id,
            Unwrap(llm.Submit(request.prompt, request.params, forward, request.options)));
  return request_id == nullptr ? Status() : HandOut(id, request_id);
}

Status EncodeInto(const LLM& llm, const char* text, int32_t** ids, size_t* count) {
  TW_TRY(NotNull(text, "text"));
  TW_TRY(NotNull(ids, "ids"));
  TW_TRY(NotNull(count, "count"));
  const std::vector<int32_t> tokens = llm.Encode(text);
  TW_ASSIGN(void* memory, Allocate(tokens.size() * sizeof(int32_t)));
  if (!tokens.empty()) std::memcpy(memory, tokens.data(), tokens.size() * sizeof(int32_t));
  *ids = static_cast<int32_t*>(memory);
  *count = tokens.size();
  return {};
}

}  // namespace
}  // namespace thalweg::api

namespace api = thalweg::api;

extern "C" {

uint32_t thalweg_abi_version(void) { return THALWEG_ABI_VERSION; }

const char* thalweg_version(void) { return thalweg::Version(); }

thalweg_code thalweg_load(const char* options_json, thalweg_llm** llm) {
  return api::Guard(nullptr, [&] { return api::LoadInto(options_json, llm); });
}

void thalweg_close(thalweg_llm* llm) { delete llm; }

const char* thalweg_last_error(const thalweg_llm* llm) {
  if (llm == nullptr) return api::ErrorOfThread().c_str();
  static thread_local std::string copy;
  auto* handle = const_cast<thalweg_llm*>(llm);  // the mutex alone changes
  const std::scoped_lock lock(handle->mutex);
  copy = handle->last_error;
  return copy.c_str();
}

thalweg_code thalweg_options(char** options_json) {
  return api::Guard(nullptr, [&]() -> thalweg::Status {
    TW_TRY(api::NotNull(options_json, "options_json"));
    api::Json json = api::Json::array();
    for (const auto& option : thalweg::LLM::Options()) json.push_back(api::OptionJson(option));
    return api::HandOut(api::DumpJson(json), options_json);
  });
}

thalweg_code thalweg_generate(thalweg_llm* llm, const char* request_json, char** results_json) {
  return api::GuardHandle(llm,
                          [&] { return api::GenerateInto(llm->llm, request_json, results_json); });
}

thalweg_code thalweg_stream(thalweg_llm* llm, const char* request_json, thalweg_callback callback,
                            void* user, char** request_id) {
  return api::GuardHandle(
      llm, [&] { return api::StreamInto(llm->llm, request_json, callback, user, request_id); });
}

thalweg_code thalweg_cancel(thalweg_llm* llm, const char* request_id) {
  return api::GuardHandle(llm, [&]() -> thalweg::Status {
    TW_TRY(api::NotNull(request_id, "request_id"));
    llm->llm.Cancel(request_id);
    return {};
  });
}

thalweg_code thalweg_metrics(thalweg_llm* llm, char** metrics_json) {
  return api::GuardHandle(llm, [&]() -> thalweg::Status {
    TW_TRY(api::NotNull(metrics_json, "metrics_json"));
    return api::HandOut(llm->llm.MetricsJson(), metrics_json);
  });
}

thalweg_code thalweg_encode(thalweg_llm* llm, const char* text, int32_t** ids, size_t* count) {
  return api::GuardHandle(llm, [&] { return api::EncodeInto(llm->llm, text, ids, count); });
}

thalweg_code thalweg_decode(thalweg_llm* llm, const int32_t* ids, size_t count,
                            int skip_special_tokens, char** text) {
  return api::GuardHandle(llm, [&]() -> thalweg::Status {
    TW_TRY(api::NotNull(ids, "ids"));
    TW_TRY(api::NotNull(text, "text"));
    return api::HandOut(llm->llm.Decode({ids, count}, skip_special_tokens != 0), text);
  });
}

void thalweg_free(void* memory) { std::free(memory); }

}  // extern "C"
