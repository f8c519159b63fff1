// A load is what its options say and the same for the same seed; the bench keeps to it, counts
// every token, and its formats agree; percentiles are those of the nearest rank.
#include "tools/bench/serving.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <set>

#include "engine/timed_executor.h"
#include "tools/bench/sampling.h"
#include "tools/bench/scheduler.h"

namespace thalweg::tools::bench {
namespace {

Lengths Length(const std::string& text) {
  Result<Lengths> lengths = Lengths::Parse("prompt-tokens", text);
  EXPECT_TRUE(lengths.ok()) << lengths.status().ToString();
  return std::move(lengths).value();
}

LoadOptions Load(int64_t requests, const std::string& prompt, const std::string& output) {
  LoadOptions o;
  o.requests = requests;
  o.prompt_tokens = Length(prompt);
  o.output_tokens = Length(output);
  return o;
}

std::vector<LoadRequest> Made(const LoadOptions& options, int64_t vocab,
                              std::span<const int32_t> text = {}) {
  Result<std::vector<LoadRequest>> load = MakeLoad(options, vocab, text);
  EXPECT_TRUE(load.ok()) << load.status().ToString();
  return std::move(load).value();
}

class TextFile {
 public:
  explicit TextFile(const std::string& text) { std::ofstream(path_) << text; }
  ~TextFile() { std::filesystem::remove(path_); }
  std::string path() const { return path_.string(); }

 private:
  static inline int count_ = 0;
  std::filesystem::path path_ =
      std::filesystem::temp_directory_path() /
      ("thalweg_load_" + std::to_string(getpid()) + "_" + std::to_string(count_++));
};

TEST(Lengths, AreUniformOrFromAFile) {
  const Lengths uniform = Length("3:6");
  std::map<int64_t, int> seen;
  for (int64_t i = 0; i < 4000; ++i) ++seen[uniform.Of(9, i)];
  EXPECT_EQ(seen.size(), 4u);
  for (const auto& [length, count] : seen) {
    EXPECT_TRUE(length >= 3 && length <= 6);
    EXPECT_NEAR(count, 1000, 130);
  }
  EXPECT_EQ(Length("7").Of(1, 5), 7);
  const TextFile file("10\n20\n\n30\n");
  const Lengths table = Length(file.path());
  EXPECT_EQ(table.Of(1, 0), 10);
  EXPECT_EQ(table.Of(1, 5), 30);
}

TEST(Lengths, RefuseNonsense) {
  const TextFile bad("10\n-3\n");
  const TextFile empty("\n");
  for (const std::string& text : {std::string("0"), std::string("5:4"), std::string("1:2:3"),
                                  std::string(":"), std::string("99999999999999999999"),
                                  std::string("/no/such/file"), std::string(), bad.path()}) {
    const Status status = Lengths::Parse("output-tokens", text).status();
    EXPECT_FALSE(status.ok()) << text;
    EXPECT_NE(status.message().find("--output-tokens"), std::string::npos) << status.message();
  }
}

TEST(Load, SharesPrefixesInGroupsAndNothingElse) {
  LoadOptions o = Load(9, "20", "4");
  o.shared_prefix = 50;
  o.prefix_groups = 3;
  const std::vector<LoadRequest> load = Made(o, 1000);
  std::set<std::vector<int32_t>> prefixes, owns;
  for (size_t i = 0; i < load.size(); ++i) {
    ASSERT_EQ(load[i].prompt.size(), 70u);
    const auto border = load[i].prompt.begin() + 50;
    prefixes.emplace(load[i].prompt.begin(), border);
    owns.emplace(border, load[i].prompt.end());
    EXPECT_TRUE(std::equal(load[i].prompt.begin(), border, load[i % 3].prompt.begin()));
    EXPECT_TRUE(std::all_of(load[i].prompt.begin(), load[i].prompt.end(),
                            [](int32_t t) { return t >= 0 && t < 1000; }));
  }
  EXPECT_EQ(prefixes.size(), 3u);
  EXPECT_EQ(owns.size(), 9u);
}

TEST(Load, IsAFunctionOfItsSeed) {
  LoadOptions o = Load(20, "5:50", "1:9");
  o.rate_per_s = 3;
  const auto a = Made(o, 500), b = Made(o, 500);
  o.seed = 2;
  const auto c = Made(o, 500);
  int different = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].prompt, b[i].prompt);
    EXPECT_EQ(a[i].at_s, b[i].at_s);
    EXPECT_EQ(a[i].output_tokens, b[i].output_tokens);
    different += a[i].prompt != c[i].prompt && a[i].at_s != c[i].at_s;
  }
  EXPECT_EQ(different, 20);
}

