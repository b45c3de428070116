#include "apps/compress/cleaned_checkpoint.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "apps/base/block_names.hpp"
#include "checkpoint/convert/cut_source.hpp"
#include "checkpoint/source/source_reader.hpp"
#include "config/load.hpp"
#include "core/json_text.hpp"
#include "core/tensor_view.hpp"
#include "core/text.hpp"
#include "job/clean_values.hpp"
#include "job/mask_scores.hpp"
#include "models/table/model_spec.hpp"
#include "plan/show/render.hpp"

namespace troupe::apps {
namespace {

using core::error_kind;
using core::fail;
using json = nlohmann::ordered_json;

constexpr size_t max_depth = 64;

core::result<config::job_config> config_of(const checkpoint::tensor_source& s) {
  if (s.run.config.empty())
    return fail(error_kind::bad_input,
                fmt::format("'{}' does not say by which configuration it was trained", s.folder.string()));
  auto read = config::load_text(s.run.config, (s.folder / "manifest.json").string() + " (run.config)", s.folder);
  if (!read) return fail(error_kind::bad_input, config::render(read.error()));
  return std::move(read->config);
}

core::result<std::vector<float>> whole_weight(const checkpoint::tensor_source& s, const std::string& name) {
  const auto* t = checkpoint::find_tensor(s, name, checkpoint::tensor_kind::master);
  if (t == nullptr) t = checkpoint::find_tensor(s, name, checkpoint::tensor_kind::frozen);
  if (t == nullptr) return fail(error_kind::mismatch, fmt::format("'{}' lacks '{}'", s.folder.string(), name));
  const uint64_t count = core::numel_of(t->shape);
  std::vector<float> out(count);
  const std::span bytes(reinterpret_cast<std::byte*>(out.data()), count * sizeof(float));
  if (auto ok = checkpoint::source_reader(s).read_as(core::dtype::f32, *t, 0, count, bytes); !ok)
    return fail(ok.error());
  return out;
}

/// Learned scores' mask: the largest of them.
core::result<kernels::mask_bits> mask_of_scores(const checkpoint::tensor_source& s, const std::string& name,
                                                uint64_t kept) {
  const auto scores = whole_weight(s, name);
  if (!scores) return fail(scores.error());
  return job::mask_of_scores(*scores, kept);
}

checkpoint::source_cuts cuts_of(const std::shared_ptr<const job::cleaning>& done) {
  checkpoint::source_cuts out;
  for (const auto& p : done->parameters) {
    checkpoint::source_cut cut;
    if (p.recipe != nullptr)
      cut.change = [done, recipe = p.recipe](core::dtype type, std::span<std::byte> whole) {
        job::put_on_grid(*recipe, done->used, type, whole);
      };
    cut.mask = p.mask;
    cut.rows = p.kept_rows;
    cut.columns = p.kept_columns;
    cut.drops = p.drops;
    out.emplace(p.name, std::move(cut));
  }
  return out;
}

core::result<void> change_model(const job::cleaning& done, model_description& m) {
  if (!done.inner && !done.heads) return {};
  auto keys = core::parse_json<json>(m.json, max_depth);
  if (!keys || !keys->is_object()) return fail(error_kind::bad_input, "the model's config.json is no JSON object");
  if (done.heads && m.model_type != "llama")
    return fail(
        error_kind::bad_input,
        fmt::format("head_pruning: wanted no related_modules, as config.json of model_type '{}' cannot say that "
                    "heads are fewer than the width has room for, got {} heads of {}",
                    core::shown(m.model_type), *done.heads, *done.head_width));
  if (done.inner) (*keys)[m.model_type == "gpt2" ? "n_inner" : "intermediate_size"] = *done.inner;
  if (done.heads) {
    (*keys)["num_attention_heads"] = *done.heads;
    (*keys)["num_key_value_heads"] = *done.kv_heads;
    (*keys)["head_dim"] = *done.head_width;
  }
  m.json = keys->dump(2, ' ', false, json::error_handler_t::replace) + "\n";
  return {};
}

/// Of the outputs that stay, each of which has so many scales.
std::vector<float> scales_of(const std::vector<uint64_t>& outputs, const std::vector<float>& scales, uint64_t each) {
  std::vector<float> out;
  for (const uint64_t o : outputs)
    out.insert(out.end(), scales.begin() + static_cast<std::ptrdiff_t>(o * each),
               scales.begin() + static_cast<std::ptrdiff_t>((o + 1) * each));
  return out;
}

uint64_t weights_in(const checkpoint::tensor_source& s) {
  uint64_t out = 0;
  for (const auto& t : s.tensors)
    if (t.kind != checkpoint::tensor_kind::moment) out += core::numel_of(t.shape);
  return out;
}

}  // namespace

core::result<cleaned_checkpoint> clean(described_checkpoint from) {
  const auto config = config_of(from.source);
  if (!config) return fail(config.error());
  const auto spec = models::parse_model_spec(from.model.json);
  if (!spec) return fail(spec.error());
  auto table = models::make_model_table(*spec, 1, 1, core::size_of(core::dtype::f32));
  if (auto ok = job::add_scores(*config, table); !ok) return fail(ok.error());
  const auto source = std::make_shared<const checkpoint::tensor_source>(std::move(from.source));
  std::optional<core::error> problem;
  const job::mask_lookup mask = [&](const job::pruned_module& m) -> std::optional<kernels::mask_bits> {
    for (const auto& saved : source->run.masks)
      if (saved.module == m.module && saved.technique == job::name_of(m.part) && saved.elements == m.scores())
        return saved.bits;
    if (!m.score_parameter) return std::nullopt;
    auto learned = mask_of_scores(*source, table.parameters[*m.score_parameter].name, m.kept);
    if (learned) return std::move(*learned);
    problem = learned.error();
    return std::nullopt;
  };
  auto done = job::plan_cleaning(*config, table, source->run.applied_updates.value_or(0), mask);
  if (problem) return fail(*problem);
  if (!done) return fail(done.error());
  if ((*done)->modules.empty())
    return fail(error_kind::bad_input, fmt::format("'{}': nothing was compressed by its step {}",
                                                   source->folder.string(), source->run.steps.value_or(0)));
  auto cut = checkpoint::cut_source(source, cuts_of(*done));
  if (!cut) return fail(cut.error());
  cleaned_checkpoint out{{std::move(*cut), std::move(from.model)}, source, *done, weights_in(*source), 0};
  if (auto ok = change_model(**done, out.now.model); !ok) return fail(ok.error());
  out.elements = weights_in(out.now.source);
  out.now.source.run.masks.clear();
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
    // Outputs go with whole runs of their own, or with parts of others'.
    if (!kept_inputs.empty() || (!kept_outputs.empty() && inputs % size != 0)) continue;
    if (r.grid.kind == kernels::quantiser_kind::asymmetric) continue;
    const auto values = whole_weight(*c.before, p.name);
    if (!values) return fail(values.error());
    grid = {size, job::scales_of_grid(r, c.done->used, *values), r.transposed};
    if (!kept_outputs.empty()) grid.scales = scales_of(kept_outputs, grid.scales, inputs / size);
  }
  return out;
}

void print_cleaning(const cleaned_checkpoint& c) {
  std::vector<std::vector<std::string>> rows{{"module", "modules", "made permanent"}};
  for (const auto& m : c.done->modules) {
    const std::vector<std::string> row = {for_all_blocks(m.module), "1", m.what};
    const auto same = std::find_if(rows.begin() + 1, rows.end(),
                                   [&](const auto& other) { return other[0] == row[0] && other[2] == row[2]; });
    if (same == rows.end())
      rows.push_back(row);
    else
      (*same)[1] = std::to_string(std::stoul((*same)[1]) + 1);
  }
  std::printf("%s", plan::aligned(rows, {false, true, false}).c_str());
  if (c.done->inner) std::printf("the MLPs' inner width is %llu\n", static_cast<unsigned long long>(*c.done->inner));
  if (c.done->heads) std::printf("blocks have %llu heads\n", static_cast<unsigned long long>(*c.done->heads));
  std::printf("%llu -> %llu weights\n", static_cast<unsigned long long>(c.elements_before),
              static_cast<unsigned long long>(c.elements));
}

}  // namespace troupe::apps
