#include "formats/safetensors/older_weights.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <system_error>
#include <vector>

#include "formats/safetensors/weights_index.hpp"

namespace troupe::formats {
namespace {

namespace fs = std::filesystem;

/// Returns the file that names weights which an export under `names` does not replace; an empty path if there is none.
fs::path other_weights_in(const fs::path& folder, const weights_names& names) {
  for (const auto infix : {safetensors_index_infix, torch_index_infix})
    for (const auto& index : weights_indices(folder, infix))
      if (index.filename() != names.index()) return index;
  std::error_code ec;
  for (const auto& other : {safetensors_names, torch_names})
    if (other.stem != names.stem && fs::exists(folder / other.single(), ec)) return folder / other.single();
  return {};
}

}  // namespace

std::string weights_names::single() const { return fmt::format("{}.{}", stem, ending); }
std::string weights_names::index() const { return fmt::format("{}.{}.index.json", stem, ending); }
std::string weights_names::shard(size_t number, size_t count) const {
  return fmt::format("{}-{:05}-of-{:05}.{}", stem, number, count, ending);
}

bool weights_names::contain(std::string_view file) const {
  const std::string shard = fmt::format("{}-#####-of-#####.{}", stem, ending);
  return file == single() || file == index() || std::ranges::equal(file, shard, [](char c, char wanted) {
           return wanted == '#' ? c >= '0' && c <= '9' : c == wanted;
         });
}

core::result<void> check_no_other_weights(const fs::path& folder, const weights_names& names) {
  const auto other = other_weights_in(folder, names);
  if (other.empty()) return {};
  return core::refused(
      fmt::format("'{}' names weights that this export does not replace, so the folder would hold two "
                  "models: remove these weights, or write to another folder",
                  other.string()));
}

core::result<void> remove_older_weights(const fs::path& folder, const weights_names& names,
                                        std::span<const std::string> kept) {
  std::error_code ec;
  std::vector<fs::path> older{folder / names.index()};
  for (fs::directory_iterator at(folder, ec), end; !ec && at != end; at.increment(ec)) {
    const auto name = at->path().filename().string();
    if (names.contain(name) && std::ranges::find(kept, name) == kept.end()) older.push_back(at->path());
  }
  for (const auto& path : older)
    if (!ec) fs::remove(path, ec);
  if (!ec) return {};
  return core::fail(core::error_kind::io,
                    fmt::format("cannot replace what is in '{}': {}", folder.string(), ec.message()));
}

}  // namespace troupe::formats
