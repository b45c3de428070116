#include "formats/torch/distributed_metadata.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "core/lfs_pointer.hpp"
#include "core/source_file.hpp"
#include "core/text.hpp"
#include "formats/safetensors/header.hpp"
#include "formats/tensors/tensor_list.hpp"
#include "formats/torch/archive_names.hpp"
#include "formats/torch/pickle_reader.hpp"

namespace troupe::formats {
namespace {

namespace fs = std::filesystem;

using core::refused;

/// True for the name of a file in the folder itself, as torch's writers make such names: no path, not `.` or `..`.
bool is_plain_name(std::string_view name) {
  return !name.empty() && name.size() <= max_name_bytes && name != "." && name != ".." &&
         name.find_first_of(std::string_view("/\0", 2)) == name.npos;
}

/// Reads torch's Metadata object and collects its tensors' chunks and their places.
class metadata_reader {
 public:
  metadata_reader(const fs::path& folder, const pickle_tree& tree) : folder_(folder), tree_(tree) {}

  core::result<distributed_metadata> all() {
    TROUPE_ASSIGN(const auto root, attributes(tree_.root(), "Metadata"));
    TROUPE_ASSIGN(const auto tensors, dict_at(root, "state_dict_metadata"));
    TROUPE_ASSIGN(const auto places, dict_at(root, "storage_data"));
    const auto described = tree_.items(tensors);
    for (size_t i = 0; i + 1 < described.size(); i += 2) TROUPE_TRY(describe(described[i], described[i + 1]));
    const auto stored = tree_.items(places);
    for (size_t i = 0; i + 1 < stored.size(); i += 2) TROUPE_TRY(place(stored[i], stored[i + 1]));
    for (const auto& [name, entry] : out_.entries)
      for (const auto& item : entry.items)
        if (item.bytes == 0)
          return refused(
              fmt::format("the file and offset of '{}'{} are missing", shown(name),
                          entry.is_tensor() ? fmt::format(" from element {} on", text_of(item.offsets)) : ""));
    add_keys(tree_.find(root, "planner_data"));
    return std::move(out_);
  }

 private:
  static std::string text_of(const std::vector<int64_t>& numbers) {
    std::string out = "(";
    for (const auto n : numbers) out += fmt::format("{}{}", out.size() > 1 ? ", " : "", n);
    return out + ")";
  }

  [[nodiscard]] std::string kind_text(pickle_ref v) const {
    if (tree_.kind(v) == pickle_kind::object) return tree_.global_name(tree_.target(v));
    if (tree_.kind(v) == pickle_kind::global) return tree_.global_name(v);
    return "a plain value";
  }

  /// Returns the attributes of the object `v`, whose class must have the name `name`, in any module.
  [[nodiscard]] core::result<pickle_ref> attributes(pickle_ref v, std::string_view name) const {
    const bool is_it = tree_.kind(v) == pickle_kind::object && tree_.kind(tree_.target(v)) == pickle_kind::global &&
                       tree_.text(tree_.items(tree_.target(v))[1]) == name && tree_.items(tree_.args(v)).empty() &&
                       tree_.state(v);
    if (!is_it)
      return refused(fmt::format("{} of torch.distributed.checkpoint was wanted, got {}", name, kind_text(v)));
    const pickle_ref out = *tree_.state(v);
    if (tree_.kind(out) == pickle_kind::dict && tree_.items(out).size() > 2 * max_metadata_attributes)
      return fail(error_kind::limit, fmt::format("{}: at most {} attributes were wanted, got {}", name,
                                                 max_metadata_attributes, tree_.items(out).size() / 2));
    return out;
  }

  [[nodiscard]] core::result<pickle_ref> dict_at(pickle_ref of, std::string_view key) const {
    const auto v = tree_.find(of, key);
    if (!v || tree_.kind(*v) != pickle_kind::dict)
      return refused(fmt::format("{}: a dictionary was wanted, got {}", key, v ? kind_text(*v) : "none"));
    return *v;
  }