TEST(Load, ArrivesAsAPoissonProcess) {
  LoadOptions o = Load(20000, "1", "1");
  o.rate_per_s = 50;
  const auto load = Made(o, 10);
  double last = 0, square = 0;
  for (const LoadRequest& r : load) {
    ASSERT_GT(r.at_s, last);
    square += (r.at_s - last) * (r.at_s - last);
    last = r.at_s;
  }
  EXPECT_NEAR(last / 20000, 1 / 50.0, 0.0006);       // mean
  EXPECT_NEAR(square / 20000, 2 / 2500.0, 0.00005);  // of squares: twice that of the mean
}

TEST(Load, CutsSlicesOfAText) {
  std::vector<int32_t> text;
  for (int32_t i = 0; i < 100; ++i) text.push_back(i);
  for (const LoadRequest& r : Made(Load(30, "150", "1"), 7, text)) {
    for (size_t i = 1; i < r.prompt.size(); ++i)
      ASSERT_EQ(r.prompt[i], (r.prompt[i - 1] + 1) % 100);
  }
}

TEST(Load, RefusesMoreThanMemoryWouldTake) {
  EXPECT_EQ(MakeLoad(Load(1000, "10000000", "1"), 10, {}).status().code(),
            base::Code::kInvalidArgument);
}

constexpr int64_t kSlots = 8;

// An engine over a device that takes some time for each step, and the widest step that it saw.
struct Served {
  std::unique_ptr<engine::Engine> engine;
  std::shared_ptr<std::atomic<int64_t>> widest = std::make_shared<std::atomic<int64_t>>(0);

  Served() {
    sched::SchedulerOptions o;
    o.max_sequences = kSlots;
    o.max_rows = 256;
    o.context_tokens = 2048;
    o.blocks = 512;
    o.checkpoints = 16;
    engine::EngineOptions options;
    options.max_sequences = kSlots;
    const auto widest_seen = widest;
    auto device =
        std::make_unique<engine::TimedExecutor>([widest_seen](const step::StepPlan& plan) {
          const auto rows = static_cast<int64_t>(plan.rows.size());
          widest_seen->store(std::max(widest_seen->load(), rows));
          return 0.0005;
        });
    engine = std::move(engine::Engine::Start(options, o, std::move(device), nullptr)).value();
  }
};

std::map<std::string, double> Measure(engine::Engine& engine, const LoadOptions& options) {
  const auto load = Made(options, 1000);
  const Result<std::vector<Figure>> figures = BenchServing(engine, options, load);
  EXPECT_TRUE(figures.ok()) << figures.status().ToString();
  std::map<std::string, double> by_name;
  for (const Figure& f : *figures) EXPECT_TRUE(by_name.emplace(f.name, f.value).second) << f.name;
  return by_name;
}

TEST(Serving, CountsEveryTokenAndKeepsToTheConcurrency) {
  for (const int64_t concurrency : {1, 3}) {
    Served served;
    LoadOptions o = Load(12, "30:40", "5:20");
    o.concurrency = concurrency;
    int64_t prompt = 0, output = 0;
    for (const LoadRequest& r : Made(o, 1000)) {
      prompt += static_cast<int64_t>(r.prompt.size());
      output += r.output_tokens;
    }
    auto f = Measure(*served.engine, o);
    EXPECT_EQ(f["requests"], 12);
    EXPECT_EQ(f["prompt_tokens"], static_cast<double>(prompt));
    EXPECT_EQ(f["output_tokens"], static_cast<double>(output));
    EXPECT_EQ(served.widest->load(), concurrency);
    EXPECT_GE(f["itl_ms_p50"], 0.4);  // a step takes half a millisecond
    EXPECT_GE(f["end_to_end_ms_p50"], f["ttft_ms_p50"]);
    EXPECT_GE(f["ttft_ms_p99"], f["ttft_ms_p50"]);
    EXPECT_GT(f["executor_busy"], 0);
    EXPECT_LE(f["executor_busy"], 1);
    EXPECT_GT(f["schedule_us_per_step"], 0);
    EXPECT_NEAR(f["rows_per_step"], f["prefill_rows_per_step"] + f["decode_rows_per_step"], 1e-9);
  }
}

