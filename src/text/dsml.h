// How calls of tools are spelled in prompts and answers of DeepSeek-V4.1
// (spec/serving.md 2.2, 2.4). The bars are U+FF5C. The mark is one token; the angle brackets are
// text.
#pragma once

#include <string_view>

namespace thalweg::text {

inline constexpr std::string_view kDsmlMark = "｜DSML｜";
inline constexpr std::string_view kCallsName = " calls";
inline constexpr std::string_view kInvokeName = " invoke";
inline constexpr std::string_view kParameterName = " parameter";

}  // namespace thalweg::text
