// What users of other servers reported does not happen here: R09 to R32 of spec/serving.md 3.2,
// each by its number, and the promises of the interface that no corpus of results can show.
#include <gtest/gtest.h>

#include "base/json.h"
#include "text/byte_patterns.h"
#include "text/output_decoder.h"
#include "text/test_output_stream.h"
#include "text/test_tokenizer.h"
#include "text/token_output_decoder.h"

namespace thalweg::text {
namespace {

using Start = OutputDecoderOptions::Start;

constexpr const char* kBlock =
    "<｜DSML｜ calls>\n<｜DSML｜ invoke name=\"get_weather\">\n"
    "<｜DSML｜ parameter name=\"location\" string=\"true\">Paris</｜DSML｜ parameter>\n"
    "<｜DSML｜ parameter name=\"days\" string=\"false\">3</｜DSML｜ parameter>\n"
    "</｜DSML｜ invoke>\n</｜DSML｜ calls>";
constexpr const char* kArguments = R"({"location": "Paris", "days": 3})";

DecodedOutput Decode(const OutputDecoderOptions& options, std::string_view text,
                     OutputReason reason = OutputReason::kStop) {
  return DecodeOutput(options, text, reason).value();
}

std::string Call(std::string_view inner) {
  return "<｜DSML｜ calls>\n<｜DSML｜ invoke name=\"f\">\n" + std::string(inner) +
         "\n</｜DSML｜ invoke>\n</｜DSML｜ calls>";
}

std::string StringParameter(std::string_view value) {
  return "<｜DSML｜ parameter name=\"a\" string=\"true\">" + std::string(value) +
         "</｜DSML｜ parameter>";
}

TEST(OutputCases, R09TwoTurnsInARowShareNothing) {
  for (int turn = 0; turn < 2; ++turn) {
    const DecodedOutput output = Decode({.tools = true}, std::string("Look.\n\n") + kBlock);
    EXPECT_EQ(output.content, "Look.");
    ASSERT_EQ(output.calls.size(), 1u);
    EXPECT_EQ(output.calls[0].id, "call_0");
  }
}

TEST(OutputCases, R09NothingOfAnOpenerIsContentAtAnyMoment) {
  OutputStream stream({.tools = true});
  for (const char byte : std::string("Look.\n\n") + kBlock) {
    stream.Push(std::string_view(&byte, 1));
    EXPECT_TRUE(std::string_view("Look.").starts_with(stream.so_far().content));
  }
  EXPECT_TRUE(stream.done());
}

TEST(OutputCases, R10DeltasOfSeveralTokensKeepAllParameters) {
  for (const size_t size : {3, 5, 13}) {
    OutputStream stream({.tools = true});
    const std::string_view text = kBlock;
    for (size_t at = 0; at < text.size(); at += size) stream.Push(text.substr(at, size));
    EXPECT_EQ(stream.Finish().calls.at(0).arguments, kArguments);
  }
}

TEST(OutputCases, R11ArgumentsAreABeginningOfTheirJsonAtEveryMoment) {
  OutputStream stream({.tools = true});
  for (const char byte : std::string_view(kBlock)) {
    stream.Push(std::string_view(&byte, 1));
    if (stream.so_far().calls.empty()) continue;
    EXPECT_TRUE(std::string_view(kArguments).starts_with(stream.so_far().calls[0].arguments));
  }
  EXPECT_TRUE(base::ParseJson(stream.Finish().calls[0].arguments, "arguments").ok());
}

TEST(OutputCases, R11StringsStreamAsTheyCome) {
  OutputStream stream({.tools = true});
  const std::string text = Call(StringParameter("a long story"));
  stream.Push(text.substr(0, text.find("story")));
  EXPECT_EQ(stream.so_far().calls.at(0).arguments, "{\"a\": \"a long ");
}

TEST(OutputCases, R12AnInventedWrapperLosesNoCall) {
  for (const std::string wrapper : {"toolcalls", "tool_calls", " calls", "function_calls", " x"}) {
    std::string text = kBlock;
    text.replace(text.find(" calls>"), 7, wrapper + ">");
    const DecodedOutput output = Decode({.tools = true}, text);
    EXPECT_EQ(output.content, "");
    EXPECT_EQ(output.calls.at(0).arguments, kArguments);
  }
}

TEST(OutputCases, R14WhatCannotBeReadIsReportedAndTheRestStillCounts) {
  const DecodedOutput output =
      Decode({.tools = true}, "<｜DSML｜ calls>\n?\n</｜DSML｜ calls>\n" + std::string(kBlock));
  EXPECT_EQ(output.end.faults.empty_blocks, 1);
  EXPECT_EQ(output.calls.at(0).arguments, kArguments);
}

TEST(OutputCases, R16ACallInsideTheReasoningEndsItOnce) {
  const OutputDecoderOptions options = {.start = Start::kReasoning, .tools = true};
  const DecodedOutput output = Decode(options, std::string("Hm.\n\n") + kBlock + "\n</think>");
  EXPECT_EQ(output.reasoning, "Hm.");
  EXPECT_EQ(output.content, "");
  EXPECT_EQ(output.calls.size(), 1u);
  EXPECT_EQ(output.end.reason, OutputReason::kToolCalls);
}

TEST(OutputCases, R17WithTheStrictFlagACallInsideTheReasoningIsText) {
  const OutputDecoderOptions options = {
      .start = Start::kReasoning, .tools = true, .calls_in_reasoning = false};
  const DecodedOutput output = Decode(options, kBlock + std::string("\n</think>Final answer."));
  EXPECT_EQ(output.reasoning, kBlock);
  EXPECT_EQ(output.content, "Final answer.");
  EXPECT_TRUE(output.calls.empty());
  EXPECT_EQ(output.end.reason, OutputReason::kStop);
}

TEST(OutputCases, R19WithoutToolsMarkupIsTextAndWithThemNoUnreadBlockIsAnEmptyCall) {
  const std::string ascii =
      "<|DSML|tool_calls><|DSML|invoke name=\"f\"><|DSML|parameter name=\"a\" string=\"true\">x"
      "</|DSML|parameter></|DSML|invoke></|DSML|tool_calls>";
  EXPECT_EQ(Decode({}, ascii).content, ascii);
  const DecodedOutput output = Decode({.tools = true}, ascii);
  EXPECT_EQ(output.content, "");
  EXPECT_EQ(output.calls.at(0).arguments, "{\"a\": \"x\"}");
  const DecodedOutput open = Decode({.tools = true}, "<|DSML|invoke name=\"f\">");
  EXPECT_FALSE(open.calls.at(0).complete);
  EXPECT_EQ(open.calls[0].arguments, "");
  EXPECT_EQ(open.end.reason, OutputReason::kStop);
}

TEST(OutputCases, R20ValuesKeepWhatLooksLikeMarkup) {
  for (const std::string value :
       {"plain <｜DSML｜tool_calls> words", "</｜DSML｜ parameter> like so", "</｜DSML｜ invoke>.",
        "</｜DSML｜ calls>, then", "</｜DSML｜ anything>", "line\n\"q\" \\path"}) {
    const DecodedOutput output = Decode({.tools = true}, Call(StringParameter(value)));
    const base::Json arguments = base::ParseJson(output.calls.at(0).arguments, "arguments").value();
    EXPECT_EQ(arguments["a"], value);
  }
}

TEST(OutputCases, R20UnclosedTagsGiveTheCallAsFarAsItGoes) {
  std::string text = kBlock;
  text.resize(text.find("\n</｜DSML｜ invoke>"));
  EXPECT_EQ(Decode({.tools = true}, text).calls.at(0).arguments, kArguments);
  EXPECT_EQ(Decode({.tools = true}, text).end.reason, OutputReason::kToolCalls);
  const DecodedOutput cut = Decode({.tools = true}, text, OutputReason::kLength);
  EXPECT_EQ(cut.calls.at(0).arguments, R"({"location": "Paris", "days": 3)");
  EXPECT_FALSE(cut.calls[0].complete);
  EXPECT_EQ(cut.end.reason, OutputReason::kLength);
}

TEST(OutputCases, R21NamesOfParametersAreWhateverTheyAre) {
  for (const std::string name : {"shipping address", " string= mode ", "", "a\\b", "x>y", "名前"}) {
    const DecodedOutput output = Decode(
        {.tools = true},
        Call("<｜DSML｜parameter name=\"" + name + "\" string=\"true\">v</｜DSML｜parameter>"));
    const base::Json arguments = base::ParseJson(output.calls.at(0).arguments, "arguments").value();
    EXPECT_EQ(arguments, (base::Json{{name, "v"}}));
  }
}

TEST(OutputCases, R24HalvesOfCharactersWait) {
  const std::string emoji = "\xF0\x9F\x8E\x89";
  OutputStream stream({});
  for (size_t i = 0; i < 3; ++i) {
    stream.Push(emoji.substr(i, 1));
    EXPECT_EQ(stream.so_far().content, "");
  }
  EXPECT_EQ(stream.Push(emoji.substr(3)).so_far().content, emoji);
}

TEST(OutputCases, R25ACharacterOverAnEdgeComesOnce) {
  OutputStream stream({});
  stream.Push("a\xE6").Push("\xBC\xA2 b");
  EXPECT_EQ(stream.Finish().content, "a\xE6\xBC\xA2 b");
}

TEST(OutputCases, R26OnlyBytesThatAreNoCharacterAreReplaced) {
  OutputStream stream({});
  stream.Push("\xE6\xBC").Push(" x");
  EXPECT_EQ(stream.so_far().content, "\xEF\xBF\xBD x");
  EXPECT_EQ(stream.Push("\xE6\xBC").Finish().content, "\xEF\xBF\xBD x\xEF\xBF\xBD");
}

TEST(OutputCases, R29NothingOfAStopStringIsStreamed) {
  OutputStream stream({.stop = {"DEFGHIJ"}});
  stream.Push("abc");
  for (const char* piece : {"DEF", "G", "HI"}) {
    EXPECT_EQ(stream.Push(piece).so_far().content, "abc");
  }
  EXPECT_FALSE(stream.done());
  stream.Push("J and more");
  EXPECT_TRUE(stream.done());
  const DecodedOutput output = stream.Finish(OutputReason::kCancelled);
  EXPECT_EQ(output.content, "abc");
  EXPECT_EQ(output.end.reason, OutputReason::kStop);
  EXPECT_EQ(output.end.stop_string, "DEFGHIJ");
}

TEST(OutputCases, R30AStopStringOverTwoPiecesEndsTheText) {
  OutputStream stream({.stop = {"own fox"}});
  stream.Push("brown").Push(" fox jumps");
  const DecodedOutput output = stream.Finish();
  EXPECT_EQ(output.content, "br");
  EXPECT_EQ(output.end.stop_string, "own fox");
}

TEST(OutputCases, StopStringsThatCannotBeAreErrors) {
  const std::vector<std::vector<std::string>> wrongs = {
      {""},
      {"\xFF"},
      {std::string(kMaxStopBytes + 1, 'x')},
      std::vector<std::string>(kMaxStopStrings + 1, "x")};
  for (const auto& stops : wrongs) EXPECT_FALSE(OutputDecoder::Create({.stop = stops}).ok());
}

TEST(OutputCases, NeighboursOfOneKindAreOneEvent) {
  OutputDecoder decoder = OutputDecoder::Create({.start = Start::kReasoning}).value();
  const OutputEvents events = decoder.Push("a\n\nb <c</think>\nd <e");
  EXPECT_EQ(events, (OutputEvents{ReasoningText{"a\n\nb <c"}, ContentText{"d <e"}}));
}

TEST(OutputCases, ACallIsBegunArguedAndEndedInThisOrder) {
  OutputDecoder decoder = OutputDecoder::Create({.tools = true}).value();
  const OutputEvents events = decoder.Push(std::string("x") + kBlock);
  EXPECT_EQ(events, (OutputEvents{ContentText{"x"}, CallBegin{0, "call_0", "get_weather"},
                                  CallArguments{0, kArguments}, CallEnd{0, true}}));
  EXPECT_EQ(decoder.Finish(OutputReason::kStop),
            (OutputEvents{OutputEnd{OutputReason::kToolCalls, "", {}}}));
}

TEST(OutputCases, WhatCannotBecomeAMarkComesAtOnce) {
  OutputStream stream({.start = Start::kReasoning, .tools = true, .stop = {"STOP"}});
  EXPECT_EQ(stream.Push("I am thinking").so_far().reasoning, "I am thinking");
  EXPECT_EQ(stream.Push("</thi").so_far().reasoning, "I am thinking");
  EXPECT_EQ(stream.Push("s").so_far().reasoning, "I am thinking</this");
  EXPECT_EQ(stream.Push("</think>So: ST").so_far().content, "So: ");
  EXPECT_EQ(stream.Push("A").so_far().content, "So: STA");
}

// A model that repeats itself must not slow the server down: held newlines, beginnings of marks
// and closing tags in values cost time in proportion to their length, byte by byte too.
TEST(OutputCases, TimeIsLinearInAnyText) {
  const std::string opened =
      "<｜DSML｜ calls><｜DSML｜ invoke name=\"f\">"
      "<｜DSML｜ parameter name=\"a\" string=\"true\">";
  const std::pair<std::string, std::string> kinds[] = {{"", "\n"},
                                                       {"", "<"},
                                                       {"", "\n<｜DSML"},
                                                       {opened, "</｜DSML｜ parameter> \n"},
                                                       {opened + "</｜DSML｜ parameter>", " "},
                                                       {opened, "</｜DSML｜"}};
  for (const auto& [before, unit] : kinds) {
    OutputStream stream({.tools = true, .stop = {std::string(4000, 'a'), "\n\n<b"}});
    stream.Push(before);
    const double began = CpuSeconds();
    for (size_t bytes = 0; bytes < 400'000; bytes += unit.size()) stream.Push(unit);
    stream.Finish();
    EXPECT_LT(CpuSeconds() - began, 2.0) << unit;
  }
}

// Any mixture of marks, pieces of marks and text: however it is cut it means the same, content has
// no markup, and complete arguments are JSON.
TEST(OutputCases, AnyMixtureMeansOneThingAndLeaksNothing) {
  const std::string_view parts[] = {"<｜DSML｜ calls>",
                                    "</｜DSML｜ calls>",
                                    "<｜DSML｜ invoke name=\"f\">",
                                    "</｜DSML｜ invoke>",
                                    "<｜DSML｜ parameter name=\"a\" string=\"true\">",
                                    "<｜DSML｜parameter name=\"b\" string=\"false\">",
                                    "</｜DSML｜ parameter>",
                                    "</think>",
                                    "<think>",
                                    "\n",
                                    "\n\n",
                                    "x",
                                    "<",
                                    "</",
                                    "｜",
                                    "｜DSML｜",
                                    "<|DSML|",
                                    "STOP",
                                    "ST",
                                    "\"",
                                    "{",
                                    "}",
                                    "[1]",
                                    "```",
                                    "\xE6\xBC",
                                    "\xF0\x9F\x8E\x89",
                                    " ",
                                    "name=\"",
                                    ">"};
  Dice dice(11);
  for (int round = 0; round < 6000; ++round) {
    OutputDecoderOptions options;
    options.start = static_cast<Start>(dice.Below(5));
    options.tools = dice.Below(4) > 0;
    options.json_content = dice.Below(4) == 0;
    options.spelled_think = dice.Below(2) == 0;
    if (dice.Below(2) == 0) options.stop = {"STOP", "\n\n\n"};
    std::string text;
    for (uint32_t n = dice.Below(25); n > 0; --n) text += parts[dice.Below(std::size(parts))];
    const auto reason = dice.Below(2) == 0 ? OutputReason::kStop : OutputReason::kLength;
    const DecodedOutput whole = Decode(options, text, reason);
    OutputStream stream(options);
    for (size_t at = 0; at < text.size();) {
      const size_t length = 1 + dice.Below(9);
      stream.Push(std::string_view(text).substr(at, length));
      at += length;
    }
    ASSERT_EQ(stream.Finish(reason), whole) << text;
    if (options.tools && !options.json_content) {
      ASSERT_EQ(whole.content.find("｜DSML｜"), std::string::npos) << text;
    }
    for (const DecodedCall& call : whole.calls) {
      ASSERT_TRUE(!call.complete || base::Json::accept(call.arguments)) << call.arguments;
    }
  }
}

}  // namespace
}  // namespace thalweg::text
