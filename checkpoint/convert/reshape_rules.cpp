#include "checkpoint/convert/reshape_rules.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <set>

#include "core/json_text.hpp"
#include "formats/deepspeed/files.hpp"
#include "formats/torch/archive.hpp"

namespace troupe::checkpoint {
namespace {

/// Returns the patterns that the writer of a DeepSpeed folder published; nothing for all other sources.
core::result<std::optional<formats::universal_patterns>> published(const formats::tensor_source& of) {
  if (!of.format.starts_with("DeepSpeed")) return std::nullopt;
  const auto files = formats::list_deepspeed_files(of.folder);
  if (!files) return std::nullopt;  // the source has no folder with DeepSpeed's files, which publish the patterns
  TROUPE_ASSIGN(const auto model, formats::torch_archive::open(files->model.front().path));
  const auto info = model.tree().find(model.root(), "universal_checkpoint_info");
  if (!info || model.tree().kind(*info) != formats::pickle_kind::dict || model.tree().items(*info).empty())
    return std::nullopt;
  TROUPE_ASSIGN(auto patterns, formats::read_universal_patterns(model, *info));
  return std::optional(std::move(patterns));
}

/// Removes from published patterns the widths of slices, which apply only to the number of tensor-parallel ranks that
/// wrote the folder.
void forget_widths(formats::universal_patterns& p) {
  p.version = 0;
  p.shard_widths.clear();
}

core::result<formats::rule_chooser> by_patterns(formats::universal_patterns patterns,
                                                std::shared_ptr<const std::set<std::string, std::less<>>> buffers) {
  TROUPE_ASSIGN(auto rules, formats::pattern_rules::create(std::move(patterns)));
  auto shared = std::make_shared<formats::pattern_rules>(std::move(rules));
  return formats::rule_chooser([shared, buffers](std::string_view name) -> core::result<formats::cut_rule> {
    if (buffers->contains(name)) return formats::cut_rule{};
    auto rule = shared->rule(name);
    if (rule && rule->kind == formats::cut_kind::along) rule->uneven = formats::uneven_split::one_more_each;
    return rule;
  });
}

std::optional<double> version_in(const formats::tensor_source& of) {
  const auto client = core::parse_json(of.run.client_state);
  if (!client || !client->is_object()) return std::nullopt;
  const auto at = client->find("checkpoint_version");
  return at != client->end() && at->is_number() ? std::optional(at->get<double>()) : std::nullopt;
}

/// True if `cut` cuts over `ranks` ranks and each rank has elements: DeepSpeed's files have no parameters without
/// elements.
bool leaves_all_some(const core::parameter_cut& cut, uint32_t ranks) {
  if (!cut.cuts() || cut.parts[0].size() != ranks) return false;
  for (uint32_t r = 0; r < ranks; ++r)
    if (std::ranges::all_of(cut.parts, [&](const core::tp_widths& part) { return part[r] == 0; })) return false;
  return true;
}

formats::cut_rule along(size_t dimension, uint32_t parts = 1) {
  return {.kind = formats::cut_kind::along, .dimension = dimension, .sub_parameters = parts};
}

}  // namespace

std::optional<formats::cut_rule> hugging_face_rule(std::string_view name, const std::vector<int64_t>& shape) {
  const auto ends = [&](std::string_view end) {
    return name.ends_with(end) && (name.size() == end.size() || name[name.size() - end.size() - 1] == '.');
  };
  if (ends("attn.c_attn.weight")) return along(1, 3);
  if (ends("attn.c_attn.bias")) return along(0, 3);
  if (ends("mlp.c_fc.weight")) return along(1);
  if (ends("mlp.c_fc.bias") || ends("attn.c_proj.weight") || ends("mlp.c_proj.weight")) return along(0);
  for (const char* layer : {"q_proj", "k_proj", "v_proj", "gate_proj", "up_proj"})
    if (ends(fmt::format("{}.weight", layer)) || ends(fmt::format("{}.bias", layer))) return along(0);
  if (ends("o_proj.weight") || ends("down_proj.weight")) return along(1);
  for (const char* table : {"wte.weight", "embed_tokens.weight", "lm_head.weight"})
    if (ends(table) && !shape.empty()) {
      auto rule = along(0);
      rule.original_rows = shape[0];
      return rule;
    }
  return std::nullopt;
}

core::result<chosen_rules> choose_rules(const formats::tensor_source& of,
                                        const std::optional<formats::universal_patterns>& patterns,
                                        std::optional<double> version, own_cuts cuts) {
  chosen_rules out;
  auto buffers = std::make_shared<std::set<std::string, std::less<>>>();
  for (const auto& t : of.tensors) {
    if (t.kind == formats::tensor_kind::buffer) buffers->insert(t.name);
    out.are_megatrons = out.are_megatrons || formats::is_megatron_name(t.name);
  }
  TROUPE_ASSIGN(auto said,
                patterns ? core::result<std::optional<formats::universal_patterns>>(patterns) : published(of));
  if (said) {
    out.are_megatrons = false;
    forget_widths(*said);
    auto rules = by_patterns(std::move(*said), buffers);
    if (!rules) return fail(rules.error().in(fmt::format("'{}'", formats::shown_place(of))));
    out.rule = std::move(*rules);
    if (patterns || of.names_in_files.empty()) return out;
    // the published patterns refer to the names in the folder's files
    out.rule = [names = of.names_in_files, buffers, inner = std::move(out.rule)](std::string_view name) {
      if (buffers->contains(name)) return core::result<formats::cut_rule>(formats::cut_rule{});
      const auto at = names.find(name);
      return inner(at == names.end() ? name : std::string_view(at->second));
    };
    return out;
  }
  if (out.are_megatrons) {
    const auto chosen = formats::qkv_version_from(version ? *version : version_in(of).value_or(0));
    if (!chosen) return fail(chosen.error().in(fmt::format("'{}'", formats::shown_place(of))));
    out.version = *chosen;
    out.rule = [v = *chosen, buffers](std::string_view name) -> core::result<formats::cut_rule> {
      return buffers->contains(name) ? formats::cut_rule{} : formats::megatron_rule(name, v);
    };
    return out;
  }
  out.rule = [&of, buffers, cuts = std::move(cuts)](std::string_view name) -> core::result<formats::cut_rule> {
    if (buffers->contains(name)) return formats::cut_rule{};
    const auto at = std::lower_bound(of.tensors.begin(), of.tensors.end(), name,
                                     [](const formats::tensor_entry& t, std::string_view n) { return t.name < n; });
    if (at == of.tensors.end() || at->name != name) return formats::cut_rule{};
    const auto planned = cuts.by_name.find(name);
    for (const auto* cut : {&at->cut, planned != cuts.by_name.end() ? &planned->second : nullptr})
      if (cut != nullptr && leaves_all_some(*cut, cuts.ranks)) return formats::rule_of(*cut);
    return hugging_face_rule(name, at->shape).value_or(formats::cut_rule{});
  };
  return out;
}

}  // namespace troupe::checkpoint
