// How calls of tools are spelled in prompts and answers of DeepSeek-V4.1
// (spec/serving.md 2.2, 2.4). The bars are U+FF5C. The mark is one token; the angle brackets are
// text.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace thalweg::text {

inline constexpr std::string_view kDsmlMark = "｜DSML｜";
inline constexpr std::string_view kCallsName = " calls";
inline constexpr std::string_view kInvokeName = " invoke";
inline constexpr std::string_view kParameterName = " parameter";

// Beginnings of tags, as answers are read: with ASCII bars, too.
inline constexpr std::array<std::string_view, 2> kDsmlOpens = {"<｜DSML｜", "<|DSML|"};
inline constexpr std::array<std::string_view, 2> kDsmlCloses = {"</｜DSML｜", "</|DSML|"};
inline constexpr std::array<std::string_view, 4> kDsmlTagBegins = {kDsmlOpens[0], kDsmlOpens[1],
                                                                   kDsmlCloses[0], kDsmlCloses[1]};

enum class DsmlTag : uint8_t { kBlock, kInvoke, kParameter, kUnknown };

// Which tag is closed by "</｜DSML｜NAME>". V4.1 writes a space before the names, V4 does not and
// calls the block tool_calls; models also invent names (toolcalls, function_calls): any name with
// "call" in it is the block's.
DsmlTag ClosingTag(std::string_view name);

}  // namespace thalweg::text