  [[nodiscard]] core::result<std::vector<int64_t>> numbers_at(pickle_ref of, std::string_view key) const {
    const auto found = tree_.find(of, key);
    if (!found) return refused(fmt::format("{} is missing", key));
    pickle_ref v = *found;
    if (tree_.is_call(v, "torch", "Size") && tree_.items(tree_.args(v)).size() == 1) v = tree_.items(tree_.args(v))[0];
    if (tree_.kind(v) != pickle_kind::tuple && tree_.kind(v) != pickle_kind::list)
      return refused(fmt::format("{}: whole numbers were wanted, got {}", key, kind_text(v)));
    if (tree_.items(v).size() > max_rank)
      return fail(error_kind::limit, fmt::format("{}: more than {} dimensions", key, max_rank));
    std::vector<int64_t> out;
    for (const pickle_ref n : tree_.items(v)) {
      if (tree_.kind(n) != pickle_kind::integer || tree_.integer(n) < 0)
        return refused(fmt::format("{}: whole numbers were wanted, got {}", key, kind_text(n)));
      out.push_back(tree_.integer(n));
    }
    return out;
  }

  core::result<void> describe(pickle_ref key, pickle_ref value) {
    if (tree_.kind(key) != pickle_kind::text) return refused("the name of an entry is not text");
    const std::string name(tree_.text(key));
    const auto in = [&](const core::error& e) { return fail(e.in(fmt::format("'{}'", shown(name)))); };
    if (name.size() > max_name_bytes)
      return fail(error_kind::limit,
                  fmt::format("'{}': names of at most {} bytes are read", shown(name), max_name_bytes));
    distributed_entry entry;
    const bool is_object = tree_.kind(value) == pickle_kind::object &&
                           tree_.kind(tree_.target(value)) == pickle_kind::global &&
                           tree_.text(tree_.items(tree_.target(value))[1]) == "BytesStorageMetadata";
    if (is_object) {
      entry.items.emplace_back();
    } else if (auto ok = describe_tensor(value, entry); !ok) {
      return in(ok.error());
    }
    out_.entries.insert_or_assign(name, std::move(entry));
    if (out_.entries.size() > max_tensors)
      return fail(error_kind::limit, fmt::format("more than {} entries", max_tensors));
    return {};
  }

  core::result<void> describe_tensor(pickle_ref value, distributed_entry& entry) {
    TROUPE_ASSIGN(const auto about, attributes(value, "TensorStorageMetadata"));
    const auto properties = tree_.find(about, "properties");
    if (!properties) return refused("properties is missing");
    TROUPE_ASSIGN(const auto state, attributes(*properties, "TensorProperties"));
    const auto type = tree_.kind(state) == pickle_kind::tuple && !tree_.items(state).empty()
                          ? std::optional(tree_.items(state)[0])
                          : tree_.find(state, "dtype");
    if (!type) return refused("dtype is missing");
    entry.type = torch_names::dtype_of(tree_, *type);
    if (!entry.type) {
      const bool is_torchs = tree_.kind(*type) == pickle_kind::global && tree_.text(tree_.items(*type)[0]) == "torch";
      if (!is_torchs) return refused(fmt::format("a type of torch was wanted, got {}", kind_text(*type)));
      entry.unread_type = tree_.global_name(*type);
      return {};
    }
    TROUPE_ASSIGN(auto shape, numbers_at(about, "size"));
    entry.shape = std::move(shape);
    if (!bytes_of(*entry.type, entry.shape)) return refused("its shape has more elements than a file can hold");
    const auto chunks = tree_.find(about, "chunks");
    if (!chunks || tree_.kind(*chunks) != pickle_kind::list) return refused("chunks: a list was wanted");
    if ((chunks_ += tree_.items(*chunks).size()) > max_pieces)
      return fail(error_kind::limit, fmt::format("more than {} chunks", max_pieces));
    for (const pickle_ref c : tree_.items(*chunks)) {
      TROUPE_ASSIGN(const auto box, attributes(c, "ChunkStorageMetadata"));
      TROUPE_ASSIGN(auto offsets, numbers_at(box, "offsets"));
      TROUPE_ASSIGN(auto sizes, numbers_at(box, "sizes"));
      bool fits = offsets.size() == entry.shape.size() && sizes.size() == entry.shape.size();
      for (size_t d = 0; fits && d < entry.shape.size(); ++d)
        fits = offsets[d] <= entry.shape[d] && sizes[d] <= entry.shape[d] - offsets[d];
      if (!fits)
        return refused(fmt::format("a chunk of {} at {} reaches beyond its shape {}", text_of(sizes), text_of(offsets),
                                   text_of(entry.shape)));
      if (std::ranges::find(sizes, 0) != sizes.end()) continue;  // chunk of a rank that has no elements of the tensor
      entry.items.push_back({std::move(offsets), std::move(sizes), 0, 0, 0});
    }
    std::ranges::sort(entry.items, {}, &distributed_item::offsets);
    const auto twice = std::ranges::adjacent_find(entry.items, {}, &distributed_item::offsets);
    if (twice != entry.items.end())
      return refused(fmt::format("two chunks begin at element {}", text_of(twice->offsets)));
    return {};
  }

