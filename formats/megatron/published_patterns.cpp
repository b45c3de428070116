#include "formats/megatron/published_patterns.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <numeric>

#include "formats/safetensors/header.hpp"

namespace troupe::formats {
namespace {

using nlohmann::json;

/// Returns the sizes of a parameter's parts along its cut dimension.
std::vector<int64_t> sizes_of(const published_rule& p) {
  if (!p.rule.widths.empty()) {
    std::vector<int64_t> out;
    for (const auto& part : p.rule.widths) out.push_back(std::accumulate(part.begin(), part.end(), int64_t{0}));
    return out;
  }
  if (!p.rule.part_sizes.empty()) return p.rule.part_sizes;
  return std::vector<int64_t>(p.rule.sub_parameters, p.shape[p.rule.dimension] / p.rule.sub_parameters);
}

}  // namespace

std::string exact_pattern(const std::string& name) {
  std::string out = "^";
  for (const char c : name) {
    if (std::string_view(".[]{}()*+?|^$\\").find(c) != std::string_view::npos) out += '\\';
    out += c;
  }
  return out + "$";
}

core::result<std::string> universal_info_json(const std::vector<published_rule>& rules, uint32_t ranks) {
  json out{{"universal_checkpoint_version", 0.4},
           {"vocabulary_parameter_patterns", json::array()},
           {"tp_replicated_parameter_patterns", json::array()},
           {"parameter_to_average_patterns", json::array()},
           {"parameter_with_row_parallelism_patterns", json::array()},
           {"parameter_with_2_sub_params_cat_dim_0", json::array()},
           {"parameter_with_sub_params", json::array()},
           {"sub_param_shard_widths", json::object()}};
  int64_t rows = 0, padded = 0;
  for (const auto& p : rules) {
    const std::string pattern = exact_pattern(p.name);
    const auto& r = p.rule;
    if (r.original_rows > 0) {
      if (rows != 0 && rows != r.original_rows)
        return fail(
            core::error_kind::bad_input,
            fmt::format("vocabularies of {} and of {} rows cannot be told apart in one folder", rows, r.original_rows));
      rows = r.original_rows;
      const int64_t n = ranks;
      padded = (rows + n - 1) / n * n;
      out["vocabulary_parameter_patterns"].push_back(pattern);
    }
    if (r.kind == cut_kind::replicated) {
      out["tp_replicated_parameter_patterns"].push_back(pattern);
    } else if (r.kind == cut_kind::averaged) {
      out["parameter_to_average_patterns"].push_back(pattern);
    } else if (r.dimension < 2 && r.sub_parameters == 1 && r.part_sizes.empty() && r.widths.empty() && r.view.empty()) {
      if (r.dimension == 1) out["parameter_with_row_parallelism_patterns"].push_back(pattern);
    } else {
      const auto& view = r.view.empty() ? p.shape : r.view;
      if (r.dimension >= view.size() || (r.part_sizes.empty() && r.widths.empty() && r.dimension >= p.shape.size()))
        return fail(core::error_kind::bad_input,
                    fmt::format("parameter '{}' has no dimension {}", shown(p.name), r.dimension));
      const auto sizes = sizes_of(p);
      json shape = view;
      shape[r.dimension] = sizes;
      out["parameter_with_sub_params"].push_back(
          {{"patterns", {pattern}}, {"shape", std::move(shape)}, {"partition_dim", r.dimension}});
      json widths = r.widths;
      for (const int64_t size : sizes) {
        if (!r.widths.empty()) break;
        const auto part = split_widths(size, ranks, r.uneven);
        if (!part) return fail(part.error().in(fmt::format("parameter '{}'", shown(p.name))));
        widths.push_back(*part);
      }
      out["sub_param_shard_widths"][pattern] = std::move(widths);
    }
  }
  if (rows > 0) {
    out["original_vocab_size"] = rows;
    out["padded_vocab_size"] = padded;
  }
  return out.dump();
}

}  // namespace troupe::formats
