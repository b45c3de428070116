#include "formats/names/peft_names.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

#include "core/text.hpp"
#include "formats/names/wrapper_names.hpp"
#include "storage/files/file_system.hpp"

namespace troupe::formats {
namespace {

constexpr std::string_view wrapped_begin = "base_model.model.";
/// Parts of names under which PEFT stores the modules that it wraps.
constexpr std::array<std::string_view, 3> wrapped_parts{"base_layer", "original_module", "modules_to_save"};
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

bool is_wrapped_part(std::string_view part) { return std::ranges::find(wrapped_parts, part) != wrapped_parts.end(); }
bool is_adapter_part(std::string_view part) {
  return std::ranges::any_of(adapter_parts, [&](std::string_view begin) { return part.starts_with(begin); });
}

}  // namespace

bool is_peft_name(std::string_view name) {
  const auto plain = without_wrappers(name);
  return plain.starts_with(wrapped_begin) || before_part(plain, is_wrapped_part) || before_part(plain, is_adapter_part);
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
  return fmt::format("holds a model wrapped by PEFT, with tensors such as '{}': merge its adapter into it first {}",
                     core::shown(*first), merge_by);
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
