// The DSpark draft module (spec/model.md 2.8, decoding.md 1.2): three stages over a block of rows
// that see each other in both directions, then the Markov and confidence heads.
#include <algorithm>
#include <numeric>

#include "model/context_step.h"
#include "model/run.h"
#include "model/step_results.h"

namespace thalweg::model {
namespace {

// Every stage sees the ring up to the newest committed position p, and the whole block.
void AddWindow(const Run& run, int layer, std::vector<kernels::WindowKeys>* window) {
  for (const SequenceRows& s : run.batch.sequences) {
    window->push_back({.ring = run.pool.Ring(s.id, layer),
                       .ring_rows = run.pool.geometry().RingRows(),
                       .chunk_begin = s.start,
                       .floor = run.pool.draft_floor(s.id)});
  }
}

AttentionKeys& DraftKeys(Run& run, int stage, const DraftLists& lists) {
  const kvpool::Geometry& g = run.pool.geometry();
  const int64_t block = run.config().dspark_block_size;
  const auto sequences = static_cast<int64_t>(run.batch.sequences.size());
  AttentionKeys& keys = run.lists.keys;
  keys.Clear();
  for (const SequenceRows& s : run.batch.sequences) {
    keys.selected.push_back({.pool = run.ws.window_chunk + s.first_row * g.WindowRowBytes(),
                             .blocks = lists.identity,
                             .rows_per_block = block,
                             .block_bytes = block * g.WindowRowBytes(),
                             .row_bytes = g.WindowRowBytes(),
                             .width = g.window_width,
                             .format = g.window_format,
                             .blocks_count = 1});
  }
  keys.listed_window = lists.window + stage * sequences;
  keys.window_end = lists.window_end;
  keys.selection = run.ws.draft_selection;
  keys.topk = block;
  return keys;
}

void RunStage(Run& run, int stage, const DraftLists& lists) {
  const int layer = static_cast<int>(run.config().num_hidden_layers) + stage;
  PredictSite(run, layer, Site::kAttention);
  ProjectQueryAndWindow(run, layer);
  Attend(run, layer, DraftKeys(run, stage, lists));
  ProjectOut(run, layer);
  FinishSite(run, layer, Site::kAttention);

  PredictSite(run, layer, Site::kFfn);
  MixExperts(run, layer);
  FinishSite(run, layer, Site::kFfn);
}

void EmbedBlock(Run& run) {
  run.ops().embed({.stream = run.stream(),
                   .rows = run.rows(),
                   .streams_n = run.config().hc_mult,
                   .hidden = run.config().hidden_size,
                   .ids = run.listed.ids,
                   .newest = run.newest,
                   .table = run.parts.weights.embed,
                   .streams = run.ws.streams,
                   .pre_mix = run.ws.pre_mix});
}

// Of every row, from the shared head.
float* BaseLogits(Run& run, std::vector<float>* host) {
  const checkpoint::Config& c = run.config();
  run.ops().collapse({.stream = run.stream(),
                      .rows = run.rows(),
                      .streams_n = c.hc_mult,
                      .hidden = c.hidden_size,
                      .streams = run.ws.streams,
                      .pre_mix = run.ws.pre_mix,
                      .norm_weight = run.parts.weights.draft->norm,
                      .norm_eps = c.rms_norm_eps,
                      .collapsed = run.ws.normed,
                      .normed = run.ws.update});
  float* logits = run.results.TakeLogits(run.rows(), host);
  const kernels::Projection head{.weight = run.parts.weights.head, .out_f32 = logits};
  run.ops().linear({.stream = run.stream(),
                    .rows = run.rows(),
                    .in = c.hidden_size,
                    .x = run.ws.update,
                    .projections = {&head, 1}});
  return logits;
}

int32_t Choose(const DraftRequest& request, int64_t slot, std::span<const float> logits) {
  if (request.choose) return request.choose(static_cast<int>(slot), logits);
  return static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

// Slot i of every block: logits of the Markov head given the token before, its confidence, the
// token that is chosen.
void ChainSlot(Run& run, int64_t slot, std::span<const DraftRequest> requests, float* base,
               DraftOutput* output) {
  const checkpoint::Config& c = run.config();
  const int64_t block = c.dspark_block_size;
  std::vector<int32_t>& previous = run.lists.draft_tokens;
  kernels::MarkovParams markov = MarkovOf(run, slot, base);
  markov.rows = static_cast<int64_t>(previous.size());
  markov.previous = run.List(previous);
  markov.confidence_out = run.ws.confidence;
  run.ops().markov(markov);
  run.results.FetchLogits(&output->logits);
  HostView confidence(run, run.ws.confidence,
                      static_cast<int64_t>(previous.size() * sizeof(float)));
  for (size_t r = 0; r < previous.size(); ++r) {
    const int64_t row = static_cast<int64_t>(r) * block + slot;
    const float* logits = output->logits.data() + row * c.vocab_size;
    previous[r] = Choose(requests[r], slot, {logits, static_cast<size_t>(c.vocab_size)});
    output->tokens[static_cast<size_t>(row)] = previous[r];
    output->confidence[static_cast<size_t>(row)] = confidence.as<float>()[r];
  }
}

// main_x of every row: the taps projected and normalised; left quantised in ws.normed_quantised.
void ProjectTaps(Run& run) {
  const checkpoint::Config& c = run.config();
  const DraftHeadWeights& w = *run.parts.weights.draft;
  const auto width = static_cast<int64_t>(c.dspark_target_layer_ids.size()) * c.hidden_size;
  const kernels::Projection main{.weight = w.main_proj, .out_bf16 = run.ws.update};
  run.ops().linear({.stream = run.stream(),
                    .rows = run.rows(),
                    .in = width,
                    .x = run.ws.taps_quantised,
                    .projections = {&main, 1}});
  run.ops().norm({.stream = run.stream(),
                  .rows = run.rows(),
                  .width = c.hidden_size,
                  .x = run.ws.update,
                  .weight = w.main_norm,
                  .eps = c.rms_norm_eps,
                  .quantise = run.parts.options.activation_format,
                  .out_quantised = run.ws.normed_quantised});
}

}  // namespace

kernels::MarkovParams MarkovOf(const Run& run, int64_t slot, float* base) {
  const checkpoint::Config& c = run.config();
  const DraftHeadWeights& w = *run.parts.weights.draft;
  return {.stream = run.stream(),
          .hidden = c.hidden_size,
          .rank = c.dspark_markov_rank,
          .vocab = c.vocab_size,
          .embed = w.markov_embed,
          .head = w.markov_head,
          .confidence = w.confidence,
          .state = run.ws.normed + slot * c.hidden_size,
          .state_stride = c.dspark_block_size * c.hidden_size,
          .logits = base + slot * c.vocab_size,
          .logits_stride = c.dspark_block_size * c.vocab_size};
}

DraftLists ListDraft(Run& run) {
  static constexpr int32_t kFirstBlock = 0;
  StepLists& lists = run.lists;
  lists.draft_window.clear();
  lists.window_end.clear();
  for (int stage = 0; stage < run.config().num_nextn_predict_layers; ++stage)
    AddWindow(run, static_cast<int>(run.config().num_hidden_layers) + stage, &lists.draft_window);
  for (const SequenceRows& s : run.batch.sequences)
    lists.window_end.insert(lists.window_end.end(), static_cast<size_t>(s.rows), s.start - 1);
  return {run.List(&kFirstBlock, 1), run.List(lists.draft_window), run.List(lists.window_end)};
}

float* RunDraftStages(Run& run, const DraftLists& lists, std::vector<float>* host) {
  EmbedBlock(run);
  for (int stage = 0; stage < run.config().num_nextn_predict_layers; ++stage)
    RunStage(run, stage, lists);
  return BaseLogits(run, host);
}

static void MakeDraftWindow(Run& run, int layer) {
  const kernels::Projection kv{.weight = run.layer(layer).attn.wkv, .out_bf16 = run.ws.kv};
  run.ops().linear({.stream = run.stream(),
                    .rows = run.rows(),
                    .in = run.config().hidden_size,
                    .x = run.ws.normed_quantised,
                    .projections = {&kv, 1}});
  MakeWindowRows(run, layer);
}

void InsertDraftContext(Run& run) {
  const checkpoint::Config& c = run.config();
  const bool rows = run.rows() > 0;  // other ranks' alone otherwise
  if (rows) ProjectTaps(run);
  for (int stage = 0; stage < c.num_nextn_predict_layers; ++stage) {
    const int layer = static_cast<int>(c.num_hidden_layers) + stage;
    if (rows) MakeDraftWindow(run, layer);
    CommitWindow(run, layer);
  }
}

void FillDraftBatch(std::span<const DraftRequest> requests, const kvpool::Pool& pool,
                    const ModelParts& parts, StepLists* lists) {
  std::vector<int32_t>& tokens = lists->draft_tokens;
  lists->batch.Clear();
  for (const DraftRequest& request : requests) {
    tokens.assign(static_cast<size_t>(parts.config.dspark_block_size),
                  static_cast<int32_t>(parts.config.dspark_noise_token_id));
    tokens.front() = request.token;
    lists->batch.Append({.id = request.sequence, .start = pool.length(request.sequence)}, tokens,
                        {});
  }
  lists->batch.SetAngles(parts.frequencies);
}

void DraftBlock(Run& run, std::span<const DraftRequest> requests, DraftOutput* output) {
  const checkpoint::Config& c = run.config();
  run.ListBatch();
  output->logits.resize(static_cast<size_t>(run.rows() * c.vocab_size));
  float* logits = RunDraftStages(run, ListDraft(run), &output->logits);
  output->tokens.resize(static_cast<size_t>(run.rows()));
  output->confidence.resize(static_cast<size_t>(run.rows()));
  run.lists.draft_tokens.clear();
  for (const SequenceRows& s : run.batch.sequences)
    run.lists.draft_tokens.push_back(run.batch.ids[static_cast<size_t>(s.first_row)]);
  for (int64_t slot = 0; slot < c.dspark_block_size; ++slot)
    ChainSlot(run, slot, requests, logits, output);
}

}  // namespace thalweg::model
