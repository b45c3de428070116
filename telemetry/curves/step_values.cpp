#include "telemetry/curves/step_values.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "telemetry/text.hpp"

namespace troupe::telemetry {
namespace {

double per_second(uint64_t n, double seconds) { return seconds > 0 ? double(n) / seconds : 0; }

bool is_alphanumeric(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9'); }

}  // namespace

bool is_metric_name(std::string_view name) {
  constexpr std::string_view signs = "_-.";
  return !name.empty() && name.size() <= metric_name_bytes_max && is_alphanumeric(name.front()) &&
         std::ranges::all_of(name, [&](char c) { return is_alphanumeric(c) || signs.find(c) != signs.npos; });
}

std::vector<curve_value> labelled(const step_values& v, const step_breakdown& times, const label_options& options) {
  std::vector<curve_value> out = {{"Train/Samples/train_loss", v.loss},
                                  {"Train/Samples/lr", v.lr},
                                  {"Train/Samples/grad_norm", v.grad_norm},
                                  {"Train/Samples/samples_per_s", per_second(v.samples, v.seconds)},
                                  {"Train/Samples/tokens_per_s", per_second(v.tokens, v.seconds)},
                                  {"Train/Samples/memory_bytes", double(v.memory_bytes)}};
  if (options.loss_scale) out.push_back({"Train/Samples/loss_scale", v.loss_scale});
  if (options.breakdown) {
    out.push_back({"Train/Samples/elapsed_time_ms_forward", times.forward_ms});
    out.push_back({"Train/Samples/elapsed_time_ms_backward", times.backward_ms});
    out.push_back({"Train/Samples/elapsed_time_ms_backward_inner", times.backward_inner_ms});
    out.push_back({"Train/Samples/elapsed_time_ms_backward_allreduce", times.backward_allreduce_ms});
    out.push_back({"Train/Samples/elapsed_time_ms_step", times.step_ms});
  }
  return out;
}

std::string json_line(const step_values& v, const step_breakdown& times) {
  return fmt::format(
      "{{\"step\":{},\"global_samples\":{},\"loss\":{},\"lr\":{},\"grad_norm\":{},\"loss_scale\":{},\"skipped\":{},"
      "\"step_s\":{},\"tokens_per_s\":{},\"memory_bytes\":{},\"forward_ms\":{},\"backward_ms\":{},\"update_ms\":{},"
      "\"communication_s\":{},\"exposed_s\":{},\"control_idle_s\":{},\"unix_s\":{}}}",
      v.step, v.global_samples, json_number(v.loss), json_number(v.lr), json_number(v.grad_norm),
      json_number(v.loss_scale), v.skipped ? "true" : "false", json_number(v.seconds),
      json_number(per_second(v.tokens, v.seconds)), v.memory_bytes, json_number(times.forward_ms),
      json_number(times.backward_ms), json_number(times.step_ms), json_number(v.communication_s),
      json_number(v.exposed_s), json_number(v.control_idle_s), json_number(v.unix_s));
}

std::string json_line(const validation_values& v) {
  const std::string set = v.set.empty() ? "" : fmt::format(",\"set\":{}", json_string(v.set));
  return fmt::format("{{\"step\":{},\"global_samples\":{},\"validation_loss\":{}{},\"unix_s\":{}}}", v.step,
                     v.global_samples, json_number(v.loss), set, json_number(v.unix_s));
}

std::string label_of_set(std::string_view set) {
  return set.empty() ? std::string(validation_label) : fmt::format("Validation/{}/loss", set);
}

std::string json_line(const metric_values& v) {
  std::string values;
  for (const auto& [name, value] : v.values)
    values += fmt::format("{}\"{}\":{}", values.empty() ? "" : ",", name, json_number(value));
  return fmt::format("{{\"step\":{},\"global_samples\":{},\"metrics\":{{{}}},\"unix_s\":{}}}", v.step, v.global_samples,
                     values, json_number(v.unix_s));
}

std::string breakdown_line(const step_breakdown& m, const std::string& who) {
  std::string out = "time (ms) | " + (who.empty() ? "" : who + " | ") +
                    text_of("fwd: %.2f | bwd: %.2f | bwd_inner: %.2f | bwd_allreduce: %.2f | step: %.2f", m.forward_ms,
                            m.backward_ms, m.backward_inner_ms, m.backward_allreduce_ms, m.step_ms);
  if (who.empty()) return out;
  return out + text_of(
                   " | batch_input: %.2f | pipe_send_output: %.2f | pipe_send_grad: %.2f | pipe_recv_input: %.2f | "
                   "pipe_recv_grad: %.2f",
                   m.batch_input_ms, m.pipe_send_output_ms, m.pipe_send_grad_ms, m.pipe_recv_input_ms,
                   m.pipe_recv_grad_ms);
}

}  // namespace troupe::telemetry
