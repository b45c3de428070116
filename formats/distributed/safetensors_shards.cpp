#include "formats/distributed/safetensors_shards.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "core/json_text.hpp"
#include "core/number.hpp"
#include "formats/distributed/names.hpp"
#include "formats/safetensors/safetensors.hpp"
#include "formats/tensors/tensor_list.hpp"
#include "storage/files/file_system.hpp"

namespace troupe::formats {
namespace {

namespace fs = std::filesystem;

constexpr const char* info_key = "DCP_SHARDING_INFO";
constexpr const char* offsets_key = "saved_offsets";

using core::refused;

/// Returns the number of the rank, from 1, in a file's name; nothing for any other name.
std::optional<uint32_t> shard_of(std::string_view name) {
  constexpr std::string_view begin = "shard-", middle = "-model-";
  if (!name.starts_with(begin) || !name.ends_with(".safetensors")) return std::nullopt;
  name.remove_prefix(begin.size());
  const auto number = core::take_number<uint32_t>(name);
  return number && *number > 0 && name.starts_with(middle) ? number : std::nullopt;
}

/// Returns the names of the shard files in `folder`, ascending.
std::vector<std::string> shards_in(const fs::path& folder) {
  return storage::names_in(folder, [](std::string_view name) { return shard_of(name).has_value(); });
}

class shards_reader {
 public:
  explicit shards_reader(const fs::path& folder) : folder_(folder) {}

  core::result<distributed_metadata> run() {
    out_.files = shards_in(folder_);
    if (out_.files.size() > max_distributed_files)
      return fail(error_kind::limit, fmt::format("'{}': more than {} files", folder_.string(), max_distributed_files));
    std::set<uint32_t> numbers;
    for (const auto& name : out_.files) numbers.insert(*shard_of(name));
    if (!numbers.empty() && *numbers.rbegin() != numbers.size()) {
      uint32_t missing = 1;
      while (numbers.contains(missing)) ++missing;
      return refused(fmt::format("'{}': the files of shard {} are missing, but those of shard {} exist",
                                 folder_.string(), missing, *numbers.rbegin()));
    }
    for (uint32_t i = 0; i < out_.files.size(); ++i) TROUPE_TRY(add(i));
    for (auto& [name, entry] : out_.entries) {
      std::ranges::sort(entry.items, {}, &distributed_item::offsets);
      const auto twice = std::ranges::adjacent_find(entry.items, {}, &distributed_item::offsets);
      if (twice != entry.items.end())
        return refused(fmt::format("'{}': '{}': two chunks begin at element ({})", folder_.string(), shown(name),
                                   fmt::join(twice->offsets, ", ")));
    }
    split_names();
    return std::move(out_);
  }

 private:
  core::result<void> add(uint32_t number) {
    const auto path = folder_ / out_.files[number];
    TROUPE_ASSIGN(const auto file, safetensors_file::open(path));
    const auto text = file.metadata().find(info_key);
    if (text == file.metadata().end())
      return refused(
          fmt::format("'{}': its header has no {} with the positions of its tensors", path.string(), info_key));
    const auto places = core::parse_json(text->second);
    if (!places || !places->is_object())
      return refused(
          fmt::format("'{}': {}: {}", path.string(), info_key, places ? "an object was wanted" : places.error().why));
    for (const auto& e : file.entries())
      if (auto ok = add(number, file, e, *places); !ok)
        return fail(ok.error().in(fmt::format("'{}': '{}'", path.string(), shown(e.name))));
    return {};
  }

  core::result<void> add(uint32_t number, const safetensors_file& file, const safetensors_entry& e,
                         const nlohmann::json& places) {
    if (const auto at = out_.entries.find(e.name);
        e.is_e4m3 || !e.unread_type.empty() || (at != out_.entries.end() && !at->second.unread_type.empty())) {
      std::string type = e.is_e4m3 ? "F8_E4M3" : !e.unread_type.empty() ? e.unread_type : at->second.unread_type;
      out_.entries[e.name] = {};
      out_.entries[e.name].unread_type = std::move(type);
      return {};
    }
    const auto place = places.find(e.name);
    const auto wanted = fmt::format("{} requires {} whole numbers as {}", info_key, e.shape.size(), offsets_key);
    if (place == places.end() || !place->is_object() || !place->contains(offsets_key)) return refused(wanted);
    const auto& offsets = (*place)[offsets_key];
    if (!offsets.is_array() || offsets.size() != e.shape.size()) return refused(wanted);
    distributed_item item{{}, e.shape, number, file.offset_bytes(e), e.end - e.begin};
    for (const auto& n : offsets) {
      if (!n.is_number_unsigned() || n.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX)) return refused(wanted);
      item.offsets.push_back(n.get<int64_t>());
    }
    auto& entry = out_.entries[e.name];
    if (out_.entries.size() > max_tensors)
      return fail(error_kind::limit, fmt::format("more than {} tensors", max_tensors));
    if (!entry.type) {
      entry.type = e.type;
      entry.shape.assign(e.shape.size(), 0);
    }
    if (*entry.type != e.type || entry.shape.size() != e.shape.size())
      return refused(fmt::format("it is {} of {} dimensions here and {} of {} in another file", core::name_of(e.type),
                                 e.shape.size(), core::name_of(*entry.type), entry.shape.size()));
    for (size_t d = 0; d < e.shape.size(); ++d) {
      if (item.offsets[d] > INT64_MAX - e.shape[d]) return refused("its offset is too large for any tensor");
      entry.shape[d] = std::max(entry.shape[d], item.offsets[d] + e.shape[d]);
    }
    if (item.bytes == 0) return {};  // the rank has no elements of the tensor
    if (++chunks_ > max_pieces) return fail(error_kind::limit, fmt::format("more than {} chunks", max_pieces));
    entry.items.push_back(std::move(item));
    return {};
  }

  /// Sets the keys of the weights' entries, because safetensors files store only flat names. If the folder has entries
  /// of an optimizer, a name that begins with `model.` gets `model` as first key; else no entry gets keys.
  void split_names() {
    constexpr std::string_view model = "model.";
    const auto is_optimizers = [](const auto& e) { return is_optimizers_name(e.first); };
    if (std::ranges::none_of(out_.entries, is_optimizers)) return;
    for (auto& [name, entry] : out_.entries)
      if (name.starts_with(model)) entry.keys = {"model", name.substr(model.size())};
  }

  fs::path folder_;
  distributed_metadata out_;
  size_t chunks_ = 0;
};

}  // namespace

bool holds_safetensors_shards(const fs::path& folder) { return !shards_in(folder).empty(); }

core::result<distributed_metadata> read_safetensors_shards(const fs::path& folder) {
  return shards_reader(folder).run();
}

}  // namespace troupe::formats
