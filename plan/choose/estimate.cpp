#include "plan/choose/estimate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "core/text.hpp"

namespace troupe::plan {
namespace {

constexpr double gibibyte = 1024.0 * 1024.0 * 1024.0;

/// Converts bytes to a whole number. Factors are doubles, multiplied in the order of DeepSpeed's source, because the
/// last byte of the result depends on this order.
uint64_t whole(double bytes) { return static_cast<uint64_t>(bytes); }

double gpus_of(const machine_shape& shape) {
  return static_cast<double>(shape.nodes) * static_cast<double>(shape.gpus_per_node);
}

std::string counted(uint32_t n, const char* what) { return fmt::format("{} {}{}", n, what, n > 1 ? "s" : ""); }

std::string millions(uint64_t parameters) { return fmt::format("{}M", parameters / 1'000'000); }

std::string heading(const machine_shape& shape, const std::string& model) {
  return "Estimated memory needed for params, optim states and gradients for a:\nHW: Setup with " +
         counted(shape.nodes, "node") + ", " + counted(shape.gpus_per_node, "GPU") + " per node.\nSW: Model with " +
         model + ".\n  per CPU  |  per GPU |   Options\n";
}

std::string line(const estimated_needs& needs, const std::string& options) {
  return core::text_of(" %7.2fGB | %6.2fGB | ", static_cast<double>(needs.host) / gibibyte,
                       static_cast<double>(needs.device) / gibibyte) +
         options + "\n";
}

std::string device_name(state_home home) { return home == state_home::host ? "cpu " : "none"; }

}  // namespace

model_size size_of(const core::model_table& table) {
  model_size out;
  std::map<std::string, uint64_t> modules;
  for (const auto& p : table.parameters) {
    if (p.is_copy()) continue;
    const auto dot = p.name.rfind('.');
    auto& module = modules[dot == std::string::npos ? "" : p.name.substr(0, dot)];
    module += p.numel();
    out.total += p.numel();
    out.largest_layer = std::max(out.largest_layer, module);
  }
  return out;
}

estimated_needs estimate_stage2(uint64_t total_parameters, const machine_shape& shape, state_home optimizer) {
  const auto p = static_cast<double>(total_parameters);
  if (optimizer == state_home::host)
    return {whole(p * std::max(4 * gpus_of(shape), 16.0) * shape.buffer_factor), whole(2 * p), 0};
  return {whole(p * 4 * shape.gpus_per_node * shape.buffer_factor), whole(2 * p) + whole(18 * p / gpus_of(shape)), 0};
}

estimated_needs estimate_stage3(const model_size& size, const machine_shape& shape, const estimated_placement& where) {
  const auto p = static_cast<double>(size.total), layer = static_cast<double>(size.largest_layer);
  const double of_a_node = 1 / static_cast<double>(shape.nodes), copies = 4.0 * shape.gpus_per_node;
  estimated_needs out;
  out.largest_layer = 4 * size.largest_layer;
  if (where.optimizer == state_home::device) {
    out.device = out.largest_layer + whole(18 * p / gpus_of(shape));
    out.host = whole((where.initialised_in_shards ? layer : p) * 4 * shape.gpus_per_node * shape.buffer_factor);
    return out;
  }
  const bool parameters_on_host = where.parameters == state_home::host;
  const double kept = parameters_on_host ? 18 : 16;  // bytes on the host for each parameter
  out.device = out.largest_layer + (parameters_on_host ? 0 : whole(2 * p / gpus_of(shape)));
  out.host = whole((where.initialised_in_shards ? p * kept * of_a_node : p * std::max(copies, kept * of_a_node)) *
                   shape.buffer_factor);
  return out;
}

std::string all_cold_stage2(uint64_t total_parameters, const machine_shape& shape) {
  std::string out = heading(shape, millions(total_parameters) + " total params");
  for (const auto home : {state_home::host, state_home::device})
    out += line(estimate_stage2(total_parameters, shape, home), "offload_optimizer=" + device_name(home));
  return out;
}

std::string all_cold_stage3(const model_size& size, const machine_shape& shape) {
  std::string out =
      heading(shape, millions(size.total) + " total params, " + millions(size.largest_layer) + " largest layer params");
  using enum state_home;
  for (const auto& [optimizer, parameters] : {std::pair{host, host}, {host, device}, {device, device}})
    for (const bool in_shards : {true, false})
      out += line(estimate_stage3(size, shape, {optimizer, parameters, in_shards}),
                  "offload_param=" + device_name(parameters) + ", offload_optimizer=" + device_name(optimizer) +
                      ", zero_init=" + (in_shards ? "1" : "0"));
  return out;
}

uint64_t static_state_bytes(uint64_t total_parameters, uint32_t ranks, uint32_t stage) {
  constexpr std::array<uint64_t, 4> shared = {0, 12, 14, 16};  // [stage]: bytes of a parameter, of 16, that are sharded
  const uint64_t part = shared[stage];
  return total_parameters * (16 - part) + total_parameters * part / ranks;
}

uint64_t static_bucket_bytes(uint64_t bucket_elements, uint64_t element_bytes, uint32_t stage, reduction reduced) {
  return bucket_elements * element_bytes * (reduced == reduction::overlapped && (stage == 1 || stage == 2) ? 2 : 1);
}

}  // namespace troupe::plan