TEST(Serving, SendsAtARateWhateverIsUnderWay) {
  Served served;
  LoadOptions o = Load(20, "10", "30");
  o.rate_per_s = 2000;
  o.concurrency = 1;
  auto f = Measure(*served.engine, o);
  EXPECT_EQ(f["output_tokens"], 600);
  EXPECT_GT(served.widest->load(), 2);
}

TEST(Serving, SeesPrefixHits) {
  Served served;
  LoadOptions o = Load(10, "10", "4");
  o.shared_prefix = 600;
  EXPECT_GT(Measure(*served.engine, o)["hit_rate"], 0.5);
  o.shared_prefix = 0;
  o.seed = 77;
  EXPECT_EQ(Measure(*served.engine, o)["hit_rate"], 0);
}

TEST(Serving, AnErrorOfARequestIsTheError) {
  Served served;
  const LoadOptions o = Load(3, "5000", "4");
  const Status status = BenchServing(*served.engine, o, Made(o, 1000)).status();
  EXPECT_FALSE(status.ok());
  EXPECT_NE(status.message().find("request 0"), std::string::npos) << status.message();
}

TEST(Report, FormatsAgree) {
  const std::vector<Figure> figures = {{"a_ms", 1.5}, {"b", 2000000}};
  EXPECT_EQ(ToCsv(figures), "a_ms,b\n1.5,2000000\n");
  EXPECT_EQ(ToJson(figures).dump(), R"({"a_ms":1.5,"b":2000000.0})");
  EXPECT_NE(ToTable(figures).find("a_ms"), std::string::npos);
}

TEST(Report, PercentilesAreOfTheNearestRank) {
  std::vector<double> ten = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
  EXPECT_EQ(Percentile(ten, 0.5), 5);
  EXPECT_EQ(Percentile(ten, 0.9), 9);
  EXPECT_EQ(Percentile(ten, 0.99), 10);
  EXPECT_EQ(Percentile({7}, 0.5), 7);
  EXPECT_EQ(Percentile({}, 0.5), 0);
  std::vector<Figure> figures;
  AddPercentiles("x", {0.004, 0.001, 0.002, 0.005}, &figures);
  ASSERT_EQ(figures.size(), 4u);
  EXPECT_EQ(figures[0].name, "x_ms_mean");
  EXPECT_DOUBLE_EQ(figures[0].value, 3);
  EXPECT_DOUBLE_EQ(figures[1].value, 2);
  EXPECT_DOUBLE_EQ(figures[3].value, 5);
}

TEST(SchedulerBench, MeasuresStepsInWhichAllDecode) {
  for (const int64_t running : {1, 40}) {
    const Result<SchedulerFigure> figure = BenchScheduler(running, 100, 50);
    ASSERT_TRUE(figure.ok()) << figure.status().ToString();
    EXPECT_EQ(figure->running, running);
    EXPECT_GT(figure->us_per_step_median, 0);
    EXPECT_GE(figure->us_per_step_p99, figure->us_per_step_median);
    EXPECT_NEAR(figure->ns_per_sequence * static_cast<double>(running),
                1e3 * figure->us_per_step_median, 1);
  }
}

TEST(SamplingBench, HasAFigureForEveryKind) {
  for (const int64_t vocab : {1, 300}) {
    const std::vector<SamplingFigure> figures = BenchSampling(vocab, 0);
    EXPECT_EQ(figures.size(), 8u);
    for (const SamplingFigure& f : figures) EXPECT_TRUE(f.vocab == vocab && f.us_per_row > 0);
  }
}

}  // namespace
}  // namespace thalweg::tools::bench
