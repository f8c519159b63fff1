#include "tools/bench/ranks.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <functional>
#include <thread>

#include "base/math.h"
#include "base/rng.h"
#include "base/thread_team.h"
#include "checkpoint/checkpoint.h"
#include "comm/thread_group.h"
#include "engine/rank_process.h"
#include "model/context_parallel.h"
#include "model/expert_parallel.h"
#include "parallel/balance.h"
#include "tools/bench/clock.h"
#include "tools/session.h"

namespace thalweg::tools::bench {
namespace {

constexpr int64_t kBlockTokens = 64;
constexpr size_t kLeastPrompts = 3;

// How a prompt is read.
struct Way {
  std::string name;
  int threads = 1;
  bool shared = false;   // by all ranks
  bool experts = false;  // over all ranks
};

// One rank's model, for one way.
class Reader {
 public:
  static Result<std::unique_ptr<Reader>> Make(const checkpoint::Checkpoint& checkpoint,
                                              const RanksBenchOptions& options, const Way& way,
                                              comm::Communicator* ranks) {
    auto reader = std::make_unique<Reader>();
    reader->options_ = &options;
    reader->team_ = std::make_unique<base::ThreadTeam>(way.threads);
    model::ModelOptions model{.ops = options.ops,
                              .team = reader->team_.get(),
                              .max_rows = options.max_rows,
                              .max_sequences = 1,
                              .max_tokens = base::RoundUp(options.prompt, kBlockTokens),
                              .blocks_from_outside = true};
    if (way.shared) TW_TRY(reader->Join(checkpoint.config(), way, ranks, &model));
    TW_ASSIGN(reader->model_, model::Model::Load(checkpoint, model));
    return reader;
  }

  // All of the prompt, or the others' part of one.
  Status Read(const std::vector<int32_t>& text) {
    TW_ASSIGN(const model::Replay replay,
              model::Replay::Make(options_->replay, std::nullopt, model_->config()));
    const auto length = static_cast<int64_t>(text.size());
    kvpool::Pool& pool = model_->pool();
    TW_ASSIGN(const kvpool::SequenceId id, pool.Open());
    for (int32_t b = 0; b < base::CeilDiv(length, kBlockTokens); ++b)
      TW_TRY(pool.Attach(id, {&b, 1}));
    for (int64_t at = 0; at < length; at += options_->max_rows) {
      const int64_t rows = std::min(options_->max_rows, length - at);
      const model::Chunk chunk{
          .sequence = id,
          .tokens = std::span(text).subspan(static_cast<size_t>(at), static_cast<size_t>(rows)),
          .decoder_from = replay.DecoderFrom(length, model_->config()),
          .logits = at + rows == length ? model::LogitRows::kLast : model::LogitRows::kNone};
      model::StepOutput output;
      TW_TRY(model_->Step({&chunk, 1}, &output));
    }
    pool.Close(id);
    return {};
  }
  Status Help() {
    for (int64_t at = 0; at < options_->prompt; at += options_->max_rows) TW_TRY(model_->Idle());
    return {};
  }

 private:
  Status Join(const checkpoint::Config& config, const Way& way, comm::Communicator* ranks,
              model::ModelOptions* model) {
    TW_ASSIGN(context_, model::ContextParallel::Make(ranks, {.first = 0, .size = ranks->size()}));
    model->context_parallel = context_.get();
    model->context_ranks = ranks->size();
    if (!way.experts) return {};
    TW_ASSIGN(const parallel::PlacementShape shape,
              parallel::ShapeFor(config.n_routed_experts, ranks->size(), 0));
    TW_ASSIGN(experts_, model::ExpertParallel::Make(
                            ranks, parallel::InOrder(shape, config.num_hidden_layers)));
    model->expert_parallel = experts_.get();
    return {};
  }

