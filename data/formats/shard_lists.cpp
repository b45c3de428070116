// Reads the lists of files that writers keep beside rows: `state.json` of Hugging Face's `datasets` and `index.json` of
// MosaicML's streaming. Owns which files such a list names; leaves their content to the readers of rows.
#include "data/formats/folder_files.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

#include "core/json_text.hpp"
#include "core/source_file.hpp"
#include "core/text.hpp"

namespace troupe::data {
namespace {

namespace fs = std::filesystem;

/// A file that a writer's list of shards names.
struct listed_shard {
  std::string name;  ///< name of the shard's file, relative to the list's folder
  /// Name of the shard's compressed form, relative to the list's folder; empty: the list names none.
  std::string packed{};
  std::optional<uint64_t> samples{};  ///< number of rows, if the list states it
};

struct shard_list {
  fs::path path;
  source_kind kind = source_kind::arrow;
  std::vector<listed_shard> shards;
};

tl::unexpected<core::error> broken_list(const fs::path& list, const std::string& why) {
  return fail(error_kind::bad_input,
              fmt::format("'{}', which lists the files of its data set, cannot be read: {}: write the data set again, "
                          "or name the files to train on",
                          list.string(), why));
}

/// Returns the `_data_files` of a `state.json`; nullopt if it has none.
core::result<std::optional<shard_list>> list_of_datasets(const fs::path& path, const nlohmann::json& state) {
  const auto files = state.find("_data_files");
  if (files == state.end()) return std::nullopt;
  shard_list out{path, source_kind::arrow, {}};
  for (const auto& x : *files) {
    if (!x.is_object() || !x.contains("filename") || !x["filename"].is_string())
      return broken_list(path, "wanted _data_files with a filename each");
    out.shards.push_back({x["filename"].get<std::string>()});
  }
  return out;
}

/// Returns the MosaicML shards of an `index.json`; nullopt if it has none.
core::result<std::optional<shard_list>> list_of_mosaic(const fs::path& path, const nlohmann::json& index) {
  const auto shards = index.find("shards");
  if (shards == index.end() || !shards->is_array()) return std::nullopt;
  shard_list out{path, source_kind::mds, {}};
  for (const auto& x : *shards) {
    if (!x.is_object() || x.value("format", nlohmann::json()) != "mds") continue;
    listed_shard shard;
    for (const auto& [key, name] : {std::pair("raw_data", &shard.name), std::pair("zip_data", &shard.packed)})
      if (const auto part = x.find(key); part != x.end() && part->is_object() && part->contains("basename")) {
        if (!(*part)["basename"].is_string()) return broken_list(path, "wanted the basename of each shard as text");
        *name = (*part)["basename"].get<std::string>();
      }
    if (shard.name.empty()) return broken_list(path, "wanted the raw_data of each shard with its basename");
    if (const auto count = x.find("samples"); count != x.end() && count->is_number_unsigned())
      shard.samples = count->get<uint64_t>();
    out.shards.push_back(std::move(shard));
  }
  return out.shards.empty() && !describes_rows(path) ? std::nullopt : std::optional(std::move(out));
}

/// Returns the list of files in `path`, a state.json of `datasets` or an index.json of MosaicML; nullopt if it is
/// neither.
core::result<std::optional<shard_list>> list_in(const fs::path& path) {
  std::error_code ec;
  const bool of_datasets = path.filename() == "state.json";
  if (!of_datasets && path.filename() != "index.json") return std::nullopt;
  const bool is_list =
      describes_rows(path) || (of_datasets && fs::exists(path.parent_path() / "dataset_info.json", ec));
  if (!is_list && (of_datasets || fs::file_size(path, ec) > max_shard_list_bytes)) return std::nullopt;
  TROUPE_ASSIGN(const auto text, core::read_file(path, max_shard_list_bytes));
  const auto parsed = core::parse_json(text);
  if (!parsed && is_list) return broken_list(path, parsed.error().why);
  if (!parsed || !parsed->is_object()) return std::nullopt;
  auto out = of_datasets ? list_of_datasets(path, *parsed) : list_of_mosaic(path, *parsed);
  if (out && !*out && is_list && !of_datasets) return broken_list(path, "wanted the list shards");
  return out;
}

/// Refuses a MosaicML shard whose own number of samples differs from the one in its list.
core::result<void> check_samples(const fs::path& path, uint64_t wanted, const fs::path& list) {
  uint32_t samples = 0;
  TROUPE_ASSIGN(const auto file, core::source_file::open(path));
  if (file.size() < sizeof samples) return {};  // too short for a shard; the reader of shards refuses the file
  TROUPE_TRY(file.read(0, std::as_writable_bytes(std::span(&samples, 1))));
  if (samples == wanted) return {};
  return fail(error_kind::bad_input,
              fmt::format("'{}' holds {} samples, but '{}' states {}: fetch the data set again, or name the files to "
                          "train on",
                          path.string(), samples, list.string(), wanted));
}

}  // namespace

core::result<void> keep_listed_shards(source_listing& listing) {
  std::vector<shard_list> lists;
  for (const auto& p : listing.files) {
    TROUPE_ASSIGN(auto found, list_in(p));
    if (found) lists.push_back(std::move(*found));
  }
  if (lists.empty()) return {};
  const std::set<fs::path> there(listing.files.begin(), listing.files.end());
  std::set<fs::path> taken;
  for (const auto& list : lists) {
    const fs::path folder = list.path.parent_path();
    for (const auto& shard : list.shards) {
      const fs::path path = (folder / shard.name).lexically_normal(),
                     packed = (folder / shard.packed).lexically_normal();
      if (there.contains(path)) {
        if (shard.samples && !is_packed(path)) TROUPE_TRY(check_samples(path, *shard.samples, list.path));
        taken.insert(path);
      } else if (!shard.packed.empty() && there.contains(packed)) {
        taken.insert(packed);
      } else {
        return fail(error_kind::bad_input,
                    fmt::format("'{}' lists '{}', which is missing: fetch the whole data set, or name the files to "
                                "train on",
                                list.path.string(), core::shown(shard.name)));
      }
    }
  }
  std::erase_if(listing.files, [&](const fs::path& p) {
    for (const auto& list : lists) {
      if (p == list.path) return true;
      if (p.parent_path() != list.path.parent_path() || kind_of(p) != list.kind || taken.contains(p)) continue;
      listing.left_out.push_back({p, "not listed in " + list.path.filename().string()});
      return true;
    }
    return false;
  });
  return {};
}

}  // namespace troupe::data
