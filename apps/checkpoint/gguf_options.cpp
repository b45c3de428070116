// Collects the metadata of a GGUF file from a checkpoint, its model and its tokenizer.
#include "apps/checkpoint/gguf_keys.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "apps/checkpoint/output_mark.hpp"
#include "formats/gguf/source.hpp"
#include "models/table/model_spec.hpp"

namespace troupe::apps {
namespace {

using formats::gguf_metadata;
using formats::gguf_value;

/// Adds the scaling of rotary positions to `m`, which has its sizes; `gguf` is the family's row. Errors: a scaling that
/// GGUF files cannot express.
core::result<void> add_rope(const models::rotary_positions& rope, const families::gguf_row& gguf,
                            formats::gguf_model& m) {
  using enum models::rope_type;
  const auto refused = [](const std::string& what) {
    return fail(error_kind::bad_input,
                fmt::format("model key 'rope_scaling' has {}, which a GGUF file of this architecture cannot store: "
                            "export with to-hf instead",
                            what));
  };
  m.rope_theta = rope.theta;
  if ((rope.type == llama3 || rope.type == longrope) && !gguf.divides_frequencies)
    return refused("rope_type " + std::string(name_of(rope.type)));
  switch (rope.type) {
    case plain:
    case dynamic:  // equal to plain positions up to the model's length; a GGUF file cannot express more
      return {};
    case linear:
      m.rope_scaling = "linear";
      m.rope_factor = rope.factor;
      return {};
    case yarn: {
      models::rotary_positions usual{.theta = rope.theta, .type = yarn, .factor = rope.factor};
      usual.original_positions = rope.original_positions;
      const auto usual_scale = models::frequencies_of<double>(usual, m.head_width, m.positions).scale;
      usual.attention_factor = rope.attention_factor;
      usual.mscale = rope.mscale;
      usual.mscale_all_dim = rope.mscale_all_dim;
      if (text_of(usual) != text_of(rope))
        return refused("other bounds than rope_type yarn has by default (" + text_of(rope) + ")");
      m.rope_scaling = "yarn";
      m.rope_factor = rope.factor;
      m.rope_attention_factor = models::frequencies_of<double>(rope, m.head_width, m.positions).scale / usual_scale;
      m.rope_original_positions = rope.original_positions;
      return {};
    }
    case llama3: {
      const auto scaled = models::frequencies_of<double>(rope, m.rotary_width, m.positions);
      const auto before = models::frequencies_of<double>({.theta = rope.theta}, m.rotary_width, m.positions);
      for (size_t i = 0; i < scaled.angles.size(); ++i)
        m.rope_divisors.push_back(static_cast<float>(before.angles[i] / scaled.angles[i]));
      m.rope_original_positions = rope.original_positions;  // stored, because the divisors alone do not determine it
      return {};
    }
    case longrope:
      m.rope_scaling = "longrope";
      m.rope_attention_factor = models::frequencies_of<double>(rope, m.rotary_width, m.positions).scale;
      m.rope_original_positions = rope.original_positions;
      for (const double factor : rope.short_factors) m.rope_short_divisors.push_back(static_cast<float>(factor));
      for (const double factor : rope.long_factors) m.rope_long_divisors.push_back(static_cast<float>(factor));
      return {};
  }
  return {};
}

/// Adds to `m` the numbers of the model that GGUF files of its architecture store. Errors: the model has a number that
/// these files cannot store and that changes what is computed.
core::result<void> add_numbers(const models::model_spec& spec, formats::gguf_model& m) {
  struct model_number {
    families::number_key families::config_keys::*key = nullptr;
    double value = 0, plain = 0;
  };
  const models::attention_options scores = spec.attention_in(0);
  // The factor by which llama.cpp multiplies attention scores if the file states none.
  const double usual_scale =
      1 / std::sqrt(spec.layers == spec.family->gguf.wide_blocks ? spec.width / spec.heads : spec.head_width);
  const bool is_usual = scores.scale == 0 || std::abs(scores.scale / usual_scale - 1) < 1e-9;
  // A family states the factor of attention scores by one of two keys: the factor itself, or a width, which is 1 /
  // factor^2.
  const bool has_width = !spec.family->keys.score_width.name.empty();
  using keys = families::config_keys;
  const model_number all[] = {
      {&keys::embedding_scale, spec.family->embedding_grows_with_width ? 1 : spec.embedding_scale, 1},
      {&keys::residual_scale, spec.residual_scale, 1},
      {&keys::attention_scale, has_width ? 0 : scores.scale, 0},
      {&keys::score_width, is_usual || !has_width ? 0 : 1 / (scores.scale * scores.scale), 0},
      {&keys::attention_soft_cap, scores.soft_cap, 0},
      {&keys::logit_divisor, spec.logits.divisor, 1},
      {&keys::logit_soft_cap, spec.logits.soft_cap, 0},
  };
  for (const model_number& n : all) {
    const auto stored = std::ranges::find(spec.family->gguf.numbers, n.key, &families::gguf_number::ours);
    const bool is_stored = stored != spec.family->gguf.numbers.end();
    if (is_stored && (n.value != 0 || stored->absent <= 0))
      m.numbers.emplace_back(std::string(stored->theirs), n.value);
    else if (is_stored || n.value != n.plain)
      return fail(error_kind::bad_input,
                  fmt::format("model key '{}' is {}, which a GGUF file of architecture {} cannot store: export with "
                              "to-hf instead",
                              (spec.family->keys.*n.key).name,
                              n.value == 0 ? "null" : fmt::format("{}", static_cast<float>(n.value)), m.architecture));
  }
  return {};
}

/// Refuses factors of attention scores, and windows of attention and rotary positions of some layers, that llama.cpp
/// does not compute for files of the architecture.
core::result<void> check_layers(const models::model_spec& spec) {
  const auto& keys = spec.family->keys;
  const auto refused = [&](std::string_view key) {
    return fail(error_kind::bad_input,
                fmt::format("model key '{}' differs from that of every GGUF file of architecture {}: export with to-hf "
                            "instead",
                            key, spec.family->gguf.architecture));
  };
  if (spec.scales_scores != keys.scales_scores.usual) return refused(keys.scales_scores.name);
  if (spec.scales_by_layer != keys.scales_by_layer.usual) return refused(keys.scales_by_layer.name);
  const uint32_t every = keys.full_every.usual;
  for (uint32_t b = 0; spec.family->gguf.stores_window && b < spec.layers; ++b)
    if ((spec.attention_in(b).window > 0) != ((b + 1) % every != 0)) return refused("layer_types");
  for (uint32_t b = 0; !keys.rotated_layers.empty() && b < spec.layers; ++b)
    if ((spec.rotation_in(b) == models::rotation::none) != ((b + 1) % keys.unrotated_every.usual == 0))
      return refused(keys.rotated_layers);
  if (!keys.local_rotary_base.name.empty() &&
      spec.local_rope != models::rotary_positions{.theta = keys.local_rotary_base.usual})
    return refused(keys.local_rotary_base.name);
  return {};
}

/// Refuses models with a part that llama.cpp does not load in files of the architecture, or without one that it
/// requires.
core::result<void> check_parts(const models::model_spec& spec) {
  using enum families::gguf_part;
  const auto& keys = spec.family->keys;
  const auto& gguf = spec.family->gguf;
  struct model_part {
    families::gguf_part loaded;
    bool is_there;
    std::string_view key;
    bool value;
  };
  const model_part all[] = {{gguf.own_head, !spec.tied, keys.tied.name, spec.tied},
                            {gguf.attention_biases, spec.attention_bias, keys.attention_bias.name, spec.attention_bias},
                            {gguf.mlp_biases, spec.mlp_bias, keys.mlp_bias.name, spec.mlp_bias}};
  for (const model_part& part : all)
    if (part.loaded == (part.is_there ? unknown : required))
      return fail(error_kind::bad_input,
                  fmt::format("model key '{}' is {}, and llama.cpp loads no such GGUF file of architecture {}: export "
                              "with to-hf instead",
                              part.key, part.value, gguf.architecture));
  return {};
}

core::result<formats::gguf_model> gguf_model_of(const models::model_spec& spec) {
  const auto& gguf = spec.family->gguf;
  if (gguf.architecture.empty())
    return fail(error_kind::bad_input,
                fmt::format("model_type '{}': GGUF files of this family are not written; export with to-hf instead",
                            spec.family->model_type));
  const uint64_t window = spec.shortest_window();
  if (models::activation_named(gguf.activation) != spec.act)
    return fail(error_kind::bad_input,
                fmt::format("model key '{}' must be {} for a GGUF file, which cannot store another",
                            spec.family->keys.activation, gguf.activation));
  formats::gguf_model out{
      .architecture = std::string(gguf.architecture),
      .blocks = spec.layers,
      .width = spec.width,
      .inner = spec.inner,
      .heads = spec.heads,
      .kv_heads = spec.kv_heads,
      .head_width = spec.head_width,
      // If the file cannot store the window, limits the number of positions to it: in shorter texts the window has no
      // effect.
      .positions = window > 0 ? static_cast<uint32_t>(std::min<uint64_t>(window, spec.positions)) : spec.positions,
      .vocabulary = spec.vocabulary,
      .norm_epsilon = spec.norm_epsilon,
      .tied = spec.tied,
      .attention_bias = spec.attention_bias,
      .mlp_bias = spec.mlp_bias};
  TROUPE_TRY(check_layers(spec));
  TROUPE_TRY(check_parts(spec));
  TROUPE_TRY(add_numbers(spec, out));
  out.rotary_width = spec.rotary_width;
  if (!spec.family->keys.parallel_residual.name.empty()) out.parallel_residual = spec.parallel_residual;
  if (gguf.stores_window) {
    out.positions = spec.positions;
    out.window = static_cast<uint32_t>(window);
  }
  if (spec.family->is_rotary()) TROUPE_TRY(add_rope(spec.rope, gguf, out));
  // llama.cpp applies the attention factor in all layers, but the model applies it only in layers without a window.
  if (!spec.family->keys.local_rotary_base.name.empty() && std::abs(out.rope_attention_factor - 1) > 1e-9)
    return fail(error_kind::bad_input,
                fmt::format("the model's yarn has another attention factor than its factor gives, which a GGUF file of "
                            "architecture {} cannot store for layers without a window alone: export with to-hf instead",
                            gguf.architecture));
  return out;
}

/// Returns the metadata that describe the model to people: name, makers and licence from a source that is a GGUF file,
/// else the name of the source's folder.
core::result<gguf_metadata> about(const formats::tensor_source& s) {
  TROUPE_ASSIGN(const auto before, formats::gguf_metadata_of(s));
  gguf_metadata out;
  for (const char* key : {"general.name", "general.author", "general.organization", "general.license",
                          "general.license.link", "general.url", "general.description", "general.languages"})
    if (const auto* value = before.find(key)) out.set(key, *value);
  if (out.entries.empty() && s.folder.has_filename())
    out.set("general.name", gguf_value::of(s.folder.filename().string()));
  out.set(std::string(gguf_mark_key), gguf_mark());
  return out;
}

}  // namespace

core::result<checkpoint::gguf_export_options> gguf_options_of(const source_arguments& a,
                                                              const described_checkpoint& from,
                                                              const formats::gguf_mixture& type,
                                                              const std::string& tokenizer) {
  const auto& s = from.source;
  TROUPE_TRY(check_described(from));
  note_foreign_buffers(a, from);
  TROUPE_ASSIGN(const auto spec, models::parse_model_spec(from.model.json, from.model.ignored_keys));
  TROUPE_ASSIGN(const auto model, gguf_model_of(spec));
  TROUPE_ASSIGN(auto more, about(s));
  TROUPE_ASSIGN(const auto vocabulary, gguf_vocabulary(a, s, tokenizer, model.vocabulary));
  for (const auto& [key, value] : vocabulary.entries) more.set(key, value);
  return checkpoint::gguf_export_options{.out = {}, .type = type, .model = model, .more = std::move(more)};
}

}  // namespace troupe::apps
