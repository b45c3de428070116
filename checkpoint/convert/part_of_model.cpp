#include "checkpoint/convert/part_of_model.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include "core/text.hpp"
#include "formats/source/tensor_source.hpp"
#include "storage/files/file_system.hpp"

namespace troupe::checkpoint {
namespace {

namespace fs = std::filesystem;

/// Endings of the names of parts, with `#` for a number: shards of Hugging Face's folders, Llama's shards of tensor
/// ranks, and what DeepSpeed saves for each rank or layer.
constexpr std::array<std::string_view, 6> endings_of_parts{
    "-#-of-#.safetensors",     "-#-of-#.bin",
    "consolidated.#.pth",      "mp_rank_#_model_states.pt",
    "layer_#-model_states.pt", "layer_#-model_#-model_states.pt"};
constexpr std::string_view file_of_megatron = "model_optim_rng.pt", folder_of_megatron = "mp_rank_#";

/// Returns a name with `#` in place of each number.
std::string form_of(std::string_view name) {
  std::string out;
  for (const char c : name) {
    const bool is_digit = c >= '0' && c <= '9';
    if (!is_digit)
      out += c;
    else if (!out.ends_with('#'))
      out += '#';
  }
  return out;
}

/// Returns the other names in the folder of `path` that differ from its name in their numbers only, sorted.
std::vector<std::string> others_like(const fs::path& path) {
  const auto own = path.filename().string(), form = form_of(own);
  return storage::names_in(path.parent_path(),
                           [&](std::string_view name) { return name != own && form_of(name) == form; });
}

}  // namespace

std::optional<std::string> part_of_model(const fs::path& file) {
  std::error_code ec;
  auto path = fs::absolute(file, ec);
  if (ec) return std::nullopt;
  if (path.filename() == file_of_megatron &&
      form_of(path.parent_path().filename().string()).starts_with(folder_of_megatron))
    path = path.parent_path();
  else if (const auto form = form_of(path.filename().string());
           std::ranges::none_of(endings_of_parts, [&](std::string_view end) { return form.ends_with(end); }))
    return std::nullopt;
  const auto others = others_like(path);
  if (others.empty()) return std::nullopt;
  return fmt::format("{}'{}'{} next to it: this file has only a part of a model", formats::left_out_mark,
                     core::shown(others.front()),
                     others.size() == 1 ? "" : fmt::format(" and {} more", others.size() - 1));
}

}  // namespace troupe::checkpoint
