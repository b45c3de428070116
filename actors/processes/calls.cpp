#include "actors/processes/calls.hpp"

#include <utility>

#include "core/byte_stream.hpp"

namespace troupe::plan {

template <class F>
void fields(F& f, cost_model& x) {
  f(x.flops_per_s, x.copy_bytes_per_s, x.disk_bytes_per_s, x.disk_read_bytes_per_s, x.disk_latency_s, x.latency_s);
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
void fields(F& f, opening_call& x) {
  f(x.costs, x.resume, x.tag, x.map, x.options);
}
template <class F>
void fields(F& f, kept_name& x) {
  f(x.from, x.to);
}
template <class F>
void fields(F& f, run_call& x) {
  f(x.run, x.step, x.which, x.micros, x.keeps_logits, x.computes_loss, x.output, x.rows, x.columns, x.tokens,
    x.saves_in_memory, x.invitation, x.request);
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
void fields(F& f, run_answer& x) {
  f(x.reports, x.peak_bytes, x.machine, x.entered_bytes, x.clock);
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
  auto out = decoded<T>(bytes, "a call");
  if (!out) return core::fail(out.error());
  return peer_call(std::move(*out));
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

}  // namespace troupe::actors
