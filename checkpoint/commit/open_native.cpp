#include "checkpoint/commit/open_native.hpp"

#include <fmt/format.h>

#include <memory>
#include <utility>

#include "checkpoint/commit/node_parts.hpp"
#include "checkpoint/commit/reading_mark.hpp"
#include "checkpoint/native/manifest.hpp"
#include "checkpoint/native/native_source.hpp"
#include "core/text.hpp"
#include "formats/source/shard_header.hpp"

namespace troupe::checkpoint {
namespace {

namespace fs = std::filesystem;

/// Returns "; --fallback-to-previous takes step-00000005 instead" for a folder whose newest checkpoint cannot be
/// opened; empty if no other can be opened.
std::string older_instead(const fs::path& path, const formats::source_options& options) {
  if (!options.offers_older()) return "";
  const auto older = open_checkpoint(storage::real_files(), path,
                                     {.fallback_to_previous = true, .fallback_check = good_enough::opens});
  if (!older) return "";
  return fmt::format("; {} takes {} instead", options.older_by, core::shown(older->folder.filename().string()));
}

core::result<formats::tensor_source> open_ours(const fs::path& path, const formats::source_options& options) {
  const open_options how{.fallback_to_previous = options.fallback_to_previous && !options.tag, .say = options.say};
  const auto found = open_checkpoint(storage::real_files(), path, how);
  if (!found) {
    auto parts = open_node_parts(storage::real_files(), path);
    if (!parts || !*parts) return fail(found.error().kind, found.error().text + older_instead(path, options));
    (*parts)->mark = mark_as_read((*parts)->folder);
    return std::move(**parts);
  }
  auto out = source_of(*found);
  out.mark = mark_as_read(found->folder);
  return out;
}

class file_elsewhere final : public formats::source_view {
 public:
  file_elsewhere(storage::file_system& files, std::filesystem::path path, uint64_t bytes, storage::digest128 save_id)
      : files_(files), path_(std::move(path)), bytes_(bytes), save_id_(save_id) {}

  [[nodiscard]] core::result<std::unique_ptr<storage::input_file>> open(storage::file_system&) const override {
    auto file = files_.open(path_);
    if (!file) return file;
    TROUPE_TRY(formats::check_shard(**file, path_, {{}, bytes_}, save_id_));
    return file;
  }
  [[nodiscard]] bool is_compressed() const override { return false; }

 private:
  storage::file_system& files_;
  std::filesystem::path path_;
  uint64_t bytes_;
  storage::digest128 save_id_;
};

}  // namespace

core::result<formats::tensor_source> open_native(storage::file_system& files, const std::filesystem::path& path,
                                                 const open_options& options) {
  TROUPE_ASSIGN(const auto found, open_checkpoint(files, path, options));
  auto out = source_of(found);
  for (auto& f : out.files) f.view = std::make_shared<file_elsewhere>(files, f.path, f.bytes, found.content.save_id);
  return out;
}

constexpr formats::source_format troupe_format{
    .described = "a Troupe checkpoint",
    .lacks = "neither manifest.json nor latest (Troupe)",
    .in_folder = [](const fs::path& folder) -> core::result<formats::likeness> {
      return storage::is_there(folder / manifest_file_name) ? formats::likeness::certain : formats::likeness::none;
    },
    .open = open_ours,
};

}  // namespace troupe::checkpoint
