#include "actors/processes/calls.hpp"

#include <utility>

#include "core/byte_stream.hpp"

namespace troupe::plan {

template <class F>
void fields(F& f, cost_model& x) {
  f(x.flops_per_s, x.copy_bytes_per_s, x.disk_bytes_per_s, x.disk_read_bytes_per_s, x.disk_latency_s, x.latency_s);
}
template <class F>
void fields(F& f, segment_place& x) {
  f(x.unit, x.segment);
}
template <class F>
void fields(F& f, hidden_gathers& x) {
  f(x.flops, x.flops_per_byte);
}
template <class F>
void fields(F& f, gather_options& x) {
  f(x.prefetch_bucket, x.persistence_threshold, x.model_persistence_threshold, x.max_live, x.max_reuse_distance,
    x.resident_units, x.hidden, x.near);
}

}  // namespace troupe::plan

namespace troupe::kernels {

template <class F>
void fields(F& f, value_range<double>& x) {
  f(x.least, x.largest);
}

}  // namespace troupe::kernels

namespace troupe::telemetry {

template <class F>
void fields(F& f, interval& x) {
  f(x.start_ns, x.end_ns);
}
template <class F>
void fields(F& f, clock_shift& x) {
  f(x.offset_ns, x.error_ns);
}
template <class F>
void fields(F& f, rank_spans& x) {
  f(x.spans, x.skipped, x.clipped);
  for (auto& lane : x.moved) f(lane);
}

}  // namespace troupe::telemetry

namespace troupe::actors {

template <class F>
void fields(F& f, tensor_name& x) {
  f(x.parameter, x.name);
}
template <class F>
void fields(F& f, wanted_load& x) {
  f(x.path, x.tag, x.map, x.load_module_strict, x.load_optimizer_states, x.load_lr_scheduler_states, x.load_module_only,
    x.load_from_fp32_weights, x.pipeline_loading_checkpoint, x.swap_batch_bytes, x.fallback_to_previous, x.dequantise,
    x.changed_batch, x.changed_seed, x.changed_data, x.has_names, x.names, x.left_out);
}
template <class F>
void fields(F& f, chosen_passes& x) {
  f(x.recompute, x.kept_units, x.light_before, x.overlap_exchanges, x.exchange_pieces, x.gathering, x.reduce_bucket,
    x.buckets_follow_units, x.activation_units);
}
template <class F>
void fields(F& f, told_schedule& x) {
  f(x.step, x.passes, x.is_automatic, x.tried_steps);
}
template <class F>
void fields(F& f, opening_call& x) {
  f(x.costs, x.load, x.passes, x.schedule);
}
template <class F>
void fields(F& f, output_call& x) {
  f(x.path, x.content);
}
template <class F>
void fields(F& f, kept_name& x) {
  f(x.from, x.to);
}
template <class F>
void fields(F& f, run_call& x) {
  f(x.run, x.step, x.which, x.micros, x.keeps_logits, x.computes_loss, x.output, x.rows, x.columns, x.tokens,
    x.saves_in_memory, x.invitation, x.request, x.early_updates);
}
template <class F>
void fields(F& f, read_call& x) {
  f(x.rank, x.parameter, x.part, x.first, x.count, x.type);
}
template <class F>
void fields(F& f, write_call& x) {
  f(x.where, x.bytes);
}
template <class F>
void fields(F& f, names_call& x) {
  f(x.names);
}
template <class F>
void fields(F& f, masks_call& x) {
  f(x.masks);
}
template <class F>
void fields(F& f, schedule_call& x) {
  f(x.entries);
}
template <class F>
void fields(F& f, load_call& x) {
  f(x.load);
}
template <class F>
void fields(F& f, go_call& x) {
  f(x.goes_on);
}
template <class F>
void fields(F& f, offload_call& x) {
  f(x.include, x.device, x.nvme_path);
}
template <class F>
void fields(F& f, reload_call& x) {
  f(x.now);
}
template <class F>
void fields(F& f, tag_call& x) {
  f(x.step);
}
template <class F>
void fields(F& f, deed_answer& x) {
  f(x.failed, x.kind, x.text, x.moved_bytes, x.freed_bytes);
}
template <class F>
void fields(F& f, committed_call& x) {
  f(x.folder, x.manifest, x.latest, x.save_ids, x.writers);
}
template <class F>
void fields(F& f, verdict& x) {
  f(x.loss, x.square_sum, x.grad_norm, x.overflow, x.skipped, x.clipped, x.gradient_scale, x.input_ranges);
}
template <class F>
void fields(F& f, model_output& x) {
  f(x.shape, x.values);
}
template <class F>
void fields(F& f, rank_report& x) {
  f(x.rank, x.decided, x.losses, x.spans, x.outputs);
}
template <class F>
void fields(F& f, link_traffic& x) {
  f(x.from, x.to, x.bytes, x.receiving_ns);
}
template <class F>
void fields(F& f, run_answer& x) {
  f(x.reports, x.peak_bytes, x.machine, x.entered_bytes, x.clock, x.links);
}

namespace {

template <class T>
core::result<T> decoded(std::string_view bytes, const char* what) {
  auto out = core::from_bytes<T>(bytes);
  if (!out)
    return core::fail(core::error_kind::mismatch, std::string("processes: wanted ") + what + ", got " +
                                                      std::to_string(bytes.size()) + " other bytes");
  return std::move(*out);
}

template <class T>
core::result<peer_call> call_of(std::string_view bytes) {
  TROUPE_ASSIGN(auto out, decoded<T>(bytes, "a call"));
  return peer_call(std::move(out));
}

template <size_t... I>
core::result<peer_call> nth_call(size_t n, std::string_view bytes, std::index_sequence<I...> /*kinds*/) {
  core::result<peer_call> out =
      core::fail(core::error_kind::mismatch, "processes: wanted a call, got kind " + std::to_string(n));
  ((n == I ? void(out = call_of<std::variant_alternative_t<I, peer_call>>(bytes)) : void()), ...);
  return out;
}

}  // namespace

std::string encode(const peer_call& call) {
  return static_cast<char>(call.index()) + std::visit([](const auto& x) { return core::as_bytes(x); }, call);
}

core::result<peer_call> decode_call(std::string_view bytes) {
  if (bytes.empty()) return core::fail(core::error_kind::mismatch, "processes: wanted a call, got no bytes");
  return nth_call(static_cast<unsigned char>(bytes.front()), bytes.substr(1),
                  std::make_index_sequence<std::variant_size_v<peer_call>>());
}

std::string encode(const run_answer& answer) { return core::as_bytes(answer); }

core::result<run_answer> decode_run_answer(std::string_view bytes) {
  return decoded<run_answer>(bytes, "the reports of a run");
}

std::string encode(const deed_answer& answer) { return core::as_bytes(answer); }

core::result<deed_answer> decode_deed_answer(std::string_view bytes) {
  return decoded<deed_answer>(bytes, "what came of a call");
}

}  // namespace troupe::actors
