// `troupe checkpoint to-gguf`: what the checkpoint, its model and its tokenizer say becomes one file for llama.cpp.
#include <fmt/format.h>

#include <filesystem>

#include "apps/checkpoint_convert.hpp"
#include "apps/conversion.hpp"
#include "apps/gguf_vocabulary.hpp"
#include "apps/model_description.hpp"
#include "apps/output_mark.hpp"
#include "apps/stop_request.hpp"
#include "checkpoint/convert/gguf_export.hpp"
#include "checkpoint/gguf/source.hpp"
#include "core/text.hpp"
#include "models/table/model_spec.hpp"

namespace troupe::apps {
namespace {

using checkpoint::gguf_metadata;
using checkpoint::gguf_value;
using core::error_kind;
using core::fail;

core::result<checkpoint::gguf_model> gguf_model_of(const models::model_spec& spec) {
  const bool llama = spec.kind == models::family::llama;
  // What llama.cpp computes for these architectures, whatever a file says.
  const auto wanted = llama ? models::activation::silu : models::activation::gelu_tanh;
  if (spec.act != wanted)
    return fail(error_kind::bad_input,
                fmt::format("model key '{}' wants {} for a GGUF file, which cannot say another",
                            llama ? "hidden_act" : "activation_function", llama ? "silu" : "gelu_new"));
  return checkpoint::gguf_model{.architecture = llama ? "llama" : "gpt2",
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
                                .rope_scaling = {},
                                .tied = spec.tied,
                                .attention_bias = spec.attention_bias,
                                .mlp_bias = spec.mlp_bias};
}

/// A name for people; what another GGUF file says of its model's name, makers and licence stays.
core::result<gguf_metadata> about(const checkpoint::tensor_source& s) {
  const auto before = checkpoint::gguf_metadata_of(s);
  if (!before) return fail(before.error());
  gguf_metadata out;
  for (const char* key : {"general.name", "general.author", "general.organization", "general.license",
                          "general.license.link", "general.url", "general.description", "general.languages"})
    if (const auto* value = before->find(key)) out.set(key, *value);
  if (out.entries.empty() && s.folder.has_filename())
    out.set("general.name", gguf_value::of(s.folder.filename().string()));
  out.set(std::string(gguf_mark_key), gguf_mark());
  return out;
}

void say_written(const conversion& writing, const checkpoint::gguf_export_report& r) {
  std::string line = fmt::format("{} tensors, {}", r.tensors, core::human_bytes(static_cast<double>(r.bytes)));
  if (r.quantised_elements > 0)
    line += fmt::format(", {:.2f} bits a quantised weight",
                        8.0 * static_cast<double>(r.quantised_bytes) / static_cast<double>(r.quantised_elements));
  for (const auto& [type, count] : r.other_types)
    line += fmt::format(", {} of rows that are no whole blocks as {}", count, type);
  writing.say(line);
}

core::result<void> write_gguf(const gguf_arguments& a) {
  const auto type = checkpoint::mixture_from(a.type);
  if (!type)
    return fail(error_kind::bad_input,
                fmt::format("--type: wanted one of {}, got '{}'", checkpoint::mixture_names(), core::shown(a.type)));
  const auto opened = open_described(a.source, a.model_config);
  if (!opened) return fail(opened.error());
  const auto& s = opened->source;
  if (opened->model.json.empty())
    return fail(
        error_kind::bad_input,
        fmt::format("'{}' does not say which model it is of: wanted Hugging Face's config.json by --model-config",
                    s.folder.string()));
  if (auto ok = check_names(*opened); !ok) return ok;
  const auto spec = models::parse_model_spec(opened->model.json);
  if (!spec) return fail(spec.error());
  const auto model = gguf_model_of(*spec);
  if (!model) return fail(model.error());
  auto more = about(s);
  if (!more) return fail(more.error());
  const auto vocabulary = gguf_vocabulary(s, a.tokenizer, model->vocabulary);
  if (!vocabulary) return fail(vocabulary.error());
  for (const auto& [key, value] : vocabulary->entries) more->set(key, value);
  conversion writing(a.source, a.output);
  checkpoint::gguf_export_options options{
      .out = {}, .type = *type, .model = *model, .more = std::move(*more), .progress = writing.progress()};
  const auto needed = checkpoint::gguf_bytes(s, options);
  if (!needed) return fail(needed.error());
  if (auto ok = writing.prepare(s, output_kind::file, *needed); !ok) return ok;
  options.out = writing.place().working();
  const auto report = checkpoint::export_gguf(s, options);
  if (!report) return fail(report.error());
  if (auto ok = writing.commit(); !ok) return ok;
  say_written(writing, *report);
  return {};
}

}  // namespace

int to_gguf(const gguf_arguments& a) {
  const stop_request stop;
  return ended(write_gguf(a));
}

}  // namespace troupe::apps
