// Observation of a forward: named intermediate tensors, in the order they are made. A probe may
// also change what it sees, which is how stored inputs are fed to one layer at a time.
#pragma once

#include <string_view>

#include "tensor/view.h"

namespace thalweg::model {

// Points of a layer, by name. T is the number of rows of the step, in batch order; bf16 unless
// noted.
namespace point {
inline constexpr std::string_view kEngramRows =
    "engram_rows";  // i64 [T, columns]; layer = Engram layer
// [T, n, hidden]; may be changed
inline constexpr std::string_view kEngramStreams = "engram_streams_out";
inline constexpr std::string_view kAttnPre = "hc_attn_pre";    // f32 [T, n]
inline constexpr std::string_view kAttnPost = "hc_attn_post";  // f32 [T, n]
inline constexpr std::string_view kAttnComb = "hc_attn_comb";  // f32 [T, n (from), n (to)]
inline constexpr std::string_view kAttnIn = "attn_in";         // [T, hidden]; may be changed
inline constexpr std::string_view kWindowKv = "window_kv";     // [T, head_dim], as readers see it
inline constexpr std::string_view kCompressedKv =
    "compressed_kv";                                    // [groups of this step, head_dim]
inline constexpr std::string_view kIndexK = "index_k";  // [groups of this step, index_head_dim]
inline constexpr std::string_view kPendingKv =
    "pending_kv";  // f32 [1, head_dim] of the last sequence
inline constexpr std::string_view kPendingScore = "pending_score";  // f32 [1, head_dim]
inline constexpr std::string_view kIndexQ = "index_q";      // [T, index heads, index_head_dim]
inline constexpr std::string_view kIndexW = "index_w";      // [T, index heads]
inline constexpr std::string_view kIndexSel = "index_sel";  // i32 [T, topk]; may be changed
// u8 [T, entries of the longest context]; may be changed. 1 = in the candidate pool.
inline constexpr std::string_view kCandidates = "candidates";
inline constexpr std::string_view kAttnOut = "attn_out";  // [T, hidden]
inline constexpr std::string_view kFfnPre = "hc_ffn_pre";
inline constexpr std::string_view kFfnPost = "hc_ffn_post";
inline constexpr std::string_view kFfnComb = "hc_ffn_comb";
inline constexpr std::string_view kFfnIn = "ffn_in";                  // [T, hidden]; may be changed
inline constexpr std::string_view kRouterExperts = "router_experts";  // i32 [T, topk], ascending
inline constexpr std::string_view kRouterWeights = "router_weights";  // f32 [T, topk]
inline constexpr std::string_view kMoeOut = "moe_out";                // [T, hidden]
inline constexpr std::string_view kStreamsOut = "streams_out";  // [T, n, hidden]; may be changed
inline constexpr std::string_view kPreMixOut = "pre_mix_out";   // f32 [T, n]; may be changed
// Points of the whole forward; layer = number of layers.
inline constexpr std::string_view kTaps = "taps";      // [T, taps * hidden]
inline constexpr std::string_view kLogits = "logits";  // f32 [rows asked for, vocab]
}  // namespace point

class Probe {
 public:
  virtual ~Probe() = default;
  // Whether this point is worth making visible; asked before any cost is paid.
  virtual bool Wants(int layer, std::string_view point) const = 0;
  // The tensor, valid during the call. Only points marked "may be changed" take changes over; with
  // layers past the target's count the point belongs to a draft stage.
  virtual void See(int layer, std::string_view point, const tensor::MutableView& view) = 0;
};

}  // namespace thalweg::model
