#include "formats/names/wrapper_names.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "core/text.hpp"
#include "formats/names/layer_names.hpp"
#include "storage/files/file_system.hpp"

namespace troupe::formats {
namespace {

/// Names of the attributes in which wrappers of modules store the wrapped module.
constexpr std::array<std::string_view, 6> wrapper_parts{
    "_orig_mod", "_fsdp_wrapped_module", "_fpw_module", "_checkpoint_wrapped_module", "_forward_module", "module"};

const std::string_view* wrapper_in(std::string_view part) {
  const auto* at = std::ranges::find(wrapper_parts, part);
  return at == wrapper_parts.end() ? nullptr : at;
}

/// Returns the name without the parts in wrapper_parts, and adds the removed parts to `seen` unless that is null.
std::string stripped(std::string_view name, std::set<std::string_view>* seen) {
  std::string out;
  while (true) {
    const auto dot = name.find('.');
    if (dot == name.npos) return out.append(name);
    const auto* part = wrapper_in(name.substr(0, dot));
    if (part != nullptr && seen != nullptr) seen->insert(*part);
    if (part == nullptr) out.append(name.substr(0, dot + 1));
    name.remove_prefix(dot + 1);
  }
}

/// True if no two names of tensors or tied names of the source become equal without the parts that wrappers add.
bool stays_apart(const tensor_source& s) {
  std::set<std::string, std::less<>> before, after;
  const auto add = [&](const std::string& name) {
    return !before.insert(name).second || after.insert(without_wrappers(name)).second;
  };
  return std::ranges::all_of(s.tensors, [&](const auto& t) { return add(t.name); }) &&
         std::ranges::all_of(s.tied, [&](const auto& t) { return add(t.name); });
}

constexpr std::string_view peft_begin = "base_model.model.";
/// Parts of names under which PEFT stores the modules that it wraps.
constexpr std::array<std::string_view, 3> peft_parts{"base_layer", "original_module", "modules_to_save"};
/// Beginnings of the name parts of tensors that belong to an adapter: LoRA, (IA)3, LoHa, LoKr, OFT, BOFT, VeRA,
/// VB-LoRA, FourierFT.
constexpr std::array<std::string_view, 9> adapter_parts{"lora_", "ia3_l",        "hada_w",  "lokr_w",    "oft_",
                                                        "boft_", "vera_lambda_", "vblora_", "fourierft_"};

/// Returns the text of `name` before its first part for which `fits` returns true; nothing if there is no such part.
template <class Fits>
std::optional<std::string_view> before_part(std::string_view name, const Fits& fits) {
  for (size_t begin = 0; begin < name.size();) {
    const size_t end = std::min(name.find('.', begin), name.size());
    if (fits(name.substr(begin, end - begin))) return name.substr(0, begin);
    begin = end + 1;
  }
  return std::nullopt;
}

bool is_peft_part(std::string_view part) { return std::ranges::find(peft_parts, part) != peft_parts.end(); }
bool is_adapter_part(std::string_view part) {
  return std::ranges::any_of(adapter_parts, [&](std::string_view begin) { return part.starts_with(begin); });
}

}  // namespace

std::string without_wrappers(std::string_view name) { return stripped(name, nullptr); }

core::result<tensor_source> unwrapped(tensor_source s) {
  std::set<std::string_view> seen;
  for (const auto& t : s.tensors) stripped(t.name, &seen);
  for (const auto& t : s.tied) stripped(t.name, &seen);
  if (!seen.empty() && stays_apart(s)) {
    for (auto& t : s.unread) t.name = without_wrappers(t.name);
    TROUPE_ASSIGN(s, renamed(std::move(s), [](const std::string& name) { return without_wrappers(name); }));
    s.remarks.push_back(
        fmt::format("removed from the names: {}, which wrappers of modules add", fmt::join(seen, ", ")));
  }
  if (const auto found = peft_finding(s)) s.remarks.push_back("it " + *found);
  return s;
}

bool is_peft_name(std::string_view name) {
  const auto plain = without_wrappers(name);
  return plain.starts_with(peft_begin) || before_part(plain, is_peft_part) || before_part(plain, is_adapter_part);
}

std::optional<std::string> peft_finding(const std::vector<std::string_view>& names) {
  const auto first = std::ranges::find_if(names, is_peft_name);
  if (first == names.end()) return std::nullopt;
  // A file with only an adapter does not contain the weights of the modules that the adapter changes.
  const std::set<std::string_view> all(names.begin(), names.end());
  bool is_adapter = false;
  for (const auto name : names) {
    const auto module = before_part(name, is_adapter_part);
    if (!module) continue;
    const std::string before(*module);
    is_adapter = !all.contains(before + "weight") && !all.contains(before + "base_layer.weight");
    if (!is_adapter) break;
  }
  if (is_adapter)
    return fmt::format(
        "holds a PEFT adapter, not a whole model, with tensors such as '{}': merge it into its base model first {}",
        core::shown(*first), merge_by);
  return fmt::format(
      "holds adapters beside weights, with tensors such as '{}': merge them into these first (peft's "
      "merge_and_unload() and save_pretrained(); for a run of Troupe, `troupe checkpoint to-peft` and merge-adapter)",
      core::shown(*first));
}

std::optional<std::string> peft_finding(const tensor_source& s) {
  std::vector<std::string_view> names;
  for (const auto& t : s.tensors)
    if (t.kind != tensor_kind::moment) names.emplace_back(t.name);
  for (const auto& t : s.tied) names.emplace_back(t.name);
  return peft_finding(names);
}

std::string adapter_weights_in(const std::filesystem::path& folder) {
  for (const char* name : {"adapter_model.safetensors", "adapter_model.bin"})
    if (storage::is_there(folder / name)) return name;
  return {};
}

std::optional<std::string> unused_adapter_in(const std::filesystem::path& folder) {
  const auto weights = folder.empty() ? std::string() : adapter_weights_in(folder);
  if (weights.empty() || !storage::is_there(folder / adapter_config_name)) return std::nullopt;
  return fmt::format(
      "'{}', a PEFT adapter, which transformers applies to the weights next to it where peft is "
      "installed: it is not used here; merge it into them first {} to use it",
      weights, merge_by);
}

}  // namespace troupe::formats