  const RanksBenchOptions* options_ = nullptr;
  std::unique_ptr<base::ThreadTeam> team_;
  std::unique_ptr<model::ContextParallel> context_;
  std::unique_ptr<model::ExpertParallel> experts_;
  std::unique_ptr<model::Model> model_;
};

std::vector<int32_t> SomeText(const checkpoint::Config& config, int64_t length) {
  std::vector<int32_t> ids;
  for (uint32_t i = 0; static_cast<int64_t>(ids.size()) < length; ++i)
    ids.push_back(static_cast<int32_t>(base::Philox4x32({i, 0, 0, 0}, {3, 5})[0] %
                                       static_cast<uint32_t>(config.vocab_size / 2)));
  return ids;
}

// Of a prompt: by the clock, and of the processor. The second says what ranks have to do where the
// machine does other things, too.
struct Seconds {
  double wall = 0;
  double busy = 0;
};

double ThreadSeconds() {
  timespec time = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// What one rank reads alone, the others wait for.
Result<Seconds> TimeOne(Reader* reader, const Way& way, const std::vector<int32_t>& text,
                        comm::Communicator* ranks) {
  TW_TRY(ranks->Barrier());
  const double busy = ThreadSeconds();
  const auto begin = std::chrono::steady_clock::now();
  const bool first = ranks->rank() == 0;
  if (first) TW_TRY(reader->Read(text));
  if (!first && way.shared) TW_TRY(reader->Help());
  const double own = ThreadSeconds() - busy, wall = SecondsSince(begin);
  std::vector<double> all(static_cast<size_t>(ranks->size()));
  TW_TRY(
      ranks->AllGather(std::as_bytes(std::span(&own, 1)), std::as_writable_bytes(std::span(all))));
  return Seconds{wall, *std::max_element(all.begin(), all.end())};
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

RanksFigure FigureOf(const Way& way, const std::vector<Seconds>& seconds, int64_t tokens) {
  std::vector<double> wall, busy;
  for (const Seconds& one : seconds) wall.push_back(one.wall);
  for (const Seconds& one : seconds) busy.push_back(one.busy);
  const double median = Median(wall);
  return {.name = way.name,
          .prompts = static_cast<int64_t>(seconds.size()),
          .seconds = median,
          .best_seconds = *std::min_element(wall.begin(), wall.end()),
          .busy_seconds = Median(busy),
          .tokens_per_second = static_cast<double>(tokens) / median};
}

std::vector<Way> WaysOf(int ranks) {
  return {
      {.name = "1 rank, 1 thread"},
      {.name = fmt::format("1 rank, {} threads", ranks), .threads = ranks},
      {.name = fmt::format("{} ranks, 1 thread each", ranks), .shared = true},
      {.name = fmt::format("{} ranks, experts over them", ranks), .shared = true, .experts = true}};
}

// All ranks must read equally often: rank 0 says when it is enough.
Result<bool> Enough(comm::Communicator* ranks, bool enough) {
  auto word = std::byte{enough};
  TW_TRY(ranks->Broadcast(0, {&word, 1}));
  return word != std::byte{0};
}

// Threads, one for each rank but the first, which is the caller's.
Result<std::vector<RanksFigure>> BenchThreads(int ranks, const RanksBenchOptions& options) {
  comm::ThreadGroup group(ranks);
  std::vector<std::unique_ptr<comm::Communicator>> ends;
  for (int r = 0; r < ranks; ++r) ends.push_back(group.Join(r));
  std::vector<std::jthread> threads;
  for (int r = 1; r < ranks; ++r)
    threads.emplace_back([&options, end = ends[static_cast<size_t>(r)].get()] {
      const auto figures = BenchPrefill(end, options);
      if (!figures.ok() && end->Check().ok()) end->Fail(figures.status());
    });
  auto figures = BenchPrefill(ends.front().get(), options);
  if (!figures.ok() && ends.front()->Check().ok()) ends.front()->Fail(figures.status());
  return figures;
}

}  // namespace

Result<std::vector<RanksFigure>> BenchPrefill(comm::Communicator* ranks,
                                              const RanksBenchOptions& options) {
  TW_ASSIGN(const checkpoint::Checkpoint checkpoint,
            checkpoint::Checkpoint::Open(options.folder, {.draft = false, .vision = false}));
  const std::vector<int32_t> text = SomeText(checkpoint.config(), options.prompt);
  const std::vector<Way> ways = WaysOf(ranks->size());
  std::vector<std::unique_ptr<Reader>> readers;
  for (const Way& way : ways) {
    const bool needed = ranks->rank() == 0 || way.shared;
    TW_ASSIGN(std::unique_ptr<Reader> reader,
              needed ? Reader::Make(checkpoint, options, way, ranks) : std::unique_ptr<Reader>());
    readers.push_back(std::move(reader));
  }
  std::vector<std::vector<Seconds>> seconds(ways.size());
  double spent = 0;
  // In turns, so that whatever else the machine does falls on all of them. The first round warms
  // caches and does not count.
  for (size_t round = 0;; ++round) {
    for (size_t i = 0; i < ways.size(); ++i) {
      TW_ASSIGN(const Seconds one, TimeOne(readers[i].get(), ways[i], text, ranks));
      if (round > 0) seconds[i].push_back(one);
      if (round > 0) spent += one.wall;
    }
    const bool enough =
        round >= kLeastPrompts && spent >= options.seconds * static_cast<double>(ways.size());
    TW_ASSIGN(const bool done, Enough(ranks, enough));
    if (done) break;
  }
  std::vector<RanksFigure> figures;
  for (size_t i = 0; i < ways.size(); ++i)
    figures.push_back(FigureOf(ways[i], seconds[i], options.prompt));
  for (RanksFigure& figure : figures) {
    figure.speedup = figures[0].seconds / figure.seconds;
    figure.share = figures[1].seconds / figure.seconds;
  }
  return figures;
}

base::Json ToJson(const std::vector<RanksFigure>& figures) {
  base::Json json = base::Json::array();
  for (const RanksFigure& f : figures)
    json.push_back({{"name", f.name},
                    {"prompts", f.prompts},
                    {"seconds", f.seconds},
                    {"best_seconds", f.best_seconds},
                    {"busy_seconds", f.busy_seconds},
                    {"tokens_per_second", f.tokens_per_second},
                    {"speedup", f.speedup},
                    {"share_of_threads", f.share}});
  return json;
}

std::string ToTable(const std::vector<RanksFigure>& figures) {
  std::string table =
      fmt::format("{:<28} {:>8} {:>10} {:>10} {:>10} {:>10} {:>8} {:>16}\n", "prefill", "prompts",
                  "ms", "best ms", "busy ms", "tokens/s", "speedup", "share of threads");
  for (const RanksFigure& f : figures)
    table +=
        fmt::format("{:<28} {:>8} {:>10.1f} {:>10.1f} {:>10.1f} {:>10.0f} {:>8.2f} {:>16.3f}\n",
                    f.name, f.prompts, 1e3 * f.seconds, 1e3 * f.best_seconds, 1e3 * f.busy_seconds,
                    f.tokens_per_second, f.speedup, f.share);
  return table;
}

Status BenchRanksCommand(const OptionValues& values) {
  RanksBenchOptions options{.folder = {},
                            .prompt = values.OptionalInteger("prompt").value_or(4096),
                            .max_rows = values.Integer("max-rows"),
                            .seconds = values.Real("seconds")};
  TW_ASSIGN(options.folder, ModelFolder(values));
  TW_ASSIGN(options.ops, OpsFrom(values));
  TW_ASSIGN(options.replay, model::ParseReplayMode(values.Text("replay")));
  if (!options.ops->memory->host)
    return base::Unsupported("bench ranks: ranks share prompts on host backends");
  engine::RankProcess* process = engine::RankProcess::Running();
  const int threads = std::max<int>(2, static_cast<int>(values.Integer("ranks")));
  TW_ASSIGN(const std::vector<RanksFigure> figures, process != nullptr
                                                        ? BenchPrefill(&process->world(), options)
                                                        : BenchThreads(threads, options));
  if (process != nullptr && !process->leads()) return {};
  fmt::print("{}\n", values.Flag("json") ? ToJson(figures).dump(2) : ToTable(figures));
  return {};
}

}  // namespace thalweg::tools::bench
