// Runs the checkpoint commands about adapters: `to-peft` writes the adapters of a run as a folder of PEFT, and the
// merging part of `merge-adapter` adds such a folder, or an adapter in a GGUF file, to its base model.
#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "apps/checkpoint/checkpoint_convert.hpp"
#include "apps/checkpoint/conversion.hpp"
#include "apps/checkpoint/described_checkpoint.hpp"
#include "core/text.hpp"
#include "families/all_families.hpp"
#include "formats/gguf/adapter.hpp"
#include "formats/names/name_map.hpp"
#include "formats/peft/merged_adapter.hpp"
#include "formats/source/source_reader.hpp"
#include "job/model/adapters.hpp"
#include "models/table/model_spec.hpp"
#include "storage/files/file_system.hpp"

namespace troupe::apps {
namespace {

namespace fs = std::filesystem;

struct peft_arguments : conversion_arguments {};  ///< arguments of to-peft

/// The run that wrote a checkpoint: the model with its adapters, and the folder of its base model.
struct adapted_run {
  models::model_spec spec;
  fs::path base;
};

core::result<adapted_run> adapted_run_of(const formats::tensor_source& s, const peft_arguments& a) {
  const auto run = own_configuration(s);
  if (!run || !run->lora.given)
    return core::refused(
        fmt::format("'{}' is no checkpoint of a run with adapters (section lora)", formats::shown_place(s)));
  TROUPE_ASSIGN(const auto model, describe_model(s, a.model_config, a.source.ignored_keys));
  if (model.json.empty()) return fail(no_description_of(s));
  TROUPE_ASSIGN(auto spec, models::parse_model_spec(model.json, model.ignored_keys));
  auto adapters = job::choose_adapters(run->lora, spec);
  if (!adapters)
    return fail(adapters.error().kind, fmt::format("the configuration of '{}': {}: {}", formats::shown_place(s),
                                                   adapters.error().key, adapters.error().text));
  spec.adapters = std::move(*adapters);
  return adapted_run{std::move(spec), run->model.path};
}

const formats::tensor_entry* weight_in(const formats::tensor_source& s, const std::string& name) {
  for (const auto kind : {formats::tensor_kind::master, formats::tensor_kind::frozen, formats::tensor_kind::weight})
    if (const auto* t = formats::find_tensor(s, name, kind)) return t;
  return nullptr;
}

/// Writes the adapters of a run's checkpoint as a folder of PEFT. Refused: a checkpoint of a run without adapters.
core::result<void> write_peft(const peft_arguments& a) {
  TROUPE_ASSIGN(const auto s, open_checkpoint_at(a.source));
  TROUPE_ASSIGN(const auto run, adapted_run_of(s, a));
  const auto table = models::make_model_table(run.spec, 1, 1, sizeof(float));
  const formats::name_map names(s);
  for (const auto& p : table.parameters) {
    if (!p.trainable) continue;
    const auto found = names.find(p.name);
    const auto* const t = found ? weight_in(s, *found) : nullptr;
    if (t == nullptr)
      return fail(error_kind::mismatch,
                  fmt::format("'{}': parameter '{}' is missing", formats::shown_place(s), p.name));
    if (t->shape != p.shape)
      return fail(error_kind::mismatch,
                  fmt::format("'{}': parameter '{}': wanted the shape {}, got {}", formats::shown_place(s), p.name,
                              core::shape_text(p.shape), core::shape_text(t->shape)));
  }
  conversion writing(a.source, a.output);
  const uint64_t bytes = job::adapter_bytes(table);
  TROUPE_TRY(writing.prepare(s, output_kind::folder, bytes + header_reserve_bytes));
  formats::source_reader reader(s);
  const auto read = [&](const std::string& name, uint64_t first, std::span<float> out) -> core::result<void> {
    return reader.read_as(core::dtype::f32, *weight_in(s, *names.find(name)), first, out.size(),
                          std::as_writable_bytes(out));
  };
  TROUPE_TRY(job::write_adapters(writing.place().working(), run.spec, run.base, read));
  TROUPE_TRY(writing.commit());
  const size_t layers = run.spec.adapters->layers.size();
  writing.say(fmt::format("adapters of {} layer{}, {}", layers, layers == 1 ? "" : "s", core::human_bytes(bytes)));
  return {};
}

std::vector<conversion_option> to_peft_options(peft_arguments& a) {
  std::vector<conversion_option> out;
  add_description_options(out, a.source, a.model_config);
  out.push_back(average_option(a.source));
  return out;
}

/// Returns a sentence if the adapter names a base that is another folder of this machine than `base`. Adapters that
/// name a base elsewhere, such as a hub's, say nothing about a folder.
std::optional<std::string> other_base_of(const formats::peft_adapter& adapter, const fs::path& base) {
  const fs::path named = adapter.options().base;
  std::error_code e;
  if (named.empty() || !fs::is_directory(named, e) || fs::equivalent(named, base, e) || e) return std::nullopt;
  return fmt::format("the base of the adapter '{}' is '{}', and it is added to '{}'", adapter.folder().string(),
                     named.string(), base.string());
}

}  // namespace

core::result<std::optional<std::string>> merge_adapter(const fs::path& adapter, described_checkpoint& base) {
  const auto* const family = families::find(base.model.model_type);
  if (storage::is_there(adapter) && !storage::is_folder(adapter)) {
    if (family == nullptr || family->gguf.architecture.empty())
      return core::refused(fmt::format("'{}': wanted a folder of PEFT for a base of model_type '{}', got a file",
                                       adapter.string(), core::shown(base.model.model_type)));
    TROUPE_ASSIGN(const auto spec, models::parse_model_spec(base.model.json, base.model.ignored_keys));
    TROUPE_ASSIGN(auto layers, formats::read_gguf_adapter(adapter, *family, spec.head_width));
    TROUPE_ASSIGN(base.source, formats::merged_with(std::move(base.source), std::move(layers),
                                                    family->layout == core::weight_layout::in_out));
    return std::nullopt;
  }
  TROUPE_ASSIGN(auto opened, formats::peft_adapter::open(adapter));
  auto other = other_base_of(*opened, base.source.folder);
  const bool is_in_out =
      family != nullptr ? family->layout == core::weight_layout::in_out : opened->options().is_in_out;
  TROUPE_ASSIGN(base.source, formats::merged_with(std::move(base.source), std::move(opened), is_in_out));
  return other;
}

constexpr written_format peft_output{.command = "to-peft",
                                     .help = "the adapters of a run (section lora) as a folder that peft loads",
                                     .out = "a folder",
                                     .begin = &typed_request<peft_arguments, to_peft_options, write_peft>::begin};

}  // namespace troupe::apps
