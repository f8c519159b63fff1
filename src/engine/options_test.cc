// Options: the table and the struct agree, contradictions are errors that name both options, and
// what the environment of the published engine says is honoured or refused, never ignored.
#include "engine/options.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace thalweg::engine {
namespace {

using Given = std::vector<std::pair<std::string, std::string>>;

Result<EngineOptions> FromGiven(const Given& given) {
  base::OptionValues values;
  for (const auto& [name, value] : given) values.Set(name, value);
  TW_TRY(base::ResolveOptions(EngineOptions::Rows(), "", &values));
  return EngineOptions::From(values);
}

TEST(EngineOptions, DefaultsOfTableAndStructAgree) {
  const Result<EngineOptions> resolved = FromGiven({});
  ASSERT_TRUE(resolved.ok()) << resolved.status().ToString();
  EXPECT_EQ(resolved->Describe(), EngineOptions().Describe());
}

TEST(EngineOptions, ValuesSurviveTheWayThroughTheTable) {
  const Given given = {{"model", "a/b"},
                       {"revision", "r"},
                       {"backend", "reference"},
                       {"threads", "3"},
                       {"pin", "off"},
                       {"repack", "never"},
                       {"graphs", "off"},
                       {"rank-steps", "queued"},
                       {"replay", "compact"},
                       {"keep-tokens", "200"},
                       {"max-rows", "96"},
                       {"max-sequences", "7"},
                       {"max-context", "640"},
                       {"cache-tokens", "6400"},
                       {"cache-checkpoints", "5"},
                       {"checkpoint-interval", "128"},
                       {"prefix-exactness", "bounded"},
                       {"admission-growth", "0.25"},
                       {"overlap", "3"},
                       {"engine-seed", "9"},
                       {"trace", "t.json"},
                       {"watchdog", "1.5"},
                       {"so-whitespace", "python"},
                       {"so-compile-seconds", "0.5"},
                       {"so-cache-bytes", "1000"},
                       {"so-threads", "3"},
                       {"log-level", "info"},
                       {"preempt-every", "11"},
                       {"ranks", "2"},
                       {"expert-placement", "p.json"},
                       {"expert-spare", "1"}};
  const Result<EngineOptions> once = FromGiven(given);
  ASSERT_TRUE(once.ok()) << once.status().ToString();
  const base::OptionValues values = once->ToValues();
  for (const auto& [name, value] : given) EXPECT_EQ(values.Text(name), value) << name;
  const Result<EngineOptions> twice = EngineOptions::From(values);
  ASSERT_TRUE(twice.ok());
  EXPECT_EQ(twice->Describe(), once->Describe());
}

TEST(EngineOptions, EveryNameIsThereOnce) {
  std::map<std::string, int> count;
  for (const base::OptionRow& row : EngineOptions::Rows()) ++count[row.name];
  for (const auto& [name, times] : count) EXPECT_EQ(times, 1) << name;
}

TEST(EngineOptions, ContradictionsNameBothSides) {
  struct Case {
    Given given;
    std::string_view one, other;
  };
  const std::vector<Case> cases = {
      {{{"replay", "full"}, {"keep-tokens", "200"}}, "--keep-tokens 200", "--replay"},
      {{{"prefix-reuse", "false"}, {"prefix-exactness", "exact"}},
       "--prefix-exactness",
       "--prefix-reuse"},
      {{{"prefix-reuse", "false"}, {"cache-checkpoints", "4"}},
       "--cache-checkpoints 4",
       "--prefix-reuse"},
      {{{"cache-tokens", "640"}, {"max-context", "1000"}},
       "--cache-tokens 640",
       "--max-context 1000"},
      {{{"max-rows", "16"}, {"max-sequences", "64"}}, "--max-rows 16", "--max-sequences 64"},
      {{{"checkpoint-interval", "100"}}, "--checkpoint-interval", "multiple of 64"},
      {{{"mtp-varlen", "true"}}, "--mtp-varlen", "--nextn"},
      {{{"accelerator", "nvidia"}}, "accelerator", "cpu only"},
  };
  for (const Case& c : cases) {
    const Result<EngineOptions> result = FromGiven(c.given);
    ASSERT_FALSE(result.ok()) << c.one;
    EXPECT_NE(result.status().message().find(c.one), std::string::npos)
        << result.status().message();
    EXPECT_NE(result.status().message().find(c.other), std::string::npos)
        << result.status().message();
  }
}

TEST(EngineOptions, PublishedNamesOfTheEnvironmentAreHonoured) {
  setenv("DEEPINFER_YOCO_PREFILL_TRUNCATION_MODE", "halo", 1);
  const Result<EngineOptions> halo = FromGiven({});
  setenv("DEEPINFER_YOCO_PREFILL_TRUNCATION_MODE", "sideways", 1);
  const Result<EngineOptions> bad = FromGiven({});
  unsetenv("DEEPINFER_YOCO_PREFILL_TRUNCATION_MODE");
  setenv("DEEPINFER_USE_NEXTN_DECODE", "3", 1);
  const Result<EngineOptions> drafts = FromGiven({});
  unsetenv("DEEPINFER_USE_NEXTN_DECODE");
  ASSERT_TRUE(halo.ok());
  EXPECT_EQ(halo->replay, model::ReplayMode::kHalo);
  ASSERT_FALSE(bad.ok());
  EXPECT_NE(bad.status().message().find("DEEPINFER_YOCO_PREFILL_TRUNCATION_MODE"),
            std::string::npos);
  ASSERT_TRUE(drafts.ok());
  EXPECT_EQ(drafts->draft_tokens, 3);
}

}  // namespace
}  // namespace thalweg::engine
