// Checking of requests, and the forward of one step as a story.
#include <fmt/format.h>

#include <algorithm>

#include "model/context_step.h"
#include "model/expert_parallel.h"
#include "model/state.h"

namespace thalweg::model {

using checkpoint::Config;

Status Model::State::CheckIds(std::span<const int32_t> tokens) const {
  const auto mapped = static_cast<int64_t>(parts.token_map.size());
  const int64_t limit =
      mapped == 0 ? parts.config.vocab_size : std::min(parts.config.vocab_size, mapped);
  for (const int32_t id : tokens) {
    if (id < 0 || id >= limit) {
      return base::InvalidArgument(
          fmt::format("token id {} is outside the vocabulary of {}", id, limit));
    }
  }
  return {};
}

Status Model::State::CheckChunk(const Chunk& chunk) const {
  const Config& c = parts.config;
  const int64_t start = pool.length(chunk.sequence);
  const auto count = static_cast<int64_t>(chunk.tokens.size());
  if (count == 0) return base::InvalidArgument("a chunk without tokens");
  if (!chunk.image.empty() && chunk.image.size() != chunk.tokens.size()) {
    return base::InvalidArgument("image marks must match the tokens in number");
  }
  TW_TRY(CheckIds(chunk.tokens));
  if (start + count > c.max_position_embeddings) {
    return base::OutOfRange(fmt::format("{} tokens exceed the context of {}", start + count,
                                        c.max_position_embeddings));
  }
  const int64_t first_logits = chunk.logits == LogitRows::kAll ? start : start + count - 1;
  if (chunk.logits != LogitRows::kNone && chunk.decoder_from > first_logits) {
    return base::InvalidArgument(fmt::format(
        "logits of position {} were asked for, but the decoder starts at {}: use full replay",
        first_logits, chunk.decoder_from));
  }
  return {};
}

Status Model::State::CheckChunks(std::span<const Chunk> chunks) {
  int64_t rows = 0;
  lists.seen.assign(static_cast<size_t>(parts.options.max_sequences), 0);
  for (const Chunk& chunk : chunks) {
    TW_TRY(CheckChunk(chunk));
    uint8_t& seen = lists.seen[static_cast<size_t>(chunk.sequence)];
    if (seen != 0) return base::InvalidArgument("a sequence appears twice in one step");
    seen = 1;
    rows += static_cast<int64_t>(chunk.tokens.size());
  }
  if (rows == 0) return base::InvalidArgument("a step without rows");
  if (rows > parts.options.max_rows) {
    return base::InvalidArgument(
        fmt::format("{} rows in one step, the limit is {}", rows, parts.options.max_rows));
  }
  return {};
}

// Reserves cache for every chunk, or for none, and notes where the decoder's windows begin.
Status Model::State::Prepare(std::span<const Chunk> chunks) {
  const auto end_of = [&](const Chunk& chunk) {
    return pool.length(chunk.sequence) + static_cast<int64_t>(chunk.tokens.size());
  };
  int64_t missing = 0;
  for (const Chunk& chunk : chunks) missing += pool.MissingBlocks(chunk.sequence, end_of(chunk));
  if (missing > pool.free_blocks()) {
    return base::ResourceExhausted(
        fmt::format("the cache has {} free blocks of {} tokens, this step needs {} more",
                    pool.free_blocks(), pool.geometry().block_tokens, missing));
  }
  for (const Chunk& chunk : chunks) TW_TRY(pool.Reserve(chunk.sequence, end_of(chunk)));
  for (const Chunk& chunk : chunks) {
    const int64_t start = pool.length(chunk.sequence);
    const int64_t end = start + static_cast<int64_t>(chunk.tokens.size());
    if (chunk.decoder_from > start)
      pool.set_decoder_floor(chunk.sequence, std::min(chunk.decoder_from, end));
  }
  return {};
}

Status Model::State::CheckStep(std::span<const Chunk> chunks) {
  TW_TRY(CheckChunks(chunks));
  return Prepare(chunks);
}

Run Model::State::MakeRun(Probe* probe) {
  return {parts, pool, workspace, lists, results, queue.get(), probe, results.newest()};
}

// Whether all rows run every layer, and logits are wanted of all or of none.
bool Model::State::FewRows(std::span<const Chunk> chunks) const {
  for (const Chunk& chunk : chunks) {
    const int64_t start = pool.length(chunk.sequence);
    const auto count = static_cast<int64_t>(chunk.tokens.size());
    const bool all =
        chunk.logits == LogitRows::kAll || (chunk.logits == LogitRows::kLast && count == 1);
    const bool none = chunk.logits == LogitRows::kNone;
    const bool first_none = chunks.front().logits == LogitRows::kNone;
    if (chunk.decoder_from > start || pool.write_from(chunk.sequence) > start) return false;
    if (first_none ? !none : !all) return false;
  }
  return true;
}

bool Model::State::Recordable(std::span<const Chunk> chunks, const Probe* probe) const {
  // Ranks that share rows wait for one another in every layer; what others record is agreed on.
  if (!graphs_on || probe != nullptr || InGroup() || !FewRows(chunks)) return false;
  int64_t rows = 0;
  for (const Chunk& chunk : chunks) rows += static_cast<int64_t>(chunk.tokens.size());
  return FilledRows(rows) <= std::min(kMostGraphRows, parts.options.max_rows);
}

// The rows of a recording: those that are missing belong to a sequence that nobody reads.
void Model::State::FillUp(Run& run) {
  const bool none = run.batch.sequences.front().logits == LogitRows::kNone;
  AppendPadding(run, FilledRows(run.rows()) - run.rows(),
                none ? LogitRows::kNone : LogitRows::kAll);
  run.fixed_sequences = run.rows();
  run.most_tokens =
      FilledTokens(*std::max_element(run.batch.position.begin(), run.batch.position.end()) + 1);
}

// As often as its one block takes them.
void Model::State::AppendPadding(Run& run, int64_t rows, LogitRows wanted) {
  if (rows == 0) return;
  lists.padding.assign(static_cast<size_t>(std::min(rows, pool.geometry().block_tokens)), 0);
  for (int64_t left = rows; left > 0; left -= static_cast<int64_t>(lists.padding.size())) {
    if (left < static_cast<int64_t>(lists.padding.size()))
      lists.padding.resize(static_cast<size_t>(left));
    run.batch.Append({.id = pool.padding(), .logits = wanted}, lists.padding, {});
  }
  run.batch.SetAngles(parts.frequencies);
}

void Model::State::Enqueue(std::span<const Chunk> chunks, Probe* probe, StepOutput* output) {
  const tensor::StepQueue* steps = memory().steps;
  if (steps != nullptr) steps->begin(stream());
  workspace.Begin();
  FillBatch(chunks, pool, parts.frequencies, &lists.batch);
  Run run = MakeRun(probe);
  run.draft_context = MakesDraftContext(chunks);
  AgreeOnStep(run, chunks, probe);
  if (terms.routes) return EnqueueRouted(run, output);
  if (!Recordable(chunks, probe)) return BodyOfGroup(run, chunks, output);
  FillUp(run);
  const StepGraphs::Key key{.rows = run.rows(),
                            .tokens = run.most_tokens,
                            .head = lists.batch.sequences.front().logits != LogitRows::kNone,
                            .draft_context = run.draft_context};
  graphs.Run(key, [&](bool lists_alone) {
    run.idle = lists_alone ? &IdleOps() : nullptr;
    Body(run, output);
  });
}

void Model::State::Body(Run& run, StepOutput* output) {
  run.ListBatch();
  Forward(run);
  TapDrafter(run);
  Head(run, output);
}

// The same where rows may be shared with other ranks; without any there is nothing to do but with
// them.
void Model::State::BodyOfGroup(Run& run, std::span<const Chunk> chunks, StepOutput* output) {
  ContextParallel* group = parts.options.context_parallel;
  if (group != nullptr) shared_step = group->Begin(run, chunks);
  run.context = shared_step.get();
  if (run.context == nullptr && run.rows() == 0) return RunLayers(run);
  Body(run, output);
  if (run.context == nullptr) return;
  run.context->logits()->resize(static_cast<size_t>(logit_rows * run.config().vocab_size));
  results.FetchLogits(run.context->logits());
  run.context->ShareLogits(run, chunks, &output->logits);
  run.context->End(run);
}

void Model::State::Forward(Run& run) {
  if (run.context != nullptr) run.context->PrepareHistory(run);
  if (run.rows() > 0) HashEngramRows(run);
  if (run.context != nullptr) run.context->KeepHistory(run);
  if (run.rows() > 0) Embed(run);
  RunLayers(run);
}

void Model::State::Embed(Run& run) {
  const Config& c = run.config();
  run.ops().embed({.stream = run.stream(),
                   .rows = run.rows(),
                   .streams_n = c.hc_mult,
                   .hidden = c.hidden_size,
                   .ids = run.listed.ids,
                   .newest = run.newest,
                   .table = run.parts.weights.embed,
                   .streams = run.ws.streams,
                   .pre_mix = run.ws.pre_mix});
}

// Without rows, or when a layer drops all of them, nothing is left to do, but for ranks that share
// experts: they go through every layer together.
void Model::State::RunLayers(Run& run) {
  const bool shares = parts.options.expert_parallel != nullptr;
  for (int layer = 0; layer < run.config().num_hidden_layers; ++layer) {
    if (run.rows() > 0 || run.context != nullptr) RunLayer(run, layer);
    if (run.rows() == 0 && shares) RunExperts(run, layer);
  }
}

Status Model::State::CheckExperts() const {
  const ContextParallel* rows = parts.options.context_parallel;
  if (rows != nullptr) TW_TRY(rows->status());
  const ExpertParallel* group = parts.options.expert_parallel;
  if (group == nullptr) return {};
  return group->status();
}

bool Model::State::InGroup() const {
  return parts.options.expert_parallel != nullptr || parts.options.context_parallel != nullptr;
}

// The drafter's window rows of every row.
void Model::State::TapDrafter(Run& run) {
  if (!run.draft_context || (run.rows() == 0 && run.context == nullptr)) return;
  const Config& c = run.config();
  const auto width = static_cast<int64_t>(c.dspark_target_layer_ids.size()) * c.hidden_size;
  if (run.rows() > 0)
    Observe(run, static_cast<int>(c.num_hidden_layers), point::kTaps, run.ws.taps,
            {run.rows(), width});
  InsertDraftContext(run);
}

// Logits of the rows asked for. The rows are moved together first, so the head runs on nothing
// else.
void Model::State::Head(Run& run, StepOutput* output) {
  const Config& c = run.config();
  std::vector<int64_t>& wanted = run.lists.wanted;
  wanted.clear();
  for (const SequenceRows& s : run.batch.sequences) {
    if (s.logits == LogitRows::kNone || s.rows == 0) continue;
    const int64_t first = s.logits == LogitRows::kAll ? 0 : s.rows - 1;
    for (int64_t i = first; i < s.rows; ++i) wanted.push_back(s.first_row + i);
  }
  logit_rows = static_cast<int64_t>(wanted.size());
  logits = results.TakeLogits(logit_rows,
                              run.context != nullptr ? run.context->logits() : &output->logits);
  if (wanted.empty()) return;
  if (logit_rows < run.rows())
    run.ws.Compact(run.List(wanted), logit_rows, c, run.ops(), run.stream());
  run.ops().collapse({.stream = run.stream(),
                      .rows = logit_rows,
                      .streams_n = c.hc_mult,
                      .hidden = c.hidden_size,
                      .streams = run.ws.streams,
                      .pre_mix = run.ws.pre_mix,
                      .norm_weight = run.parts.weights.norm,
                      .norm_eps = c.rms_norm_eps,
                      .normed = run.ws.normed});
  const kernels::Projection head{.weight = run.parts.weights.head, .out_f32 = logits};
  run.ops().linear({.stream = run.stream(),
                    .rows = logit_rows,
                    .in = c.hidden_size,
                    .x = run.ws.normed,
                    .projections = {&head, 1}});
  Observe(run, static_cast<int>(c.num_hidden_layers), point::kLogits, logits,
          {logit_rows, c.vocab_size});
}

bool Model::State::MakesDraftContext(std::span<const Chunk> chunks) const {
  const auto wanted = [](const Chunk& chunk) { return chunk.draft_context; };
  return parts.weights.draft.has_value() && std::any_of(chunks.begin(), chunks.end(), wanted);
}

void Model::State::Commit(std::span<const Chunk> chunks) {
  const bool context = MakesDraftContext(chunks);
  for (const Chunk& chunk : chunks) {
    const int64_t end = pool.length(chunk.sequence) + static_cast<int64_t>(chunk.tokens.size());
    if (!context) pool.set_draft_floor(chunk.sequence, end);
    pool.Commit(chunk.sequence, end);
  }
}

int64_t LogitRowsOf(std::span<const Chunk> chunks) {
  int64_t rows = 0;
  for (const Chunk& chunk : chunks) {
    if (chunk.logits == LogitRows::kLast) ++rows;
    if (chunk.logits == LogitRows::kAll) rows += static_cast<int64_t>(chunk.tokens.size());
  }
  return rows;
}

Status Model::Step(std::span<const Chunk> chunks, StepOutput* output, Probe* probe) {
  State& s = *state_;
  TW_CHECK_EQ(s.results.under_way(), 0);
  if (options().before_step) TW_TRY(options().before_step());
  if (const Status checked = s.CheckStep(chunks); !checked.ok()) {
    if (s.InGroup()) TW_TRY(Idle());  // the others run
    return checked;
  }
  TW_TRY(s.CheckExperts());
  s.Enqueue(chunks, probe, output);
  TW_TRY(s.AwaitRouted());
  output->rows = LogitRowsOf(chunks);
  output->logits.resize(static_cast<size_t>(output->rows * config().vocab_size));
  if (s.shared_step == nullptr) s.results.FetchLogits(&output->logits);  // otherwise they are there
  TW_TRY(s.memory().synchronize(s.stream()));
  TW_TRY(s.CheckExperts());
  s.Commit(chunks);
  s.CommitGroup();
  return {};
}

void Model::State::CommitGroup() {
  if (shared_step != nullptr) parts.options.context_parallel->Commit(pool, shared_step.get());
  shared_step.reset();
}

Status Model::Idle() {
  State& s = *state_;
  TW_TRY(s.CheckExperts());
  if (s.memory().steps != nullptr) s.memory().steps->begin(s.stream());
  s.workspace.Begin();
  FillBatch({}, s.pool, s.parts.frequencies, &s.lists.batch);
  Run run = s.MakeRun(nullptr);
  StepOutput nothing;
  run.draft_context = false;
  s.AgreeOnStep(run, {}, nullptr);
  if (s.terms.routes) {
    s.EnqueueRouted(run, &nothing);
    TW_TRY(s.AwaitRouted());
  } else {
    s.BodyOfGroup(run, {}, &nothing);
  }
  TW_TRY(s.memory().synchronize(s.stream()));
  TW_TRY(s.CheckExperts());
  s.CommitGroup();
  return {};
}

Status Model::Draft(std::span<const DraftRequest> requests, DraftOutput* output, Probe* probe) {
  State& s = *state_;
  if (!has_draft()) return base::Unsupported("this checkpoint was loaded without its draft module");
  if (static_cast<int64_t>(requests.size()) * config().dspark_block_size > options().max_rows) {
    return base::InvalidArgument(
        fmt::format("{} draft blocks exceed {} rows", requests.size(), options().max_rows));
  }
  for (const DraftRequest& request : requests) {
    if (s.pool.length(request.sequence) == 0)
      return base::FailedPrecondition("a draft needs at least one token before");
    if (request.token < 0 || request.token >= config().vocab_size) {
      return base::InvalidArgument(
          fmt::format("token id {} is outside the vocabulary", request.token));
    }
  }
  output->tokens.clear();
  output->confidence.clear();
  output->logits.clear();
  if (requests.empty()) return {};
  FillDraftBatch(requests, s.pool, s.parts, &s.lists);
  if (s.memory().steps != nullptr) s.memory().steps->begin(s.stream());
  s.workspace.Begin();
  Run run = s.MakeRun(probe);
  DraftBlock(run, requests, output);
  return run.memory().synchronize(run.stream());
}

}  // namespace thalweg::model
