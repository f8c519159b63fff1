#include "api/params_json.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <utility>

#include "api/errors.h"
#include "api/structured.h"

namespace thalweg::api {
namespace {

constexpr int64_t kMaxInt = std::numeric_limits<int>::max();
constexpr int64_t kMaxCount = std::numeric_limits<int64_t>::max();

// Ranges that have a meaning (temperature >= 0 and the like) are checked once,
// by the engine.
Status SetReal(const Json& json, std::string_view name, double* out) {
  TW_ASSIGN(*out, ReadReal(json, name));
  return {};
}

Status SetBool(const Json& json, std::string_view name, bool* out) {
  TW_ASSIGN(*out, ReadBool(json, name));
  return {};
}

template <typename T>
Status SetInteger(const Json& json, std::string_view name, int64_t least, int64_t most, T* out) {
  TW_ASSIGN(const int64_t value, ReadInteger(json, name, least, most));
  *out = static_cast<T>(value);
  return {};
}

template <typename T>
Status SetOptionalInteger(const Json& json, std::string_view name, int64_t most,
                          std::optional<T>* out) {
  if (json.is_null()) {
    out->reset();
    return {};
  }
  TW_ASSIGN(const int64_t value, ReadInteger(json, name, 0, most));
  *out = static_cast<T>(value);
  return {};
}

Status SetSeed(const Json& json, std::string_view name, SamplingParams* p) {
  p->seed.reset();
  if (json.is_null()) return {};
  TW_ASSIGN(p->seed, ReadSeed(json, name));
  return {};
}

Status SetAllowed(const Json& json, std::string_view name, SamplingParams* p) {
  p->allowed_token_ids.reset();
  if (json.is_null()) return {};
  TW_ASSIGN(p->allowed_token_ids, ReadTokens(json, name));
  return {};
}

Status SetTokens(const Json& json, std::string_view name, std::vector<int32_t>* out) {
  out->clear();
  if (json.is_null()) return {};
  TW_ASSIGN(*out, ReadTokens(json, name));
  return {};
}

Status SetStrings(const Json& json, std::string_view name, std::vector<std::string>* out) {
  out->clear();
  if (json.is_null()) return {};
  TW_ASSIGN(*out, ReadStrings(json, name));
  return {};
}

Status SetLogitBias(const Json& json, std::string_view name, SamplingParams* p) {
  p->logit_bias.clear();
  if (json.is_null()) return {};
  if (!json.is_object()) return WrongValue(json, name, "an object from token id to bias");
  for (const auto& [key, value] : json.items()) {
    int32_t token = 0;
    const char* last = key.data() + key.size();
    const auto [end, error] = std::from_chars(key.data(), last, token);
    if (error != std::errc() || end != last || token < 0)
      return base::InvalidArgument(fmt::format("{}: \"{}\" is no token id", name, key));
    TW_ASSIGN(const double bias, ReadReal(value, fmt::format("{}[{}]", name, key)));
    p->logit_bias.emplace_back(token, static_cast<float>(bias));
  }
  return {};
}

using ReadSoArgs = Result<std::string> (*)(const Json&, std::string_view);

Status SetSoArgs(const Json& json, std::string_view name, ReadSoArgs read, SamplingParams* p) {
  TW_ASSIGN(p->so_args, read(json, name));
  return {};
}

Status SetOutputKind(const Json& json, std::string_view name, SamplingParams* p) {
  constexpr std::array<std::string_view, 3> kNames = {"cumulative", "delta", "final_only"};
  const auto at = json.is_string()
                      ? std::find(kNames.begin(), kNames.end(), json.get_ref<const std::string&>())
                      : kNames.end();
  if (at == kNames.end())
    return WrongValue(json, name, fmt::format("one of {}", fmt::join(kNames, ", ")));
  p->output_kind = static_cast<OutputKind>(at - kNames.begin());
  return {};
}

using Setter = Status (*)(const Json&, std::string_view name, SamplingParams*);

struct Field {
  std::string_view name;
  Setter set;
};

#define TW_FIELD(field, call)                                                            \
  Field {                                                                                \
#field, [](const Json& j, std::string_view name, SamplingParams* p) { return call; } \
  }

constexpr Field kFields[] = {
    TW_FIELD(n, SetInteger(j, name, 1, kMaxInt, &p->n)),
    TW_FIELD(temperature, SetReal(j, name, &p->temperature)),
    TW_FIELD(top_p, SetReal(j, name, &p->top_p)),
    TW_FIELD(top_k, SetInteger(j, name, -1, kMaxInt, &p->top_k)),
    TW_FIELD(min_p, SetReal(j, name, &p->min_p)),
    TW_FIELD(repetition_penalty, SetReal(j, name, &p->repetition_penalty)),
    TW_FIELD(frequency_penalty, SetReal(j, name, &p->frequency_penalty)),
    TW_FIELD(presence_penalty, SetReal(j, name, &p->presence_penalty)),
    {"logit_bias", SetLogitBias},
    {"allowed_token_ids", SetAllowed},
    TW_FIELD(banned_token_ids, SetTokens(j, name, &p->banned_token_ids)),
    TW_FIELD(bad_words, SetStrings(j, name, &p->bad_words)),
    TW_FIELD(min_tokens, SetInteger(j, name, 0, kMaxCount, &p->min_tokens)),
    TW_FIELD(max_tokens, SetOptionalInteger(j, name, kMaxCount, &p->max_tokens)),
    TW_FIELD(stop, SetStrings(j, name, &p->stop)),
    TW_FIELD(stop_token_ids, SetTokens(j, name, &p->stop_token_ids)),
    TW_FIELD(include_stop_str_in_output, SetBool(j, name, &p->include_stop_str_in_output)),
    TW_FIELD(ignore_eos, SetBool(j, name, &p->ignore_eos)),
    TW_FIELD(logprobs, SetOptionalInteger(j, name, kMaxInt, &p->logprobs)),
    TW_FIELD(prompt_logprobs, SetOptionalInteger(j, name, kMaxInt, &p->prompt_logprobs)),
    {"seed", SetSeed},
    {"seq_seed", SetSeed},
    TW_FIELD(skip_special_tokens, SetBool(j, name, &p->skip_special_tokens)),
    TW_FIELD(thinking_budget, SetOptionalInteger(j, name, kMaxCount, &p->thinking_budget)),
    {"output_kind", SetOutputKind},
    TW_FIELD(so_args, SetSoArgs(j, name, SoArgsText, p)),
    TW_FIELD(response_format, SetSoArgs(j, name, SoArgsOfResponseFormat, p)),
    TW_FIELD(structured_outputs, SetSoArgs(j, name, SoArgsOfStructuredOutputs, p)),
};
#undef TW_FIELD

// Old names of this engine's peers whose silent loss would change the answer.
constexpr std::string_view kSuperseded[] = {"guided_decoding", "guided_json", "guided_regex",
                                            "guided_choice", "guided_grammar"};
// Two names of one value each: one of them at most.
constexpr std::pair<std::string_view, std::string_view> kSame[] = {
    {"seed", "seq_seed"},
    {"so_args", "response_format"},
    {"so_args", "structured_outputs"},
    {"response_format", "structured_outputs"}};

const Field* FindField(std::string_view name) {
  const auto* at = std::find_if(std::begin(kFields), std::end(kFields),
                                [&](const Field& field) { return field.name == name; });
  return at == std::end(kFields) ? nullptr : at;
}

}  // namespace

bool IsParamName(std::string_view name) { return FindField(name) != nullptr; }

Status CheckParamName(std::string_view name) {
  if (IsParamName(name)) return {};
  if (std::find(std::begin(kSuperseded), std::end(kSuperseded), name) != std::end(kSuperseded))
    return base::Unsupported(fmt::format("{}: use so_args or structured_outputs instead", name));
  std::vector<std::string_view> known;
  for (const Field& field : kFields) known.push_back(field.name);
  return base::InvalidArgument(
      fmt::format("unknown sampling parameter \"{}\"; known: {}", name, fmt::join(known, ", ")));
}

Status SetParam(std::string_view name, const Json& value, SamplingParams* params) {
  const Field* field = FindField(name);
  TW_CHECK(field != nullptr);
  return field->set(value, name, params);
}

Status SetParams(const Json& object, SamplingParams* params) {
  if (!object.is_object()) return WrongValue(object, "sampling params", "an object");
  for (const auto& [one, other] : kSame) {
    if (!object.contains(one) || !object.contains(other)) continue;
    return base::InvalidArgument(
        fmt::format("{} and {} are two names of one value: give one of them", one, other));
  }
  for (const auto& [name, value] : object.items()) {
    TW_TRY(CheckParamName(name));
    TW_TRY(SetParam(name, value, params));
  }
  return {};
}

}  // namespace thalweg::api

namespace thalweg {

Expected<SamplingParams> SamplingParams::FromJson(std::string_view json) {
  TW_API_ASSIGN(const base::Json object, base::ParseJson(json, "sampling params"));
  SamplingParams params;
  TW_API_TRY(api::SetParams(object, &params));
  return params;
}

}  // namespace thalweg
