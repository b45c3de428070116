// Lists the files of a data source, and derives the kind of their content from their names.
#include "data/formats/files.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "core/source_file.hpp"
#include "core/system/dangling_link.hpp"
#include "core/text.hpp"
#include "data/formats/folder_files.hpp"

namespace troupe::data {
namespace {

namespace fs = std::filesystem;
using core::dangling_link_in;

/// True if `p`, with all links resolved, is in `folder`, which must be canonical.
bool lies_inside(const fs::path& p, const fs::path& folder) {
  const auto [end, rest] = std::mismatch(folder.begin(), folder.end(), p.begin(), p.end());
  return end == folder.end();
}

/// True if `target`, to which a link in `folder` refers, is in Hugging Face's cache: DATASET/snapshots/REVISION/..
/// links to DATASET/blobs/digest.
bool lies_in_cache(const fs::path& target, const fs::path& folder) {
  for (fs::path at = folder; at.has_relative_path(); at = at.parent_path())
    if (at.parent_path().filename() == "snapshots")
      return target.parent_path() == at.parent_path().parent_path() / "blobs";
  return false;
}

/// True for hidden files and for files without data that writers of data sets put next to Parquet files, such as
/// `_SUCCESS`.
bool is_aside(const fs::path& p) {
  const auto name = p.filename().string();
  return name.starts_with('.') || name == "_metadata" || name == "_common_metadata" || name == "_SUCCESS";
}

/// Words by which the name of an array says that it holds tokens; the first is the column of tokens in samples of
/// several columns. An array whose name has no such word next to one with it is not read.
constexpr std::string_view names_of_tokens[] = {"input_ids", "tokens"};
/// Names of the columns beside the tokens that arrays of their own may hold.
constexpr std::string_view columns_beside_tokens[] = {"labels", "attention_mask"};

/// Largest size in bytes of the file refs/main in Hugging Face's cache, which names a revision.
constexpr uint64_t max_revision_bytes = 1024;

/// True for a data set's folder of Hugging Face's cache, which holds blobs and snapshots of links to them.
bool is_hub_cache(const fs::path& folder) {
  std::error_code ec;
  return fs::is_directory(folder / "snapshots", ec) && fs::is_directory(folder / "blobs", ec);
}

/// Returns the snapshot that `refs/main` of a cache names; refuses a cache without it, and names the snapshots.
core::result<fs::path> main_snapshot(const fs::path& cache) {
  std::error_code ec;
  if (const auto revision = core::read_file(cache / "refs" / "main", max_revision_bytes)) {
    const fs::path name = core::trimmed(*revision);
    if (!name.empty() && name == name.filename() && !is_aside(name) && fs::is_directory(cache / "snapshots" / name, ec))
      return cache / "snapshots" / name;
  }
  std::vector<std::string> names;
  for (fs::directory_iterator it(cache / "snapshots", ec), end; !ec && it != end; it.increment(ec))
    names.push_back(it->path().filename().string());
  std::ranges::sort(names);
  return fail(
      error_kind::bad_input,
      fmt::format("'{}' is a folder of Hugging Face's cache, and its refs/main names no snapshot that is there: "
                  "name the folder of one: snapshots/{}",
                  cache.string(), fmt::join(names, ", snapshots/")));
}

/// Returns all regular files below `folder`, sorted by path. Hidden files are not returned; hidden files whose
/// extension names data, such as `.a.parquet`, are listed in `left_out`.
core::result<source_listing> files_below(const fs::path& folder) {
  std::error_code ec;
  const fs::path root = fs::canonical(folder, ec);
  if (ec) return fail(error_kind::bad_input, fmt::format("cannot read '{}': {}", folder.string(), ec.message()));
  source_listing found;
  fs::recursive_directory_iterator it(root, ec);
  for (; !ec && it != fs::recursive_directory_iterator(); it.increment(ec)) {
    if (is_aside(it->path())) {
      it.disable_recursion_pending();
      if (it->path().filename().string().starts_with('.') && kind_of(it->path()) != source_kind::text &&
          it->is_regular_file(ec))
        found.left_out.push_back({it->path(), "hidden"});
      continue;
    }
    if (it->is_directory(ec) && is_hub_cache(it->path()))
      return fail(error_kind::bad_input,
                  fmt::format("'{}' in the data folder is one of Hugging Face's cache: name this folder, or one of its "
                              "snapshots",
                              it->path().string()));
    const bool is_link = it->is_symlink(ec);
    const fs::path target = is_link ? fs::canonical(it->path(), ec) : fs::path();
    if (is_link && ec)
      return fail(error_kind::bad_input,
                  dangling_link_in(it->path())
                      .value_or(fmt::format("the link '{}' in the data folder '{}': {}", it->path().string(),
                                            folder.string(), ec.message())));
    if (is_link && !lies_in_cache(target, root)) {
      if (!lies_inside(target, root))
        return fail(error_kind::bad_input,
                    fmt::format("the link '{}' leads out of the data folder '{}': only files inside it are read",
                                it->path().string(), folder.string()));
      continue;
    }
    if (!it->is_regular_file(ec)) continue;
    if (found.files.size() == max_source_files)
      return fail(error_kind::limit,
                  fmt::format("the data folder '{}' holds more than {} files", folder.string(), max_source_files));
    found.files.push_back(it->path());
  }
  if (ec) return fail(error_kind::bad_input, fmt::format("cannot read all of '{}': {}", folder.string(), ec.message()));
  std::ranges::sort(found.files);
  std::ranges::sort(found.left_out, {}, &left_out_file::path);
  return found;
}

/// Refuses a folder in which the library `datasets` saved a `DatasetDict` with several splits, because not all splits
/// are for training.
core::result<void> check_no_splits(const fs::path& folder) {
  std::error_code ec;
  if (!fs::exists(folder / "dataset_dict.json", ec)) return {};
  std::vector<std::string> splits;
  for (fs::directory_iterator it(folder, ec), end; !ec && it != end; it.increment(ec))
    if (fs::exists(it->path() / "state.json", ec)) splits.push_back(it->path().filename().string());
  if (splits.empty()) return {};
  std::ranges::sort(splits);
  return fail(error_kind::bad_input, fmt::format("'{}' holds splits of a data set: name the folder of one of them: {}",
                                                 folder.string(), fmt::join(splits, ", ")));
}

/// True for an array whose file name contains `word`.
bool is_array_called(const fs::path& p, std::string_view word) {
  return kind_of(p) == source_kind::array && p.filename().string().find(word) != std::string::npos;
}

/// Refuses an array of a folder that would be read as tokens although names say otherwise: labels or a mask whose
/// tokens are not there, and an array without `input_ids` (`tokens`) in its name next to one with it, such as
/// token_type_ids.npy.
core::result<void> refuse_stray_arrays(const std::vector<fs::path>& files) {
  for (const fs::path& p : files) {
    if (kind_of(p) != source_kind::array || is_array_called(p, names_of_tokens[0])) continue;
    for (const std::string_view column : columns_beside_tokens)
      if (is_array_called(p, column))
        return fail(error_kind::bad_input,
                    fmt::format("'{}': wanted beside it the array of the tokens, which has '{}' in place of '{}' in "
                                "its name, got none: rename the arrays, or move this one out of the folder",
                                p.string(), fmt::join(names_of_tokens, "' or '"), column));
    for (const std::string_view word : names_of_tokens) {
      if (is_array_called(p, word)) break;
      const auto tokens = std::ranges::find_if(files, [&](const fs::path& other) {
        return other.parent_path() == p.parent_path() && is_array_called(other, word);
      });
      if (tokens != files.end())
        return fail(error_kind::bad_input,
                    fmt::format("'{}': wanted '{}', 'labels' or 'attention_mask' in the name of an array next to '{}', "
                                "got none of them: move it out of the folder, or rename it if it holds tokens",
                                p.string(), word, tokens->filename().string()));
    }
  }
  return {};
}

/// Returns the names, without extension, that the array with the column `column` of the array `tokens` may have.
std::vector<std::string> names_beside(const std::string& tokens, std::string_view column) {
  std::vector<std::string> out;
  for (const std::string_view word : names_of_tokens) {
    const size_t at = tokens.rfind(word);
    if (at == std::string::npos) continue;
    out.push_back(tokens);
    out.back().replace(at, word.size(), column);
    break;
  }
  // The name `input_ids` leaves no doubt about the name of its labels.
  if (tokens.find(names_of_tokens[0]) == std::string::npos) out.push_back(fmt::format("{}_{}", tokens, column));
  return out;
}

}  // namespace

bool is_packed(const fs::path& p) {
  const auto ending = core::lowered(p.extension().string());
  return ending == ".gz" || ending == ".dz" || ending == ".tgz" || ending == ".zst";
}

std::string ending_of(const fs::path& p) {
  const auto ending = core::lowered(p.extension().string());
  return ending != ".tgz" && is_packed(p) ? core::lowered(p.stem().extension().string()) : ending;
}

source_kind kind_of(const fs::path& p) {
  constexpr std::pair<std::string_view, source_kind> kinds[] = {
      {".bin", source_kind::tokens},
      {".jsonl", source_kind::json_lines},
      {".jsonlines", source_kind::json_lines},
      {".ndjson", source_kind::json_lines},
      {".json", source_kind::json_lines},
      {".tar", source_kind::tar},
      {".tgz", source_kind::tar},
      {".parquet", source_kind::parquet},
      {".arrow", source_kind::arrow},
      {".arrows", source_kind::arrow},
      {".ipc", source_kind::arrow},
      {".feather", source_kind::arrow},
      {".mds", source_kind::mds},
      {".npy", source_kind::array},
  };
  const auto found = std::ranges::find(kinds, ending_of(p), [](const auto& x) { return std::string(x.first); });
  return found == std::end(kinds) ? source_kind::text : found->second;
}

core::result<source_listing> source_files(const fs::path& path) {
  std::error_code ec;
  if (!fs::is_directory(path, ec)) {
    // Megatron users name the pair NAME.bin and NAME.idx by NAME alone.
    const fs::path bin = path.string() + ".bin", index = path.string() + ".idx";
    if (!fs::exists(path, ec) && fs::exists(bin, ec) && fs::exists(index, ec)) return source_listing{{bin}, {}};
    if (const auto link = dangling_link_in(path)) return fail(error_kind::bad_input, *link);
    return source_listing{{path}, {}};
  }
  fs::path folder = path;
  if (is_hub_cache(path)) {
    TROUPE_ASSIGN(folder, main_snapshot(path));
  }
  TROUPE_TRY(check_no_splits(folder));
  TROUPE_ASSIGN(auto listed, files_below(folder));
  TROUPE_TRY(keep_listed_shards(listed));
  std::erase_if(listed.files,
                [](const fs::path& p) { return describes_tokens(p) || describes_rows(p) || completes_array(p); });
  const fs::path whole = fs::canonical(folder, ec);
  TROUPE_ASSIGN(auto out, training_files_of(whole, std::move(listed)));
  TROUPE_TRY(refuse_second_forms(out.files));
  TROUPE_TRY(refuse_stray_arrays(out.files));
  if (out.files.empty() && !out.left_out.empty())
    return fail(
        error_kind::bad_input,
        fmt::format("'{}' has no file to train on: all are left out, such as '{}' ({}): name the files to train "
                    "on",
                    path.string(), out.left_out.front().path.lexically_relative(whole).string(),
                    out.left_out.front().why));
  name_missing_shards(out);
  return out;
}

core::result<fs::path> array_beside(const fs::path& tokens, const std::string& column) {
  fs::path found;
  for (const auto& name : names_beside(tokens.stem().string(), column)) {
    const fs::path place = tokens.parent_path() / (name + tokens.extension().string());
    std::error_code ec;
    if (!fs::exists(place, ec)) continue;
    if (!found.empty())
      return fail(error_kind::bad_input,
                  fmt::format("'{}': wanted one array with its '{}' beside it, got '{}' and '{}': move one of the two "
                              "elsewhere",
                              tokens.string(), column, found.filename().string(), place.filename().string()));
    found = place;
  }
  return found;
}

bool completes_array(const fs::path& p) {
  if (kind_of(p) != source_kind::array) return false;
  std::error_code ec;
  const std::string name = p.stem().string();
  for (const std::string_view column : columns_beside_tokens) {
    const size_t at = name.rfind(column);
    if (at == std::string::npos) continue;
    std::vector<std::string> names;
    for (const std::string_view word : names_of_tokens) {
      names.push_back(name);
      names.back().replace(at, column.size(), word);
    }
    if (at > 0 && name[at - 1] == '_' && at + column.size() == name.size()) names.push_back(name.substr(0, at - 1));
    for (const auto& one : names)
      if (fs::exists(p.parent_path() / (one + p.extension().string()), ec)) return true;
  }
  return false;
}

bool describes_rows(const fs::path& p) {
  const bool of_arrow = p.filename() == "dataset_info.json" || p.filename() == "state.json";
  if (!of_arrow && p.filename() != "index.json") return false;
  std::error_code ec;
  for (fs::directory_iterator it(p.parent_path(), ec), end; !ec && it != end; it.increment(ec))
    if (kind_of(it->path()) == (of_arrow ? source_kind::arrow : source_kind::mds)) return true;
  return false;
}

bool describes_tokens(const fs::path& p) {
  std::error_code ec;
  if (p.extension() == ".idx") return fs::exists(fs::path(p).replace_extension(".bin"), ec);
  if (p.extension() != ".json" || kind_of(p.stem()) != source_kind::tokens) return false;
  const std::string described = (p.parent_path() / p.stem()).string();
  for (const char* packing : {"", ".gz", ".dz", ".zst"})
    if (fs::exists(described + packing, ec)) return true;
  return false;
}

}  // namespace troupe::data
