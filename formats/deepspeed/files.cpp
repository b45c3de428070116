#include "formats/deepspeed/files.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <system_error>
#include <tuple>

#include "core/number.hpp"
namespace troupe::formats {
namespace {

namespace fs = std::filesystem;

using core::refused;

/// Parses a file's name: each function removes an expected part from the name's front.
struct name_parser {
  std::string_view left;

  bool text(std::string_view wanted) {
    if (!left.starts_with(wanted)) return false;
    left.remove_prefix(wanted.size());
    return true;
  }
  bool number(uint32_t& out) {
    const auto read = core::take_number<uint32_t>(left);
    out = read.value_or(out);
    return read.has_value();
  }
};

enum class file_role : uint8_t { none, model, optimizer, layer, expert };

file_role role_of(std::string_view name, deepspeed_file& out) {
  if (!name.ends_with("_states.pt")) return file_role::none;
  if (name.starts_with("expert_") || name.starts_with("expp_rank_")) return file_role::expert;
  name_parser at{name};
  if (at.text("layer_")) {
    if (!at.number(out.layer)) return file_role::none;
    if (at.text("_expert_")) return file_role::expert;
    if (at.text("-model_states.pt")) return file_role::layer;
    const bool ranked = at.text("-model_") && at.number(out.mp);
    return ranked && (at.left == "-model_states.pt" || at.left == "_model_states.pt") ? file_role::layer
                                                                                      : file_role::none;
  }
  at.text("bf16_");
  if (at.text("zero_pp_rank_") && (!at.number(out.dp) || !at.text("_"))) return file_role::none;
  if (!at.text("mp_rank_") || !at.number(out.mp)) return file_role::none;
  if (at.left == "_model_states.pt") return file_role::model;
  return at.left == "_optim_states.pt" || at.left == "optim_states.pt" ? file_role::optimizer : file_role::none;
}

/// Checks the numbers in a file's name. Every rank has its own file, so a rank's number must be below the maximum
/// number of files. This also ensures that the number plus 1 does not overflow.
core::result<void> check_numbers(const deepspeed_file& f) {
  for (const uint32_t number : {f.layer, f.mp, f.dp})
    if (number >= max_deepspeed_files)
      return refused(fmt::format("'{}' has the rank or layer number {}, but at most {} are read", f.path.string(),
                                 number, max_deepspeed_files));
  return {};
}

/// Sorts the files by (layer, mp, dp); two files with the same numbers are an error.
core::result<void> put_in_order(std::vector<deepspeed_file>& files) {
  const auto key = [](const deepspeed_file& f) { return std::tuple(f.layer, f.mp, f.dp); };
  std::ranges::sort(files, {}, key);
  const auto twice = std::ranges::adjacent_find(files, {}, key);
  if (twice != files.end())
    return refused(
        fmt::format("'{}' and '{}' belong to the same rank", twice->path.string(), (twice + 1)->path.string()));
  return {};
}

/// Checks that every model-parallel rank has the same data-parallel ranks, from 0 without gaps.
core::result<void> check_ranks(const std::vector<deepspeed_file>& files) {
  uint32_t dp_ranks = 0;
  for (const auto& f : files) dp_ranks = std::max(dp_ranks, f.dp + 1);
  for (size_t i = 0; i < files.size(); ++i) {
    const auto mp = static_cast<uint32_t>(i / dp_ranks), dp = static_cast<uint32_t>(i % dp_ranks);
    if (files[i].mp != mp || files[i].dp != dp)
      return refused(fmt::format("'{}' exists, but the file of data-parallel rank {}, model-parallel rank {} does not",
                                 files[i].path.string(), dp, mp));
  }
  if (dp_ranks > 0 && files.size() % dp_ranks != 0)
    return refused(fmt::format("'{}' is the last of {} files, which is not a multiple of the {} data-parallel ranks",
                               files.back().path.string(), files.size(), dp_ranks));
  return {};
}

}  // namespace

bool holds_deepspeed_files(const fs::path& folder, size_t most) {
  std::error_code ec;
  size_t seen = 0;
  for (fs::directory_iterator at(folder, ec), end; !ec && at != end && seen < most; at.increment(ec), ++seen) {
    const auto name = at->path().filename().string();
    if (name.ends_with("_model_states.pt") || name.ends_with("-model_states.pt") || name.ends_with("optim_states.pt"))
      return true;
  }
  return false;
}

core::result<deepspeed_files> list_deepspeed_files(const fs::path& folder, model_file_names names) {
  deepspeed_files out;
  out.folder = folder;
  std::error_code ec;
  size_t seen = 0;
  for (fs::directory_iterator at(folder, ec), end; !ec && at != end; at.increment(ec)) {
    if (++seen > max_deepspeed_files)
      return fail(error_kind::limit,
                  fmt::format("'{}' holds more than {} files", folder.string(), max_deepspeed_files));
    const std::string name = at->path().filename().string();
    out.has_offloaded |= name == "offloaded_tensors";
    deepspeed_file file{at->path(), 0, 0, 0};
    const auto role = role_of(name, file);
    if (role != file_role::none) TROUPE_TRY(check_numbers(file));
    switch (role) {
      case file_role::model:
        out.model.push_back(std::move(file));
        break;
      case file_role::optimizer:
        out.optimizer.push_back(std::move(file));
        break;
      case file_role::layer:
        out.layers.push_back(std::move(file));
        break;
      case file_role::expert:
        return refused(fmt::format("'{}' belongs to experts (MoE), which are not supported", file.path.string()));
      case file_role::none:
        break;
    }
  }
  if (ec) return refused(fmt::format("cannot read the folder '{}': {}", folder.string(), ec.message()));
  if (out.model.empty())
    return refused(
        fmt::format("'{}' holds no '*_model_states.pt' and no 'latest': not a DeepSpeed checkpoint", folder.string()));
  const auto is_of_stage_3 = [](const deepspeed_file& f) {
    return !f.path.filename().string().starts_with("mp_rank_");
  };
  if (names == model_file_names::both && !std::ranges::all_of(out.model, is_of_stage_3))
    std::erase_if(out.model, is_of_stage_3);
  for (auto* files : {&out.model, &out.optimizer, &out.layers}) TROUPE_TRY(put_in_order(*files));
  for (const auto* files : {&out.model, &out.optimizer}) TROUPE_TRY(check_ranks(*files));
  return out;
}

}  // namespace troupe::formats