  core::result<void> place(pickle_ref key, pickle_ref value) {
    TROUPE_ASSIGN(const auto index, attributes(key, "MetadataIndex"));
    const auto named = tree_.find(index, "fqn");
    if (!named || tree_.kind(*named) != pickle_kind::text) return refused("fqn: a text was wanted");
    const auto at = out_.entries.find(tree_.text(*named));
    if (at == out_.entries.end())
      return refused(fmt::format("a place is given for '{}', which is not described", shown(tree_.text(*named))));
    auto where = read_place(value);
    const auto in = [&](const core::error& e) { return fail(e.in(fmt::format("'{}'", shown(at->first)))); };
    if (!where) return in(where.error());
    if (!at->second.unread_type.empty()) return {};
    auto& items = at->second.items;
    auto item = items.begin();
    if (at->second.is_tensor()) {
      const auto offset = tree_.find(index, "offset");
      const bool has_offset = offset && tree_.kind(*offset) != pickle_kind::none;
      const auto numbers = has_offset
                               ? numbers_at(index, "offset")
                               : core::result<std::vector<int64_t>>(std::vector<int64_t>(at->second.shape.size()));
      if (!numbers) return in(numbers.error());
      item = std::ranges::lower_bound(items, *numbers, {}, &distributed_item::offsets);
      if (item == items.end() || item->offsets != *numbers) return {};  // an empty chunk, which has no item
    }
    if (item->bytes != 0) return refused(fmt::format("'{}' is given two places", shown(at->first)));
    item->file = where->file;
    item->begin = where->begin;
    item->bytes = where->bytes;
    return {};
  }

  core::result<distributed_item> read_place(pickle_ref v) {
    TROUPE_ASSIGN(const auto info, attributes(v, "_StorageInfo"));
    const auto path = tree_.find(info, "relative_path");
    if (!path || tree_.kind(*path) != pickle_kind::text) return refused("relative_path: a text was wanted");
    if (const auto t = tree_.find(info, "transform_descriptors");
        t && tree_.kind(*t) != pickle_kind::none && !tree_.items(*t).empty()) {
      const auto first = tree_.items(*t)[0];
      return refused(fmt::format("it is stored through the stream transform '{}', plain bytes were wanted",
                                 tree_.kind(first) == pickle_kind::text ? shown(tree_.text(first)) : kind_text(first)));
    }
    TROUPE_ASSIGN(const auto number, file_number(tree_.text(*path)));
    distributed_item out;
    out.file = number;
    for (const auto& [key, to] : {std::pair("offset", &out.begin), std::pair("length", &out.bytes)}) {
      const auto n = tree_.find(info, key);
      if (!n || tree_.kind(*n) != pickle_kind::integer || tree_.integer(*n) < 0)
        return refused(fmt::format("{}: a whole number was wanted", key));
      *to = static_cast<uint64_t>(tree_.integer(*n));
    }
    if (out.bytes == 0) return refused("length: a number above 0 was wanted, got 0");
    const uint64_t size = sizes_[out.file];
    if (out.begin > size || out.bytes > size - out.begin)
      return refused(fmt::format("its {} bytes at byte {} reach beyond the end of '{}', which has {} bytes", out.bytes,
                                 out.begin, (folder_ / out_.files[out.file]).string(), size));
    return out;
  }

