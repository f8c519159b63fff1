// Every backend passes every check of both golden folders, and a golden folder that is broken gives
// an error that names what is wrong: never a crash, never a report.
#include "tools/verify/verify.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <string>

#include "base/mapped_file.h"
#include "checkpoint/safetensors.h"
#include "kernels/backends.h"
#include "tools/verify/selection.h"

namespace thalweg::tools {
namespace {

using base::Json;
using checkpoint::NamedTensor;
using checkpoint::SafetensorsFile;
namespace fs = std::filesystem;

const fs::path kData = fs::path(THALWEG_SOURCE_DIR) / "tests/data";

class GoldenTest : public testing::TestWithParam<std::string> {};

TEST_P(GoldenTest, EveryBackendPasses) {
  for (const kernels::BackendInfo& backend : kernels::Backends()) {
    if (backend.ops == nullptr) continue;  // no device here
    const auto report = Verify({.golden_dir = kData / GetParam(), .ops = backend.ops});
    ASSERT_TRUE(report.ok()) << report.status().ToString();
    EXPECT_TRUE(report->ok()) << ToText(*report);
    EXPECT_GT(report->Count(Verdict::kOk), 300);
    for (const Check& check : report->checks) {
      const bool vision = check.id.stage == Stage::kVision || check.id.part == "median_logit";
      EXPECT_TRUE(check.verdict != Verdict::kSkipped || vision) << check.id.name;
    }
    EXPECT_EQ(ToJson(*report)["first_failure"], Json());
  }
}

INSTANTIATE_TEST_SUITE_P(Folders, GoldenTest, testing::Values("tiny-a", "tiny-b"),
                         [](const testing::TestParamInfo<std::string>& folder) {
                           return folder.param == "tiny-a" ? "TinyA" : "TinyB";
                         });

// A small golden folder made of a part of tiny-a, to be broken in one place.
class BrokenFolder : public testing::Test {
 protected:
  void SetUp() override {
    dir_ = fs::path(testing::TempDir()) /
           (std::to_string(::getpid()) +
            testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::remove_all(dir_);
    fs::create_directories(dir_);
    fs::create_directory_symlink(kData / "tiny-a/model", dir_ / "model");
    fs::copy(kData / "tiny-a/tokenizer_cases.json", dir_);
    const std::string text =
        base::ReadFile(kData / "tiny-a/manifest.json", uint64_t{64} << 20).value();
    manifest_ = base::ParseJson(text, "manifest").value();
    golden_.emplace(SafetensorsFile::Open(kData / "tiny-a/golden.safetensors").value());
    const Json all = manifest_["entries"];
    manifest_["entries"] = Json::object();
    for (const auto& [name, entry] : all.items()) {
      if (!name.starts_with("dump/rand17/") && !name.starts_with("prompt/rand17/")) continue;
      manifest_["entries"][name] = entry;
      tensors_.push_back({name, *golden_->Find(name)});
    }
  }
  void TearDown() override { fs::remove_all(dir_); }

  tensor::View& View(const std::string& name) {
    for (NamedTensor& tensor : tensors_) {
      if (tensor.name == name) return tensor.view;
    }
    ADD_FAILURE() << name;
    return tensors_[0].view;
  }

  // Writes the folder and runs verify over it.
  Result<VerifyReport> Run() {
    TW_TRY(base::WriteFile(dir_ / "manifest.json", manifest_.dump()));
    TW_TRY(checkpoint::WriteSafetensors(dir_ / "golden.safetensors", tensors_));
    return Verify({.golden_dir = dir_, .ops = &kernels::ReferenceOps(), .threads = 2});
  }
  void ExpectError(std::string_view part) {
    const auto report = Run();
    ASSERT_FALSE(report.ok());
    EXPECT_NE(report.status().message().find(part), std::string::npos)
        << report.status().ToString();
  }
  // The same tensor with element `at` changed.
  void ChangeInteger(const std::string& name, size_t at, int32_t value) {
    tensor::View& view = View(name);
    changed_.assign(view.as<int32_t>(), view.as<int32_t>() + view.shape.elements());
    changed_[at] = value;
    view.data = reinterpret_cast<const std::byte*>(changed_.data());
  }

  fs::path dir_;
  Json manifest_;
  std::optional<SafetensorsFile> golden_;
  std::vector<NamedTensor> tensors_;
  std::vector<int32_t> changed_;
};

TEST_F(BrokenFolder, IsFineBeforeItIsBroken) {
  const auto report = Run();
  ASSERT_TRUE(report.ok()) << report.status().ToString();
  EXPECT_TRUE(report->ok()) << ToText(*report);
}

TEST_F(BrokenFolder, NoManifest) {
  const auto report = Verify({.golden_dir = dir_, .ops = &kernels::ReferenceOps()});
  ASSERT_FALSE(report.ok());
  EXPECT_NE(report.status().message().find("manifest.json"), std::string::npos);
}

TEST_F(BrokenFolder, ManifestIsAList) {
  manifest_ = Json::array();
  ExpectError("entries");
}

TEST_F(BrokenFolder, MissingLimit) {
  manifest_["limits"]["layer_local"].erase("router_gap");
  ExpectError("limits/layer_local/router_gap");
}

TEST_F(BrokenFolder, LimitIsText) {
  manifest_["limits"]["end_to_end"]["same_rounding"]["kl_max"] = "0.1";
  ExpectError("limits/end_to_end/same_rounding/kl_max");
}

TEST_F(BrokenFolder, TensorMissing) {
  std::erase_if(tensors_, [](const NamedTensor& t) { return t.name == "prompt/rand17/logits"; });
  ExpectError("prompt/rand17/logits");
}

TEST_F(BrokenFolder, EntryMissing) {
  manifest_["entries"].erase("prompt/rand17/margin");
  ExpectError("prompt/rand17/margin");
}

TEST_F(BrokenFolder, DescribedOtherwise) {
  manifest_["entries"]["dump/rand17/0/attn_in"]["shape"] = {17, 64};
  ExpectError("dump/rand17/0/attn_in");
}

TEST_F(BrokenFolder, WrongWidth) {
  View("dump/rand17/0/attn_in").shape = tensor::Shape{34, 64};
  manifest_["entries"]["dump/rand17/0/attn_in"]["shape"] = {34, 64};
  ExpectError("dump/rand17/0/attn_in");
}

TEST_F(BrokenFolder, TooManyRows) {
  View("dump/rand17/3/pre_mix_out").shape = tensor::Shape{0, 4};
  manifest_["entries"]["dump/rand17/3/pre_mix_out"]["shape"] = {0, 4};
  ExpectError("dump/rand17/3/pre_mix_out");
}

TEST_F(BrokenFolder, SelectionBehindTheCache) {
  ChangeInteger("dump/rand17/4/index_sel", 16, 1 << 30);
  ExpectError("dump/rand17/4/index_sel");
}

TEST_F(BrokenFolder, TokenOutsideTheVocabulary) {
  ChangeInteger("prompt/rand17/ids", 3, -7);
  ExpectError("token id -7");
}

TEST_F(BrokenFolder, PositionBehindThePrompt) {
  ChangeInteger("prompt/rand17/logit_positions", 0, 17);
  ExpectError("logit_positions");
}

TEST_F(BrokenFolder, MalformedTokenizerCases) {
  ASSERT_TRUE(base::WriteFile(dir_ / "tokenizer_cases.json", "[{\"text\": 1}]").ok());
  ExpectError("tokenizer_cases.json");
}

TEST_F(BrokenFolder, NotANumberFails) {
  std::vector<float> logits(
      View("prompt/rand17/logits").as<float>(),
      View("prompt/rand17/logits").as<float>() + View("prompt/rand17/logits").shape.elements());
  logits[5] = std::numeric_limits<float>::quiet_NaN();
  View("prompt/rand17/logits").data = reinterpret_cast<const std::byte*>(logits.data());
  const auto report = Run();
  ASSERT_TRUE(report.ok()) << report.status().ToString();
  ASSERT_FALSE(report->ok());
  EXPECT_EQ(report->FirstFailure()->id.name, "prompt/rand17/kl_max");
}

TEST(Selections, TieAware) {
  const std::vector<float> score = {1.0f, 0.5f, 0.501f, 0.2f};
  const std::vector<int32_t> best = {0, 2}, tie = {0, 1}, wrong = {0, 3}, few = {0, -1};
  const std::vector<int32_t> twice = {0, 0}, outside = {0, 4};
  EXPECT_EQ(SelectionExcess(best, score, {}, 2), 0);
  EXPECT_LE(SelectionExcess(tie, score, {}, 2), 1);
  EXPECT_GT(SelectionExcess(wrong, score, {}, 2), 1);
  EXPECT_GT(SelectionExcess(few, score, {}, 2), 1);
  EXPECT_GT(SelectionExcess(twice, score, {}, 2), 1);
  EXPECT_GT(SelectionExcess(outside, score, {}, 2), 1);
  EXPECT_GT(SelectionExcess(best, score, std::vector<uint8_t>{1, 1, 0, 1}, 2), 1);
}

TEST(Selections, CandidateBlocks) {
  const std::vector<float> score = {0.1f, 0.9f, 0.3f, 0.2f, 0.0f};
  const std::vector<uint8_t> good = {1, 1, 0, 0, 1}, split = {1, 0, 0, 0, 1};
  const std::vector<uint8_t> not_newest = {1, 1, 1, 1, 0}, worse = {0, 0, 1, 1, 1};
  EXPECT_EQ(CandidateExcess(good, score, 2, 2), 0);
  EXPECT_GT(CandidateExcess(split, score, 2, 2), 1);
  EXPECT_GT(CandidateExcess(not_newest, score, 2, 2), 1);
  EXPECT_GT(CandidateExcess(worse, score, 2, 2), 1);
}

}  // namespace
}  // namespace thalweg::tools
