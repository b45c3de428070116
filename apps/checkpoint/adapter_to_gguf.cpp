#include "apps/checkpoint/adapter_to_gguf.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "apps/base/idle_options.hpp"
#include "apps/checkpoint/conversion.hpp"
#include "apps/checkpoint/model_description.hpp"
#include "apps/checkpoint/output_mark.hpp"
#include "checkpoint/convert/folder_contents.hpp"
#include "core/text.hpp"
#include "formats/gguf/adapter.hpp"
#include "formats/gguf/mixture.hpp"
#include "formats/names/wrapper_names.hpp"
#include "formats/peft/merged_adapter.hpp"
#include "models/table/model_spec.hpp"
#include "storage/files/file_system.hpp"

namespace troupe::apps {
namespace {

namespace fs = std::filesystem;

/// Returns the description of the adapter's base model: `a.model_config`, or the config.json in the folder that the
/// adapter names.
core::result<models::model_spec> base_spec_of(const formats::peft_adapter& adapter, const conversion_arguments& a) {
  const fs::path named = adapter.options().base;
  fs::path file = a.model_config;
  if (file.empty() && !named.empty() && storage::is_there(named / "config.json")) file = named / "config.json";
  if (file.empty())
    return core::refused(fmt::format(
        "'{}': its base model{} is not described here: give the base's config.json by "
        "--model-config",
        adapter.folder().string(), named.empty() ? "" : fmt::format(", '{}',", core::shown(named.string()))));
  formats::tensor_source none;
  none.folder = adapter.folder();
  TROUPE_ASSIGN(const auto model, describe_model(none, file, a.source.ignored_keys));
  return models::parse_model_spec(model.json, model.ignored_keys);
}

/// Refuses layers of the adapter that the base does not have, or that have another width there.
core::result<void> check_layers_of(const formats::low_rank_adapter& adapter, const models::model_spec& spec) {
  const auto table = models::make_model_table(spec, 1, 1, sizeof(float));
  for (const formats::low_rank_layer& layer : adapter.layers) {
    const auto wrong = [&](const std::string& what) {
      return fail(error_kind::mismatch,
                  fmt::format("'{}': layer '{}' {}", adapter.place.string(), core::shown(layer.name), what));
    };
    const auto at = std::ranges::find(table.layers, layer.name, &core::layer_info::name);
    if (at == table.layers.end() || at->kind != core::layer_kind::linear)
      return wrong("is no linear layer of the base model");
    if (at->in != layer.in || at->out != layer.out)
      return wrong(fmt::format("has {} inputs and {} outputs, and {} and {} in the base model", layer.in, layer.out,
                               at->in, at->out));
  }
  return {};
}

/// Returns the type of the matrices that `--type` names.
core::result<formats::gguf_type> matrix_type(const std::string& text) {
  if (text.empty()) return formats::gguf_type::f32;
  const auto named = formats::mixture_from(text);
  using enum formats::gguf_type;
  if (named && !named->medium && (named->type == f32 || named->type == f16 || named->type == bf16)) return named->type;
  return core::refused(fmt::format("--type: wanted f32, f16 or bf16 for an adapter, got '{}'", core::shown(text)));
}

}  // namespace

bool holds_adapter_alone(const fs::path& path) {
  return storage::is_folder(path) && !formats::adapter_weights_in(path).empty() && !checkpoint::look_into(path);
}

core::result<void> write_adapter_gguf(const conversion_arguments& a, const std::string& type) {
  TROUPE_TRY(refuse_idle(a.given,
                         {{false,
                           "checkpoints of whole models, not an adapter",
                           {"--tokenizer", "--allow-overflow", "--tag", "--map", "--fallback-to-previous", "--ema"}}}));
  TROUPE_ASSIGN(const auto stored, matrix_type(type));
  TROUPE_ASSIGN(const auto adapter, formats::peft_adapter::open(a.source.path));
  if (!adapter->parameters().empty())
    return core::refused(
        fmt::format("'{}': parameter '{}' (modules_to_save): an adapter in GGUF has low-rank matrices "
                    "alone; merge it into its base model instead, by `troupe checkpoint merge-adapter`",
                    adapter->folder().string(), core::shown(adapter->parameters().front().name)));
  TROUPE_ASSIGN(const auto spec, base_spec_of(*adapter, a));
  if (spec.family->gguf.architecture.empty())
    return core::refused(
        fmt::format("model_type '{}': GGUF files of this family are not written", spec.family->model_type));
  TROUPE_ASSIGN(const auto layers, formats::matrices_of(*adapter));
  TROUPE_TRY(check_layers_of(layers, spec));

  const auto& options = adapter->options();
  const auto rank = static_cast<double>(options.rank);
  formats::gguf_adapter_options how{
      .alpha = options.by_root ? options.alpha * std::sqrt(rank) : options.alpha, .type = stored, .more = {}};
  if (const auto name = adapter->folder().filename(); !name.empty())
    how.more.set("general.name", formats::gguf_value::of(name.string()));
  how.more.set(std::string(gguf_mark_key), gguf_mark());

  formats::tensor_source from;
  from.format = "PEFT";
  from.folder = adapter->folder();
  from.files.push_back({.path = adapter->file().path(), .bytes = adapter->file().file_bytes()});
  uint64_t elements = 0;
  for (const auto& layer : layers.layers) elements += layer.a.size() + layer.b.size();
  conversion writing(a.source, a.output);
  TROUPE_TRY(writing.prepare(from, output_kind::file, elements * formats::block_bytes(stored) + header_reserve_bytes));
  TROUPE_ASSIGN(const auto bytes,
                formats::write_gguf_adapter(writing.place().working(), layers, *spec.family, spec.head_width, how));
  TROUPE_TRY(writing.commit());
  writing.say(fmt::format("adapters of {} layer{}, {}", layers.layers.size(), layers.layers.size() == 1 ? "" : "s",
                          core::human_bytes(static_cast<double>(bytes))));
  return {};
}

}  // namespace troupe::apps