  core::result<uint32_t> file_number(std::string_view name) {
    if (const auto known = numbers_.find(name); known != numbers_.end()) return known->second;
    if (!is_plain_name(name))
      return refused(fmt::format("it is listed in '{}', which is not a file of the folder", shown(name)));
    if (out_.files.size() >= max_distributed_files)
      return fail(error_kind::limit, fmt::format("more than {} files", max_distributed_files));
    TROUPE_ASSIGN(const auto file, core::source_file::open(folder_ / name));
    const auto number = static_cast<uint32_t>(out_.files.size());
    out_.files.emplace_back(name);
    sizes_.push_back(file.size());
    numbers_.emplace(name, number);
    return number;
  }

  /// Sets the keys of entries from `paths`, in which torch's default planner stores them. Ignores values that other
  /// planners store there.
  void add_keys(std::optional<pickle_ref> paths) {
    if (!paths || tree_.kind(*paths) != pickle_kind::dict) return;
    const auto all = tree_.items(*paths);
    for (size_t i = 0; i + 1 < all.size(); i += 2) {
      if (tree_.kind(all[i]) != pickle_kind::text || tree_.kind(all[i + 1]) != pickle_kind::tuple) continue;
      const auto at = out_.entries.find(tree_.text(all[i]));
      if (at == out_.entries.end()) continue;
      std::vector<std::string> keys;
      if (tree_.items(all[i + 1]).size() > max_entry_keys) continue;
      for (const pickle_ref k : tree_.items(all[i + 1])) {
        if (tree_.kind(k) == pickle_kind::text && tree_.text(k).size() <= at->first.size())
          keys.emplace_back(tree_.text(k));
        else if (tree_.kind(k) == pickle_kind::integer)
          keys.push_back(fmt::to_string(tree_.integer(k)));
      }
      if (keys.size() == tree_.items(all[i + 1]).size()) at->second.keys = std::move(keys);
    }
  }

  const fs::path& folder_;
  const pickle_tree& tree_;
  distributed_metadata out_;
  std::vector<uint64_t> sizes_;  ///< size of each file in bytes
  std::map<std::string, uint32_t, std::less<>> numbers_;
  size_t chunks_ = 0;
};

}  // namespace

core::result<distributed_metadata> read_distributed_metadata(const fs::path& folder) {
  const auto path = folder / distributed_metadata_name;
  TROUPE_ASSIGN(const auto file, core::source_file::open(path));
  TROUPE_TRY(core::refuse_lfs_pointer(file));
  const auto in = [&](const core::error& e) {
    return fail(e.kind == error_kind::io ? e : e.in(fmt::format("cannot read '{}'", path.string())));
  };
  const auto tree = read_pickle(file, 0, file.size());
  if (!tree) return in(tree.error());
  auto out = metadata_reader(folder, *tree).all();
  if (!out) return in(out.error());
  return out;
}

std::vector<archive_place> archives_in(const fs::path& file) {
  std::vector<archive_place> out;
  const auto list = read_distributed_metadata(file.parent_path());
  if (!list) return out;
  for (const auto& [name, entry] : list->entries)
    for (const auto& item : entry.items)
      if (file.filename() == list->files[item.file]) out.push_back({item.begin, item.bytes});
  std::ranges::sort(out, {}, &archive_place::begin);
  return out;
}

}  // namespace troupe::formats
