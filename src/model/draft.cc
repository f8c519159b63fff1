// The DSpark draft module (spec/model.md 2.8, decoding.md 1.2): three stages over a block of rows
// that see each other in both directions, then the Markov and confidence heads.
#include <algorithm>
#include <numeric>

#include "model/run.h"
#include "model/step_results.h"

namespace thalweg::model {
namespace {

// Every stage sees the ring up to the newest committed position p, and the whole block.
AttentionKeys& DraftKeys(Run& run, int layer, const int32_t* identity) {
  const kvpool::Geometry& g = run.pool.geometry();
  const int64_t block = run.config().dspark_block_size;
  AttentionKeys& keys = run.lists.keys;
  keys.Clear();
  run.lists.window_end.clear();
  for (const SequenceRows& s : run.batch.sequences) {
    keys.window.push_back({.ring = run.pool.Ring(s.id, layer),
                           .ring_rows = g.RingRows(),
                           .chunk_begin = s.start,
                           .floor = run.pool.draft_floor(s.id)});
    keys.selected.push_back({.pool = run.ws.window_chunk + s.first_row * g.WindowRowBytes(),
                             .blocks = identity,
                             .rows_per_block = block,
                             .block_bytes = block * g.WindowRowBytes(),
                             .row_bytes = g.WindowRowBytes(),
                             .width = g.window_width,
                             .format = g.window_format,
                             .blocks_count = 1});
    run.lists.window_end.insert(run.lists.window_end.end(), static_cast<size_t>(s.rows),
                                s.start - 1);
  }
  keys.window_end = run.List(run.lists.window_end);
  keys.selection = run.ws.draft_selection;
  keys.topk = block;
  return keys;
}

// Rows see all of their block.
void SelectBlocks(Run& run) {
  const int64_t block = run.config().dspark_block_size;
  std::vector<int32_t>& selection = run.lists.draft_selection;
  selection.resize(static_cast<size_t>(run.rows() * block));
  for (size_t i = 0; i < selection.size(); ++i)
    selection[i] = static_cast<int32_t>(static_cast<int64_t>(i) % block);
  run.memory().upload(run.stream(), run.ws.draft_selection, selection.data(),
                      static_cast<int64_t>(selection.size() * sizeof(int32_t)));
}

void RunStage(Run& run, int layer) {
  static constexpr int32_t kFirstBlock = 0;
  const int32_t* identity = run.List(&kFirstBlock, 1);
  PredictSite(run, layer, Site::kAttention);
  ProjectQueryAndWindow(run, layer);
  Attend(run, layer, DraftKeys(run, layer, identity));
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
                   .table = run.parts.weights.embed,
                   .streams = run.ws.streams,
                   .pre_mix = run.ws.pre_mix});
}

// Base logits of every row from the shared head; ws.normed holds the collapsed state v afterwards.
float* BaseLogits(Run& run, DraftOutput* output) {
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
  output->logits.resize(static_cast<size_t>(run.rows() * c.vocab_size));
  float* logits = run.results.TakeLogits(run.rows(), &output->logits);
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
  const DraftHeadWeights& w = *run.parts.weights.draft;
  const int64_t block = c.dspark_block_size;
  std::vector<int32_t>& previous = run.lists.draft_tokens;
  run.ops().markov({.stream = run.stream(),
                    .rows = static_cast<int64_t>(previous.size()),
                    .hidden = c.hidden_size,
                    .rank = c.dspark_markov_rank,
                    .vocab = c.vocab_size,
                    .previous = run.List(previous),
                    .embed = w.markov_embed,
                    .head = w.markov_head,
                    .confidence = w.confidence,
                    .state = run.ws.normed + slot * c.hidden_size,
                    .state_stride = block * c.hidden_size,
                    .logits = base + slot * c.vocab_size,
                    .logits_stride = block * c.vocab_size,
                    .confidence_out = run.ws.confidence});
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

void InsertDraftContext(Run& run) {
  const checkpoint::Config& c = run.config();
  ProjectTaps(run);
  for (int stage = 0; stage < c.num_nextn_predict_layers; ++stage) {
    const int layer = static_cast<int>(c.num_hidden_layers) + stage;
    const kernels::Projection kv{.weight = run.layer(layer).attn.wkv, .out_bf16 = run.ws.kv};
    run.ops().linear({.stream = run.stream(),
                      .rows = run.rows(),
                      .in = c.hidden_size,
                      .x = run.ws.normed_quantised,
                      .projections = {&kv, 1}});
    MakeWindowRows(run, layer);
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
  EmbedBlock(run);
  SelectBlocks(run);
  for (int stage = 0; stage < c.num_nextn_predict_layers; ++stage) {
    RunStage(run, static_cast<int>(c.num_hidden_layers) + stage);
  }
  float* logits = BaseLogits(run, output);
  output->tokens.resize(static_cast<size_t>(run.rows()));
  output->confidence.resize(static_cast<size_t>(run.rows()));
  run.lists.draft_tokens.clear();
  for (const SequenceRows& s : run.batch.sequences)
    run.lists.draft_tokens.push_back(run.batch.ids[static_cast<size_t>(s.first_row)]);
  for (int64_t slot = 0; slot < c.dspark_block_size; ++slot)
    ChainSlot(run, slot, requests, logits, output);
}

}  // namespace thalweg::model
