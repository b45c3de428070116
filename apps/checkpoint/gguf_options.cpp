// Collects the metadata of a GGUF file from a checkpoint, its model and its tokenizer.
#include "apps/checkpoint/gguf_keys.hpp"

#include <fmt/format.h>

#include "apps/checkpoint/output_mark.hpp"
#include "formats/gguf/source.hpp"
#include "models/table/model_spec.hpp"

namespace troupe::apps {
namespace {

using formats::gguf_metadata;
using formats::gguf_value;

core::result<formats::gguf_model> gguf_model_of(const models::model_spec& spec) {
  const auto& gguf = spec.family->gguf;
  if (models::activation_named(gguf.activation) != spec.act)
    return fail(error_kind::bad_input,
                fmt::format("model key '{}' must be {} for a GGUF file, which cannot store another",
                            spec.family->keys.activation, gguf.activation));
  return formats::gguf_model{.architecture = std::string(gguf.architecture),
                             .blocks = spec.layers,
                             .width = spec.width,
                             .inner = spec.inner,
                             .heads = spec.heads,
                             .kv_heads = spec.kv_heads,
                             .head_width = spec.head_width,
                             .positions = spec.positions,
                             .vocabulary = spec.vocabulary,
                             .norm_epsilon = spec.norm_epsilon,
                             .rope_theta = spec.rope_theta,
                             .tied = spec.tied,
                             .attention_bias = spec.attention_bias,
                             .mlp_bias = spec.mlp_bias};
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

core::result<checkpoint::gguf_export_options> gguf_options_of(const described_checkpoint& from,
                                                              const formats::gguf_mixture& type,
                                                              const std::string& tokenizer) {
  const auto& s = from.source;
  TROUPE_TRY(check_described(from));
  TROUPE_ASSIGN(const auto spec, models::parse_model_spec(from.model.json, from.model.ignored_keys));
  TROUPE_ASSIGN(const auto model, gguf_model_of(spec));
  TROUPE_ASSIGN(auto more, about(s));
  TROUPE_ASSIGN(const auto vocabulary, gguf_vocabulary(s, tokenizer, model.vocabulary));
  for (const auto& [key, value] : vocabulary.entries) more.set(key, value);
  return checkpoint::gguf_export_options{.out = {}, .type = type, .model = model, .more = std::move(more)};
}

}  // namespace troupe::apps
