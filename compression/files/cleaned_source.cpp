#include "compression/files/cleaned_source.hpp"

#include <fmt/format.h>

#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "checkpoint/convert/cut_source.hpp"
#include "config/document/document.hpp"
#include "core/tensor_view.hpp"
#include "formats/source/source_reader.hpp"
#include "job/compression/clean_values.hpp"
#include "job/compression/mask_scores.hpp"

namespace troupe::compression {
namespace {

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

/// Returns the text of a configuration without the sections whose compression is permanent; keeps the quantisation of
/// activations, which is applied to inputs of layers in every step.
core::result<std::string> without_permanent(const std::string& text) {
  if (text.empty()) return text;
  constexpr std::string_view section = "compression_training", stays = "activation_quantization";
  const auto all = config::read_yaml(text, 0);
  if (all.root == nullptr)
    return fail(error_kind::bad_input, fmt::format("its configuration is not valid YAML: line {}: {}",
                                                   all.problems.front().at.line, all.problems.front().text));
  std::string out;
  for (const auto& key : all.root->entries) {
    const auto* const left = key.name == section ? key.value->find(stays) : nullptr;
    if (left != nullptr)
      out += fmt::format("{}: {{{}: {}}}\n", section, stays, config::as_yaml(*left));
    else if (key.name != section)
      out += fmt::format("{}: {}\n", key.name, config::as_yaml(*key.value));
  }
  return out;
}

uint64_t weights_in(const formats::tensor_source& s) {
  uint64_t out = 0;
  for (const auto& t : s.tensors)
    if (t.kind != formats::tensor_kind::moment) out += core::numel_of(t.shape);
  return out;
}

}  // namespace

core::result<std::vector<float>> whole_weight(const formats::tensor_source& from, const std::string& name) {
  const auto* t = formats::find_tensor(from, name, formats::tensor_kind::master);
  if (t == nullptr) t = formats::find_tensor(from, name, formats::tensor_kind::frozen);
  if (t == nullptr) return fail(error_kind::mismatch, fmt::format("'{}' lacks '{}'", formats::shown_place(from), name));
  const uint64_t count = core::numel_of(t->shape);
  std::vector<float> out(count);
  const std::span bytes(reinterpret_cast<std::byte*>(out.data()), count * sizeof(float));
  TROUPE_TRY(formats::source_reader(from).read_as(core::dtype::f32, *t, 0, count, bytes));
  return out;
}

core::result<cleaned_source> clean_source(formats::tensor_source from, const config::job_config& config,
                                          core::model_table table, job::widths_said said) {
  TROUPE_TRY(job::add_scores(config, table));
  const auto source = std::make_shared<const formats::tensor_source>(std::move(from));
  std::optional<core::error> problem;
  const job::mask_lookup mask = [&](const job::pruned_module& m) -> std::optional<kernels::mask_bits> {
    for (const auto& saved : source->run.masks)
      if (saved.module == m.module && saved.technique == job::name_of(m.part) && saved.elements == m.scores())
        return saved.bits;
    if (!m.score_parameter) return std::nullopt;
    const auto scores = whole_weight(*source, table.parameters[*m.score_parameter].name);
    if (scores) return job::mask_of_scores(*scores, m.kept, config.parameter_dtype());
    problem = scores.error();
    return std::nullopt;
  };
  auto done = job::plan_cleaning(config, table, source->run.applied_updates.value_or(0), mask, said);
  if (problem) return fail(*problem);
  if (!done) return fail(done.error());
  if (const auto& chosen = (*done)->chosen; chosen.modules.empty() && chosen.pruned.empty())
    return fail(error_kind::bad_input,
                fmt::format("'{}' does not need cleaning: its run neither prunes nor quantises weights",
                            formats::shown_place(*source)));
  if ((*done)->modules.empty())
    return fail(error_kind::bad_input, fmt::format("'{}': its run had not compressed anything at its step {}",
                                                   formats::shown_place(*source), source->run.steps.value_or(0)));
  TROUPE_ASSIGN(auto cut, checkpoint::cut_source(source, cuts_of(*done)));
  cleaned_source out{std::move(cut), source, *done, weights_in(*source), 0};
  out.elements = weights_in(out.now);
  out.now.run.masks.clear();
  auto config_left = without_permanent(source->run.config);
  if (!config_left) return fail(config_left.error().in(fmt::format("'{}'", formats::shown_place(*source))));
  out.now.run.config = std::move(*config_left);
  return out;
}

}  // namespace troupe::compression
