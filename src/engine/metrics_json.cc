#include "base/json.h"
#include "engine/engine.h"

namespace thalweg::engine {
namespace {

base::Json SchedulerJson(const sched::SchedulerStats& s) {
  base::Json json;
  json["waiting"] = s.waiting;
  json["running"] = s.running;
  json["held"] = s.held;
  json["free_blocks"] = s.free_blocks;
  json["cached_blocks"] = s.cached_blocks;
  json["used_blocks"] = s.used_blocks;
  json["checkpoints_used"] = s.checkpoints_used;
  json["plans"] = s.plans;
  json["prefill_rows"] = s.prefill_rows;
  json["decode_rows"] = s.decode_rows;
  json["admitted"] = s.admitted;
  json["preempted"] = s.preempted;
  json["drafted"] = s.drafted;
  json["accepted"] = s.accepted;
  json["prompt_tokens"] = s.prompt_tokens;
  json["hit_tokens"] = s.hit_tokens;
  json["replayed_tokens"] = s.replayed_tokens;
  json["evicted_blocks"] = s.evicted_blocks;
  json["miss_no_block"] = s.miss_no_block;
  json["miss_no_checkpoint"] = s.miss_no_checkpoint;
  json["miss_evicted"] = s.miss_evicted;
  return json;
}

base::Json ConstraintsJson(const ConstraintMetrics& c) {
  base::Json json;
  json["compiled"] = c.compiled;
  json["cache_hits"] = c.cache_hits;
  json["refused"] = c.refused;
  json["grammars"] = c.grammars;
  json["grammar_bytes"] = c.grammar_bytes;
  json["masks"] = c.masks;
  json["mask_seconds"] = c.mask_seconds;
  json["wait_seconds"] = c.wait_seconds;
  json["forced_drafts"] = c.forced_drafts;
  json["steps_saved"] = c.steps_saved;
  return json;
}

base::Json ExpertsJson(const ExpertMetrics& e) {
  base::Json json;
  json["windows"] = e.windows;
  json["layers_switched"] = e.layers_switched;
  json["experts_moved"] = e.experts_moved;
  json["bytes_moved"] = e.bytes_moved;
  json["last_step"] = e.last_step;
  json["imbalance"] = e.imbalance;
  json["longest_step"] = e.longest_step;
  json["worked_steps"] = e.worked_steps;
  json["worked_seconds"] = e.worked_seconds;
  return json;
}

base::Json ContextJson(const ContextMetrics& c) {
  base::Json json;
  json["steps"] = c.steps;
  json["shared_rows"] = c.shared_rows;
  json["own_rows"] = c.own_rows;
  json["bytes"] = c.bytes;
  return json;
}

}  // namespace

std::string ToJson(const Metrics& m) {
  base::Json json;
  json["requests"] = m.requests;
  json["finished"] = m.finished;
  json["cancelled"] = m.cancelled;
  json["failed"] = m.failed;
  json["prompt_tokens"] = m.prompt_tokens;
  json["output_tokens"] = m.output_tokens;
  json["steps"] = m.steps;
  json["step_rows"] = base::Json{
      {"bounds", kStepRowBounds}, {"steps", m.step_rows.steps}, {"rows", m.step_rows.rows}};
  json["execute_seconds"] = m.execute_seconds;
  json["schedule_seconds"] = m.schedule_seconds;
  json["idle_seconds"] = m.idle_seconds;
  json["elapsed_seconds"] = m.elapsed_seconds;
  json["constraints"] = ConstraintsJson(m.constraints);
  json["experts"] = ExpertsJson(m.experts);
  json["context"] = ContextJson(m.context);
  json["scheduler"] = SchedulerJson(m.scheduler);
  return json.dump();
}

}  // namespace thalweg::engine
