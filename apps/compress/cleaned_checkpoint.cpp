#include "apps/compress/cleaned_checkpoint.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "apps/base/block_names.hpp"
#include "compression/files/cleaned_source.hpp"
#include "config/load.hpp"
#include "core/json_text.hpp"
#include "core/text.hpp"
#include "families/all_families.hpp"
#include "job/compression/clean_values.hpp"
#include "models/table/model_spec.hpp"

namespace troupe::apps {
namespace {

using json = nlohmann::ordered_json;

core::result<config::job_config> config_of(const formats::tensor_source& s) {
  if (s.run.config.empty())
    return fail(error_kind::bad_input,
                fmt::format("'{}' does not say by which configuration it was trained", formats::shown_place(s)));
  auto read = config::load_text(s.run.config, (s.folder / "manifest.json").string() + " (run.config)", s.folder);
  if (!read) return fail(error_kind::bad_input, config::render(read.error()));
  return std::move(read->config);
}

core::result<void> change_model(const job::cleaning& done, model_description& m) {
  if (!done.inner && !done.heads) return {};
  auto keys = core::parse_json<json>(m.json, max_description_depth);
  if (!keys || !keys->is_object()) return fail(error_kind::bad_input, "the model's config.json is not a JSON object");
  const auto* const family = families::find(m.model_type);
  if (family == nullptr)
    return fail(error_kind::bad_input,
                fmt::format("model_type '{}': wanted {}, because config.json's keys of other families are not known",
                            core::shown(m.model_type), families::names_joined()));
  const auto& names = family->keys;
  if (done.heads && names.head_width.name.empty())
    return fail(
        error_kind::bad_input,
        fmt::format("head_pruning: wanted no related_modules, because config.json of model_type '{}' cannot describe "
                    "fewer heads than fill the width, got {} heads of {}",
                    core::shown(m.model_type), *done.heads, *done.head_width));
  if (done.inner) (*keys)[names.inner.name] = *done.inner;
  if (done.heads) {
    (*keys)[names.heads.name] = *done.heads;
    (*keys)[names.kv_heads.name] = *done.kv_heads;
    (*keys)[names.head_width.name] = *done.head_width;
  }
  m.json = keys->dump(2, ' ', false, json::error_handler_t::replace) + "\n";
  return {};
}

/// Returns the scales of the outputs that are kept; each output has `each` scales.
std::vector<float> scales_of(const std::vector<uint64_t>& outputs, const std::vector<float>& scales, uint64_t each) {
  std::vector<float> out;
  for (const uint64_t o : outputs)
    out.insert(out.end(), scales.begin() + static_cast<std::ptrdiff_t>(o * each),
               scales.begin() + static_cast<std::ptrdiff_t>((o + 1) * each));
  return out;
}

}  // namespace

core::result<cleaned_checkpoint> clean(described_checkpoint from) {
  if (from.model.json.empty())
    return fail(error_kind::bad_input,
                fmt::format("'{}': wanted a model with a config.json, got none: a host's own modules are "
                            "cleaned in its program, by compression::redundancy_clean",
                            formats::shown_place(from.source)));
  TROUPE_ASSIGN(const auto config, config_of(from.source));
  TROUPE_ASSIGN(const auto spec, models::parse_model_spec(from.model.json, from.model.ignored_keys));
  TROUPE_ASSIGN(auto cleaned,
                compression::clean_source(std::move(from.source), config,
                                          models::make_model_table(spec, 1, 1, core::size_of(core::dtype::f32)),
                                          job::widths_said::by_config_json));
  cleaned_checkpoint out{{std::move(cleaned.now), std::move(from.model)},
                         cleaned.before,
                         cleaned.done,
                         cleaned.elements_before,
                         cleaned.elements};
  TROUPE_TRY(change_model(*out.done, out.now.model));
  out.now.source.run.model = out.now.model.json;
  return out;
}

core::result<std::map<std::string, checkpoint::trained_grid>> trained_grids(const cleaned_checkpoint& c) {
  std::map<std::string, checkpoint::trained_grid> out;
  for (const auto& p : c.done->parameters) {
    if (p.recipe == nullptr) continue;
    checkpoint::trained_grid& grid = out[p.name];
    const auto& kept_outputs = p.recipe->transposed ? p.kept_columns : p.kept_rows;
    const auto& kept_inputs = p.recipe->transposed ? p.kept_rows : p.kept_columns;
    const uint64_t inputs = p.recipe->transposed ? p.rows : p.columns;
    const kernels::weight_recipe& r = *p.recipe;
    const uint64_t size = r.elements() / r.groups;
    // One scale covers `size` consecutive weights of the elements in memory. The remaining scales stay valid only if no
    // inputs were removed and each output has whole groups of its own: its number of inputs is a multiple of `size`.
    if (!kept_inputs.empty() || (!kept_outputs.empty() && inputs % size != 0)) continue;
    if (r.grid.kind == kernels::quantiser_kind::asymmetric) continue;
    TROUPE_ASSIGN(const auto values, compression::whole_weight(*c.before, p.name));
    grid = {size, job::scales_of_grid(r, c.done->used, values), r.transposed};
    if (!kept_outputs.empty()) grid.scales = scales_of(kept_outputs, grid.scales, inputs / size);
  }
  return out;
}

void print_cleaning(const cleaned_checkpoint& c) {
  std::vector<std::vector<std::string>> rows{{"module", "modules", "made permanent"}};
  std::vector<size_t> modules{0};  ///< [row]: number of modules
  for (const auto& m : c.done->modules) {
    const std::vector<std::string> row = {for_all_blocks(m.module), "", m.what};
    const auto same = std::find_if(rows.begin() + 1, rows.end(),
                                   [&](const auto& other) { return other[0] == row[0] && other[2] == row[2]; });
    const auto at = static_cast<size_t>(same - rows.begin());
    if (same == rows.end()) {
      rows.push_back(row);
      modules.push_back(0);
    }
    rows[at][1] = fmt::to_string(++modules[at]);
  }
  std::printf("%s", core::aligned(rows, {false, true, false}).c_str());
  if (c.done->inner) std::printf("the MLPs' inner width is %llu\n", static_cast<unsigned long long>(*c.done->inner));
  if (c.done->heads) std::printf("blocks have %llu heads\n", static_cast<unsigned long long>(*c.done->heads));
  std::printf("%llu -> %llu weights\n", static_cast<unsigned long long>(c.elements_before),
              static_cast<unsigned long long>(c.elements));
}

}  // namespace troupe::apps
