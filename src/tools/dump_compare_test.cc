// Two dumps of one model agree; a dump of a model that deviates in one part is told apart at the
// first point behind that part, in forward order.
#include <gtest/gtest.h>
#include <unistd.h>

#include <string>

#include "checkpoint/checkpoint.h"
#include "checkpoint/safetensors.h"
#include "tools/compare.h"
#include "tools/dump.h"

namespace thalweg::tools {
namespace {

namespace fs = std::filesystem;

const std::vector<int32_t> kIds = {5, 9, 200, 31, 77, 4, 12};

class DumpTest : public testing::Test {
 protected:
  // A forward of tiny-a with this window format, dumped to a file of this name.
  fs::path DumpTo(const std::string& name, tensor::RowFormat window_format,
                  const DumpFilter& filter = {}) {
    const auto model = model::Model::Load(checkpoint_, {.ops = &kernels::ReferenceOps(),
                                                        .team = &team_,
                                                        .max_rows = 64,
                                                        .max_tokens = 64,
                                                        .window_format = window_format});
    EXPECT_TRUE(model.ok()) << model.status().ToString();
    const fs::path path =
        fs::path(testing::TempDir()) / (name + std::to_string(::getpid()) + ".safetensors");
    written_ = Dump(**model, kIds, filter, path);
    return path;
  }

  base::ThreadTeam team_{1};
  const checkpoint::Checkpoint checkpoint_ =
      checkpoint::Checkpoint::Open(fs::path(THALWEG_SOURCE_DIR) / "tests/data/tiny-a/model")
          .value();
  Result<int64_t> written_ = base::Internal("nothing was written");
};

TEST_F(DumpTest, EqualRunsAgree) {
  const fs::path a = DumpTo("a", tensor::RowFormat::kFp8E8M0);
  ASSERT_TRUE(written_.ok()) << written_.status().ToString();
  EXPECT_GT(*written_, 100);
  const fs::path b = DumpTo("b", tensor::RowFormat::kFp8E8M0);
  const auto report = CompareDumps(a, b, {});
  ASSERT_TRUE(report.ok()) << report.status().ToString();
  EXPECT_TRUE(report->ok()) << ToText(*report);
  EXPECT_EQ(static_cast<int64_t>(report->points.size()), *written_);
  EXPECT_EQ(report->points.front().name, "0/hc_attn_pre");
  EXPECT_EQ(report->points.back().name, "8/logits");
}

TEST_F(DumpTest, NamesTheFirstPointThatDiffers) {
  const fs::path a = DumpTo("a", tensor::RowFormat::kFp8E8M0);
  const fs::path b = DumpTo("b", tensor::RowFormat::kBF16);
  const auto report = CompareDumps(a, b, {});
  ASSERT_TRUE(report.ok()) << report.status().ToString();
  ASSERT_FALSE(report->ok());
  const PointDifference& first = *report->FirstOverBudget();
  EXPECT_EQ(first.name, "0/window_kv");
  EXPECT_EQ(first.shape, "[7, 64]");
  EXPECT_EQ(first.worst_index.size(), 2u);
  EXPECT_GT(first.max_abs, 0);
  EXPECT_GT(first.relative_rms, 0.001);
  EXPECT_GT(first.cosine, 0.99);
  EXPECT_EQ(ToJson(*report)["first_over_budget"]["name"], "0/window_kv");
  // A budget above the step of the quantiser moves the first finding behind it.
  EXPECT_NE(CompareDumps(a, b, {.relative_rms = 0.05})->FirstOverBudget(), &first);
}

TEST_F(DumpTest, FilterAndMissingPoints) {
  const fs::path a = DumpTo("a", tensor::RowFormat::kFp8E8M0);
  const fs::path b =
      DumpTo("b", tensor::RowFormat::kFp8E8M0, {.layers = {2}, .points = {"attn_out", "index_k"}});
  ASSERT_TRUE(written_.ok()) << written_.status().ToString();
  EXPECT_EQ(*written_, 2);
  const auto file = checkpoint::SafetensorsFile::Open(b);
  ASSERT_TRUE(file.ok());
  EXPECT_TRUE(file->Find("2/attn_out") && file->Find("2/index_k"));
  const auto report = CompareDumps(a, b, {});
  ASSERT_TRUE(report.ok());
  EXPECT_EQ(report->FirstOverBudget()->note, "only in the first file");
}

TEST_F(DumpTest, Refusals) {
  DumpTo("c", tensor::RowFormat::kFp8E8M0, {.layers = {}, .points = {"attn_uot"}});
  EXPECT_NE(written_.status().message().find("attn_out"), std::string::npos);
  DumpTo("c", tensor::RowFormat::kFp8E8M0, {.layers = {9}, .points = {}});
  EXPECT_EQ(written_.status().code(), base::Code::kOutOfRange);
  DumpTo("c", tensor::RowFormat::kFp8E8M0, {.layers = {0}, .points = {"index_k"}});
  EXPECT_NE(written_.status().message().find("nothing"), std::string::npos);
  EXPECT_FALSE(CompareDumps("/nonexistent", "/nonexistent", {}).ok());
}

}  // namespace
}  // namespace thalweg::tools
