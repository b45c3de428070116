// Lists the files of a data source, and derives the kind of their content from their names.
#include "data/formats/files.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/dangling_link.hpp"
#include "core/text.hpp"
#include "data/formats/repository.hpp"

namespace troupe::data {
namespace {

namespace fs = std::filesystem;
using core::dangling_link_in;
using core::error_kind;
using core::fail;

/// True if `p`, with all links resolved, is in `folder`, which must be canonical.
bool lies_inside(const fs::path& p, const fs::path& folder) {
  const auto [end, rest] = std::mismatch(folder.begin(), folder.end(), p.begin(), p.end());
  return end == folder.end();
}

/// True for a target in Hugging Face's cache: DATASET/snapshots/REVISION/.. links to DATASET/blobs/digest.
bool lies_in_cache(const fs::path& target, const fs::path& folder) {
  for (fs::path at = folder; at.has_relative_path(); at = at.parent_path())
    if (at.parent_path().filename() == "snapshots")
      return target.parent_path() == at.parent_path().parent_path() / "blobs";
  return false;
}

/// True for hidden files and for files that writers of data sets add to rows.
bool is_aside(const fs::path& p) {
  const auto name = p.filename().string();
  return name.starts_with('.') || name == "_metadata" || name == "_common_metadata" || name == "_SUCCESS";
}

/// Returns all regular files below `folder`, sorted by path.
core::result<std::vector<fs::path>> files_below(const fs::path& folder) {
  std::error_code ec;
  const fs::path root = fs::canonical(folder, ec);
  if (ec) return fail(error_kind::bad_input, fmt::format("cannot read '{}': {}", folder.string(), ec.message()));
  std::vector<fs::path> found;
  fs::recursive_directory_iterator it(root, ec);
  for (; !ec && it != fs::recursive_directory_iterator(); it.increment(ec)) {
    if (is_aside(it->path())) {
      it.disable_recursion_pending();
      continue;
    }
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
    if (found.size() == max_source_files)
      return fail(error_kind::limit,
                  fmt::format("the data folder '{}' holds more than {} files", folder.string(), max_source_files));
    found.push_back(it->path());
  }
  if (ec) return fail(error_kind::bad_input, fmt::format("cannot read all of '{}': {}", folder.string(), ec.message()));
  std::sort(found.begin(), found.end());
  return found;
}

/// Refuses the folder of a `DatasetDict` of `datasets` with several splits, because not all are for training.
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
      {".bin", source_kind::tokens},      {".jsonl", source_kind::json_lines}, {".ndjson", source_kind::json_lines},
      {".json", source_kind::json_lines}, {".tar", source_kind::tar},          {".tgz", source_kind::tar},
      {".parquet", source_kind::parquet}, {".arrow", source_kind::arrow},      {".arrows", source_kind::arrow},
      {".ipc", source_kind::arrow},       {".feather", source_kind::arrow},    {".mds", source_kind::mds},
  };
  const auto found = std::ranges::find(kinds, ending_of(p), [](const auto& x) { return std::string(x.first); });
  return found == std::end(kinds) ? source_kind::text : found->second;
}

core::result<source_listing> source_files(const fs::path& path) {
  std::error_code ec;
  if (!fs::is_directory(path, ec)) {
    // Megatron names a pair without extension.
    const fs::path bin = path.string() + ".bin", index = path.string() + ".idx";
    if (!fs::exists(path, ec) && fs::exists(bin, ec) && fs::exists(index, ec)) return source_listing{{bin}, {}};
    if (const auto link = dangling_link_in(path)) return fail(error_kind::bad_input, *link);
    return source_listing{{path}, {}};
  }
  TROUPE_TRY(check_no_splits(path));
  TROUPE_ASSIGN(auto files, files_below(path));
  std::erase_if(files, [&](const fs::path& p) { return describes_tokens(p) || describes_rows(p); });
  return training_files_of(fs::canonical(path, ec), std::move(files));
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
  return p.extension() == ".json" && kind_of(p.stem()) == source_kind::tokens &&
         fs::exists(p.parent_path() / p.stem(), ec);
}

}  // namespace troupe::data
