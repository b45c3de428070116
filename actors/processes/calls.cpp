#include "actors/processes/calls.hpp"

#include <fmt/format.h>

#include <utility>

#include "core/byte_stream.hpp"
#include "plan/choose/machine_costs.hpp"

namespace troupe::plan {

void fields(auto& f, machine_costs& x) {
  for (const auto& c : machine_constants()) f(x.*c.field);
}
void fields(auto& f, cost_model& x) {
  f(x.flops_per_s, x.copy_bytes_per_s, x.disk_bytes_per_s, x.disk_read_bytes_per_s, x.disk_latency_s, x.latency_s,
    x.device_bytes_per_s, x.link_bytes_per_s, x.machine);
}
void fields(auto& f, segment_place& x) { f(x.unit, x.segment); }
void fields(auto& f, hidden_gathers& x) { f(x.flops, x.flops_per_byte); }
void fields(auto& f, gather_options& x) {
  f(x.prefetch_bucket, x.persistence_threshold, x.model_persistence_threshold, x.max_live, x.max_reuse_distance,
    x.resident_units, x.hidden, x.near);
}

}  // namespace troupe::plan

namespace troupe::kernels {

void fields(auto& f, value_range<double>& x) { f(x.least, x.largest); }

}  // namespace troupe::kernels

namespace troupe::job {

void fields(auto& f, group_setting& x) { f(x.lr, x.beta1, x.weight_decay); }

}  // namespace troupe::job

namespace troupe::telemetry {

void fields(auto& f, interval& x) { f(x.start_ns, x.end_ns); }
void fields(auto& f, clock_shift& x) { f(x.offset_ns, x.error_ns); }
void fields(auto& f, rank_spans& x) {
  f(x.spans, x.skipped, x.clipped);
  for (auto& lane : x.moved) f(lane);
}

}  // namespace troupe::telemetry

namespace troupe::actors {

void fields(auto& f, tensor_name& x) { f(x.parameter, x.name); }
void fields(auto& f, wanted_load& x) {
  f(x.path, x.tag, x.map, x.load_module_strict, x.load_optimizer_states, x.load_lr_scheduler_states, x.load_module_only,
    x.load_from_fp32_weights, x.pipeline_loading_checkpoint, x.swap_batch_bytes, x.fallback_to_previous, x.dequantise,
    x.changed_batch, x.changed_seed, x.changed_data, x.has_names, x.names, x.left_out);
}
void fields(auto& f, chosen_passes& x) {
  auto& o = x.of_step;
  f(o.recompute, o.kept_units, o.light_before, o.overlap_exchanges, o.exchange_pieces, o.gathering,
    o.gradients.reduce_bucket, o.gradients.buckets_follow_units, o.tiers.activation_units);
}
void fields(auto& f, told_schedule& x) { f(x.step, x.passes, x.is_automatic); }
void fields(auto& f, opening_call& x) { f(x.costs, x.load, x.passes, x.schedule); }
void fields(auto& f, output_call& x) { f(x.path, x.content); }
void fields(auto& f, kept_name& x) { f(x.from, x.to); }
void fields(auto& f, told_batch& x) { f(x.rows, x.columns, x.tokens, x.samples, x.targets, x.weights, x.loss_factor); }
void fields(auto& f, run_call& x) {
  f(x.run, x.step, x.which, x.micros, x.keeps, x.computes_loss, x.output, x.given, x.own_samples, x.step_micros,
    x.saves_in_memory, x.invitation, x.request, x.early_updates, x.settings);
}
void fields(auto& f, read_call& x) { f(x.rank, x.parameter, x.part, x.first, x.count, x.type); }
void fields(auto& f, write_call& x) { f(x.where, x.bytes); }
void fields(auto& f, names_call& x) { f(x.names); }
void fields(auto& f, masks_call& x) { f(x.masks); }
void fields(auto& f, schedule_call& x) { f(x.entries); }
void fields(auto& f, load_call& x) { f(x.load); }
void fields(auto& f, go_call& x) { f(x.goes_on); }
void fields(auto& f, offload_call& x) { f(x.include, x.device, x.nvme_path); }
void fields(auto& f, reload_call& x) { f(x.now); }
void fields(auto& f, tag_call& x) { f(x.step); }
void fields(auto& f, call_answer& x) { f(x.failed, x.kind, x.text, x.moved_bytes, x.freed_bytes); }
void fields(auto& f, committed_call& x) { f(x.folder, x.manifest, x.latest, x.save_ids, x.aside_ids, x.writers); }
void fields(auto& f, verdict& x) {
  f(x.loss, x.square_sum, x.grad_norm, x.overflow, x.skipped, x.clipped, x.gradient_scale, x.input_ranges);
}
void fields(auto& f, model_output& x) { f(x.shape, x.values); }
void fields(auto& f, rank_report& x) { f(x.rank, x.decided, x.losses, x.spans, x.outputs); }
void fields(auto& f, link_traffic& x) { f(x.from, x.to, x.bytes, x.receiving_ns); }
void fields(auto& f, run_answer& x) { f(x.reports, x.peak_bytes, x.machine, x.entered_bytes, x.clock, x.links); }

namespace {

template <class T>
core::result<T> decoded(std::string_view bytes, const char* what) {
  auto out = core::from_bytes<T>(bytes);
  if (!out)
    return core::fail(core::error_kind::mismatch,
                      fmt::format("processes: wanted {}, got {} other bytes", what, bytes.size()));
  return std::move(*out);
}

}  // namespace

std::string encode(const peer_call& call) { return core::as_bytes(call); }

core::result<peer_call> decode_call(std::string_view bytes) { return decoded<peer_call>(bytes, "a call"); }

std::string encode(const run_answer& answer) { return core::as_bytes(answer); }

core::result<run_answer> decode_run_answer(std::string_view bytes) {
  return decoded<run_answer>(bytes, "the reports of a run");
}

std::string encode(const call_answer& answer) { return core::as_bytes(answer); }

core::result<call_answer> decode_call_answer(std::string_view bytes) {
  return decoded<call_answer>(bytes, "the answer to a call");
}

}  // namespace troupe::actors
