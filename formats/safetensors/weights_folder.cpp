// Finds tensors in the shards of a folder; writes shards under working names and renames them when all are written.
#include "formats/safetensors/weights_folder.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <system_error>
#include <utility>

#include "core/system_error.hpp"
#include "formats/safetensors/weights_index.hpp"

namespace troupe::formats {

namespace fs = std::filesystem;

core::result<weights_folder> weights_folder::open(const fs::path& path) {
  std::error_code ec;
  weights_folder out;
  const bool is_index = !fs::is_directory(path, ec) && is_index_name(path);
  const fs::path single = fs::is_directory(path, ec) ? path / single_file_name : path;
  const fs::path index =
      is_index ? path
               : find_weights_index(path, index_file_name, safetensors_index_infix).value_or(path / index_file_name);
  const fs::path folder = is_index ? path.parent_path() : path;
  if (!is_index && (single == path || fs::exists(single, ec) || !fs::exists(index, ec))) {
    if (single != path && !fs::exists(single, ec))
      return fail(error_kind::bad_input,
                  fmt::format("'{}' holds neither {} nor {}", path.string(), single_file_name, index_file_name));
    TROUPE_ASSIGN(auto file, safetensors_file::open(single));
    out.shards_.push_back(std::move(file));
    TROUPE_TRY(out.index_names({}));
    return out;
  }

  TROUPE_ASSIGN(auto weights, read_weights_index(index));
  std::map<std::string, uint32_t> shard_of;
  std::vector<std::pair<std::string, uint32_t>> wanted;
  for (auto& [tensor, file] : weights) {
    const auto [it, added] = shard_of.try_emplace(file, static_cast<uint32_t>(shard_of.size()));
    if (added) {
      if (shard_of.size() > max_shards)
        return fail(error_kind::limit, fmt::format("'{}' names more than {} files", index.string(), max_shards));
      auto where = indexed_file(folder, file);
      if (!where) return fail(where.error().in(fmt::format("'{}'", index.string())));
      TROUPE_ASSIGN(auto shard, safetensors_file::open(*where));
      out.shards_.push_back(std::move(shard));
    }
    if (out.shards_[it->second].find(tensor) == nullptr)
      return fail(error_kind::bad_input, fmt::format("'{}' lists tensor '{}' in '{}', which does not contain it",
                                                     index.string(), shown(tensor), shown(file)));
    wanted.emplace_back(std::move(tensor), it->second);
  }
  if (auto ok = out.index_names(wanted); !ok) return fail(ok.error().in(fmt::format("'{}'", index.string())));
  return out;
}

core::result<void> weights_folder::index_names(std::span<const std::pair<std::string, uint32_t>> wanted) {
  for (uint32_t s = 0; s < shards_.size(); ++s)
    for (uint32_t e = 0; e < shards_[s].entries().size(); ++e) places_.push_back({s, e});
  const auto name = [this](place p) -> const std::string& { return entry_at(p).name; };
  std::sort(places_.begin(), places_.end(), [&](place a, place b) { return name(a) < name(b); });
  // Two files may hold one name, for instance after an older export; the index then decides.
  const auto misplaced = [&](place p) {
    const auto it = std::lower_bound(wanted.begin(), wanted.end(), name(p),
                                     [](const auto& w, const std::string& n) { return w.first < n; });
    return it != wanted.end() && it->first == name(p) && it->second != p.shard;
  };
  std::erase_if(places_, misplaced);
  const auto twice =
      std::adjacent_find(places_.begin(), places_.end(), [&](place a, place b) { return name(a) == name(b); });
  if (twice != places_.end())
    return fail(error_kind::bad_input, fmt::format("two files hold tensor '{}'", shown(name(*twice))));
  return {};
}

std::vector<weights_folder::tensor> weights_folder::tensors() const {
  std::vector<tensor> out;
  for (const place p : places_) out.push_back({&shards_[p.shard], &entry_at(p)});
  return out;
}

std::optional<weights_folder::tensor> weights_folder::find(std::string_view name) const {
  const auto it = std::lower_bound(places_.begin(), places_.end(), name,
                                   [this](place p, std::string_view n) { return entry_at(p).name < n; });
  if (it == places_.end() || entry_at(*it).name != name) return std::nullopt;
  return tensor{&shards_[it->shard], &entry_at(*it)};
}

std::vector<std::vector<size_t>> plan_shards(std::span<const uint64_t> tensor_bytes, uint64_t max_shard_bytes) {
  std::vector<std::vector<size_t>> shards;
  std::vector<size_t> open;
  uint64_t open_bytes = 0;
  for (size_t i = 0; i < tensor_bytes.size(); ++i) {
    if (tensor_bytes[i] > max_shard_bytes) {
      shards.push_back({i});
      continue;
    }
    if (tensor_bytes[i] > max_shard_bytes - open_bytes) {
      shards.push_back(std::exchange(open, {}));
      open_bytes = 0;
    }
    open.push_back(i);
    open_bytes += tensor_bytes[i];
  }
  if (!open.empty() || shards.empty()) shards.push_back(std::move(open));
  return shards;
}

namespace {

/// Returns the file that names weights which an export does not replace; an empty path if there is none.
fs::path other_weights_in(const fs::path& folder) {
  for (const auto infix : {safetensors_index_infix, torch_index_infix})
    for (const auto& index : weights_indices(folder, infix))
      if (index.filename() != index_file_name) return index;
  std::error_code ec;
  constexpr const char* other_single = "pytorch_model.bin";
  return fs::exists(folder / other_single, ec) ? folder / other_single : fs::path();
}

/// Returns the name of file `number`, from 1, of `count` files with weights.
std::string weights_file_name(size_t number, size_t count) {
  return count == 1 ? std::string(single_file_name) : fmt::format("model-{:05}-of-{:05}.safetensors", number, count);
}

/// Removes files that an earlier export left in `folder`: first the index, so that readers do not open a part of the
/// shards, then all others for whose names is_weights_file_name() is true, except those in `kept`.
core::result<void> remove_older_weights(const fs::path& folder, std::span<const std::string> kept) {
  std::error_code ec;
  std::vector<fs::path> older{folder / index_file_name};
  for (fs::directory_iterator at(folder, ec), end; !ec && at != end; at.increment(ec)) {
    const auto name = at->path().filename().string();
    if (is_weights_file_name(name) && std::ranges::find(kept, name) == kept.end()) older.push_back(at->path());
  }
  for (const auto& path : older)
    if (!ec) fs::remove(path, ec);
  if (!ec) return {};
  return fail(error_kind::io, fmt::format("cannot replace what is in '{}': {}", folder.string(), ec.message()));
}

core::result<void> write_files(const fs::path& folder, std::span<const tensor_to_write> tensors,
                               const folder_files& list) {
  std::vector<storage::atomic_file> files;
  for (size_t s = 0; s < list.shards.size(); ++s) {
    std::vector<const tensor_to_write*> part;
    for (const size_t i : list.shards[s]) part.push_back(&tensors[i]);
    TROUPE_ASSIGN(auto file, prepare_safetensors(folder / list.names[s], part, pytorch_metadata));
    files.push_back(std::move(file));
  }
  return commit_weights(folder, std::move(files), list);
}

}  // namespace

core::result<folder_files> divide_into_files(std::span<const sized_name> tensors, uint64_t max_shard_bytes) {
  folder_files out;
  std::vector<uint64_t> sizes;
  for (const auto& t : tensors) {
    sizes.push_back(t.bytes);
    out.total_bytes += t.bytes;
  }
  out.shards = plan_shards(sizes, max_shard_bytes);
  const size_t files = out.shards.size();
  if (files > max_shards)
    return fail(error_kind::limit, fmt::format("{} files would be needed for {} bytes at {} bytes a file, at most {} "
                                               "are allowed",
                                               files, out.total_bytes, max_shard_bytes, max_shards));
  for (size_t s = 0; s < files; ++s) {
    out.names.push_back(weights_file_name(s + 1, files));
    for (const size_t i : out.shards[s]) out.weights.emplace_back(tensors[i].name, out.names.back());
  }
  std::sort(out.weights.begin(), out.weights.end());
  for (size_t i = 1; i < out.weights.size(); ++i)
    if (out.weights[i].first == out.weights[i - 1].first)
      return fail(error_kind::bad_input, fmt::format("cannot write tensor '{}' twice", shown(out.weights[i].first)));
  return out;
}

bool is_weights_file_name(std::string_view file) {
  constexpr std::string_view shard = "model-#####-of-#####.safetensors";
  return file == single_file_name || file == index_file_name ||
         std::ranges::equal(file, shard,
                            [](char c, char wanted) { return wanted == '#' ? c >= '0' && c <= '9' : c == wanted; });
}

core::result<void> check_no_other_weights(const fs::path& folder) {
  const auto other = other_weights_in(folder);
  if (other.empty()) return {};
  return core::refused(
      fmt::format("'{}' names weights that this export does not replace, so the folder would hold two "
                  "models: remove these weights, or write to another folder",
                  other.string()));
}

core::result<bool> make_weights_folder(const fs::path& folder) {
  TROUPE_TRY(check_no_other_weights(folder));
  std::error_code ec;
  const bool made = fs::create_directories(folder, ec);
  if (ec)
    return fail(core::kind_of_write_error(ec.value()),
                fmt::format("cannot make the folder '{}': {}", folder.string(), ec.message()));
  return made;
}

core::result<void> commit_weights(const fs::path& folder, std::vector<storage::atomic_file> files,
                                  const folder_files& list) {
  if (list.shards.size() > 1) {
    TROUPE_ASSIGN(auto index, write_weights_index(folder / index_file_name, list.weights, list.total_bytes));
    files.push_back(std::move(index));
  }
  TROUPE_TRY(remove_older_weights(folder, list.names));
  TROUPE_TRY(storage::sync_folder(folder));
  for (auto& file : files) TROUPE_TRY(file.commit());
  return {};
}

core::result<void> write_weights_folder(const fs::path& folder, std::span<const tensor_to_write> tensors,
                                        uint64_t max_shard_bytes) {
  std::vector<sized_name> sizes;
  // prepare_safetensors() refuses a tensor without a size.
  for (const auto& t : tensors) sizes.push_back({t.name, bytes_of(t.type, t.shape).value_or(0)});
  TROUPE_ASSIGN(const auto list, divide_into_files(sizes, max_shard_bytes));
  TROUPE_ASSIGN(const bool made, make_weights_folder(folder));
  auto done = write_files(folder, tensors, list);
  std::error_code ec;
  if (!done && made) fs::remove(folder, ec);  // removes the new folder only if it is empty
  return done;
}

}  // namespace troupe::formats
